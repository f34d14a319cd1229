"""``langchain-rse query``, ``compare``, ``evaluate`` and ``serve-mcp``: questions and passages.

Importing `langchain_rse.config` takes a second, so help names no values from it.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_rse.cli.knowledge_base import Folder, KnowledgeBase, refuse_file
from langchain_rse.cli.output import (
    console,
    errors,
    print_note,
    print_text,
    print_wrapped,
    visible_lines,
)

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from langchain_rse import RSETrace

_LEGEND = """
recall: share of the evidence that is returned
whole: share of the quotations that are returned whole
precision: share of the text that is evidence, low because quotations are short
iou: text in both evidence and result, divided by text in either
passages, characters: returned texts, and their length
refused: questions without an answer in the documents for which nothing was returned
filling the budget: with --penalty 0
"""
_JSON_FIELDS = {"id", "page_content", "metadata"}  # of a passage


Assignment = tuple[str, str]


def parse(text: Any) -> Any:  # noqa: ANN401 - any value of JSON
    """Parse JSON; return any other text, and typer's defaults, unchanged."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def split(text: str) -> Assignment:
    """Split a text such as NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise typer.BadParameter(f"expected NAME=VALUE, got {text!r}")
    return name, value


def whole_number(text: Any) -> Any:  # noqa: ANN401 - typer also passes the default
    """Read a whole number of at least 1."""
    if not str(text).isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"expected a whole number, at least 1; got {text!r}")
    return int(text)


def share(text: Any) -> Any:  # noqa: ANN401 - as above
    """Read a number from 0 to 1."""
    number = parse(text)
    if type(number) not in {int, float} or not 0 <= number <= 1:
        raise typer.BadParameter(f"expected a number from 0 to 1; got {text!r}")
    return number


def check_folder(path: Path | None) -> Path | None:
    """Refuse a file in a folder that does not exist, before the work for it begins."""
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"the folder {path.parent} does not exist; create it first")
    return path


number_option = partial(typer.Option, parser=whole_number, metavar="NUMBER")
assignment_option = partial(typer.Option, parser=split, metavar="NAME=VALUE")
new_file_option = partial(typer.Option, metavar="FILE", dir_okay=False, callback=check_folder)

Question = Annotated[list[str], typer.Argument(metavar="QUESTION", hidden=True)]
K = Annotated[
    int | None,
    number_option(
        "--k",
        "-k",
        help="Maximum number of passages. The most valuable are kept.",
    ),
]
Budget = Annotated[
    int,
    number_option(
        help="Maximum length of all passages together, in characters.",
    ),
]
Penalty = Annotated[
    float | None,
    typer.Option(
        "--irrelevant-chunk-penalty",
        "--penalty",
        parser=share,
        metavar="NUMBER",
        help="Minimum relevance, 0 to 1. Lower values return more text. Default: 0.35, or the "
        "preset's.",
    ),
]
Config = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        help="A preset: balanced (the default), precision, find_all, dsrag-balanced, "
        "dsrag-precision, dsrag-find_all, walkthrough or kadane; or a file written by "
        "`evaluate --save-config`. Other options override it.",
    ),
]
Settings = Annotated[
    list[Any] | None,
    assignment_option(
        "--set",
        help="Any setting of a query, by its name in Python, such as hybrid=0.5, "
        "order=relevance or score_floor=none; repeatable. It overrides options.",
    ),
]


Filter = Annotated[
    list[Any] | None,
    assignment_option(
        "--filter",
        help="Search only chunks whose metadata has this value; repeatable, and then all must "
        "match. `query --json` shows the metadata; page numbers start at 0. For source, the file "
        "name is enough. Numbers, true and false are read as JSON; quote them to match text: "
        "'code=\"7\"'.",
    ),
]


def settings(
    config: str | None, assignments: Iterable[Assignment] | None, **options: float | None
) -> dict[str, Any]:
    """Make the retriever's settings from a preset or a file, and from options, which override it.

    Options that are None are not given.
    """
    from langchain_rse._messages import did_you_mean
    from langchain_rse.config import PRESETS, QuerySettings, RSEConfig, read_settings

    fields: dict[str, Any] = {}
    if config in PRESETS:
        fields["config"] = config
    elif config:
        if not Path(config).is_file():
            if Path(config).suffix:
                raise ValueError(f"--config: there is no file {config!r}")
            advice = did_you_mean(config, PRESETS) or f"; presets: {', '.join(PRESETS)}"
            raise ValueError(f"--config: there is no preset or file {config!r}{advice}")
        fields = read_settings(Path(config))
    for name, option in options.items():
        if option is not None:
            fields[name] = option
    for name, text in assignments or ():
        fields[name] = None if text.lower() == "none" else parse(text)
        if name in RSEConfig.model_fields.keys() - QuerySettings.model_fields.keys():
            raise ValueError(
                f'--set {name}: write {{"{name}": {text}}} into a file, and pass it as --config'
            )
        with _about(f"--set {name}={text}"):
            QuerySettings(**{name: fields[name]})
    return fields


@contextlib.contextmanager
def _about(subject: str) -> Iterator[None]:
    """Begin the message of a wrong type or value with what it is about."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(f"{subject}: {error}") from error


