"""``langchain-rse demo``: passages next to top-k chunks, on Python's language reference.

Of some 40 questions tried, the answer to this one shows best what chunks miss: it has three
numbered steps, whole in one passage, while the top-k chunks of the same length tear it apart. The
docs' pictures show the same example.
"""

from __future__ import annotations

import re
import shlex
import sys
import textwrap
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase, only_writer
from langchain_rse.cli.output import command_line, print_text

if TYPE_CHECKING:
    from langchain_rse.explaining import Piece

QUESTION = "How does a match statement choose a case?"
MAX_CONTEXT_LENGTH = 2_400  # characters

_TITLE = "Compound statements"  # of the document with the answer
_FIRST_WORDS = "1. The subject expression"
_LAST_WORDS = "the match statement is\n     completed."

_PARAGRAPH = re.compile(r"(?:Note:\s+)?\S.*?(?=\n\s*\n|\s*\Z)", re.DOTALL)
_RULE = re.compile(r"[-=*]{3,}")  # below a heading
_MOST_NEIGHBORS = 2

_OFF_TOPIC = "How do I bake lasagna?"
_WIDTH = 74  # of a paragraph beside its label


def demo(kb: Folder = Path("demo-kb")) -> None:
    """Try it: passages vs top-k chunks on Python's documentation.

    Indexes Python's language reference, half a megabyte, and asks a question: the answer is whole
    in one passage, and in pieces in the top-k chunks of the same length.

    Example: langchain-rse demo
    """
    from langchain_core.documents import Document

    reference = language_reference()
    documents = [Document(text, metadata={"source": title}) for title, text in reference.items()]
    characters = sum(map(len, reference.values()))
    with only_writer(kb):
        opened = KnowledgeBase.create(kb)
        opened.retriever.add_documents(documents, show_progress=sys.stderr.isatty())
        print_text(f"Python's language reference: {characters:,} characters, indexed in {kb}")
        opened.fit_floor()
    comparison = opened.retriever.compare(QUESTION, max_context_length=MAX_CONTEXT_LENGTH)

    print_text("")
    print_text(QUESTION, "bold")
    print_text(f"{comparison.summary}. Each line is a paragraph, and > marks the answer.")
    _print_outline("Top-k chunks", outline_of(comparison.other))
    _print_outline("Passages", outline_of(comparison.passages))

    program = command_line()
    folder = shlex.quote(str(kb))
    for line in (
        "",
        "Read both in full, or ask about something that the reference does not cover:",
        f'{program} compare "{QUESTION}" --kb {folder} --max-context-length {MAX_CONTEXT_LENGTH}',
        f'{program} query "{_OFF_TOPIC}" --kb {folder}',
        "Then use your own files:",
        f"{program} index PATH... --kb my-kb",
        f'{program} query "YOUR QUESTION" --kb my-kb',
    ):
        print_text(line)


def _print_outline(name: str, outline: Outline) -> None:
    """Print a line for each paragraph, with a label in front of the first one of a text."""
    print_text("")
    print_text(f"{name}: {outline.answered:.0%} of the answer", "bold")
    numbered = [(str(number), paragraphs) for number, paragraphs in enumerate(outline.pieces, 1)]
    for label, paragraphs in [*numbered, ("missing:", outline.missing)]:
        style = "red" if label == "missing:" else "bold green"
        for position, (text, is_answer) in enumerate(paragraphs):
            shown = "" if position else label
            mark = ">" if is_answer else " "
            line = textwrap.shorten(text, _WIDTH, placeholder=" ...")
            print_text(f"{shown:>8} {mark} {line}", style if is_answer else "")


Paragraph = tuple[str, bool]
"""A paragraph in one line, without the rules that underline headings, and True if it is a part of
the answer."""


class Outline(NamedTuple):
    """The texts that a retriever returned, with one line per paragraph.

    Where more than two paragraphs in a row are not part of the answer, the first one is kept.
    """

    pieces: list[list[Paragraph]]
    answered: float  # share of the answer, in characters
    missing: list[Paragraph]  # the answer's paragraphs that no piece has


@cache
def language_reference() -> dict[str, str]:
    """Python's language reference by title: half a megabyte, part of CPython for `help()`."""
    from pydoc_data.topics import topics

    # Some topics have the same text, such as "else" and "if".
    return {text.partition("\n")[0]: text for text in sorted(set(topics.values()))}


def outline_of(pieces: Sequence[Piece]) -> Outline:
    """Split texts into paragraphs, and mark those of the answer."""
    document = language_reference()[_TITLE]
    start = document.index(_FIRST_WORDS)
    end = document.index(_LAST_WORDS, start) + len(_LAST_WORDS)
    answer = _paragraphs_of(document[start:end])
    found = []
    outlines = []
    for piece in pieces:
        outline = []
        for is_answer, neighbors in groupby(_paragraphs_of(piece.text), answer.__contains__):
            texts = list(neighbors)
            if is_answer:
                found += texts
            elif len(texts) > _MOST_NEIGHBORS:
                texts = [texts[0], "..."]
            outline += [(text, is_answer) for text in texts]
        outlines.append(outline)
    missing = [(text, True) for text in answer if text not in found]
    answered = len("".join(found)) / len("".join(answer))
    return Outline(outlines, answered, missing)


def _paragraphs_of(text: str) -> list[str]:
    """Split a text into paragraphs of one line each."""
    paragraphs = []
    for match in _PARAGRAPH.finditer(text):
        words = [word for word in match[0].split() if not _RULE.fullmatch(word)]
        paragraphs.append(" ".join(words))
    return paragraphs
