"""LMBasedHeaders: headers with titles, summaries and sections from a language model."""

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import Annotated, Any, ClassVar, TypeVar

from langchain_core.documents import Document
from pydantic import BaseModel, Field, NonNegativeInt, TypeAdapter, ValidationError
from typing_extensions import override

from langchain_rse._asking import Failure, LanguageModelSettings, Question, ask, quote
from langchain_rse._messages import warn
from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, batches, call, compute, concurrently, during
from langchain_rse._templates import names_in
from langchain_rse.headers.documents import DocumentHeaders
from langchain_rse.headers.titles import one_line
from langchain_rse.stores.changing import DocStore, read_records
from langchain_rse.stores.records import DocumentVersion, answers_key, digest

T = TypeVar("T")

_ANSWERS = TypeAdapter(dict[str, str | list[tuple[NonNegativeInt, str]]])

# Answers are written after this many questions for each call that may run at the same time.
_ROUND = 4

_TITLE = """\
You name documents. Say what the document should be called, so that someone who sees only a \
paragraph of it knows whose it is, of what kind and of which time, where the text says so. \
Answer with the title alone, on one line, of at most 20 words."""

_SUMMARY = """\
You describe documents. Say in one sentence of at most 40 words what the document is about, \
beginning with "This document is". Answer with the sentence alone."""

_SECTIONS = """\
You divide texts into sections: lines about one subject, most often several paragraphs. Every \
line belongs to one section. Give each section's title, a heading of a few words, and the number \
of its first line."""

# Longer lines are cut at white space where there is some, so that sections can begin in them.
_LINE = re.compile(r"[^\n]{1,400}(?:\n|\Z|(?<=\s))|[^\n]{1,400}|\n")
_LABEL = re.compile(r"^(?:document |section )?(?:title|summary)\s*:\s*", re.IGNORECASE)
_AROUND = "\"'`*#_\u201c\u201d\u2018\u2019 \t"
_REFUSAL = re.compile(
    r"i(?:['\u2019]m| am) (?:sorry|unable|not)|sorry\b|i can(?:not|['\u2019]?t)\b|unable to"
    r"|as an ai\b|no (?:title|summary)\b|(?:n/?a|none|unknown)$",
    re.IGNORECASE,
)


class SectionStart(BaseModel):
    """Where a section begins, and its title."""

    title: str = Field(description="A heading of a few words that says what the section is about.")
    first_line: int = Field(description="The number of the section's first line.")


class Sections(BaseModel):
    """The sections of a text."""

    sections: list[SectionStart] = Field(description="The sections, in the order of the text.")


