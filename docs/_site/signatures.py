"""Shows signatures in the API reference as users call them.

The constructor of pydantic's models gets the signature that `help()` shows, and its fields lose the
constraints of `Annotated` and `Field`. Names of types and of constants that no page explains give
way to what they stand for. Below each function is the name of its async twin. A default that a
column of a table has is not stated again beside it.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from pathlib import Path

import griffe
from pydantic import BaseModel

PAGES = Path(__file__).parents[1] / "reference"
# The paths of what the reference has, by name.
REFERENCE = {}
for page in sorted(PAGES.glob("*.md")):
    for path in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        REFERENCE[path.rpartition(".")[2]] = path
# A name in a docstring, such as `RSEConfig.rerank_weight`.
NAME = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)`(?!`)")

# The last sentence on a field in a docstring, which `help()` shows without a column of defaults.
DEFAULT = re.compile(r"\s+(?:Default: (.*)|Required)\.\Z", re.DOTALL)

# Types whose definition is of LangChain, or says less than what a user can give.
OTHER_TYPES = {
    "HeaderMaker": "DocumentHeaders | LMBasedHeaders",
    "RetrieverLike": "Runnable[str, list[Document]]",
}

# What makes the async twin of a function or of a class method.
TWIN_MAKERS = ("as_async", "AsyncConstructor")


class Signatures(griffe.Extension):
    """An extension of Griffe, which reads the package for mkdocstrings."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """Change each model after the whole package has been read."""
        name_twins(pkg)
        link_names(pkg)
        models: list[tuple[griffe.Class, type[BaseModel]]] = []
        for module in modules_of(pkg):
            for member in [module, *module.classes.values()]:
                if not member.is_alias:
                    spell_out(member)
            for shown in module.classes.values():
                if shown.is_alias:
                    continue
                loaded = getattr(importlib.import_module(module.path), shown.name, None)
                if isinstance(loaded, type) and issubclass(loaded, BaseModel):
                    models.append((shown, loaded))
        for shown, loaded in models:
            for attribute in shown.attributes.values():
                simplify(attribute, loaded)
        for shown, loaded in models:
            shown.set_member("__init__", constructor(shown, loaded))
            state_defaults_once(shown)


def name_twins(owner: griffe.Object) -> None:
    """Let functions name their async twins in their docstrings, where searches find them."""
    for member in owner.members.values():
        if member.is_alias:
            continue
        name_twins(member)
        made = getattr(member, "value", None)
        if isinstance(made, griffe.ExprCall) and str(made.function) in TWIN_MAKERS:
            function = owner.members[str(made.arguments[0])]
            function.docstring.value += f"\n\nAsync: `{member.name}`{{ #{member.name} }}"


def link_names(owner: griffe.Object) -> None:
    """Let the names in docstrings lead to their places in the reference."""

    def link(match: re.Match[str]) -> str:
        if match[1] in REFERENCE.values():
            return f"[{match[0]}][{match[1]}]"
        name, _, member = match[1].partition(".")
        path = REFERENCE.get(name)
        if path is None and name in members:
            path = f"{owner.path}.{name}"
        if path is None:
            return match[0]
        return f"[{match[0]}][{path}{member and '.'}{member}]"

    is_shown = owner.path in REFERENCE.values()
    members = [name for name in owner.members if is_shown and not name.startswith("_")]
    if owner.docstring is not None:
        owner.docstring.value = NAME.sub(link, owner.docstring.value)
    for member in owner.members.values():
        if not member.is_alias:
            link_names(member)


def modules_of(module: griffe.Module) -> list[griffe.Module]:
    """The module and all modules below it."""
    found = [module]
    for child in module.modules.values():
        if not child.is_alias:
            found += modules_of(child)
    return found


def spell_out(owner: griffe.Object) -> None:
    """Write the types and the defaults of functions and attributes without names for them."""
    for attribute in owner.attributes.values():
        if not attribute.is_alias:
            attribute.annotation = meaning(attribute.annotation, owner)
    for function in owner.functions.values():
        if function.is_alias:
            continue
        function.returns = meaning(function.returns, owner)
        for parameter in function.parameters:
            parameter.annotation = meaning(parameter.annotation, owner)
            default = constant(parameter.default)
            if isinstance(default, str | int | float):
                parameter.default = repr(default)


def meaning(annotation: str | griffe.Expr | None, owner: griffe.Object) -> str | griffe.Expr | None:
    """The type without names of this package for other types, and without constraints."""
    if isinstance(annotation, griffe.ExprName):
        if annotation.name in OTHER_TYPES:
            return OTHER_TYPES[annotation.name]
        named = named_type(annotation, owner)
        return annotation if named is None else meaning(named, owner)
    if isinstance(annotation, griffe.ExprSubscript) and str(annotation.left) == "Annotated":
        inside = annotation.slice
        first = inside.elements[0] if isinstance(inside, griffe.ExprTuple) else inside
        return meaning(first, owner)
    if isinstance(annotation, griffe.Expr):
        for field in dataclasses.fields(annotation):
            part = getattr(annotation, field.name)
            if isinstance(part, list):
                setattr(annotation, field.name, [meaning(each, owner) for each in part])
            elif isinstance(part, griffe.Expr):
                setattr(annotation, field.name, meaning(part, owner))
    return annotation


def named_type(name: griffe.ExprName, owner: griffe.Object) -> griffe.Expr | None:
    """What a name of this package for a type stands for; None for a class."""
    path = name.canonical_path
    if not path.startswith("langchain_rse."):
        return None
    try:
        named = owner.modules_collection[path]
    except KeyError:
        return None
    is_type = isinstance(named, griffe.Attribute) and isinstance(named.value, griffe.Expr)
    return named.value if is_type else None


def constant(default: str | griffe.Expr | None) -> object:
    """The value of a constant of this package that is a default; else None."""
    if not isinstance(default, griffe.ExprName) or not default.name.isupper():
        return None
    module, _, name = default.canonical_path.rpartition(".")
    if not module.startswith("langchain_rse"):
        return None
    return getattr(importlib.import_module(module), name, None)


def simplify(attribute: griffe.Attribute, model: type[BaseModel]) -> None:
    """Leave the type and the default of a field."""
    field = model.model_fields.get(attribute.name)
    if field is None:
        return
    if isinstance(attribute.value, griffe.ExprCall):
        attribute.value = default_of(model, attribute.name)


def default_of(model: type[BaseModel], name: str) -> str | None:
    """The default of a field as `help()` shows it; None without one."""
    parameter = inspect.signature(model).parameters.get(name)  # LangChain leaves some out
    if parameter is None or parameter.default is inspect.Parameter.empty:
        return None
    return repr(parameter.default)


def constructor(shown: griffe.Class, model: type[BaseModel]) -> griffe.Function:
    """The constructor, with the parameters of `help()`, and the types of the source."""
    members = shown.all_members
    given = inspect.signature(model).parameters
    parameters = []
    # First those of the class, then those of its bases, and those of LangChain last.
    for name in sorted(given, key=lambda name: (name not in members, name not in shown.members)):
        annotation = members[name].annotation if name in members else None
        if annotation is None:
            annotation = inspect.formatannotation(given[name].annotation).replace("typing.", "")
        parameters.append(
            griffe.Parameter(
                name,
                annotation=annotation,
                kind=griffe.ParameterKind.keyword_only,
                default=default_of(model, name),
            )
        )
    return griffe.Function("__init__", parameters=griffe.Parameters(*parameters))


def state_defaults_once(shown: griffe.Class) -> None:
    """Leave out the defaults that the table of a docstring shows in a column."""
    docstring = shown.docstring
    if docstring is None:
        return
    for parameter in shown.functions["__init__"].parameters:
        default = str(parameter.default)

        def shorten(entry: re.Match[str], default: str = default) -> str:
            text = entry[0].replace(", the default,", "")
            return DEFAULT.sub(lambda said: meaning_of_default(said[1] or "", default), text)

        entry = rf"^( +){parameter.name}: .*(?:\n\1 +.*)*"
        docstring.value = re.sub(entry, shorten, docstring.value, flags=re.MULTILINE)


def meaning_of_default(said: str, default: str) -> str:
    """What the column does not say about a default, as a sentence; empty for the same value."""
    same = re.escape(default.replace("'", '"'))
    meaning = re.sub(rf"^``{same}``(, )?", "", said)
    number, _, unit = meaning.replace(",", "").partition(" ")
    if number == default:
        return f" In {unit}." if unit else ""
    if meaning in ("", "none"):
        return ""
    return f" `{default}`: {meaning}."
