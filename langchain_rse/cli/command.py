"""The class of all commands: help without types, and usage errors with an example."""

import re
from typing import Any

import typer
from typer.core import TyperCommand

# The class of usage errors: Typer's own, or click's in older versions of Typer.
_UsageError: Any = typer.BadParameter.__base__

# Stands for "-" in options while help is wrapped, because lines may end after a hyphen.
_UNBROKEN = "\u2011"
_HYPHEN_IN_WORD = re.compile(r"(?<=\w)-(?=\w)|--(?=\w)")


class Command(TyperCommand):
    """A command that names its arguments as the documentation does, such as ``PATH...``."""

    # Checked in `parse_args`, for a better message.
    allow_extra_args = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - of Typer or click
        """Parse the arguments; show an example if one is missing."""
        try:
            extra = list(super().parse_args(ctx, args))
        except _UsageError as error:
            if hasattr(error, "param_type") and not error.message:  # a missing parameter
                example = " ".join((self.help or "").partition("Example: ")[2].split())
                error.message = f"Example: {example}"
            raise
        if extra and not ctx.resilient_parsing:
            given = " ".join(extra)
            question = ctx.params.get("question")
            if question is None:
                ctx.fail(f"unexpected argument: {given}")
            ctx.fail(f'put the question in quotation marks: "{question} {given}"')
        return extra

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401
        """Return the words after the command in the usage line."""
        return ["[OPTIONS]", *(_argument_name(each) for each in _arguments_of(self, ctx))]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write the sections of arguments and options."""
        arguments = [(_argument_name(each), each.help) for each in _arguments_of(self, ctx)]
        options = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if parameter.param_type_name == "option" and record is not None:
                options.append(record)
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl([tuple(map(_without_breaks, row)) for row in rows])

    def format_help_text(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write the text of the command."""
        given = self.help
        self.help = _without_breaks(given or "")
        try:
            super().format_help_text(ctx, formatter)
        finally:
            self.help = given

    def get_help(self, ctx: Any) -> str:  # noqa: ANN401
        """Return the whole help."""
        return super().get_help(ctx).replace(_UNBROKEN, "-")


def _arguments_of(command: TyperCommand, ctx: Any) -> list[Any]:  # noqa: ANN401
    return [each for each in command.get_params(ctx) if each.param_type_name == "argument"]


def _argument_name(argument: Any) -> str:  # noqa: ANN401
    return f"{argument.metavar}{'...' if argument.nargs != 1 else ''}"


def _without_breaks(text: str) -> str:
    """Replace hyphens in words and options, so that no line ends after them."""
    return _HYPHEN_IN_WORD.sub(lambda match: _UNBROKEN * len(match[0]), text)