class LMBasedHeaders(LanguageModelSettings, DocumentHeaders):
    """Makes headers from what a language model says about a document and its sections.

    The model is asked for the parts that are switched on and named in the template: a document's
    title (if its metadata has none) and summary, one call each; and its sections, one call for each
    ``max_characters`` of the text.

    Answers are kept in the docstore beside the document and deleted with it: a question about the
    same text, with the same prompt and model, is asked once. Parts without a usable answer are made
    as in `DocumentHeaders`, with one warning, and asked for when the documents are added again.

    Raises:
        ValueError: At construction, as by `DocumentHeaders`, or if a parameter is out of range.
    """

    _known_names: ClassVar[tuple[str, ...]] = ("title", "summary", "section")

    template: str = "{title}\n{summary}\n{section}"
    """The header, as in `DocumentHeaders`; may name ``{summary}`` as well."""
    title: bool = True
    """True to ask for the titles of documents that have none in ``title_fields``."""
    summary: bool = True
    """True to ask for a sentence about each document."""
    sections: bool = False
    """True to ask for sections with titles, instead of those in the metadata."""
    title_prompt: str = _TITLE
    """Instructions for a title. The text follows this prompt and those below."""
    summary_prompt: str = _SUMMARY
    sections_prompt: str = _SECTIONS
    max_characters: Annotated[int, Field(ge=100, strict=True)] = 12_000
    """The most characters of a text in one call: the beginning of a document; for
    ``sections``, one part of the text after the other."""

    @override
    def make(
        self, documents: Sequence[DocumentVersion], docstore: DocStore, advance: Advance
    ) -> Steps[list[DocumentVersion]]:
        told = yield from self._ask_about(documents, docstore, advance)
        return (yield from compute(list, map(self._with_answers, documents, told)))

    def _ask_about(
        self, documents: Sequence[DocumentVersion], docstore: DocStore, advance: Advance
    ) -> Steps[list[dict[str | int, Any]]]:
        """Return the answers to the questions about each document; warn if some are missing.

        A document has one record in the docstore, with its answers by digest of model and question:
        only other questions are asked. After a round without any answer, no more are asked.
        """
        model, limit, reason = _name_of(self.llm), self.max_concurrency, ""

        def place(question: Question[Any]) -> str:
            return digest(model, question.instructions, question.request)

        keys = [answers_key(document.key) for document in documents]
        records = yield from read_records(docstore, keys)
        kept = [_answers_in(records[key]) for key in keys]
        asked = list(map(self._about_document, documents))
        new = [
            (number, question)
            for number, some in enumerate(asked)
            for question in some.values()
            if place(question) not in kept[number]
        ]
        for some in batches(new, _ROUND * limit):
            outcomes = yield from concurrently([ask(self, one) for _, one in some], limit)
            changed = {}
            for (number, question), outcome in zip(some, outcomes, strict=True):
                if isinstance(outcome, Failure):
                    reason = outcome.reason
                else:
                    kept[number][place(question)] = outcome
                    changed[keys[number]] = Document("", metadata={"answers": kept[number]})
            if not changed:
                break
            with during("writing a model's answers to the docstore"):
                yield from call(docstore.mset, docstore.amset, list(changed.items()))
            advance(len(some))
        told = [
            {
                name: answers[place(one)]
                for name, one in of_document.items()
                if place(one) in answers
            }
            for of_document, answers in zip(asked, kept, strict=True)
        ]
        count = sum(map(len, asked))
        if missing := count - sum(map(len, told)):
            warn(
                f"headers lack {missing} of {count} answers of {model}; the last failure: "
                f"{reason}. They are made without these; add the documents again to ask again"
            )
        return told

    def _windows(self, text: str) -> list[list[int]]:
        """The parts of a text whose sections the model is asked for."""
        wanted = self.sections and "section" in names_in(self.template)
        return windows(text, self.max_characters) if wanted else []

    def _about_document(self, document: DocumentVersion) -> dict[str | int, Question[Any]]:
        if not document.chunks:
            return {}
        text = document.text
        questions: dict[str | int, Question[Any]] = {}
        names = names_in(self.template)
        title = self.title_of(text, document.metadata)
        beginning = text[: self.max_characters]
        if self.title and "title" in names and not self._title_in(document.metadata):
            questions["title"] = _question(self.title_prompt, title, beginning, _read_title)
        if self.summary and "summary" in names:
            questions["summary"] = _question(self.summary_prompt, title, beginning, _read_line)
        for number, window in enumerate(self._windows(text)):
            if lines := _numbered(text, window):
                read = partial(_read_sections, lines=len(window) - 1)
                questions[number] = _question(self.sections_prompt, title, lines, read, Sections)
        return questions

    def _with_answers(
        self, document: DocumentVersion, told: dict[str | int, Any]
    ) -> DocumentVersion:
        # Starts of sections, and their titles; None in windows without an answer.
        sections: list[tuple[int, str | None]] = [(0, None)]
        for number, window in enumerate(self._windows(document.text)):
            answer = told.get(number, [(0, None)])
            known = answer if isinstance(answer, list) else []
            # Answers that other code wrote to the docstore may name lines that do not exist.
            sections += [(window[line], head) for line, head in known if line < len(window)]
        middles = ((chunk.start + chunk.end) // 2 for chunk in document.chunks)
        places = (bisect_right(sections, middle, key=itemgetter(0)) - 1 for middle in middles)
        of_document = {name: told[name] for name in ("title", "summary") if name in told}
        return self._with_headers(document, [sections[n][1] for n in places], **of_document)


def _answers_in(record: object) -> dict[str, Any]:
    """The answers in a record; none if it cannot be read, so that the model is asked again."""
    try:
        return _ANSWERS.validate_python(getattr(record, "metadata", {}).get("answers", {}))
    except ValidationError:
        return {}


def _name_of(llm: object) -> str:
    """A model's class and name, to tell its answers from those of other models."""
    names = (getattr(llm, name, None) for name in ("model_name", "model", "model_id"))
    name = next((name for name in names if isinstance(name, str)), "")
    return f"{type(llm).__name__}/{name}"


def windows(text: str, size: int) -> list[list[int]]:
    """Cut a text into windows of at most ``size`` characters or a line: line starts, then end."""
    found: list[list[int]] = []
    for line in _LINE.finditer(text):
        if not found or line.end() - found[-1][0] > size:
            found.append([line.start()])
        found[-1].append(line.end())
    return found


def _numbered(text: str, window: Sequence[int]) -> str:
    """The lines of a window as ``[number] text``, without blank ones."""
    lines = [" ".join(text[start:end].split()) for start, end in itertools.pairwise(window)]
    return "\n".join(f"[{number}] {line}" for number, line in enumerate(lines) if line)


def _question(
    prompt: str,
    title: str,
    text: str,
    read: Callable[[Any], T],
    form: type[BaseModel] | None = None,
) -> Question[T]:
    shown = f"{quote('title', title)}\n\n{quote('text', text)}"
    return Question(shown, prompt, read, form, '{"sections": [{"title": "...", "first_line": 0}]}')


def _read_line(text: str, longest: int = 500) -> str:
    """Strip quotes, Markdown and a label from an answer; ValueError if it is no usable line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != 1 or len(lines[0]) > longest:
        raise ValueError(
            f"the answer has {len(lines)} lines, not one of at most {longest} characters: {text!r}"
        )
    line = one_line(_LABEL.sub("", lines[0].strip(_AROUND)).strip(_AROUND))
    if not re.search(r"[^\W_]", line) or _REFUSAL.match(line):
        raise ValueError(f"the answer says nothing of the text: {text!r}")
    return line


_read_title = partial(_read_line, longest=200)


def _read_sections(answer: Sections, lines: int) -> list[tuple[int, str]]:
    """The first lines of sections, the first of them 0, with titles; ValueError if unusable."""
    titles: dict[int, str] = {}
    for section in sorted(answer.sections, key=attrgetter("first_line")):
        if not 0 <= section.first_line < lines:
            raise ValueError(f"there is no line {section.first_line}; the last is {lines - 1}")
        titles.setdefault(section.first_line, _read_title(section.title))
    if not titles:
        raise ValueError("the answer has no sections")
    return [*zip([0, *[*titles][1:]], titles.values(), strict=True)]
