"""How much of the evidence comes back behind a real cross-encoder: ours beside others.

Run from anywhere: ``python benchmarks/cross_encoder.py --data PATH``; PATH as for quality.py.
Of each folder, a seeded sample of questions is asked (``--questions``, default 50). Their best
100 candidates by vectors get scores of ms-marco-MiniLM-L-12-v2, some 50 ms a candidate on two
processors, which are kept in the cache. No names of documents stand in front of chunks.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from alternatives import FilledRetriever
from folders import (
    Folder,
    add_embeddings,
    cached_cross_encoder,
    folder_names,
    make_parser,
    read_folder,
    write_page,
)
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import CrossEncoderReranker as Classic
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.retrievers import BaseRetriever
from pages import OURS, TOP_K, difference, mean_over_cells, table
from quality import FILL, ask, ask_each, index
from reranked import ENOUGH_OVERLAP, evidence_share
from vectors import CachedCrossEncoder, MatrixStore, progress

from langchain_rse import PRESETS, RSEConfig, RSERetriever, SQLDocStore
from langchain_rse.evaluation import Report
from langchain_rse.rerankers import CrossEncoderReranker

CANDIDATES = 100
SEED = 0
RERANKED = "cross-encoder, top-k chunks"
OURS_RERANKED = "cross-encoder, langchain-rse"
BORDERS = (-8.0, -4.0, 0.0, 4.0)

WAYS: Mapping[str, RSEConfig] = {
    OURS_RERANKED: RSEConfig(),
    "the same, half and half": RSEConfig(rerank_weight=0.5),
    "the same, the cross-encoder alone": RSEConfig(rerank_weight=1.0),
    "the same, calibration sigmoid": RSEConfig(calibration="sigmoid"),
    "the same, calibration rank": RSEConfig(calibration="rank"),
}

Reliability = list[tuple[float, bool]]


class Cached(BaseCrossEncoder):
    """The cross-encoder with its cache, as LangChain has them."""

    def __init__(self, encoder: CachedCrossEncoder) -> None:
        self._encoder = encoder

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """The logits of pairs of query and text."""
        return self._encoder.score(text_pairs)


def main() -> None:
    """Measure, print, and write what was printed."""
    parser = make_parser(__doc__)
    add_embeddings(parser)
    parser.add_argument("--folders", nargs="+", metavar="NAME", help="default: all in PATH")
    parser.add_argument("--questions", type=int, default=50, help="of each folder; default 50")
    arguments = parser.parse_args()
    arguments.names = False
    results: dict[str, dict[str, Report]] = {}
    scores: dict[str, Reliability] = {}
    for name in folder_names(arguments):
        whole = read_folder(arguments, name)
        chosen = random.Random(SEED).sample(
            whole.questions, min(arguments.questions, len(whole.questions))
        )
        folder = dataclasses.replace(whole, questions=chosen)
        ours, store = index(folder, arguments, SQLDocStore("sqlite://"))
        model = Cached(cached_cross_encoder(folder, arguments))
        scores[name] = score_all(folder, store, model)
        results[name] = measure(folder, ours, store, model)
    options = f"--embeddings {arguments.embeddings} --questions {arguments.questions}"
    if arguments.folders:
        options += f" --folders {' '.join(arguments.folders)}"
    write_page(
        arguments,
        f"cross-encoder-{arguments.embeddings}",
        write_up(results, scores, f"python benchmarks/cross_encoder.py --data PATH {options}"),
    )


def score_all(folder: Folder, store: MatrixStore, model: Cached) -> Reliability:
    """Score all candidates, and say of each whether it is relevant."""
    found = [
        (question, chunk)
        for question in folder.questions
        for chunk in store.similarity_search(question.question, k=CANDIDATES)
    ]
    logits = model.score([(question.question, chunk.page_content) for question, chunk in found])
    return [
        (logit, evidence_share(question, chunk) >= ENOUGH_OVERLAP)
        for (question, chunk), logit in zip(found, logits, strict=True)
    ]


def measure(
    folder: Folder, ours: RSERetriever, store: MatrixStore, model: Cached
) -> dict[str, Report]:
    """Ask all methods."""
    plain = store.as_retriever(search_kwargs={"k": CANDIDATES})
    compressing = ContextualCompressionRetriever(
        base_compressor=Classic(model=model, top_n=CANDIDATES), base_retriever=plain
    )

    def reranked(config: RSEConfig, **settings: Any) -> RSERetriever:  # noqa: ANN401
        return RSERetriever(
            vectorstore=store,
            docstore=ours.docstore,
            reranker=CrossEncoderReranker(model=model),
            fetch_k=CANDIDATES,
            config=config,
            **settings,
        )

    reports = {
        TOP_K: ask(folder, TOP_K, plain),
        OURS: ask(folder, OURS, ours, **FILL),
        RERANKED: ask(folder, RERANKED, compressing),
    }
    for label, config in WAYS.items():
        reports[label] = ask(folder, label, reranked(config), **FILL)
    for name in ("balanced", "precision"):
        config = PRESETS[f"dsrag-{name}"].replace(calibration="minmax")
        greedy = reranked(config, max_context_length=None)

        def at(budget: int, greedy: RSERetriever = greedy) -> BaseRetriever:
            return FilledRetriever(
                retriever=greedy, chunk_size=folder.layout.chunk_size, budget=budget
            )

        label = f"cross-encoder, dsrag-{name}, minmax"
        reports[label] = ask_each(folder, label, at)
    progress("")
    return reports


def write_up(
    results: Mapping[str, Mapping[str, Report]],
    scores: Mapping[str, Reliability],
    command: str,
) -> Iterator[str]:
    """The whole page, line by line."""
    yield from ("# Behind a cross-encoder", "", f"Made by `{command}`.", "")
    yield from (
        "Evidence recall, the mean over each folder's budgets; every method fills them.",
        f"Best {CANDIDATES} candidates by vectors.",
        "",
    )
    names, folders = list(results), list(results.values())
    rows = []
    for label in folders[0]:
        means = [mean_over_cells([reports[label]], "recall") for reports in folders]
        rows.append([label, *(f"{mean:.3f}" for mean in (*means, np.mean(means)))])
    yield from table(["mean recall", *names, "mean"], rows)
    rows = [
        [
            label,
            *(
                difference([reports[OURS_RERANKED]], [reports[label]], "recall")
                for reports in folders
            ),
        ]
        for label in folders[0]
        if label != OURS_RERANKED
    ]
    yield from table([f"{OURS_RERANKED} minus", *names], rows)
    yield from ("Share of candidates that are relevant, by logit, and how many there are:", "")
    titles = [f"below {BORDERS[0]:g}", *(f"from {border:g}" for border in BORDERS)]
    rows = [[name, *shares(found)] for name, found in scores.items()]
    yield from table(["", *titles], rows)


def shares(found: Sequence[tuple[float, bool]]) -> Iterator[str]:
    """The share of relevant candidates in each range of logits, and their number."""
    places = np.searchsorted(BORDERS, [logit for logit, _ in found], side="right")
    relevant = np.array([is_relevant for _, is_relevant in found])
    for place in range(len(BORDERS) + 1):
        some = relevant[places == place]
        yield f"{some.mean():.2f} of {some.size:,}" if some.size else "none"


if __name__ == "__main__":
    main()
