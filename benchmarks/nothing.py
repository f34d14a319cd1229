"""Whether a retriever knows when nothing is there: questions of other sets, and missing documents.

Run from anywhere: ``python benchmarks/nothing.py --data PATH``; PATH as for quality.py. A floor is
fitted to each set without questions. Then its own questions are asked, those of the other sets, and
its own without the documents that answer them. A question is lost if some of its evidence is
returned without the floor, and nothing with it. ``--reranker`` asks a sample behind a reranker.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from cross_encoder import Cached
from folders import (
    LANGUAGE,
    Folder,
    add_embeddings,
    cached_cross_encoder,
    folder_names,
    make_parser,
    read_folder,
    write_page,
)
from numpy.typing import NDArray
from pages import table
from quality import index
from vectors import MatrixStore, progress

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse._sync import run
from langchain_rse.embeddings import WordLlamaEmbeddings
from langchain_rse.filters import SimilarityBasedRelevanceFilter
from langchain_rse.query.candidates import Candidate
from langchain_rse.query.filters import filters_of
from langchain_rse.query.floor import ScoreFloor, best_first, share_of_words
from langchain_rse.query.reranking import find_candidates
from langchain_rse.rerankers import CrossEncoderReranker
from langchain_rse.text.general_questions import GENERAL_QUESTIONS
from langchain_rse.text.sentences import split_sentences

OTHERS = 60  # questions of each other set; behind a reranker 3
DRAWS = 200
LABELED = 30
LOST = 1 / (LABELED + 1)
RERANKED = {"questions": 40, "others": 3, "candidates": 100}
SENTENCES = 200
BEST = 20  # candidates in which words are looked for

Values = NDArray[np.float64]


class Measured(NamedTuple):
    """The figures of a set.

    Attributes:
        floor: What was fitted.
        recall: Of each question without a floor.
        own: The reach of each question.
        missing: The same without the documents that answer it.
        others: The reach of questions of each other set.
        unanswerable: The reach of questions about this set that have no answer, if there are any.
        rules: Floors of other rules, by rule and parameter.
        plain: The best scores of the questions, and of those of the other sets.
    """

    floor: ScoreFloor
    recall: Values
    own: Values
    missing: Values
    others: dict[str, Values]
    unanswerable: Values
    rules: dict[str, dict[str, float]]
    plain: tuple[Values, dict[str, Values]]


def main() -> None:
    """Measure, print, and write what was printed."""
    parser = make_parser(__doc__)
    add_embeddings(parser)
    parser.add_argument("--folders", nargs="+", metavar="NAME", help="default: all in English")
    parser.add_argument("--reranker", choices=("cross-encoder", "similarities"))
    arguments = parser.parse_args()
    options = f" --folders {' '.join(arguments.folders)}" if arguments.folders else ""
    if not arguments.folders:
        names = folder_names(arguments)
        arguments.folders = [name for name in names if not name.startswith(LANGUAGE)]
    results = {}
    folders = {name: read_folder(arguments, name) for name in arguments.folders}
    for name, folder in folders.items():
        others = {other: folders[other] for other in folders if other != name}
        results[name] = measure(folder, others, arguments)
        progress(name)
    stem = f"nothing-{arguments.embeddings}"
    command = f"python benchmarks/nothing.py --data PATH --embeddings {arguments.embeddings}"
    if arguments.reranker:
        stem += f"-{arguments.reranker}"
        command += f" --reranker {arguments.reranker}"
    command += options
    write_page(arguments, stem, write_up(results, arguments.reranker, command))


def measure(folder: Folder, others: dict[str, Folder], arguments: argparse.Namespace) -> Measured:
    """Fit a floor to a set, and ask all questions."""
    count = OTHERS
    if arguments.reranker:
        chosen = random.Random(0).sample(
            folder.questions, min(RERANKED["questions"], len(folder.questions))
        )
        folder = dataclasses.replace(folder, questions=chosen)
        count = RERANKED["others"]
    retriever, store = index(folder, arguments, SQLDocStore("sqlite://"))
    if arguments.reranker:
        retriever = retriever.model_copy(
            update={
                "reranker": make_reranker(folder, arguments),
                "fetch_k": RERANKED["candidates"],
            }
        )
    floor = retriever.fit_score_floor()
    asker = Asker(retriever, floor)
    recall = []
    own: list[tuple[float, float]] = []
    missing = []
    for question in folder.questions:
        answer = retriever.invoke(question.question, score_floor=None)
        recall.append(recall_of(question.evidence, answer))
        candidates = asker.find(question.question)
        own.append(asker.reach(question.question, candidates))
        answering = {evidence.doc_id for evidence in question.evidence}
        rest = [each for each in candidates if each.doc_id not in answering]
        missing.append(asker.reach(question.question, rest)[1])
    reached = {}
    for other, other_folder in others.items():
        queries = [question.question for question in other_folder.questions]
        if arguments.reranker:
            queries = random.Random(1).sample(queries, count)
        reached[other] = np.array([asker.ask(query) for query in queries[:count]])
    unanswerable = []
    path = arguments.data / "unanswerable" / f"{folder.name}.jsonl"
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        queries = [json.loads(line)["question"] for line in lines]
        if arguments.reranker:
            queries = random.Random(1).sample(queries, RERANKED["questions"])
        unanswerable = [asker.ask(query)[1] for query in queries]
    own_values = np.array(own)
    return Measured(
        floor=floor,
        recall=np.array(recall),
        own=own_values[:, 1],
        missing=np.array(missing),
        others={name: values[:, 1] for name, values in reached.items()},
        unanswerable=np.array(unanswerable),
        rules={} if arguments.reranker else other_rules(store),
        plain=(own_values[:, 0], {name: values[:, 0] for name, values in reached.items()}),
    )


def make_reranker(folder: Folder, arguments: argparse.Namespace) -> Any:  # noqa: ANN401
    """The reranker that the arguments name."""
    if arguments.reranker == "similarities":
        return SimilarityBasedRelevanceFilter(embeddings=WordLlamaEmbeddings(), threshold=0.0)
    return CrossEncoderReranker(model=Cached(cached_cross_encoder(folder, arguments)))


class Asker:
    """Asks through a retriever's search and reranker, and measures how near the best comes."""

    def __init__(self, retriever: RSERetriever, floor: ScoreFloor) -> None:
        self._retriever = retriever
        self._filters = filters_of(retriever.search_kwargs, retriever.base_retriever)
        self._floor = floor

    def find(self, query: str) -> list[Candidate]:
        """The candidates of a query."""
        sources = self._retriever.sources
        _, candidates = run(find_candidates(sources, [query], self._retriever, self._filters))
        return list(candidates[query])

    def ask(self, query: str) -> tuple[float, float]:
        """The best score of a query, and its reach."""
        return self.reach(query, self.find(query))

    def reach(self, query: str, candidates: Sequence[Candidate]) -> tuple[float, float]:
        """The same of candidates."""
        by_rank = best_first(candidates)
        best = by_rank[0].hit if by_rank else None
        if best is None or best.score is None:
            return -np.inf, -np.inf
        share = share_of_words(query, by_rank[:BEST])
        return best.score, self._floor.reach(best.score, share)


