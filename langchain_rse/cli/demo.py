"""``langchain-rse demo``: chunks beside segments, on the Python reference."""

from pathlib import Path
from typing import Annotated

import typer
from langchain_core.documents import Document

from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase, only_writer
from langchain_rse.cli.output import command_line, print_parts, print_segment, print_text, shorten

# Questions whose answers are longer than one chunk of 800 characters.
_QUESTIONS = (
    "What can a format specification contain, and what do its options mean?",
    "Which escape sequences do string literals know?",
    "How does the import system find and load a module?",
)
_CHUNKS = 5
_SEGMENTS = 2


def demo(
    kb: Folder = Path("demo-kb"),
    *,
    full: Annotated[bool, typer.Option("--full", help="Print the whole text.")] = False,
) -> None:
    """Index the Python reference and ask it three questions: chunks beside segments."""
    documents = _language_reference()
    characters = sum(len(document.page_content) for document in documents)
    size = f"{len(documents)} documents, {characters:,} characters"
    print_text(f"The Python language reference: {size}")
    with only_writer(kb):
        opened = KnowledgeBase.create(kb)
        opened.add(documents, at_once=True)
    chunks = opened.embeddings.texts_embedded
    if chunks:
        print_text(f"Indexed {chunks} chunks into {kb}")
    else:
        print_text(f"Already indexed in {kb}")
    for number, question in enumerate(_QUESTIONS, 1):
        print_text(f"Question {number}: {question}\n", "bold", lines=True)
        _print_chunks(opened, question)
        segments = opened.retriever.invoke(question, k=_SEGMENTS)
        print_text(f"\nRSE: the {len(segments)} best segments", "bold green", lines=True)
        for segment in segments:
            print_segment(segment, full=full, question=question)
    print_text(
        f"\nAsk your own question:  {command_line()} query QUESTION --kb {kb}\n"
        f"Add your own documents: {command_line()} index PATH... --kb {kb}",
        lines=True,
    )


def _language_reference() -> list[Document]:
    """The language reference that every CPython contains for help(): half a megabyte."""
    from pydoc_data.topics import topics

    # Some topics share a text, such as "else" and "if": the first name counts.
    names_by_text = {topics[name]: name for name in sorted(topics, reverse=True)}
    return [Document(text, metadata={"source": name}) for text, name in names_by_text.items()]


def _print_chunks(opened: KnowledgeBase, question: str) -> None:
    """Print the chunks that plain retrieval returns."""
    from langchain_rse.tools.passages import citation_of

    print_text(f"Plain retrieval: the {_CHUNKS} best chunks", "bold yellow")
    chunks = opened.vectorstore.similarity_search_with_score(question, k=_CHUNKS)
    for chunk, distance in chunks:
        title = f"{citation_of(chunk.metadata)} · score {1 - distance:.2f}"
        name = f"chunk {chunk.metadata['chunk_index']}"
        print_parts(title, (name, shorten(chunk.page_content)))
