"""``langchain-rse demo``: chunks beside segments, on the Python reference."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from langchain_chroma import Chroma
from langchain_core.documents import Document
from rich.rule import Rule
from rich.text import Text

from langchain_rse.cli.knowledge_base import Folder, open_or_create
from langchain_rse.cli.output import command_line, console, print_panel, print_segment, shorten

# Their answers are longer than one chunk of 800 characters.
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
    opened = open_or_create(kb)
    documents = _python_reference()
    characters = sum(len(document.page_content) for document in documents)
    console.print(
        f"The Python language reference: {len(documents)} documents, {characters:,} characters"
    )
    started = time.perf_counter()
    opened.retriever.add_documents(documents, show_progress=True)
    if embedded := opened.embeddings.texts_embedded:
        seconds = time.perf_counter() - started
        console.print(f"Indexed {embedded} chunks in {seconds:.1f} s into {kb}")
    else:
        console.print(f"Already indexed in {kb}: nothing to do")

    for number, question in enumerate(_QUESTIONS, 1):
        console.print(Rule(style="bold"))
        console.print(Text(f"Question {number}: {question}\n", style="bold"))
        _print_chunks(opened.vectorstore, question)
        segments = opened.retriever.invoke(question, k=_SEGMENTS)
        console.print(Text(f"\nRSE: the {len(segments)} best segments", style="bold green"))
        for segment in segments:
            print_segment(segment, full=full)
    console.print(
        f"\nAsk your own question:  {command_line()} query QUESTION --kb {kb}\n"
        f"Add your own documents: {command_line()} index PATH... --kb {kb}",
        soft_wrap=True,
    )


def _python_reference() -> list[Document]:
    """The topics of the language reference that every CPython contains for help()."""
    from pydoc_data.topics import topics  # noqa: PLC0415 - half a megabyte

    return [
        Document(page_content=text, metadata={"source": name})
        for name, text in sorted(topics.items())
    ]


def _print_chunks(vectorstore: Chroma, question: str) -> None:
    """Print what plain retrieval returns."""
    console.print(Text(f"Plain retrieval: the {_CHUNKS} best chunks", style="bold yellow"))
    for chunk, distance in vectorstore.similarity_search_with_score(question, k=_CHUNKS):
        fields = chunk.metadata
        place = f"{fields['source']} · characters {fields['start_index']}-{fields['end_index']}"
        print_panel(f"{place} · score {1 - distance:.2f}", shorten(chunk.page_content))
