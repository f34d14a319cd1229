"""Messages of the package, as users of the command line read them."""

from __future__ import annotations

import logging
import warnings

import pytest

from langchain_rse.cli.app import app
from langchain_rse.cli.compare import compare
from langchain_rse.cli.evaluate import evaluate
from langchain_rse.cli.options import Command, name_options, options_of
from langchain_rse.cli.output import exit_on_error
from langchain_rse.cli.query import query
from langchain_rse.cli.serve import serve_mcp


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "it does not fit max_context_length=10: raise",
            "it does not fit --max-context-length 10: raise",
        ),
        ("below irrelevant_chunk_penalty=0.35.", "below --penalty 0.35."),
        ("set score_floor=None", "set --score-floor none"),
        ("the fitted score_floor is 0.7", "the fitted --score-floor is 0.7"),
        ("Use hybrid=0 with other filters", "Use --hybrid 0 with other filters"),
        ("nothing with filter={'k': 3}", "nothing with --filter {'k': 3}"),
        ("on_missing=split leaves it out", "on_missing=split in Python leaves it out"),
        ("below minimum_value=0.5: the best", "below minimum_value=0.5 of the settings: the best"),
        ("add it again with force=True", "add it again with force=True in Python"),
        # What is for both, and words that are no arguments.
        (
            "check(repair=True) or langchain-rse check --repair removes them",
            "langchain-rse check --repair removes them",
        ),
        (
            "in the order of a filter by k, hybrid or config",
            "in the order of a filter by k, hybrid or config",
        ),
        ("use --max-context-length", "use --max-context-length"),
        # Names and texts of documents.
        ("document 'max_context_length=3' is gone", "document 'max_context_length=3' is gone"),
        ('"its max_context_length" isn\'t k=3', '"its max_context_length" isn\'t --k 3'),
        (
            "/a/max_context_length/max_context_length.txt: the document's k=3 isn't",
            "/a/max_context_length/max_context_length.txt: the document's --k 3 isn't",
        ),
    ],
)
def test_messages_name_options(message: str, shown: str) -> None:
    assert name_options(message, query) == shown


def test_options_are_those_of_the_command() -> None:
    assert options_of(evaluate)["budgets"] == "--budget"
    assert options_of(evaluate)["trials"] == "--tune"
    assert (
        name_options("raise max_context_length", evaluate) == "raise max_context_length in Python"
    )
    assert name_options("raise max_context_length", compare) == "raise --max-context-length"


def test_names_of_options_are_those_of_the_help() -> None:
    from typer.main import get_command

    commands = get_command(app).commands  # type: ignore[attr-defined]
    named: dict[str, Command] = {"query": query, "evaluate": evaluate, "serve-mcp": serve_mcp}
    for name, command in named.items():
        shown = {parameter.name: parameter.opts for parameter in commands[name].params}
        for parameter, option in options_of(command).items():
            assert option in shown[parameter]


@pytest.mark.filterwarnings("default")
def test_a_server_tells_warnings_when_they_come(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []

    def serve_mcp_for_a_while() -> None:
        warnings.warn("score_floor=0.5 has no effect", UserWarning, stacklevel=1)
        logging.getLogger("langchain_rse.query.lookup").warning("%s is gone", "'k=3'")
        told.append(capsys.readouterr().err)

    exit_on_error(serve_mcp_for_a_while, ends=False)()
    assert told == ["warning: score_floor=0.5 in Python has no effect\nwarning: 'k=3' is gone\n"]
