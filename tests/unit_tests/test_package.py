"""The package as a whole: what it exports, documents and needs."""

import importlib
import importlib.metadata
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import langchain_rse
from langchain_rse import errors

PACKAGE = Path(langchain_rse.__path__[0])
# What extras and the tests install, by its name in imports.
EXTRAS = [
    *("chromadb", "cohere", "langchain_chroma", "langchain_classic", "langchain_community"),
    *("matplotlib", "mcp", "psycopg", "pypdfium2", "re2", "rich", "scipy", "tiktoken"),
    *("tokenizers", "tqdm", "typer", "wordllama"),
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


def test_the_base_install_indexes_and_retrieves_without_any_extra() -> None:
    result = without_extras("""
import asyncio
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.embeddings import WordLlamaEmbeddings
retriever = RSERetriever(
    vectorstore=InMemoryVectorStore(DeterministicFakeEmbedding(size=8)),
    docstore=SQLDocStore("sqlite://"),
)
retriever.add_documents([Document("some text")], ids=["a"])
assert retriever.invoke("some text")[0].page_content == "some text"
assert asyncio.run(retriever.ainvoke("some text"))[0].page_content == "some text"
try:
    retriever.add_documents([Document("other text")], show_progress=True)
except ImportError as error:
    assert "pip install 'langchain-rse[progress]'" in str(error)
else:
    raise AssertionError
try:
    WordLlamaEmbeddings().embed_query("a")
except ImportError as error:
    assert "WordLlamaEmbeddings needs wordllama: pip install" in str(error)
else:
    raise AssertionError
try:
    from langchain_rse.tools import create_mcp_server
except ImportError as error:
    assert "create_mcp_server needs mcp: pip install 'langchain-rse[mcp]'" in str(error)
else:
    raise AssertionError
""")
    assert result.returncode == 0, result.stderr


ERRORS: dict[str, Any] = {
    "AdoptionError": ValueError,
    "ScoreFloorError": ValueError,
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


def test_errors_share_a_base_and_are_the_built_in_kinds_that_callers_expect() -> None:
    defined = {name for name, item in vars(errors).items() if inspect.isclass(item)}
    assert defined == {*ERRORS, "RSEError"}
    for name, kinds in ERRORS.items():
        bases = getattr(errors, name).__mro__
        assert {errors.RSEError, *(kinds if isinstance(kinds, tuple) else [kinds])} <= set(bases)


def test_every_extra_that_a_message_names_exists() -> None:
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.glob("**/*.py")]
    named = re.findall(r"langchain-rse\[([\w,]+)\]", "\n".join(texts))
    extras = importlib.metadata.metadata("langchain-rse").get_all("Provides-Extra") or []
    assert {extra for names in named for extra in names.split(",")} <= set(extras)
