"""Metadata that changes along a document: by which rule segments carry it.

The parts of a document, such as the pages of a PDF, each have metadata of their own. What all
of them agree on is the document's. Of the rest, a rule for each field says what a segment that
reaches over several parts carries.
"""

from __future__ import annotations

import itertools
import numbers
import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from langchain_core.documents import Document

from langchain_rse._wording import enumerated
from langchain_rse.docstores import encode_json
from langchain_rse.schema import FIRST, LAST, WITHIN, CorruptRecordError, Rule

__all__ = [
    "DEFAULT_RULES",
    "RULES",
    "changes_in",
    "check_rules",
    "metadata_of_segment",
    "out_of_order",
    "rules_to_store",
    "with_rules",
]

RULES: tuple[Rule, ...] = get_args(Rule)
"""All rules."""

DEFAULT_RULES: Mapping[str, Rule] = {"page": "ends", "page_label": "ends"}
"""Fields that follow a rule unless they are given another: also where a document has one page."""

# So many numbers are named in a message.
_NAMED = 3


def check_rules(rules: Mapping[str, Rule] | None) -> dict[str, Rule]:
    """The rules, checked.

    Raises:
        ValueError: If they are no mapping, or a rule is unknown.
    """
    if rules is None:
        return {}
    if not isinstance(rules, Mapping):
        raise ValueError(  # noqa: TRY004 - pydantic lets no TypeError through
            'changing must map names of metadata fields to rules, such as {"page": "ends"}; got '
            f"{rules!r}"
        )
    for name, rule in rules.items():
        if name == "":
            raise ValueError("changing must have names of metadata fields; got an empty one")
        if rule not in RULES:
            known = ", ".join(map(repr, RULES))
            raise ValueError(f"changing[{name!r}] must be one of {known}; got {rule!r}")
    return dict(rules)


def with_rules(
    parts: Sequence[Mapping[str, Any]], rules: Mapping[str, Rule], doc_id: str
) -> list[dict[str, Any]]:
    """The parts' metadata after the rules that hold before anything is written.

    Fields to drop are gone; those that must be the same are in all parts, if they are in one
    (None counts as lacking).

    Raises:
        ValueError: If a field that must be the same has two values.
        TypeError: If the value of such a field cannot be kept.
    """
    kept = [{k: v for k, v in part.items() if rules.get(k) != "drop"} for part in parts]
    for name in (name for name, rule in rules.items() if rule == "same"):
        found: dict[str, int] = {}
        for number, part in enumerate(kept):
            if part.get(name) is not None:
                found.setdefault(_written(name, part[name], doc_id), number)
        if len(found) > 1:
            one, other, *_ = found.values()
            raise ValueError(
                f"document {doc_id!r}: {name!r} must be the same in all of its parts, as "
                f"changing[{name!r}] says, but is {kept[one][name]!r} in part {one} and "
                f"{kept[other][name]!r} in part {other} (counted from 0). Parts of different "
                "documents need different ids (ids= or metadata['doc_id']); where values may "
                f"differ, give another rule: {', '.join(RULES)}"
            )
        for number in found.values():
            value = kept[number][name]
            for part in kept:
                part[name] = value
    return kept


def rules_to_store(rules: Mapping[str, Rule], names: Iterable[str]) -> dict[str, Rule]:
    """Those rules that who reads the document has to be told: for fields that it has.

    Args:
        rules: The rules.
        names: The names of the document's fields.
    """
    known = set(names)
    return {
        name: rule
        for name, rule in sorted(rules.items())
        if name in known and DEFAULT_RULES.get(name) != rule
    }


