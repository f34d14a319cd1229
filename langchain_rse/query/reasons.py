"""Says in words why an answer is empty, and which documents were left out."""

import logging
from collections.abc import Collection, Iterable, Sequence

from langchain_core.documents import Document
from langchain_core.stores import BaseStore

from langchain_rse._messages import warn
from langchain_rse._sync import Steps
from langchain_rse.config import QuerySettings, RSEConfig
from langchain_rse.engine import calibrate
from langchain_rse.errors import CorruptRecordError, MissingRecordError, StoreMismatchError
from langchain_rse.query.budget import Budget
from langchain_rse.query.candidates import Candidate, Sources
from langchain_rse.query.floors import Reached
from langchain_rse.query.scoring import ScoredChunks
from langchain_rse.query.search_arguments import may_exclude
from langchain_rse.query.selection import Selection
from langchain_rse.stores.reading import Layouts, read_manifests, unreadable
from langchain_rse.stores.records import Manifest
from langchain_rse.text.quoting import counted, first_few

logger = logging.getLogger(__name__)

# The number of documents that are searched for one with text.
_MOST_READ = 500


# Empty answers


class NothingFoundError(StoreMismatchError):
    """A search found nothing, and afterwards the docstore has documents with text."""


def explain_no_candidates(
    sources: Sources, settings: QuerySettings, documents: int, candidates: int
) -> Steps[str]:
    """Say why there is no candidate.

    ``documents`` and ``candidates`` are the numbers that the search found, before a reranker.
    """
    if candidates:
        reranker = type(settings.reranker).__name__
        return _log(logging.INFO, f"{reranker} kept none of {candidates} candidates")
    if documents:
        return _log(
            logging.WARNING,
            f"none of {documents} Documents of {sources.name} is a chunk in the docstore. If the "
            "index was adopted, adopt it again",
        )
    limits = may_exclude(settings.search_kwargs)
    for name, value in settings.search_kwargs.items():
        if name.endswith("threshold"):
            limits[name] = value
    if sources.vectorstore is not None and not limits and (yield from _has_text(sources.docstore)):
        raise NothingFoundError(
            f"{sources.name} found nothing, but the docstore has documents: the vector store "
            "is empty, or is not the one they were added to. If its vectors are lost, "
            "check(repair=True) or langchain-rse check --repair writes them again"
        )
    under_limits = "".join(f" with {name}={value!r:.200}" for name, value in limits.items())
    return _log(logging.INFO, f"{sources.name} found nothing{under_limits}")


def explain_refused(reached: Sequence[Reached], settings: QuerySettings) -> str:
    """Say why no candidate comes near enough to any query."""
    best = next(each for each in reached if each.is_refused)
    score = None if best.best is None else best.best.score
    shown_score = f"the best candidate's score is {score:.3g}"
    if best.reach != score:
        shown_score += f", {best.reach:.3g} with the words of the question in it"
    floor = f"score_floor={best.floor:.3g}"
    if settings.score_floor == "calibrated":
        floor = f"the calibrated score_floor is {best.floor:.3g}"
    several = ""
    if len(reached) > 1:
        several = f" of {len(reached)} queries, none reaches it; for the first"
    is_distance = best.reach is not None and best.floor is not None and best.reach > best.floor
    note = " (a distance: lower is better)" if is_distance else ""
    reason = f"nothing in the documents is near enough:{several} {shown_score}, {floor}{note}"
    return _log(logging.INFO, reason)


def explain_nothing_chosen(
    candidates: Sequence[Candidate],
    scored: ScoredChunks,
    selection: Selection,
    budget: Budget,
    settings: QuerySettings,
) -> str:
    """Say why there are candidates, but no segment."""
    config = settings.config
    count = len(candidates)
    if not scored.candidates:
        return _log(
            logging.WARNING,
            f"all {count} candidates are of versions of documents that are no longer current, or "
            "of documents that the docstore does not know or cannot read. Delete their vectors, "
            "add these documents again or, if other code changed an adopted index, adopt it again",
        )
    columns = list(scored.candidates)
    best_relevance = float(scored.relevance[columns].max())
    if config.min_relevance and not best_relevance:
        best_calibrated = _best_calibrated(candidates, config)
        return _log(
            logging.INFO,
            f"all {count} candidates are below min_relevance={config.min_relevance:g}: the best "
            f"has {best_calibrated:.3g}",
        )
    penalty = config.irrelevant_chunk_penalty
    if not best_relevance or best_relevance < penalty:
        return _log(
            logging.INFO,
            f"the best relevance of {counted(count, 'candidate')} is {best_relevance:.3g}, below "
            f"irrelevant_chunk_penalty={penalty:g}",
        )
    worth = [column for column in columns if scored.relevance[column] >= penalty]
    fitting = worth
    if budget.characters is not None:
        fitting = [column for column in worth if scored.lengths[column] <= budget.characters]
    if fitting:
        best_value = float(selection.values[fitting].max())
        if best_value < config.minimum_value:
            return _log(
                logging.INFO,
                f"all segments are below minimum_value={config.minimum_value:g}: the best chunk "
                f"has {best_value:.3g}",
            )
        if settings.on_missing == "split":
            return _log(logging.WARNING, "the docstore lacks the chunks. Add their documents again")
    shortest = f"{min(scored.lengths[column] for column in worth)} characters"
    if not budget.is_exact:
        shortest += "; with its headings, length_function counts more than the budget"
    advice = "Make chunks smaller, or raise the budget"
    if not settings.allow_trim:
        advice += "; allow_trim=True returns a part"
    # A budget of 0 is set on purpose.
    return _log(
        logging.WARNING if budget.limit else logging.INFO,
        "none of the candidates that are worth the penalty fits max_context_length="
        f"{budget.limit:g}: the shortest has {shortest}. {advice}",
    )


