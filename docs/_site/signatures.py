"""Shows pydantic's models in the API reference as their users call them.

A model's constructor gets the signature that `help()` shows, and its fields lose the constraints
of `Annotated` and `Field`.
"""

from __future__ import annotations

import importlib
import inspect

import griffe
from pydantic import BaseModel


class Signatures(griffe.Extension):
    """An extension of Griffe, which reads the package for mkdocstrings."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """Change each model after the whole package has been read."""
        models: list[tuple[griffe.Class, type[BaseModel]]] = []
        for module in modules_of(pkg):
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


def modules_of(module: griffe.Module) -> list[griffe.Module]:
    """The module and all modules below it."""
    found = [module]
    for child in module.modules.values():
        if not child.is_alias:
            found += modules_of(child)
    return found


def simplify(attribute: griffe.Attribute, model: type[BaseModel]) -> None:
    """Leave the type and the default of a field."""
    field = model.model_fields.get(attribute.name)
    if field is None:
        return
    annotation = attribute.annotation
    if isinstance(annotation, griffe.ExprSubscript) and str(annotation.left) == "Annotated":
        inside = annotation.slice
        attribute.annotation = (
            inside.elements[0] if isinstance(inside, griffe.ExprTuple) else inside
        )
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
