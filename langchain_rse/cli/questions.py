"""The question that commands ask."""

from typing import Annotated

import typer

Question = Annotated[str, typer.Argument(metavar="QUESTION", help="The question.")]


def check_question(question: str) -> None:
    """Refuse a question without words, and one of which not all words would count."""
    from langchain_rse.text.words import MAX_QUERY_LENGTH

    if not question.strip():
        raise typer.BadParameter("it is empty", param_hint="QUESTION")
    if len(question) > MAX_QUERY_LENGTH:
        raise typer.BadParameter(
            f"it has {len(question):,} characters, and at most {MAX_QUERY_LENGTH:,} are allowed; "
            "ask a shorter question",
            param_hint="QUESTION",
        )
