"""Texts that are made from the package's own regular expressions, to find slow readers.

Each quantifier's text is repeated and then broken off, in one line, in each line, and in lines that
become shorter.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import re
from collections.abc import Iterable, Iterator
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from langchain_rse import ingest, text

_REPEATS = {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}
_MANY = 20  # repetitions that may take long
_CHARACTERS = " \n\t\r\"'`~<>/|,;.:-_=+*#()[]{}!?&0a9Aé»”\u00a0\u3002\u4eba\u0e01\u0301\u00ad"


def expressions() -> list[re.Pattern[str]]:
    """The regular expressions of the modules that read texts, each once."""
    found: dict[str, re.Pattern[str]] = {}
    modules = [
        *pkgutil.iter_modules(text.__path__, "langchain_rse.text."),
        *pkgutil.iter_modules(ingest.__path__, "langchain_rse.ingest."),
    ]
    for module in modules:
        for value in vars(importlib.import_module(module.name)).values():
            for pattern in _patterns_in(value):
                found[pattern.pattern] = pattern
    return list(found.values())


def _patterns_in(value: object) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _patterns_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _patterns_in(each)
    elif type(value).__module__.startswith("langchain_rse.") and hasattr(value, "__dict__"):
        yield from _patterns_in(vars(value))


class _Writer:
    """Writes a text that an expression matches, up to one of its quantifiers."""

    def __init__(self, chance: random.Random, target: object) -> None:
        self.chance = chance
        self.target: Any = target
        self.unit = ""
        self.groups: dict[int, str] = {}

    def write(self, nodes: Iterable[Any]) -> tuple[str, bool]:
        """Return the text, and True if it ends at the quantifier."""
        text = ""
        for code, argument in nodes:
            part, ends = self._write_node(code, argument)
            text += part
            if ends:
                return text, True
        return text, False

    def _write_node(self, code: Any, argument: Any) -> tuple[str, bool]:
        if code in _REPEATS:
            least, most, inner = argument
            if inner is self.target:
                self.target = None
                self.unit = self.write(inner)[0] or self.write(inner)[0]
                return "", True
            counts = max(least, min(most, self.chance.choice((1, 1, 2))))
            return self._write_all([inner] * counts)
        if code is codes.SUBPATTERN:
            text, ends = self.write(argument[-1])
            self.groups[argument[0]] = text
            return text, ends
        if code is codes.BRANCH:
            branches = argument[1]
            with_target = [each for each in branches if _contains(each, self.target)]
            return self.write(self.chance.choice(with_target or branches))
        if code is codes.ATOMIC_GROUP:
            return self.write(argument)
        if code is codes.GROUPREF:
            return self.groups.get(argument, ""), False
        if code in {codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY}:
            return self._character(code, argument), False
        return "", False

    def _write_all(self, parts: Iterable[Any]) -> tuple[str, bool]:
        text = ""
        for part in parts:
            written, ends = self.write(part)
            text += written
            if ends:
                return text, True
        return text, False

    def _character(self, code: Any, argument: Any) -> str:
        if code is codes.LITERAL:
            return chr(argument)
        state = parser.State()
        state.str = ""
        node = parser.SubPattern(state, [(code, argument)])
        pattern = compiler.compile(node, re.DOTALL | re.UNICODE)
        fitting = [each for each in _CHARACTERS if pattern.fullmatch(each)]
        if code is codes.IN and not fitting:
            kind, value = next(each for each in argument if each[0] is not codes.NEGATE)
            return chr(value[0] if kind is codes.RANGE else value)
        return self.chance.choice(fitting or "x")


def _contains(nodes: Iterable[Any], target: object) -> bool:
    return target is not None and any(inner is target for inner in _quantified(nodes))


def _quantified(nodes: Iterable[Any]) -> Iterator[Any]:
    """Yield what the quantifiers repeat often."""
    for code, argument in nodes:
        inner: list[Any] = []
        if code in _REPEATS:
            if argument[1] > _MANY:
                yield argument[2]
            inner = [argument[2]]
        elif code is codes.BRANCH:
            inner = argument[1]
        elif code is codes.SUBPATTERN:
            inner = [argument[-1]]
        elif code is codes.ATOMIC_GROUP:
            inner = [argument]
        for each in inner:
            yield from _quantified(each)


class Shape:
    """A text of any length."""

    def __init__(self, kind: str, start: str, unit: str) -> None:
        self.kind = kind
        self.start = start
        self.unit = unit

    def __repr__(self) -> str:
        return f"{self.kind} {self.start!r:.40} {self.unit!r:.40}"

    def text(self, length: int) -> str:
        """Return the text with a length."""
        start, unit = self.start, self.unit
        if self.kind == "one":
            text = start + unit * length
        elif self.kind == "lines":
            text = f"{start}{unit}\n" * length
        elif self.kind == "again":
            text = f"{start}{unit}" * length
        else:
            longest = int((length / len(unit)) ** 0.5)
            falling = [start + unit * count for count in range(longest, 0, -1)]
            text = "\n".join(falling) + f"\n{start}{unit} x" * length
        return text[:length]


def shapes(chance: random.Random) -> list[Shape]:
    """Make the shapes of all expressions, each once."""
    made: dict[str, Shape] = {}
    for expression in expressions():
        nodes = parser.parse(expression.pattern, expression.flags)
        for target in _quantified(nodes):
            writer = _Writer(chance, target)
            start, _ = writer.write(nodes)
            if not writer.unit:
                continue
            for kind in ("one", "lines", "again", "falling"):
                shape = Shape(kind, start, writer.unit)
                made[repr((kind, shape.text(1_000)))] = shape
    return list(made.values())
