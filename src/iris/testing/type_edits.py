"""Operands and results with a type that an op must not take there.

    check_types(function, choices, 4)

An op that takes values of several types ties most of them to each other.  A table says what may
differ where all else stays: whatever it does not name must be refused.  No rule of an op is used:
the table says what the reference says of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from iris.errors import TypeMistake, VerifyError
from iris.ir.core import Op, Region
from iris.ir.types import (
    DTYPES,
    DType,
    Ptr,
    Registers,
    Staged,
    Tensor,
    Threadgroup,
    Tile,
    Type,
)
from iris.ir.verify import verify_op
from iris.testing.choices import Choices

# What may differ: `bits` and `kind` of elements (f16 for f32, u32 for f32), `sizes` and `rank`,
# what is known of a pointer, and how registers are held.  A result is called `result`.
_FREE = """
bitcast: x bits kind, result bits kind
cast: x bits kind, result bits kind
constant: result bits kind lanes rank sizes
if: result bits kind lanes rank sizes
select: condition rank
yield: values lanes
graph.broadcast: x sizes, result sizes
graph.conv2d: x sizes, w sizes
graph.gather: x sizes, indices bits
graph.iota: result bits kind rank sizes
graph.kernel: result bits kind rank sizes
graph.launch: result bits kind rank sizes
graph.pad: x sizes, result sizes
graph.reduce: x bits kind sizes
graph.reshape: x rank sizes, result rank sizes
graph.scatter: indices bits
graph.slice: x sizes, result sizes
metal.alloc: result bits kind sizes
metal.atomic: base facts sizes, offset bits
metal.atomic_load: base facts sizes, offset bits
metal.compare_exchange: base facts sizes, offset bits
metal.copy: base facts sizes, offset bits, source facts sizes, source_offset bits
metal.extent: base bits facts kind
metal.foreach: result bits kind lanes rank sizes
metal.insert: x lanes, index bits kind, result lanes
metal.join: parts lanes rank, result lanes
metal.literal: result bits kind lanes
metal.load: base facts sizes, offset bits, result lanes rank sizes
metal.load_rows: base sizes, offset bits, result lanes sizes
metal.mma: a lanes, b lanes, acc lanes, result lanes
metal.mma_shared: a sizes, a_start bits, b sizes, b_start bits
metal.pattern: result bits kind lanes
metal.print: places lanes, values bits kind lanes rank sizes
metal.shuffle: lane bits kind
metal.slice: x lanes sizes, index bits kind, result lanes rank sizes
metal.splat: result lanes sizes
metal.store: base facts sizes, offset bits, value lanes rank sizes
metal.take: x lanes sizes, result lanes
metal.view: x bits kind sizes, result bits kind sizes
tile.arange: result bits kind sizes
tile.assert: condition rank sizes
tile.atomic: base facts, offset bits
tile.atomic_cas: base facts, offset bits
tile.broadcast: x rank sizes, result rank sizes
tile.extent: base bits facts kind
tile.gather: x sizes, index bits kind
tile.load: base facts, offset bits
tile.load_tile: base facts, offsets bits kind, bounds bits kind, strides bits kind
tile.load_tile: limit bits kind, result sizes
tile.masked_load: base facts, offset bits
tile.pick: x sizes
tile.print: values bits kind rank sizes
tile.reduce: x bits kind sizes
tile.reshape: x rank sizes, result rank sizes
tile.store: base facts, offset bits
tile.store_tile: base facts, value sizes, offsets bits kind, bounds bits kind, strides bits kind
tile.store_tile: limit bits kind
"""


def _table(text: str) -> Iterator[tuple[tuple[str, str], set[str]]]:
    for line in text.split("\n")[1:-1]:
        op, _, fields = line.partition(": ")
        for field in fields.split(", "):
            name, *free = field.split()
            yield (op, name), set(free)


FREE = dict(_table(_FREE))


def check_types(function: Op, choices: Choices, count: int) -> None:
    """Assert that some ops of a function are refused with a type that they must not have."""
    ops = [op for op in function.walk() if not op.isolated and (op.operands or op.results)]
    strangers = Region()
    for _ in range(count if ops else 0):
        op = choices.wide(ops)
        before = op.operands
        at = choices.below(len(before) + len(op.results))
        value = (*before, *op.results)[at]
        type_ = value.type
        what, other = choices.of([("", type_), *_others(type_)])
        field = "result"
        if at < len(before):
            field = op.spec.operand_field(at, len(before))[0].name
            op.set_operands((*before[:at], strangers.add_argument(other), *before[at + 1 :]))
        else:
            value.type = other
        accepted = _is_accepted(op)
        op.set_operands(before)
        value.type = type_
        assert not accepted or not what or what in FREE.get((op.name, field), ()), (
            f"instead of {type_}, {field} may be {other}:\n{op!r}"
        )


def _is_accepted(op: Op) -> bool:
    try:
        verify_op(op)
    except VerifyError:
        return False
    return True


def _others(type_: Type) -> Iterator[tuple[str, Type]]:
    """Types that are a little different, and in what."""
    element: DType = type_.element
    for dtype in DTYPES.values():
        if dtype is not element:
            what = "bits" if dtype.kind is element.kind else "kind"
            yield what, _OF_ELEMENTS[type(type_)](type_, dtype)
    for what, make in _OTHERS[type(type_)]:
        with suppress(TypeMistake):
            other = make(type_)
            if other is not type_:
                yield what, other


_OF_ELEMENTS: dict[type[Type], Callable[[Any, DType], Type]] = {
    Ptr: lambda t, dtype: Ptr(dtype, t.noalias, t.aligned),
    Staged: lambda t, dtype: Staged(t.shape, dtype, t.layout),
    Threadgroup: lambda t, dtype: Threadgroup(t.count, dtype),
    **dict.fromkeys((DType, Tile, Tensor, Registers), lambda t, dtype: t.with_element(dtype)),
}


def _shaped(make: Callable[[Any], tuple[int, ...]]) -> Callable[[Any], Type]:
    return lambda t: type(t)(make(t.shape), t.element)


# Of a shape that has sizes.
_SHAPES = [
    ("sizes", _shaped(lambda shape: shape[::-1])),
    ("sizes", _shaped(lambda shape: (*[2 * n for n in shape[:1]], *shape[1:]))),
    ("sizes", _shaped(lambda shape: (*shape[:-1], *[2 * n for n in shape[-1:]]))),
    ("sizes", _shaped(lambda shape: (*[1 for _ in shape[:1]], *shape[1:]))),
    ("sizes", _shaped(lambda shape: (*shape[:-1], *[1 for _ in shape[-1:]]))),
    ("rank", _shaped(lambda shape: (1, *shape))),
    ("rank", _shaped(lambda shape: (*shape, 1))),
    ("rank", lambda t: t.element),
]
_OTHERS: dict[type[Type], list[tuple[str, Callable[[Any], Type]]]] = {
    DType: [("rank", partial(make, (4,))) for make in (Tile, Tensor)],
    Tile: _SHAPES,
    Tensor: _SHAPES,
    Registers: [
        ("sizes", lambda t: Registers(t.shape[0] + 1, t.element)),
        ("sizes", lambda t: Registers(2 * t.shape[0], t.element)),
        ("lanes", lambda t: Registers(t.shape[0], t.element, 2)),
        ("rank", lambda t: t.element),
    ],
    Ptr: [
        ("facts", lambda t: Ptr(t.element, not t.noalias, t.aligned)),
        ("facts", lambda t: Ptr(t.element, t.noalias, not t.aligned)),
    ],
    Threadgroup: [("sizes", lambda t: Threadgroup(t.count + 1, t.element))],
    Staged: [],
}
