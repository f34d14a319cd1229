"""The tools to find, outline and read: their answers, their limits, and what they may not show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_rse import RSERetriever
from langchain_rse.access import DocumentAccess
from langchain_rse.tools import create_rse_tools
from tests.unit_tests import fakes
from tests.unit_tests.fakes import LENGTHS, Way

way = fakes.way
SYNC = Way(None)

GUIDE = """# Guide 0

Read this first.

## Set up 10

Install the margin tool.

## Use {it} 20

The margin tool finds margins.
"""
SECTIONS = "> Guide 0 (0–116)\n>   Set up 10 (29–69)\n>   Use {it} 20 (69–116)"
MARGINS = [
    "[1] guide.md, line 7, characters 43–67\n> Install the margin tool.",
    "[2] guide.md, line 11, characters 85–115\n> The margin tool finds margins.",
    "[3] notes.md, line 1, characters 0–17\n> A MARGIN  of 3 90",
]
IN_ONE = " in 1 document:\n\n"
ALL, LAST = "\n\n".join(MARGINS), f"[1{MARGINS[2][2:]}"


def retriever_of(texts: dict[str, str], **fields: Any) -> RSERetriever:
    """A retriever over texts of which each line is a chunk."""
    vectorstore = InMemoryVectorStore(fakes.BagOfWords())
    return fakes.make_retriever(texts, **{"vectorstore": vectorstore, **fields})


def library() -> RSERetriever:
    return retriever_of({"/docs/guide.md": GUIDE, "/docs/notes.md": "A MARGIN  of 3 90\n"})


def tools_of(retriever: RSERetriever, **settings: Any) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in create_rse_tools(retriever, **settings)}


def ask(way: Way, tool: BaseTool, **arguments: Any) -> ToolMessage:
    call = {"name": tool.name, "args": arguments, "id": "1", "type": "tool_call"}
    message: ToolMessage = way.invoke(tool, call)
    return message


def check_passages(message: ToolMessage) -> None:
    """The artifact has the passages of the content, with their places."""
    numbers = []
    for passage in message.artifact:
        metadata = passage.metadata
        numbers.append(metadata["rse"]["number"])
        assert f"[{numbers[-1]}] " in str(message.content)
        assert f"{metadata['start_index']:,}–{metadata['end_index']:,}" in str(message.content)
        quoted = "\n".join(f"> {line}" for line in passage.page_content.strip("\n").splitlines())
        assert quoted in str(message.content)
    assert numbers == [int(n) for n in re.findall(r"(?m)^\[(\d+)\] ", str(message.content))]


@pytest.mark.parametrize(
    ("tool", "arguments", "content"),
    [
        ("find", {"pattern": "margin"}, f"Matches 1–4 of 4 in 2 documents:\n\n{ALL}"),
        ("find", {"pattern": "margin OF"}, f"Matches 1 of 1{IN_ONE}{LAST}"),
        ("find", {"pattern": r"^a margin\b", "regex": True}, f"Matches 1 of 1{IN_ONE}{LAST}"),
        ("find", {"pattern": "of", "filter": {"source": "other"}}, "Nothing was found for 'of'."),
        ("find", {"pattern": "margin", "offset": 3}, f"Matches 4 of 4 in 2 documents:\n\n{LAST}"),
        ("find", {"pattern": "margin", "offset": 4}, "There are only 4 matches for 'margin'."),
        ("outline", {}, "Documents 1–2 of 2:\nguide.md, 116 characters\nnotes.md, 18 characters"),
        ("outline", {"offset": 1}, "Documents 2 of 2:\nnotes.md, 18 characters"),
        ("outline", {"offset": 2}, "Documents 0 of 2: nothing to show from offset=2."),
        ("outline", {"document": "guide.md"}, f"Sections 1–3 of 3 of guide.md:\n{SECTIONS}"),
        (
            "outline",
            {"document": "notes"},
            "notes.md has no headings, but 18 characters: read it by start or page.",
        ),
        (
            "read",
            {"document": "guide.md", "section": "set UP"},
            "[1] guide.md, characters 29–69\n> ## Set up 10\n> \n> Install the margin tool.",
        ),
        (
            "read",
            {"document": "/docs/guide.md", "start": 43, "end": 50},
            "[1] guide.md, characters 43–50\n> Install",
        ),
        ("read", {"document": "notes"}, "[1] notes.md, characters 0–18\n> A MARGIN  of 3 90"),
    ],
)
@fakes.both_ways
def test_answers(way: Way, tool: str, arguments: dict[str, Any], content: str) -> None:
    message = ask(way, tools_of(library(), filter_fields=["source"])[tool], **arguments)
    assert message.status == "success"
    assert message.content == content
    check_passages(message)


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("find", {"pattern": "(", "regex": True}, "the regular expression '(' is wrong"),
        ("find", {"pattern": "x", "filter": {"year": 1}}, "Fields of filter: source."),
        ("outline", {"section": "Guide"}, "unknown argument section;"),
        ("read", {"document": "other"}, "there is no document 'other'"),
        ("read", {"document": "notes", "page": 1, "start": 0}, "at most one of section, page"),
        ("read", {"document": "notes", "start": 99}, "below 18, the length of notes; got 99"),
        ("search", {"query": " \n"}, "query must not be blank"),
        ("read", {"document": "guide", "section": "x"}, "has no section 'x'; it has"),
    ],
)
@fakes.both_ways
def test_wrong_arguments_are_answered(
    way: Way, tool: str, arguments: dict[str, Any], problem: str
) -> None:
    message = ask(way, tools_of(library(), filter_fields=["source"])[tool], **arguments)
    assert message.status == "error"
    assert problem in str(message.content)


def test_no_two_documents_have_one_name() -> None:
    retriever = retriever_of({"/d/a/notes.md": "heron 0\n", "/d/b/notes.md": "egg 90\n"})
    heron = "[1] notes.md, characters 0–8\n> heron 0"
    tools = tools_of(retriever, filter_fields=["source"])
    for tool, arguments, content in (
        ("read", {"document": "notes.md"}, "choose one of a/notes.md, b/notes.md"),
        ("search", {"query": "heron", "filter": {"source": "/d/a/notes.md"}}, heron),
        ("find", {"pattern": "e", "filter": {"source": "/d/b/notes.md"}}, "[1] b/notes.md, line 1"),
        ("outline", {}, "\nnotes.md, 8 characters\nb/notes.md, 7 characters"),
        ("read", {"document": "notes.md"}, heron),
        ("read", {"document": "b/notes.md"}, "[1] b/notes.md, characters 0–7\n> egg 90"),
        ("read", {"document": "b/notes.md", "page": 1}, "'b/notes.md' has no pages: use "),
    ):
        assert content in str(ask(SYNC, tools[tool], **arguments).content)
    retriever.delete(["/d/b/notes.md"])
    missing = ask(SYNC, tools["read"], document="b/notes.md").content
    assert missing == (
        "there is no document 'b/notes.md'; did you mean notes.md? "
        "Call outline without document for all names."
    )


def test_pages_have_printed_labels_or_numbers() -> None:
    retriever = retriever_of({})
    labels = ["i", "1", "2", "1"]
    retriever.add_documents(
        [
            Document(f"text {n} 0\n", metadata={"source": "r.pdf", "page": n, "page_label": label})
            for n, label in enumerate(labels)
        ]
        + [Document(f"page {n} 0\n", metadata={"source": "s.pdf", "page": n}) for n in range(1_200)]
    )
    read = tools_of(retriever)["read"]
    for document, page, text in (
        ("r.pdf", "i", "> text 0 0"),
        ("r.pdf", 1, "> text 1 0"),  # the first of two
        ("r.pdf", "page 2", "> text 2 0"),
        ("s.pdf", 1_200, "> page 1199 0"),
    ):
        assert str(ask(SYNC, read, document=document, page=page).content).endswith(f"\n{text}")
    missing = ask(SYNC, read, document="s.pdf", page="1201")
    assert "has no page '1201'; it has page 1 to page 1200" in str(missing.content)


# Limits


@pytest.mark.parametrize("tool", ["find", "outline", "read"])
@settings(max_examples=8)
@given(data=st.data())
def test_no_answer_is_longer_than_its_limit(tool: str, data: st.DataObject) -> None:
    limit = data.draw(st.integers(260, 900))
    measure = LENGTHS[data.draw(st.sampled_from(["characters", "words", "bytes"]))]
    name = data.draw(st.sampled_from(["a", "é" * 40]))
    rows = data.draw(st.sampled_from([1, 3, 9]))
    text = "".join(f"# Word {row}\n\nword {'x' * (row % 37)} 0\n" for row in range(rows))
    texts = {name: text, **{f"{name}{row}": "word 0\n" for row in range(rows)}}
    retriever = LIBRARIES.setdefault((name, rows), retriever_of(texts))
    measuring = retriever.model_copy(update={"length_function": measure})
    tools = tools_of(measuring, max_context_length=limit)
    told = "20,000" if measure is not len else limit
    assert f"Returns at most {told} characters" in tools["read"].description
    arguments = {"find": {"pattern": "word"}, "outline": {}, "read": {"document": name}}[tool]
    if tool == "outline" and data.draw(st.booleans()):
        arguments = {"document": name}
    seen = list(every_page(tools[tool], arguments))
    for message in seen:
        assert measure(str(message.content)) <= limit
    if tool == "find":
        shown = "".join(passage.page_content for each in seen for passage in each.artifact)
        assert shown.casefold().count("word") == 3 * rows
    elif tool == "read":
        assert "".join(each.artifact[0].page_content for each in seen) == text
    else:
        lines = [line for each in seen for line in str(each.content).splitlines()[1:]]
        assert len(lines) == (rows if arguments else rows + 1)


LIBRARIES: dict[tuple[str, int], RSERetriever] = {}


def every_page(tool: BaseTool, arguments: dict[str, Any]) -> Iterator[ToolMessage]:
    """Ask for a page, then for the following ones, as each answer says."""
    while True:
        message = ask(SYNC, tool, **arguments)
        assert message.status == "success"
        yield message
        following = re.findall(r"(offset|start|end)=(\d+)", str(message.content))
        if not following:
            return
        arguments = {**arguments, **{name: int(value) for name, value in following}}


# What may not be shown

PUBLIC = "# Everyone\n\na plan for everyone 0\n"
HIDDEN = "# Finance\n\nthe finance plan 1\n"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": "everyone finance plan"}),
    ("find", {"pattern": "plan"}),
    ("outline", {}),
    ("outline", {"document": "hidden"}),
    ("read", {"document": "hidden"}),
    ("read", {"document": "hidden", "start": 11, "end": 29}),
]
Settings = Callable[[], tuple[RSERetriever, str]]
"""Makes a retriever, and what the listing of its documents says of the hidden one."""


def records_of(retriever: RSERetriever) -> dict[str, bytes]:
    docstore: Any = retriever.docstore
    records: dict[str, bytes] = docstore.store.store
    return records


def changed(change: Callable[[RSERetriever], object]) -> RSERetriever:
    """The former records and vectors remain, as when a call was killed."""
    retriever = retriever_of({"public": PUBLIC, "hidden": HIDDEN})
    vectorstore: Any = retriever.vectorstore
    records, vectors = dict(records_of(retriever)), dict(vectorstore.store)
    change(retriever)
    for key in records.keys() - records_of(retriever).keys():
        records_of(retriever)[key] = records[key]
    vectorstore.store.update({key: vectors[key] for key in vectors.keys() - vectorstore.store})
    return retriever


def replaced() -> tuple[RSERetriever, str]:
    new = Document("# New\n\nother 90\n", id="hidden", metadata={"source": "hidden"})
    return changed(lambda retriever: retriever.add_documents([new])), "hidden, 16 characters"


def deleted() -> tuple[RSERetriever, str]:
    retriever = changed(lambda retriever: retriever.delete(["hidden"]))
    records = records_of(retriever)
    for key in list(records):
        if key.startswith("manifest/") and b"hidden" in records[key]:
            del records[key]
    return retriever, ""


@pytest.mark.filterwarnings("ignore:.*are not in the docstore")
@pytest.mark.parametrize("make", [replaced, deleted])
@pytest.mark.parametrize(("tool", "arguments"), CALLS, ids=str)
def test_no_tool_shows_what_may_not_be_read(
    make: Settings, tool: str, arguments: dict[str, Any]
) -> None:
    retriever, listed = make()
    message = ask(SYNC, tools_of(retriever)[tool], **arguments)
    shown = f"{message.content}{message.artifact}"
    assert "finance plan" not in shown
    assert "# Finance" not in shown
    if "document" not in arguments:
        assert "everyone" in shown or "public" in shown
    elif not listed:
        assert message.content.startswith("there is no document 'hidden'. Call outline")
    if arguments == {}:
        expected = [listed, "public, 34 characters"] if listed else ["public, 34 characters"]
        assert str(message.content).splitlines()[1:] == expected


def damage(kind: str) -> RSERetriever:
    """A record of a document is unusable."""
    retriever = retriever_of({"public": PUBLIC, "hidden": HIDDEN, "public 2": PUBLIC})
    manifest = retriever.document_access().manifest("hidden")
    keys = {
        "manifest": f"manifest/{manifest.key}",
        "0": f"{manifest.key}/{manifest.current.name}/0",  # type: ignore[union-attr]
    }
    assert keys[kind] in records_of(retriever)
    records_of(retriever)[keys[kind]] = b"{}"
    return retriever


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["manifest", "0"])
@pytest.mark.parametrize(("tool", "arguments"), CALLS, ids=str)
def test_a_corrupt_record_costs_one_document(
    kind: str, tool: str, arguments: dict[str, Any]
) -> None:
    message = ask(SYNC, tools_of(damage(kind))[tool], **arguments)
    if "document" in arguments:  # an answer, perhaps with the error
        assert message.content
    else:
        assert message.status == "success"
        shown = str(message.content)
        assert "public" in shown
        assert "public 2" in shown


@pytest.mark.parametrize("change", ["delete", "replace"])
def test_a_document_that_changes_during_the_call_is_skipped(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    retriever = retriever_of({"a": "word 0\n", "b": "word 1\n", "c": "word 2\n"})
    passage = DocumentAccess.passage

    def change_first(self: DocumentAccess, *args: Any) -> Document:
        monkeypatch.undo()
        if change == "delete":
            retriever.delete(["a", "b"])
        else:
            retriever.add_documents([Document("new 0\n", id=name) for name in ("a", "b")])
        return passage(self, *args)

    monkeypatch.setattr(DocumentAccess, "passage", change_first)
    message = ask(SYNC, tools_of(retriever)["find"], pattern="word")
    assert message.status == "success"
    assert [passage.metadata["doc_id"] for passage in message.artifact] == ["c"]
    check_passages(message)
