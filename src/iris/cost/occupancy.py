"""How many simdgroups a core holds at once: what others on it hide while one waits."""

from __future__ import annotations

from iris.ir.metal import SIMDGROUP_WIDTH
from iris.targets.apple import AppleGPU, Core

GPU = AppleGPU()


def simdgroups_per_core(
    threadgroup_bytes: int,
    simdgroups: int,
    registers: int | None = None,
    target: AppleGPU = GPU,
    core: Core = Core(),  # noqa: B008
) -> int:
    """How many simdgroups a core holds at once, of programs that have so many each.

    Without `registers`, of 32 bits that a thread has, these do not limit it.

    >>> simdgroups_per_core(9696, 4), simdgroups_per_core(2 * 9696, 4)
    (24, 12)
    """
    if threadgroup_bytes > target.threadgroup_bytes:
        return 0
    threads = core.occupancy[0][1]
    if registers is not None:
        fitting = [t for most, t in core.occupancy if 2 * registers <= most]
        threads = fitting[0] if fitting else core.occupancy[-1][1]
    # A program that is too large for that is compiled with fewer registers.
    programs = max(1, threads // (simdgroups * SIMDGROUP_WIDTH))
    if threadgroup_bytes:
        programs = min(programs, target.core_threadgroup_bytes // threadgroup_bytes)
    return programs * simdgroups


def second_buffer_pays(
    one: int, two: int, simdgroups: int, registers: int | None = None, target: AppleGPU = GPU
) -> bool:
    """Whether to have two buffers, in `two` bytes of threadgroup memory, in place of one in `one`:
    if that leaves a core as many simdgroups as it had, or enough.  Others on the core hide what one
    waits for, too; so what a second buffer saves is worth less than they are.

    >>> second_buffer_pays(9696, 2 * 9696, 4), second_buffer_pays(9696, 2 * 9696, 8)
    (False, True)
    """
    before, after = (
        busy(simdgroups_per_core(n, simdgroups, registers, target)) for n in (one, two)
    )
    return 0 < before <= after


def busy(simdgroups: int, core: Core = Core()) -> int:  # noqa: B008
    """How many simdgroups keep a core busy, of so many; more than enough are no better."""
    return min(simdgroups, core.saturating_simdgroups)
