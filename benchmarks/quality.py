"""How much of the evidence retrievers bring within a budget of text: ours beside others.

Run from anywhere: ``python benchmarks/quality.py --data PATH``. PATH is a folder with a
sub-folder for each set of questions, which has ``questions.jsonl`` (see
`langchain_rse.evaluation.load_questions`) and ``documents/`` with texts (``.md``, ``.txt`` or
``.txt.gz``; a document's id is its name without these). Nothing is downloaded; vectors are
kept in a cache, since embedding takes minutes.
"""

from __future__ import annotations

import argparse
import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from alternatives import (
    CANDIDATES,
    HAS_DSRAG,
    DsragRetriever,
    FilledRetriever,
    LexicalRetriever,
    NeighborRetriever,
    make_ensemble,
    make_parents,
)
from charts import draw_penalties, draw_recall
from folders import (
    Folder,
    add_embeddings,
    cached_embeddings,
    folder_names,
    make_parser,
    read_folder,
    write_page,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import BaseStore
from mixed import HAS_ROWS, Mixed, cut_into_rows, cut_out_notes, write_up_mixed
from pages import (
    CEILING,
    OURS,
    TOP_K,
    VECTORS,
    Results,
    figures_of,
    write_up,
    write_up_hybrid,
)
from vectors import MatrixStore, progress

from langchain_rse import PRESETS, RSEConfig, RSERetriever, SQLDocStore
from langchain_rse.evaluation import Report, evaluate

PENALTIES = (0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7)
# No penalty: everything that fits is returned.
FILL: Mapping[str, Any] = {"irrelevant_chunk_penalty": 0.0}

# One thing changed at a time: what is there, taken away, and values around the default.
CHANGES: Mapping[str, Sequence[Any]] = {
    "neighbor_weight": (0.0, 0.25, 0.4, 0.6),
    "neighbor_radius": (1, 3),
    "lexical_weight": (0.0, 0.3, 0.5, 0.9),
    "segment_cost": (0.0, 0.1, 0.25, 0.5),
    "decay_rate": (10.0, 30.0, 60.0, 1e9),
    "calibration": ("identity", "rank"),
    "top_k_for_document_selection": (5, 10, None),
    "fetch_k": (100, 400),
}
ABLATIONS: tuple[tuple[str, Mapping[str, Any]], ...] = tuple(
    (
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}",
        {name: value} if name == "fetch_k" else {"rse_config": RSEConfig(**{name: value})},
    )
    for name, values in CHANGES.items()
    for value in values
)

WITHOUT_WORDS = RSEConfig(lexical_weight=0.0)

# Words and vectors: of the default, and of it without words among the vectors' candidates.
HYBRIDS: tuple[tuple[str, Mapping[str, Any]], ...] = tuple(
    (f"hybrid={share}{title}", {"hybrid": share, **settings})
    for title, settings in (("", {}), (", lexical_weight=0", {"rse_config": WITHOUT_WORDS}))
    for share in (0.1, 0.2, 0.3, 0.4)
)
SHARES = (0.3, 0.5)

At = Callable[[int], BaseRetriever]


def main() -> None:
    """Measure, print, and write what was printed."""
    arguments = parse_arguments()
    folders = [read_folder(arguments, name) for name in folder_names(arguments)]
    command = " ".join(["python benchmarks/quality.py --data PATH", *options_given(arguments)])
    model: str = arguments.embeddings
    if arguments.hybrid:
        hybrids = [measure_hybrid(folder, arguments) for folder in folders]
        write_page(arguments, f"hybrid-{model}", write_up_hybrid(hybrids, model, command))
        return
    if arguments.mixed:
        corpora = [cut_out_notes(folder) for folder in folders]
        corpora += [cut_into_rows(folder) for folder in folders if folder.name in HAS_ROWS]
        pages = [measure_mixed(mixed, arguments, command) for mixed in corpora]
        write_page(arguments, f"mixed-{model}", itertools.chain.from_iterable(pages))
        return
    results = [measure(folder, arguments) for folder in folders]
    stem = f"quality-{model}"
    write_page(
        arguments,
        stem,
        write_up(results, model, command),
        command=command,
        embeddings=model,
        folders=figures_of(results),
    )
    title = f"{model} vectors"
    draw_recall(
        {each.folder.name: each.filled for each in results},
        OURS,
        title,
        arguments.out / f"{stem}-recall.png",
    )
    draw_penalties(
        {each.folder.name: (each.penalties, each.stopped) for each in results},
        (OURS, TOP_K),
        title,
        arguments.out / f"{stem}-penalty.png",
    )


