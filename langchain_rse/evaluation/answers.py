"""`evaluate_answers`: a model answers from the retrieved text, and a model grades the answers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from langchain_core.language_models import LanguageModelLike
from langchain_core.retrievers import RetrieverLike
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.runnables.retry import RunnableRetry
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, InstanceOf, PrivateAttr

from langchain_rse._asking import Failure, LanguageModelSettings, Prompt, ask, quote
from langchain_rse._messages import warn
from langchain_rse._progress import Advance, progress_bar
from langchain_rse._sync import Steps, arun, call, concurrently, during, run
from langchain_rse._templates import fill, names_in
from langchain_rse.evaluation.evaluating import name_of
from langchain_rse.evaluation.questions import Question
from langchain_rse.evaluation.reports import AnswerReport, GradedAnswer

T = TypeVar("T")

ANSWER_PROMPT = """\
Answer the question from the chunks of documents alone: first the answer, with names, numbers and \
units as they stand there, then a sentence on what it rests on. If the chunks do not hold the \
answer, say that they do not.

{context}

{question}"""
_TEXTS = "\n\n{question}\n\n{reference}\n\n{answer}"
GRADING_PROMPTS = {
    "points": """\
Grade the answer from 0 to 10 by the reference, which is correct: 10 if it says all of it that \
matters, 5 if half, at most 5 if it also contradicts it, 0 if it contradicts it in what was asked \
or does not answer. Other words, more detail, rounding and other units are no faults."""
    + _TEXTS,
    "verdict": """\
