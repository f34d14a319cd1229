"""``langchain-rse demo``: segments beside chunks, on the Python reference."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_rse.cli.compare import CHARACTERS, compared, excerpt_of, print_lines
from langchain_rse.cli.knowledge_base import KnowledgeBase, only_writer
from langchain_rse.cli.options import Folder
from langchain_rse.cli.output import command_line, print_text, width_of_lines

if TYPE_CHECKING:
    from langchain_core.documents import Document

_QUESTION = "How does a metaclass create a class?"
_LINES = 11  # of the passage


def demo(kb: Folder = Path("demo-kb")) -> None:
    """Try it: passages vs top-k chunks on Python's documentation.

    Indexes the Python reference, half a megabyte, and asks it a question.

    Example: langchain-rse demo
    """
    documents = _language_reference()
    characters = sum(len(document.page_content) for document in documents)
    with only_writer(kb):
        opened = KnowledgeBase.create(kb)
        opened.retriever.add_documents(documents, show_progress=sys.stderr.isatty())
    chunks = opened.embeddings.texts_embedded
    indexed = f"indexed in {chunks:,} chunks into {kb}" if chunks else f"already indexed in {kb}"
    print_text(f"The Python reference, {characters:,} characters, {indexed}.")
    print_text("")
    comparison = compared(opened, _QUESTION, CHARACTERS)
    print_lines(excerpt_of(list(comparison.lines(width_of_lines())), _LINES))
    print_text("")
    print_text("+ is text that the best chunks lack. All of it, and then your own:")
    program = command_line()
    print_text(f'{program} compare "{_QUESTION}" --kb {kb}')
    print_text(f"{program} index PATH... --kb my-kb")
    print_text(f"{program} compare QUESTION --kb my-kb")


def _language_reference() -> list[Document]:
    """The language reference that every CPython contains for help(): half a megabyte."""
    from pydoc_data.topics import topics

    from langchain_core.documents import Document

    # Some topics share a text, such as "else" and "if": the first name counts.
    names_by_text = {topics[name]: name for name in sorted(topics, reverse=True)}
    return [Document(text, metadata={"source": name}) for text, name in names_by_text.items()]
