"""The default text splitter, whose chunks end where paragraphs, lines or sentences do."""

from __future__ import annotations

from langchain_text_splitters import RecursiveCharacterTextSplitter

_CHUNK_SIZE = 800

# A full stop after a single capital letter, as in "J. Smith", or before a small letter, as in
# "e.g. this", ends no sentence.
_SENTENCE_END = r"(?<!\s[A-Z])[.?!…؟۔][\"'”’»)\]]*\s+(?![a-z])"
# In scripts that put no space after a sentence: Chinese, Japanese, Hindi, Khmer, Burmese and others.
_SENTENCE_END_WITHOUT_SPACE = r"[。！？｡।॥។။።][\"'”’」』）]*\s*"
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
