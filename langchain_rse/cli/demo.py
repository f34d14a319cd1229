"""``langchain-rse demo``: passages next to top-k chunks, on Python's language reference."""

import shlex
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

from langchain_rse.cli.example import (
    MAX_CONTEXT_LENGTH,
    QUESTION,
    Outline,
    Paragraph,
    language_reference,
    outline_of,
)
from langchain_rse.cli.knowledge_base import KnowledgeBase, only_writer
from langchain_rse.cli.options import Folder
from langchain_rse.cli.output import command_line, console, print_text

_OFF_TOPIC = "How do I bake lasagna?"
_ANSWER = "bold green"
_MAX_WIDTH = 80  # of a line


def demo(kb: Folder = Path("demo-kb")) -> None:
    """Try it: passages vs top-k chunks on Python's documentation.

    Indexes Python's language reference, half a megabyte, and asks a question: the answer is whole
    in one passage, and in pieces in the top-k chunks of the same length.

    Example: langchain-rse demo
    """
    opened = _index(kb)
    comparison = opened.retriever.compare(QUESTION, max_context_length=MAX_CONTEXT_LENGTH)
    chunks = outline_of(comparison.other)
    passages = outline_of(comparison.passages)
    length = sum(len(piece.text) for piece in comparison.passages)

    print_text("")
    print_text(QUESTION, "bold")
    print_text(f"{length:,} characters from each side, one line per paragraph. > marks the answer.")
    print_text("")
    _print_outline(f"Top-k chunks: {chunks.answered:.0%} of the answer", chunks)
    if chunks.missing:
        print_text("  missing:", "red")
        _print_paragraphs("   ", chunks.missing, "red")
    print_text("")
    _print_outline(f"Passages: {passages.answered:.0%} of the answer", passages)

    program = command_line()
    folder = shlex.quote(str(kb))
    print_text("")
    print_text("Read both in full, or ask about something that the reference does not cover:")
    print_text(
        f'{program} compare "{QUESTION}" --kb {folder} --max-context-length {MAX_CONTEXT_LENGTH}'
    )
    print_text(f'{program} query "{_OFF_TOPIC}" --kb {folder}')
    print_text("Then use your own files:")
    print_text(f"{program} index PATH... --kb my-kb")
    print_text(f'{program} query "YOUR QUESTION" --kb my-kb')


def _index(folder: Path) -> KnowledgeBase:
    """Index the reference, and fit the score floor, unless both are done."""
    from langchain_core.documents import Document

    reference = language_reference()
    documents = [Document(text, metadata={"source": title}) for title, text in reference.items()]
    characters = sum(map(len, reference.values()))
    with only_writer(folder):
        opened = KnowledgeBase.create(folder)
        opened.retriever.add_documents(documents, show_progress=sys.stderr.isatty())
        print_text(f"Python's language reference: {characters:,} characters, indexed in {folder}")
        opened.fit_floor()
    return opened


def _print_outline(title: str, outline: Outline) -> None:
    print_text(title, "bold")
    for number, paragraphs in enumerate(outline.pieces, start=1):
        _print_paragraphs(f"{number:>3}", paragraphs, _ANSWER)


def _print_paragraphs(label: str, paragraphs: Iterable[Paragraph], style: str) -> None:
    """Print a line for each paragraph, the first one with a label."""
    width = min(console.width, _MAX_WIDTH) - len(label) - 3
    for text, is_answer in paragraphs:
        line = textwrap.shorten(text, width, placeholder=" ...")
        mark = ">" if is_answer else " "
        print_text(f"{label} {mark} {line}", style if is_answer else "")
        label = " " * len(label)
