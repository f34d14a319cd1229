"""How many examples the property tests try, and which source tree all tests import."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, settings

# The programs that tests start import this source tree too, whichever one is installed.
os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])

# Without a deadline and the check for slow generation: both measure the machine, not the code.
# With CI=true in the environment, Hypothesis itself makes every run try the same examples.
settings.register_profile(
    "modest", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
# For tests/matrix.py: other versions of packages, the same algorithms.
settings.register_profile("few", settings.get_profile("modest"), max_examples=5)
settings.register_profile("thorough", settings.get_profile("modest"), max_examples=200)
settings.load_profile("thorough" if os.environ.get("CI") else "modest")
