"""Formats passages for a model: as numbered text, or as search results, which Claude cites.

Each passage has a number and a place to cite: source, pages and characters.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.messages.content import Citation, create_citation

from langchain_rse._messages import check_type, shown
from langchain_rse.stores.records import COUNTS_IN_SOURCE, DOC_ID, END_INDEX, PASSAGE, START_INDEX
from langchain_rse.text.names import short_names, shown_name
from langchain_rse.text.quoting import encodable, format_range, shortened, visible

NUMBER = "number"
"""The field in the ``rse`` metadata of a passage for its citation number."""

LINE = "line"
"""The field in the ``rse`` metadata of a found line with its number, from 1."""

_NAMING = threading.Lock()  # parallel calls must not give a name to two documents
_NAME = "name"  # in the ``rse`` metadata: the name of its document
_LONGEST_NAME = 1_000
_LONGEST_LABEL = 20

ShownNames = dict[str, str]
"""The ids of documents by the names that tools have shown: none stands for two documents."""

PassageLike = Document | Mapping[str, Any]
"""A passage, or its dict from a checkpointer."""


@dataclass(frozen=True)
class ModelCitation:
    """A citation by a model, and the cited place in a document.

    Attributes:
        text: The part of the answer with the citation.
        start: The first character of ``text`` in the answer.
        end: The character after the last one of ``text``.
        number: The number of the cited passage, from 1; None if no passage contains the place.
        doc_id: The id of the passage's document; None if ``number`` is None.
        start_index: The first character of the place in the document's text.
        end_index: The character after the last one of the place.
        found: The text of the place; without a passage, the text that the model cites.
        source: The source of the passage's document, or its id.
        title: The title of the passage's document, or its name.
    """

    text: str
    start: int
    end: int
    number: int | None = None
    doc_id: str | None = None
    start_index: int = 0
    end_index: int = 0
    found: str = ""
    source: str | None = None
    title: str | None = None

    def to_citation(self) -> Citation:
        """Make LangChain's standard annotation of a text block.

        ``start_index`` and ``end_index`` are characters of the answer; ``cited_text`` is the text
        of the document. ``extras`` has the place in the document: ``number``, ``doc_id``,
        ``start_index`` and ``end_index``.

        Raises:
            ValueError: If the place was not found in the passages.
        """
        if self.number is None:
            raise ValueError(f"cannot cite {self.text!r:.200}: it was not found in the passages")
        citation = create_citation(
            url=self.source,
            title=self.title,
            start_index=self.start,
            end_index=self.end,
            cited_text=self.found,
        )
        citation["extras"] = {
            NUMBER: self.number,
            DOC_ID: self.doc_id,
            START_INDEX: self.start_index,
            END_INDEX: self.end_index,
        }
        return citation


class ReadPassage(NamedTuple):
    """A passage that a model has read."""

    number: int  # from the tool, or its position among the passages, from 1
    header: str  # the header above the text, or ""
    text: str  # from the document
    metadata: Mapping[str, Any]

    @property
    def shown(self) -> str:
        """The header and text, as the model has read them."""
        return self.header + self.text

    def place(self, start: int, end: int) -> dict[str, Any]:
        """Return the fields of a `ModelCitation` for the characters from ``start`` to ``end``."""
        first = self.metadata.get(START_INDEX, 0)
        source = self.metadata.get("source") or self.metadata.get(DOC_ID)
        return {
            "number": self.number,
            "doc_id": self.metadata.get(DOC_ID),
            "start_index": first + start,
            "end_index": first + end,
            "found": self.text[start:end],
            "source": source and str(source),
            "title": self.metadata.get("title") or (source and name_in(self.metadata)),
        }


def read_passages(passages: Iterable[object]) -> list[ReadPassage]:
    """Read what is shown of passages, in their order."""
    check_type("passages", passages, Iterable, "a list of Documents")
    read = []
    for position, passage in enumerate(passages, 1):
        fields = passage if isinstance(passage, Mapping) else getattr(passage, "__dict__", {})
        if "page_content" not in fields:
            raise TypeError(f"passages must be a list of Documents; got {shown(passages)}")
        text = fields["page_content"]
        metadata = fields["metadata"]
        number = int(_rse_of(metadata).get(NUMBER, position))
        header_length = 0
        if END_INDEX in metadata:
            length = metadata[END_INDEX] - metadata[START_INDEX]
            header_length = max(len(text) - length, 0)
        read.append(ReadPassage(number, text[:header_length], text[header_length:], metadata))
    return read


def _rse_of(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    return metadata.get(PASSAGE) or {}


# Names and places


def name_shown(name: str) -> str:
    """Return the name of a document for a model: one line of limited length."""
    return shortened(visible(name), _LONGEST_NAME)


def choose_names(paths: Mapping[str, str], shown: ShownNames) -> dict[str, str]:
    """Name documents, by id, as they were shown before; others so that no two names are equal."""
    names = {doc_id: name_shown(name) for doc_id, name in short_names(paths, shown).items()}
    return names | {doc_id: name for name, doc_id in shown.copy().items() if doc_id in paths}


def name_in(metadata: Mapping[str, Any]) -> str:
    """Return a short name of a passage's document: an absolute path without its folders."""
    path = path_in(metadata)
    return name_shown(_rse_of(metadata).get(_NAME) or short_names({path: path})[path])