def filter_of(
    conditions: Iterable[Assignment], find_document: Callable[[str], str]
) -> dict[str, Any]:
    """Make the argument of a query for a filter that requires all conditions, if there are some.

    ``find_document`` returns the id of the document that the value of ``source`` names.
    """
    filters = []
    for name, text in conditions:
        filters.append({name: find_document(text) if name == "source" else parse(text)})
    if not filters:
        return {}
    return {"filter": {"$and": filters} if len(filters) > 1 else filters[0]}


def query(
    question: Question,
    kb: Folder,
    *,
    k: K = 5,
    max_context_length: Budget = 16_000,
    irrelevant_chunk_penalty: Penalty = None,
    config: Config = None,
    assignments: Settings = None,
    filter: Filter = None,  # noqa: A002 - the name in Python
    report: Annotated[
        Path | None,
        new_file_option(
            help="Write an HTML report: every chunk considered, its scores, and sliders to try "
            "other settings. Needs: pip install 'langchain-rse[report]'",
        ),
    ] = None,
    pages: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            callback=refuse_file,
            help="Write pictures of the PDF pages of each passage, with the passage marked, into "
            "this folder, and into the report.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Also explain on stderr why chunks were returned or not."
        ),
    ] = False,
) -> None:
    """Print the passages that answer a question, each with its place.

    Put QUESTION in quotation marks if it has ?, ' or other characters of the shell. A passage is a
    run of neighboring chunks, copied unchanged from its document. One that begins inside a table
    has the table's header row above it (not with --set include_header=false). The exit status is 1
    if nothing is returned.

    Example: langchain-rse query "What drove gross margin?" --kb library --k 3
    """
    fields = settings(
        config,
        assignments,
        k=k,
        max_context_length=max_context_length,
        irrelevant_chunk_penalty=irrelevant_chunk_penalty,
    )
    opened = KnowledgeBase.existing(kb, **fields)
    chosen = filter_of(filter or (), opened.find)
    trace = opened.retriever.explain(" ".join(question), **chosen)
    if verbose or report:
        trace.short_names.update(opened.names)
    explanation = str(trace) if verbose else ""
    passages = trace.documents_returned
    if as_json:
        printed = [passage.model_dump(include=_JSON_FIELDS) for passage in passages]
        typer.echo(json.dumps(printed, indent=2, default=str))
    elif passages:
        print_passages(trace, opened.names)
        explanation = explanation.replace(f"{trace.summary}\n", "")
    if verbose:
        print_wrapped(explanation, errors)
        if not report:
            print_note("All chunks considered: --report FILE")
    pictures = [*_draw_pages(passages, pages)] if pages else ()
    if report:
        trace.to_html(report, pictures)
        print_note(f"Report written to {report}")
    if not passages:
        if not verbose:
            print_note(f"Nothing returned: {trace.reason}")
        if any(check.is_rejected for check in trace.floor_checks):
            print_note("--set score_floor=none prints the nearest passages all the same")
        raise typer.Exit(1)


