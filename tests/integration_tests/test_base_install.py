"""The wheel, and ``pip install langchain-rse`` without extras in an environment of its own."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.integration_tests.environments import Environment

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, importlib, pkgutil
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
import langchain_rse
from langchain_rse import RSERetriever, SQLDocStore

NEED_EXTRAS = (
    "langchain_rse.cli.",
    *("langchain_rse.explaining.plots", "langchain_rse.explaining.report"),
    "langchain_rse.tools.mcp",
    "langchain_rse.tools.middleware",
)
for module in pkgutil.walk_packages(langchain_rse.__path__, "langchain_rse."):
    if not module.name.startswith(NEED_EXTRAS):
        importlib.import_module(module.name)
for docstore in (SQLDocStore("sqlite:///kb/chunks.db"), InMemoryStore()):
    retriever = RSERetriever(
        vectorstore=InMemoryVectorStore(DeterministicFakeEmbedding(size=8)), docstore=docstore
    )
    retriever.add_documents([Document("some text")], ids=["a"])
    print(retriever.invoke("some text")[0].page_content)
    print(asyncio.run(retriever.ainvoke("some text"))[0].page_content)
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel: that of ``make dist``, or a new one."""
    if given := os.environ.get("DIST"):
        return Path(given).resolve()
    folder = tmp_path_factory.mktemp("dist")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder)]
    subprocess.run([*pip, str(ROOT)], check=True)
    return folder


def files_of(folder: Path) -> set[str]:
    """The files below a folder that are not made by running them."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}


def test_the_wheel_holds_the_package_and_nothing_else(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    information = {name for name in held if ".dist-info/" in name}
    assert {name.split("/", 1)[1] for name in information} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }
    assert held - information == files_of(ROOT / "langchain_rse")
    assert "langchain_rse/py.typed" in held


if "DIST" in os.environ:  # `make dist` builds the sdist

    def test_the_sdist_holds_what_its_tests_need(dist: Path) -> None:
        (sdist,) = dist.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            held = {name.split("/", 1)[1] for name in archive.getnames()}
        wanted = {"pyproject.toml", "README.md", "CHANGELOG.md", "SECURITY.md", "CITATION.cff"}
        for folder in ("langchain_rse", "tests", "docs"):
            wanted |= files_of(ROOT / folder)
        assert wanted <= held
        assert not {name for name in held if name.startswith(".") and name != ".gitignore"}


def test_the_base_install_is_enough(tmp_path: Path, dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    environment = Environment(tmp_path, str(wheel), alone=True)
    result = environment.run("-W", "error", "-c", PROGRAM)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[:4] == ["some text"] * 4

    command = environment.run("-m", "langchain_rse", "demo")
    assert command.returncode == 1
    assert "pip install 'langchain-rse[cli]'" in command.stderr
