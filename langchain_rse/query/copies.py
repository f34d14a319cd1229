"""Decides which candidates do not count: old or stale ones, and copies of better ones."""

import itertools
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeGuard

from langchain_rse.config import QuerySettings
from langchain_rse.engine.copies import ChunkPlace, find_copied
from langchain_rse.query.candidates import Candidate, Candidates, ChunkKey
from langchain_rse.query.long_queries import beginning_of
from langchain_rse.query.naming import name_of
from langchain_rse.query.ranking import Ranked, best_of_queries, rank_all
from langchain_rse.stores.reading import Layout, Layouts, VersionKey
from langchain_rse.text.function_words import without_function_words
from langchain_rse.text.words import find_words, spaced_words

# Near copies: the number of words in each sequence that is compared, and the share of sequences
# that are equal.
_SEQUENCE_LENGTH = 5
_EQUAL_SHARE = 0.8

_Words = tuple[bytes, ...]


StaleChunks = Mapping[VersionKey, Collection[int]]
"""Numbers of chunks that the vector store no longer has as they were adopted, by versions."""


class LeftOut(NamedTuple):
    """A candidate that does not count, and the reason."""

    candidate: Candidate
    relevance: float  # if it counted
    outcome: str  # such as "older version" or "duplicate"
    duplicate_of: str | None = None  # the document that has the same text


def is_current(layout: object, version: str) -> TypeGuard[Layout]:
    """True for the layout of a document whose current version, which queries see, is this one."""
    return isinstance(layout, Layout) and layout.version == version


def leave_out(
    candidates: Candidates,
    ranked: list[Ranked],
    layouts: Layouts,
    settings: QuerySettings,
    stale: StaleChunks,
) -> tuple[Candidates, list[Ranked], dict[ChunkKey, LeftOut]]:
    """Leave out candidates that do not count, and rank the others as if those had not been found.

    Whether a candidate counts is known only for documents in ``layouts``. A new order may show
    further copies; but which document keeps a passage is decided once, so that it keeps all of it.
    Returns the candidates that are left, as they rank then, and those left out.
    """
    queries = list(candidates)
    left_out: dict[ChunkKey, LeftOut] = {}
    compares_passages = settings.duplicates == "drop"
    while True:
        joint = best_of_queries(ranked, queries)
        newly_left_out = _left_out_of(joint, layouts, settings, stale)
        if not newly_left_out and compares_passages:
            newly_left_out = _copied_passages(joint, layouts, queries)
            compares_passages = False
        if not newly_left_out:
            return candidates, ranked, left_out
        left_out.update(newly_left_out)
        candidates = _without(candidates, newly_left_out.keys())
        ranked = rank_all(candidates, settings)


def _left_out_of(
    ranked: Ranked, layouts: Layouts, settings: QuerySettings, stale: StaleChunks
) -> dict[ChunkKey, LeftOut]:
    """Find the candidates in known documents that are old, stale, or copies of better ones."""
    left_out: dict[ChunkKey, LeftOut] = {}
    best_with_text: dict[str, Layout] = {}  # by the digest of a text: its best document
    counting: list[tuple[Candidate, float]] = []
    for candidate, relevance in ranked:
        if candidate.key not in layouts:
            continue
        layout = layouts[candidate.key]
        if not is_current(layout, candidate.version):
            left_out[candidate.chunk_key] = LeftOut(candidate, relevance, "older version")
            continue
        if candidate.chunk_index in stale.get((candidate.key, candidate.version), ()):
            left_out[candidate.chunk_key] = LeftOut(candidate, relevance, "stale")
            continue
        text_digest = layout.manifest.text_digest
        if settings.duplicates != "keep" and text_digest:
            best = best_with_text.setdefault(text_digest, layout)
            if best is not layout:
                left_out[candidate.chunk_key] = LeftOut(
                    candidate, relevance, "duplicate", best.manifest.doc_id
                )
                continue
        counting.append((candidate, relevance))
    if settings.duplicates == "drop_near":
        left_out.update(_near_copies(counting, layouts))
    return left_out


def _copied_passages(
    ranked: Ranked, layouts: Layouts, queries: Sequence[str]
) -> dict[ChunkKey, LeftOut]:
    """Find candidates whose whole text stands word for word in candidates of a better document."""
    known = [pair for pair in ranked if isinstance(layouts.get(pair[0].key), Layout)]
    by_document = _by_document(known)
    documents = []
    found: dict[ChunkPlace, tuple[Candidate, float]] = {}
    for number, of_document in enumerate(by_document):
        texts: dict[int, str] = {}
        for candidate, relevance in of_document:
            texts[candidate.chunk_index] = _own_text(candidate, layouts)
            found[number, candidate.chunk_index] = candidate, relevance
        documents.append(texts)

    def may_drop(chunk: ChunkPlace, original: int) -> bool:
        candidate, _ = found[chunk]
        best_of_original, _ = by_document[original][0]
        return not _is_named_beside(candidate, best_of_original, queries)

    copies: dict[ChunkKey, LeftOut] = {}
    for chunk, original in find_copied(documents, may_drop).items():
        candidate, relevance = found[chunk]
        best_of_original, _ = by_document[original][0]
        copies[candidate.chunk_key] = LeftOut(
            candidate, relevance, "duplicate", best_of_original.doc_id
        )
    return copies


