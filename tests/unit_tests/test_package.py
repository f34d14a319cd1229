"""The package as a whole: what it exports, documents and needs."""

import ast
import importlib
import importlib.metadata
import inspect
import itertools
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import langchain_rse
from langchain_rse import errors

PACKAGE = Path(langchain_rse.__path__[0])
MODULES = sorted(module.name for module in pkgutil.iter_modules(langchain_rse.__path__))
# What extras and the tests install, by its name in imports.
EXTRAS = [
    "chromadb",
    "cohere",
    "langchain_chroma",
    "langchain_classic",
    "langchain_community",
    "matplotlib",
    "psycopg",
    "pypdfium2",
    "rich",
    "scipy",
    "tiktoken",
    "tokenizers",
    "tqdm",
    "typer",
    "wordllama",
]


def without_extras(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python that has none of the extras."""
    blocker = f"""
import sys
import typing
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
"""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", blocker + code],
        capture_output=True,
        text=True,
        check=False,
    )


def test_embeddings_say_what_to_install() -> None:
    result = without_extras(
        "from langchain_rse.embeddings import WordLlamaEmbeddings\n"
        "WordLlamaEmbeddings().embed_query('a')"
    )
    assert "ImportError: WordLlamaEmbeddings needs wordllama: pip install" in result.stderr


def test_embeddings_leave_the_root_logger_alone() -> None:
    code = """
import logging
root = logging.getLogger()
before = root.level, list(root.handlers)
from langchain_rse.embeddings import WordLlamaEmbeddings
WordLlamaEmbeddings().embed_query("a")
assert (root.level, list(root.handlers)) == before, (root.level, root.handlers)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def described_constants(module: str) -> dict[str, bool]:
    """The names assigned in a module or in those below it: whether a string follows each."""
    folder = PACKAGE / module
    files = folder.glob("**/*.py") if folder.is_dir() else [folder.with_suffix(".py")]
    found: dict[str, bool] = {}
    for file in files:
        body = ast.parse(file.read_text(encoding="utf-8")).body
        for statement, after in itertools.pairwise([*body, ast.Pass()]):
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                is_described = ast.unparse(after).startswith(("'", '"'))
                for node in ast.walk(statement):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                        found[node.id] = is_described or found.get(node.id, False)
    return found


@pytest.mark.parametrize("name", [name for name in MODULES if name != "__main__"])
def test_every_public_name_is_documented(name: str) -> None:
    if name == "ray":  # an extra that "all" does not have
        pytest.importorskip("pyarrow")
    module = importlib.import_module(f"langchain_rse.{name}")
    assert module.__doc__
    constants = described_constants(name)
    for public in getattr(module, "__all__", ()):
        if public in constants:
            assert constants[public], public
            continue
        item = inspect.unwrap(getattr(module, public))
        assert item.__doc__, public
        if inspect.isclass(item):
            for attribute, member in vars(item).items():
                if inspect.isroutine(member) and not attribute.startswith("_"):
                    assert inspect.getdoc(member), f"{public}.{attribute}"


ERRORS: dict[str, Any] = {
    "AdoptionError": ValueError,
    "CalibrationError": ValueError,
    "CandidateError": ValueError,
    "CorruptRecordError": ValueError,
    "EmbeddingError": ValueError,
    "FormatError": ValueError,
    "FullTextError": ValueError,
    "MetadataError": (TypeError, ValueError),
    "MissingRecordError": LookupError,
    "SplittingError": ValueError,
    "StoreMismatchError": ValueError,
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_share_a_base_and_are_the_built_in_kinds_that_callers_expect(name: str) -> None:
    kinds = ERRORS[name] if isinstance(ERRORS[name], tuple) else (ERRORS[name],)
    error = getattr(errors, name)("why")
    assert isinstance(error, errors.RSEError)
    for kind in kinds:
        assert isinstance(error, kind)
    assert str(error) == "why"


def test_the_table_of_errors_has_all() -> None:
    defined = {name for name, item in vars(errors).items() if inspect.isclass(item)}
    assert defined == {*ERRORS, "RSEError"}


def test_every_extra_that_a_message_names_exists() -> None:
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.glob("**/*.py")]
    named = re.findall(r"langchain-rse\[([\w,]+)\]", "\n".join(texts))
    extras = importlib.metadata.metadata("langchain-rse").get_all("Provides-Extra") or []
    assert {extra for names in named for extra in names.split(",")} <= set(extras)