def metadata_of_segment(
    shared: Mapping[str, Any], rules: Mapping[str, Rule], places: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What a segment carries.

    Fields with a rule follow it whether or not they change along this document; others are the
    document's, or follow the rule ``"ends"``.

    Args:
        shared: What holds for the whole document.
        rules: The document's rules, besides `DEFAULT_RULES`.
        places: What else holds at places of the segment, in the order of its text: the first
            is that of its first character, the last that of its last.
    """
    all_rules = {**DEFAULT_RULES, **rules}
    ruled = {name: value for name, value in shared.items() if name in all_rules}
    found = {name: value for name, value in shared.items() if name not in ruled}
    here = [{**ruled, **place} for place in places] or [ruled]
    first, last = here[0], here[-1]
    for name in dict.fromkeys(itertools.chain.from_iterable(here)):
        rule = all_rules.get(name, "ends")
        if rule == "all":
            values = [place[name] for place in here if name in place]
            found[name] = list({_written(name, value, ""): value for value in values}.values())
        elif rule == "ends":
            found |= {f"{name}_start": first[name]} if name in first else {}
            found |= {f"{name}_end": last[name]} if name in last else {}
        else:
            place = last if rule == "last" else first
            found |= {name: place[name]} if name in place else {}
    return found


def changes_in(record: Document, key: str) -> list[tuple[int, Mapping[str, Any]]]:
    """Metadata that changes along a chunk: from which of its characters what holds.

    Args:
        record: The chunk's record.
        key: Its key, for errors.

    Returns:
        Pairs in the order of the text, the first from character 0; their metadata is empty if
        nothing changes along the document.

    Raises:
        CorruptRecordError: If the record has something else in its place.
    """
    first, last, within = (record.metadata.get(name, ()) for name in (FIRST, LAST, WITHIN))
    try:
        changes: list[tuple[int, Mapping[str, Any]]] = [(0, dict(first))]
        changes += [(operator.index(place), dict(here)) for place, here in within]
        if dict(last) != changes[-1][1]:  # what holds at the end has the last word
            changes.append((max(len(record.page_content) - 1, 0), dict(last)))
    except (TypeError, ValueError) as error:
        raise CorruptRecordError(
            f"the docstore's chunk {key!r} has {FIRST}={first!r}, {LAST}={last!r} and "
            f"{WITHIN}={within!r} in its metadata, which should be two dicts, and pairs of a "
            "number and a dict. Delete the document and add it again"
        ) from error
    return changes


def _written(name: str, value: Any, doc_id: str) -> str:  # noqa: ANN401 - any metadata
    """A value as it is stored: arrays and the like cannot be compared."""
    return encode_json({name: value}, f"metadata of document {doc_id!r}")


def out_of_order(parts: Sequence[Mapping[str, Any]], rules: Mapping[str, Rule]) -> list[str]:
    """What is wrong with the order of a document's parts, as sentences; mostly nothing.

    Whole numbers in a field with the rule ``"ends"``, such as pages, are taken for places in
    the source: they should rise, one by one.

    Args:
        parts: The parts' metadata.
        rules: The rules, besides `DEFAULT_RULES`.
    """
    problems = []
    for name, rule in {**DEFAULT_RULES, **rules}.items():
        values = [part.get(name) for part in parts]
        if rule != "ends" or len(values) < 2 or not all(map(_is_whole, values)):  # noqa: PLR2004
            continue
        found = [int(value) for value in values if value is not None]
        falls = [f"{b} comes after {a}" for a, b in itertools.pairwise(found) if b < a]
        if falls:
            problems.append(f"{name} {enumerated(falls, _NAMED)}")
        twice = [str(number) for number, times in Counter(found).items() if times > 1]
        if twice:
            problems.append(f"{name} {enumerated(twice, _NAMED)} comes more than once")
        between = (range(a + 1, b) for a, b in itertools.pairwise(sorted(set(found))))
        gaps = [
            str(gap[0]) if len(gap) == 1 else f"{gap[0]} to {gap[-1]}" for gap in between if gap
        ]
        if gaps:
            problems.append(f"{name} {enumerated(gaps, _NAMED)} is missing")
    return problems


def _is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