def path_in(metadata: Mapping[str, Any]) -> str:
    """Return the name of a passage's document with its folders."""
    source = str(metadata.get("source") or metadata[DOC_ID])
    return shown_name(metadata.get(DOC_ID, source), source)


def citation_of(metadata: Mapping[str, Any]) -> str:
    """Describe the source, pages and characters to cite, counted as a reader counts them.

    A row, or another separate document of its source, is cited by its id. Its characters are named
    unless they start at 0.
    """
    return f"{name_in(metadata)}, {place_of(metadata)}".removesuffix(", ")


def place_of(metadata: Mapping[str, Any]) -> str:
    """Return the pages and characters of `citation_of`, or ""."""
    if END_INDEX not in metadata:
        raise ValueError(f"only passages of the retriever have a place; got {metadata!r:.200}")
    source = str(metadata.get("source") or metadata[DOC_ID])
    rse = _rse_of(metadata)
    parts = [pages_of(metadata)]
    if LINE in rse:
        parts.append(f"line {rse[LINE]:,}")
    characters = f"characters {format_range(metadata[START_INDEX], metadata[END_INDEX])}"
    if not rse.get(COUNTS_IN_SOURCE, True):
        document = f"document {name_shown(metadata[DOC_ID])}"
        characters += f" of {'its stored text' if metadata[DOC_ID] == source else document}"
    if path_in(metadata) == source or metadata[START_INDEX] > 0:
        parts.append(characters)
    return ", ".join(filter(None, parts))


def pages_of(metadata: Mapping[str, Any]) -> str:
    """Name the pages of a passage; "" if they are unknown.

    Pages have the labels that are printed on them. Without labels, ``page`` counts from 0, as in
    LangChain's loaders of PDFs, and ``page_number`` from 1.
    """
    for name, offset in (("page_label", 0), ("page", 1), ("page_number", 0)):
        first = _label(metadata.get(f"{name}_start", metadata.get(name)), offset)
        last = _label(metadata.get(f"{name}_end", metadata.get(name)), offset)
        if first and last:
            return f"page {first}" if first == last else f"pages {first}\u2013{last}"
    return ""


def _label(value: object, offset: int) -> str:
    """Return the number or label of a page; "" for values that are none."""
    if type(value) is int:
        return f"{value + offset:,}"
    if isinstance(value, str) and len(value) <= _LONGEST_LABEL:
        return visible(value.strip())
    return ""


def number_passages(
    passages: Sequence[Document], first_number: int, shown: ShownNames
) -> list[Document]:
    """Copy passages, and add numbers from ``first_number`` and names to their metadata."""
    paths = {passage.metadata[DOC_ID]: path_in(passage.metadata) for passage in passages}
    with _NAMING:
        name_of = choose_names(paths, shown)
        shown.update((name, doc_id) for doc_id, name in name_of.items())
    numbered = []
    for number, passage in enumerate(passages, first_number):
        copy = passage.model_copy(deep=True)
        copy.metadata[PASSAGE] |= {NUMBER: number, _NAME: name_of[copy.metadata[DOC_ID]]}
        numbered.append(copy)
    return numbered


# As text


def format_passages(passages: Iterable[PassageLike]) -> str:
    """Format passages as text, each below a line with its number and place to cite."""
    parts = []
    for passage in read_passages(passages):
        text = quote_lines(passage.shown.strip("\r\n"))
        parts.append(f"{heading_of(passage)}\n{text}")
    return "\n\n".join(parts)


def heading_of(passage: ReadPassage) -> str:
    """Return the number and place of a passage: the line above its text, or a block's title."""
    return f"[{passage.number}] {citation_of(passage.metadata)}"


def quote_lines(text: str) -> str:
    """Put ``> `` in front of each line of a text, so that no line can pass for a heading.

    All characters that some program treats as a line break count, such as U+2028 and form feeds.
    """
    lines = encodable(text).splitlines() or [""]
    return "\n".join(f"> {line}" for line in lines)


# For models that cite natively


