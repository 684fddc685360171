"""The target is data: frozen, hashable, and the same everywhere."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from itertools import pairwise

import pytest

from iris.errors import SettingError
from iris.targets import DEFAULT, TARGETS, Core, find
from iris.targets.apple import GENERATIONS, M1


def test_target_is_a_value() -> None:
    target = M1
    assert hash(target) == hash(M1)
    assert replace(target, banks=16) != target
    with pytest.raises(FrozenInstanceError):
        target.banks = 16  # type: ignore[misc]


def test_geometry() -> None:
    target = M1
    assert target.max_threads % target.simdgroup_width == 0
    assert target.threadgroup_bytes % (target.banks * target.bank_bytes) == 0
    assert target.line_bytes == target.banks * target.bank_bytes


def test_chips_are_in_order_of_their_generation() -> None:
    assert [chip.name for chip in GENERATIONS] == [f"apple-m{n}" for n in range(1, 6)]
    for older, newer in pairwise(GENERATIONS):
        assert newer.clock * newer.cores >= older.clock * older.cores
        assert newer.bandwidth >= older.bandwidth


def test_a_core() -> None:
    target, core = M1, Core()
    # A simdgroup is computed by as many lanes as it has.
    assert core.rates["alu"] == core.schedulers * target.simdgroup_width
    assert core.rates["alu"] == max(core.rates.values())
    assert core.mma_cycles >= 8**3 / target.simdgroup_width
    # The more registers, the fewer threads; with the most there are, whole simdgroups fit.
    registers, threads = zip(*core.occupancy, strict=True)
    assert list(registers) == sorted(registers)
    assert list(threads) == sorted(threads, reverse=True)
    assert registers[-1] == 2 * target.thread_registers
    assert threads[0] == target.max_threads
    assert all(n % target.simdgroup_width == 0 for n in threads)
    assert core.saturating_simdgroups * target.simdgroup_width <= threads[0]


def test_targets_have_names() -> None:
    assert find(DEFAULT.name) is DEFAULT
    assert all(str(target) == name for name, target in TARGETS.items())
    with pytest.raises(SettingError, match="no target is called 'm9'; there are apple-m1, "):
        find("m9")