Grade the answer by the reference, which is correct: right if it says the same in answer to the \
question, wrong if it says something else or only a part, refused if it says that it or the \
documents cannot answer. Other words, more detail, rounding and other units are no faults."""
    + _TEXTS,
}


class _Points(BaseModel):
    explanation: str = ""
    grade: Annotated[float, Field(strict=True, ge=0, le=10)]


class _Verdict(BaseModel):
    explanation: str = ""
    grade: Literal["right", "wrong", "refused"]


def _naming(*names: str) -> AfterValidator:
    """Make a check that a template has these names, and no others."""

    def check(template: str) -> str:
        if {*names_in(template)} != {*names}:
            raise ValueError(f"must name {' and '.join(names)} in braces; got {template!r}")
        return template

    return AfterValidator(check)


class _Answering(LanguageModelSettings):
    """The arguments of `evaluate_answers`, and its steps."""

    model_config = ConfigDict(title="arguments")

    retriever: Any
    questions: Annotated[tuple[InstanceOf[Question], ...], Field(min_length=1)]
    grader: Runnable[Any, Any]
    rubric: Literal["points", "verdict"]
    answer_prompt: Annotated[str, _naming("context", "question")]
    grading_prompt: Annotated[str, _naming("question", "reference", "answer")] | None
    name: str | None
    timeout: None = None  # models have their own
    show_progress: bool
    arguments: dict[str, Any]

    _spent: list[tuple[str, Mapping[str, int]]] = PrivateAttr(default_factory=list)

    def steps(self) -> Steps[AnswerReport]:
        """Retrieve text for all questions, have them answered and graded, and report."""
        if without := [n for n, one in enumerate(self.questions, 1) if not one.answer.strip()]:
            raise ValueError(f"question {without[0]} has no reference answer to grade by")
        with progress_bar(
            len(self.questions), unit="questions", title="Answering", show=self.show_progress
        ) as advance:
            tasks, lengths = [], []
            # Before any model is called, so that an error costs nothing; in the caller's thread.
            for number, question in enumerate(self.questions, 1):
                with during(f"retrieving for question {number}"):
                    invoke, ainvoke = self.retriever.invoke, self.retriever.ainvoke
                    found = yield from call(invoke, ainvoke, question.question, **self.arguments)
                    texts = [document.page_content for document in found]
                lengths.append(sum(map(len, texts)))
                tasks.append(self._answer(question, texts, advance))
            limit = self.max_concurrency
            answers = yield from concurrently(tasks[:limit], limit)
            if all(answer.failure for answer in answers):
                raise RuntimeError(
                    f"none of the first {len(answers)} questions could be graded, so no others "
                    f"were asked; question 1 failed at {answers[0].failure}"
                )
            answers += yield from concurrently(tasks[limit:], limit)
        report = self._report(answers, lengths)
        if report.failures:
            failed = f"{len(report.failures)} of {len(answers)} questions"
            warn(f"{failed} have no grade, and the means leave them out: see report.failures")
        return report

    def _answer(
        self, question: Question, texts: Sequence[str], advance: Advance
    ) -> Steps[GradedAnswer]:
        """Have a question answered, and the answer graded."""
        chunks = [quote("chunk", text, number) for number, text in enumerate(texts, 1)]
        values = {"context": "\n\n".join(chunks), "question": quote("query", question.question)}
        prompt = Prompt[Any](fill(self.answer_prompt, values))
        answer = yield from ask(self._settings("answering", self.llm), prompt)
        advance(1)
        if isinstance(answer, Failure):
            return GradedAnswer(failure=f"answering: {answer.reason}")
        values["reference"] = quote("reference", question.answer)
        values["answer"] = quote("answer", answer)
        request = fill(self.grading_prompt or GRADING_PROMPTS[self.rubric], values)
        form, grade = (_Points, "7") if self.rubric == "points" else (_Verdict, '"right"')
        example = f'{{"explanation": "a sentence", "grade": {grade}}}'
        prompt = Prompt[Any](request, form=form, example=example)
        graded = yield from ask(self._settings("grading", self.grader), prompt)
        if isinstance(graded, Failure):
            return GradedAnswer(answer, failure=f"grading: {graded.reason}")
        return GradedAnswer(answer, graded.grade, graded.explanation)

    def _settings(self, task: str, llm: Runnable[Any, Any]) -> LanguageModelSettings:
        """Make settings that ask again after errors and a pause, and note the tokens of answers."""

        def note(answer: T) -> T:
            usage = getattr(answer, "usage_metadata", None) or {"unknown": 1}
            self._spent.append((task, {**usage, "calls": 1}))
            return answer

        attempts = 1 if isinstance(llm, RunnableRetry) else 1 + self.max_retries
        noted = (llm | RunnableLambda[Any, Any](note)).with_retry(stop_after_attempt=attempts)
        return self.model_copy(update={"llm": noted})

    def _report(self, answers: Sequence[GradedAnswer], lengths: Sequence[int]) -> AnswerReport:
        grades = [answer.grade for answer in answers]
        columns: dict[str, Sequence[Any]] = {"points": grades}
        if self.rubric == "verdict":
            columns = {v: [grade == v for grade in grades] for v in ("right", "wrong", "refused")}
        failed = [grade is None for grade in grades]
        figures = {
            name: np.where(failed, np.nan, np.array(values, float))[:, None]
            for name, values in {**columns, "characters": lengths}.items()
        }
        usage = {
            task: {
                name: sum(spent.get(name, 0) for of, spent in self._spent if of == task)
                for name in ("calls", "input_tokens", "output_tokens", "unknown")
            }
            for task in ("answering", "grading")
        }
        name = name_of(self.retriever, self.name)
        return AnswerReport(name, (), self.questions, figures, tuple(answers), usage)


def evaluate_answers(
    retriever: RetrieverLike,
    questions: Iterable[Question],
    *,
    llm: LanguageModelLike,
    grader: LanguageModelLike,
    rubric: Literal["points", "verdict"] = "points",
    answer_prompt: str = ANSWER_PROMPT,
    grading_prompt: str | None = None,
    name: str | None = None,
    max_retries: int = 2,
    max_concurrency: int = 4,
    show_progress: bool = False,
    **arguments: Any,  # noqa: ANN401 - the retriever's own
) -> AnswerReport:
    """Have a model answer questions from the text a retriever returns, and a model grade them.

    The retriever is called for all questions first. Calls of models that fail are repeated after
    pauses; empty answers and grades that cannot be read are asked for again. If a question fails
    in the end, the report and a warning say so, and all means leave it out.

    Args:
        retriever: Any retriever that returns Documents.
        questions: The questions with their reference answers, at least one.
        llm: Answers: a chat model, or any Runnable from messages to a message or a string.
        grader: Grades the answers; a model like ``llm``.
        rubric: ``"points"`` from 0 to 10, or ``"verdict"``: right, wrong or refused.
        answer_prompt: A template with ``{context}`` and ``{question}``.
        grading_prompt: A template with ``{question}``, ``{reference}`` and ``{answer}``; the form
            of the grade is added to it. None: the rubric's in `GRADING_PROMPTS`.
        name: The name of the retriever in tables; by default its own or its class.
        max_retries: How often to repeat a call, and how often to ask for another answer.
        max_concurrency: The most questions that models answer or grade at the same time.
        show_progress: Show a progress bar; needs tqdm.
        **arguments: Passed to each call, as in ``retriever.invoke(query, **arguments)``.

    Raises:
        ValueError: If an argument is out of its range, or a question has no reference answer.
        RuntimeError: If none of the first ``max_concurrency`` questions could be graded.
        Exception: Any error of the retriever, with the question's number as a note.
    """
    return run(_Answering(**locals()).steps())  # all arguments, by their names


async def aevaluate_answers(
    retriever: RetrieverLike,
    questions: Iterable[Question],
    *,
    llm: LanguageModelLike,
    grader: LanguageModelLike,
    rubric: Literal["points", "verdict"] = "points",
    answer_prompt: str = ANSWER_PROMPT,
    grading_prompt: str | None = None,
    name: str | None = None,
    max_retries: int = 2,
    max_concurrency: int = 4,
    show_progress: bool = False,
    **arguments: Any,  # noqa: ANN401 - the retriever's own
) -> AnswerReport:
    """Like `evaluate_answers`, async."""
    return await arun(_Answering(**locals()).steps())  # all arguments, by their names
