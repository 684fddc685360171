"""Executions of tile programs that are as correct as the interpreter's, and other: sums in random
orders, math functions off by as much as the target allows, atomic updates in random turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from iris.interp import tile as interp
from iris.interp.frame import Frame, Launch, Step, interpretation
from iris.ir import math, scalar, tile
from iris.ir.core import Facet, Op, Region
from iris.ir.kinds import ReduceKind, ScanKind
from iris.ir.math import element_type
from iris.ir.types import DType, f32
from iris.targets.target import ULPS
from iris.tools.replay import Array as Recipe
from iris.tools.replay import Program

Array = np.ndarray[Any, Any]

MOST_SUMS = 64  # of a scan that are made in orders of their own

otherwise = Facet("other execution")


class WildLaunch(Launch):
    """A launch some ops of which are run otherwise."""

    def __init__(self, program: Program, arguments: Sequence[Any], seed: int):
        super().__init__(program.function, program.grid, arguments)
        self.chance = np.random.default_rng(seed)

    def plan(self, region: Region) -> list[Step]:
        return [
            step._replace(rule=otherwise.get(type(step.op)) or step.rule)
            for step in super().plan(region)
        ]


@np.errstate(all="ignore")
def run(program: Program, seed: int) -> list[Any]:
    """The arguments after one such execution, a program at a time."""
    arguments = program.make_arguments()
    launch = WildLaunch(program, arguments, seed)
    for _ in interp.run_chunks(launch, Frame, output=lambda line: None, chunk_bytes=1):
        pass
    return arguments


def inexact(program: Program) -> Program:
    """A random program whose float data are no integers, and are not made into such to add up."""
    module = program.module.clone()
    for op in module.walk():
        if isinstance(op, math.Round):
            op.result.replace_by(op.x)
    arguments = [
        replace(r, range=(-4.0, 4.0))
        if isinstance(r, Recipe) and r.dtype.is_float and r.seed is not None
        else r
        for r in program.arguments
    ]
    return replace(program.with_module(module), arguments=tuple(arguments))


@otherwise(math.Transcendental)
def transcendental(frame: Any, op: Op, *operands: Array) -> Sequence[Array]:
    dtype = element_type(op.results[0].type).element
    with np.errstate(all="ignore"):
        truth = scalar.in_float64(type(op), *operands)
        # Half a unit is left for rounding to f32.
        units = (max(ULPS[op.name], 0.5) - 0.5) * frame.launch.chance.choice([-1, -0.5, 0, 0.7, 1])
        spacing = np.spacing(np.abs(truth).astype(np.float32)).astype(np.float64)
        off = np.where(np.isfinite(spacing), truth + units * spacing, truth)
        if isinstance(op, math.Exp | math.Exp2 | math.Sigmoid):
            off = np.maximum(off, 0)  # whatever else it is off
        if len(operands) == 1:  # what a function is at infinity, it is everywhere
            off = np.where(np.isinf(operands[0]), truth, off)
        return [scalar.round_to(dtype, off.astype(np.float32))]


def _shuffled(chance: np.random.Generator, x: Array, ufunc: np.ufunc) -> Array:
    """The reduction of the elements along the first axis, in some order."""
    rest = x[chance.permutation(len(x))]
    style = chance.integers(3)
    if style == 0:  # one after the other
        return np.asarray(ufunc.accumulate(rest, axis=0, dtype=rest.dtype)[-1])
    while len(rest) > 1:
        pairs = len(rest) // 2  # halves
        if style == 2:  # any
            rest = rest[chance.permutation(len(rest))]
            pairs = int(chance.integers(1, pairs + 1))
        combined = ufunc(rest[:pairs], rest[pairs : 2 * pairs])
        rest = np.concatenate([combined, rest[2 * pairs :]])
    return np.asarray(rest[0])


_UFUNCS = {"sum": np.add, "prod": np.multiply}


def _made(dtype: DType, total: Array) -> Array:
    return scalar.round_to(dtype, total) if dtype.is_float else total


def _along(
    op: tile.Reduce | tile.Scan, x: Array, apply: Callable[[np.ufunc, Array], Array]
) -> Array:
    dtype = element_type(op.x.type).element
    whole = np.broadcast_to(x, (len(x), *element_type(op.x.type).shape))
    wide = whole.astype(np.float32) if dtype.is_float else whole
    with np.errstate(all="ignore"):
        total = apply(_UFUNCS[op.kind.value], np.moveaxis(wide, 1 + op.axis, 0))
    return _made(dtype, total)


@otherwise(tile.Reduce)
def reduce(frame: Any, op: tile.Reduce, x: Array, *places: Array) -> Sequence[Array]:
    if op.kind not in (ReduceKind.SUM, ReduceKind.PROD):
        return list(interpretation[tile.Reduce](frame, op, x, *places))
    chance = frame.launch.chance
    return [_along(op, x, lambda ufunc, rows: _shuffled(chance, rows, ufunc))]


@otherwise(tile.Scan)
def scan(frame: Any, op: tile.Scan, x: Array) -> Sequence[Array]:
    if op.kind not in (ScanKind.SUM, ScanKind.PROD):
        return list(interpretation[tile.Scan](frame, op, x))
    chance = frame.launch.chance

    def apply(ufunc: np.ufunc, rows: Array) -> Array:
        total = ufunc.accumulate(rows, axis=0, dtype=rows.dtype)
        for n in chance.permutation(len(rows))[:MOST_SUMS]:
            total[n] = _shuffled(chance, rows[: n + 1], ufunc)
        return np.moveaxis(total, 0, 1 + op.axis)

    return [_along(op, x, apply)]


@otherwise(tile.Dot)
def dot(frame: Any, op: tile.Dot, a: Array, b: Array, acc: Array | None = None) -> Sequence[Array]:
    dtype = element_type(op.result.type).element
    if not dtype.is_float:
        return list(interpretation[tile.Dot](frame, op, a, b, acc))
    sides = []
    for value, x in ((op.a, a), (op.b, b)):
        sides.append(np.broadcast_to(x, (len(x), *element_type(value.type).shape)))
    with np.errstate(all="ignore"):
        left, right = (x.astype(np.float32) for x in sides)
        terms = [left[:, :, k, None] * right[:, None, k, :] for k in range(left.shape[2])]
        if acc is not None:
            terms.append(np.broadcast_to(acc.astype(np.float32), terms[0].shape))
        total = _shuffled(frame.launch.chance, np.stack(np.broadcast_arrays(*terms)), np.add)
    return [total if dtype is f32 else scalar.round_to(dtype, total)]


@otherwise(tile.Atomic)
def atomic(
    frame: Any, op: tile.Atomic, view: Any, offset: Array, x: Array, mask: Array | None = None
) -> Sequence[Array]:
    """Lane after lane in a random order; one lane has one offset, so old values do not matter
    where lanes meet."""
    shape = (len(frame.programs), *element_type(op.result.type).shape)
    given = np.ones(1, np.bool_) if mask is None else mask
    offset, x, active = (np.broadcast_to(v, shape) for v in (offset, x, given))
    old = np.zeros(shape, x.dtype)
    for lane in frame.launch.chance.permutation(x.size):
        at = np.unravel_index(lane, shape)
        only = np.zeros(shape, np.bool_)
        only[at] = active[at]
        if active[at]:
            old[at] = interpretation[tile.Atomic](frame, op, view, offset, x, only)[0][at]
    return [old]
