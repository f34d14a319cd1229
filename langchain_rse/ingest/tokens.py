"""Splits a text by the tokens of an embedding model, so that no chunk is too long for the model.

LangChain's token splitters return decoded tokens, which may differ from the text, and do not
count the special tokens that the model adds. `TokenSplitter` cuts the text itself.
"""

import copy
import functools
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

from langchain_text_splitters import TextSplitter
from typing_extensions import Self, override

from langchain_rse.errors import SplittingError
from langchain_rse.ingest.splitting import Span
from langchain_rse.stores.records import Chunk, encodable, with_header

# Where to cut, best first: at the end of a paragraph, sentence, line, word.
_SPACE = re.compile(r"\s+")
_BREAKS = (
    re.compile(r"\n[^\S\n]*\n\s*"),
    re.compile(r"[.!?…؟۔।][\"'”’»)\]]*\s+|[。｡！？]\s*"),  # noqa: RUF001 - Chinese and Japanese
    re.compile(r"\n\s*"),
    _SPACE,
)
# Characters of text to tokenize for each token of room, more if these have too few tokens. The last
# limits a chunk, since white space, and words too long for a vocabulary, have hardly any tokens.
_CHARACTERS_PER_TOKEN = (3, 6, 12)
_LONGEST_WORD = 20


