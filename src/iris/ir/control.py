"""Control flow, shared by all levels: functions, loops, branches, and what ends a region."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from iris.ir.attributes import Boolean, Integer, Integers, OneOf, Symbol, Types
from iris.ir.core import Level, Location, Op, Region, Value
from iris.ir.declare import CONDITION, INTEGER, attribute, operand, region, results, variadic
from iris.ir.math import Constant, constant_bits
from iris.ir.types import Type, bool_


class _Terminator(Op):
    """Ends a region, carrying values out of it."""

    terminator = True

    def check(self) -> None:
        parent = self.parent_op
        if self.parent is None or parent is None:
            return
        if isinstance(self, Return) is not parent.isolated:
            right = "return" if parent.isolated else "yield"
            raise self.invalid(f"the regions of {parent.name} end with {right}")
        expected = parent.expects(self.parent)
        if expected is None:
            raise self.invalid(f"{parent.name} does not carry values")
        have = [v.type for v in self.operands]
        for index, (one, other) in enumerate(zip(have, expected, strict=False)):
            if one is not other:
                raise self.invalid(
                    f"value {index} must be {other}, not {one}", at="values", index=index
                )
        if len(have) != len(expected):
            raise self.invalid(
                f"{parent.name} expects {len(expected)} values here, not {len(have)}",
                at="values",
                index=min(len(have), len(expected)),
            )

    def may_speculate(self) -> bool:
        return True


class Yield(_Terminator):
    """Ends a region of an op, carrying values out of it."""

    name = "yield"
    values: tuple[Value, ...] = variadic()


class Return(_Terminator):
    """Ends a function."""

    name = "return"
    values: tuple[Value, ...] = variadic()


class Func(Op):
    """A function: a kernel, or a whole graph.

    func tile @copy(%X: ptr<f32>, %Y: ptr<f32, noalias>) {
      ...
      return
    }

    `simdgroups` is the number that run a program, once it is decided. `fast_math` allows
    approximate functions and any order of sums. `grid` is the number of programs along each axis,
    where the function fixes it. `resident_programs` is how many a core is to hold at once, which
    limits the registers of a thread; with 0 these are as many as it needs.
    """

    name = "func"
    isolated = True
    function_level: Level = attribute(OneOf(Level))
    symbol: str = attribute(Symbol())
    returns: tuple[Type, ...] = attribute(Types(), ())
    simdgroups: int = attribute(Integer(0, 32), 0)
    fast_math: bool = attribute(Boolean(), False)
    grid: tuple[int, ...] = attribute(Integers(), ())
    resident_programs: int = attribute(Integer(0), 0)
    body: Region = region()

    def __init__(
        self,
        symbol: str,
        level: Level,
        arguments: Sequence[tuple[str | None, Type]] = (),
        *,
        returns: tuple[Type, ...] = (),
        simdgroups: int = 0,
        fast_math: bool = False,
        grid: tuple[int, ...] = (),
        location: Location | None = None,
    ):
        super().__init__(
            level,
            symbol,
            returns=returns,
            simdgroups=simdgroups,
            fast_math=fast_math,
            grid=grid,
            location=location,
        )
        for name, type_ in arguments:
            self.body.add_argument(type_, name)

    def infer(self) -> tuple[Type, ...]:
        return ()

    def expects(self, region: Region) -> Sequence[Type]:
        return self.returns

    def check(self) -> None:
        if self.simdgroups & (self.simdgroups - 1):
            raise self.invalid(f"{self.simdgroups} is no power of two", at="simdgroups")
        if self.grid and (len(self.grid) != 3 or min(self.grid) < 0):
            raise self.invalid("a grid has three sizes, none negative", at="grid")

    def set_returns(self, types: tuple[Type, ...]) -> None:
        self.set_attribute("returns", types)

    def set_simdgroups(self, count: int) -> None:
        self.set_attribute("simdgroups", count)

    def set_resident_programs(self, count: int) -> None:
        self.set_attribute("resident_programs", count)


class Carried(NamedTuple):
    """A value that a loop carries from one iteration to the next, under each of its names."""

    initial: Value
    arguments: tuple[Value, ...]  # one of each region, the body's last
    yielded: Value
    result: Value

    @property
    def argument(self) -> Value:
        return self.arguments[-1]


class Loop(Op):
    """Runs its regions again and again, carrying values along.  The last region is its body.

    `in_place` has the numbers of the carried values that live in the variables of their initial
    values, which nothing else reads: `reuse-registers` sets it.
    """

    loops = True
    in_place: tuple[int, ...] = attribute(Integers(), ())
    initial: tuple[Value, ...] = variadic(feeds=True)
    body: Region
    results = results()

    def infer(self) -> tuple[Type, ...]:
        return tuple([v.type for v in self.operands[len(self.spec.fixed) :]])

    def expects(self, region: Region) -> Sequence[Type]:
        return self.infer()

    def check(self) -> None:
        for number in self.in_place:
            if not 0 <= number < len(self.results):
                raise self.invalid(f"no carried value has the number {number}", at="in_place")

    @property
    def carried_arguments(self) -> list[Value]:
        """The arguments of the body that hold the carried values."""
        return self.body.arguments[leading(self, self.body) :]

    def carried(self) -> list[Carried]:
        arguments = zip(*[r.arguments[leading(self, r) :] for r in self.regions], strict=True)
        return list(map(Carried, self.initial, arguments, self.body.end.operands, self.results))

    def carried_at(self, index: int) -> Carried:
        arguments = tuple([r.arguments[leading(self, r) + index] for r in self.regions])
        yielded = self.body.end.operands[index]
        return Carried(self.initial[index], arguments, yielded, self.results[index])


def leading(op: Op, region: Region) -> int:
    """How many arguments of a region come before the carried values."""
    return len(region.arguments) - len(op.results)


def names_of(op: Op, index: int) -> list[Value]:
    """The result of an op, and the arguments of its regions, that hold one carried value."""
    arguments = [r.arguments[leading(op, r) + index] for r in op.regions if r.arguments]
    return [op.results[index], *arguments]


def carried(value: Value) -> Carried | None:
    """The carried value of a loop that has this name within the loop or after it, if any has."""
    loop = value.owner
    if not isinstance(loop, Loop):
        return None
    index = value.index if value.region is None else value.index - leading(loop, value.region)
    return loop.carried_at(index) if index >= 0 else None


def count_of(lower: int, upper: int, step: int) -> int:
    """`len(range(lower, upper, step))`, which itself goes up to 63 bits only."""
    return max(0, -((lower - upper) // step))


class For(Loop):
    """Runs its body for each of `range(lower, upper, step)`, carrying values along.

    %sum: f32 = for %c0, %n, %c1 (%i: i32, %s: f32 = %zero) {
      ...
      yield %next
    }

    A step of zero is a program error.  `nowrap` says that the last step, past the end, fits.
    """

    name = "for"
    nowrap: bool = attribute(Boolean(), False)
    lower: Value = operand(INTEGER)
    upper: Value = operand(INTEGER)
    step: Value = operand(INTEGER)
    body: Region = region()

    def region_arguments(self) -> Sequence[Sequence[Type]]:
        return [(self.operands[0].type, *self.infer())]

    def check(self) -> None:
        super().check()
        types = [v.type for v in self.operands[:3]]
        usual = max(types, key=types.count)
        for field, type_ in zip(self.spec.fixed, types, strict=True):
            if type_ is not usual:
                raise self.invalid(
                    f"lower, upper and step must have one type; {field.name} is {type_}, "
                    f"another is {usual}",
                    at=field.name,
                )

    def trip_count(self) -> int | None:
        """How often the body runs, where the bounds are constants and the step not zero."""
        bounds = [_constant(v) for v in self.operands[:3]]
        if None in bounds or bounds[2] == 0:
            return None
        return count_of(*[b for b in bounds if b is not None])

    def surely_runs(self, region: Region) -> bool:
        return bool(self.trip_count())

    def may_speculate(self) -> bool:
        return not self.nowrap and constant_bits(self.step) not in (None, 0)


class While(Loop):
    """Runs its body as long as the condition region yields true, carrying values along.

    %x: f32 = while (%a: f32 = %start) {
      ...
      yield %more
    } do (%b: f32) {
      ...
      yield %next
    }
    """

    name = "while"
    condition: Region = region()
    body: Region = region("do")

    def region_arguments(self) -> Sequence[Sequence[Type]]:
        return [self.infer(), self.infer()]

    def expects(self, region: Region) -> Sequence[Type]:
        return (bool_,) if region is self.condition else super().expects(region)

    def forwards(self, region: Region) -> bool:
        return region is self.body

    def surely_runs(self, region: Region) -> bool:
        return region is self.condition

    def ends(self) -> bool:
        return False  # as far as is known

    def may_speculate(self) -> bool:
        return False


class If(Op):
    """Runs one of two regions; its results are what that one yields.

    %y: f32 = if %positive {
      yield %x
    } else {
      yield %zero
    }
    """

    name = "if"
    condition: Value = operand(CONDITION)
    then: Region = region()
    otherwise: Region = region("else")
    results = results()

    def expects(self, region: Region) -> Sequence[Type]:
        return [v.type for v in self.results]

    def may_speculate(self) -> bool:
        return True


def carried_together(op: Loop | If) -> Iterator[tuple[Value, ...]]:
    """For each result of a loop or branch, that and all values that it carries there: they are of
    one type."""
    if isinstance(op, If):
        return zip(op.results, *[r.end.operands for r in op.regions], strict=True)
    return ((c.result, c.initial, *c.arguments, c.yielded) for c in op.carried())


def _constant(value: Value) -> int | None:
    op = value.op
    return int(op.value) if isinstance(op, Constant) else None
