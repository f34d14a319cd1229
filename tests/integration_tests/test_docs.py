"""What README and docs show works: examples run, commands exist, links lead somewhere."""

from __future__ import annotations

import functools
import gc
import json
import re
import shlex
import sys
import uuid
from collections.abc import Iterator
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import chromadb
import cohere
import pytest
import sqlalchemy as sa
import tiktoken
import typer
from chromadb.api.shared_system_client import SharedSystemClient
from fpdf import FPDF
from langchain_chroma import Chroma
from langchain_classic.retrievers import ParentDocumentRetriever
from langchain_classic.storage import LocalFileStore, create_kv_docstore
from langchain_core.documents import Document
from langchain_text_splitters import RecursiveCharacterTextSplitter
from typer.testing import CliRunner

from langchain_rse.cli.app import app
from langchain_rse.embeddings import WordLlamaEmbeddings
from langchain_rse.evaluation import load_questions
from tests.integration_tests.chat_server import Answer, Request, chat_server
from tests.integration_tests.citing_server import citing_server
from tests.integration_tests.dsrag_knowledge_base import KnowledgeBase
from tests.integration_tests.llama_index_store import write_nodes
from tests.integration_tests.rerank_server import rerank_server

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_LINKS = [*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md"))]

# Examples leave it to the end of the program to close connections.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

REPORT = (
    "Example Inc. makes pumps and seals. ",
    "Lower prices of steel drove the change in gross margin of two points. ",
    "Item 7A excludes the products of the discontinued seal business. ",
)


class Block(NamedTuple):
    """A fenced block of code in a page."""

    page: Path
    line: int
    """The number of its first line, from 1."""
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    blocks = []
    fence = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not line.lstrip().startswith("```"):
            if fence is not None:
                blocks[-1] = blocks[-1]._replace(text=f"{blocks[-1].text}{line}\n")
        elif fence is None:
            fence = line
            blocks.append(Block(page, number + 1, line.strip("` "), ""))
        else:
            assert line.strip() == "```", f"{page}:{number}: a block inside of a block"
            fence = None
    assert fence is None, f"{page}: the last block has no end"
    return blocks


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


if find_spec("fastmcp") is None:  # it needs what MCPAdapter of LangChain needs
    BLOCKS = [block for block in BLOCKS if "MCPAdapter(" not in block.text]


def in_language(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


def commands_of(block: Block) -> list[list[str]]:
    """The commands of a block that can be pasted: every line is one, or a comment."""
    lines = (line.removeprefix("$ ") for line in block.text.splitlines())
    return [words for line in lines if (words := shlex.split(line, comments=True))]


COMMANDS = [(block, words) for block in in_language("console") for words in commands_of(block)]


def respond(request: Request) -> Answer:
    """What a model might say to a relevance filter, to headers, and to an agent."""
    if "response_format" in request.body:
        judgment = {"explanation": "It is about margins.", "is_relevant": True}
        answers = {
            "Judgments": {"judgments": [judgment for _ in request.chunks]},
            "Description": {
                "title": "Annual report of Example Inc. for 2018",
                "summary": "This document is an annual report.",
            },
        }
        return Answer(json.dumps(answers[request.body["response_format"]["json_schema"]["name"]]))
    if "tools" in request.body and request.body["messages"][-1]["role"] != "tool":
        return Answer(body=calling("search_documents", {"query": "What drove gross margin?"}))
    return Answer("Annual report of Example Inc. for 2018")


def calling(tool: str, arguments: dict[str, Any]) -> str:
    """What a server answers if its model calls a tool."""
    call = {"name": tool, "arguments": json.dumps(arguments)}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
    }
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt"}
    return json.dumps({**head, "choices": [choice]})


@functools.cache
def report() -> bytes:
    """A PDF of twelve pages."""
    pdf = FPDF()
    pdf.set_font("Helvetica", size=12)
    for number, sentence in enumerate(REPORT * 4, 1):
        pdf.add_page()
        pdf.multi_cell(0, text=f"Page {number}. {sentence * (1_500 // len(sentence))}")
    return bytes(pdf.output())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with the files that examples name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "10k.pdf").write_bytes(report())
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "steel.txt").write_text(REPORT[1], encoding="utf-8")
    evidence = {"doc_id": "10k.pdf", "start": 1000, "end": 1100}
    asked = [
        {"question": question, "evidence": [evidence], "answer": "Lower prices of steel."}
        for question in ("What drove gross margin?", "Which prices fell in 2018?")
    ]
    lines = "".join(f"{json.dumps(question)}\n" for question in asked)
    (tmp_path / "questions.jsonl").write_text(lines, encoding="utf-8")
    gc.freeze()  # so that only what the example has made is looked through
    yield tmp_path
    # Chroma keeps what was opened, by relative paths.
    SharedSystemClient.clear_system_cache()
    gc.collect()
    gc.unfreeze()


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Servers on loopback for the services that examples use; tiktoken downloads nothing."""
    by_bytes = tiktoken.Encoding(
        "by bytes",
        pat_str=r"\s*\S+|\s+",
        mergeable_ranks={bytes([byte]): byte for byte in range(256)},
        special_tokens={},
    )
    monkeypatch.setattr(tiktoken, "get_encoding", {"cl100k_base": by_bytes}.__getitem__)
    with (
        chat_server(respond) as chat,
        rerank_server() as rerank,
        citing_server() as citing,
    ):
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        monkeypatch.setenv("OPENAI_BASE_URL", chat.url)
        monkeypatch.delenv("OPENAI_API_BASE", raising=False)
        monkeypatch.setenv("LANGSMITH_ENDPOINT", chat.url)  # which is asked for its version
        monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", citing.url)
        monkeypatch.delenv("ANTHROPIC_API_URL", raising=False)
        monkeypatch.setenv("COHERE_API_KEY", "a-key")
        client = cohere.ClientV2
        monkeypatch.setattr(cohere, "ClientV2", lambda key, **_: client(key, base_url=rerank.url))
        yield


@pytest.fixture
def servers(block: Block, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of a new database, for the examples that read it from the environment."""
    if "DATABASE_URL" in block.text:
        url = request.getfixturevalue("postgres_url")
        monkeypatch.setenv("DATABASE_URL", new_database(url))


