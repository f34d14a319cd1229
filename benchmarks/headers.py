"""What contextual chunk headers bring: evidence recall with them and without, all else the same.

Run from anywhere: ``python benchmarks/headers.py --data PATH``; see benchmarks/quality.py for
PATH. The headers are those that need no model, the document's name. Vectors are kept in the
same cache; those that are missing are made, which takes minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from folders import (
    Folder,
    add_embeddings,
    cached_embeddings,
    folder_names,
    make_parser,
    read_folder,
    write_page,
)
from pages import CEILING, table, with_interval
from quality import FILL, ask
from vectors import CachedEmbeddings, MatrixStore, progress

from langchain_rse import DocumentHeaders, RSERetriever, SQLDocStore
from langchain_rse.evaluation import Report

WITHOUT, WITH, VECTORS_ONLY = "without headers", "with headers", "in the vectors only"
# The settings, and the budgets; None for the folder's.
WAYS: Mapping[str, tuple[Mapping[str, Any], Sequence[int] | None]] = {
    "The budget filled (a penalty of 0)": (FILL, None),
    f"As it comes, under a ceiling of {CEILING:,} characters": ({}, (CEILING,)),
}


def main() -> None:
    """Measure, print, and write what was printed."""
    parser = make_parser(__doc__)
    add_embeddings(parser)
    parser.add_argument("--folders", nargs="+", metavar="NAME", default=["filings"])
    arguments = parser.parse_args()
    folders = [read_folder(arguments, name) for name in folder_names(arguments)]
    reports = [measure(folder, cached_embeddings(folder, arguments)) for folder in folders]
    command = (
        f"python benchmarks/headers.py --data PATH --embeddings {arguments.embeddings} "
        f"--folders {' '.join(arguments.folders)}"
    )
    figures = {
        folder.name: {
            way: {
                label: {metric: report.mean(metric).tolist() for metric in report.metrics}
                for label, report in by_label.items()
            }
            for way, by_label in each.items()
        }
        for folder, each in zip(folders, reports, strict=True)
    }
    write_page(
        arguments,
        f"headers-{arguments.embeddings}",
        write_up(folders, reports, arguments.embeddings, command),
        command=command,
        folders=figures,
    )


def measure(folder: Folder, embeddings: CachedEmbeddings) -> dict[str, dict[str, Report]]:
    """Index a folder with headers and without; the reports by what is asked for and label."""
    retrievers = {}
    for label, headers, named in (
        (WITHOUT, None, False),
        (WITH, DocumentHeaders(), False),
        (VECTORS_ONLY, None, True),
    ):
        progress(f"{folder.name}: indexing {label}")
        retrievers[label] = RSERetriever(
            vectorstore=MatrixStore(embeddings, f"{folder.name}, {label}", named=named),
            docstore=SQLDocStore("sqlite://"),
            text_splitter=folder.splitter,
            headers=headers,
        )
        retrievers[label].add_documents(folder.documents)
    embeddings.queries([question.question for question in folder.questions])
    return {
        way: {
            label: ask(folder, label, retriever, budgets, **settings)
            for label, retriever in retrievers.items()
        }
        for way, (settings, budgets) in WAYS.items()
    }


def write_up(
    folders: Sequence[Folder],
    reports: Sequence[Mapping[str, Mapping[str, Report]]],
    embeddings: str,
    command: str,
) -> Iterator[str]:
    """The whole page, line by line."""
    yield from (
        f"# Contextual chunk headers, {embeddings} vectors",
        "",
        f"Made by `{command}`.",
        "",
    )
    yield from (
        "The header is the document's name, in front of each chunk; nothing else differs.",
        f"*{VECTORS_ONLY}*: embedded, but not in the text whose words are compared with the",
        "question's. Evidence recall; differences with their 95 % interval, a bootstrap over the",
        "questions, paired.",
        "",
    )
    for way, (_, budgets) in WAYS.items():
        yield from (f"## {way}", "")
        rows = []
        for folder, each in zip(folders, reports, strict=True):
            by_label = each[way]
            for place, budget in enumerate(budgets or folder.layout.budgets):
                recall = [
                    f"{by_label[label].mean('recall')[place]:.3f}"
                    for label in (WITHOUT, WITH, VECTORS_ONLY)
                ]
                differences = [
                    with_interval(by_label[WITH], by_label[label], place)
                    for label in (WITHOUT, VECTORS_ONLY)
                ]
                rows.append([f"{folder.name} {budget:,}", *recall, *differences])
        header = ["", WITHOUT, WITH, VECTORS_ONLY, f"with minus {WITHOUT}", f"minus {VECTORS_ONLY}"]
        yield from table(header, rows)


if __name__ == "__main__":
    main()
