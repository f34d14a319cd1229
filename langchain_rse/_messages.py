"""What messages have in common: lists that end, and warnings at the caller's line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable

# Code between the user's line and ours.
_PASSED_OVER = ("langchain_rse.", "langchain_core.", "pydantic.", "asyncio.", "concurrent.")


def first_few(items: Iterable[str], most: int = 5) -> str:
    """The first few of some items, and how many more there are."""
    named = list(items)
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that called this package."""
    level = 1
    frame = sys._getframe(1)  # noqa: SLF001 - documented by Python; inspect.stack() reads files
    while frame.f_back and f"{frame.f_globals.get('__name__')}.".startswith(_PASSED_OVER):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level + 1)
