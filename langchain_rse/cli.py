"""The command ``langchain-rse``: demo, index, query, evaluate, adopt. Needs the extra ``cli``."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pypdf
import typer
from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_core.documents import Document
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from langchain_rse.adopting import ExistingIndex
from langchain_rse.adopting.opening import open_store
from langchain_rse.docstores import SQLDocStore
from langchain_rse.embeddings import WordLlamaEmbeddings
from langchain_rse.evaluation import Evidence, Question, Tuning, evaluate, load_questions, tune
from langchain_rse.indexing import RSEIndexer
from langchain_rse.retrievers import RSERetriever
from langchain_rse.schema import Manifest, manifest_key

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Retrieve passages instead of fragments from your own documents.",
)
"""The command line, a typer app."""

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

_TEXT_SUFFIXES = frozenset({".txt", ".text", ".md", ".markdown", ".rst"})
_PDF_SUFFIX = ".pdf"

# Questions that take more than one chunk of 800 characters to answer.
_QUESTIONS = (
    "What can a format specification contain, and what do its options mean?",
    "Which escape sequences do string literals know?",
    "How does the import system find and load a module?",
)
_PLAIN_CHUNKS = 5
_SEGMENTS = 2
_LINES_SHOWN = 3
_GAPS_SHOWN = 10
_BUDGETS = (4_000, 8_000, 16_000)

KnowledgeBase = Annotated[
    Path, typer.Option("--kb", help="Folder of the knowledge base.", file_okay=False)
]


@app.command()
def demo(
    kb: KnowledgeBase = Path("demo-kb"),
    *,
    full: Annotated[bool, typer.Option("--full", help="Print the whole text.")] = False,
) -> None:
    """Index the Python reference and ask it three questions: chunks beside segments."""
    retriever, vectorstore, embeddings = _open(kb)
    documents = _python_reference()
    characters = sum(len(document.page_content) for document in documents)
    console.print(
        f"The Python language reference: {len(documents)} documents, {characters:,} characters"
    )
    began = time.perf_counter()
    _add(retriever, documents)
    if embeddings.texts_embedded:
        seconds = time.perf_counter() - began
        console.print(f"Indexed {embeddings.texts_embedded} chunks in {seconds:.1f} s into {kb}")
    else:
        console.print(f"Already indexed in {kb}: nothing to do")

    for number, question in enumerate(_QUESTIONS, 1):
        console.print(Rule(style="bold"))
        console.print(Text(f"Question {number}: {question}\n", style="bold"))
        _show_chunks(vectorstore, question)
        segments = retriever.invoke(question, k=_SEGMENTS)
        console.print(Text(f"\nRSE: the {len(segments)} best segments", style="bold green"))
        for segment in segments:
            _show_segment(segment, full=full)
    console.print(
        f"\nAsk your own question:  {_command()} query QUESTION --kb {kb}\n"
        f"Add your own documents: {_command()} index PATH... --kb {kb}",
        soft_wrap=True,
    )


@app.command()
def index(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="Text, Markdown and PDF files, and folders of them."
        ),
    ],
    kb: KnowledgeBase,
) -> None:
    """Add files to a knowledge base; those that have changed are replaced."""
    retriever, _, embeddings = _open(kb)
    reader = _Reader()
    ids = _add(retriever, reader.read(paths))
    console.print(
        f"Read {len(ids)} documents, embedded {embeddings.texts_embedded} new chunks into {kb}"
    )
    if reader.failures:
        errors.print(f"{len(reader.failures)} could not be read:", style="bold red")
        for path, reason in reader.failures:
            errors.print(Text(f"  {path}: {reason}"), soft_wrap=True)
        raise typer.Exit(1)


@app.command()
def query(
    question: Annotated[str, typer.Argument(help="The question.")],
    kb: KnowledgeBase,
    k: Annotated[int, typer.Option("--k", min=1, help="At most this many segments.")] = 5,
    max_context_length: Annotated[
        int, typer.Option(min=0, help="At most this many characters in all.")
    ] = 16_000,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask a knowledge base."""
    _require(kb)
    retriever = _open(kb).retriever
    segments = retriever.invoke(question, k=k, max_context_length=max_context_length)
    if as_json:
        fields = [
            {"id": s.id, "page_content": s.page_content, "metadata": s.metadata} for s in segments
        ]
        typer.echo(json.dumps(fields, indent=2, default=str))
        return
    for segment in segments:
        _show_segment(segment, full=True)
    if not segments:
        console.print("Nothing relevant was found.")


