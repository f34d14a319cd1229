"""LMBasedHeaders: headers with titles, summaries and sections from a language model."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import override

from langchain_rse._asking import LanguageModelSettings, Prompt, quote
from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, compute
from langchain_rse._templates import names_in
from langchain_rse.headers.document_headers import DocumentHeaders
from langchain_rse.headers.model_answers import DocumentAnswers, collect_answers
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.stores.records import DocumentVersion
from langchain_rse.text.quoting import as_unicode, one_line

_TITLE = """\
You name documents. Say what the document should be called, so that someone who sees only a \
paragraph of it knows whose it is, of what kind and of which time, where the text says so."""

_SUMMARY = "You describe documents. Say what the document is about."

_SECTIONS = """\
You divide a text, of which you see numbered chunks, into sections: chunks about one subject, most \
often several. Every chunk belongs to one section. Give each section's title and first chunk."""

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


def _as_line(text: str) -> str:
    if not _LETTER_OR_DIGIT.search(text):
        raise ValueError("the text must contain letters or digits")
    return one_line(as_unicode(text))


# At most 500 characters. This is not a constraint of the schema, because some servers reject those.
_Line = Annotated[str, AfterValidator(_as_line)]


class Title(BaseModel):
    """The title of a document."""

    title: _Line = Field(description="The title alone, in at most 20 words.")


class Summary(BaseModel):
    """The summary of a document."""

    summary: _Line = Field(
        description='A sentence of at most 40 words that begins with "This document is".'
    )


class Section(BaseModel):
    """A section of a text."""

    title: _Line = Field(description="A heading of a few words: what the section is about.")
    first_chunk: int = Field(description="The number of the section's first chunk.")


class Sections(BaseModel):
    """The sections of a text."""

    sections: list[Section] = Field(description="The sections, in the order of the text.")

    def check(self, chunks: int) -> None:
        """Raise a ValueError if there are no sections, or a section begins outside the chunks."""
        numbers = [section.first_chunk for section in self.sections]
        if not numbers or min(numbers) < 0 or max(numbers) >= chunks:
            raise ValueError(f"sections must begin in chunks 0 to {chunks - 1}; got {numbers}")

    def titles_of_chunks(self, chunks: int) -> list[str]:
        """List the title of each chunk's section; the first section begins in the first chunk."""
        title_of_first_chunk = {section.first_chunk: section.title for section in self.sections}
        title = title_of_first_chunk[min(title_of_first_chunk)]
        titles = []
        for number in range(chunks):
            title = title_of_first_chunk.get(number, title)
            titles.append(title)
        return titles


class LMBasedHeaders(LanguageModelSettings, DocumentHeaders):
    """Makes headers with titles, summaries and sections from a language model.

    The model is asked for each part that is enabled and used in the template: the title of a
    document (if its metadata has none), its summary, and its sections. Title and summary take one
    call each; sections take one call per ``max_characters`` of text.

    The docstore keeps the answers with the document, and deletes them with it: the same prompt
    about the same text is sent to the same model only once. Without a usable answer, a part is made
    as in `DocumentHeaders`, with one warning for all, and asked for again when the documents are
    added again.

    Raises:
        ValueError: At construction, for the reasons of `DocumentHeaders`, or if a parameter is out
            of range.
    """

    _template_names: ClassVar[tuple[str, ...]] = ("title", "summary", "section")

    template: str = "{title}\n{summary}\n{section}"
    """Format string of the header, as in `DocumentHeaders`, also with ``{summary}``."""
    title: bool = True
    """True to ask for the titles of documents that have none in their metadata."""
    summary: bool = True
    """True to ask for one sentence about each document."""
    sections: bool = False
    """True to ask for sections and their titles, instead of using the metadata."""
    title_prompt: str = _TITLE
    """Instructions for the title. The prompt ends with the text, here and below."""
    summary_prompt: str = _SUMMARY
    """Instructions for the summary."""
    sections_prompt: str = _SECTIONS
    """Instructions for the sections."""
    max_characters: Annotated[int, Field(ge=100, strict=True)] = 12_000
    """Maximum number of characters of text in one call. Title and summary use the beginning of the
    document; ``sections`` sends the whole text, part by part."""

    @override
    def make(
        self, documents: Sequence[DocumentVersion], docstore: DocStore, advance: Advance
    ) -> Steps[list[DocumentVersion]]:
        prompts = {document.key: self._prompts_about(document) for document in documents}
        answers = yield from collect_answers(self, prompts, docstore, advance)
        return (yield from compute(self._make_from_answers, documents, answers))

    def _prompts_about(self, document: DocumentVersion) -> dict[str, Prompt[Any]]:
        """Make the prompts about a document, by name."""
        prompts: dict[str, Prompt[Any]] = {}
        if not document.chunks:
            return prompts
        names = names_in(self.template)
        title = quote("title", self.title_of(document.text, document.metadata))
        beginning = quote("text", document.text[: self.max_characters])
        request = f"{title}\n\n{beginning}"
        if self.title and "title" in names and not one_line(document.metadata.get("title")):
            prompts["title"] = Prompt(self.title_prompt, request, Title)
        if self.summary and "summary" in names:
            prompts["summary"] = Prompt(self.summary_prompt, request, Summary)
        for window in self._windows(document):
            parts = [title]
            for number, chunk in enumerate(document.chunks[window.start : window.stop]):
                text = " ".join(document.text[chunk.start : chunk.end].split())
                parts.append(quote("chunk", text[: self.max_characters], number))
            check = partial(Sections.check, chunks=len(window))
            prompts[f"{window}"] = Prompt(self.sections_prompt, "\n\n".join(parts), Sections, check)
        return prompts

    def _windows(self, document: DocumentVersion) -> list[range]:
        """Divide the chunks into ranges, each for one call of ``sections``; at least one chunk."""
        windows: list[range] = []
        if not self.sections or "section" not in names_in(self.template):
            return windows
        room = 0
        for index, chunk in enumerate(document.chunks):
            length = chunk.end - chunk.start
            if length > room:
                windows.append(range(index, index))
                room = self.max_characters
            room -= length
            windows[-1] = range(windows[-1].start, index + 1)
        return windows

    def _make_from_answers(
        self, documents: Sequence[DocumentVersion], answers: Sequence[DocumentAnswers]
    ) -> list[DocumentVersion]:
        documents_with_headers = []
        for document, document_answers in zip(documents, answers, strict=True):
            values = {"title": self.title_of(document.text, document.metadata)}
            for name in ("title", "summary"):
                answer = document_answers.get(name)
                if answer is not None:
                    values[name] = getattr(answer, name)
            sections = [self._headings_above(document, chunk) for chunk in document.chunks]
            for window in self._windows(document):
                answer = document_answers.get(f"{window}")
                if answer is not None:
                    sections[window.start : window.stop] = answer.titles_of_chunks(len(window))
            documents_with_headers.append(self._with_headers(document, values, sections))
        return documents_with_headers
