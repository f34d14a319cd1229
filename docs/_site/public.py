"""Shows the reference in public names: what is private is replaced by what it stands for."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from mkdocs.plugins import get_plugin_logger
from reference_pages import REFERENCE, expanded

DOCS = Path(__file__).parents[1]
LOG = get_plugin_logger("reference")
PACKAGE = "langchain_rse"

# Make the async twin of a function, whose signature it has.
TWINS = {"as_async", "AsyncConstructor"}
# Public only for the rooms of the package.
HIDDEN = {"document_access", "make", "model_config", "sources", "sync_steps"}
# Classes whose objects only the package makes: nobody calls their constructors.
RESULTS = {
    *("RSETrace", "Trace", "Candidate", "Chunk", "DocumentTrace", "Exclusion", "Hit", "Piece"),
    *("SideBySide", "FittedFloor", "Comparison", "Report", "Trial", "Tuning"),
    *("StoredDocument", "SyncResult", "CheckReport", "Adoption", "Gap", "ModelCitation", "Quote"),
}
# What comes first among the methods of a class.
FIRST = [
    f"{prefix}from_{suffix}"
    for suffix in ("documents", "texts", "existing_index")
    for prefix in ("", "a")
]
# A name in a docstring, in single backticks; a path of a page, in double ones.
NAME = re.compile(r"(?<![`\[])`([A-Za-z]\w*(?:\.\w+)*)`(?![`\]])")
PAGE_PATH = re.compile(r"``docs/([\w-]+)\.md(#[\w-]+)?``")
# What a reader knows them as.
SHOWN_AS = {
    "langchain_rse.ingest.source_documents.HeaderMaker": "langchain_rse.headers.DocumentHeaders",
    "langchain_rse.ingest.default_splitter.DefaultTextSplitter": (
        "langchain_text_splitters.TextSplitter"
    ),
}


class Public(griffe.Extension):
    """Expands type aliases, moves members of undocumented base classes, and checks the names."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:  # noqa: ANN401
        """Change all classes and functions that the reference shows."""
        if pkg.name != PACKAGE:
            return
        self.package = pkg
        show_twins(pkg)
        paths = [path for names in REFERENCE.values() for path in expanded(names)]
        shown = [final(pkg[path.removeprefix(f"{PACKAGE}.")]) for path in paths]
        self.documented = {one.path for one in shown}
        for one in shown:
            if one.is_class:
                self.take_members_of_bases(one)
                arrange(one)
        by_name = {one.name: one for one in shown}
        for one in shown:
            members = one.members.values() if one.is_class else ()
            for part in (one, *map(final, members)):
                if part.name == "__init__" or not part.name.startswith("_"):
                    self.show_public_names(part)
                    if part.docstring:
                        part.docstring.value = with_links(part.docstring.value, one, by_name)

    def take_members_of_bases(self, cls: griffe.Class) -> None:
        """Give a class what it inherits from undocumented classes of the package.

        What it inherits from documented ones is on their page, to which the bases link.
        """
        bases = []
        for base in cls.bases:
            found = self.found(base)
            if found is None or found.path in self.documented:
                if str(base) != "NamedTuple":
                    bases.append(base)
                continue
            self.take_members_of_bases(found)
            for name, member in found.members.items():
                if name not in cls.members and not name.startswith("_"):
                    cls.set_member(name, griffe.Alias(name, member, parent=cls))
            bases += found.bases
        cls.bases = bases
        for name in HIDDEN & cls.members.keys():
            cls.del_member(name)

    def show_public_names(self, shown: griffe.Object) -> None:
        """Expand the aliases in a signature."""
        if shown.is_function:
            shown.returns = self.public(shown.returns)
            for parameter in shown.parameters:
                parameter.annotation = self.public(parameter.annotation)
        elif shown.is_attribute:
            shown.annotation = self.public(shown.annotation)
            shown.value = public_value(shown.value)
        if shown.has_docstring or shown.name == "__init__":
            self.check(shown)

    def check(self, shown: griffe.Object) -> None:
        """Warn if a signature shows a class or an alias without a place in the reference."""
        for text in signature_of(shown):
            for name in names_in(text):
                found = self.found(name)
                is_type = found is not None and (found.is_class or found.is_attribute)
                if is_type and not self.is_documented(found):
                    LOG.warning("docs/_site: %s shows %s, which has no page", shown.path, name)

    def is_documented(self, found: griffe.Object) -> bool:
        """True if the reference has a place for an object, or for the class that it is in."""
        return found.path in self.documented or found.parent.path in self.documented

    def public(self, expression: Any) -> Any:  # noqa: ANN401
        """An expression in which undocumented aliases are replaced by what they stand for."""
        if isinstance(expression, list):
            return [self.public(one) for one in expression]
        if isinstance(expression, griffe.ExprSubscript) and str(expression.left) == "Annotated":
            return self.public(expression.slice.elements[0])
        if isinstance(expression, griffe.ExprName):
            found = self.found(expression)
            if found is None or found.path in self.documented:
                return expression
            if found.path in SHOWN_AS:
                return griffe.ExprName(SHOWN_AS[found.path].rpartition(".")[2], parent=found.parent)
            return self.public(found.value) if found.is_attribute and found.value else expression
        if not isinstance(expression, griffe.Expr):
            return expression
        parts = {
            field.name: self.public(getattr(expression, field.name))
            for field in dataclasses.fields(expression)
            if field.name != "parent"
        }
        return dataclasses.replace(expression, **parts)

    def found(self, name: Any) -> Any:  # noqa: ANN401
        """The object of the package that a name means; None for all others."""
        path = getattr(name, "canonical_path", "")
        if not path.startswith(f"{PACKAGE}."):
            return None
        try:
            return final(self.package[path.removeprefix(f"{PACKAGE}.")])
        except KeyError:
            return None


