"""The reference interpreter of Tile IR: what a launch of a tile program means.

All programs run at once, op by op.  A value is one array for all of them: first an axis for the
programs, then the axes of the tile.  An axis along which all is the same may have size 1
whatever its real size, so that most addresses, masks and constants cost next to nothing; NumPy's
broadcasting gives them their full size where they meet others.

Where programs part ways, those on each side go on in a `Frame` of their own: no op ever sees a
program that does not run it.  As programs run in lockstep, what one does is seen by others where
on a GPU it need not be; every such case is a race, and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

import iris.interp.masked  # noqa: F401  registers what becomes of masked elements
from iris.errors import RaceError, RaceKind
from iris.interp import atomics, reductions
from iris.interp.address import is_beyond
from iris.interp.frame import (
    Frame,
    Grid,
    Launch,
    ObservedFrame,
    bounds_of,
    data_of,
    held_by,
    holds,
    interpretation,
    is_pointer,
    join,
    loop,
    take,
)
from iris.interp.memory import Use, View
from iris.interp.observer import Observer
from iris.interp.operands import take_along
from iris.interp.order import Clocks, OrderedShadow
from iris.interp.products import product
from iris.interp.quick import all_of, any_of, spread
from iris.interp.turns import ObservedTurnFrame, TurnFrame, run_by_turns
from iris.ir import math, scalar, tile
from iris.ir.control import For, Func, If, While
from iris.ir.core import Op, Value
from iris.ir.effects import asks_others
from iris.ir.literal import text
from iris.ir.math import element_type
from iris.ir.types import DType, ElementType, Staged, Type, f32
from iris.ir.waiting import waiting_loops

Array = npt.NDArray[Any]

# Programs run so many at a time that the largest tile of all of them takes about this much: few
# enough for the caches, enough to make little of the time that each op costs.
CHUNK_BYTES = 1 << 19


@np.errstate(all="ignore")
def run(
    function: Func,
    grid: Grid,
    arguments: Sequence[Any],
    *,
    output: Callable[[str], object] = print,
    chunk_bytes: int = CHUNK_BYTES,
    observer: Observer | None = None,
) -> list[Array]:
    """Runs a function for every program of a grid.

    `arguments` are those of the function, in order: an array for each pointer (bf16 as its bits,
    in uint16), written in place; a number for each scalar; an array for each tile.  What the
    programs print goes to `output`, line by line in the order of the programs, also when a
    `ProgramError` ends the run; memory then holds what was written so far.

    An observer is told of each op, and never of the same run twice: where it might have to be,
    programs take turns from the start.

    The result is what the function returns: for each value an array with a row per program.
    """
    asks = any(map(asks_others, function.walk()))
    if waiting_loops(function) or (asks and observer is not None):
        return _take_turns(function, grid, arguments, output, observer)
    launch = Launch(function, grid, arguments, observer=observer)
    if not asks:
        frames = Frame if observer is None else ObservedFrame
        return _gathered(launch, run_chunks(launch, frames, output=output, chunk_bytes=chunk_bytes))
    before, lines = [x.copy() for x in launch.stored], list[str]()
    try:
        chunks = run_chunks(launch, Frame, output=lines.append, chunk_bytes=chunk_bytes)
        return _gathered(launch, chunks)
    except RaceError:
        # It may be none: whether atomic ops order what programs do is seen by turns.
        for array, old in zip(launch.stored, before, strict=True):
            array[...] = old
        lines.clear()
        return _take_turns(function, grid, arguments, lines.append)
    finally:
        _print(lines, output)


def _take_turns(
    function: Func,
    grid: Grid,
    arguments: Sequence[Any],
    output: Callable[[str], object],
    observer: Observer | None = None,
) -> list[Array]:
    """Runs programs that may wait for each other."""
    launch = Launch(function, grid, arguments, partial(OrderedShadow, Clocks()), observer)
    frames = TurnFrame if observer is None else ObservedTurnFrame
    try:
        return _gathered(launch, run_by_turns(launch, frames))
    finally:
        _print([line for _, line in sorted(launch.printed, key=lambda entry: entry[0])], output)


def _print(lines: Sequence[str], output: Callable[[str], object]) -> None:
    for line in lines:
        output(line)


def _gathered(launch: Launch, parts: Iterable[tuple[Frame, Sequence[Any]]]) -> list[Array]:
    """What programs return, for each value an array with a row for each of them."""
    returns = launch.function.returns
    rows = [
        [_rows(t, data_of(x), frame.programs) for t, x in zip(returns, results, strict=True)]
        for frame, results in parts
    ]
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


def run_chunks(
    launch: Launch,
    frames: type[Frame],
    *,
    output: Callable[[str], object] = print,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[tuple[Frame, list[Any]]]:
    """Runs all programs of a launch, some at a time: the frame of those, and what its `run`
    gives."""
    function = launch.function
    largest = max((_bytes(v.type) for op in function.walk() for v in op.results), default=1)
    step = max(1, chunk_bytes // largest)
    try:
        for start in range(0, launch.count, step):
            frame = frames(launch, np.arange(start, min(start + step, launch.count)))
            yield frame, frame.run(function.body, launch.arguments)
    finally:
        _print([line for _, line in sorted(launch.printed, key=lambda entry: entry[0])], output)


def _bytes(type_: Type) -> int:
    if isinstance(type_, ElementType | Staged):
        return prod(type_.shape) * scalar.storage(type_.element).itemsize
    return 1


def _rows(type_: Type, x: Array, programs: Array) -> Array:
    """A value, whole, with a row for each program."""
    element, shape = type_.element, element_type(type_).shape
    return np.broadcast_to(x.astype(scalar.storage(element)), (len(programs), *shape))


def _full(value: Value, x: Array) -> Array:
    """The value, its axes, except that of the programs, at their real size."""
    return np.broadcast_to(x, (len(x), *held_by(value).shape))


def _like(x: Array, other: Array) -> Array:
    """A scalar with as many axes as another value."""
    return x.reshape(len(x), *[1] * (other.ndim - 1))


# The shared math.


@interpretation(math.Elementwise)
def elementwise(frame: Frame, op: math.Elementwise, *operands: Array) -> Sequence[Array]:
    addresses = frame.launch.addresses
    for where, message in scalar.program_errors(op, *operands):
        if any_of(where):
            frame.fail(op, where, message)
    if op in addresses.wrapping:
        exact = addresses.evaluate(op, *operands)
        if exact is not None:
            return [exact]
        for value, x in zip(op.operands, operands, strict=True):
            frame.check_fits(op, value, x, None)
    return [scalar.evaluate_unwarned(op, *operands)]


@interpretation(math.Constant)
def constant(frame: Frame, op: math.Constant) -> Sequence[Array]:
    rank = len(element_type(op.result.type).shape)
    bits = np.full((1,) * (1 + rank), op.bits, np.uint64)
    return [scalar.from_bits(op.dtype, bits)]


@interpretation(math.Select)
def select(
    frame: Frame, op: math.Select, condition: Array, on_true: Array, on_false: Array
) -> Sequence[Array]:
    if condition.ndim == 1:
        condition = _like(condition, on_true)
    return [scalar.evaluate_unwarned(op, condition, on_true, on_false)]


# Control flow.


@interpretation(If)
def branch(frame: Frame, op: If, condition: Any) -> Sequence[Any]:
    condition = holds(condition)
    if all_of(condition):
        return frame.run(op.then, ())
    if not any_of(condition):
        return frame.run(op.otherwise, ())
    parts = []
    for region, taken in ((op.then, condition), (op.otherwise, ~condition)):
        kept = np.flatnonzero(taken)
        parts.append((kept, frame.only(kept).run(region, ())))
    return join(frame, parts)


@interpretation(For)
def count(frame: Frame, op: For, lower: Any, upper: Any, step: Any, *carried: Any) -> Sequence[Any]:
    lower, upper, step = bounds_of(lower, upper, step)
    for where, message in scalar.program_errors(op, lower, upper, step):
        if any_of(where):
            frame.fail(op, where, message)
    trips = scalar.trips(lower, upper, step)
    done = 0

    def again(inner: Frame, kept: Array, values: Sequence[Any]) -> Array:
        return np.asarray(take(trips, kept) > done)

    def once(inner: Frame, which: Array, values: Sequence[Any]) -> Sequence[Any]:
        nonlocal done
        # With wrapping this is right for u64 too.
        first, stride = (take(x, which).astype(np.int64) for x in (lower, step))
        index = (first + done * stride).astype(lower.dtype)
        done += 1
        return inner.kept(op, values, inner.run(op.body, (index, *values)))

    return loop(frame, carried, again, once)


@interpretation(While)
def repeat(frame: Frame, op: While, *carried: Any) -> Sequence[Any]:
    return loop(
        frame,
        carried,
        lambda inner, kept, values: holds(inner.run(op.condition, values)[0]),
        lambda inner, _, values: inner.kept(op, values, inner.run(op.body, values)),
    )


# Where a program is, and tiles out of nothing.


@interpretation(tile.ProgramId)
def program_id(frame: Frame, op: tile.ProgramId) -> Sequence[Array]:
    x, y, _ = frame.launch.grid
    if frame.launch.grid[op.axis] == 1:
        return [np.zeros(1, np.int32)]
    number = frame.programs // (1, x, x * y)[op.axis]
    return [(number % frame.launch.grid[op.axis]).astype(np.int32)]


@interpretation(tile.NumPrograms)
def num_programs(frame: Frame, op: tile.NumPrograms) -> Sequence[Array]:
    return [np.array([frame.launch.grid[op.axis]], np.int32)]


@interpretation(tile.Extent)
def extent(frame: Frame, op: tile.Extent, view: View) -> Sequence[Array]:
    shape = view.array.shape
    if op.axis >= len(shape):
        frame.fail(
            op,
            np.ones(1, bool),
            f"{view.name} has no axis {op.axis}: it is an array of {len(shape)} dimensions",
            view=view,
        )
    return [np.array([shape[op.axis]], np.int32)]


@interpretation(tile.Arange)
def arange(frame: Frame, op: tile.Arange) -> Sequence[Array]:
    type_ = element_type(op.result.type)
    numbers = np.arange(op.start, op.start + type_.shape[0])
    return [numbers.astype(scalar.storage(type_.element))[None]]


# The same elements in another shape.


@interpretation(tile.Broadcast)
def broadcast(frame: Frame, op: tile.Broadcast, x: Array) -> Sequence[Array]:
    if x.ndim == 1:
        x = x.reshape(-1, *[1] * len(element_type(op.result.type).shape))
    return [x]  # an axis of size 1 is as good as a full one


@interpretation(tile.ExpandDims)
def expand_dims(frame: Frame, op: tile.ExpandDims, x: Array) -> Sequence[Array]:
    return [np.expand_dims(x, 1 + op.axis)]


@interpretation(tile.Reshape)
def reshape(frame: Frame, op: tile.Reshape, x: Array) -> Sequence[Array]:
    return [_full(op.x, x).reshape(len(x), *element_type(op.result.type).shape)]


@interpretation(tile.Transpose)
def transpose(frame: Frame, op: tile.Transpose, x: Array) -> Sequence[Array]:
    return [x.transpose(0, *[1 + axis for axis in op.permutation])]


@interpretation(tile.Flip)
def flip(frame: Frame, op: tile.Flip, x: Array) -> Sequence[Array]:
    return [np.flip(x, 1 + op.axis)]


@interpretation(tile.Pick)
def pick(frame: Frame, op: tile.Pick, x: Array) -> Sequence[Array]:
    return [np.take(x, min(op.index, x.shape[1 + op.axis] - 1), 1 + op.axis)]


@interpretation(tile.Gather)
def gather(frame: Frame, op: tile.Gather, x: Array, index: Array) -> Sequence[Array]:
    size = element_type(op.x.type).shape[op.axis]
    outside = (index < 0) | (index >= size)
    if any_of(outside):
        message = f"is outside axis {op.axis}, which has {size} elements"
        frame.fail(op, outside, message, index=index)
    return [take_along(x, index, 1 + op.axis)]


@interpretation(tile.ConvertLayout, tile.Stage, tile.Unstage)
def same(frame: Frame, op: Op, x: Array) -> Sequence[Array]:
    return [x]


# Memory.


def _reach(
    frame: Frame, op: Op, view: View, offset: Array, active: Array | None
) -> tuple[Array, Array | None]:
    """Where an access goes, checked: indices that are in bounds also where it is not active,
    unless there is no element; and where it is active, if not everywhere."""
    if active is not None and all_of(active):
        active = None
    holes = view.elements.own is not None
    if holes or int(offset.min()) < 0 or int(offset.max()) >= view.size:
        outside = view.elements.outside(offset)
        bad = outside if active is None else outside & active
        if any_of(bad):
            frame.fail(op, bad, f"is outside {view.name}, {view.elements}", view=view, index=offset)
        offset = np.where(outside, 0, offset)
    return offset.astype(np.intp, copy=False), active


def _lanes(shape: tuple[int, ...], active: Array | None, *values: Array) -> list[Array]:
    """The elements of values of a shape, where they are active, in a row."""
    wide = [spread(x, shape) for x in values]
    if active is None:
        return [x.reshape(-1) for x in wide]
    where = spread(active, shape)
    return [x[where] for x in wide]


def _stamps(frame: Frame, op: Op, view: View, rank: int) -> Array:
    stamps = view.noted_in.stamps(frame.launch.sites[op], frame.programs)
    return stamps.reshape(-1, *[1] * (rank - 1))


def _note(frame: Frame, op: Op, view: View, use: Use, index: Array, stamps: Array) -> None:
    """Notes accesses, and reports it if another program's are in their way."""
    if use in (Use.ATOMIC, Use.ATOMIC_READ) and asks_others(op):
        view.find(index, stamps)
    conflict = view.touch(use, index, stamps)
    if conflict is None:
        return
    launch, at = frame.launch, int(index[conflict.lane])
    site, number = view.noted_in.site_and_program(conflict.stamp)
    _, own = view.noted_in.site_and_program(int(stamps[conflict.lane]))
    earlier = launch.accesses[site]
    through = next(v.name for v in earlier.operands if is_pointer(v))
    program, other = launch.program(own), launch.program(number)
    raise RaceError(
        f"race: program {program} {use.value} element {at} of {view.name}, "
        f"which program {other} {conflict.earlier.value}"
        + (f" as an element of {through}" if through != view.name else ""),
        kind=RaceKind("programs", "device", frozenset((use.value, conflict.earlier.value))),
        program=program,
        array=view.name,
        index=at,
        locations=[o.location for o in dict.fromkeys((op, earlier)) if o.location is not None],
    )


