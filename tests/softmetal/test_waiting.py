"""Threadgroups that wait for each other get their turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from waiting_programs import RACY, RIGHT, lock


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
    assert "the kernel nobody_sets_it failed" in done.stderr
    assert (
        "a threadgroup did not end in time: it had 1 s, which IRIS_SOFTMETAL_TIMEOUT sets; a loop "
        "may wait for what another threadgroup does not do: the device interp tells which program "
        "waits for what"
    ) in done.stderr
    assert "while iris.load(Flag + 2, volatile=True) == 0:" in done.stderr


def test_races_are_told_from_what_atomics_order() -> None:
    script = f"""
import json, sys
sys.path[:0] = [{str(Path(__file__).parents[1])!r}]
import numpy as np
from iris.errors import DeviceError
from waiting_programs import RACY, RIGHT
said = {{}}
for name, case in (RIGHT | RACY).items():
    try:
        out = case.run("softmetal", num_simdgroups=2)
        said[name] = "" if case.expected is None else str(np.array_equal(out, case.expected))
    except DeviceError as error:
        said[name] = str(error)
json.dump(said, sys.stdout)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "IRIS_SOFTMETAL_SANITIZE": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    said = json.loads(done.stdout)
    for name in RIGHT:
        assert said[name] == "True", said[name]
    for name in RACY:
        assert ": race: " in said[name], (name, said[name])
