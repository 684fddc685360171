"""Programs that run together, op by op, and how they part and meet again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from operator import is_
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from iris.errors import ArgumentError, ProgramError
from iris.interp.address import AddressArithmetic, address_parts, beyond, is_beyond
from iris.interp.lifetimes import last_uses
from iris.interp.memory import Shadow, View, memory_dtype, share_shadows
from iris.interp.observer import Observer
from iris.interp.operands import Masked, Operands
from iris.interp.quick import all_of, any_of
from iris.ir import scalar, tile
from iris.ir.control import For, Func, Loop
from iris.ir.core import Facet, Op, Region, Value
from iris.ir.effects import effects_within, writes
from iris.ir.literal import encode
from iris.ir.math import element_type
from iris.ir.types import ElementType, Ptr, Staged, Tile
from iris.ir.updates import made_of

Array = npt.NDArray[Any]
Grid = tuple[int, int, int]

interpretation = Facet("interpretation")
# What becomes of elements that do not count: `rule(frame, op, operands)`; see masked.py.
masking = Facet("rule for masked elements")


class Step(NamedTuple):
    """An op, made ready to run again and again."""

    op: Op
    rule: Callable[..., Sequence[Any]]
    dying: tuple[Value, ...]  # what is used for the last time


class Launch:
    """What all programs of a launch share."""

    def __init__(
        self,
        function: Func,
        grid: Grid,
        arguments: Sequence[Any],
        shadows: Callable[[int, int, int], Shadow] = Shadow,
        observer: Observer | None = None,
    ):
        """`shadows` makes what notes accesses, of so many units, programs and sites."""
        self.observer = observer or Observer()
        self.function = function
        self.grid = grid
        self.count = prod(grid)
        self.addresses = AddressArithmetic(function)
        self.printed: list[tuple[int, str]] = []
        self.plans: dict[Region, list[Step]] = {}
        self._updates: dict[Op, list[bool]] = {}
        for op in function.walk():
            if any(is_pointer(v) for v in op.results):
                raise op.invalid("a pointer can only be an argument of the function")
        self.has_masks = any(isinstance(op, tile.MaskedLoad) for op in function.walk())
        self.accesses = [op for op in function.walk() if any(is_pointer(v) for v in op.operands)]
        self.sites = {op: site for site, op in enumerate(self.accesses)}
        parameters = function.body.arguments
        if len(arguments) != len(parameters):
            raise ArgumentError(
                f"{function.symbol} takes {len(parameters)} arguments, not {len(arguments)}"
            )
        self.arguments = [_bind(v, x) for v, x in zip(parameters, arguments, strict=True)]
        views = {
            v: x for v, x in zip(parameters, self.arguments, strict=True) if isinstance(x, View)
        }
        touched = set(writes(effects_within(function)))
        written = [view for value, view in views.items() if value in touched]
        for view in written:
            if not view.array.flags.writeable:
                raise ArgumentError(f"{view.name} is written, but its array is read-only")
        self.stored = [view.array for view in written]

        def make(units: int) -> Shadow:
            return shadows(units, self.count, len(self.accesses))

        share_shadows(list(views.values()), written, make)

    def program(self, number: int) -> tuple[int, int, int]:
        """Where in the grid a program is."""
        x, y, _ = self.grid
        return number % x, number // x % y, number // (x * y)

    def updates(self, op: Loop) -> list[bool]:
        """Which of the values that a loop carries it makes of themselves, element by element."""
        found = self._updates.get(op)
        if found is None:
            made = [made_of(c.yielded, partial(is_, c.argument)) for c in op.carried()]
            found = self._updates[op] = made
        return found

    def plan(self, region: Region) -> list[Step]:
        steps = self.plans.get(region)
        if steps is None:
            steps = self.plans[region] = _plan(region)
        return steps


def is_pointer(value: Value) -> bool:
    return isinstance(value.type, Ptr)


def _bind(parameter: Value, argument: Any) -> Any:
    """An argument as a value."""
    name, type_ = parameter.name or f"argument {parameter.index}", parameter.type
    if isinstance(type_, Ptr):
        wanted = memory_dtype(type_.element)
        if not isinstance(argument, np.ndarray) or argument.dtype != wanted:
            have = getattr(argument, "dtype", type(argument).__name__)
            raise ArgumentError(f"{name} must be an array of {wanted}, not {have}")
        return View(name, type_, argument)
    element, shape = type_.element, element_type(type_).shape
    if shape:
        return np.asarray(argument, scalar.storage(element)).reshape(1, *shape)
    number = argument.item() if isinstance(argument, np.generic) else argument
    try:
        return scalar.from_bits(element, np.array([encode(number, element)], np.uint64))
    except OverflowError as error:
        raise ArgumentError(f"{name}: {error}") from None


def _plan(region: Region) -> list[Step]:
    return [Step(op, interpretation[type(op)], dying) for op, dying in last_uses(region)]


class Frame:
    """Some of the programs, running together, and their values."""

    __slots__ = ("launch", "origin", "programs", "values")

    def __init__(self, launch: Launch, programs: Array, origin: tuple[Frame, Array] | None = None):
        self.launch = launch
        self.programs = programs
        self.values: dict[Value, Any] = {}
        self.origin = origin  # the frame that these programs left, and their places in it

    def only(self, kept: Array) -> Frame:
        """A frame for the programs at some places of this one."""
        return type(self)(self.launch, self.programs[kept], (self, kept))

    def __getitem__(self, value: Value) -> Any:
        found = self.values.get(value)
        if found is None:
            assert self.origin is not None, f"{value!r} has not been computed"
            frame, kept = self.origin
            found = self.values[value] = take(frame[value], kept)
        return found

    def __contains__(self, value: Value) -> bool:
        """Whether a value has been computed, and may be used again."""
        return value in self.values or (self.origin is not None and value in self.origin[0])

    def runs(self, program: int, thread: int) -> bool:
        """Whether a program is one of these; it has one thread."""
        return thread == 0 and program in self.programs

    def part(self, value: Value, x: Any, program: int, thread: int) -> Any:
        """What one of the programs has of a value that is x for all; of an array, all."""
        if isinstance(x, View):
            return x.read(np.arange(x.size))
        shape = (len(self.programs), *held_by(value).shape)
        (row,) = np.flatnonzero(self.programs == program)
        data = np.broadcast_to(data_of(x), shape)[row]
        if not isinstance(x, Masked):
            return data
        return np.ma.masked_array(data, ~np.broadcast_to(x.counts, shape)[row])

    def run(self, region: Region, arguments: Sequence[Any]) -> list[Any]:
        """What the terminator of a region carries, the region being run."""
        values = self.values
        values.update(zip(region.arguments, arguments, strict=True))
        for op, rule, dying in self.launch.plan(region):
            values.update(zip(op.results, self.results(op, rule), strict=True))
            for value in dying:
                values.pop(value, None)
        return [self[v] for v in region.end.operands]

    def results(self, op: Op, rule: Callable[..., Sequence[Any]]) -> Sequence[Any]:
        """What an op gives, run by a rule."""
        operands = [self[v] for v in op.operands]
        if not self.has_masks(op, operands):
            return rule(self, op, *self.settled(op, operands))

        def run(*data: Any, **more: Any) -> Sequence[Any]:
            return rule(self, op, *self.settled(op, data), **more)

        found: Sequence[Any] = masking[type(op)](self, op, Operands(operands, run))
        return found

    def has_masks(self, op: Op, operands: Sequence[Any]) -> bool:
        """Whether not all elements that an op makes or takes count; regions see to theirs."""
        if not self.launch.has_masks or op.regions:
            return False
        return isinstance(op, tile.MaskedLoad) or any(isinstance(x, Masked) for x in operands)

    def kept(self, op: Loop, olds: Sequence[Any], news: Sequence[Any]) -> Sequence[Any]:
        """What the next iteration of a loop is given: where a new element does not count, the old
        one, of what is made of it."""
        if not self.launch.has_masks:
            return news
        found = []
        for own, old, new in zip(self.launch.updates(op), olds, news, strict=True):
            if own and isinstance(new, Masked):
                data = np.where(new.counts, new.data, data_of(old))
                new = Masked(data, new.counts | counts_of(old))
            found.append(new)
        return found

    def settled(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        """The operands as the op takes them."""
        return self._settle(op, operands) if self.launch.addresses.overflowed else operands

    def _settle(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        """The operands, an i32 that is kept with more bits cut down to its own unless the op
        is one of those that may yet make it fit."""
        addresses = self.launch.addresses
        if op in addresses.wrapping or op in addresses.moving:
            return operands
        settled = []
        for position, (value, x) in enumerate(zip(op.operands, operands, strict=False)):
            if isinstance(x, Masked):  # what a region carries
                settled.append(x)
                continue
            if is_beyond(value, x) and not _keeps_bits(op, position):
                if op in addresses.exact or value in address_parts(op) or isinstance(op, For):
                    self.check_fits(op, value, x, None)
                x = x.astype(np.int32)
            settled.append(x)
        return [*settled, *operands[len(settled) :]]

    # Reporting.

    def check_fits(self, op: Op, value: Value, x: Array, active: Array | None) -> None:
        """Reports a part of an address that does not fit i32."""
        bad = beyond(x) if active is None else beyond(x) & active
        if not any_of(bad):
            return
        culprit = self.launch.addresses.culprit(value) or op
        number = np.broadcast_to(x, bad.shape).reshape(-1)[bad.argmax()]
        self.fail(
            op,
            bad,
            f"32-bit overflow in an address: i32 does not hold {number}; use i64 from "
            f"{culprit.name} on",
            culprit,
        )

    def fail(
        self,
        op: Op,
        where: Array,
        message: str,
        *others: Op,
        view: View | None = None,
        index: Array | None = None,
    ) -> NoReturn:
        """Reports the first of the places where something is wrong."""
        first = int(where.argmax())
        row = first // prod(where.shape[1:]) if len(where) > 1 else 0
        program = self.launch.program(int(self.programs[row]))
        at = None
        if index is not None:
            at = int(np.broadcast_to(index, where.shape).reshape(-1)[first])
            message = f"index {at} {message}"
        raise ProgramError(
            f"{message}, in program {program}",
            program=program,
            array=None if view is None else view.name,
            index=at,
            locations=[o.location for o in dict.fromkeys((op, *others)) if o.location is not None],
        )


class ObservedFrame(Frame):
    """Programs of a launch that has an observer."""

    __slots__ = ()

    def results(self, op: Op, rule: Callable[..., Sequence[Any]]) -> Sequence[Any]:
        self.launch.observer.before(self, op)
        found = super().results(op, rule)
        self.launch.observer.after(self, op, found)
        return found


def _keeps_bits(op: Op, position: int) -> bool:
    if op.loops:
        return position >= len(op.spec.fixed)  # what it carries
    value = op.operands[position]
    return value in address_parts(op) and not isinstance(op, tile.TileAccess)


def loop(
    frame: Frame,
    carried: Sequence[Any],
    again: Callable[[Frame, Array, Sequence[Any]], Array],
    once: Callable[[Frame, Array, Sequence[Any]], Sequence[Any]],
) -> Sequence[Any]:
    """Runs a loop for as long as some programs go on, each of which leaves when it is done."""
    inner, kept = frame, np.arange(len(frame.programs))
    left: list[tuple[Array, Sequence[Any]]] = []
    while True:
        more = again(inner, kept, carried)
        if not all_of(more):
            leaving = np.flatnonzero(np.broadcast_to(~more, len(kept)))
            left.append((kept[leaving], [take(x, leaving) for x in carried]))
            if len(leaving) == len(kept):
                return join(frame, left)
            staying = np.flatnonzero(more)
            kept = kept[staying]
            carried = [take(x, staying) for x in carried]
            inner = frame.only(kept)
        carried = once(inner, kept, carried)


def join(frame: Frame, parts: Sequence[tuple[Array, Sequence[Any]]]) -> Sequence[Any]:
    """The values of programs that had parted; each part is some programs and their values."""
    if len(parts) == 1:
        return parts[0][1]
    joined: list[Any] = []
    places = [kept for kept, _ in parts]
    for values in zip(*[values for _, values in parts], strict=True):
        if any(isinstance(x, Masked) for x in values):
            data = _whole(frame, places, [data_of(x) for x in values])
            joined.append(Masked(data, _whole(frame, places, [counts_of(x) for x in values])))
        else:
            joined.append(_whole(frame, places, values))
    return joined


def _whole(frame: Frame, places: Sequence[Array], parts: Sequence[Array]) -> Array:
    shape = np.broadcast_shapes(*[x.shape[1:] for x in parts])
    whole = np.empty((len(frame.programs), *shape), np.result_type(*parts))
    for kept, x in zip(places, parts, strict=True):
        whole[kept] = x
    return whole


def data_of(x: Any) -> Any:
    return x.data if isinstance(x, Masked) else x


def counts_of(x: Any) -> Array:
    """Which elements of a value count, with as many axes as it has."""
    return x.counts if isinstance(x, Masked) else np.ones((1,) * x.ndim, np.bool_)


def holds(condition: Any) -> Array:
    """Where a condition holds: nowhere that it does not count."""
    return condition.data & condition.counts if isinstance(condition, Masked) else condition


def bounds_of(lower: Any, upper: Any, step: Any) -> tuple[Array, Array, Array]:
    """What a loop goes over: nothing if one of its bounds does not count."""
    if not any(isinstance(x, Masked) for x in (lower, upper, step)):
        return lower, upper, step
    counts = counts_of(lower) & counts_of(upper) & counts_of(step)
    lower, upper, step = (data_of(x) for x in (lower, upper, step))
    one = step.dtype.type(1)
    return lower, np.where(counts, upper, lower), np.where(counts, step, one)


def held_by(value: Value) -> ElementType:
    """The elements that a value holds; a staged tile holds those of the tile."""
    type_ = value.type
    return Tile(type_.shape, type_.element) if isinstance(type_, Staged) else element_type(type_)


def take(x: Any, kept: Array) -> Any:
    """A value for some of the programs."""
    if isinstance(x, Masked):
        return Masked(take(x.data, kept), take(x.counts, kept))
    return x if isinstance(x, View) or len(x) == 1 else x[kept]
