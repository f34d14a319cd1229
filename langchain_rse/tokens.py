"""Splitting by tokens, with exact places: what an embedding model reads at once, and no more.

LangChain's token splitters return what a tokenizer decodes, which may be another text, and
count without the special tokens that the model adds. `TokenSplitter` cuts the text itself.
"""

from __future__ import annotations

import bisect
import copy
import itertools
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from langchain_text_splitters import TextSplitter
from typing_extensions import Self, TypedDict, Unpack, override

from langchain_rse.schema import encodable, with_header
from langchain_rse.splitting import Span, SplittingError

__all__ = ["TokenEncoder", "TokenSplitter", "untruncated"]

Reserve = int | Callable[[str], int]

# Runs of white space, and the ends of sentences that need none.
_BREAK = re.compile(r"\s+|(?<=[。｡！？])(?=\S)")  # noqa: RUF001 - Chinese and Japanese
_SPACE = re.compile(r"\s+")
_LINE_BREAK = re.compile(r"\r\n|[\n\r\x0b\x0c\x85\u2028]")
_SENTENCE_END = re.compile(r"[.!?…。｡！？؟۔।][\"'”’»)\]]*\Z")  # noqa: RUF001
_SENTENCE_END_LENGTH = 4
# Characters of white space that are looked at on the other side of a bound.
_WIDEST_BREAK = 8

# How good a place is to cut, worst first.
_WORD, _LINE, _SENTENCE, _PARAGRAPH = range(1, 5)

# Characters a token, to begin with; the text then tells.
_CHARACTERS_PER_TOKEN = 5.0
# A chunk has at most so many characters a token: white space, and words too long for a
# vocabulary, count as nothing or as one unknown token.
_MOST_CHARACTERS_PER_TOKEN = 16
_MARKS = frozenset({"Mn", "Mc", "Me"})
_JOINER = "\u200d"


class TokenEncoder(Protocol):
    """What `TokenSplitter` needs of a tokenizer."""

    special_tokens: int
    """Tokens that the model adds to each text, such as 2 for ``[CLS]`` and ``[SEP]``."""

    def starts(self, text: str) -> Sequence[int]:
        """Where each token of a text starts, in characters, ascending; without special tokens.

        A token that starts inside of a character starts where the character does.
        """
        ...


class _Settings(TypedDict, total=False):
    tokens_per_chunk: int
    chunk_overlap: int
    reserve: Reserve
    whole_words: bool