def _load(
    frame: Frame,
    op: Op,
    view: View,
    offset: Array,
    active: Array | None,
    other: Array,
    use: Use = Use.READ,
) -> Array:
    index, active = _reach(frame, op, view, offset, active)
    if not view.size:
        return other
    if view.shadow is not None:
        met = index.shape if active is None else np.broadcast_shapes(index.shape, active.shape)
        shape = (len(frame.programs), *met[1:])
        stamps = _stamps(frame, op, view, index.ndim)
        _note(frame, op, view, use, *_lanes(shape, active, index, stamps))
    found = view.read(index)
    return found if active is None else np.where(active, found, other)


def _store(
    frame: Frame, op: Op, view: View, offset: Array, active: Array | None, stored: Value, x: Array
) -> None:
    index, active = _reach(frame, op, view, offset, active)
    if not view.size:
        return
    shape = (len(frame.programs), *element_type(stored.type).shape)
    stamps = _stamps(frame, op, view, index.ndim)
    index, x, stamps = _lanes(shape, active, index, x, stamps)
    _note(frame, op, view, Use.WRITE, index, stamps)
    view.write(index, x)
    _check_written(frame, op, view, index, x, stamps)


def _check_written(frame: Frame, op: Op, view: View, index: Array, x: Array, stamps: Array) -> None:
    """Reports an element to which one store of a program writes different values."""
    found, wanted = (scalar.to_bits(view.dtype, v) for v in (view.read(index), x))
    if np.array_equal(found, wanted):
        return
    lane = int((found != wanted).argmax())
    at, (_, own) = int(index[lane]), view.noted_in.site_and_program(int(stamps[lane]))
    program = frame.launch.program(own)
    raise RaceError(
        f"race: program {program} writes different values to element {at} of {view.name} at once",
        kind=RaceKind("one op", "device", frozenset((Use.WRITE.value,))),
        program=program,
        array=view.name,
        index=at,
        locations=[] if op.location is None else [op.location],
    )