def print_passages(trace: RSETrace, names: Mapping[str, str]) -> None:
    """Print a summary and the passages in their order, each with its number and place above it."""
    from langchain_rse.text.spellings import query_words
    from langchain_rse.tools import place_of

    print_text(trace.summary)
    words = query_words(trace.queries)
    for number, passage in enumerate(trace.documents_returned, 1):
        text = visible_lines(passage.page_content)
        if words:
            for start, end in words.finditer(text.plain):
                text.stylize("bold cyan", start, end)
        name = names[passage.metadata["doc_id"]]
        place = f"[{number}] {name}, {place_of(passage.metadata)}".removesuffix(", ")
        length = passage.metadata["end_index"] - passage.metadata["start_index"]
        if len(passage.page_content) > length:
            place += ", below its table's header row"
        print_text("")
        if console.is_terminal:
            console.rule(style="dim")
        print_text(place, "bold")
        print_text(text)


def _draw_pages(passages: Sequence[Document], folder: Path) -> Iterator[Mapping[int, Any]]:
    """Draw the pages of the passages of PDFs; a file that has changed costs its own pictures."""
    from langchain_rse.pages import render

    folder.mkdir(parents=True, exist_ok=True)
    for number, passage in enumerate(passages, 1):
        path = Path(passage.metadata["source"])
        pictures: Mapping[int, Any] = {}
        reason: object = "its document is not a PDF"
        try:
            pictures = render(passage, path) if path.suffix.lower() == ".pdf" else {}
        except (OSError, RuntimeError, ValueError) as error:
            reason = error
        if not pictures:
            print_note(f"No picture of passage {number}: {reason}", "red")
        for page, picture in pictures.items():
            picture.save(folder / f"passage-{number}-page-{page + 1}.png")
        yield pictures


def compare(
    question: Question,
    kb: Folder,
    *,
    k: K = None,
    max_context_length: Budget = 4_000,
    irrelevant_chunk_penalty: Penalty = None,
    config: Config = None,
    assignments: Settings = None,
    filter: Filter = None,  # noqa: A002 - the name in Python
    html: Annotated[
        Path | None,
        new_file_option(
            help="Also write both sides as an HTML page.",
        ),
    ] = None,
) -> None:
    """Compare passages with the top-k chunks.

    Both sides have the same length; without --k, there is no limit to the number of passages. The
    passages come first, then the chunks, both in full. Lines with text that only the passages have
    begin with "+ |", those with text that only the chunks have with "- |".

    Example: langchain-rse compare "What drove gross margin?" --kb library
    """
    fields = settings(
        config,
        assignments,
        k=k,
        max_context_length=max_context_length,
        irrelevant_chunk_penalty=irrelevant_chunk_penalty,
    )
    opened = KnowledgeBase.existing(kb, **fields)
    chosen = filter_of(filter or (), opened.find)
    comparison = opened.retriever.compare(" ".join(question), **chosen)
    comparison.short_names.update(opened.names)
    if html:
        comparison.to_html(html)
        print_note(f"Written to {html}")
    print_wrapped(str(comparison))


