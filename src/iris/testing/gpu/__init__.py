"""Checks of a GPU, known faults of compilers first.

    from iris.testing import gpu

    for check in gpu.CHECKS.values():
        print(check(select("metal")))

A check gives what it saw, in a few words. It raises `AssertionError` if anything is wrong, with a
line for each wrong thing. Those of `BY_HAND` are texts in Metal's language; the others are made
from IR, and run on every device that takes text. None needs more than NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iris.runtime.device import Device
from iris.testing.gpu.each_op import integers_are_divided, ops_are_within_bounds
from iris.testing.gpu.lane_maps import lanes_hold_matrices
from iris.testing.gpu.miscompiles import known_miscompiles_are_right
from iris.testing.gpu.simdgroup_counts import simdgroups_work_together
from iris.testing.gpu.special_numbers import special_numbers_count
from iris.testing.gpu.tensor_maps import lanes_hold_tensors

Check = Callable[[Device], str]

CHECKS: Mapping[str, Check] = {
    "miscompiles": known_miscompiles_are_right,
    "lanes": lanes_hold_matrices,
    "tensors": lanes_hold_tensors,
    "integers": integers_are_divided,
    "numbers": special_numbers_count,
    "ops": ops_are_within_bounds,
    "barriers": simdgroups_work_together,
}
BY_HAND = ("miscompiles", "lanes", "tensors", "numbers")