def recall_of(evidence: Sequence[Any], answer: Sequence[Any]) -> float:
    """The share of the evidence's characters that an answer has."""
    wanted: set[tuple[str, int]] = set()
    for part in evidence:
        wanted.update((part.doc_id, place) for place in range(part.start, part.end))
    found: set[tuple[str, int]] = set()
    for segment in answer:
        fields = segment.metadata
        places = range(fields["start_index"], fields["end_index"])
        found.update((fields["doc_id"], place) for place in places)
    return len(wanted & found) / len(wanted)


def other_rules(store: MatrixStore) -> dict[str, dict[str, float]]:
    """The floors of other rules, on plain scores."""
    keys = list(store.vectors)
    matrix = np.stack(list(store.vectors.values()))
    documents = np.array([doc_id for doc_id, _ in keys])
    rng = np.random.default_rng(0)
    sentences = []
    for document in (store._documents[place] for place in rng.permutation(len(keys)).tolist()):  # noqa: SLF001
        long_enough = [
            each for each in split_sentences(document.page_content) if len(each.split()) >= 6
        ]
        if long_enough:
            place = keys.index((document.metadata["doc_id"], document.metadata["chunk_index"]))
            sentences.append((place, long_enough[int(rng.integers(len(long_enough)))]))
        if len(sentences) == SENTENCES:
            break
    places = np.array([place for place, _ in sentences])
    scores = store.embeddings.queries([text for _, text in sentences]) @ matrix.T
    rows = np.arange(len(places))
    own = scores[rows, places]
    in_others = np.where(documents[None] == documents[places][:, None], -1, scores).max(axis=1)
    scores[rows, places] = -1
    elsewhere = scores.max(axis=1)
    general = (store.embeddings.queries(list(GENERAL_QUESTIONS)) @ matrix.T).max(axis=1)
    first, second = rng.integers(0, len(keys), (2, 4000))
    pairs = (matrix[first] * matrix[second]).sum(axis=1)[first != second]
    expected = np.median(scores.mean(axis=1)) + np.outer(
        (0.3, 0.4, 0.5, 0.6), np.median(scores.std(axis=1)) * np.sqrt(2 * np.log(len(keys)))
    )
    return {
        "a sentence, with its own chunk": percentiles(own, (1, 2, 5, 10)),
        "a sentence, with other chunks": percentiles(elsewhere, (1, 2, 5)),
        "a sentence, with other documents": percentiles(in_others, (1, 2, 5, 10)),
        "random pairs of chunks": percentiles(pairs, (50, 75, 90, 99)),
        "the expected maximum of a query's scores": dict(
            zip(("0.3 sd", "0.4 sd", "0.5 sd", "0.6 sd"), expected[:, 0].tolist(), strict=True)
        ),
        "general questions": percentiles(general, (50, 75, 90)),
    }


