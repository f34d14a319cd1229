"""What contextual chunk headers bring: evidence recall with them and without, all else the same.

Run from anywhere: ``python benchmarks/headers.py --data PATH``; see benchmarks/quality.py for
PATH. The headers are those that need no model, the document's name. Vectors are kept in the
same cache; those that are missing are made, which takes minutes. And what it brings that segments
prefer to begin and end where sections do, with the same vectors.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from quality import CEILING, FILL, Folder, ask, folder_names, read_folder, table, with_interval
from vectors import MODELS, CachedEmbeddings, MatrixStore, progress

from langchain_rse import RSEIndexer, RSERetriever
from langchain_rse.evaluation import Report
from langchain_rse.headers import DocumentHeaders

HERE = Path(__file__).resolve().parent

WITHOUT, WITH, VECTORS_ONLY = "without headers", "with headers", "in the vectors only"
# What is asked for, and how much room there is; None for the folder's budgets.
WAYS: Mapping[str, tuple[Mapping[str, Any], Sequence[int] | None]] = {
    "The budget filled (a penalty of 0)": (FILL, None),
    f"As it comes, under a ceiling of {CEILING:,} characters": ({}, (CEILING,)),
}

# Where sections begin: the headings of company filings.
HEADINGS = re.compile(
    r"^[ \t]*(?:part\s+[iv]+|item\s+\d+[ab]?|note\s+\d+)\b[^\n]{0,80}$",
    re.IGNORECASE | re.MULTILINE,
)
BORDERS: Mapping[str, float] = {"no borders": 1.0, "border_cost=0.5": 0.5, "border_cost=0": 0.0}


def main() -> None:
    """Measure, print, and write what was printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the sub-folders")
    parser.add_argument("--embeddings", choices=MODELS, default="minilm", help="default minilm")
    parser.add_argument("--folders", nargs="+", metavar="NAME", default=["filings"])
    parser.add_argument("--cache", type=Path, default=HERE / ".cache", help="folder for vectors")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for results")
    # What else a folder is read with.
    parser.set_defaults(chunk_size=None, budgets=None, names=None)
    arguments = parser.parse_args()
    folders = [read_folder(arguments, name) for name in folder_names(arguments)]
    reports = [measure(folder, arguments) for folder in folders]
    command = (
        f"python benchmarks/headers.py --data PATH --embeddings {arguments.embeddings} "
        f"--folders {' '.join(arguments.folders)}"
    )
    bordered = [measure_borders(folder, arguments) for folder in folders]
    lines = itertools.chain(
        write_up(folders, reports, arguments.embeddings, command),
        write_up_borders(folders, bordered),
    )
    text = "\n".join(lines)
    print(text)
    arguments.out.mkdir(parents=True, exist_ok=True)
    stem = f"headers-{arguments.embeddings}"
    (arguments.out / f"{stem}.md").write_text(text + "\n", encoding="utf-8")
    figures = {
        folder.name: {
            way: {
                label: {metric: report.mean(metric).tolist() for metric in Report.metrics}
                for label, report in by_label.items()
            }
            for way, by_label in each.items()
        }
        for folder, each in zip(folders, reports, strict=True)
    }
    (arguments.out / f"{stem}.json").write_text(
        json.dumps({"command": command, "folders": figures}, indent=1) + "\n", encoding="utf-8"
    )


def cached_embeddings(folder: Folder, arguments: argparse.Namespace) -> CachedEmbeddings:
    """The embeddings of a folder, with the vectors that are kept."""
    file = arguments.cache / f"{folder.name}-{arguments.embeddings}.npz"
    return CachedEmbeddings(arguments.embeddings, file)


def splitter_of(folder: Folder) -> RecursiveCharacterTextSplitter:
    """What cuts a folder's documents into chunks."""
    return RecursiveCharacterTextSplitter(chunk_size=folder.layout.chunk_size, chunk_overlap=0)