@interpretation(tile.Load)
def load(
    frame: Frame,
    op: tile.Load,
    view: View,
    offset: Array,
    mask: Array | None = None,
    other: Array | None = None,
) -> Sequence[Array]:
    if is_beyond(op.offset, offset):
        frame.check_fits(op, op.offset, offset, mask)
    if other is None:
        other = _nothing(view, offset)
    use = Use.ATOMIC_READ if op.volatile else Use.READ
    return [_load(frame, op, view, offset, mask, other, use)]


def _nothing(view: View, offset: Array) -> Array:
    """Zero, as an element of an array, with as many axes as an offset."""
    return np.zeros((1,) * offset.ndim, scalar.storage(view.dtype))


@interpretation(tile.MaskedLoad)
def masked_load(
    frame: Frame, op: tile.MaskedLoad, view: View, offset: Array, mask: Array
) -> Sequence[Array]:
    """What does not count is read as 0; see `masked.py`."""
    if is_beyond(op.offset, offset):
        frame.check_fits(op, op.offset, offset, mask)
    return [_load(frame, op, view, offset, mask, _nothing(view, offset))]


@interpretation(tile.Update)
def update(frame: Frame, op: tile.Update, old: Array, new: Array) -> Sequence[Array]:
    return [new]  # all of it counts


