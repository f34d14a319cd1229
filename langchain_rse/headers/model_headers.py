"""LMBasedHeaders: headers with titles and summaries from a language model."""

import re
from collections.abc import Sequence
from typing import Annotated, ClassVar

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

_INSTRUCTIONS = """\
You describe documents. Say what the document should be called, so that someone who sees only a \
paragraph of it knows whose it is, of what kind and of which time, where the text says so. Say \
what it is about."""

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


def _as_line(text: str) -> str:
    if not _LETTER_OR_DIGIT.search(text):
        raise ValueError("the text must contain letters or digits")
    return one_line(encodable(text))


# At most 500 characters. This is not a constraint of the schema, because some servers reject those.
_Line = Annotated[str, AfterValidator(_as_line)]


class Description(BaseModel):
    """The title and the summary of a document."""

    title: _Line = Field(description="The title alone, in at most 20 words.")
    summary: _Line = Field(
        description='A sentence of at most 40 words that begins with "This document is".'
    )


class LMBasedHeaders(LanguageModelSettings, DocumentHeaders):
    """Makes headers with titles and summaries from a language model.

    The model describes each document in one call. A title in the metadata is kept. Sections are
    made as in `DocumentHeaders`.

    The docstore keeps the last answer with the document, and deletes it with it: the same prompt
    about the same text is not sent again. Without a usable answer, a document gets the header of
    `DocumentHeaders`, with one warning for all, and is asked about again when it is added again.

    Raises:
        ValueError: At construction, for the reasons of `DocumentHeaders`, or if a parameter is out
            of range.
    """

    template: str = "{title}\n{summary}\n{section}"
    """Format string of the header, as in `DocumentHeaders`, also with ``{summary}``."""
    instructions: str = _INSTRUCTIONS
    """Instructions for the model. The prompt ends with the text."""
    max_characters: int = Field(default=12_000, ge=100, strict=True)
    """Maximum number of characters of text in one call: the beginning of the document."""

    _made: ClassVar = frozenset({"title", "section", "summary"})

    @override
    def make(
        self, documents: Sequence[DocumentVersion], docstore: DocStore, advance: Advance
    ) -> Steps[list[DocumentVersion]]:
        prompts = {}
        for document in documents:
            if document.chunks:
                prompts[document.key] = self._prompt_about(document)
        answers = yield from collect_answers(self, prompts, docstore, advance)
        return (yield from compute(self._make_all, documents, answers))

    def _prompt_about(self, document: DocumentVersion) -> Prompt[Description]:
        title = quote("title", self.title_of(document.text, document.manifest.metadata))
        beginning = quote("text", document.text[: self.max_characters])
        return Prompt(self.instructions, f"{title}\n\n{beginning}", Description)
