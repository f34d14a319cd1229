"""The commands of ``langchain-rse``, in the order of its help.

Command modules import stores, models and LangChain inside functions to keep help and shell
completion fast.
"""

import difflib
import os
import shlex
from importlib import metadata
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from langchain_rse.cli.answers import compare, evaluate, query, serve_mcp
from langchain_rse.cli.demo import demo
from langchain_rse.cli.documents import check, index, list_, remove
from langchain_rse.cli.knowledge_base import SETTINGS
from langchain_rse.cli.output import exit_on_error, print_text

# What to write instead of commands that other tools have.
_INSTEAD = {
    "add": "index",
    "update": "index",
    "delete": "remove",
    "ask": "query",
    "search": "query",
    "tune": "evaluate --tune 20",
    "help": "--help",
    "version": "--version",
    "--kb": "--kb after the command",
}


class _Commands(TyperGroup):
    """The commands, with advice for others."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - of click or typer
        name = args[0] if args else ""
        near = difflib.get_close_matches(name, [*_INSTEAD, *self.commands], 1)
        if near and name not in {*self.commands, "--help", "--version"}:
            ctx.fail(f"{name} is no command. Use: {_INSTEAD.get(near[0], near[0])}")
        return super().parse_args(ctx, args)


class _Command(TyperCommand):
    """A command whose usage has arguments as in the docs: PATH..., not {PATH}...."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - of click or typer
        pieces = super().collect_usage_pieces(ctx)
        return [piece.replace("{", "").replace("}", "") for piece in pieces]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as above
        """Say how to write a command that lacks --kb or another value."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            name = getattr(error.param, "name", "")
            if name == "kb" and not error.message:
                folder = "FOLDER"
                for argument in given:
                    if os.path.exists(os.path.join(argument, SETTINGS)):  # noqa: PTH110, PTH118 - never raises
                        folder = argument
                others = [argument for argument in given if argument != folder]
                error.message = f"Write: {shlex.join([ctx.info_name, *others, '--kb', folder])}"
            elif not error.message and self.help:
                example, *_ = self.help.partition("Example: ")[2].split("\n\n")
                error.message = f"Example: {' '.join(example.split())}"
            raise


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # no frames, so that other programs can read the output
    help="Search your own documents and get whole passages instead of isolated chunks.",
    epilog="\b\nExample:\n  langchain-rse index notes --kb kb\n"
    '  langchain-rse query "What is new?" --kb kb',
)
"""The typer app."""


@app.callback(invoke_without_command=True)
def options(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Options without a command; typer shows the app's help instead of this text."""
    if version:
        print_text(f"langchain-rse {metadata.version('langchain-rse')}")
        raise typer.Exit


for command in (demo, index, query, compare, list_, remove, check, evaluate, serve_mcp):
    name = command.__name__.strip("_").replace("_", "-")
    app.command(name, cls=_Command)(exit_on_error()(command))
