"""A device that holds what the text of a kernel does against what its Metal IR does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from iris.codegen import emit
from iris.interp import metal as interpreter
from iris.interp.metal import Counters
from iris.ir import metal
from iris.ir.control import Func
from iris.runtime.device import ArrayArgument, Grid, Program
from iris.runtime.interpreters import MetalInterpreter
from iris.runtime.softmetal import Count, CountingSoftmetal
from iris.testing.levels import Disagreement
from on_metal import run

# What both count: instructions of a simdgroup, bytes, and lines or cycles of conflicts.
Figures = dict[str, tuple[int, ...]]


@cache
def counting() -> CountingSoftmetal:
    return CountingSoftmetal()


def of_ir(counters: Counters) -> Figures:
    loads, stores = counters.device_loads, counters.device_stores
    shared = counters.threadgroup_loads, counters.threadgroup_stores
    return {
        "device load": (loads.instructions, loads.bytes, loads.lines),
        "device store": (stores.instructions, stores.bytes, stores.lines),
        "threadgroup load": (shared[0].instructions, shared[0].bytes, shared[0].conflicts),
        "threadgroup store": (shared[1].instructions, shared[1].bytes, shared[1].conflicts),
        "atomic": (counters.atomics.total(),),
        "barrier": (counters.barriers["threadgroup"] + counters.barriers["device"],),
        "simdgroup barrier": (counters.barriers["simdgroup"],),
        "product": (counters.mmas,),
        "shuffle": (counters.shuffles.total(),),
    }


def of_text(counts: dict[str, Count]) -> Figures:
    def total(*words: str) -> Count:
        chosen = [c for name, c in counts.items() if all(word in name for word in words)]
        return Count(*[sum(figures) for figures in zip((0, 0, 0), *chosen, strict=True)])

    accesses = [
        f"{space} {use}" for space in ("device", "threadgroup") for use in ("load", "store")
    ]
    return {
        **{access: tuple(total(access)) for access in accesses},
        "atomic": (total(" atomic").times,),
        "barrier": (counts.get("barrier", Count(0, 0, 0)).times,),
        "simdgroup barrier": (total("simdgroup_barrier").times,),
        "product": (total("matrix multiplication").times,),
        "shuffle": (total("shuffle").times,),
    }


class TextCounts(MetalInterpreter):
    """Runs kernels on the interpreter of Metal IR, and raises `Disagreement` where their text does
    something else, or more."""

    name = "text-counts"

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        views = [self._view(a) if isinstance(a, ArrayArgument) else a for a in arguments]
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in views]
        counters = Counters()
        interpreter.run(program.entry, grid, views, counters=counters)
        if any(isinstance(op, metal.Print | metal.Assert) for op in program.entry.walk()):
            return  # which write to a report
        counted = self.counts(program.entry, grid, arguments, copies)
        ir, text = of_ir(counters), of_text(counted)
        if different := {name: (ir[name], text[name]) for name in ir if ir[name] != text[name]}:
            lines = [f"{name}: IR {a}, text {b}" for name, (a, b) in different.items()]
            raise Disagreement("\n".join([*lines, "", str(counted), emit(program.entry).text]))

    def counts(
        self, entry: Func, grid: Grid, arguments: Sequence[Any], views: Sequence[Any]
    ) -> dict[str, Count]:
        device = counting()
        device.counts()
        run(device, device.compile(entry, emit(entry)), grid, arguments, views)
        return device.counts()
