"""LMBasedHeaders: headers with titles and summaries from a language model."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import override

from langchain_rse._asking import LanguageModelSettings, Prompt, quote
from langchain_rse._progress import Advance
from langchain_rse._sync import Steps, compute
from langchain_rse.headers.document_headers import DocumentHeaders
from langchain_rse.headers.model_answers import collect_answers
from langchain_rse.stores.compare_and_set import DocStore
from langchain_rse.stores.records import DocumentVersion
from langchain_rse.text.quoting import encodable, one_line

_TITLE = """\
You name documents. Say what the document should be called, so that someone who sees only a \
paragraph of it knows whose it is, of what kind and of which time, where the text says so."""

_SUMMARY = "You describe documents. Say what the document is about."

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


def _as_line(text: str) -> str:
    if not _LETTER_OR_DIGIT.search(text):
        raise ValueError("the text must contain letters or digits")
    return one_line(encodable(text))


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


class LMBasedHeaders(LanguageModelSettings, DocumentHeaders):
    """Makes headers with titles and summaries from a language model.

    The model is asked for each part that is enabled and used in the template: the title of a
    document (if its metadata has none), and its summary. Each takes one call. Sections are made as
    in `DocumentHeaders`.

    The docstore keeps the answers with the document, and deletes them with it: the same prompt
    about the same text is sent to the same model only once. Without a usable answer, a part is made
    as in `DocumentHeaders`, with one warning for all, and asked for again when the documents are
    added again.

    Raises:
        ValueError: At construction, for the reasons of `DocumentHeaders`, or if a parameter is out
            of range.
    """

    template: str = "{title}\n{summary}\n{section}"
    """Format string of the header, as in `DocumentHeaders`, also with ``{summary}``."""
    title: bool = True
    """True to ask for the titles of documents that have none in their metadata."""
    summary: bool = True
    """True to ask for one sentence about each document."""
    title_prompt: str = _TITLE
    """Instructions for the title. The prompt ends with the text."""
    summary_prompt: str = _SUMMARY
    """Instructions for the summary."""
    max_characters: int = Field(default=12_000, ge=100, strict=True)
    """Maximum number of characters of text in one call: the beginning of the document."""

    _made: ClassVar = frozenset({"title", "section", "summary"})

    @override
    def make(
        self, documents: Sequence[DocumentVersion], docstore: DocStore, advance: Advance
    ) -> Steps[list[DocumentVersion]]:
        prompts = {document.key: self._prompts_about(document) for document in documents}
        answers = yield from collect_answers(self, prompts, docstore, advance)
        return (yield from compute(self._make_all, documents, answers))

    def _prompts_about(self, document: DocumentVersion) -> list[Prompt[Any]]:
        prompts: list[Prompt[Any]] = []
        if not document.chunks:
            return prompts
        title = quote("title", self.title_of(document.text, document.metadata))
        beginning = quote("text", document.text[: self.max_characters])
        request = f"{title}\n\n{beginning}"
        has_title = bool(one_line(document.metadata.get("title")))
        if self.title and "{title}" in self.template and not has_title:
            prompts.append(Prompt(self.title_prompt, request, Title))
        if self.summary and "{summary}" in self.template:
            prompts.append(Prompt(self.summary_prompt, request, Summary))
        return prompts
