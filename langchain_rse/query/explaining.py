"""Why a query returned nothing: one log line, as a warning where something is likely wrong.

The functions also return the reason, for the trace of the query.
"""

import logging
import math
from collections.abc import Collection, Iterable, Sequence

from langchain_core.documents import Document
from langchain_core.stores import BaseStore

from langchain_rse._messages import first_few, warn
from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings
from langchain_rse.engine import calibrate
from langchain_rse.errors import CorruptRecordError, MissingRecordError, StoreMismatchError
from langchain_rse.query.budget import Budget
from langchain_rse.query.scoring import ScoredChunks
from langchain_rse.query.search_arguments import may_exclude
from langchain_rse.query.searching import Candidate, Sources
from langchain_rse.query.selecting import Selection
from langchain_rse.stores.reading import Layouts, read_manifests, unreadable
from langchain_rse.stores.records import Manifest

logger = logging.getLogger(__name__)

# Documents among which one with text is looked for.
_LOOKED_AT = 500


def explain_nothing_found(
    sources: Sources, settings: QuerySettings, returned: int, candidates: int
) -> Steps[str]:
    """Say why no candidates are left, of those that stand for the Documents that were returned."""
    arguments = settings.search_kwargs
    thresholds = {name: arguments[name] for name in arguments if name.endswith("threshold")}
    limits = may_exclude(arguments) | thresholds
    if candidates:
        reranker = type(sources.reranker).__name__
        return _log(logging.INFO, f"{reranker} kept none of {candidates} candidates")
    if returned:
        known = f"none of {returned} Documents of {sources.name} is a chunk that the docstore knows"
        return _log(logging.WARNING, f"{known}. If the index was adopted, adopt it again")
    under = "".join(f" with {name}={value!r:.200}" for name, value in limits.items())
    reason = _log(logging.INFO, f"{sources.name} found nothing{under}")
    if sources.vectorstore is not None and not limits and (yield from _has_text(sources.docstore)):
        raise StoreMismatchError(
            f"{sources.name} found nothing, but the docstore has documents: the vector store "
            "is empty, or another one than they were added to. If its vectors are lost, "
            "check(repair=True) or langchain-rse check --repair writes them again from the "
            "docstore, as does adding the documents again"
        )
    return reason


def _has_text(docstore: BaseStore[str, Document]) -> Steps[bool]:
    """True if the docstore has a document with text, or one that cannot be read."""
    try:
        stored = yield from read_manifests(docstore, _LOOKED_AT)
    except CorruptRecordError:
        return True
    return any(manifest.current and manifest.current.chunks for manifest in stored)


def explain_left_out(
    docstore: BaseStore[str, Document],
    candidates: Sequence[Candidate],
    layouts: Layouts,
    replaced: Collection[object],
    settings: QuerySettings,
) -> Steps[None]:
    """Say which documents are left out that were replaced, are unknown or cannot be read."""
    if replaced:
        warn(f"{len(replaced)} document(s) were replaced while they were read: ask again")
    unknown = [c.doc_id for c in candidates if layouts.get(c.key, c) is None]
    names = first_few(map(repr, dict.fromkeys(unknown)))
    all_unknown = len(unknown) == len(candidates) and settings.on_missing == "raise"
    if all_unknown and not (yield from _has_text(docstore)):
        raise MissingRecordError(
            f"the docstore has no documents, but the vector store has chunks of {names}. Are the "
            "two stores a pair? If the docstore lost them, add the documents again"
        )
    if unknown:
        warn(
            f"{len(unknown)} of {len(candidates)} candidates are left out, as the docstore does "
            f"not know their document(s) {names}. retriever.check(repair=True), or langchain-rse "
            "check --repair, removes their vectors. If the docstore lost documents, add them again;"
            " if others have added them to an adopted index, adopt it again"
        )
    if errors := unreadable(layouts):
        named = dict.fromkeys(repr(c.doc_id) for c in candidates if c.key in errors)
        warn(
            f"{len(errors)} document(s) are left out, as the docstore's records of them cannot be "
            f"read: {first_few(named)}. Add them again with force=True; retriever.check() lists "
            f"what else is wrong. The first error: {next(iter(errors.values()))}"
        )


def explain_nothing_chosen(
    candidates: Sequence[Candidate],
    scored: ScoredChunks,
    selection: Selection,
    budget: Budget,
    settings: QuerySettings,
) -> str:
    """Say why there are candidates, but no segment."""
    config, count, level = settings.config, len(candidates), logging.INFO
    minimum, penalty = config.minimum_value, config.irrelevant_chunk_penalty
    best = max((float(scored.relevance[column]) for column in scored.candidates), default=0.0)
    room = math.inf if budget.characters is None else budget.characters
    worth = [column for column in scored.candidates if scored.relevance[column] >= penalty]
    fitting = [column for column in worth if scored.lengths[column] <= room]
    value = max((float(selection.values[column]) for column in fitting), default=0.0)
    if not scored.candidates:
        level = logging.WARNING
        reason = (
            f"all {count} candidates are of versions of documents that are no longer current, or "
            "of documents that the docstore does not know or cannot read. Delete their vectors, or "
            "add these documents again"
        )
    elif config.min_relevance and not best:
        scores = [candidate.score for candidate in candidates if candidate.rank is not None]
        best = max(calibrate(scores, config.calibration), default=0.0)
        limit = f"min_relevance={config.min_relevance:g}"
        reason = f"all {count} candidates are below {limit}: the best has {best:.3g}"
    elif not best or best < penalty:
        limit = f"irrelevant_chunk_penalty={penalty:g}"
        reason = f"the best relevance of {count} candidates is {best:.3g}, not worth {limit}"
    elif fitting and value < minimum:
        reason = f"all segments are below minimum_value={minimum:g}: the best chunk has {value:.3g}"
    elif fitting and settings.on_missing == "split":
        level = logging.WARNING
        reason = "the docstore lacks the chunks. Add their documents again"
    else:
        level = logging.WARNING if budget.limit else logging.INFO
        shortest = min(scored.lengths[column] for column in worth)
        reason = (
            "none of the candidates that are worth the penalty fits max_context_length="
            f"{budget.limit:g}: the shortest has {shortest} characters. allow_trim=True returns "
            "part of it; or make chunks smaller, or give more room"
        )
    return _log(level, reason)


def warn_of_other_models(model: str, manifests: Iterable[Manifest]) -> None:
    """Warn if the vectors of documents are of another embedding model."""
    if others := {one.doc_id for one in manifests if model and one.model not in {"", model}}:
        warn(
            f"{len(others)} document(s) have vectors of another embedding model, so that they are "
            f"found by chance: {first_few(map(repr, sorted(others)))}. check(repair=True) embeds "
            "them again, as does adding them"
        )


def _log(level: int, reason: str) -> str:
    logger.log(level, "a query returned nothing: %s", reason)
    return reason
