"""Compares the answer to a query with the result of another retriever."""

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document

from langchain_rse._sync import Steps, call, compute, during
from langchain_rse.access import DocumentAccess
from langchain_rse.config import QuerySettings
from langchain_rse.explaining.side_by_side import TOP_K, Piece, SideBySide
from langchain_rse.query.candidates import VECTORS, Sources, best_of_queries
from langchain_rse.query.pipeline import answer
from langchain_rse.query.searching import check_documents
from langchain_rse.query.trace import Trace
from langchain_rse.stores.records import DOC_ID, END_INDEX, START_INDEX
from langchain_rse.text.names import name_of

_LENGTH_WITHOUT_PASSAGES = 2_000  # characters of the other side if there are no passages
_SHORTEST_REST = 40  # characters of a piece that is cut


def compare_answers(
    sources: Sources,
    query: str,
    settings: QuerySettings,
    other: Any,  # noqa: ANN401 - a retriever or another Runnable; None for the search's best chunks
    callbacks: Callbacks = None,
) -> Steps[SideBySide]:
    """Answer a query, and cut the result of another retriever to the length of the answer."""
    trace = yield from answer(query, sources, settings, callbacks)
    pieces = [_piece_of(passage) for passage in trace.documents_returned]
    length = sum(len(piece.text) for piece in pieces) or _LENGTH_WITHOUT_PASSAGES
    if other is None:
        name = TOP_K
        other_pieces = yield from compute(_best_chunks, sources, trace, length)
    else:
        name = getattr(other, "name", None) or type(other).__name__
        with during(f"asking {name}"):
            returned = yield from call(
                other.invoke, other.ainvoke, trace.query, config={"callbacks": callbacks}
            )
            other_pieces = [_piece_of(document) for document in check_documents(returned, name)]
    return SideBySide(
        query=trace.query,
        passages=pieces,
        other=_cut(other_pieces, length),
        other_name=name,
        reason=trace.reason,
    )


def _best_chunks(sources: Sources, trace: Trace, length: int) -> list[Piece]:
    """Read the best chunks of the search, before any reranker, from their documents."""
    found = [each for each in best_of_queries(trace.searched) if VECTORS in each.hits]
    found.sort(key=lambda candidate: candidate.hits[VECTORS].rank)
    access = DocumentAccess(sources.docstore, include_header=trace.settings.include_header)
    pieces: list[Piece] = []
    for candidate in found:
        if length <= 0:
            break
        chunk = range(candidate.chunk_index, candidate.chunk_index + 1)
        passage = access.chunks(candidate.doc_id, candidate.version, chunk)
        if passage is not None:
            pieces.append(_piece_of(passage))
            length -= len(pieces[-1].text)
    return pieces


def _piece_of(document: Document) -> Piece:
    """A returned Document as a piece, with its place if its metadata has one."""
    metadata = document.metadata
    doc_id = metadata.get(DOC_ID, metadata.get("source"))
    start = metadata.get(START_INDEX)
    end = metadata.get(END_INDEX)
    text = document.page_content
    header = ""
    if type(start) is int and type(end) is int and 0 <= start < end:
        header, text = text[: start - end], text[start - end :]
    return Piece(
        name=name_of(str(doc_id), metadata) if doc_id is not None else "a text without a source",
        doc_id=None if doc_id is None else str(doc_id),
        start=start if type(start) is int and start >= 0 else None,
        text=text,
        header=header,
    )


def _cut(pieces: Sequence[Piece], length: int) -> list[Piece]:
    """The first pieces up to a total length; the last one is cut, or dropped if little remains."""
    kept: list[Piece] = []
    for piece in pieces:
        if len(piece.text) > length:
            if length >= _SHORTEST_REST or not kept:
                kept.append(piece._replace(text=piece.text[:length], is_cut=True))
            break
        kept.append(piece)
        length -= len(piece.text)
    return [piece for piece in kept if piece.text]