# What is measured


def parse_arguments() -> argparse.Namespace:
    """The options."""
    parser = make_parser(__doc__)
    add_embeddings(parser)
    parser.add_argument("--folders", nargs="+", metavar="NAME", help="default: all in PATH")
    parser.add_argument("--chunk-size", type=int, help="default 400 for excerpts, else 800")
    parser.add_argument(
        "--budgets",
        type=int,
        nargs="+",
        help="characters; default 800 1600 3200 6400 for excerpts, else 4000 8000 16000",
    )
    parser.add_argument(
        "--names",
        action=argparse.BooleanOptionalAction,
        help="embed chunks with their document's name in front; default for filings",
    )
    parser.add_argument("--ablations", action="store_true", help="also change one thing at a time")
    parser.add_argument(
        "--hybrid", action="store_true", help="only vectors and words, each alone and together"
    )
    parser.add_argument(
        "--mixed",
        action="store_true",
        help="only notes and rows of tables among long reports, cut out of them",
    )
    return parser.parse_args()


def options_given(arguments: argparse.Namespace) -> Iterator[str]:
    """The options that decide what comes out."""
    yield f"--embeddings {arguments.embeddings}"
    if arguments.folders:
        yield "--folders " + " ".join(arguments.folders)
    if arguments.chunk_size:
        yield f"--chunk-size {arguments.chunk_size}"
    if arguments.budgets:
        yield "--budgets " + " ".join(map(str, arguments.budgets))
    if arguments.names is not None:
        yield "--names" if arguments.names else "--no-names"
    if arguments.ablations:
        yield "--ablations"
    if arguments.hybrid:
        yield "--hybrid"
    if arguments.mixed:
        yield "--mixed"


# Measuring


def measure(folder: Folder, arguments: argparse.Namespace) -> Results:
    """Index a folder once and ask all methods."""
    ours, store = index(folder, arguments, SQLDocStore("sqlite://"))
    plain = store.as_retriever(search_kwargs={"k": CANDIDATES})

    results = Results(folder, chunks=len(store))
    filled = results.filled
    filled[TOP_K] = ask(folder, TOP_K, plain)
    for around in (1, 2):
        label = f"each hit ±{around}"
        neighbors = NeighborRetriever(
            retriever=plain, store=store, sources=folder.sources, around=around
        )
        filled[label] = ask(folder, label, neighbors)
    for times in (3, 5):
        label = f"parent of {times} chunks"
        children = store.another(f"{folder.name}, children of {label}")
        parents = make_parents(children, folder.documents, folder.splitter, times)
        filled[label] = ask(folder, label, parents)
    for label, at in published_forms(folder, ours, store).items():
        filled[label] = ask_each(folder, label, at)
    filled[OURS] = ask(folder, OURS, ours, **FILL)

    results.stopped[TOP_K] = ask(folder, TOP_K, plain, budgets=[CEILING])
    results.stopped[OURS] = ask(folder, OURS, ours, budgets=[CEILING])
    for penalty in PENALTIES:
        results.penalties[penalty] = ask(
            folder, f"penalty {penalty}", ours, [CEILING], irrelevant_chunk_penalty=penalty
        )
    if arguments.ablations:
        for label, settings in ABLATIONS:
            results.ablations[label] = ask(folder, label, ours, **{**FILL, **settings})
    progress("")
    return results


def index(
    folder: Folder, arguments: argparse.Namespace, docstore: BaseStore[str, Document]
) -> tuple[RSERetriever, MatrixStore]:
    """Our retriever over a folder's chunks, and its vector store."""
    embeddings = cached_embeddings(folder, arguments)
    store = MatrixStore(embeddings, f"{folder.name}, chunks", named=folder.layout.names)
    ours = RSERetriever(vectorstore=store, docstore=docstore, text_splitter=folder.splitter)
    progress(f"{folder.name}: indexing")
    ours.add_documents(folder.documents)
    embeddings.queries([question.question for question in folder.questions])
    return ours, store


