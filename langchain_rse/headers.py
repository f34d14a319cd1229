"""Contextual headers: text that is embedded in front of a chunk.

A chunk alone rarely shows which document it comes from and what the document is about. A header
adds this context: from metadata, file names and headings, or from a language model.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from string import Formatter
from typing import Annotated, Any, ClassVar, Self

from langchain_core.documents import Document
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from typing_extensions import override

from langchain_rse._asking import LanguageModelSettings, Prompt, ask, quote
from langchain_rse._messages import Advance, Checked, model_name, warn
from langchain_rse._sync import Steps, batches, compute, concurrently, during, to_the_end
from langchain_rse.ingest.source_documents import with_headers
from langchain_rse.stores.compare_and_set import DocStore, read_records
from langchain_rse.stores.records import DocumentVersion, Metadata, answers_key, digest
from langchain_rse.text.names import first_heading, title_of_source
from langchain_rse.text.quoting import encodable, first_few, one_line

_INSTRUCTIONS = """\
You describe documents. Say what the document should be called, so that someone who sees only a \
paragraph of it knows whose it is, of what kind and of which time, where the text says so. Say \
what it is about."""

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
# Answers are written after this many prompts per concurrent call.
_PROMPTS_PER_ROUND = 4

Prompts = Mapping[str, Prompt[Any]]
"""Prompts by document key."""
Answers = dict[str, dict[str, str]]
"""The fields of usable answers, by document key."""


class DocumentHeaders(Checked):
    """Makes headers from a document's metadata, file name and headings, without a model.

    The title is the metadata field ``title``, or else the file name in ``source``, without folder
    and suffix, or else the first heading of the text. The section is the path of headings in the
    metadata at the chunk's first character.

    A header is embedded and reranked in front of its chunk. It is not part of returned passages:
    to put the document's header, without section, above them, set ``include_header=True`` on the
    retriever.

    Raises:
        ValueError: At construction, if the template is no format string.
    """

    model_config = ConfigDict(frozen=True)

    template: str = "{title}\n{section}"
    """Format string of the header, with ``{title}``, ``{section}`` and any metadata field. A name
    without a value is empty, with a warning if no document of the call has the field. Values are
    cut to 500 characters. Empty lines are dropped."""
    section_fields: Sequence[str] = ("section", *(f"Header {level}" for level in range(1, 7)))
    """Metadata fields with the headings above a chunk, from the top level down. A field may contain
    a list of headings."""

    _made: ClassVar[frozenset[str]] = frozenset({"title", "section"})  # names that are no fields

    @model_validator(mode="after")
    def _check_template(self) -> Self:
        try:
            self._render({}, {})
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(
                "template must be a format string with names in braces, such as {title}; got "
                f"{self.template!r:.200} ({error})"
            ) from error
        return self

    def make(
        self, documents: Sequence[DocumentVersion], docstore: DocStore, advance: Advance
    ) -> Steps[list[DocumentVersion]]:
        """Make the headers of documents; only subclasses use ``docstore`` and ``advance``."""
        del docstore, advance
        return compute(self._make_all, documents, {})

    def _make_all(
        self, documents: Sequence[DocumentVersion], answers: Mapping[str, Mapping[str, str]]
    ) -> list[DocumentVersion]:
        """Make headers; ``answers`` has values for names in the template, by document key."""
        documents_with_headers = []
        fields: set[str] = set()
        for document in documents:
            values = dict(answers.get(document.key, {}))
            if "title" not in values or one_line(document.manifest.metadata.get("title")):
                values["title"] = self.title_of(document.text, document.manifest.metadata)
            headers = []
            for chunk in document.chunks:
                metadata = document.metadata_of(chunk)
                fields.update(metadata)
                section = self._section_in(metadata)
                headers.append(self._render(metadata, {**values, "section": section}))
            shown = self._render(document.manifest.metadata, values)
            documents_with_headers.append(with_headers(document, shown, headers))
        names = {name for _, name, _, _ in Formatter().parse(self.template) if name}
        unknown = names - fields - self._made
        if unknown and fields:  # they may be misspelt
            warn(
                f"the header template names {first_few(sorted(unknown))}, but no document of this "
                f"call has such a metadata field; they have {first_few(sorted(fields), 20)}"
            )
        return documents_with_headers

    def title_of(self, text: str, metadata: Metadata) -> str:
        """Find the title of a document in its metadata or text; empty if there is none."""
        return (
            one_line(metadata.get("title"))
            or title_of_source(metadata.get("source"))
            or first_heading(text)
        )

    def _section_in(self, metadata: Metadata) -> str:
        """Join the headings in metadata, as one line."""
        headings: list[str] = []
        for field in self.section_fields:
            value = metadata.get(field)
            values = value if isinstance(value, (list, tuple)) else [value]
            headings += map(one_line, values)
        return one_line(" > ".join(filter(None, headings)))

    def _render(self, metadata: Metadata, values: Mapping[str, str]) -> str:
        """Fill the template; drop empty lines."""
        filled = defaultdict(str, values)
        for field, value in metadata.items():
            filled.setdefault(field, one_line(value))
        lines = map(str.strip, self.template.format_map(filled).splitlines())
        return "\n".join(filter(None, lines))


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
    max_characters: int = Field(default=12_000, ge=100)
    """Maximum number of characters of text in one call: the beginning of the document."""

    _made: ClassVar = frozenset({"title", "section", "summary"})
    _advice: ClassVar = {"()": "LMBasedHeaders(llm=...)"}

    @override
    def make(
        self, documents: Sequence[DocumentVersion], docstore: DocStore, advance: Advance
    ) -> Steps[list[DocumentVersion]]:
        prompts = {}
        for document in documents:
            if not document.chunks:
                continue
            title = quote("title", self.title_of(document.text, document.manifest.metadata))
            beginning = quote("text", document.text[: self.max_characters])
            request = f"{title}\n\n{beginning}"
            prompts[document.key] = Prompt(self.instructions, request, Description)
        answers = yield from collect_answers(self, prompts, docstore, advance)
        return (yield from compute(self._make_all, documents, answers))


# The answers of the model


def collect_answers(
    settings: LanguageModelSettings, prompts: Prompts, docstore: DocStore, advance: Advance
) -> Steps[Answers]:
    """Read answers from the docstore; ask the unanswered prompts and store their answers.

    A round without an answer is the last one. One warning counts the prompts that stay unanswered.
    """
    model = f"{type(settings.llm).__name__}/{model_name(settings.llm)}"
    names = {}  # of the answers in their records
    for key, prompt in prompts.items():
        names[key] = digest(model, prompt.instructions, prompt.request)
    answers = yield from compute(_read_stored, docstore, prompts, names)
    reason = ""
    unanswered = [key for key in prompts if key not in answers]
    for keys in batches(unanswered, _PROMPTS_PER_ROUND * settings.max_concurrency):
        tasks = [ask(settings, prompts[key]) for key in keys]
        outcomes = yield from concurrently(tasks, settings.max_concurrency)
        records = []
        for key, outcome in zip(keys, outcomes, strict=True):
            if isinstance(outcome, str):
                reason = outcome
                continue
            answers[key] = outcome.model_dump()
            records.append((answers_key(key), Document("", metadata={names[key]: answers[key]})))
        if not records:
            break
        with during("writing a model's answers to the docstore"):
            yield from to_the_end(compute(docstore.mset, records))
        advance(len(keys))
    if len(answers) < len(prompts):
        warn(
            f"{model} gave no usable answer for {len(prompts) - len(answers)} of {len(prompts)} "
            "documents. Their headers are made without it; add the documents again to retry. Last "
            f"failure: {reason}"
        )
    return answers


def _read_stored(docstore: DocStore, prompts: Prompts, names: Mapping[str, str]) -> Answers:
    """Read the usable answers in the docstore; a corrupt record has none."""
    records = read_records(docstore, [answers_key(key) for key in prompts])
    answers = {}
    for key, prompt in prompts.items():
        record = records[answers_key(key)]
        if isinstance(record, Document):
            with suppress(ValueError):
                answers[key] = prompt.read(record.metadata.get(names[key])).model_dump()
    return answers