class TokenSplitter(TextSplitter):
    """Splits a text into chunks of at most so many tokens, each an exact slice of the text.

    Chunks tile the text. Each is cut at the end of a paragraph, if there is one in its second
    half, else of a sentence, of a line, of a word; inside of a word only where one is longer
    than a chunk. Characters, with their accents, are never cut. Every chunk is counted as it
    will be embedded, on its own: with what it overlaps, and the tokens that the model adds.

    Give it to an `RSEIndexer` or `RSERetriever` as ``text_splitter``. With ``headers``, the
    chunks of a document are so much shorter that each fits in with its header. Made with
    `from_huggingface_tokenizer`, `from_tiktoken` or `from_tiktoken_encoder`.

    Time is linear in the text, and so is memory, for the chunks only.

    Args:
        encoder: The tokenizer.
        tokens_per_chunk: The most tokens of an embedded text, special tokens and ``reserve``
            included: what the model reads at once. At least 1.
        chunk_overlap: The most tokens of the text in front of a chunk that are embedded with
            it, at least 0. The chunk's own span does not have them.
        reserve: Tokens to leave free for what others put in front of the embedded text, such as
            a model's prompt (`count` counts them); or a function that is called with each text
            and returns their number. The ``headers`` of an `RSEIndexer` or `RSERetriever` need
            none.
        whole_words: Whether to cut at good places; if False, each chunk has as many tokens as
            it may have.

    Raises:
        ValueError: If a number is out of its range, or they leave no room for text.

    Example:
        >>> splitter = TokenSplitter.from_huggingface_tokenizer(tokenizer, tokens_per_chunk=8)
        >>> splitter.split_text("One sentence here. Another one here.")
        ['One sentence here. ', 'Another one here.']
    """

    def __init__(
        self,
        encoder: TokenEncoder,
        *,
        tokens_per_chunk: int = 256,
        chunk_overlap: int = 0,
        reserve: Reserve = 0,
        whole_words: bool = True,
    ) -> None:
        if tokens_per_chunk < 1:
            raise ValueError(f"tokens_per_chunk must be at least 1; got {tokens_per_chunk!r}")
        if chunk_overlap < 0:
            raise ValueError(f"chunk_overlap must be at least 0; got {chunk_overlap!r}")
        self.encoder = encoder
        self.tokens_per_chunk = tokens_per_chunk
        self.chunk_overlap = chunk_overlap
        self.reserve = reserve
        self.whole_words = whole_words
        self._room(0 if callable(reserve) else reserve)
        super().__init__(
            chunk_size=tokens_per_chunk,
            chunk_overlap=chunk_overlap,
            length_function=self.count,
            keep_separator=True,
            strip_whitespace=False,
        )

    @classmethod
    @override
    def from_huggingface_tokenizer(  # type: ignore[override]  # LangChain's is not generic
        cls,
        tokenizer: Any,
        **settings: Unpack[_Settings],
    ) -> Self:
        """Split by the tokens of a Hugging Face tokenizer.

        Args:
            tokenizer: A ``tokenizers.Tokenizer``, or a fast tokenizer of transformers, such as
                ``AutoTokenizer.from_pretrained("BAAI/bge-base-en-v1.5")``. It is copied; the
                truncation and padding that it may be set to do not matter.
            settings: ``tokens_per_chunk``, ``chunk_overlap``, ``reserve``, ``whole_words``; see
                the class.

        Raises:
            TypeError: If it is another object; slow tokenizers do not know places.
            ImportError: If the package tokenizers is not installed.
        """
        return cls(_HuggingFaceEncoder.of(tokenizer), **settings)

    @classmethod
    def from_tiktoken(
        cls,
        encoding: Any,  # noqa: ANN401 - tiktoken.Encoding, which need not be installed
        **settings: Unpack[_Settings],
    ) -> Self:
        """Split by the tokens of a tiktoken encoding; special tokens in the text are text.

        Args:
            encoding: A ``tiktoken.Encoding``, or the name of one, such as ``"cl100k_base"``.
            settings: ``tokens_per_chunk``, ``chunk_overlap``, ``reserve``, ``whole_words``; see
                the class.

        Raises:
            TypeError: If it is another object.
            ImportError: If the package tiktoken is not installed.
        """
        return cls(_TiktokenEncoder.of(encoding), **settings)

    @classmethod
    @override
    def from_tiktoken_encoder(
        cls,
        encoding_name: str = "gpt2",
        model_name: str | None = None,
        allowed_special: Literal["all"] | AbstractSet[str] | None = None,
        disallowed_special: Literal["all"] | Collection[str] = (),
        **kwargs: Any,
    ) -> Self:
        """Split by the tokens of a tiktoken encoding, named as LangChain's splitters name it.

        Args:
            encoding_name: Name of the encoding.
            model_name: Name of a model, such as ``"text-embedding-3-small"``; its encoding is
                then the one.
            allowed_special: Special tokens that count as such where the text has them; none if
                None.
            disallowed_special: Special tokens that are an error where the text has them.
            kwargs: ``tokens_per_chunk``, ``chunk_overlap``, ``reserve``, ``whole_words``; see
                the class.

        Raises:
            ImportError: If the package tiktoken is not installed.
        """
        tiktoken = _import_tiktoken()
        encoding = (
            tiktoken.get_encoding(encoding_name)
            if model_name is None
            else tiktoken.encoding_for_model(model_name)
        )
        encoder = _TiktokenEncoder.of(encoding)
        encoder.allowed_special = set() if allowed_special is None else allowed_special
        encoder.disallowed_special = disallowed_special
        return cls(encoder, **kwargs)

    def count(self, text: str) -> int:
        """The number of tokens of a text, without the special tokens that the model adds."""
        return len(self.encoder.starts(encodable(text)))

    @override
    def split_text(self, text: str) -> list[str]:
        """Split a text; what is embedded of each chunk, with its overlap.

        Raises:
            SplittingError: If a single character has more tokens than a chunk may have.
        """
        return [span.embedded_text for span in self.split_spans(text)]

    def split_spans(self, text: str) -> list[Span]:
        """Split a text into spans that tile it.

        Args:
            text: The text, any Unicode. An empty one has no spans. NUL and lone surrogates
                count as U+FFFD does, which is embedded in their place.

        Returns:
            The spans; the embedded text of each is the exact slice, from up to
            ``chunk_overlap`` tokens before its start.

        Raises:
            SplittingError: If a single character has more tokens than a chunk may have.
            ValueError: If ``reserve`` is a function and leaves no room for this text.
        """
        cutter = _Cutter(
            text=encodable(text),
            encoder=self.encoder,
            room=self._room(self._reserve_for(text)),
            chunk_overlap=self.chunk_overlap,
            whole_words=self.whole_words,
        )
        spans: list[Span] = []
        end, overlap_start = 0, 0
        while end < len(text):
            chunk = cutter.next(end, overlap_start)
            spans.append(Span(end, chunk.end, text[chunk.embedded_start : chunk.end]))
            end, overlap_start = chunk.end, chunk.overlap_start
        return spans

    def with_reserve(self, tokens: int) -> Self:
        """A splitter like this one that leaves so many more tokens free."""
        other = copy.copy(self)
        other.reserve = lambda text: self._reserve_for(text) + tokens
        return other

    def most_of_header(self, text: str) -> int:
        """The most tokens of a header for this text: half of what its chunks have of their own."""
        return (self._room(self._reserve_for(text)) - self.chunk_overlap) // 2

    def shortened(self, header: str, most: int) -> str:
        """The beginning of a header that has at most so many tokens; nothing if none has.

        Args:
            header: The header.
            most: The most tokens, with the empty line that separates it from the chunk.
        """
        shorter = header
        for room in range(most, 0, -1):
            if self.count(with_header(shorter, "")) <= most:
                return shorter
            cutter = _Cutter(encodable(header), self.encoder, room, 0, whole_words=True)
            try:
                shorter = header[: cutter.next(0, 0).end].rstrip()
            except SplittingError:  # a character has more tokens
                break
        return ""

    def lacking(self, text: str, embedded: Iterable[tuple[str, Span]]) -> int:
        """How many tokens too long a chunk of a text is with its header, the first that is.

        Args:
            text: The text.
            embedded: Its chunks with their headers.

        Returns:
            The number of tokens, 0 if no chunk is too long.
        """
        room = self._room(self._reserve_for(text))
        for header, span in embedded:
            excess = self.count(with_header(header, span.embedded_text)) - room
            if excess > 0:
                return excess
        return 0

    def _reserve_for(self, text: str) -> int:
        return self.reserve(text) if callable(self.reserve) else self.reserve

    def _room(self, reserve: object) -> int:
        """How many tokens of the text a chunk may have, overlap included."""
        if not isinstance(reserve, int) or isinstance(reserve, bool) or reserve < 0:
            raise ValueError(
                f"reserve must be a number of tokens of at least 0, or return one; got {reserve!r}"
            )
        special = self.encoder.special_tokens
        room = self.tokens_per_chunk - special - reserve
        if room <= self.chunk_overlap:
            raise ValueError(
                f"tokens_per_chunk={self.tokens_per_chunk} leaves no room for text beside "
                f"{special} special tokens of the model, reserve={reserve} and "
                f"chunk_overlap={self.chunk_overlap}; raise it, or lower these"
            )
        return room