def _best_calibrated(candidates: Sequence[Candidate], config: RSEConfig) -> float:
    """The highest relevance by scores alone, whatever min_relevance."""
    scores = [candidate.score for candidate in candidates if candidate.rank is not None]
    return float(max(calibrate(scores, config.calibration), default=0.0))


def _log(level: int, reason: str) -> str:
    logger.log(level, "a query returned nothing: %s", reason)
    return reason


# Documents that were left out


def explain_left_out(
    docstore: BaseStore[str, Document],
    candidates: Sequence[Candidate],
    layouts: Layouts,
    replaced: Collection[str],
    settings: QuerySettings,
) -> Steps[None]:
    """Warn of documents left out because they were replaced, are unknown or cannot be read.

    ``replaced`` has the keys of those that were replaced while they were read.
    """
    if replaced:
        warn(f"{len(replaced)} document(s) were replaced while they were read: ask again")
    unknown = []
    for candidate in candidates:
        is_unknown = candidate.key in layouts and layouts[candidate.key] is None
        if is_unknown and candidate.key not in replaced:
            unknown.append(repr(candidate.doc_id))
    if unknown:
        names = first_few(dict.fromkeys(unknown))
        all_unknown = len(unknown) == len(candidates)
        if all_unknown and settings.on_missing == "raise":
            yield from _check_not_empty(docstore, names)
        warn(
            f"{len(unknown)} of {len(candidates)} candidates are left out, as the docstore does "
            f"not know their document(s) {names}. check(repair=True) or langchain-rse check "
            "--repair removes their vectors. If the docstore lost them, add them again; if other "
            "code added them to an adopted index, adopt it again"
        )
    errors = unreadable(layouts)
    for key in replaced:
        errors.pop(key, None)
    if errors:
        doc_ids = [repr(candidate.doc_id) for candidate in candidates if candidate.key in errors]
        first_error = next(iter(errors.values()))
        warn(
            f"{len(errors)} document(s) are left out, as the docstore's records of them cannot be "
            f"read: {first_few(dict.fromkeys(doc_ids))}. Add them again with "
            "add_documents(..., force=True) or langchain-rse remove and index. The first error: "
            f"{first_error}"
        )


def _check_not_empty(docstore: BaseStore[str, Document], names: str) -> Steps[None]:
    if not (yield from _has_text(docstore)):
        raise MissingRecordError(
            f"the docstore has no documents, but the vector store has chunks of {names}. Are the "
            "two stores a pair? If the docstore lost them, add the documents again"
        )


def _has_text(docstore: BaseStore[str, Document]) -> Steps[bool]:
    """True if the docstore has a document with text, or one that cannot be read."""
    try:
        manifests = yield from read_manifests(docstore, _MOST_READ)
    except CorruptRecordError:
        return True
    for manifest in manifests:
        if manifest.current is not None and manifest.current.chunks:
            return True
    return False


def warn_of_other_models(model: str, manifests: Iterable[Manifest]) -> None:
    """Warn if the vectors of documents are of another embedding model than the given one."""
    doc_ids = set()
    for manifest in manifests:
        if model and manifest.model not in {"", model}:
            doc_ids.add(repr(manifest.doc_id))
    if doc_ids:
        warn(
            f"{len(doc_ids)} document(s) have vectors of another embedding model, so that they are "
            f"found by chance: {first_few(sorted(doc_ids))}. check(repair=True) or langchain-rse "
            "check --repair embeds them again, as does adding them"
        )
