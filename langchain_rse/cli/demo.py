"""``langchain-rse demo``: segments beside chunks, on the Python reference."""

from pathlib import Path
from typing import Annotated

import typer
from langchain_core.documents import Document

from langchain_rse.cli.compare import print_comparison
from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase, only_writer
from langchain_rse.cli.output import command_line, print_text

_QUESTION = "How does a metaclass create a class?"
_CHARACTERS = 4_000  # on each side
_LINES = 11  # of the passage


def demo(
    kb: Folder = Path("demo-kb"),
    *,
    full: Annotated[bool, typer.Option("--full", help="Print the whole text.")] = False,
) -> None:
    """Try it: passages vs top-k chunks on Python's documentation.

    Indexes the Python reference, half a megabyte, and asks it a question.

    Example: langchain-rse demo --full
    """
    documents = _language_reference()
    characters = sum(len(document.page_content) for document in documents)
    with only_writer(kb):
        opened = KnowledgeBase.create(kb)
        opened.add(documents, at_once=True)
    chunks = opened.embeddings.texts_embedded
    indexed = f"indexed in {chunks:,} chunks into {kb}" if chunks else f"already indexed in {kb}"
    print_text(f"The Python reference, {characters:,} characters, {indexed}.\n", lines=True)
    comparison = opened.retriever.compare(_QUESTION, max_context_length=_CHARACTERS)
    print_comparison(comparison, None if full else _LINES)
    legend = "+ is text that the best chunks lack"
    if not full:
        legend += " (--full prints all)"
    print_text(f"\n{legend}. Now your own:", lines=True)
    print_text(f"{command_line()} index PATH... --kb my-kb")
    print_text(f"{command_line()} compare QUESTION --kb my-kb")


def _language_reference() -> list[Document]:
    """The language reference that every CPython contains for help(): half a megabyte."""
    from pydoc_data.topics import topics

    # Some topics share a text, such as "else" and "if": the first name counts.
    names_by_text = {topics[name]: name for name in sorted(topics, reverse=True)}
    return [Document(text, metadata={"source": name}) for text, name in names_by_text.items()]
