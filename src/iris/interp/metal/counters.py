"""What a profiler would count in a launch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir.layout import banks
from iris.targets import DEFAULT, Target

Array = npt.NDArray[Any]


@dataclass
class Traffic:
    """Loads or stores of device memory."""

    instructions: int = 0  # of a simdgroup
    bytes: int = 0
    lines: int = 0  # of the cache, that each instruction touches, summed
    compulsory_lines: int = 0  # of each array, that the launch touches at all


@dataclass
class Banked:
    """Loads or stores of threadgroup memory."""

    instructions: int = 0  # of a simdgroup
    bytes: int = 0
    conflicts: int = 0  # cycles that they take beyond those they would take well spread


@dataclass
class Counters:
    """Counts of what was done, over all launches they are given to.

    Flops and transcendentals are of floats, and count the elements of all threads; a fused
    multiply-add is two flops.  Barriers are counted per threadgroup, or per simdgroup where they
    are for one; shuffles per simdgroup and register; atomics per thread; mmas, the products of two
    fragments, per simdgroup.
    """

    device_loads: Traffic = field(default_factory=Traffic)
    device_stores: Traffic = field(default_factory=Traffic)
    threadgroup_loads: Banked = field(default_factory=Banked)
    threadgroup_stores: Banked = field(default_factory=Banked)
    barriers: Counter[str] = field(default_factory=Counter)
    shuffles: Counter[str] = field(default_factory=Counter)
    transcendentals: Counter[str] = field(default_factory=Counter)
    atomics: Counter[str] = field(default_factory=Counter)
    flops: int = 0
    mmas: int = 0
    target: Target = DEFAULT
    _lines: dict[tuple[object, bool], Array] = field(default_factory=dict, repr=False)
    _cycles: dict[tuple[bytes, int], int] = field(default_factory=dict, repr=False)

    def device(self, array: object, size: int, first: Array, width: int, loads: bool) -> None:
        """Counts accesses to an array of so many bytes: a row for each instruction, in it the
        first byte that each lane accesses, or -1, of `width` bytes."""
        traffic = self.device_loads if loads else self.device_stores
        active = first >= 0
        traffic.instructions += int(active.any(axis=1).sum())
        traffic.bytes += int(active.sum()) * width
        line = self.target.line_bytes
        low, high = first // line, (first + width - 1) // line
        touched = low
        if (low != high).any():
            touched = np.concatenate([low, np.where(active, high, -1)], axis=1)
        ordered = np.sort(touched, axis=1)
        new = ordered >= 0
        new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
        traffic.lines += int(new.sum())
        seen = self._lines.setdefault((array, loads), np.zeros(-(-size // line), np.bool_))
        seen[touched[touched >= 0]] = True

    def shared(self, first: Array, width: int, loads: bool) -> None:
        """Counts accesses to threadgroup memory."""
        banked = self.threadgroup_loads if loads else self.threadgroup_stores
        active = first >= 0
        first, active = first[active.any(axis=1)], active[active.any(axis=1)]
        banked.instructions += len(first)
        banked.bytes += int(active.sum()) * width
        # Most instructions do the same, a whole number of rounds of all banks apart.
        period = self.target.banks * self.target.bank_bytes
        least = np.where(active, first, np.iinfo(first.dtype).max).min(axis=1, keepdims=True)
        moved = np.where(active, first - least // period * period, -1)
        text, size = moved.tobytes(), moved.shape[1] * moved.itemsize
        patterns = Counter([text[at : at + size] for at in range(0, len(text), size)])
        for pattern, count in patterns.items():
            key = (pattern, width)
            if key not in self._cycles:
                lanes = np.frombuffer(pattern, moved.dtype)
                self._cycles[key] = banks.conflicts(lanes[lanes >= 0], width, self.target)
            banked.conflicts += count * self._cycles[key]

    def finish(self) -> None:
        """Ends the counting of a launch."""
        for (_, loads), seen in self._lines.items():
            traffic = self.device_loads if loads else self.device_stores
            traffic.compulsory_lines += int(seen.sum())
        self._lines.clear()

    def __str__(self) -> str:
        """A line for each kind of thing that was done."""
        rows = [
            ("device loads", _traffic(self.device_loads)),
            ("device stores", _traffic(self.device_stores)),
            ("threadgroup loads", _banked(self.threadgroup_loads)),
            ("threadgroup stores", _banked(self.threadgroup_stores)),
            *[
                (what, ", ".join(f"{kind} {count}" for kind, count in sorted(counter.items())))
                for what, counter in [
                    ("barriers", self.barriers),
                    ("shuffles", self.shuffles),
                    ("atomics", self.atomics),
                    ("transcendentals", self.transcendentals),
                ]
            ],
            ("mmas", str(self.mmas or "")),
            ("flops", str(self.flops or "")),
        ]
        return "\n".join(f"{what:<18}  {done or 'none'}" for what, done in rows)


def _traffic(traffic: Traffic) -> str:
    if not traffic.instructions:
        return ""
    return (
        f"{traffic.bytes} bytes by {traffic.instructions} instructions, "
        f"{traffic.lines} lines ({traffic.compulsory_lines} compulsory)"
    )


def _banked(banked: Banked) -> str:
    if not banked.instructions:
        return ""
    return (
        f"{banked.bytes} bytes by {banked.instructions} instructions, "
        f"{banked.conflicts} cycles of bank conflicts"
    )