def measure(folder: Folder, arguments: argparse.Namespace) -> dict[str, dict[str, Report]]:
    """Index a folder with headers and without; the reports by what is asked for and label."""
    embeddings = cached_embeddings(folder, arguments)
    # The file's name, which is what the questions call the document.
    documents = [
        Document(page_content=text, metadata={"doc_id": name, "source": f"{name}.txt"})
        for name, text in folder.sources.items()
    ]
    retrievers = {}
    for label, headers, named in (
        (WITHOUT, None, False),
        (WITH, DocumentHeaders(), False),
        (VECTORS_ONLY, None, True),
    ):
        progress(f"{folder.name}: indexing {label}")
        retrievers[label] = RSERetriever(
            vectorstore=MatrixStore(embeddings, f"{folder.name}, {label}", named=named),
            docstore=InMemoryStore(),
            text_splitter=splitter_of(folder),
            headers=headers,
        )
        retrievers[label].add_documents(documents)
    embeddings.matrix([question.question for question in folder.questions], "questions")
    return {
        way: {
            label: ask(folder, label, retriever, budgets, **settings)
            for label, retriever in retrievers.items()
        }
        for way, (settings, budgets) in WAYS.items()
    }


def measure_borders(
    folder: Folder, arguments: argparse.Namespace
) -> tuple[int, dict[str, dict[str, Report]]]:
    """Index a folder with headers, its sections known; their number, and the reports."""
    embeddings = cached_embeddings(folder, arguments)
    documents = []
    for name, text in folder.sources.items():
        starts = [match.start() for match in HEADINGS.finditer(text)]
        for number, (start, end) in enumerate(itertools.pairwise([0, *starts, len(text)])):
            metadata = {"doc_id": name, "source": f"{name}.txt", "section": str(number)}
            documents.append(Document(text[start:end], metadata=metadata))
    vectorstore = MatrixStore(embeddings, f"{folder.name}, sections", named=False)
    docstore = InMemoryStore()
    progress(f"{folder.name}: indexing with sections")
    # The same chunks and vectors as above: the section is not in the header.
    RSEIndexer(
        vectorstore,
        docstore,
        text_splitter=splitter_of(folder),
        document_separator="",
        headers=DocumentHeaders(template="{title}"),
    ).add_documents(documents)
    retriever = RSERetriever(vectorstore=vectorstore, docstore=docstore)
    embeddings.matrix([question.question for question in folder.questions], "questions")
    return len(documents), {
        way: {
            label: ask(folder, label, retriever, budgets, **{**settings, "border_cost": cost})
            for label, cost in BORDERS.items()
        }
        for way, (settings, budgets) in WAYS.items()
    }


def write_up_borders(
    folders: Sequence[Folder], measured: Sequence[tuple[int, Mapping[str, Mapping[str, Report]]]]
) -> Iterator[str]:
    """What borders bring, line by line."""
    counts = ", ".join(
        f"{count:,} in {folder.name}" for folder, (count, _) in zip(folders, measured, strict=True)
    )
    yield from (
        "## Borders of sections",
        "",
        f'Sections begin at lines such as "Item 7." and "Note 3": {counts}. All with headers, in',
        "which sections are not named. Differences are from no borders.",
        "",
    )
    plain, *others = BORDERS
    rows = []
    for way, (settings, budgets) in WAYS.items():
        for folder, (_, each) in zip(folders, measured, strict=True):
            for place, budget in enumerate(budgets or folder.layout.budgets):
                recall = [f"{each[way][label].mean('recall')[place]:.3f}" for label in BORDERS]
                differences = [
                    with_interval(each[way][label], each[way][plain], place) for label in others
                ]
                filled = "filled" if settings else "as it comes"
                rows.append([f"{folder.name} {budget:,}, {filled}", *recall, *differences])
    yield from table(["", *BORDERS, *others], rows)


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
