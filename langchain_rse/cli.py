"""The command ``langchain-rse``: demo, index, query, evaluate, inspect, adopt; extra ``cli``."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
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
from langchain_rse.headers import DocumentHeaders
from langchain_rse.indexing import RSEIndexer
from langchain_rse.inspecting import DocumentNames, InspectedChunk, Inspection, inspect_document
from langchain_rse.retrievers import RSERetriever

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
_CHARACTERS_SHOWN = 200
_SETTINGS = "settings.json"
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
    *,
    headers: Annotated[
        bool | None,
        typer.Option(
            "--headers/--no-headers",
            help="Embed the document's title, which is the name of its file, in front of each "
            "chunk. The knowledge base keeps to it; what is in it already changes when it is "
            "indexed again. Default: as before, at first without.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Add files to a knowledge base; those that have changed are replaced."""
    if headers is not None:
        _remember(kb, headers=headers)
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
    include_header: Annotated[
        bool,
        typer.Option(
            "--include-header", help="Put the document's header above each segment, if it has one."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask a knowledge base."""
    _require(kb)
    retriever = _open(kb).retriever
    segments = retriever.invoke(
        question, k=k, max_context_length=max_context_length, include_header=include_header
    )
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


@app.command("inspect")
def inspect_command(
    document: Annotated[
        str, typer.Argument(metavar="DOC", help="Its id, or the name of its file.")
    ],
    kb: KnowledgeBase,
    chunk: Annotated[
        int | None, typer.Option(min=0, help="Show all of the chunk of this number, from 0.")
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with all texts.")] = False,
) -> None:
    """Show a document's chunks: where they lie, what was embedded, what would be returned."""
    _require(kb)
    retriever, vectorstore, _ = _open(kb)
    try:
        doc_id = _found(document, DocumentNames(retriever.docstore), kb)
        found = inspect_document(retriever.docstore, vectorstore, doc_id)
        chosen = None if chunk is None else _numbered(found, chunk)
    except (LookupError, ValueError) as error:
        errors.print(Text(str(error.args[0])), soft_wrap=True)
        raise typer.Exit(2) from error
    if as_json:
        fields = found.to_dict()
        if chosen is not None:
            fields["chunks"] = [chosen.to_dict()]
        typer.echo(json.dumps(fields, indent=2, default=str))
        return
    _show_document(found)
    if chosen is None:
        _show_all_chunks(found.chunks)
    else:
        _show_chunk(chosen)


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
    names = DocumentNames(retriever.docstore)

    def place(part: Evidence) -> Evidence:
        return Evidence(names.find(part.doc_id) or part.doc_id, part.start, part.end)

    return [Question(one.question, [place(part) for part in one.evidence]) for one in questions]


def _found(name: str, names: DocumentNames, kb: Path) -> str:
    """The id of a document, by its id, the name of its file, or the path to it."""
    found = names.find(name) or names.find(str(Path(name).resolve()))
    if found is None:
        similar = names.similar(name)
        more = f" Similar: {', '.join(similar)}" if similar else ""
        raise ValueError(f"there is no document {name!r} among the {len(names.ids)} of {kb}.{more}")
    return found


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
    headers = DocumentHeaders() if _has_headers(kb) else None
    retriever = RSERetriever(vectorstore=vectorstore, docstore=docstore, headers=headers)
    return _Opened(retriever, vectorstore, embeddings)


def _remember(kb: Path, *, headers: bool) -> None:
    """Take down how a knowledge base is indexed."""
    kb.mkdir(parents=True, exist_ok=True)
    (kb / _SETTINGS).write_text(json.dumps({"headers": headers}), encoding="utf-8")


def _has_headers(kb: Path) -> bool:
    """Whether chunks are embedded with headers."""
    file = kb / _SETTINGS
    if not file.exists():
        return False
    try:
        return bool(json.loads(file.read_bytes())["headers"])
    except (ValueError, LookupError, TypeError) as error:
        errors.print(
            f"{file} cannot be read. Write it anew: {_command()} index PATH... --kb {kb} with "
            "--headers or --no-headers, as before",
            soft_wrap=True,
        )
        raise typer.Exit(2) from error


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
    chunks = metadata["rse"]["chunks"]
    place = len(segment.page_content) - sum(chunk["length"] for chunk in chunks)
    if place:
        parts.append(Text(segment.page_content[:place].rstrip(), style="italic"))
    for chunk in chunks:
        what = "filled in" if chunk.get("filled") else f"rank {chunk['rank'] + 1}"
        parts.append(Rule(Text(f"chunk {chunk['index']} · {what}", style="dim"), style="dim"))
        text = segment.page_content[place : place + chunk["length"]]
        parts.append(_shortened(text, full=full))
        place += chunk["length"]
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(Panel(Group(*parts)))


def _numbered(found: Inspection, number: int) -> InspectedChunk:
    if number < len(found.chunks):
        return found.chunks[number]
    raise ValueError(
        f"{found.manifest.doc_id} has no chunk {number}: it has {len(found.chunks)}, counted from 0"
    )


def _show_document(found: Inspection) -> None:
    """What is known of a document as a whole."""
    manifest, current = found.manifest, found.manifest.current
    console.print(Text(manifest.doc_id, style="bold"), soft_wrap=True)
    if current is None:
        console.print("It has no current version: adding or deleting it was cut off. Do it again.")
    else:
        console.print(
            Text(
                f"{manifest.length:,} characters in {len(found.chunks):,} chunks"
                f" · version {current.name}"
                + (f" · adopted, {current.adopted:,} vectors" if current.adopted else "")
            ),
            soft_wrap=True,
        )
    if manifest.leftovers:
        names = ", ".join(version.name for version in manifest.leftovers)
        console.print(
            Text(
                f"Left over: {names} (adding or deleting was cut off; do it again)", style="yellow"
            ),
            soft_wrap=True,
        )
    for name, value in manifest.metadata.items():
        console.print(Text(f"{name}: {value}"), soft_wrap=True)


def _show_all_chunks(chunks: Sequence[InspectedChunk]) -> None:
    """Where chunks lie, and how they begin."""
    table = Table(expand=True)
    table.add_column("chunk", justify="right", no_wrap=True)
    table.add_column("characters", justify="right", no_wrap=True)
    table.add_column("length", justify="right", no_wrap=True)
    if any(chunk.metadata for chunk in chunks):
        table.add_column("metadata")
    if any(chunk.header for chunk in chunks):
        table.add_column("header", ratio=1)
    table.add_column("text", ratio=2, no_wrap=True)
    for chunk in chunks:
        if chunk.at_border:
            table.add_section()
        row = [str(chunk.index), f"{chunk.start}-{chunk.end}", str(chunk.end - chunk.start)]
        cells = [Text(cell) for cell in row]
        if any(each.metadata for each in chunks):
            cells.append(Text(_along(chunk.metadata)))
        if any(each.header for each in chunks):
            cells.append(Text(" ".join((chunk.header or "").split())))
        cells.append(_beginning(chunk))
        table.add_row(*cells)
    console.print(table)


def _beginning(chunk: InspectedChunk) -> Text:
    """A chunk's first words; and what is wrong with it."""
    text = Text(" ".join((chunk.text or "").split())[:_CHARACTERS_SHOWN])
    wrong = _wrong(chunk)
    return Text(f"[{wrong}] ", style="yellow").append(text) if wrong else text


def _wrong(chunk: InspectedChunk) -> str:
    if chunk.gap:
        return "a gap: its text is nowhere"
    if chunk.text is None:
        return "not in the docstore"
    if not chunk.vectors or None in chunk.vectors.values():
        return "no vector"
    return ""


def _show_chunk(chunk: InspectedChunk) -> None:
    """All of a chunk."""
    title = f"chunk {chunk.index} · characters {chunk.start}-{chunk.end}"
    along = _along(chunk.metadata)
    console.print(Text(f"{title} · {along}" if along else title, style="bold"), soft_wrap=True)
    if wrong := _wrong(chunk):
        console.print(Text(wrong, style="yellow"))
    for vector, text in chunk.vectors.items():
        if text is not None:
            console.print(Panel(Text(text), title=Text(f"embedded, as {vector}")))
    if chunk.text is not None:
        console.print(Panel(Text(chunk.text), title="returned"))


def _along(metadata: Mapping[str, Any]) -> str:
    """Metadata that changes, in few words: first and last value in one."""
    said: dict[str, str] = {}
    for name, value in metadata.items():
        for ending, other in (("_start", "_end"), ("_end", "_start")):
            field = name.removesuffix(ending)
            if field != name and field + other in metadata:
                first, last = metadata[f"{field}_start"], metadata[f"{field}_end"]
                said[field] = str(first) if first == last else f"{first} to {last}"
                break
        else:
            said[name] = str(value)
    return ", ".join(f"{name} {value}" for name, value in said.items())


def _shortened(text: str, *, full: bool) -> Text:
    lines = text.strip("\n").splitlines()
    if full or len(lines) <= _LINES_SHOWN:
        return Text("\n".join(lines))
    return Text("\n".join(lines[:_LINES_SHOWN])).append(
        f"\n... {len(lines) - _LINES_SHOWN} more lines", style="dim"
    )