class TokenSplitter(TextSplitter):
    """Splits a text into chunks of a limited number of tokens, each an exact slice of the text.

    Each chunk is cut at the end of a paragraph, if there is one in its second half, else of a
    sentence, line or word; within a word only if the word is longer than a chunk. Its tokens are
    counted as it is embedded: with its overlap, its header and the tokens that the model adds.

    Made with `from_huggingface_tokenizer`, or `from_tiktoken_encoder` for OpenAI's models; both
    need ``pip install 'langchain-rse[tokens]'``.

    Args:
        token_starts: Returns the places in a text where its tokens start, in characters, ascending,
            without special tokens.
        special_tokens: Number of tokens that the model adds to each text, such as ``[CLS]``.
        tokens_per_chunk: The most tokens of an embedded text, special tokens and ``reserve``
            included: the number that the model reads at once.
        chunk_overlap: The most tokens before a chunk that are embedded with it.
        reserve: Tokens to leave free for other text in front of chunks, such as a model's prompt
            (`count` counts them). ``headers`` need none.

    Raises:
        ValueError: If the numbers leave no room for text.

    Example:
        >>> splitter = TokenSplitter.from_huggingface_tokenizer(tokenizer, tokens_per_chunk=8)
        >>> splitter.split_text("One sentence here. Another one here.")
        ['One sentence here. ', 'Another one here.']
    """

    def __init__(
        self,
        token_starts: Callable[[str], Sequence[int]],
        special_tokens: int = 0,
        *,
        tokens_per_chunk: int = 256,
        chunk_overlap: int = 0,
        reserve: int = 0,
    ) -> None:
        self.room = tokens_per_chunk - special_tokens - reserve
        if self.room <= chunk_overlap:
            raise ValueError(
                f"tokens_per_chunk={tokens_per_chunk} leaves no room for text beside "
                f"{special_tokens} special tokens of the model, reserve={reserve} and "
                f"chunk_overlap={chunk_overlap}; raise it, or lower these"
            )
        super().__init__(tokens_per_chunk, chunk_overlap, self.count, strip_whitespace=False)
        self._token_starts = token_starts
        self._overlap = chunk_overlap

    @classmethod
    @override
    def from_huggingface_tokenizer(cls, tokenizer: Any, **settings: int) -> Self:
        """Split by the tokens of a Hugging Face tokenizer.

        Args:
            tokenizer: A ``tokenizers.Tokenizer``, or a fast tokenizer of transformers, such as
                ``AutoTokenizer.from_pretrained("BAAI/bge-base-en-v1.5")``.
            settings: The keyword arguments of the class.

        Raises:
            TypeError: If ``tokenizer`` is another object, such as a slow tokenizer.
        """
        from tokenizers import Tokenizer  # noqa: PLC0415

        found = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not isinstance(found, Tokenizer):
            raise TypeError(
                "tokenizer must be a tokenizers.Tokenizer or a fast tokenizer of transformers; got "
                f"{type(tokenizer).__name__}"
            )
        copied = Tokenizer.from_str(found.to_str())
        copied.no_truncation()
        copied.no_padding()
        special_tokens = copied.num_special_tokens_to_add(is_pair=False)
        return cls(functools.partial(_starts, copied), special_tokens, **settings)

    @classmethod
    @override
    def from_tiktoken_encoder(  # type: ignore[override]  # special tokens are text
        cls, encoding_name: str = "gpt2", model_name: str | None = None, **settings: int
    ) -> Self:
        """Split by the tokens of a tiktoken encoding; special tokens in the text count as text.

        Args:
            encoding_name: The encoding, such as ``"cl100k_base"``.
            model_name: A model, such as ``"text-embedding-3-small"``, whose encoding is used.
            settings: The keyword arguments of the class.
        """
        import tiktoken  # noqa: PLC0415

        if model_name is not None:
            encoding_name = tiktoken.encoding_name_for_model(model_name)
        encoding = tiktoken.get_encoding(encoding_name)
        return cls(functools.partial(_tiktoken_starts, encoding), **settings)

    def count(self, text: str) -> int:
        """Count the tokens of a text, without the special tokens that the model adds."""
        return len(self._token_starts(encodable(text)))

    @override
    def split_text(self, text: str) -> list[str]:
        """Split a text into the embedded texts of chunks, with overlaps; see `split_spans`."""
        return [span.embedded_text for span in self.split_spans(text)]

    def split_spans(self, text: str) -> list[Span]:
        """Split a text into spans that tile it.

        Each span is embedded with up to ``chunk_overlap`` tokens before its start. NUL and lone
        surrogates count as U+FFFD, which is embedded in their place.

        Raises:
            SplittingError: If a single character has more tokens than a chunk may have.
        """
        spans: list[Span] = []
        start = overlap_start = 0
        while start < len(text):
            end = self._end(text, overlap_start, start, self.room)
            if end is None:  # the overlap leaves no room for the next character
                overlap_start = start
                end = self._end(text, start, start, self.room)
            if end is None:
                raise SplittingError(
                    f"the character {text[start]!r} at {start} is {self.count(text[start])} "
                    f"tokens, and a chunk may have {self.room} of text; raise tokens_per_chunk"
                )
            spans.append(Span(start, end, text[overlap_start:end]))
            overlap_start = self._overlap_start(text, start, end)
            start = end
        return spans

    def with_reserve(self, tokens: int) -> Self:
        """Return a copy of this splitter that leaves a number of tokens more free."""
        other = copy.copy(self)
        other.room -= tokens
        return other

    def fit_headers(self, chunks: Sequence[Chunk], reserve: int) -> tuple[list[Chunk], int]:
        """Shorten headers to at most half a chunk; return the chunks and the reserve they need."""
        most = (self.room - self._overlap) // 2
        shortened = {chunk.header: self._shortened(chunk.header, most) for chunk in chunks}
        fitting = [chunk._replace(header=shortened[chunk.header]) for chunk in chunks]
        embedded = (with_header(chunk.header, chunk.embedded_text) for chunk in fitting)
        excess = max(map(self.count, embedded), default=0) - self.room
        if excess > 0:
            longest = max(self.count(with_header(header, "")) for header in shortened.values())
            # Tokens may differ where header and chunk meet, which takes another round or two.
            reserve = max(longest, reserve + excess)
        return fitting, reserve

    def _shortened(self, header: str, most: int) -> str:
        """Cut a header to ``most`` tokens, counted with the empty line after it."""
        shorter = header
        for room in range(most, 0, -1):
            if self.count(with_header(shorter, "")) <= most:
                return shorter
            shorter = header[: self._end(header, 0, 0, room)].rstrip()
        return ""

    def _end(self, text: str, overlap_start: int, start: int, room: int) -> int | None:
        """Find the end of the chunk that starts here; None if it has no room for a character."""
        for characters in _CHARACTERS_PER_TOKEN:
            window = encodable(text[overlap_start : overlap_start + characters * room])
            bounds = [*self._token_starts(window), len(window)]
            # A word cut by the window's end may have other tokens as a whole.
            if bounds[min(room, len(bounds) - 1)] < len(window) - _LONGEST_WORD:
                break
        # A text alone may have more tokens than as a part of a longer one.
        for tokens in range(min(room, len(bounds) - 1), -1, -1):
            limit = max(overlap_start + bounds[tokens], start + 1)
            end = _cut(text, start, limit)
            if self.count(text[overlap_start:end]) <= room:
                return end
            if limit == start + 1:
                break
        return None

    def _overlap_start(self, text: str, start: int, end: int) -> int:
        """Find the start of the overlap that is embedded with the chunk after this one."""
        if not self._overlap:
            return end
        starts = self._token_starts(encodable(text[start:end]))
        place = start + starts[-self._overlap] if len(starts) > self._overlap else start
        if place == start or text[place - 1].isspace():
            return place
        space = _SPACE.search(text, place, end)
        return space.end() if space else end


def _cut(text: str, start: int, limit: int) -> int:
    """Find the best place to end a chunk, after ``start`` and not after ``limit``."""
    if limit >= len(text):
        return len(text)
    places = []
    for pattern in _BREAKS:
        ends = [found.end() for found in pattern.finditer(text, start, limit)]
        if ends and 2 * ends[-1] > start + limit:
            return ends[-1]
        places += ends[-1:]
    return places[0] if places else limit


def _starts(tokenizer: Any, text: str) -> list[int]:  # noqa: ANN401
    offsets = tokenizer.encode(text, add_special_tokens=False).offsets
    # Normalizers may swap accents: a later token may start before an earlier one.
    starts = itertools.accumulate((start for start, _ in reversed(offsets)), min)
    return list(starts)[::-1]


def _tiktoken_starts(encoding: Any, text: str) -> list[int]:  # noqa: ANN401
    _, starts = encoding.decode_with_offsets(encoding.encode_ordinary(text))
    return list(starts)
