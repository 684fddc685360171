"""Candidates of a launch: what each costs, and which one is taken."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from iris.compiler.arguments import Array
from iris.compiler.benchmark import do_bench
from iris.compiler.compilation import Compilation, target_of
from iris.compiler.options import Options
from iris.errors import IrisError
from iris.ir.types import DType, bf16, f16, f32
from iris.runtime.cache import CHOICES, Cache
from iris.runtime.device import Device
from iris.runtime.devices import select
from iris.version import __version__

Results = list[tuple[DType, Array]]

_OPTIONS = {field.name for field in fields(Options)} - {"fast_math"}

#: A candidate is timed only if the cost model does not take it for more times as slow as the
#: fastest: the model is off by less.
MOST_TIMES_SLOWER = 2.0
#: From one to the next number.
_EPSILON = {f32: 2.0**-23, f16: 2.0**-10, bf16: 2.0**-7}


class Config:
    """Values of constexprs, and options of a launch that leave its result as it is.

    iris.Config(BM=64, BN=32, num_simdgroups=4, swizzle=8)
    """

    __slots__ = ("constants", "options")

    def __init__(self, **named: Any):
        self.options = {n: v for n, v in named.items() if n in _OPTIONS and v is not None}
        self.constants = {n: v for n, v in named.items() if n not in _OPTIONS}

    @property
    def named(self) -> dict[str, Any]:
        """What it adds to the arguments of a launch."""
        return self.constants | self.options

    def begin(self, known: Callable[[], dict[str, Any]]) -> None:
        """Prepare a launch with it; `known` gives the arguments of the launch, by name."""

    def __str__(self) -> str:
        return ", ".join([f"{name}={value!r}" for name, value in self.named.items()])

    def __repr__(self) -> str:
        return f"Config({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.named == other.named

    def __hash__(self) -> int:
        return hash(frozenset(self.named.items()))


class Trial(Protocol):
    """A launch that can be repeated, and leaves its arguments as they are."""

    launch: Callable[[], None]

    def results(self) -> Results:
        """What one launch writes, bf16 as f32."""


class Candidate(Protocol):
    """A way to compute something; it can be sent to another process."""

    name: str  # of the kernel
    config: str  # which way it is

    def lower(self, device: Device) -> Compilation:
        """What it becomes for a device."""

    def trial(self, device: Device) -> Trial:
        """A launch on copies of its arrays."""


@dataclass(frozen=True)
class Row:
    """What became of a candidate: its time, if it has one, why it was not taken, and what limits it
    by the cost model."""

    config: str
    milliseconds: float | None
    why_not: str = ""
    limit: str = ""


@dataclass(frozen=True)
class Report:
    """How the candidates of a launch compare; `print` shows a line for each, and what limits the
    chosen one if the cost model chose."""

    kernel: str
    sizes: str
    times: str  # where they are from
    rows: tuple[Row, ...]
    chosen: int

    def __str__(self) -> str:
        what = f"{self.kernel} for {self.sizes}" if self.sizes else self.kernel
        width = max([len(row.config) for row in self.rows])
        lines = [f"{what}: milliseconds {self.times}"]
        for number, row in enumerate(self.rows):
            spent = "-" if row.milliseconds is None else f"{row.milliseconds:.4f}"
            note = "chosen" if number == self.chosen else row.why_not
            lines.append(f"  {row.config.ljust(width)}  {spent:>10}  {note}".rstrip())
            if number == self.chosen and row.limit:
                lines.append(f"    {row.limit}")
        return "\n".join(lines)


def report_of(
    candidates: Sequence[Candidate],
    device: Device,
    sizes: str,
    *,
    reorder: bool,
    executor: Executor | None,
    words: Sequence[str],
) -> Report:
    """How the candidates compare: as it was kept for some words, or else found out now."""
    cache = Cache(f"{__version__} {device.name} {device.describe()}", CHOICES)
    configs = [candidate.config for candidate in candidates]
    facts = [field.name for field in fields(Row)]  # another version may keep others
    key = cache.key(str(target_of(device)), sizes, str(reorder), *facts, *configs, *words)
    kept = None if WATCHERS else cache.get(key)
    if kept is None:
        report = compare(candidates, device, sizes, reorder=reorder, executor=executor)
        cache.put(key, json.dumps(asdict(report)).encode())
    else:
        values = json.loads(kept)
        values["rows"] = tuple([Row(**row) for row in values["rows"]])
        report = Report(**values)
    for watcher in WATCHERS:
        watcher.append(report)
    return report


def compare(
    candidates: Sequence[Candidate],
    device: Device,
    sizes: str,
    *,
    reorder: bool,
    executor: Executor | None,
) -> Report:
    """Find out which candidate to take: the fastest that computes what the first one does.

    Where the times of a device mean nothing, the cost model of its target ranks them.  With
    `reorder` they may differ as sums in another order do, else in no bit.  Raises what is wrong
    with the first one if something is wrong with all.
    """
    name = candidates[0].name
    # Else the failure of an earlier launch would be raised while a candidate is timed.
    with device.failures_set_aside():
        rows = _measured(candidates, device, executor, name)
    ranked = sorted(
        [(row.milliseconds, i) for i, row in enumerate(rows) if row.milliseconds is not None]
    )
    # Where no GPU has room for any, an interpreter may still run the first, or say what is wrong.
    first = min([i for _, i in ranked], default=0)
    expected = candidates[first].trial(device).results()
    agrees = _is_near if reorder else _is_equal
    chosen = first
    for _, i in ranked:
        if i == first or _agree(candidates[i], expected, device, agrees):
            chosen = i
            break
        rows[i] = replace(rows[i], why_not=_OTHER_RESULT[reorder])
    clock = f"by the clock of {device.name}"
    model = f"by the cost model of {target_of(device).name}: {device.name} is no GPU"
    return Report(name, sizes, clock if device.is_timed else model, tuple(rows), chosen)


_OTHER_RESULT = {
    False: "computes other bits than the first; reorder=True allows sums in another order",
    True: "computes something else than the first",
}


def _measured(
    candidates: Sequence[Candidate], device: Device, executor: Executor | None, name: str
) -> list[Row]:
    """The time of each candidate that the cost model does not rule out."""
    # Another process finds the device by its name.
    where: Device | str = device if executor is None else device.name
    ask = map if executor is None else executor.map
    estimated = _shown(f"{name}: estimate", ask(partial(_estimate, where), candidates), candidates)
    if not device.is_timed:
        return estimated
    known = [row.milliseconds for row in estimated if row.milliseconds is not None]
    most = MOST_TIMES_SLOWER * min(known, default=0)
    rows, timed = list(estimated), []
    for i, row in enumerate(estimated):
        if row.milliseconds is None:
            continue
        if row.milliseconds <= most or i == 0:
            timed.append(i)
        else:
            by = row.milliseconds / min(known)
            why_not = f"not timed: {by:.1f} times the least by the model"
            rows[i] = replace(row, milliseconds=None, why_not=why_not)
    chosen = [candidates[i] for i in timed]
    times = _shown(f"{name}: time", ask(partial(_time, where), chosen), chosen)
    for i, row in zip(timed, times, strict=True):
        rows[i] = row
    return rows


def _shown(what: str, rows: Iterator[Row], candidates: Sequence[Candidate]) -> list[Row]:
    """The rows as they come; on a terminal a line says how far they have."""
    show = sys.stderr.isatty()
    done: list[Row] = []
    for row in rows:
        done.append(row)
        if show:
            line = f"{what} {len(done)} of {len(candidates)}: {row.config}"
            print(f"\r\x1b[K{line[:78]}", end="", file=sys.stderr, flush=True)
    if show:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return done


def _estimate(device: Device | str, candidate: Candidate) -> Row:
    """The time of a candidate by the cost model."""
    on = select(device)
    try:
        target = target_of(on)
        estimate = candidate.lower(on).estimate
        chip = next(chip for chip in estimate.chips if chip.chip == target)
    except IrisError as error:
        return _failed(candidate, error)
    limit = chip.limit(estimate.registers, estimate.threadgroup_bytes)
    return Row(candidate.config, chip.milliseconds, limit=limit)


def _time(device: Device | str, candidate: Candidate) -> Row:
    """The time of a candidate by the device's clock."""
    on = select(device)
    try:
        (median,) = do_bench(candidate.trial(on).launch, quantiles=[0.5], device=on)
        return Row(candidate.config, median)
    except IrisError as error:
        return _failed(candidate, error)


