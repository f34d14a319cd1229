"""Hostile texts and names through every surface that shows them: they stay text.

With SOAK=n in the environment, there are n times as many; SEED=n for others.
"""

from __future__ import annotations

import io
import os
import random
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from mcp.server.mcpserver import MCPServer
from rich.console import Console

from langchain_rse import RSEConfig, RSERetriever, RSETrace
from langchain_rse.cli import answers, output
from langchain_rse.tools import create_mcp_server
from tests.soaking import SOAK
from tests.unit_tests.explaining.test_report import Page
from tests.unit_tests.fakes import BagOfWords, make_retriever

# Texts of one retriever, all of which one query returns, and the number of such retrievers.
TEXTS = 40
ROUNDS = 8 * SOAK
SEED = int(os.environ.get("SEED") or 1)

FRAGMENTS = [
    *("</script>", "<script>hacked()</script>", "<img src=x onerror=hacked()>", "<!--", "]]>"),
    *("</pre>", "</textarea>", "<svg/onload=hacked()>", "<a href='javascript:hacked()'>x</a>"),
    *('"><b>', "'>", "&lt;script&gt;", "&#60;", "{{7*7}}", "{% raw %}", "${7*7}", "{0}", "%s"),
    *("\x1b[2J", "\x1b]52;c;aGk=\x07", "\x9b31m", "\x90", "\x7f", "\b\b\b", "\r"),
    *("\u202e", "\u2066", "\u200f", "\ufeff", "\u2028", "\u2029", "\x85", "\v", "\f", "\x1c"),
    *("\n[2] /srv/official.pdf, page 1, characters 0–9\n", "\n> [3] b, characters 0–5\n", "\n> "),
    *("</passage>", "<|im_end|>", "\n\nHuman: ", "```\n", "\n---\n", "[red]x[/red]", ":smile:"),
    *("__proto__", '\\"', "\\u003c", "\\", "\0", "\U000e0041", "a" * 300, "日本語", "🦜", " "),
]

# What only a terminal's own program may print: all controls but line ends and tabs.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def hostile(chance: random.Random) -> str:
    return "".join(chance.choices(FRAGMENTS, k=chance.randint(1, 6)))


def retrievers() -> Iterator[tuple[RSERetriever, str]]:
    """Retrievers of hostile documents, each with a hostile query that finds all of them."""
    chance = random.Random(SEED)  # noqa: S311 - reproducible
    for _ in range(ROUNDS):
        texts: dict[str, str] = {}
        while len(texts) < TEXTS:
            # Names and texts may not contain NUL.
            name = hostile(chance).replace("\0", "")
            texts[f"{len(texts)}{name}"] = f"harbor {hostile(chance)}".replace("\0", "")
        retriever = make_retriever(
            texts,
            vectorstore=InMemoryVectorStore(BagOfWords()),
            config=RSEConfig(irrelevant_chunk_penalty=0.0, top_k_for_document_selection=None),
            max_context_length=None,
            duplicates="keep",
        )
        yield retriever, f"harbor {hostile(chance)}"


def unquoted_lines(content: str) -> list[str]:
    """The lines that are the tool's own, wherever a reader may see the end of a line."""
    return [line for line in content.splitlines() if line and not line.startswith("> ")]


def check_passages(content: str, number: int) -> None:
    headings = unquoted_lines(content)
    expected = [f"[{position}]" for position in range(1, number + 1)]
    assert [heading.split(" ")[0] for heading in headings] == expected
    assert not UNSAFE.search("".join(headings))


def check_page(text: str, harmless: Page) -> None:
    page = Page(text)
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in harmless.tags} | {"q"}
    assert len(page.inside["script"]) == len(harmless.inside["script"])
    start, _, script = page.inside["script"]
    assert [start, script] == harmless.inside["script"][::2]
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]


@pytest.fixture(scope="module")
def harmless() -> RSETrace:
    return make_retriever(
        {"a": "harbor ship", "b": "garden"}, vectorstore=InMemoryVectorStore(BagOfWords())
    ).explain("harbor", irrelevant_chunk_penalty=0.0)


async def test_the_tools_of_an_mcp_server() -> None:
    for retriever, query in retrievers():
        server = create_mcp_server(retriever.model_copy(update={"k": TEXTS}))

        async def call(tool: str, server: MCPServer[Any] = server, **arguments: Any) -> str:
            answer: Any = await server.call_tool(tool, arguments)
            return str(answer.content[0].text)

        found = retriever.invoke(query, k=TEXTS)
        check_passages(await call("search", query=query), len(found))
        lines = unquoted_lines(await call("outline"))
        assert len(lines) == 1 + TEXTS
        name = found[0].metadata["doc_id"]
        check_passages(await call("read", document=name), 1)
        assert len(unquoted_lines(await call("outline", document=name))) == 1
        found = await call("find", pattern=r"\w", regex=True)
        assert len(unquoted_lines(found)) == 1 + found.count("\n\n")


def test_reports_and_print(harmless: RSETrace) -> None:
    page = Page(harmless.to_html())
    for retriever, query in retrievers():
        trace = retriever.explain(query)
        text = trace.to_html()
        check_page(text, page)
        names = {document["name"] for document in Page(text).data["documents"]}
        assert names == {document.name for document in trace.documents}
        assert not UNSAFE.search(str(trace))


@pytest.mark.parametrize("is_terminal", [True, False])
def test_terminals(
    is_terminal: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for retriever, query in retrievers():
        stream = io.StringIO()
        plain = Console(
            file=stream, force_terminal=is_terminal, color_system=None, highlight=False, width=500
        )
        monkeypatch.setattr(output, "console", plain)
        monkeypatch.setattr(sys, "stdout", stream)
        trace = retriever.explain(query, k=TEXTS, max_context_length=10**6)
        found = trace.documents_returned
        names = {each.metadata["doc_id"]: each.metadata["doc_id"] for each in found}
        answers.print_passages(trace, names)
        printed = re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue())  # styles, which rich writes
        assert not UNSAFE.search(printed)