def search_result_blocks(passages: Iterable[PassageLike]) -> list[dict[str, Any]]:
    """Make ``search_result`` content blocks, which Claude cites natively.

    A passage becomes a block, with the number and place to cite as its title. Each of its chunks
    becomes a text block, the smallest unit that Claude cites. Put the blocks into a user message;
    `create_rse_tool` makes the same blocks with ``content="search_results"``.

    Args:
        passages: The passages from a retriever or from the artifacts of `create_rse_tool`; dicts
            from a checkpointer work. Passages without a number from the tool count from 1.

    Returns:
        A block for each passage. Passages of white space are skipped: the API rejects them.
    """
    blocks = []
    for passage in read_passages(passages):
        texts = [encodable(passage.shown[start:end]) for start, end in block_ranges(passage)]
        if not texts:
            continue
        block = {
            "type": "search_result",
            "source": name_in(passage.metadata),
            "title": heading_of(passage),
            "content": [{"type": "text", "text": each} for each in texts],
            # The API requires the same value for all blocks of a request.
            "citations": {"enabled": True},
        }
        blocks.append(block)
    return blocks


def block_ranges(passage: ReadPassage) -> list[tuple[int, int]]:
    """Return the range of each text block in the header and text of a passage.

    A block holds one chunk, the first block also the header. The API rejects blank text blocks: a
    passage with a blank chunk, or whose chunks are unknown, is one block, and a blank one none.
    """
    text = passage.shown
    ranges = []
    start = 0
    end = len(passage.header)
    for chunk in _rse_of(passage.metadata).get("chunks", ()):
        end += chunk["length"]
        ranges.append((start, end))
        start = end
    if start == len(text) and all(text[slice(*each)].strip() for each in ranges):
        return ranges
    return [(0, len(text))] if text.strip() else []


def text_of_blocks(blocks: Sequence[Mapping[str, Any]]) -> str:
    """Join all texts of search results that a model reads."""
    parts = []
    for block in blocks:
        parts += [block["title"], block["source"], *(text["text"] for text in block["content"])]
    return "\n".join(parts)


# What models cite


def locate_citations(
    answer: BaseMessage | Sequence[str | Mapping[str, Any]], passages: Iterable[PassageLike]
) -> list[ModelCitation]:
    """Find the places in documents that an answer cites.

    Claude cites chunks of passages from `search_result_blocks` or from `create_rse_tool` with
    ``content="search_results"``. The titles of the blocks identify the passages, so other search
    results in the conversation do no harm. Other citations, such as web pages, are skipped.

    Args:
        answer: The model's message, or its content blocks, with citations in Anthropic's form or as
            LangChain's standard annotations.
        passages: The passages that the model has read: all artifacts of the conversation in their
            order, or the passages passed to `search_result_blocks`. Dicts from a checkpointer work.

    Returns:
        The citations in the order of the answer.
    """
    read = read_passages(passages)
    citations = []
    start = 0
    for part in answer.content if isinstance(answer, BaseMessage) else answer:
        block = {"type": "text", "text": part} if isinstance(part, str) else part
        if block.get("type") != "text":
            continue
        # A citation applies to a whole text block of the answer.
        text = block.get("text") or ""
        end = start + len(text)
        for fields in map(_fields_of, block.get("citations") or block.get("annotations") or ()):
            if fields.keys() >= _FIELDS:
                place = _find_cited(fields, read)
                citations.append(ModelCitation(text, start, end, **place))
        start = end
    return citations


# Of a citation of a search result by Claude.
_FIELDS = {"search_result_index", "start_block_index", "end_block_index"}


def _fields_of(annotation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a citation in Anthropic's or LangChain's form."""
    if annotation.get("type") == "non_standard_annotation":
        return annotation.get("value") or {}
    return {**(annotation.get("extras") or {}), **annotation}


def _find_cited(citation: Mapping[str, Any], passages: Sequence[ReadPassage]) -> dict[str, Any]:
    """Find the place of a citation in the passage with its title."""
    start = citation["start_block_index"]
    # In Anthropic's guide, a citation of one block has the same start and end.
    end = max(citation["end_block_index"], start + 1)
    cited = citation.get("cited_text") or ""
    for passage in passages:
        ranges = block_ranges(passage)[start:end]
        if citation.get("title") != heading_of(passage) or len(ranges) < end - start:
            continue
        first, last = ranges[0][0], ranges[-1][1]
        shown = encodable(passage.shown[first:last])
        if "".join(cited.split()) in "".join(shown.split()):
            # Characters of the header are not cited.
            header_length = len(passage.header)
            return passage.place(max(first - header_length, 0), max(last - header_length, 0))
    return {"found": cited}
