"""Hypothesis settings for the whole suite: every run tries the same examples, on every machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from support import counts

settings.register_profile(
    "iris",
    max_examples=counts(200, 2000),
    derandomize=True,
    database=None,
    deadline=None,
    # Measures the machine and its load, and so would fail by chance.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("iris")