@interpretation(tile.Store)
def store(
    frame: Frame, op: tile.Store, view: View, offset: Array, x: Array, mask: Array | None = None
) -> Sequence[Array]:
    if is_beyond(op.offset, offset):
        frame.check_fits(op, op.offset, offset, mask)
    _store(frame, op, view, offset, mask, op.value, x)
    return []


def block(shape: tuple[int, ...], operands: Sequence[Array]) -> tuple[Array, Array]:
    """Where the elements of a block are, and which of them are there at all."""
    rank = len(shape)
    scalars = [x.astype(np.int64).reshape(-1, *[1] * rank) for x in operands]
    *limit, offsets, strides, bounds = (
        *scalars[: -3 * rank],
        scalars[-3 * rank : -2 * rank],
        scalars[-2 * rank : -rank],
        scalars[-rank:],
    )
    address: Array = np.zeros(1, np.int64)
    inside: Array = np.ones(1, np.bool_)
    for axis, size in enumerate(shape):
        along = np.arange(size).reshape([-1 if i == axis else 1 for i in range(rank)])
        index = offsets[axis] + along
        inside = inside & (index >= 0) & (index < bounds[axis])
        address = address + index * strides[axis]
    for end in limit:
        inside = inside & (address < end)
    return address, inside


@interpretation(tile.LoadTile)
def load_tile(frame: Frame, op: tile.LoadTile, view: View, *operands: Array) -> Sequence[Array]:
    address, inside = block(element_type(op.result.type).shape, operands)
    return [_load(frame, op, view, address, inside, _nothing(view, address))]


