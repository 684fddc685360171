"""What became of a kernel or a graph, in sentences."""

from __future__ import annotations

from typing import Any

from iris.cost.estimate import Estimate, OnChip
from iris.ir.control import Func
from iris.ir.core import Module
from iris.ir.graph import launches_in
from iris.ir.metal import SIMDGROUP_WIDTH
from iris.ir.tile import ConvertLayout
from iris.targets import Target

Data = dict[str, Any]

PARTS = {
    "arithmetic": "arithmetic",
    "shared": "threadgroup memory",
    "shuffle": "shuffles",
    "L1": "the first cache",
    "L2": "the second cache",
    "waiting": "waiting",
    "latency": "waiting for memory",
    "memory": "memory",
}
LIMITS = {
    "waiting": "waiting limits it: too few simdgroups fit on a core to fill each other's gaps",
    "latency": "waiting for memory limits it: its loops load little at a time",
    "memory": "the bandwidth of memory limits it",
}


def about_kernel(data: Data, tiles: Module, estimate: Estimate, target: Target) -> list[str]:
    """What a kernel needs of a GPU, who holds its tiles, and what limits its speed."""
    axes = [str(n) for n in estimate.sizes.grid if n > 1]
    grid = f" ({' x '.join(axes)})" if len(axes) > 1 else ""
    threads = estimate.simdgroups * SIMDGROUP_WIDTH
    sentences = [
        f"The kernel runs as {counted(estimate.sizes.programs, 'program')}{grid}, each by "
        f"{counted(estimate.simdgroups, 'simdgroup')} of {SIMDGROUP_WIDTH}, {threads} threads."
    ]
    chip = next((on for on in estimate.chips if on.chip == target), None)
    if chip is not None:
        sentences.append(_limit(chip))
    sentences.append(_room(data, target, chip))
    if data["memory"]["arrays"]:
        sentences.append(_memory(data))
    if data["layouts"]:
        sentences.append(_layouts(data, tiles))
    return sentences


def _limit(chip: OnChip) -> str:
    limit, second, *_ = sorted(chip.busy, key=lambda part: -chip.busy[part])
    part = PARTS[limit]
    plural = part.endswith("s")
    how = LIMITS.get(limit, f"{part} {'limit' if plural else 'limits'} it")
    return (
        f"By the cost model a launch takes {chip.milliseconds * 1e3:.3g} µs on {chip.chip.name}: "
        f"{how}. {part[0].upper()}{part[1:]} alone {'take' if plural else 'takes'} "
        f"{chip.busy[limit]:.0%} of that time, and what comes next, {PARTS[second]}, "
        f"{chip.busy[second]:.0%}; a launch reaches {chip.peak:.0%} of the peak in flops and "
        f"{chip.bandwidth:.0%} of the bandwidth of memory."
    )


def _room(data: Data, target: Target, chip: OnChip | None) -> str:
    most, have = data["registers"]["most"], data["registers"]["have"]
    line = data["registers"]["live"].index(max(data["registers"]["live"])) + 1
    sentence = f"A thread holds at most {most} of {have} registers, about line {line} of the "
    sentence += "final Metal IR"
    if most > have:
        sentence += f": {most - have} too many, which spill to memory"
    if chip is not None:
        sentence += f"; a core of {target.name} holds {chip.simdgroups} simdgroups at once"
    return sentence + "."


def _memory(data: Data) -> str:
    arrays = data["memory"]["arrays"]
    names = ", ".join([f"`{array['name']}`" for array in arrays])
    return (
        f"{counted(len(arrays), 'array')} in threadgroup memory ({names}) "
        f"{'takes' if len(arrays) == 1 else 'take'} {data['memory']['bytes']} of "
        f"{data['memory']['most']} bytes, and {counted(len(data['barriers']), 'barrier')} "
        f"{'orders' if len(data['barriers']) == 1 else 'order'} the accesses."
    )


def _layouts(data: Data, tiles: Module) -> str:
    count = sum(len(each["tiles"]) for each in data["layouts"])
    conversions = sum(isinstance(op, ConvertLayout) for op in tiles.walk())
    moved = counted(conversions, "conversion") if conversions else "no conversion"
    return (
        f"Its {counted(count, 'tile')} {'has' if count == 1 else 'have'} "
        f"{counted(len(data['layouts']), 'layout')}, with {moved} between them."
    )


def about_graph(function: Func) -> list[str]:
    """What became of a graph, kernel by kernel."""
    launches = launches_in(function.body)
    ops = sum(not (op.regions or op.terminator) for op in function.walk())
    return [
        f"The {ops} ops of the graph run as {counted(len(launches), 'kernel')}, in this order: "
        + ", ".join([f"`@{launch.symbol}`" for launch in launches])
        + "."
    ]


def explained(part: Data) -> str:
    """The sentences of a kernel or a graph, and why the kernels of a graph are not fewer."""
    return "\n".join([*part["sentences"], *part.get("why", ()), *part.get("apart", ())])


def counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