def percentiles(values: Values, wanted: Sequence[int]) -> dict[str, float]:
    """Some percentiles, by their names."""
    return {f"p{percent}": float(np.percentile(values, percent)) for percent in wanted}


def write_up(results: dict[str, Measured], reranker: str | None, command: str) -> Iterator[str]:
    """The whole page, line by line."""
    yield from ("# When nothing is there", "", f"Made by `{command}`.", "")
    if reranker:
        yield f"Behind {reranker}: 40 questions a set, {RERANKED['others']} of each other set."
    yield from ("Fitted without questions, shares of questions:", "")
    rows = []
    for name, found in results.items():
        floor = found.floor.floor
        lost = (found.recall > 0) & (found.own < floor)
        cells = [
            (found.own < floor).mean(),
            lost.mean(),
            (found.recall * lost).mean(),
            mean_refused(found.others, floor),
            min((values < floor).mean() for values in found.others.values()),
            (found.missing < floor).mean(),
            (found.unanswerable < floor).mean() if found.unanswerable.size else np.nan,
        ]
        rows.append([name, f"{floor:.2f}", *cells])
    means = np.nanmean(np.array([row[2:] for row in rows], dtype=float), axis=0)
    rows.append(["mean", "", *means.tolist()])
    yield from table(
        [
            *("index", "floor", "own refused", "own lost", "recall lost", "of other sets refused"),
            *("least of a set", "document missing: refused", "unanswerable: refused"),
        ],
        [[row[0], row[1], *("" if np.isnan(x) else f"{x:.3f}" for x in row[2:])] for row in rows],
    )
    yield from labeled(results)
    if not reranker:
        yield from compared(results)


def mean_refused(others: dict[str, Values], floor: float) -> float:
    """The share of questions of other sets below a floor, the mean over sets."""
    return float(np.mean([(values < floor).mean() for values in others.values()]))


def labeled(results: dict[str, Measured]) -> Iterator[str]:
    """What a floor fitted with questions loses and refuses, over many draws."""
    yield (
        f"Fitted with {LABELED} questions drawn {DRAWS} times (lost={LOST:.4f}, which is what "
        "so many allow), measured on the others:"
    )
    yield ""
    rng = np.random.default_rng(0)
    rows = []
    number = int((LABELED + 1) * LOST + 1e-9)
    for name, found in results.items():
        # Questions whose evidence is not found cannot be lost.
        reach = np.where(found.recall > 0, found.own, np.inf)
        figures = []
        for _ in range(DRAWS):
            order = rng.permutation(reach.size)
            floor = float(np.sort(reach[order[:LABELED]])[number - 1])
            floor = min(floor, float(found.own.max()))
            held_out = reach[order[LABELED:]]
            lost = (held_out < floor).mean() if held_out.size else np.nan
            figures.append(
                (lost, mean_refused(found.others, floor), (found.missing < floor).mean())
            )
        rows.append((name, *np.mean(figures, axis=0).tolist()))
    rows.append(("mean", *np.mean([row[1:] for row in rows], axis=0).tolist()))
    yield from table(
        ["index", "lost", "of other sets refused", "document missing: refused"],
        [[name, *(f"{value:.3f}" for value in values)] for name, *values in rows],
    )


def compared(results: dict[str, Measured]) -> Iterator[str]:
    """The loss and refusal of other rules without questions, by their parameter."""
    yield from ("Other rules without questions, on plain scores:", "")
    rows = []
    first = next(iter(results.values()))
    for rule, parameters in first.rules.items():
        for parameter in parameters:
            lost, refused = [], []
            for found in results.values():
                floor = found.rules[rule][parameter]
                own, others = found.plain
                lost.append(((found.recall > 0) & (own < floor)).mean())
                refused.append(mean_refused(others, floor))
            figures = (np.max(lost), np.mean(lost), np.mean(refused), np.min(refused))
            rows.append([f"{rule}, {parameter}", *(f"{value:.3f}" for value in figures)])
    titles = ["lost, of the worst set", "lost, mean", "refused, mean", "refused, of the worst set"]
    yield from table(["rule", *titles], rows)


if __name__ == "__main__":
    main()
