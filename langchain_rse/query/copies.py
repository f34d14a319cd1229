"""Decides which candidates do not count: old or stale ones, and copies of better ones."""

import itertools
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeGuard

from langchain_rse.config import QuerySettings
from langchain_rse.engine.repeats import Passages, comparable, shared_shares
from langchain_rse.query.candidates import Candidate, Candidates, ChunkKey
from langchain_rse.query.naming import name_of
from langchain_rse.query.ranking import Ranked, best_of_queries, rank_all
from langchain_rse.stores.reading import Layout, Layouts, VersionKey
from langchain_rse.text.words import beginning_of, find_words, spaced_words, without_function_words

# Passages: the fewest characters, without white space, of a text that counts as a copy: some 30
# words. And the share of a candidate, by an estimate, that other documents must have before texts
# are compared: less than all, as a passage that lies in two chunks is estimated for each.
_SHORTEST_PASSAGE = 150
_SHARED_SHARE = 0.2
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
    """Find candidates whose whole text stands word for word in candidates of a better document.

    Neighboring candidates are compared as one text, since chunks of two documents rarely end at the
    same places of a passage. Short texts, such as a turn of a chat or a heading, are no copies.
    """
    known = [pair for pair in ranked if isinstance(layouts.get(pair[0].key), Layout)]
    by_document = _by_document(known)
    shares = _shares_in_other_documents(by_document, layouts)
    if max(shares.values(), default=0.0) < _SHARED_SHARE:  # true for most queries
        return {}
    passages = Passages()
    first_candidates: dict[str, Candidate] = {}  # by document id
    copies: dict[ChunkKey, LeftOut] = {}
    for of_document in by_document:
        sharing_chunks = {c.chunk_index for c, _ in of_document if shares[c.chunk_key]}
        texts: dict[int, str] = {}
        for candidate, relevance in of_document:
            index = candidate.chunk_index
            if sharing_chunks.isdisjoint((index - 1, index, index + 1)):
                continue
            text = comparable(_own_text(candidate, layouts))
            texts[index] = text
            if index not in sharing_chunks or len(text) < _SHORTEST_PASSAGE:
                continue
            doc_id = passages.name_with(text)
            if doc_id is None or _is_named_beside(candidate, first_candidates[doc_id], queries):
                continue
            copies[candidate.chunk_key] = LeftOut(candidate, relevance, "duplicate", doc_id)
        first_candidate, _ = of_document[0]
        first_candidates[first_candidate.doc_id] = first_candidate
        for text in _joined_neighbors(texts):
            passages.add(text, first_candidate.doc_id)
    return copies


def _shares_in_other_documents(
    by_document: Sequence[Ranked], layouts: Layouts
) -> dict[ChunkKey, float]:
    """Estimate which share of each candidate's text stands in candidates of other documents."""
    if len(by_document) <= 1:
        return {}
    keys, texts, numbers = [], [], []
    for number, of_document in enumerate(by_document):
        for candidate, _ in of_document:
            keys.append(candidate.chunk_key)
            texts.append(_without_header(candidate, layouts))
            numbers.append(number)
    return dict(zip(keys, shared_shares(texts, numbers).tolist(), strict=True))


def _joined_neighbors(texts: Mapping[int, str]) -> Iterator[str]:
    """Join the texts of chunks that follow one another; texts are given by chunk numbers."""
    joined: list[str] = []
    previous = None
    for index in sorted(texts):
        if joined and index - 1 != previous:
            yield "".join(joined)
            joined = []
        joined.append(texts[index])
        previous = index
    yield "".join(joined)


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