@interpretation(tile.StoreTile)
def store_tile(
    frame: Frame,
    op: tile.StoreTile,
    view: View,
    x: Array,
    *operands: Array,
    active: Array = np.ones(1, np.bool_),  # noqa: B008
) -> Sequence[Array]:
    address, inside = block(element_type(op.value.type).shape, operands)
    _store(frame, op, view, address, inside & active, op.value, x)
    return []


@interpretation(tile.Atomic)
def atomic(
    frame: Frame, op: tile.Atomic, view: View, offset: Array, x: Array, mask: Array | None = None
) -> Sequence[Array]:
    def update(index: Array, new: Array) -> tuple[Array, Array]:
        return atomics.update(op.kind, view, index, new), np.ones(len(index), np.bool_)

    if op.bins:
        bad = (offset >= op.bins) & (True if mask is None else mask)
        if any_of(bad):
            frame.fail(op, bad, f"is outside of {op.bins} bins", view=view, index=offset)
    return [_atomically(frame, op, view, offset, mask, update, x)]


@interpretation(tile.AtomicCas)
def atomic_cas(
    frame: Frame,
    op: tile.AtomicCas,
    view: View,
    offset: Array,
    expected: Array,
    x: Array,
    mask: Array | None = None,
) -> Sequence[Array]:
    def update(index: Array, wanted: Array, new: Array) -> tuple[Array, Array]:
        return atomics.compare_and_swap(view, index, wanted, new)

    return [_atomically(frame, op, view, offset, mask, update, expected, x)]


