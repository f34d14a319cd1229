"""What other libraries wrote is read in without embedding anything: see docs/migrating.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics
from types import ModuleType
from typing import Any

import chromadb
import pytest
from chromadb.api.shared_system_client import SharedSystemClient
from langchain_chroma import Chroma
from langchain_classic.retrievers import ParentDocumentRetriever
from langchain_classic.storage import LocalFileStore, create_kv_docstore
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from langchain_rse import ExistingIndex, RSERetriever, SQLDocStore
from tests.integration_tests.dsrag_knowledge_base import KnowledgeBase
from tests.integration_tests.llama_index_store import write_nodes
from tests.unit_tests import fakes

pytestmark = pytest.mark.nightly  # langchain-classic has an end
way = fakes.way
Way = fakes.Way

QUERY = "how is a format specification written"
TEXTS = {name: topics[name].strip() for name in ("formatstrings", "strings", "import")}


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    SharedSystemClient.clear_system_cache()


@pytest.fixture
def model() -> fakes.BagOfWords:
    return fakes.BagOfWords()


@pytest.fixture
def chroma(tmp_path: Path, model: fakes.BagOfWords) -> Chroma:
    return Chroma("old", model, persist_directory=str(tmp_path / "kb"))


def documents() -> list[Document]:
    return [Document(text, metadata={"source": name}) for name, text in TEXTS.items()]


def parents_of(store: Chroma, texts: Any, **fields: Any) -> ParentDocumentRetriever:
    splitter = RecursiveCharacterTextSplitter(chunk_size=400, chunk_overlap=50)
    return ParentDocumentRetriever(
        vectorstore=store, child_splitter=splitter, search_kwargs={"k": 6}, **texts, **fields
    )


def adopted(way: Way, store: Chroma, docstore: Any, **index: Any) -> RSERetriever:
    retriever: RSERetriever = way.call(
        RSERetriever.from_existing_index,
        RSERetriever.afrom_existing_index,
        store,
        docstore,
        ExistingIndex(**index),
    )
    return retriever


def docstore_in(folder: Path) -> SQLDocStore:
    return SQLDocStore(f"sqlite:///{folder}/chunks.db")


def stored(store: Chroma) -> Any:
    return store.get(include=["documents", "metadatas"])


@pytest.mark.parametrize("kept", ["LocalFileStore", "InMemoryStore", "byte_store"])
@fakes.both_ways
def test_parents_become_passages_without_embedding(
    way: Way, kept: str, chroma: Chroma, model: fakes.BagOfWords, tmp_path: Path
) -> None:
    files = LocalFileStore(tmp_path / "parents")
    kinds: dict[str, dict[str, Any]] = {
        "LocalFileStore": {"docstore": create_kv_docstore(files)},
        "InMemoryStore": {"docstore": InMemoryStore()},
        "byte_store": {"byte_store": files},
    }
    old = parents_of(chroma, kinds[kept])
    old.add_documents(documents())
    before, whole = stored(chroma), old.invoke(QUERY)
    model.batches.clear()

    retriever = adopted(way, chroma, docstore_in(tmp_path), doc_id_key="doc_id", texts=old.docstore)
    passages = way.invoke(retriever, QUERY, max_context_length=3_000)
    assert model.batches == []
    assert stored(chroma) == before
    assert passages
    for passage in passages:
        place = slice(passage.metadata["start_index"], passage.metadata["end_index"])
        assert TEXTS[passage.metadata["source"]][place] == passage.page_content
    # Less than the parents, and of the document that they are of.
    assert passages[0].metadata["source"] == whole[0].metadata["source"] == "formatstrings"
    assert sum(map(len, (s.page_content for s in passages))) <= 3_000 < len(whole[0].page_content)

    # Another program opens the two stores, without langchain-classic.
    again = RSERetriever(vectorstore=chroma, docstore=docstore_in(tmp_path))
    assert way.invoke(again, QUERY, max_context_length=3_000) == passages
    name = passages[0].metadata["doc_id"]
    way.add(again, [Document("A new format.", metadata={"source": "formatstrings"})], ids=[name])
    found = way.invoke(again, "a new format", max_context_length=None, fetch_k=500)
    assert [s.page_content for s in found if s.metadata["doc_id"] == name] == ["A new format."]
    assert 0 < len(stored(chroma)["ids"]) < len(before["ids"])


def sentences(text: str, overlap: int) -> list[str]:
    """Sentences with the white space after them; or stripped ones, two at a time, with overlap."""
    split = re.split(r"(?<=[.!?]\s)(?=\S)", text)
    if not overlap:
        return split
    return ["".join(split[number : number + 2]).strip() for number in range(len(split) - 1)]


@pytest.mark.parametrize("overlap", [0, 1], ids=["sentences", "leaves that overlap"])
def test_nodes_of_llama_index_become_passages(
    way: Way, overlap: int, model: fakes.BagOfWords, tmp_path: Path
) -> None:
    client = chromadb.PersistentClient(str(tmp_path / "kb"))
    texts = {
        f"pumps {n}": " ".join(
            f"Pump {n} with the number {m} needs oil every {m} weeks." for m in range(30)
        )
        for n in range(2)
    }
    for name, text in texts.items():
        write_nodes(client, "nodes", name, sentences(text, overlap), model)
    model.batches.clear()
    joining: dict[str, Any] = (
        {"chunk_overlap": 60} if overlap else {"separator": "", "chunk_overlap": 0}
    )
    retriever = way.call(
        RSERetriever.from_existing_index,
        RSERetriever.afrom_existing_index,
        Chroma("nodes", model, client=client),
        docstore_in(tmp_path),
        ExistingIndex(doc_id_key="ref_doc_id", in_store_order=True, **joining),
        metadata_rules=dict.fromkeys(("window", "original_text", "_node_content"), "drop"),
    )
    passages = way.invoke(retriever, "which pump needs oil every 7 weeks")
    assert model.batches == []
    assert passages
    for passage in passages:
        place = slice(passage.metadata["start_index"], passage.metadata["end_index"])
        assert texts[passage.metadata["doc_id"]][place] == passage.page_content
        assert passage.metadata["file_name"].startswith("pumps")
        assert not {"window", "window_start", "_node_content_start"} & passage.metadata.keys()


# dsRAG: the example of the page is run as it stands.

PAGE = Path(__file__).parents[2] / "docs" / "migrating.md"
KNOWLEDGE: dict[str, list[dict[str, Any]]] = {
    "birds.pdf": [
        {"chunk_text": "Herons fish.", "document_title": "Birds", "chunk_page_start": 1},
        {"chunk_text": "They stand still.", "document_title": "Birds", "section_title": "Ways"},
        {"chunk_text": "Owls hunt.", "document_title": "Birds", "chunk_page_start": 2},
    ],
    "fish": [{"chunk_text": "Pikes hunt.", "document_title": "", "section_title": ""}],
    "empty": [],
}


@pytest.fixture
def example(
    model: fakes.BagOfWords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """What the example of the page has defined after it was run on a knowledge base."""
    (code,) = re.findall(
        r"^```python\n(.*?)^```$",
        PAGE.read_text(encoding="utf-8").split("## dsRAG")[1].split("\n## ")[0],
        re.DOTALL | re.MULTILINE,
    )
    knowledge_base = KnowledgeBase(KNOWLEDGE, model)
    module = ModuleType("dsrag.knowledge_base")
    vars(module)["KnowledgeBase"] = lambda _kb_id, exists_ok: exists_ok and knowledge_base
    monkeypatch.setitem(sys.modules, "dsrag", ModuleType("dsrag"))
    monkeypatch.setitem(sys.modules, "dsrag.knowledge_base", module)
    monkeypatch.setattr("langchain_rse.embeddings.WordLlamaEmbeddings", lambda: model)
    monkeypatch.chdir(tmp_path)
    model.batches.clear()
    defined: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, str(PAGE), "exec"), defined)  # noqa: S102
    assert model.batches == []
    return defined


def check_birds(way: Way, retriever: RSERetriever) -> None:
    retriever.config = fakes.EVERYTHING
    passages = way.invoke(retriever, "what do owls hunt")
    passages_by_document = {passage.metadata["doc_id"]: passage for passage in passages}
    assert passages_by_document.keys() == {"birds.pdf", "fish"}
    birds = passages_by_document["birds.pdf"]
    assert birds.page_content == "Herons fish.\nThey stand still.\nOwls hunt."
    assert (birds.metadata["page_start"], birds.metadata["page_end"]) == (1, 2)


def test_a_knowledge_base_of_dsrag_keeps_its_vectors(way: Way, example: dict[str, Any]) -> None:
    stored_vectors = example["collection"].get(include=["embeddings"])["embeddings"]
    assert len(stored_vectors) == 4
    for vector, expected in zip(stored_vectors, example["kb"].vector_db.vectors, strict=True):
        assert list(vector) == pytest.approx(expected)
    check_birds(way, example["retriever"])
