"""The commands of ``langchain-rse``, in the order of its help."""

from __future__ import annotations

import typer

from langchain_rse.cli.demo import demo
from langchain_rse.cli.evaluate import evaluate
from langchain_rse.cli.index import index
from langchain_rse.cli.inspect import inspect
from langchain_rse.cli.output import exit_on_error
from langchain_rse.cli.query import query

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Retrieve relevant segments instead of isolated chunks from your own documents.",
)
"""The command line, a typer app."""

for command in (demo, index, query, evaluate, inspect):
    app.command()(exit_on_error(command))