class _Chunk(NamedTuple):
    """A chunk's end, where its embedded text starts, and where that of the next one may."""

    end: int
    embedded_start: int
    overlap_start: int


@dataclass
class _Cutter:
    """Cuts a text chunk by chunk, looking at no more of it than a chunk may have.

    Attributes:
        room: Tokens a chunk may have, with what it overlaps.
        characters_per_token: What the last chunk had.
    """

    text: str
    encoder: TokenEncoder
    room: int
    chunk_overlap: int
    whole_words: bool
    characters_per_token: float = _CHARACTERS_PER_TOKEN

    def next(self, start: int, overlap_start: int) -> _Chunk:
        """The chunk that starts here, embedded from ``overlap_start`` if there is room."""
        starts = self._tokens(overlap_start)
        allowed = self.room
        while True:
            limit = self._limit(starts, overlap_start, allowed)
            if limit <= start and overlap_start < start:
                # What was to be overlapped has left no room for a character.
                overlap_start = start
                starts = self._tokens(start)
                allowed = self.room
                continue
            end = self._cut(start, max(limit, start + 1), overlap_start, starts)
            # On its own, a text may have other tokens than inside of a longer one.
            own = self.encoder.starts(self.text[overlap_start:end])
            if len(own) <= self.room:
                self.characters_per_token = (end - overlap_start) / max(1, len(own))
                return _Chunk(
                    end, overlap_start, self._next_overlap(own, overlap_start, start, end)
                )
            if limit <= start:
                raise SplittingError(
                    f"the character {self.text[start]!r} at {start} is {len(own)} tokens, and a "
                    f"chunk may have {self.room} of text; raise tokens_per_chunk"
                )
            allowed -= len(own) - self.room

    def _tokens(self, start: int) -> Sequence[int]:
        """Where the tokens from a place on start, counted from there; enough to fill a chunk."""
        longest = _MOST_CHARACTERS_PER_TOKEN * self.room
        length = 16 + int(1.2 * self.characters_per_token * (self.room + 1))
        while True:
            length = min(length, longest)
            starts = self.encoder.starts(self.text[start : start + length])
            if len(starts) > self.room or length == longest or start + length >= len(self.text):
                return starts
            length *= 2

    def _limit(self, starts: Sequence[int], begin: int, allowed: int) -> int:
        """Where a text that begins at ``begin`` has so many tokens."""
        longest = begin + _MOST_CHARACTERS_PER_TOKEN * self.room
        if allowed < 1:
            return begin
        if len(starts) > allowed:
            return min(begin + starts[allowed], longest)
        return min(len(self.text), longest)

    def _cut(self, start: int, limit: int, begin: int, starts: Sequence[int]) -> int:
        """The best place to end a chunk, after ``start`` and not after ``limit``."""
        if limit >= len(self.text):
            return len(self.text)
        if self.whole_words:
            # White space is looked at as a whole, whichever side the bounds would leave it on.
            middle = start + (limit - start) // 2
            reach = middle - _WIDEST_BREAK
            while middle > max(start, reach) and self.text[middle - 1].isspace():
                middle -= 1
            rest = _SPACE.match(self.text, limit, limit + _WIDEST_BREAK)
            for first, last in ((middle, rest.end() if rest else limit), (start, middle)):
                places: dict[int, int] = {}
                for space in _BREAK.finditer(self.text, first, last):
                    place = self._place(space, limit, begin, starts)
                    if start < place <= limit:
                        places[self._quality(space)] = place
                if places:
                    return places[max(places)]
        return self._whole_character(start, limit)

    def _place(self, space: re.Match[str], limit: int, begin: int, starts: Sequence[int]) -> int:
        """Where in white space to cut: where a token starts, for it may begin with the space."""
        last = min(space.end(), limit)
        number = bisect.bisect_right(starts, last - begin) - 1
        place = begin + starts[number] if number >= 0 else 0
        return place if place >= space.start() else last

    def _quality(self, space: re.Match[str]) -> int:
        run = space.group()
        if "\u2029" in run:
            return _PARAGRAPH
        lines = len(_LINE_BREAK.findall(run))
        if lines > 1:
            return _PARAGRAPH
        before = self.text[max(0, space.start() - _SENTENCE_END_LENGTH) : space.start()]
        if _SENTENCE_END.search(before):
            return _SENTENCE
        return _LINE if lines else _WORD

    def _whole_character(self, start: int, place: int) -> int:
        """The place, or the one before the character that it would cut from its accents."""
        text = self.text
        whole = place
        while whole > start and (
            unicodedata.category(text[whole]) in _MARKS
            or _JOINER in (text[whole], text[whole - 1])
            or text[whole - 1 : whole + 1] == "\r\n"
        ):
            whole -= 1
        return whole if whole > start else place

    def _next_overlap(self, own: Sequence[int], begin: int, start: int, end: int) -> int:
        """Where the embedded text of the next chunk starts: so many tokens before ``end``."""
        if not self.chunk_overlap:
            return end
        place = begin + own[max(0, len(own) - self.chunk_overlap)] if own else end
        # A chunk overlaps the one before it, no more.
        place = max(place, start)
        if not self.whole_words or place in (0, start) or self.text[place - 1].isspace():
            return place
        space = _SPACE.search(self.text, place, end)
        return end if space is None else self._place(space, end, begin, own)


