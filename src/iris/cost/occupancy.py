"""How many simdgroups a core holds at once: what others on it hide while one waits."""

from __future__ import annotations

from iris.targets import Target

# Registers of a thread that hold no elements of tiles, counted in lowered kernels.
OTHER_REGISTERS = 18


def simdgroups_per_core(
    threadgroup_bytes: int, simdgroups: int, target: Target, registers: int | None = None
) -> int:
    """How many simdgroups a core holds at once, of programs with `simdgroups` each.

    Without `registers`, of 32 bits that a thread has, these do not limit it.

    >>> from iris.targets.apple import M1
    >>> simdgroups_per_core(9696, 4, M1), simdgroups_per_core(2 * 9696, 4, M1)
    (24, 12)
    """
    if threadgroup_bytes > target.threadgroup_bytes:
        return 0
    occupancy = target.core.occupancy
    threads = occupancy[0][1]
    if registers is not None:
        fitting = [t for most, t in occupancy if 2 * registers <= most]
        threads = fitting[0] if fitting else occupancy[-1][1]
    # A program that is too large for that is compiled with fewer registers.
    programs = max(1, threads // (simdgroups * target.simdgroup_width))
    if threadgroup_bytes:
        programs = min(programs, target.core_threadgroup_bytes // threadgroup_bytes)
    return programs * simdgroups


def second_buffer_pays(
    one: int, two: int, simdgroups: int, target: Target, registers: int | None = None
) -> bool:
    """Whether a second buffer pays: if a core then holds as many simdgroups as before, or enough.

    `one` and `two` are the bytes of threadgroup memory with one buffer and with two.  Other
    simdgroups already hide a wait, so a second buffer is worth less than they are; but where copies
    go on by themselves, two threadgroups on a core are enough, or one where no more has registers.

    >>> from iris.targets.apple import M1
    >>> [second_buffer_pays(9696, 2 * 9696, simdgroups, M1) for simdgroups in (4, 8)]
    [False, True]
    """
    before, after = (simdgroups_per_core(n, simdgroups, target, registers) for n in (one, two))
    if target.copies:
        return 0 < min(before, 2 * simdgroups) <= after
    return 0 < busy(before, target) <= busy(after, target)


def usual_depth(target: Target) -> int:
    """How many iterations of a loop have what they stage in memory at a time, if it fits."""
    return 3 if target.copies else 2


def busy(simdgroups: int, target: Target) -> int:
    """How many of some simdgroups add to the work that a core does: more than enough do not."""
    return min(simdgroups, target.core.saturating_simdgroups)
