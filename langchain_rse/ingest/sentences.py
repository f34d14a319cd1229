"""The default text splitter, whose chunks end where paragraphs, lines or sentences do."""

from __future__ import annotations

from langchain_text_splitters import RecursiveCharacterTextSplitter

_CHUNK_SIZE = 800

_CLOSING = (
    "\"'\u201d\u2019\u00bb)\\]\u300d\u300f\uff09"  # marks that may follow the end of a sentence
)
# A full stop after a single capital letter, as in "J. Smith", or before a small letter, as in
# "e.g. this", ends no sentence. Arabic and Urdu have marks of their own.
_SENTENCE_END = rf"(?<!\s[A-Z])[.?!\u2026\u061f\u06d4][{_CLOSING}]*\s+(?![a-z])"
# Scripts that need no space after a sentence: Chinese, Japanese, Hindi, Khmer, Burmese, Amharic.
_SENTENCE_END_WITHOUT_SPACE = (
    rf"[\u3002\uff01\uff1f\uff61\u0964\u0965\u17d4\u104b\u1362][{_CLOSING}]*\s*"
)
_SEPARATORS = (
    r"\n\n",
    r"\n",
    f"(?:{_SENTENCE_END}|{_SENTENCE_END_WITHOUT_SPACE})",
    " ",
    "",
)


def default_text_splitter(chunk_size: int = _CHUNK_SIZE) -> RecursiveCharacterTextSplitter:
    """Return the splitter that is used when none is given.

    It cuts at empty lines, else at ends of lines, of sentences in any script, or of words.

    Args:
        chunk_size: The most characters of a chunk; by default 800.
    """
    return RecursiveCharacterTextSplitter(
        list(_SEPARATORS),
        is_separator_regex=True,
        keep_separator="end",
        chunk_size=chunk_size,
        chunk_overlap=0,
    )
