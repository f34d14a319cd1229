"""How messages put things."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["enumerated"]


def enumerated(items: Iterable[str], most: int = 5) -> str:
    """The first few of some items, and how many more there are."""
    named = list(items)
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more