def _failed(candidate: Candidate, error: IrisError) -> Row:
    return Row(candidate.config, None, str(error).partition("\n")[0])


def _agree(
    candidate: Candidate,
    expected: Results,
    device: Device,
    agrees: Callable[[DType, Array, Array], bool],
) -> bool:
    try:
        results = candidate.trial(device).results()
    except IrisError:
        return False
    return all(
        agrees(dtype, array, other)
        for (dtype, array), (_, other) in zip(expected, results, strict=True)
    )


def _is_equal(dtype: DType, array: Array, other: Array) -> bool:
    """Whether two arrays are the same bit for bit, one nan like another."""
    if array.dtype.kind == "f":
        nan = array.dtype.type(np.nan)
        array, other = (np.where(np.isnan(x), nan, x) for x in (array, other))
    return array.tobytes() == other.tobytes()


def _is_near(dtype: DType, array: Array, other: Array) -> bool:
    """Whether two arrays agree in the upper half of the digits of their largest number: sums of
    the same in another order do, and hardly anything else."""
    if not dtype.is_float:
        return _is_equal(dtype, array, other)
    finite = np.isfinite(array)
    if not _is_equal(dtype, array[~finite], other[~finite]) or not np.isfinite(other[finite]).all():
        return False
    wide, others = array[finite].astype(np.float64), other[finite].astype(np.float64)
    most = float(np.abs(wide).max(initial=0.0)) * _EPSILON[dtype] ** 0.5
    return bool((np.abs(wide - others) <= most).all())


#: Lists that want to have each report.
WATCHERS: list[list[Report]] = []


@contextmanager
def watched() -> Iterator[list[Report]]:
    """The reports of all comparisons within the `with`, in order; none is taken from the disk."""
    reports: list[Report] = []
    WATCHERS.append(reports)
    try:
        yield reports
    finally:
        WATCHERS.remove(reports)