def new_database(url: str) -> str:
    """The URL of a database that nothing else uses."""
    name = f"example_{uuid.uuid4().hex}"
    own = sa.make_url(url).set(database=name)
    for place, statement in ((url, f"CREATE DATABASE {name}"), (own, "CREATE EXTENSION vector")):
        engine = sa.create_engine(place, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
    return own.render_as_string(hide_password=False)


@pytest.fixture
def others(block: Block, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an example expects: questions, indexes of LangChain, LlamaIndex, dsRAG and others."""
    if block.page.name == "evaluation.md":
        shown = next(each for each in in_language("json") if each.page == block.page)
        (folder / "questions.jsonl").write_text(shown.text, encoding="utf-8")
    if "my-index" in block.text:
        note = Document(REPORT[1], metadata={"source": str(Path("notes", "steel.txt"))})
        Chroma("notes", WordLlamaEmbeddings(), persist_directory="my-index").add_documents([note])
    if 'persist_directory="library"' in block.text:
        result = CliRunner().invoke(app, ["index", "10k.pdf", "--kb", "library"])
        assert result.exit_code == 0, result.output
    if "children" in block.text:
        make_parents()
    if "llama_db" in block.text:
        client = chromadb.PersistentClient(str(folder / "llama_db"))
        sentences = [f"{number}. {text}" for number, text in enumerate(REPORT * 4, 1)]
        write_nodes(client, "reports", "10k.pdf", sentences, WordLlamaEmbeddings())
    if "dsrag" in block.text:
        make_knowledge_base(monkeypatch)


def make_parents() -> None:
    """Fill the two stores of a ParentDocumentRetriever."""
    text = "\n\n".join(f"The pump of model {n} needs oil every {n} weeks." for n in range(50))
    ParentDocumentRetriever(
        vectorstore=Chroma("children", WordLlamaEmbeddings(), persist_directory="children"),
        docstore=create_kv_docstore(LocalFileStore("parents")),
        child_splitter=RecursiveCharacterTextSplitter(chunk_size=100, chunk_overlap=0),
    ).add_documents([Document(text, metadata={"source": "manual.txt"})])


def make_knowledge_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let dsRAG, which is not installed, be imported, and have a knowledge base."""
    chunks = [
        {"chunk_text": sentence.strip(), "document_title": "Report", "chunk_page_start": page}
        for page, sentence in enumerate(REPORT, 1)
    ]
    module = ModuleType("dsrag.knowledge_base")
    opened = KnowledgeBase({"10k.pdf": chunks}, WordLlamaEmbeddings())
    vars(module)["KnowledgeBase"] = lambda _kb_id, exists_ok: exists_ok and opened
    monkeypatch.setitem(sys.modules, "dsrag", ModuleType("dsrag"))
    monkeypatch.setitem(sys.modules, "dsrag.knowledge_base", module)


def readme_per_change(block: Block) -> Any:
    """The examples of the README run whenever tests run, those of other pages by night."""
    is_in_readme = block.page == PAGES[0]
    return pytest.param(block, id=str(block), marks=[] if is_in_readme else pytest.mark.nightly)


def read_before(block: Block) -> list[Block]:
    """The examples above one in the README, where each may use the names of earlier ones."""
    if block.page != PAGES[0]:
        return []
    return [
        each for each in in_language("python") if each.page == block.page and each.line < block.line
    ]


def output_below(block: Block) -> str:
    """The text that directly follows an example, which is what it prints."""
    lines = block.page.read_text(encoding="utf-8").splitlines()
    end = block.line + block.text.count("\n")  # the line of the closing fence
    below = [each for each in BLOCKS if each.page == block.page and each.line == end + 3]
    if not below or below[0].language != "text" or lines[end]:
        return ""
    return below[0].text.removesuffix("...\n")  # where it goes on


@pytest.mark.usefixtures("folder", "services", "servers", "others")
@pytest.mark.filterwarnings("ignore:`langchain.mcp` is in beta")
@pytest.mark.filterwarnings(r"ignore:'upload_\w+' parameter is in beta")
@pytest.mark.filterwarnings("ignore:The model '.*' is deprecated:DeprecationWarning")
@pytest.mark.parametrize("block", list(map(readme_per_change, in_language("python"))))
def test_an_example_runs_as_it_stands(block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for each in [*read_before(block), block]:
        capsys.readouterr()
        lines = "\n" * (each.line - 1) + each.text  # so that errors name the page's line
        code = compile(lines, str(each.page), "exec", dont_inherit=True)
        exec(code, names)  # noqa: S102
    printed = capsys.readouterr().out
    assert bool(printed.strip()) == ("print(" in block.text)
    assert output_below(block).rstrip() in printed


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("block", in_language("json"), ids=str)
def test_a_file_of_questions_can_be_loaded(block: Block) -> None:
    Path("shown.jsonl").write_text(block.text, encoding="utf-8")
    assert load_questions("shown.jsonl")


def write_files_of_commands(folder: Path) -> None:
    """The files that the command line is shown to use."""
    (folder / "reports").mkdir()
    (folder / "reports" / "10k.pdf").write_bytes(report())
    (folder / "notes.md").write_text("# Notes\n\nMargins rose.", encoding="utf-8")


@pytest.mark.parametrize(
    "block",
    [
        readme_per_change(block)
        for block in in_language("console")
        if commands_of(block)[0][0] == "langchain-rse"
    ],
)
def test_commands_run(block: Block, folder: Path) -> None:
    write_files_of_commands(folder)
    runner = CliRunner()
    result = runner.invoke(app, ["index", "reports", "--kb", "library"])
    assert result.exit_code == 0, result.output
    printed = ""
    for words in commands_of(block):
        program, name, *patterns = words
        arguments = [path for word in patterns for path in glob(word) or [word]]  # noqa: PTH207
        assert program == "langchain-rse"
        command = typer.main.get_group(app).commands[name]
        # Raises if there is no such option.
        command.make_context(name, list(arguments))
        # test_mcp.py runs the server, which has no end.
        if name != "serve-mcp" and not any("://" in argument for argument in arguments):
            result = runner.invoke(app, [name, *arguments])
            assert result.exit_code == 0, f"{words}: {result.output}"
            printed += result.output
    assert output_below(block).rstrip() in printed


def test_what_is_shown_to_install_and_make_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for block, (program, *words) in COMMANDS:
        if program == "make":
            assert re.search(rf"^{words[0]}:", makefile, re.MULTILINE), str(block)
        for extra in re.findall(r"langchain-rse\[(\w+)\]", " ".join(words)):
            assert re.search(rf"^{extra} = \[", project, re.MULTILINE), f"{block}: {extra}"


def test_a_page_has_one_name() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    entries = re.findall(r'^ +- "?([^":\n]+)"?: ([\w-]+\.md)$', navigation, re.MULTILINE)
    names = {page: name for name, page in entries}
    for page in PAGES[1:]:
        if page.name != "index.md":
            title = page.read_text(encoding="utf-8").partition("\n")[0]
            assert title == f"# {names[page.name]}"
            assert not title.endswith("?")


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in words}


@pytest.mark.parametrize("page", WITH_LINKS, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"(?ms)^\s*```.*?^\s*```$", "", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\((?!\w+://)([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors_of(linked), f"{page.name}: {target}"