def _is_named_beside(candidate: Candidate, other: Candidate, queries: Sequence[str]) -> bool:
    """True if the query names the candidate's document by words that do not name the other one.

    A question that compares two contracts wants the clause of each, even if both have the same.
    """
    parts = candidate.parts
    if parts is None or parts.name_factor < 1:
        return False
    query = beginning_of(candidate.query or queries[0])
    content = without_function_words(query)
    naming_words = set(find_words(content)) - set(find_words(parts.matched_query))
    own_name, other_name = find_words(name_of(candidate)), find_words(name_of(other))
    return bool(naming_words & (set(own_name) - set(other_name)))


def _near_copies(ranked: Ranked, layouts: Layouts) -> dict[ChunkKey, LeftOut]:
    """Find candidates whose word sequences are nearly all in those of better documents."""
    copies: dict[ChunkKey, LeftOut] = {}
    first_with: dict[_Words, Candidate] = {}  # the first candidate with a sequence of words
    for candidate, relevance in itertools.chain.from_iterable(_by_document(ranked)):
        sequences = _word_sequences(candidate, layouts)
        originals = []
        for sequence in sequences:
            original = first_with.get(sequence)
            if original is not None and original.key != candidate.key:
                originals.append(original)
        if len(originals) >= _EQUAL_SHARE * len(sequences):
            copies[candidate.chunk_key] = LeftOut(
                candidate, relevance, "duplicate", originals[0].doc_id
            )
            continue
        for sequence in sequences:
            first_with.setdefault(sequence, candidate)
    return copies


def _word_sequences(candidate: Candidate, layouts: Layouts) -> Sequence[_Words]:
    """The sequences of five words in a chunk, each once, without the document's header."""
    words = spaced_words(_without_header(candidate, layouts)).split()
    count = max(len(words) - _SEQUENCE_LENGTH + 1, 1)
    sequences = (tuple(words[start : start + _SEQUENCE_LENGTH]) for start in range(count))
    return list(dict.fromkeys(sequences))


def _by_document(ranked: Ranked) -> list[list[tuple[Candidate, float]]]:
    """The candidates of each document; documents are in the order of their best candidates.

    The first with a text keeps all of it: chunk by chunk, the copies of a passage would take turns,
    and none would come back whole.
    """
    by_document: dict[str, list[tuple[Candidate, float]]] = {}
    for candidate, relevance in ranked:
        by_document.setdefault(candidate.key, []).append((candidate, relevance))
    return list(by_document.values())


def _without_header(candidate: Candidate, layouts: Layouts) -> str:
    layout = layouts[candidate.key]
    header = layout.manifest.header if isinstance(layout, Layout) else ""
    return candidate.document.page_content.removeprefix(header)


def _own_text(candidate: Candidate, layouts: Layouts) -> str:
    """The text of a chunk without the document's header and overlap with the chunk before it."""
    text = _without_header(candidate, layouts)
    layout = layouts[candidate.key]
    if isinstance(layout, Layout):
        start, end = layout.span_of(candidate.chunk_index)
        text = text[-(end - start) :]
    return text


def _without(candidates: Candidates, left_out: Collection[ChunkKey]) -> Candidates:
    """Leave out candidates, and number the ranks of the others from 0 again."""
    remaining = {}
    for query, candidates_of_query in candidates.items():
        counting = [one for one in candidates_of_query if one.chunk_key not in left_out]
        remaining[query] = _renumbered(counting)
    return remaining


def _renumbered(candidates: Sequence[Candidate]) -> list[Candidate]:
    ranks = sorted(c.rank for c in candidates if c.rank is not None)
    lexical_ranks = sorted(c.lexical_rank for c in candidates if c.lexical_rank is not None)
    renumbered = []
    for candidate in candidates:
        rank = candidate.rank
        if rank is not None:
            rank = bisect_left(ranks, rank)
        lexical_rank = candidate.lexical_rank
        if lexical_rank is not None:
            lexical_rank = bisect_left(lexical_ranks, lexical_rank)
        renumbered.append(candidate._replace(rank=rank, lexical_rank=lexical_rank))
    return renumbered
