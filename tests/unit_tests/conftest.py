"""Settings that hold for all unit tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# No deadline and no complaint about slow generation: neither says anything about the code.
settings.register_profile(
    "unit", deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unit")
