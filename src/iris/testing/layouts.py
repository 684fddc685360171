"""Random layouts, pairs of them, and programs whose tiles have them.

    @given(layouts.pairs())
    def test_my_conversion(pair):
        source, target = pair
        check_conversion(source, target)

What must hold of them is in `layout_laws`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeVar

from hypothesis import strategies as st

from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.core import Level, Module, Value
from iris.ir.kinds import AtomicKind, ReduceKind, ScanKind
from iris.ir.layout.cute import IntTuple, Layout
from iris.ir.layout.linear import SIMDGROUP, LinearLayout
from iris.ir.math import element_type
from iris.ir.types import DTYPES, Ptr, Tile, f16, f32, i32
from iris.testing.choices import Choices
from iris.testing.recipes import recipe
from iris.tools.replay import ONE_PROGRAM, Array, Program

T = TypeVar("T")
BYTES = 120
LANE_BITS = 5
MOST_BITS = 10  # of the elements of a tile
Coordinate = tuple[int, ...]
Pair = tuple[LinearLayout, LinearLayout]


def linear(
    *, shape: Sequence[int] | None = None, lane_bits: int = LANE_BITS
) -> st.SearchStrategy[LinearLayout]:
    """Layouts of a tile over registers, lanes and 1 to 8 simdgroups.

    Every element is somewhere.  A bit of a location is a bit of a coordinate, or several of them
    combined by xor.  Where there are more threads than elements, and at times elsewhere, elements
    have replicas.  The simplest is row-major; as many are like those of coalesced access.
    """

    def build(choices: Choices) -> LinearLayout:
        sizes = _shape(choices) if shape is None else tuple(shape)
        return _laid_out(choices, sizes, lane_bits, choices.below(4))

    return _drawn(build)


def pairs(*, lane_bits: int = LANE_BITS) -> st.SearchStrategy[Pair]:
    """Two layouts of one shape over the same threads: a value is converted from one to the other.

    Some differ in registers only or in how many there are, some in the lanes of a simdgroup, and
    some in all.
    """
    return _drawn(lambda choices: _pair(choices, lane_bits))


def cute(*, most_elements: int = 64) -> st.SearchStrategy[Layout]:
    """Layouts of nested shapes: compact in any order of the modes, with gaps or repeats, or of any
    strides."""
    return _drawn(lambda choices: _cute(choices, most_elements))


def programs() -> st.SearchStrategy[Program]:
    """Tile programs that convert a tile from one layout to another, may reduce, scan or gather it
    there, and store it or update an array with it, for `agree(program, pipeline=LAID_OUT)`."""
    return _drawn(_program)


def _drawn(build: Callable[[Choices], T]) -> st.SearchStrategy[T]:
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: build(Choices(data)))


# Linear layouts: the image of each bit of a location.


def _shape(choices: Choices) -> Coordinate:
    bits = [0] * choices.of((2, 1, 2, 3))
    # Only what is large has several registers.
    for _ in range(choices.of((*range(MOST_BITS + 1), 8, 9, 9, MOST_BITS, MOST_BITS))):
        bits[choices.below(len(bits))] += 1
    return tuple([1 << n for n in bits])


def _laid_out(
    choices: Choices, shape: Coordinate, lane_bits: int, simdgroup_bits: int
) -> LinearLayout:
    columns = [
        tuple([1 << bit if a == axis else 0 for a in range(len(shape))])
        for axis, size in reversed(list(enumerate(shape)))
        for bit in range(size.bit_length() - 1)
    ]
    if choices.flag():  # but for neighbours, which are accessed together
        kept = choices.below(4)
        columns[kept:] = _shuffled(choices, columns[kept:])
    if choices.flag():
        _mix(choices, columns)
    nothing, threads = (0,) * len(shape), lane_bits + simdgroup_bits
    while len(columns) < threads or choices.flag(4):
        # Mostly a bit that changes nothing or the same as another; often the last register's.
        one, other = (choices.of((nothing, choices.of(columns or [nothing]))) for _ in range(2))
        last = max(0, len(columns) - threads)
        columns.insert(choices.of((last, choices.below(len(columns) + 1))), _xor(one, other))
    if choices.flag():  # as for coalesced access: some registers come after all threads
        run = choices.below(1 + len(columns) - threads)
        columns = [*columns[:run], *columns[run + threads :], *columns[run : run + threads]]
    return _of_columns(shape, columns, lane_bits, simdgroup_bits)


def _of_columns(
    shape: Coordinate, columns: Sequence[Coordinate], lane_bits: int, simdgroup_bits: int
) -> LinearLayout:
    """A layout from its columns: of registers, then of lanes, then of simdgroups."""
    lanes = len(columns) - simdgroup_bits
    registers = lanes - lane_bits
    return LinearLayout.of(
        shape,
        register=columns[:registers],
        lane=columns[registers:lanes],
        simdgroup=columns[lanes:],
    )


def _pair(choices: Choices, lane_bits: int = LANE_BITS) -> Pair:
    shape, simdgroup_bits = _shape(choices), choices.of((0, 1, 0, 2, 3))
    source = _laid_out(choices, shape, lane_bits, simdgroup_bits)
    how_far = choices.below(6)
    if how_far == 3:
        return source, _laid_out(choices, shape, lane_bits, simdgroup_bits)
    columns = [image for _, images in source.bases for image in images]
    if how_far == 5:  # twice as many registers, or half
        registers = len(columns) - simdgroup_bits - lane_bits
        column = choices.of(((0,) * len(shape), choices.of(columns)))
        columns.insert(choices.of((registers, choices.below(registers + 1))), column)
        larger = _of_columns(shape, columns, lane_bits, simdgroup_bits)
        return (source, larger) if choices.flag() else (larger, source)
    if how_far == 4:  # a register for a lane, as where one of two has neighbours
        registers = len(columns) - simdgroup_bits - lane_bits
        for _ in range(1 + choices.below(2) if registers else 0):
            one, other = choices.below(registers), registers + choices.below(lane_bits)
            columns[one], columns[other] = columns[other], columns[one]
        return source, _of_columns(shape, columns, lane_bits, simdgroup_bits)
    # Shuffle the columns of registers, or of registers and lanes, among themselves.
    near = len(columns) - simdgroup_bits - (lane_bits if how_far == 1 else 0)
    own = columns[: near if how_far else 0]
    own = _shuffled(choices, own)
    if choices.flag():
        _mix(choices, own)
    others = columns[len(own) :]
    return source, _of_columns(shape, [*own, *others], lane_bits, simdgroup_bits)


def _shuffled(choices: Choices, items: Sequence[T]) -> list[T]:
    left = list(items)
    return [left.pop(choices.below(len(left))) for _ in items]


def _mix(choices: Choices, columns: list[Coordinate]) -> None:
    """Adds columns to others, which keeps what they span: to some, or to a run of neighbours those
    some way on, as a swizzle does."""
    if choices.flag(3):
        far = choices.of((1, 2, 3))
        for one in range(choices.below(3), len(columns) - far):
            columns[one] = _xor(columns[one], columns[one + far])
        return
    for _ in range(choices.below(4) if len(columns) > 1 else 0):
        one = choices.below(len(columns))
        other = (one + 1 + choices.below(len(columns) - 1)) % len(columns)
        columns[one] = _xor(columns[one], columns[other])


def _xor(a: Coordinate, b: Coordinate) -> Coordinate:
    return tuple([x ^ y for x, y in zip(a, b, strict=True)])


# Layouts by shape and stride.


def _cute(choices: Choices, most_elements: int) -> Layout:
    sizes: list[int] = []
    for _ in range(1 + choices.below(5)):
        size = choices.of((2, 3, 4, 1, 8, 6, 5))
        if prod(sizes) * size <= most_elements:
            sizes.append(size)
    strides = [0] * len(sizes)
    step = 1
    for mode in _shuffled(choices, range(len(sizes))):
        strides[mode] = step
        step *= sizes[mode] * choices.of((1, 1, 1, 2, 3))
        if choices.flag(6):
            strides[mode] = choices.of((0, 1, 2, 3, 5, 12))
    shape, stride = _nested(choices, list(zip(sizes, strides, strict=True)), 2)
    return Layout(shape, stride)


def _nested(
    choices: Choices, modes: Sequence[tuple[int, int]], depth: int
) -> tuple[IntTuple, IntTuple]:
    """The modes, some of them together in trees of their own."""
    if len(modes) == 1 and choices.flag():
        return modes[0]
    trees: list[tuple[IntTuple, IntTuple]] = []
    left = list(modes)
    while left:
        count = 1 + choices.below(len(left)) if depth and choices.flag(3) else 1
        part, left = left[:count], left[count:]
        trees.append(_nested(choices, part, depth - 1) if count > 1 else part[0])
    return tuple([shape for shape, _ in trees]), tuple([stride for _, stride in trees])


# Programs.

#: What lowers a program whose tiles have layouts.
LAID_OUT = "lower-to-metal,fold,canonicalize,cse,dce,allocate-threadgroup,insert-barriers"
_DTYPES = (f32, i32, f16, DTYPES["i8"], DTYPES["bf16"], DTYPES["u64"])
_OF_PLACES = (ReduceKind.ARGMAX, ReduceKind.ARGMIN)
_REDUCTIONS = tuple([k for k in ReduceKind if k not in (ReduceKind.ANY, ReduceKind.ALL)])
_UPDATES = (AtomicKind.EXCHANGE, AtomicKind.ADD, AtomicKind.MAX, AtomicKind.MIN)


def _program(choices: Choices) -> Program:
    source, target = _pair(choices)
    dtype, count = choices.of(_DTYPES), source.num_elements
    numbers = recipe(dtype, (count,), choices)
    function = Func("laid_out", Level.TILE, simdgroups=source.size(SIMDGROUP))
    b = Builder(function.body)
    x = function.body.add_argument(Ptr(dtype, noalias=True, aligned=True), "x")
    loaded = b(tile.Load(x, _places(b, source)))
    value = b(tile.ConvertLayout(loaded, Tile(target.shape, dtype, target)))
    arrays = [numbers]
    if choices.flag(5):
        value, places = _gathered(b, value, choices)
        arrays.append(places)
    else:
        value = _combined(b, value, choices)
    arrays += _written(b, value, choices)
    b.insert(Return())
    return Program(Module([function]), function.symbol, ONE_PROGRAM, tuple(arrays))


def _written(b: Builder, value: Value, choices: Choices) -> list[Array]:
    """Store a value, or update an array with it, and maybe store what was there; the arrays."""
    made = element_type(value.type)
    dtype, shape = made.element, (prod(made.shape),)
    at = b(math.Constant(0, i32))
    if isinstance(value.type, Tile) and value.type.layout is not None:
        at = _places(b, value.type.layout)

    def argument() -> Value:
        return b.region.add_argument(Ptr(dtype, noalias=True, aligned=True), "y")

    if dtype.bits != 32 or choices.below(4):
        b.insert(tile.Store(argument(), at, value))
        return [Array(dtype, shape)]
    old = b(tile.Atomic(choices.of(_UPDATES), argument(), at, value))
    updated = recipe(dtype, shape, choices)
    if choices.flag():
        return [updated]
    b.insert(tile.Store(argument(), at, old))
    return [updated, Array(dtype, shape)]


def _places(b: Builder, layout: LinearLayout) -> Value:
    """The row-major number of each element."""
    flat = layout.reshape((layout.num_elements,))
    numbers = b(tile.Arange(0, Tile(flat.shape, i32, flat)))
    return numbers if flat == layout else b(tile.Reshape(numbers, Tile(layout.shape, i32, layout)))


def _gathered(b: Builder, value: Value, choices: Choices) -> tuple[Value, Array]:
    """Elements of a value along an axis, by places that lie in its layout; and the places."""
    layout = value.type.layout if isinstance(value.type, Tile) else None
    assert layout is not None
    axis, count = choices.below(layout.rank), layout.num_elements
    places = b.region.add_argument(Ptr(i32, noalias=True, aligned=True), "at")
    index = b(tile.Load(places, _places(b, layout)))
    recipe = Array(i32, (count,), choices.below(256), (0, layout.shape[axis] - 1))
    return b(tile.Gather(axis, value, index)), recipe


def _combined(b: Builder, value: Value, choices: Choices) -> Value:
    """A value as it is, or along an axis scanned, reduced, picked from or flipped."""
    layout = value.type.layout if isinstance(value.type, Tile) else None
    assert layout is not None
    axis, style = choices.below(layout.rank), choices.of(("", "reduce", "scan", "pick", "flip"))
    if style == "scan":
        return b(tile.Scan(choices.of(list(ScanKind)), axis, value))
    if style == "flip":
        return b(tile.Flip(axis, value))
    if style == "pick":
        return b(tile.Pick(axis, choices.below(layout.shape[axis]), value))
    if style == "reduce":
        kind = choices.of((*_REDUCTIONS, *_OF_PLACES))
        is_given = kind in _OF_PLACES and choices.flag()
        return b(tile.Reduce(kind, axis, value, _places(b, layout) if is_given else None))
    return value