def untruncated(tokenizer: Any) -> Any | None:  # noqa: ANN401 - tokenizers need not be installed
    """A copy of a tokenizer that neither truncates nor pads.

    Returns:
        The copy; None if it is no tokenizer of the package tokenizers.

    Raises:
        ImportError: If the package is not installed.
    """
    from tokenizers import Tokenizer  # noqa: PLC0415

    if not isinstance(tokenizer, Tokenizer):
        return None
    copied = Tokenizer.from_str(tokenizer.to_str())
    copied.no_truncation()
    copied.no_padding()
    return copied


@dataclass
class _HuggingFaceEncoder:
    """A tokenizer of the package tokenizers."""

    tokenizer: Any
    special_tokens: int

    @classmethod
    def of(cls, tokenizer: Any) -> _HuggingFaceEncoder:  # noqa: ANN401
        """A copy of a tokenizer that neither truncates nor pads."""
        try:
            copied = untruncated(getattr(tokenizer, "backend_tokenizer", tokenizer))
        except ImportError as error:
            raise ImportError(
                "a Hugging Face tokenizer needs the package tokenizers: "
                "pip install 'langchain-rse[tokens]'"
            ) from error
        if copied is None:
            raise TypeError(
                "tokenizer must be a tokenizers.Tokenizer or a fast tokenizer of transformers "
                "(AutoTokenizer.from_pretrained gives one, for most models); got "
                f"{type(tokenizer).__name__}"
            )
        return cls(copied, copied.num_special_tokens_to_add(is_pair=False))

    def starts(self, text: str) -> list[int]:
        """Where tokens start."""
        offsets = self.tokenizer.encode(text, add_special_tokens=False).offsets
        starts = [start for start, _ in offsets]
        if any(later < earlier for earlier, later in itertools.pairwise(starts)):
            # Normalizers may swap marks.
            for number in range(len(starts) - 2, -1, -1):
                starts[number] = min(starts[number], starts[number + 1])
        return starts


