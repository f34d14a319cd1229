"""Reports for tests, and readers of their pages."""

# ruff: noqa: S311 - dice

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import Any

from langchain_core.vectorstores import InMemoryVectorStore
from playwright.sync_api import Page

from langchain_rse import RSERetriever
from tests.unit_tests.fakes import BagOfWords, make_retriever

QUESTION = "late rent fee"
HOSTILE = "</script><script>hacked=1</script><img src=x onerror=hacked=1>{{7*7}}"
SLIDERS = ("Threshold", "Budget")


def texts_of(documents: int, chunks: int) -> dict[str, str]:
    """Documents of random lines; some contain words of the question."""
    dice = random.Random(5)
    words = ["rent", "late", "fee", *(f"word{n}" for n in range(40))]
    return {
        f"contract {number}.txt": "\n".join(
            f"{number}.{line} {' '.join(dice.choices(words, k=dice.randint(8, 100)))}"
            for line in range(chunks)
        )
        for number in range(documents)
    }


def retriever_of(texts: dict[str, str], **settings: Any) -> RSERetriever:
    fields = {"config": "balanced", **settings}
    return make_retriever(texts, vectorstore=InMemoryVectorStore(BagOfWords()), **fields)


def shown_in(page: Page) -> list[str]:
    items = page.locator("#chosen li").all_inner_texts()
    return [re.sub(r" · value.*", "", item) for item in items]


def names_of(passages: Iterable[Any]) -> list[str]:
    """Passages as the page names them."""
    names = []
    for passage in passages:
        rse = passage.metadata["rse"]
        first, last = rse["chunk_start"], rse["chunk_end"] - 1
        which = f"chunk {first}" if first == last else f"chunks {first}–{last}"
        names.append(f"{passage.metadata['source']}, {which}")
    return names


def slide(page: Page, name: str, share: float) -> None:
    """Move a slider to a share of its way."""
    page.get_by_role("slider", name=name, exact=True).evaluate(
        """(input, share) => {
            input.value = share * input.max;
            input.dispatchEvent(new Event("input"));
        }""",
        share,
    )


def copied_settings(page: Page) -> dict[str, Any]:
    text = page.locator("#settings").text_content()
    settings = eval(f"dict({text})")  # noqa: S307 - the settings are Python
    assert isinstance(settings, dict)
    return settings