@app.command("evaluate")
def evaluate_command(
    kb: KnowledgeBase,
    questions: Annotated[
        Path,
        typer.Option(
            help='JSON Lines: {"question": ..., "evidence": [{"doc_id": ..., "start": ..., '
            '"end": ...}]}, in characters. A document may be given by the name of its file.',
            exists=True,
            dir_okay=False,
        ),
    ],
    budget: Annotated[
        list[int] | None, typer.Option(min=1, help="Characters that may be returned; repeatable.")
    ] = None,
    trials: Annotated[
        int, typer.Option("--tune", min=0, help="Also search this many sets of parameters.")
    ] = 0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure how much of the evidence for questions comes back: segments beside chunks."""
    _require(kb)
    retriever, vectorstore, _ = _open(kb)
    try:
        asked = _placed(load_questions(questions), retriever)
        budgets = sorted(set(budget or _BUDGETS))
        show = not as_json
        tuning: Tuning | None = None
        if trials:
            tuning = tune(retriever, asked, budgets, trials=trials, show_progress=show)
        segments = evaluate(retriever, asked, budgets, name="segments", show_progress=show)
        # Chunks fill the budget, so what they are compared with has to.
        filled = evaluate(
            retriever,
            asked,
            budgets,
            name="segments, filling the budget",
            show_progress=show,
            irrelevant_chunk_penalty=0,
        )
        plain = vectorstore.as_retriever(search_kwargs={"k": retriever.fetch_k})
        chunks = evaluate(plain, asked, budgets, name="chunks", show_progress=show)
    except ValueError as error:
        errors.print(Text(str(error)), soft_wrap=True)
        raise typer.Exit(2) from error
    reports, comparison = (segments, filled, chunks), filled.compare(chunks)
    if as_json:
        found = {
            "reports": [report.to_dict() for report in reports],
            "comparison": comparison.to_dict(),
            "tuning": tuning.to_dict() if tuning else None,
        }
        typer.echo(json.dumps(found, indent=2))
        return
    for table in (*reports, comparison, tuning):
        if table is not None:
            typer.echo(f"\n{table}")


@app.command("adopt")
def adopt_command(
    store: Annotated[
        str,
        typer.Argument(
            metavar="STORE",
            help="A folder of Chroma's or FAISS's, or the URL of a PostgreSQL database.",
        ),
    ],
    *,
    docstore: Annotated[
        str, typer.Option(help="Where the texts will stand: a file, or a database's URL.")
    ],
    doc_id_key: Annotated[
        str, typer.Option(help="The metadata field that names a chunk's document.")
    ],
    chunk_index_key: Annotated[
        str | None, typer.Option(help="The field with the chunk's number.")
    ] = None,
    start_index_key: Annotated[
        str | None, typer.Option(help="The field with the chunk's first character.")
    ] = None,
    page_key: Annotated[str | None, typer.Option(help="The field with its page's number.")] = None,
    collection: Annotated[
        str | None, typer.Option(help="The collection; FAISS: the index. Default: the only one.")
    ] = None,
    chunk_overlap: Annotated[
        int | None,
        typer.Option(min=0, help="Characters that neighbors share at most. Default: find out."),
    ] = None,
    in_store_order: Annotated[
        bool,
        typer.Option("--in-store-order", help="Chunks were added in the order of their text."),
    ] = False,
    lexical: Annotated[
        bool, typer.Option("--lexical", help="Also make a full-text index, for hybrid search.")
    ] = False,
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave out documents that cannot be put together.")
    ] = False,
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="FAISS: its .pkl file is from you.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Bring in an index that other code has built: nothing is embedded, and the index stays."""
    url = docstore if "://" in docstore else f"sqlite:///{Path(docstore).as_posix()}"
    try:
        index = ExistingIndex(
            doc_id_key=doc_id_key,
            chunk_index_key=chunk_index_key,
            start_index_key=start_index_key,
            page_key=page_key,
            in_store_order=in_store_order,
            chunk_overlap=chunk_overlap,
            on_error="skip" if skip else "raise",
        )
        opened = open_store(store, collection, trust_pickle=trust_pickle)
        indexer = RSEIndexer(opened, SQLDocStore(url, lexical=lexical))
        report = indexer.adopt(index, show_progress=not as_json)
    except (ValueError, ImportError) as error:
        errors.print(Text(str(error)), soft_wrap=True)
        raise typer.Exit(2) from error
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    else:
        console.print(Text(str(report)), soft_wrap=True)
        for gap in report.gaps[:_GAPS_SHOWN]:
            missing = "text" if gap.length is None else f"{gap.length} characters"
            console.print(Text(f"  {gap.doc_id}: {missing} missing before {gap.before}"))
        if len(report.gaps) > _GAPS_SHOWN:
            console.print(f"  and {len(report.gaps) - _GAPS_SHOWN} more: --json lists them")
        for problem in report.problems:
            errors.print(Text(f"  {problem}"), soft_wrap=True)
        kind = type(opened).__name__
        console.print(
            Text(
                f"Use it: RSERetriever(vectorstore={kind}(...), "
                f"docstore=SQLDocStore({url!r}{', lexical=True' if lexical else ''}))"
            ),
            soft_wrap=True,
        )
    if report.problems:
        raise typer.Exit(1)


def _placed(questions: Sequence[Question], retriever: RSERetriever) -> list[Question]:
    """The questions with the ids of documents where they give names of files."""
    docstore = retriever.docstore
    keys = sorted(docstore.yield_keys(prefix=manifest_key("")))
    ids = [
        Manifest.from_document(record, key).doc_id
        for key, record in zip(keys, docstore.mget(keys), strict=True)
        if record is not None
    ]
    named: dict[str, list[str]] = {}
    for doc_id in ids:
        for name in {doc_id, Path(doc_id).name, Path(doc_id).stem}:
            named.setdefault(name, []).append(doc_id)

    def place(part: Evidence) -> Evidence:
        found = named.get(part.doc_id, [part.doc_id])
        if len(found) > 1 and part.doc_id not in ids:
            raise ValueError(
                f"{part.doc_id!r} may be any of {', '.join(found)}: give the whole path as doc_id"
            )
        return Evidence(part.doc_id if part.doc_id in ids else found[0], part.start, part.end)

    return [Question(one.question, [place(part) for part in one.evidence]) for one in questions]


def _require(kb: Path) -> None:
    if not (kb / "chunks.db").exists():
        errors.print(
            f"There is no knowledge base in {kb}. Make one: {_command()} index PATH... --kb {kb}",
            soft_wrap=True,
        )
        raise typer.Exit(2)


def _command() -> str:
    """How this command was called, to be typed again."""
    called = Path(sys.argv[0])
    return "python -m langchain_rse" if called.stem == "__main__" else str(called)


class _Opened(NamedTuple):
    retriever: RSERetriever
    vectorstore: Chroma
    embeddings: WordLlamaEmbeddings


def _open(kb: Path) -> _Opened:
    """A knowledge base: two stores, side by side in its folder."""
    folder = str(kb / "chroma")
    embeddings = WordLlamaEmbeddings()
    vectorstore = Chroma(
        collection_name="chunks",
        embedding_function=embeddings,
        persist_directory=folder,
        collection_metadata={"hnsw:space": "cosine"},
        client_settings=Settings(
            anonymized_telemetry=False, is_persistent=True, persist_directory=folder
        ),
    )
    docstore = SQLDocStore(f"sqlite:///{(kb / 'chunks.db').as_posix()}")
    retriever = RSERetriever(vectorstore=vectorstore, docstore=docstore)
    return _Opened(retriever, vectorstore, embeddings)


def _add(retriever: RSERetriever, documents: Sequence[Document] | Iterator[Document]) -> list[str]:
    # What these would say in between, the commands say at the end.
    for name in ("langchain_rse.indexing", "pypdf"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return retriever.add_documents(documents, show_progress=True)


def _python_reference() -> list[Document]:
    """The topics of the language reference that ship with every CPython, for help()."""
    from pydoc_data.topics import topics  # noqa: PLC0415 - half a megabyte

    return [
        Document(page_content=text, metadata={"source": name})
        for name, text in sorted(topics.items())
    ]


class _Reader:
    """Reads files one by one, and keeps those that cannot be read with the reason."""

    def __init__(self) -> None:
        self.failures: list[tuple[Path, str]] = []

    def read(self, paths: Sequence[Path]) -> Iterator[Document]:
        for path in dict.fromkeys(file.resolve() for file in self._files(paths)):
            try:
                documents = list(_load(path))
            except Exception as error:  # noqa: BLE001 - PDF readers raise anything
                self.failures.append((path, _reason(error)))
                continue
            if not any(document.page_content.strip() for document in documents):
                self.failures.append((path, "it has no text (a scanned PDF needs OCR first)"))
            yield from documents

    def _files(self, paths: Sequence[Path]) -> Iterator[Path]:
        for path in paths:
            if not path.is_dir():
                yield path
                continue
            wanted = _TEXT_SUFFIXES | {_PDF_SUFFIX}
            found = sorted(
                file for file in path.rglob("*") if file.suffix.lower() in wanted and file.is_file()
            )
            if not found:
                kinds = ", ".join(sorted(wanted))
                self.failures.append((path, f"it has no files of a known kind ({kinds})"))
            yield from found


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _load(path: Path) -> Iterator[Document]:
    """A file's Documents: one a page of a PDF, else one."""
    metadata: dict[str, Any] = {"source": str(path)}
    if path.suffix.lower() == _PDF_SUFFIX:
        pages = pypdf.PdfReader(path).pages
        metadata["total_pages"] = len(pages)
        for number, page in enumerate(pages):
            yield Document(page_content=page.extract_text(), metadata={**metadata, "page": number})
        return
    content = path.read_bytes()
    if b"\0" in content:
        raise ValueError("it is not a text file, and not a PDF by its name")
    yield Document(page_content=content.decode("utf-8-sig"), metadata=metadata)


def _show_chunks(vectorstore: Chroma, question: str) -> None:
    """What plain retrieval returns."""
    table = Table(
        title=Text(f"Plain retrieval: the {_PLAIN_CHUNKS} best chunks", style="bold yellow"),
        title_justify="left",
        expand=True,
        show_lines=True,
    )
    table.add_column("document")
    table.add_column("characters", justify="right", no_wrap=True)
    table.add_column("score", justify="right")
    table.add_column("text", ratio=1)
    for chunk, distance in vectorstore.similarity_search_with_score(question, k=_PLAIN_CHUNKS):
        metadata = chunk.metadata
        table.add_row(
            Text(str(metadata["source"])),
            f"{metadata['start_index']}-{metadata['end_index']}",
            f"{1 - distance:.2f}",
            _shortened(chunk.page_content, full=False),
        )
    console.print(table)


def _show_segment(segment: Document, *, full: bool) -> None:
    """Where a segment is from, and its text with the borders of its chunks."""
    metadata = segment.metadata
    pages = ""
    if "page_start" in metadata and "page_end" in metadata:
        first, last = metadata["page_start"] + 1, metadata["page_end"] + 1
        pages = f" · page {first}" if first == last else f" · pages {first}-{last}"
    title = (
        f"{metadata['source']} · characters {metadata['start_index']}-{metadata['end_index']}"
        f"{pages} · score {metadata['relevance_score']:.2f}"
    )
    parts: list[RenderableType] = []
    place = 0
    for chunk in metadata["rse"]["chunks"]:
        what = "filled in" if chunk.get("filled") else f"rank {chunk['rank'] + 1}"
        parts.append(Rule(Text(f"chunk {chunk['index']} · {what}", style="dim"), style="dim"))
        text = segment.page_content[place : place + chunk["length"]]
        parts.append(_shortened(text, full=full))
        place += chunk["length"]
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(Panel(Group(*parts)))


def _shortened(text: str, *, full: bool) -> Text:
    lines = text.strip("\n").splitlines()
    if full or len(lines) <= _LINES_SHOWN:
        return Text("\n".join(lines))
    return Text("\n".join(lines[:_LINES_SHOWN])).append(
        f"\n... {len(lines) - _LINES_SHOWN} more lines", style="dim"
    )