def _atomically(
    frame: Frame,
    op: tile.Atomic | tile.AtomicCas,
    view: View,
    offset: Array,
    mask: Array | None,
    update: Callable[..., tuple[Array, Array]],
    *values: Array,
) -> Array:
    """Updates an element for each lane of each program, in that order; gives the old ones."""
    if is_beyond(op.offset, offset):
        frame.check_fits(op, op.offset, offset, mask)
    index, active = _reach(frame, op, view, offset, mask)
    shape = (len(frame.programs), *element_type(op.result.type).shape)
    old = np.zeros(shape, scalar.storage(view.dtype))
    if view.size:
        stamps = _stamps(frame, op, view, index.ndim)
        index, stamps, *lanes = _lanes(shape, active, index, stamps, *values)
        _note(frame, op, view, Use.ATOMIC, index, stamps)
        where = np.broadcast_to(True if active is None else active, shape)
        old[where], wrote = update(index, *lanes)
        view.leave(index[wrote], stamps[wrote])
    return old


# What combines elements.


@interpretation(tile.Dot)
def dot(
    frame: Frame, op: tile.Dot, a: Array, b: Array, acc: Array | None = None
) -> Sequence[Array]:
    dtype = op.result.type.element
    left, right = _matrices(op.a, a), _matrices(op.b, b)
    for x in (left, right) if op.tf32 else ():
        if scalar.beyond_tf32(x).any():
            frame.fail(op, scalar.beyond_tf32(x), "an operand is no number of tf32")
    total = product(dtype, left, right)
    if acc is not None:
        with np.errstate(all="ignore"):
            total = total + acc
    exact = dtype is f32 or not dtype.is_float
    return [total if exact else scalar.round_to(dtype, total)]


def _matrices(value: Value, x: Array) -> Array:
    """Whole matrices, as NumPy multiplies them fast."""
    whole = _full(value, x)
    return whole if whole.shape == x.shape else np.ascontiguousarray(whole)


@interpretation(tile.Reduce)
def reduce(frame: Frame, op: tile.Reduce, x: Array, places: Array | None = None) -> Sequence[Array]:
    dtype, whole, axis = op.x.type.element, _full(op.x, x), 1 + op.axis
    if places is not None:
        return [reductions.least_place(op.kind, whole, places, axis)]
    return [reductions.reduce(op.kind, dtype, whole, axis)]


@interpretation(tile.Scan)
def scan(frame: Frame, op: tile.Scan, x: Array) -> Sequence[Array]:
    dtype = op.x.type.element
    return [reductions.scan(op.kind, dtype, _full(op.x, x), 1 + op.axis)]


# Reports.


@interpretation(tile.Assert)
def check(frame: Frame, op: tile.Assert, condition: Array) -> Sequence[Array]:
    if not all_of(condition):
        frame.fail(op, ~condition, f"assertion failed: {op.message}")
    return []


@interpretation(tile.Print)
def report(
    frame: Frame, op: tile.Print, *values: Array, there: Array | None = None
) -> Sequence[Array]:
    columns = []
    for value, x in zip(op.values, values, strict=True):
        whole = np.broadcast_to(x, (len(frame.programs), *element_type(value.type).shape))
        columns.append((value.type.element, whole))
    for row, number in enumerate(frame.programs.tolist()):
        if there is not None and not there[row]:
            continue
        place = ",".join(map(str, frame.launch.program(number)))
        words = [f"{op.prefix}[program ({place})]"]
        words += [_text(dtype, whole[row]) for dtype, whole in columns]
        frame.launch.printed.append((number, " ".join(words)))
    return []


def _text(dtype: DType, x: Array) -> str:
    """Numbers in as few digits as tell them from others of their dtype."""
    bits = scalar.to_bits(dtype, np.asarray(x))
    return np.array2string(
        bits, separator=", ", formatter={"int": lambda b: text(int(b), dtype)}, threshold=1000
    )
