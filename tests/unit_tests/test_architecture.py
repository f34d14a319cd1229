"""What the law of imports in pyproject.toml, which `make lint` checks, does not say.

Reads the sources; nothing is imported but in fresh interpreters.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = "langchain_rse"
ROOT = Path(__file__).parents[2] / PACKAGE

# Underscores that are part of a documented interface.
NAMED_TUPLE = {"_asdict", "_fields", "_field_defaults", "_make", "_replace"}
DOCUMENTED = {
    ("_messages", "_getframe"),
    # langchain-chroma writes given vectors nowhere else; LangChain's documentation uses it.
    ("stores.vectorstores.base", "_collection"),
    ("stores.vectorstores.chroma", "_collection"),
}


def name_of(path: Path) -> str:
    """A module's dotted name below the package; "" for the package itself."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}
MODULES = [name for name in FILES if name]


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


def imported_names(module: str) -> Iterator[tuple[str, int]]:
    """All that a module imports, anywhere in it, as dotted names with their lines."""
    is_package = FILES[module].name == "__init__.py"
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = f"{PACKAGE}.{package}".strip(".").split(".")
                base = ".".join([*above[: len(above) - node.level + 1], *filter(None, [base])])
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


def loaded_by(statement: str) -> set[str]:
    """The packages and modules, without their parts, that a statement loads in a new Python."""
    program = (
        f"import json, sys\nbefore = set(sys.modules)\n{statement}\n"
        "print(json.dumps([name.split('.')[0] for name in set(sys.modules) - before]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout))


def test_importing_the_package_loads_nothing_else() -> None:
    assert loaded_by(f"import {PACKAGE}") - sys.stdlib_module_names == {PACKAGE}


def test_the_engine_needs_numpy_alone() -> None:
    loaded = loaded_by(f"import {PACKAGE}.engine")
    assert not loaded & {"langchain_core", "langchain_text_splitters", "pydantic", "sqlalchemy"}

    imported = {
        name.split(".")[0]
        for module in MODULES
        if module.split(".")[0] == "engine"
        for name, _ in imported_names(module)
    }
    assert imported - sys.stdlib_module_names <= {"numpy", "typing_extensions", PACKAGE}


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


@cache
def own_private_names() -> set[str]:
    """All names with an underscore that this package defines somewhere."""
    names = set()
    for module in FILES:
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
    return {name for name in names if is_private(name)} | NAMED_TUPLE


def called(node: ast.AST) -> str:
    """The name of the function that is called, if it has one."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def private_reads(module: str) -> Iterator[tuple[str, int]]:
    """Private attributes and modules of other libraries that a module uses, with their lines.

    An attribute counts as another library's if nothing in this package defines its name.
    """
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Attribute):
            if called(node.value) != "super":  # LangChain's hooks call those of the class above
                yield node.attr, node.lineno
        elif isinstance(node, ast.Call) and called(node) in {"getattr", "hasattr", "setattr"}:
            attribute = node.args[1]
            if isinstance(attribute, ast.Constant) and isinstance(attribute.value, str):
                yield attribute.value, node.lineno
    for name, line in imported_names(module):
        first, *rest = name.split(".")
        if first not in {PACKAGE, "__future__"}:
            yield from ((part, line) for part in rest if is_private(part))


@pytest.mark.parametrize("module", MODULES)
def test_no_private_attribute_of_another_library_is_read(module: str) -> None:
    found = [
        f"{FILES[module].name}, line {line}: {name}"
        for name, line in private_reads(module)
        if is_private(name) and name not in own_private_names() and (module, name) not in DOCUMENTED
    ]
    assert not found, "\n".join(found)
