"""How many times as much is tried as in ``make test``: the number that ``make soak`` sets."""

from __future__ import annotations

import os

SOAK = int(os.environ.get("SOAK") or 1)
