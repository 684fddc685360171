"""What a kernel in Metal IR needs of the machine, as data for a page: memory, barriers, registers,
cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from iris.analysis.ordering import conflicts
from iris.analysis.registers import Pressure
from iris.analysis.windows import Windows
from iris.cost.counts import Counts, count
from iris.cost.estimate import Estimate
from iris.cost.resources import aligned, allocated
from iris.cost.sample import Sizes
from iris.ir import metal
from iris.ir.control import Func
from iris.ir.core import Module, Op
from iris.ir.layout.linear import HARDWARE, LinearLayout
from iris.ir.types import Staged, Threadgroup, Tile
from iris.passes.metal.allocate_threadgroup import lifetime
from iris.targets import Target
from iris.viewer.listing import Listing

Data = dict[str, Any]

MOST_PAIRS = 4  # of accesses, named for a barrier
MOST_SIDE = 64  # rows and columns of a staged tile that are drawn


def memory_map(function: Func, text: Listing, target: Target) -> Data:
    """The arrays in threadgroup memory, each with its first byte and the lines that it is used on.

    An allocation of which parts have names of their own is left out for its parts.
    """
    ops = function.walk()
    numbers = dict(zip(ops, range(len(ops)), strict=True))
    arrays = []
    start = 0
    for memory, size in allocated(ops).items():
        views = [u for u in memory.users if isinstance(u, metal.View)]
        for part, offset in [(v.result, v.start) for v in views] or [(memory, 0)]:
            used = lifetime(part, numbers)
            if used is None:
                continue
            first, last = (ops[n] for n in used)
            arrays.append(
                {
                    "name": text.names[part],
                    "type": str(part.type),
                    "start": start + offset,
                    "bytes": aligned(part.type_as(Threadgroup).bytes),
                    "first": text.line_of[first],
                    "last": text.last_line(last) if last.regions else text.line_of[last],
                }
            )
        start += size
    return {
        "bytes": start,
        "most": target.threadgroup_bytes,
        "cycle": target.banks * target.bank_bytes,  # bytes that move in one
        "arrays": arrays,
    }


def barriers(function: Func, text: Listing) -> list[Data]:
    """The barriers, each with the lines of accesses that would race without it."""
    found = []
    for op, line in text.line_of.items():
        if isinstance(op, metal.Barrier):
            pairs = [(text.line_of[a], text.line_of[b]) for a, b in _ordered_by(op, function)]
            found.append({"line": line, "scope": op.scope.value, "pairs": pairs[:MOST_PAIRS]})
    return found


def _ordered_by(barrier: Op, function: Func) -> list[tuple[Op, Op]]:
    """Accesses that would race without a barrier, one before it and one after."""
    copy = Module([function.clone({})])
    same = dict(zip(copy.walk(), function.walk(), strict=True))
    (without,) = [op for op, original in same.items() if original is barrier]
    without.erase()
    bare = next(iter(copy))
    assert isinstance(bare, Func)
    racing = conflicts(bare, Windows(bare)).values()
    return [(same[a], same[b]) for pairs in racing for a, b in pairs]


def registers(function: Func, text: Listing, target: Target) -> Data:
    """How many registers of 32 bits are live after each line."""
    pressure = Pressure(function)
    live, now = [], 0
    for op in text.ops:
        now = now if op is None else pressure.at.get(op, now)
        live.append(-(-now // 2))
    peak = [text.names[v] for v in pressure.peak if v in text.names and pressure.sizes[v]]
    return {
        "live": live,
        "most": -(-pressure.most // 2),
        "have": target.thread_registers,
        "peak": sorted(peak),
    }


def counters(function: Func, sizes: Sizes, target: Target) -> Data:
    """What a program does, by the cost model, and the registers that a thread of it holds."""
    counts = count(function, sizes, target)
    return {**_words(counts), "registers": -(-Pressure(function).most // 2)}


def _words(counts: Counts) -> Data:
    return {
        "matrix products": counts.mmas,
        "flops": counts.flops,
        "functions": sum(counts.functions.values()),
        "integer operations": counts.integers,
        "bytes of memory": counts.device.bytes,
        "lines of memory": counts.device.lines,
        "bytes shared": counts.shared.bytes,
        "cycles of shared memory": counts.shared.cycles,
        "shuffles": counts.shuffles,
        "barriers": sum(counts.barriers.values()),
    }


def cost(estimate: Estimate) -> Data:
    """What a launch costs on each chip."""
    chips = [
        {
            "chip": on.chip.name,
            "simdgroups": on.simdgroups,
            "spent": {what: round(cycles, 1) for what, cycles in on.spent.items()},
            "milliseconds": on.milliseconds,
            "bottleneck": on.bottleneck,
            "peak": on.peak,
            "bandwidth": on.bandwidth,
        }
        for on in estimate.chips
    ]
    return {
        "programs": estimate.sizes.programs,
        "grid": list(estimate.sizes.grid),
        "simdgroups": estimate.simdgroups,
        "registers": estimate.registers,
        "threadgroup": estimate.threadgroup_bytes,
        "chips": chips,
    }


def layouts(text: Listing) -> list[Data]:
    """The layouts of the tiles of a listing, each with the tiles that have it; first those that
    are worth a look, of several axes and many tiles."""
    found: dict[LinearLayout, Data] = {}
    for value, name in text.names.items():
        layout = value.type.layout if isinstance(value.type, Tile) else None
        if layout is None:
            continue
        if layout not in found:
            columns = {dim: list(layout.columns_of(dim)) for dim in HARDWARE}
            found[layout] = {"text": str(layout), "shape": list(layout.shape), "tiles": []}
            found[layout] |= columns
        found[layout]["tiles"].append(name)
    return sorted(found.values(), key=lambda each: (-_rank(each["shape"]), -len(each["tiles"])))


def _rank(shape: Sequence[int]) -> int:
    return sum(n > 1 for n in shape)


def staged(text: Listing, target: Target) -> list[Data]:
    """The tiles in threadgroup memory: of each element the bank that holds it."""
    found: dict[Staged, Data] = {}
    for value, name in text.names.items():
        type_ = value.type
        if not isinstance(type_, Staged):
            continue
        if type_ not in found:
            shape = type_.shape[-2:]
            index = (0,) * (len(type_.shape) - len(shape))
            rows = [
                [
                    type_.layout((*index, *at))
                    * type_.element.bytes
                    // target.bank_bytes
                    % target.banks
                    for at in product(*row)
                ]
                for row in _rows(shape)
            ]
            found[type_] = {"text": str(type_), "banks": target.banks, "rows": rows, "tiles": []}
        found[type_]["tiles"].append(name)
    return list(found.values())


def _rows(shape: Sequence[int]) -> Iterator[tuple[range, ...]]:
    """For each row of a tile that is drawn, the indices of its elements along each axis."""
    *leading, width = [range(min(n, MOST_SIDE)) for n in shape]
    for index in product(*leading):
        yield (*[range(i, i + 1) for i in index], width)
