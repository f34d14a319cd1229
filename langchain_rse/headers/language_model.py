"""LMBasedHeaders: headers with titles, summaries and sections from a language model."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import Field
from typing_extensions import override

from langchain_rse._asking import LanguageModelSettings, Prompt, quote
from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, compute
from langchain_rse._templates import names_in
from langchain_rse.headers.answers import (
    DocumentAnswers,
    collect_answers,
    read_line,
    read_title,
)
from langchain_rse.headers.documents import DocumentHeaders
from langchain_rse.headers.sections import (
    SECTIONS_EXAMPLE,
    Sections,
    cut_windows,
    numbered_lines,
    read_sections,
    starts_in,
    title_at,
)
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.stores.records import DocumentVersion

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

    _template_names: ClassVar[tuple[str, ...]] = ("title", "summary", "section")

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
        prompts = {document.key: self._prompts_about(document) for document in documents}
        answers = yield from collect_answers(self, prompts, docstore, advance)
        return (yield from compute(self._make_from_answers, documents, answers))

    def _prompts_about(self, document: DocumentVersion) -> dict[str, Prompt[Any]]:
        """Make the prompts about a document, by what they ask for."""
        if not document.chunks:
            return {}
        text = document.text
        names = names_in(self.template)
        title = self.title_of(text, document.metadata)
        beginning = _material(title, text[: self.max_characters])
        prompts: dict[str, Prompt[Any]] = {}
        if self.title and "title" in names and not self._title_in(document.metadata):
            prompts["title"] = Prompt(beginning, self.title_prompt, read_title)
        if self.summary and "summary" in names:
            prompts["summary"] = Prompt(beginning, self.summary_prompt, read_line)
        for number, window in enumerate(self._windows(text)):
            lines = numbered_lines(text, window)
            if lines:
                prompts[_sections_of(number)] = Prompt(
                    _material(title, lines),
                    self.sections_prompt,
                    partial(read_sections, lines=len(window) - 1),
                    form=Sections,
                    example=SECTIONS_EXAMPLE,
                )
        return prompts

    def _windows(self, text: str) -> list[list[int]]:
        """The parts of a text whose sections the model is asked for, see `cut_windows`."""
        if not self.sections or "section" not in names_in(self.template):
            return []
        return cut_windows(text, self.max_characters)

    def _make_from_answers(
        self, documents: Sequence[DocumentVersion], answers: Sequence[DocumentAnswers]
    ) -> list[DocumentVersion]:
        documents_with_headers = []
        for document, document_answers in zip(documents, answers, strict=True):
            values = {"title": self.title_of(document.text, document.metadata)}
            for name in ("title", "summary"):
                answer = document_answers.get(name)
                if isinstance(answer, str):
                    values[name] = answer
            sections = self._sections_of_chunks(document, document_answers)
            documents_with_headers.append(self._with_headers(document, values, sections))
        return documents_with_headers

    def _sections_of_chunks(self, document: DocumentVersion, answers: DocumentAnswers) -> list[str]:
        """The section at the middle of each chunk: as the model says, else by the metadata."""
        starts: list[tuple[int, str | None]] = [(0, None)]
        for number, window in enumerate(self._windows(document.text)):
            starts += starts_in(window, answers.get(_sections_of(number)))
        sections = []
        for chunk in document.chunks:
            title = title_at((chunk.start + chunk.end) // 2, starts)
            if title is None:
                title = self._headings_above(document, chunk)
            sections.append(title)
        return sections


def _sections_of(window_number: int) -> str:
    """What the prompt about a window of the text asks for."""
    return f"sections of window {window_number}"


def _material(title: str, text: str) -> str:
    return f"{quote('title', title)}\n\n{quote('text', text)}"
