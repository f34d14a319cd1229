"""How much of the evidence comes back with scores like a reranker's: ours beside others.

Run from anywhere: ``python benchmarks/reranked.py --data PATH``; PATH as for quality.py, whose
folder ``filings`` is used. The scores are simulated, so that no service is asked: each question
gets all chunks of its own document. A chunk that overlaps the evidence by a fifth or more of its
length scores high with probability 0.5, any other with 0.01; high scores are drawn from
Beta(6, 1.2), low ones from Beta(0.4, 8).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from alternatives import FilledRetriever
from folders import Folder, make_parser, read_folder, write_page
from langchain_core.callbacks import CallbackManagerForRetrieverRun, Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from numpy.typing import NDArray
from pages import OURS, RESAMPLES, SEED, TOP_K, table
from quality import FILL, ask, ask_each
from typing_extensions import override
from vectors import progress

from langchain_rse import PRESETS, RSEConfig, RSERetriever, SQLDocStore
from langchain_rse.evaluation import Question

SEEDS = 10
FOLDER = "filings"
CALIBRATION = "beta(0.4, 0.4)"
ENOUGH_OVERLAP = 0.2
HIGH_IF_RELEVANT, HIGH_IF_NOT = 0.5, 0.01
HIGH, LOW = (6.0, 1.2), (0.4, 8.0)
EVERYTHING = 1_000_000

GREEDY = "dsrag-balanced"
BEST = "the best 200 only"

Floats = NDArray[np.float64]


class Simulated(BaseDocumentCompressor):
    """A reranker that gives the scores it was told."""

    drawn: Mapping[str, Mapping[str, float]]
    """By query, the score of each Document by its id."""
    top_n: int | None = None

    @override
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        scores = self.drawn[query]
        best = sorted(documents, key=lambda document: -scores[str(document.id)])[: self.top_n]
        return [
            Document(
                id=document.id,
                page_content=document.page_content,
                metadata={**document.metadata, "relevance_score": scores[str(document.id)]},
            )
            for document in best
        ]


class OwnDocument(BaseRetriever):
    """All chunks of the one document that a question is about."""

    chunks: Mapping[str, Sequence[Document]]
    """By question."""
    reranker: Simulated | None = None
    """Puts them in order, if given."""

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        chunks = list(self.chunks[query])
        return chunks if self.reranker is None else self.reranker.compress_documents(chunks, query)


def main() -> None:
    """Measure, print, and write what was printed."""
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"default {SEEDS}")
    arguments = parser.parse_args()
    if not (arguments.data / FOLDER / "questions.jsonl").exists():
        sys.exit(f"{arguments.data} has no {FOLDER}/questions.jsonl")
    folder = read_folder(arguments, FOLDER)
    recalls = measure(folder, arguments.seeds)
    command = "python benchmarks/reranked.py --data PATH"
    if arguments.seeds != SEEDS:
        command += f" --seeds {arguments.seeds}"
    write_page(
        arguments,
        "reranked",
        write_up(folder, recalls, command),
        command=command,
        recall={
            label: np.round(some.mean(axis=1), 6).tolist()  # seeds, budgets
            for label, some in recalls.items()
        },
    )


def measure(folder: Folder, seeds: int) -> dict[str, Floats]:
    """Evidence recall by method, each of shape ``(seeds, questions, budgets)``."""
    # Its vectors are never asked.
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=1))
    index = RSERetriever(
        vectorstore=store, docstore=SQLDocStore("sqlite://"), text_splitter=folder.splitter
    )
    index.add_documents(folder.documents)
    by_document: dict[str, list[Document]] = {}
    for chunk in store.get_by_ids(list(store.store)):
        by_document.setdefault(chunk.metadata["doc_id"], []).append(chunk)
    for chunks in by_document.values():
        chunks.sort(key=lambda chunk: int(chunk.metadata["start_index"]))
    own = {
        question.question: by_document[question.evidence[0].doc_id] for question in folder.questions
    }
    recalls: dict[str, list[Floats]] = {}
    for seed in range(seeds):
        progress(f"seed {seed}")
        # One question, one run of scores: a document has other scores for each.
        rng = np.random.default_rng(seed)
        drawn = {
            question.question: dict(
                zip(
                    (str(chunk.id) for chunk in own[question.question]),
                    draw_scores(question, own[question.question], rng),
                    strict=True,
                )
            )
            for question in folder.questions
        }
        for label, recall in ask_all(folder, index, own, drawn).items():
            recalls.setdefault(label, []).append(recall)
    progress("")
    return {label: np.stack(some) for label, some in recalls.items()}


def draw_scores(
    question: Question, chunks: Sequence[Document], rng: np.random.Generator
) -> list[float]:
    """One score for each chunk."""
    shares = np.array([evidence_share(question, chunk) for chunk in chunks])
    chance = np.where(shares >= ENOUGH_OVERLAP, HIGH_IF_RELEVANT, HIGH_IF_NOT)
    is_high = rng.random(len(chunks)) < chance
    high, low = rng.beta(*HIGH, len(chunks)), rng.beta(*LOW, len(chunks))
    scores: list[float] = np.where(is_high, high, low).tolist()
    return scores


def evidence_share(question: Question, chunk: Document) -> float:
    """How much of a chunk is evidence."""
    start, end = int(chunk.metadata["start_index"]), int(chunk.metadata["end_index"])
    shared = sum(
        max(0, min(end, part.end) - max(start, part.start))
        for part in question.evidence
        if part.doc_id == chunk.metadata["doc_id"]
    )
    return shared / (end - start)


def ask_all(
    folder: Folder,
    index: RSERetriever,
    own: Mapping[str, Sequence[Document]],
    drawn: Mapping[str, Mapping[str, float]],
) -> dict[str, Floats]:
    """Evidence recall by method, each of shape ``(questions, budgets)``."""
    chunks = OwnDocument(chunks=own)

    def reranked(config: RSEConfig, top_n: int | None = None, **settings: Any) -> RSERetriever:  # noqa: ANN401 - the retriever's own
        return RSERetriever(
            base_retriever=chunks,
            candidates_only=False,
            docstore=index.docstore,
            reranker=Simulated(drawn=drawn, top_n=top_n),
            fetch_k=EVERYTHING,
            config=config.replace(calibration=CALIBRATION),
            **settings,
        )

    ours = reranked(RSEConfig())
    greedy = reranked(PRESETS[GREEDY], max_context_length=None)
    size = folder.layout.chunk_size
    reports = {
        OURS: ask(folder, OURS, ours, **FILL),
        f"{OURS}, {BEST}": ask(folder, BEST, reranked(RSEConfig(), top_n=200), **FILL),
        TOP_K: ask(folder, TOP_K, OwnDocument(chunks=own, reranker=Simulated(drawn=drawn))),
        GREEDY: ask_each(
            folder,
            GREEDY,
            lambda budget: FilledRetriever(retriever=greedy, chunk_size=size, budget=budget),
        ),
    }
    return {label: report.figures["recall"] for label, report in reports.items()}


def write_up(folder: Folder, recalls: Mapping[str, Floats], command: str) -> Iterator[str]:
    """The whole page, line by line."""
    seeds, questions, _ = recalls[OURS].shape
    yield from ("# With scores like a reranker's", "", f"Made by `{command}`.", "")
    yield from (
        f"{questions} questions on *{folder.name}*, each against all chunks of its own document,",
        f"with {seeds} draws of scores, calibrated by `{CALIBRATION}`; every method fills the",
        "budget. Evidence recall, and ours minus it with its 95 % interval: a bootstrap over the",
        "questions, paired, draws averaged within each.",
        "",
    )
    titles = [f"{budget:,}" for budget in folder.layout.budgets]
    rows = []
    for label, recall in recalls.items():
        means = recall.mean(axis=(0, 1))
        cells = [f"{mean:.3f}" for mean in (*means, means.mean())]
        rows.append([f"**{label}**" if label == OURS else label, *cells])
    yield from table(["recall at characters", *titles, "mean"], rows)
    rows = [
        [label, *differences((recalls[OURS] - recall).mean(axis=0))]
        for label, recall in recalls.items()
        if label != OURS
    ]
    yield from table(["ours minus", *titles, "mean"], rows)


def differences(by_question: Floats) -> Iterator[str]:
    """Mean differences with intervals: for each budget, then for their mean."""
    rng = np.random.default_rng(SEED)
    count = len(by_question)
    with_mean = np.column_stack([by_question, by_question.mean(axis=1)])
    drawn = rng.multinomial(count, np.full(count, 1 / count), RESAMPLES) @ with_mean / count
    ends = np.quantile(drawn, [0.025, 0.975], axis=0).T
    for mean, (low, high) in zip(with_mean.mean(axis=0), ends, strict=True):
        yield f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"


if __name__ == "__main__":
    main()
