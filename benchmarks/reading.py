"""An agent that searches, finds words and reads around them, compared with search alone.

Run from anywhere: ``python benchmarks/reading.py --data PATH``. The agent is a script without a
language model. It searches with a part of the budget. Then it looks up rare words of the question
in all documents (a substring search, ignoring case) and reads where several of them are near each
other, without text that it has read before. Every method reads the same number of characters.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, product
from math import log
from typing import Any, NamedTuple

from data import Folder, command_given, index, parse_arguments, read_folder
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from pages import difference, table, write_page
from summary import FILL, ask, ask_each

from langchain_rse import RSERetriever, SQLDocStore
from langchain_rse.evaluation import Report
from langchain_rse.text.words import without_function_words

SEARCH = "search"
WORDS = 5  # to find for each question
BLOCK = 800  # characters of the blocks in which the documents that contain a word are counted
MOST_BLOCKS = 0.05  # share of the blocks that contain a rare word
NEAR = 400  # characters between words that count together
WINDOW = 800  # characters to read around a place
LONGEST_SECTION = 2_400  # a longer one is read as a window
DEFINITION = 3.0  # weight of a word in a heading or definition

Range = tuple[str, int, int]  # a document, and the start and end of characters in it
# Names are quoted or called, or contain "_", ".", a digit or a capital letter.
_NAME = re.compile(
    r"`[^`]+`|\"[^\"]+\"|\w+\(\)|[^\W_]+(?:[_.]\w+)+|\b[a-z]+[A-Z]\w*|\b[A-Za-z]+\d\w*|[A-Z]{2,}"
)
_WORD = re.compile(r"\w{3,}")
_HEADING = re.compile(r"^(?:#+ |[ \t]*(?:async )?(?:def|class) ).*", re.MULTILINE)


class Method(NamedTuple):
    """How the agent combines search and finding."""

    share: float  # of the budget, for finding
    sections: bool = True  # from a heading or definition to the next one, or windows
    names: bool = False  # True to find only names; without any, the agent only searches


METHODS = {
    "words 1/2, windows": Method(0.5, sections=False),
    "words 1/2": Method(0.5),
    "words 1/4": Method(0.25),
    "names 1/2": Method(0.5, names=True),
    "names 1/4": Method(0.25, names=True),
}


class Texts:
    """The texts of the documents, searched for words."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.sources = sources
        self._lowered = {doc_id: text.lower() for doc_id, text in sources.items()}
        self._blocks = sum(len(text) // BLOCK + 1 for text in sources.values())
        find = _HEADING.finditer
        self._headings = {name: [m.span() for m in find(text)] for name, text in sources.items()}
        self._found: dict[str, dict[str, list[int]]] = {}

    def find(self, word: str) -> dict[str, list[int]]:
        """The positions of a word by document."""
        if word not in self._found:
            self._found[word] = {
                doc_id: [match.start() for match in re.finditer(re.escape(word), text)]
                for doc_id, text in self._lowered.items()
                if word in text
            }
        return self._found[word]

    def rare_words(self, question: str, *, names: bool) -> dict[str, float]:
        """The rarest words, or parts of names, of a question, with their weights."""
        text = " ".join(_NAME.findall(question)) if names else without_function_words(question)
        weights = {}
        for word in map(str.lower, _WORD.findall(text)):
            blocks = sum(len({p // BLOCK for p in each}) for each in self.find(word).values())
            if 0 < blocks <= MOST_BLOCKS * self._blocks:
                weights[word] = log(self._blocks / blocks)
        return dict(sorted(weights.items(), key=lambda pair: -pair[1])[:WORDS])

    def places(self, weights: Mapping[str, float]) -> list[tuple[str, int]]:
        """The documents and positions where some words occur near each other, best first."""
        scores: dict[tuple[str, int], float] = {}
        for doc_id in sorted({doc_id for word in weights for doc_id in self.find(word)}):
            found = {word: self.find(word).get(doc_id, []) for word in weights}
            for position in chain.from_iterable(found.values()):
                scores[doc_id, position] = 0.0
                for word, positions in found.items():
                    first = bisect_left(positions, position - NEAR)
                    near = positions[first : bisect_right(positions, position + NEAR)]
                    factor = max((self._factor(doc_id, each) for each in near), default=0)
                    scores[doc_id, position] += weights[word] * factor
        return sorted(scores, key=lambda place: -scores[place])

    def _factor(self, doc_id: str, position: int) -> float:
        before = bisect_right(self._headings[doc_id], (position, len(self.sources[doc_id])))
        _, end = self._headings[doc_id][before - 1] if before else (0, 0)
        return DEFINITION if position < end else 1.0

    def around(self, doc_id: str, position: int, *, sections: bool) -> Range:
        """The section of a position, or the window around it."""
        length = len(self.sources[doc_id])
        if sections:
            starts = [0, *(start for start, _ in self._headings[doc_id]), length]
            number = bisect_right(starts, position)
            if starts[number] - starts[number - 1] <= LONGEST_SECTION:
                return doc_id, starts[number - 1], starts[number]
        start = max(position - WINDOW // 2, 0)
        return doc_id, start, min(start + WINDOW, length)


@dataclass(frozen=True)
class Agent:
    """Finds and reads with a share of the budget, and searches with the rest."""

    retriever: RSERetriever
    texts: Texts
    searched: dict[Any, list[Document]]  # answers of the retriever, by query and budget
    method: Method
    budget: int

    def answer(self, query: str) -> list[Document]:
        """Return what the agent reads."""
        weights = self.texts.rare_words(query, names=self.method.names)
        if not weights:
            return self._search(query, self.budget)
        room = int(self.budget * self.method.share)
        found = list(self._read(query, weights, room))
        length = sum(len(each.page_content) for each in found)
        return found + self._search(query, self.budget - length)

    def _search(self, query: str, budget: int) -> list[Document]:
        key = query, budget
        if key not in self.searched:
            self.searched[key] = self.retriever.invoke(query, max_context_length=budget, **FILL)
        return self.searched[key]

    def _read(self, query: str, weights: Mapping[str, float], room: int) -> Iterator[Document]:
        """Read the best places that the search did not return, until the room is spent."""
        read: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for passage in self._search(query, self.budget - room):
            where = passage.metadata
            read[where["doc_id"]].append((where["start_index"], where["end_index"]))
        for doc_id, position in self.texts.places(weights):
            others = read[doc_id]
            if any(start <= position < end for start, end in others):
                continue
            _, start, end = self.texts.around(doc_id, position, sections=self.method.sections)
            start = max([start, *(other for _, other in others if other <= position)])
            end = min([end, start + room, *(other for other, _ in others if other > position)])
            others.append((start, end))
            text = self.texts.sources[doc_id][start:end]
            yield Document(text, metadata={"doc_id": doc_id, "start_index": start})
            room -= end - start
            if room <= 0:
                return


def main() -> None:
    """Measure, print and write a page."""
    logging.disable(logging.WARNING)
    arguments = parse_arguments(__doc__)
    found = {}
    for model, name in product(arguments.models, arguments.folders):
        folder = read_folder(arguments.data, name)
        ours, _ = index(folder, model, arguments.cache, SQLDocStore("sqlite://"))
        folder = replace(folder, questions=folder.questions[:: arguments.every])
        found[f"{name}, {model}"] = measure(folder, ours)
    stem = f"reading-{'-'.join(arguments.models)}"
    write_page(arguments.out, stem, write_up(found, command_given()))


def measure(folder: Folder, ours: RSERetriever) -> dict[str, Report]:
    """Measure search alone and the agent's methods on a dataset."""
    agent = Agent(ours, Texts(folder.sources), {}, Method(0), 0)
    reports = {SEARCH: ask(folder, SEARCH, ours, **FILL)}
    for label, method in METHODS.items():
        of_method = replace(agent, method=method)
        at: Any = lambda budget, of=of_method: RunnableLambda(replace(of, budget=budget).answer)  # noqa: E731
        reports[label] = ask_each(folder, label, at)
    return reports


def write_up(reports: Mapping[str, Mapping[str, Report]], command: str) -> Iterator[str]:
    """The page, line by line."""
    yield from ("# Finding and reading", "", f"Made by `{command}`.", "")
    yield from ("Evidence recall, averaged over the budgets of a dataset:", "")
    rows = []
    for title, each in reports.items():
        rows.append([title, *(f"{report.mean('recall').mean():.3f}" for report in each.values())])
    yield from table(["", SEARCH, *METHODS], rows)
    yield from ("Difference to search alone, with 95 % intervals (paired bootstrap):", "")
    groups = {**{title: [each] for title, each in reports.items()}, "all": list(reports.values())}
    rows = []
    for title, some in groups.items():
        base = [each[SEARCH] for each in some]
        gains = [difference([each[label] for each in some], base, "recall") for label in METHODS]
        rows.append([title, *gains])
    yield from table(["", *METHODS], rows)


if __name__ == "__main__":
    main()
