"""Names options in messages that the package writes for Python."""

import re
from collections.abc import Callable
from typing import Annotated, get_args, get_origin, get_type_hints

from typer.models import OptionInfo

Command = Callable[..., None]

# Quotations, such as names and texts of documents, come first, so that they are found whole.
_QUOTED = r"""(?<!\w)(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")(?!\w)"""
_NAME = r"(?<![\w./\\-])(?P<name>[a-z_]+)(?![\w/(\\-]|\.\w)"
_VALUE = r"(?:=(?P<value>[^\s,;:)]*[^\s,;:).]))?"
_ARGUMENT = re.compile(f"{_QUOTED}|{_NAME}{_VALUE}")
# "check(repair=True), or langchain-rse check --repair": the second is for the command line.
_CALL_OR_COMMAND = re.compile(r"(?:\b\w+\([^()]*\),? (?:or )?)+(?=langchain-rse )")
# Arguments of methods that messages name, which are no settings of a query.
_OF_METHODS = ("append", "confidence", "force", "ids", "separate")


def name_options(message: str, command: Command) -> str:
    """Write a message with the options of a command in place of arguments in Python.

    An argument without an option is said to be one in Python. What stands in quotation marks,
    such as names and texts of documents, stays as it is.
    """
    from langchain_rse.config import Greedy, QuerySettings, RSEConfig

    options = options_of(command)
    of_solvers = [name for name in Greedy.model_fields if "_" in name]
    settings = {*RSEConfig.model_fields, *of_solvers}
    arguments = {*options, *settings, *QuerySettings.model_fields, *_OF_METHODS}

    def replace(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"]
        # Without a value, words such as "order" and "filter" are just words.
        if name not in arguments or (value is None and "_" not in name):
            return match[0]
        if name not in options:
            return f"{match[0]} {'of the settings' if name in settings else 'in Python'}"
        if value is None or value == "True":
            return options[name]
        return f"{options[name]} {'none' if value == 'None' else value}"

    return _ARGUMENT.sub(replace, _CALL_OR_COMMAND.sub("", message))


def options_of(command: Command) -> dict[str, str]:
    """The options of a command by the names of its parameters, which are those in Python."""
    options = {}
    for name, annotation in get_type_hints(command, include_extras=True).items():
        if get_origin(annotation) is not Annotated:
            continue
        for info in get_args(annotation)[1:]:
            if isinstance(info, OptionInfo):
                options[name] = _declared(info) or f"--{name.replace('_', '-')}"
    return options


def _declared(info: OptionInfo) -> str | None:
    """The name that an option is given; None if it has that of its parameter."""
    # Until it reads the signature, typer takes the first name for a default.
    for text in (info.default, *(info.param_decls or ())):
        if isinstance(text, str) and text.startswith("--"):
            return text.partition("/")[0]
    return None