def measure_hybrid(folder: Folder, arguments: argparse.Namespace) -> Results:
    """Ask by vectors, by words and by both, over a docstore with a full-text index."""
    docstore = SQLDocStore("sqlite://")
    ours, store = index(folder, arguments, docstore)
    results = Results(folder, chunks=len(store))
    reports = results.hybrids
    by_vectors = store.as_retriever(search_kwargs={"k": CANDIDATES})
    by_words = LexicalRetriever(docstore=docstore)
    reports[TOP_K] = ask(folder, TOP_K, by_vectors)
    reports["top-k chunks by words"] = ask(folder, "words", by_words)
    for share in SHARES:
        label = f"top-k chunks, EnsembleRetriever, words {share}"
        reports[label] = ask(folder, label, make_ensemble(by_vectors, by_words, share))
    reports[VECTORS] = ask(folder, VECTORS, ours, **FILL, rse_config=WITHOUT_WORDS)
    reports[OURS] = ask(folder, OURS, ours, **FILL)
    for label, settings in HYBRIDS:
        reports[label] = ask(folder, label, ours, **{**FILL, **settings})
    progress("")
    docstore.close()
    return results


def measure_mixed(mixed: Mixed, arguments: argparse.Namespace, command: str) -> Iterator[str]:
    """Ask about short documents and reports: the best chunks, and ours, with a penalty or none."""
    folder = mixed.folder
    ours, store = index(folder, arguments, SQLDocStore("sqlite://"))
    plain = store.as_retriever(search_kwargs={"k": CANDIDATES})
    reports = {
        TOP_K: ask(folder, TOP_K, plain),
        OURS: ask(folder, OURS, ours, **FILL),
        f"{OURS}, at its default penalty": ask(folder, "default penalty", ours),
    }
    progress("")
    return write_up_mixed(mixed, reports, command)


def published_forms(folder: Folder, ours: RSERetriever, store: MatrixStore) -> dict[str, At]:
    """By label: the published forms of RSE, given a budget to fill."""

    def published(config: RSEConfig, preset: str | None = None) -> At:
        retriever = RSERetriever(
            vectorstore=ours.vectorstore,
            docstore=ours.docstore,
            config=config,
            max_context_length=None,
        )

        def at(budget: int) -> BaseRetriever:
            size = folder.layout.chunk_size
            if preset is None:
                return FilledRetriever(retriever=retriever, chunk_size=size, budget=budget)
            return DsragRetriever(
                retriever=retriever,
                chunk_size=size,
                budget=budget,
                preset=preset,
                store=store,
                sources=folder.sources,
            )

        return at

    names = ("balanced", "precision", "find_all")
    presets = {name: PRESETS[f"dsrag-{name}"] for name in names}
    forms = {
        f"dsrag-{name}, {calibration}": published(preset.replace(calibration=calibration))
        for calibration in ("identity", "minmax")
        for name, preset in presets.items()
    }
    if HAS_DSRAG:
        forms |= {
            f"dsRAG itself, {name}": published(preset.replace(calibration="identity"), name)
            for name, preset in presets.items()
        }
    return {**forms, "kadane": published(PRESETS["kadane"])}


def ask(
    folder: Folder,
    label: str,
    retriever: BaseRetriever,
    budgets: Sequence[int] | None = None,
    **settings: Any,  # noqa: ANN401 - the retriever's own
) -> Report:
    """Ask all questions of a folder."""
    progress(f"{folder.name}: {label}")
    with quiet():
        return evaluate(
            retriever,
            folder.questions,
            budgets or folder.layout.budgets,
            sources=folder.sources,
            name=label,
            **settings,
        )


def ask_each(folder: Folder, label: str, at: At) -> Report:
    """Ask another retriever for each budget."""
    reports = [ask(folder, label, at(budget), [budget]) for budget in folder.layout.budgets]
    figures = {
        metric: np.concatenate([report.figures[metric] for report in reports], axis=1)
        for metric in reports[0].metrics
    }
    return Report(label, folder.layout.budgets, reports[0].questions, figures)


@contextmanager
def quiet() -> Iterator[None]:
    """Without LangChain's log messages about each run."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


if __name__ == "__main__":
    main()
