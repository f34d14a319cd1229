"""``pip install langchain-rse`` in a virtual environment of its own, without any extra."""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio, importlib, pkgutil
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
import langchain_rse
from langchain_rse import RSERetriever, SQLDocStore

for module in pkgutil.iter_modules(langchain_rse.__path__):
    if module.name != "cli":
        importlib.import_module(f"langchain_rse.{module.name}")
retriever = RSERetriever(
    vectorstore=InMemoryVectorStore(DeterministicFakeEmbedding(size=8)),
    docstore=SQLDocStore("sqlite:///kb/chunks.db"),
)
retriever.add_documents([Document("some text")], ids=["a"])
print(retriever.invoke("some text")[0].page_content)
print(asyncio.run(retriever.ainvoke("some text"))[0].page_content)
"""


def test_the_base_install_is_enough(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    installed = run("-m", "pip", "install", "--quiet", str(ROOT))
    assert installed.returncode == 0, installed.stderr
    result = run("-W", "error", "-c", PROGRAM)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[:2] == ["some text", "some text"]

    command = run("-m", "langchain_rse", "demo")
    assert command.returncode == 1
    assert "pip install 'langchain-rse[cli]'" in command.stderr