def show_twins(parent: griffe.Module | griffe.Class) -> None:
    """Show async twins of functions as functions."""
    for name, member in list(parent.members.items()):
        if member.is_alias:
            continue
        if member.is_module or member.is_class:
            show_twins(member)
        elif isinstance(member, griffe.Attribute) and isinstance(member.value, griffe.ExprCall):
            if str(member.value.function) in TWINS:
                function = parent.members[str(member.value.arguments[0])]
                parent.set_member(name, twin_of(function, name, member.lineno))


def twin_of(function: griffe.Function, name: str, line: int) -> griffe.Function:
    """The async twin of a function."""
    twin = griffe.Function(
        name, parameters=function.parameters, returns=function.returns, lineno=line
    )
    twin.decorators = function.decorators
    twin.labels = {*function.labels, "async"}
    twin.docstring = griffe.Docstring(
        f"Like `{function.name}`, async.", parser=function.docstring.parser, parent=twin
    )
    return twin


def arrange(cls: griffe.Class) -> None:
    """Hide the constructor that nobody calls, and put the methods that one starts with first."""
    if cls.name in RESULTS:
        cls.decorators = []  # for a class that is no dataclass, Griffe makes no constructor
    for number, name in enumerate(FIRST):
        if name in cls.members:
            final(cls.members[name]).lineno = number


def with_links(text: str, shown: griffe.Object, by_name: dict[str, griffe.Object]) -> str:
    """A docstring whose names and pages are links.

    Args:
        text: The docstring.
        shown: The class that it is in, whose members need no prefix.
        by_name: The classes and functions of the reference.
    """

    def link_to_name(match: re.Match[str]) -> str:
        first, _, member = match[1].rpartition(".")
        found = by_name.get(match[1]) or by_name.get(first.rpartition(".")[2])
        if found is None and (named := by_name.get(member)) and named.path == match[1]:
            found = named
        if found is None and not first and shown.is_class:
            found = shown
        if found is None:
            return match[0]
        if found.name != match[1].rpartition(".")[2]:
            target = found.members.get(member) if found.is_class else None
            if target is None or target.is_alias or not target.has_docstring:
                return match[0]
            return f"[`{match[1]}`][{found.path}.{member}]"
        return f"[`{match[1]}`][{found.path}]"

    def link_to_page(match: re.Match[str]) -> str:
        page = DOCS / f"{match[1]}.md"
        title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        return f"[{title}](../{match[1]}.md{match[2] or ''})"

    return PAGE_PATH.sub(link_to_page, NAME.sub(link_to_name, text))


def public_value(value: Any) -> Any:  # noqa: ANN401
    """The default of a field; None if private names are in it, or it is required."""
    if isinstance(value, griffe.ExprCall) and str(value.function) == "Field":
        for argument in value.arguments:
            if not isinstance(argument, griffe.ExprKeyword):
                continue
            if argument.name == "default":
                return argument.value
            if argument.name == "default_factory":
                factory = str(argument.value)
                return {"dict": "{}", "list": "[]"}.get(factory, f"{factory}()")
        return None
    if any(name.name.startswith("_") for name in names_in(value)):
        return None
    return value


def final(shown: griffe.Object | griffe.Alias) -> Any:  # noqa: ANN401
    """The object itself, if it is imported from elsewhere."""
    return shown.final_target if shown.is_alias else shown


def names_in(expression: Any) -> Iterator[griffe.ExprName]:  # noqa: ANN401
    """The names of an expression."""
    if isinstance(expression, griffe.Expr):
        for part in expression.iterate(flat=True):
            if isinstance(part, griffe.ExprName):
                yield part


def signature_of(shown: griffe.Object) -> list[Any]:
    """All that the signature of an object shows."""
    if shown.is_function:
        return [shown.returns, *(parameter.annotation for parameter in shown.parameters)]
    if shown.is_attribute:
        return [shown.annotation, shown.value]
    return list(shown.bases) if shown.is_class else []