class _TiktokenEncoder:
    """An encoding of tiktoken."""

    special_tokens = 0

    def __init__(self, encoding: Any) -> None:  # noqa: ANN401
        self.encoding = encoding
        self.allowed_special: Literal["all"] | AbstractSet[str] = set()
        self.disallowed_special: Literal["all"] | Collection[str] = ()
        self._shapes: dict[int, tuple[int, int]] = {}

    @classmethod
    def of(cls, encoding: Any) -> _TiktokenEncoder:  # noqa: ANN401
        """An encoding, or the one of a name."""
        tiktoken = _import_tiktoken()
        if isinstance(encoding, str):
            encoding = tiktoken.get_encoding(encoding)
        if not isinstance(encoding, tiktoken.Encoding):
            raise TypeError(
                "encoding must be a tiktoken.Encoding or the name of one, such as 'cl100k_base'; "
                f"got {type(encoding).__name__}"
            )
        return cls(encoding)

    def starts(self, text: str) -> list[int]:
        """Where tokens start."""
        tokens = self.encoding.encode(
            text,
            allowed_special=self.allowed_special,
            disallowed_special=self.disallowed_special,
        )
        starts = []
        characters = 0
        for token in tokens:
            shape = self._shapes.get(token)
            if shape is None:
                shape = self._shapes[token] = self._shape(token)
            inside, begun = shape
            starts.append(characters - inside)
            characters += begun
        return starts

    def _shape(self, token: int) -> tuple[int, int]:
        """Whether a token starts inside of a character, and how many characters begin in it."""
        data = self.encoding.decode_single_token_bytes(token)
        begun = sum(not _is_inside(byte) for byte in data)
        return int(_is_inside(data[0])), begun


def _is_inside(byte: int) -> bool:
    """Whether a byte of UTF-8 is not the first of a character."""
    return byte & 0xC0 == 0x80  # noqa: PLR2004 - the bits that say so


def _import_tiktoken() -> Any:  # noqa: ANN401
    try:
        import tiktoken  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "a tiktoken encoding needs the package tiktoken: pip install 'langchain-rse[tokens]'"
        ) from error
    return tiktoken