def evaluate(
    kb: Folder,
    questions: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help='JSON Lines, {"question": ..., "evidence": [{"doc_id": ..., "text": ...}]}, or '
            "CSV with the columns question, doc_id and text. The file name is enough as doc_id. "
            "Evidence that is empty marks a question that no document answers.",
            exists=True,
            dir_okay=False,
        ),
    ],
    *,
    budgets: Annotated[
        list[int],
        number_option(
            "--budget",
            help="Budget in characters; repeatable.",
        ),
    ] = [4_000, 8_000, 16_000],  # noqa: B006 - typer reads it only
    trials: Annotated[
        int | None,
        number_option(
            "--tune",
            help="Also try this many parameter sets.",
        ),
    ] = None,
    save_config: Annotated[
        Path | None,
        new_file_option(
            help="Write the parameters that --tune finds to a file for --config.",
        ),
    ] = None,
    irrelevant_chunk_penalty: Penalty = None,
    config: Config = None,
    assignments: Settings = None,
) -> None:
    """Measure retrieval on your questions, and tune it.

    Prints how much of the evidence the passages return, and how much the top-k chunks return within
    the same budget.

    Example: langchain-rse evaluate --questions questions.jsonl --kb library

    To tune: langchain-rse evaluate --questions questions.jsonl --kb library --tune 20 --save-config
    tuned.json
    """
    from langchain_rse.evaluation import evaluate as measure
    from langchain_rse.evaluation import load_questions, tune

    if save_config and not trials:
        raise ValueError("--save-config writes the result of --tune: add --tune N")
    fields = settings(config, assignments, irrelevant_chunk_penalty=irrelevant_chunk_penalty)
    opened = KnowledgeBase.existing(kb, **fields)
    retriever = opened.retriever
    asked = load_questions(questions)
    options: dict[str, Any] = {"budgets": budgets, "show_progress": sys.stderr.isatty()}
    with _about(str(questions)):
        passages = measure(retriever, asked, name="passages", **options)
        located = passages.questions  # with the positions of quotations
        tuning = tune(retriever, located, trials=trials, **options) if trials else None
    if tuning is not None and save_config:
        tuning.to_file(save_config)
        found = "Parameters"
        if not tuning.changes:
            found = "No gain on held-out questions: the current parameters are"
        print_note(f"{found} written to {save_config}")

    # Chunks fill the budget, so the comparison needs passages that fill it too.
    name = "passages (filling the budget)"
    filled = measure(retriever, located, name=name, irrelevant_chunk_penalty=0, **options)
    plain = retriever.vectorstore.as_retriever(  # type: ignore[union-attr] # there is one
        search_kwargs={"k": retriever.fetch_k}
    )
    chunks = measure(plain, located, name="chunks", **options)
    comparison = filled.compare(chunks)
    conclusion = f"Conclusion: {comparison.conclusion}"
    tables = filter(None, (passages, filled, chunks, comparison, conclusion, tuning))
    print_text(visible_lines("\n\n".join(map(str, tables))))
    print_note(_LEGEND)


def serve_mcp(
    kb: Folder,
    *,
    port: Annotated[
        int | None,
        number_option(
            help="Serve HTTP on this port of 127.0.0.1. Default: serve the client that starts this "
            "command, on stdin and stdout.",
        ),
    ] = None,
    tools: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="passages: search, find, outline and read. connector: search and fetch, as "
            "ChatGPT and deep research require.",
        ),
    ] = "passages",
    k: K = 5,
    max_context_length: Budget = 8_000,
    irrelevant_chunk_penalty: Penalty = None,
    config: Config = None,
    assignments: Settings = None,
) -> None:
    """Serve a knowledge base to MCP clients.

    Example: langchain-rse serve-mcp --kb library
    """
    if port is not None and port > 65_535:  # noqa: PLR2004
        raise ValueError(f"--port must be from 1 to 65535; got {port}")
    # stdout is reserved for the protocol; a model may print while it loads.
    with contextlib.redirect_stdout(sys.stderr):
        from langchain_rse.tools import create_mcp_server

        fields = settings(
            config,
            assignments,
            k=k,
            max_context_length=max_context_length,
            irrelevant_chunk_penalty=irrelevant_chunk_penalty,
        )
        retriever = KnowledgeBase.existing(kb, **fields).retriever
    checked: Any = tools  # by this function
    server = create_mcp_server(retriever, tools=checked, log_level="WARNING")
    if port is None:
        server.run("stdio")
        return
    print_note(f"Serving {kb} on http://127.0.0.1:{port}/mcp, to any program on this computer")
    server.run("streamable-http", port=port)
