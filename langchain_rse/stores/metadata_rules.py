"""Makes the metadata of segments from that of their documents and chunks."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_rse.stores.json import encode_json
from langchain_rse.stores.records import DEFAULT_RULES, Rule


def segment_metadata(
    shared: Mapping[str, Any], rules: Mapping[str, Rule], changes: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Make the metadata of a segment from that of its document and its chunks.

    Fields with a rule follow it whether or not they change along this document; others follow
    ``"range"`` if they change. ``changes`` has the metadata along the segment, in the order of its
    text, without that ``shared`` by the whole document.
    """
    all_rules = {**DEFAULT_RULES, **rules}
    segment: dict[str, Any] = {}
    shared_with_rule: dict[str, Any] = {}
    for name, value in shared.items():
        target = shared_with_rule if name in all_rules else segment
        target[name] = value
    along = [{**shared_with_rule, **change} for change in changes] or [shared_with_rule]
    names: dict[str, None] = {}  # of all fields, in the order in which they first come
    for metadata in along:
        names.update(dict.fromkeys(metadata))
    for name in names:
        segment.update(_follow_rule(all_rules.get(name, "range"), name, along))
    return segment


def _follow_rule(rule: Rule, name: str, along: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Make the fields that show one metadata field, given the metadata along the segment."""
    first = along[0]
    last = along[-1]
    if rule == "all":
        # Compared as JSON, since arrays, for example, cannot be compared.
        values = [metadata[name] for metadata in along if name in metadata]
        distinct = {encode_json(value, name): value for value in values}
        return {name: list(distinct.values())}
    if rule == "range":
        fields = {}
        if name in first:
            fields[f"{name}_start"] = first[name]
        if name in last:
            fields[f"{name}_end"] = last[name]
        return fields
    chosen = last if rule == "last" else first
    return {name: chosen[name]} if name in chosen else {}
