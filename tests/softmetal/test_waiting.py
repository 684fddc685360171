"""Threadgroups that wait for each other get their turns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from waiting_programs import RIGHT, lock


@pytest.mark.parametrize("name", RIGHT)
def test_programs_that_wait_end(name: str) -> None:
    case = RIGHT[name]
    assert np.array_equal(case.run("softmetal", num_simdgroups=2), case.expected)


def test_there_may_be_more_than_there_are_cores() -> None:
    total = np.zeros(1, np.int32)
    lock[200](np.zeros(1, np.int32), total, device="softmetal", num_simdgroups=1)
    assert total.tolist() == [200]


def test_who_waits_for_ever_is_stopped() -> None:
    script = f"""
import sys
sys.path[:0] = [{str(Path(__file__).parents[1])!r}]
from waiting_programs import STUCK
STUCK["nobody sets it"][0].run("softmetal")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "IRIS_SOFTMETAL_TIMEOUT": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "a threadgroup did not end in time" in done.stderr
    assert "while iris.load(Flag + 2, volatile=True) == 0:" in done.stderr
