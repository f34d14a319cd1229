"""``pip install langchain-rse`` in a virtual environment of its own, without any extra."""

from pathlib import Path

import pytest

from tests.integration_tests.environments import Environment

PROGRAM = """
import asyncio, importlib, pkgutil
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
import langchain_rse
from langchain_rse import RSERetriever, SQLDocStore

for module in pkgutil.walk_packages(langchain_rse.__path__, "langchain_rse."):
    if not module.name.startswith(("langchain_rse.cli.", "langchain_rse.ray")):
        importlib.import_module(module.name)
retriever = RSERetriever(
    vectorstore=InMemoryVectorStore(DeterministicFakeEmbedding(size=8)),
    docstore=SQLDocStore("sqlite:///kb/chunks.db"),
)
retriever.add_documents([Document("some text")], ids=["a"])
print(retriever.invoke("some text")[0].page_content)
print(asyncio.run(retriever.ainvoke("some text"))[0].page_content)
"""


@pytest.mark.slow
def test_the_base_install_is_enough(tmp_path: Path) -> None:
    environment = Environment(tmp_path, alone=True)
    result = environment.run("-W", "error", "-c", PROGRAM)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[:2] == ["some text", "some text"]

    ray = environment.run("-c", "import langchain_rse.ray")
    assert "pip install 'langchain-rse[ray]'" in ray.stderr

    command = environment.run("-m", "langchain_rse", "demo")
    assert command.returncode == 1
    assert "pip install 'langchain-rse[cli]'" in command.stderr
