"""A tiny evaluator, for one program, of what `random_ir` makes: enough to see whether a pass
keeps what a program does.  It records program errors rather than stopping at them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iris.ir import math, metal, scalar, tile
from iris.ir.control import For, Func, If, While
from iris.ir.core import Facet, Module, Op, Region, Value
from iris.ir.types import ElementType, Ptr
from random_ir import MEMORY

evaluate = Facet("evaluation")


@dataclass
class Run:
    """What a function did: to memory, which barriers it met, and its errors."""

    memory: dict[int, np.ndarray[Any, Any]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    values: dict[Value, Any] = field(default_factory=dict)

    def region(self, region: Region, arguments: list[Any]) -> list[Any]:
        self.values.update(zip(region.arguments, arguments, strict=True))
        for op in region:
            operands = [self.values[v] for v in op.operands]
            if op.terminator:
                return operands
            results = evaluate[type(op)](self, op, *operands)
            self.values.update(zip(op.results, results, strict=True))
        raise AssertionError("a region without a terminator")


def run(module: Module, seed: int, *, overlap: bool) -> list[tuple[Any, ...]]:
    """What each function does, given arguments drawn from a seed.  `overlap`: pointers that are
    not declared `noalias` share their memory."""
    outcomes = []
    for function in module:
        assert isinstance(function, Func)
        rng = np.random.default_rng(seed)
        state = Run()
        arguments: list[Any] = []
        first: dict[Any, int] = {}
        for index, argument in enumerate(function.body.arguments):
            if isinstance(argument.type, Ptr):
                key = argument.type if overlap and not argument.type.noalias else index
                where = first.setdefault(key, index)
                if where == index:
                    data = rng.integers(-3, 4, MEMORY)
                    state.memory[index] = data.astype(scalar.storage(argument.type.element))
                arguments.append(where)
            else:
                assert isinstance(argument.type, ElementType)
                low = 0 if argument.type.element.name == "bool" else -2
                drawn = np.array([rng.integers(low, 2 if not low else 5)])
                arguments.append(drawn.astype(scalar.storage(argument.type.element)))
        returned = [_bytes(v) for v in state.region(function.body, arguments)]
        memory = [(k, _bytes(v)) for k, v in sorted(state.memory.items())]
        outcomes.append((returned, memory, state.events, state.errors))
    return outcomes


def _bytes(values: Any) -> bytes:
    """The values exactly, but that one nan is like another."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    return bytes(values.tobytes())


@evaluate(math.Elementwise)
def _math(run: Run, op: Op, *operands: Any) -> list[Any]:
    wide = [np.broadcast_to(x, _length(op.operands[i])) for i, x in enumerate(operands)]
    for where, message in scalar.program_errors(op, *wide):
        if where.any():
            run.errors.append(message)
    return [scalar.evaluate(op, *wide)]


def _length(value: Value) -> int:
    assert isinstance(value.type, ElementType)
    return value.type.shape[0] if value.type.shape else 1


@evaluate(math.Constant)
def _constant(run: Run, op: math.Constant) -> list[Any]:
    bits = np.full(_length(op.result), op.bits, np.uint64)
    return [scalar.from_bits(op.dtype, bits)]


@evaluate(tile.Arange)
def _arange(run: Run, op: tile.Arange) -> list[Any]:
    return [np.arange(op.start, op.start + _length(op.result), dtype=np.int32)]


@evaluate(tile.Broadcast)
def _broadcast(run: Run, op: tile.Broadcast, x: Any) -> list[Any]:
    return [np.broadcast_to(x, _length(op.result))]


@evaluate(metal.ShuffleXor)
def _shuffle(run: Run, op: metal.ShuffleXor, x: Any) -> list[Any]:
    return [x]


@evaluate(metal.Barrier)
def _barrier(run: Run, op: metal.Barrier) -> list[Any]:
    run.events.append(op.scope.value)
    return []


def _where(run: Run, offset: Any, mask: Any) -> tuple[Any, Any]:
    active = np.ones(len(offset), bool) if mask is None else mask
    if ((offset < 0) | (offset >= MEMORY))[active].any():
        run.errors.append("out of bounds")
    return np.clip(offset, 0, MEMORY - 1), active


@evaluate(tile.Load)
def _load(run: Run, op: tile.Load, base: Any, offset: Any, mask: Any = None, other: Any = 0) -> Any:
    offset, active = _where(run, offset, mask)
    return [np.where(active, run.memory[base][offset], other)]


@evaluate(tile.Store)
def _store(run: Run, op: tile.Store, base: Any, offset: Any, value: Any, mask: Any = None) -> Any:
    offset, active = _where(run, offset, mask)
    run.memory[base][offset[active]] = value[active]
    return []


@evaluate(If)
def _if(run: Run, op: If, condition: Any) -> list[Any]:
    return run.region(op.then if condition[0] else op.otherwise, [])


@evaluate(For)
def _for(run: Run, op: For, lower: Any, upper: Any, step: Any, *carried: Any) -> list[Any]:
    values = list(carried)
    for i in range(int(lower[0]), int(upper[0]), int(step[0])):
        values = run.region(op.body, [np.array([i], lower.dtype), *values])
    return values


@evaluate(While)
def _while(run: Run, op: While, *carried: Any) -> list[Any]:
    values = list(carried)
    while run.region(op.condition, values)[0][0]:
        values = run.region(op.body, values)
    return values
