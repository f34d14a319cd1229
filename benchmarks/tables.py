"""What header rows of tables bring: questions about single cells of long tables.

Run from anywhere: ``python benchmarks/tables.py``; it needs no data and takes a minute. Half of the
documents are reports with a Markdown table between paragraphs, half are CSV files. All plants and
figures are made up. A question names the plant of a row and the name of a column that only one
table has; it is answered if one segment has the row and, above it, the header row.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from folders import HERE, add_embeddings, write_page
from langchain_core.documents import Document
from langchain_text_splitters import RecursiveCharacterTextSplitter
from vectors import CachedEmbeddings, MatrixStore

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.indexer import default_text_splitter
from langchain_rse.ingest.splitting import Splitter

SEED = 0
TABLES, ROWS, QUESTIONS_PER_TABLE = 30, 60, 4
CHUNK_SIZE = 800
BUDGETS = (800, 1_600)
HYBRIDS = (0.0, 0.3)
YEARS = (2021, 2022, 2023)
KINDS = ("net", "gross", "average", "planned")
FIGURES = (
    *("revenue", "energy use", "water use", "headcount", "scrap rate", "output", "sick leave"),
    *("maintenance cost", "downtime", "inventory", "freight cost", "training time", "emissions"),
    *("order backlog", "rework time"),
)
PLANTS = tuple(
    f"{name}-{number}"
    for name in ("Alpha", "Delta", "Gamma", "Kappa", "Omega", "Sigma")
    for number in range(1, 21)
)
SENTENCES = (
    "Most of these figures changed little in the last quarter.",
    "Managers expect that they will matter more when the new lines are ready.",
    "How they are measured was agreed on with the auditors.",
    "Some plants were closed for repairs, which the table does not show.",
    "Compared with other companies, the plants are small and far from each other.",
    "The board discussed the figures twice, and asked for a report each quarter.",
    "A plant that misses its plan has to say why, and what it is going to change.",
    "Two suppliers delivered late, and the weather was worse than in other years.",
)


class Cell(NamedTuple):
    """A question about a cell, and what answers it."""

    question: str
    header: str  # the header row
    row: str


class HeadersLeftOut:
    """The default splitter's chunks, without the header rows in front."""

    def split_text(self, text: str) -> list[str]:
        """Split a text into chunks."""
        return default_text_splitter(CHUNK_SIZE).split_text(text)


# By label: the splitter, and settings of the queries.
WAYS: Mapping[str, tuple[Splitter, Mapping[str, Any]]] = {
    "RecursiveCharacterTextSplitter": (
        RecursiveCharacterTextSplitter(chunk_size=CHUNK_SIZE, chunk_overlap=0),
        {},
    ),
    "default, without header rows": (HeadersLeftOut(), {}),
    "default, header rows embedded only": (default_text_splitter(CHUNK_SIZE), {}),
    "default, `include_header=True`": (
        default_text_splitter(CHUNK_SIZE),
        {"include_header": True},
    ),
}


def main() -> None:
    """Measure, print, and write what was printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for results")
    add_embeddings(parser)
    arguments = parser.parse_args()
    documents, cells = make_tables()
    embeddings = CachedEmbeddings(
        arguments.embeddings, arguments.cache / f"tables-{arguments.embeddings}.npz"
    )
    embeddings.queries([cell.question for cell in cells])
    heads = "".join(f" {budget:,}: row | {budget:,}: row and header |" for budget in BUDGETS)
    command = f"python benchmarks/tables.py --embeddings {arguments.embeddings}"
    introduction = (
        f"{len(cells)} questions about {TABLES} tables of {ROWS} rows, {arguments.embeddings}, by "
        f"`{command}`. The share of questions whose row is in a segment, and whose row is in a "
        "segment below its header row, within budgets of characters that are filled."
    )
    lines = ["# Questions about cells of long tables", "", introduction, "", f"| splitter |{heads}"]
    lines.append(f"| --- |{' ---: |' * 2 * len(BUDGETS)}")
    for hybrid in HYBRIDS:
        for label, (splitter, settings) in WAYS.items():
            shares = measure(documents, cells, embeddings, splitter, {**settings, "hybrid": hybrid})
            title = f"{label}, hybrid={hybrid}" if hybrid else label
            lines.append(f"| {title} | {' | '.join(f'{share:.3f}' for share in shares)} |")
    write_page(arguments, f"tables-{arguments.embeddings}", lines)


def make_tables() -> tuple[list[Document], list[Cell]]:
    """The documents, and questions about cells of their tables."""
    chance = random.Random(SEED)
    names = [f"{kind} {figure}" for kind in KINDS for figure in FIGURES]
    chance.shuffle(names)
    documents: list[Document] = []
    cells: list[Cell] = []
    for number in range(TABLES):
        figures = names[2 * number : 2 * number + 2]
        columns = [f"{figure} {year}" for figure in figures for year in YEARS]
        plants = chance.sample(PLANTS, ROWS)
        amounts = [[str(chance.randint(100, 9_999)) for _ in columns] for _ in plants]
        rows = [["plant", *columns]]
        rows += [[plant, *row] for plant, row in zip(plants, amounts, strict=True)]
        is_markdown = number % 2 == 0
        lines = [f"| {' | '.join(row)} |" if is_markdown else ",".join(row) for row in rows]
        text = "\n".join(lines)
        if is_markdown:
            rule = f"|{' --- |' * len(rows[0])}"
            table = "\n".join([lines[0], rule, *lines[1:]])
            introduction = f"This report is about {figures[0]} and {figures[1]} of {ROWS} plants."
            before = "\n\n".join([f"# Report {number}", introduction, prose(chance)])
            text = "\n\n".join([before, table, prose(chance)])
        name = f"report-{number}.{'md' if is_markdown else 'csv'}"
        documents.append(Document(text, metadata={"source": name}))
        for line in chance.sample(range(1, len(lines)), QUESTIONS_PER_TABLE):
            figure, year = chance.choice(figures), chance.choice(YEARS)
            question = f"What was the {figure} of plant {rows[line][0]} in {year}?"
            cells.append(Cell(question, lines[0], lines[line]))
    return documents, cells


def prose(chance: random.Random) -> str:
    """Three paragraphs."""
    paragraphs = [" ".join(chance.sample(SENTENCES, len(SENTENCES))) for _ in range(3)]
    return "\n\n".join(paragraphs)


def measure(
    documents: Sequence[Document],
    cells: Sequence[Cell],
    embeddings: CachedEmbeddings,
    splitter: Splitter,
    settings: Mapping[str, Any],
) -> list[float]:
    """For each budget, the share of questions whose row is returned, and that with its header."""
    retriever = RSERetriever(
        vectorstore=MatrixStore(embeddings, "tables", named=False),
        docstore=SQLDocStore("sqlite://"),
        text_splitter=splitter,
        irrelevant_chunk_penalty=0.0,  # fills the budget
        **settings,
    )
    retriever.add_documents(documents)
    shares: list[float] = []
    for budget in BUDGETS:
        with_row = with_header = 0
        for cell in cells:
            segments = retriever.invoke(cell.question, max_context_length=budget)
            texts = [each.page_content for each in segments if cell.row in each.page_content]
            above = [text[: text.index(cell.row)] for text in texts]
            with_row += bool(texts)
            with_header += any(cell.header in text for text in above)
        shares += [with_row / len(cells), with_header / len(cells)]
    return shares


if __name__ == "__main__":
    main()
