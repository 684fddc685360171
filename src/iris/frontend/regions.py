"""What rewritten control flow asks while it is traced: which region to trace into, with what.

A loop's body is traced with a region argument for each variable that it changes.  Which those are,
and of what types, is found by tracing: where a round ends with something that does not fit what
the body was traced with, the ops are dropped and the body is traced again.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from iris.errors import (
    CarriedError,
    ControlFlowError,
    DTypeError,
    SourceSpot,
)
from iris.frontend.carried import (
    Missing,
    Slot,
    is_local,
    merge,
    named,
    same,
    slot_for,
    values_of,
)
from iris.frontend.tracing import current, error_here, location
from iris.frontend.values import (
    Pointer,
    Traced,
    as_traced,
    cast,
    compare,
    constant,
    emit,
    is_number,
    promote,
)
from iris.ir import control, math, tile
from iris.ir.core import Op, Region, Value
from iris.ir.effects import may_speculate
from iris.ir.math import Predicate
from iris.ir.types import DType, bool_, i32
from iris.ir.waiting import deciding_values, stands_still

# Rewritten code calls what is here by these names, `named` among them.
__all__ = [
    "AGAIN",
    "LEAVE",
    "For",
    "If",
    "While",
    "all_of",
    "any_of",
    "choice",
    "leaving",
    "named",
    "negation",
    "range_of",
]

MOST_ROUNDS = 8  # of tracing one body: each can only widen what is carried


class TracedRange:
    """A range whose loop is one of the program's."""

    def __init__(self, lower: Traced, upper: Traced, step: Traced):
        self.lower, self.upper, self.step = lower, upper, step


def traced_range(*bounds: object) -> TracedRange:
    """The range that `range` makes of the same arguments."""
    if not 1 <= len(bounds) <= 3:
        raise error_here(ControlFlowError, f"a range takes 1 to 3 integers, not {len(bounds)}")
    lower, upper, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    traced = [as_traced(x) for x in (lower, upper, step)]
    dtype: DType = i32
    for x in traced:
        if x.shape or not x.dtype.is_integer:
            raise error_here(DTypeError, f"a range goes over scalar integers, not {x}")
        dtype = promote(dtype, x.dtype)
    if is_number(step) and step == 0:
        raise error_here(ControlFlowError, "the step of a range must not be 0")
    return TracedRange(*[cast(x, dtype) for x in traced])


def range_of(function: object) -> Any:
    """What to call for `range(...)`: of traced integers it is a range of the program."""
    if function is not builtins.range:
        return function
    return lambda *b: traced_range(*b) if any(isinstance(x, Traced) for x in b) else range(*b)


# Statements.


class _Loop:
    """What `for` and `while` share: the variables and what they carry."""

    def __init__(self, names: Sequence[str], scope: Mapping[str, object]):
        self.traced = False
        self.names = names
        self.before = values_of(names, scope)
        self.slots: dict[str, Slot] = {}
        self.op: Op | None = None
        self.done = False
        self.last: dict[str, object] = {}
        self.where = ""

    @property
    def made(self) -> Op:
        """The op that stands for the loop."""
        if self.op is None:
            raise error_here(ControlFlowError, "the loop has not been traced")
        return self.op

    def begin(self) -> None:
        """Note the line of the loop; what is traced already is carried."""
        self.traced = True
        here = location()
        self.where = f"line {here.line}" if here else "above"
        for name, start in self.before.items():
            if isinstance(start, Traced):
                self.slots[name] = slot_for(name, start, start)

    def variables(self, arguments: Sequence[Value]) -> list[object]:
        """The value of each variable at the start of a round."""
        carried = dict(zip(self.slots, arguments, strict=True))
        values: list[object] = []
        for name in self.names:
            if name in carried:
                values.append(self.slots[name].wrap(carried[name]))
            else:
                missing = Missing(name, "has no value yet in the first round of the loop")
                values.append(self.before.get(name, missing))
        return values

    def round_ends(self, scope: Mapping[str, object]) -> list[Value] | None:
        """The values to carry on, or None if the body must be traced again."""
        self.last = values_of(self.names, scope)
        again = False
        for name, start in self.before.items():
            if name not in self.slots and not same(start, scope.get(name)):
                self.slots[name] = slot_for(name, start, scope.get(name))
                again = True
        if again:
            return None
        accepted = [slot.accept(scope.get(name)) for name, slot in self.slots.items()]
        ends = [a.value for a in accepted if a is not None]
        return ends if len(ends) == len(accepted) else None

    def results(self, names: Sequence[str]) -> tuple[object, ...]:
        """The value of each variable after the loop."""
        carried = dict(zip(self.slots, self.made.results, strict=True))
        values: list[object] = []
        for name in names:
            if name in carried:
                values.append(self.slots[name].wrap(carried[name]))
            elif name in self.before:
                values.append(self.before[name])
            elif name in self.last and not is_local(self.last[name]):
                values.append(self.last[name])
            else:
                why = f"belongs to the loop at {self.where}: "
                if name in self.names:
                    why += "give it a value before the loop"
                else:
                    why += "it counts its rounds; carry another variable out of it"
                values.append(Missing(name, why))
        return tuple(values)

    def discard(self) -> None:
        """Drop what has been traced of the loop, to trace it again."""
        if self.op is not None:
            self.op.erase()
            self.op = None


class For(_Loop):
    """A `for`, traced if its iterable is a range of the program."""

    def __init__(self, iterable: Any, names: Sequence[str], scope: Mapping[str, object]):
        super().__init__(names, scope)
        self.iterable = iterable
        if isinstance(iterable, TracedRange):
            self.begin()
        elif isinstance(iterable, (Traced, Missing)):
            iter(iterable)

    def __iter__(self) -> Iterator[object]:
        return self._rounds() if self.traced else iter(self.iterable)

    def _rounds(self) -> Iterator[object]:
        builder = current().builder
        outer = builder.region
        bounds = [self.iterable.lower, self.iterable.upper, self.iterable.step]
        for _ in range(MOST_ROUNDS):
            self.discard()
            initial = [slot.initial() for slot in self.slots.values()]
            op = control.For(*[b.value for b in bounds], initial)
            self.op = current().insert(op)
            builder.region = op.body
            try:
                yield Traced(op.body.arguments[0])
            finally:
                builder.region = outer
            if self.done:
                return
        raise error_here(CarriedError, "what this loop carries does not settle to one type")

    def start(self) -> tuple[object, ...]:
        return tuple(self.variables(self.made.regions[0].arguments[1:]))

    def finish(self, scope: Mapping[str, object]) -> None:
        ends = self.round_ends(scope)
        if ends is not None:
            current().insert(control.Yield(ends))
            self.done = True


class Verdict(Enum):
    """What a rewritten `while` does next."""

    GO = "run the body"
    LEAVE = "leave the loop"
    AGAIN = "ask for the condition again"


LEAVE, AGAIN = Verdict.LEAVE, Verdict.AGAIN


class While(_Loop):
    """A `while`, traced if its condition turns out to be."""

    def __init__(self, names: Sequence[str], scope: Mapping[str, object]):
        super().__init__(names, scope)
        self.outer: Region | None = None
        self.mark: Op | None = None
        self.condition: Region | None = None
        self.rounds = 0
        self._mark()

    def _mark(self) -> None:
        builder = current().builder
        self.outer, self.mark = builder.region, builder.region.last

    def _drop_condition(self) -> None:
        """Erase the ops of a condition that was only looked at."""
        for op in reversed(self.outer):  # type: ignore[arg-type]
            if op is self.mark:
                break
            op.erase()

    def start(self) -> tuple[object, ...]:
        if self.done:
            self._mark()
            return tuple(self.last.get(n) for n in self.names)
        self.rounds += 1
        if self.rounds > MOST_ROUNDS:
            raise error_here(CarriedError, "what this loop carries does not settle to one type")
        self.discard()
        self.op = current().insert(control.While([s.initial() for s in self.slots.values()]))
        current().builder.region = self.op.regions[0]
        return tuple(self.variables(self.op.regions[0].arguments))

    def decide(self, condition: object) -> Verdict:
        if self.done:
            self._drop_condition()
            return Verdict.LEAVE
        if not self.traced:
            if not isinstance(condition, Traced):
                return Verdict.GO if condition else Verdict.LEAVE
            as_condition(condition)
            self._drop_condition()
            self.begin()
            return Verdict.AGAIN
        current().insert(control.Yield([as_condition(condition).value]))
        return Verdict.GO

    def enter(self) -> tuple[object, ...]:
        body = self.made.regions[1]
        current().builder.region = body
        return tuple(self.variables(body.arguments))

    def finish(self, scope: Mapping[str, object]) -> None:
        ends = self.round_ends(scope)
        if ends is not None:
            current().insert(control.Yield(ends))
            self.done = True
            _check_changes(self.made)
        current().builder.region = self.outer  # type: ignore[assignment]


def _check_changes(loop: Op) -> None:
    """Refuse a loop that could only be ended by what it does not see."""
    assert isinstance(loop, control.While)
    if not stands_still(loop):
        return
    at_line = None if loop.location is None else SourceSpot.of_line(*loop.location)
    loads = (v.op for v in deciding_values(loop) if isinstance(v.op, tile.Load | tile.MaskedLoad))
    names = sorted({op.base.name or "an array" for op in loads})
    if not names:
        raise ControlFlowError("nothing in this loop changes its condition: it never ends", at_line)
    name = names[0]
    raise ControlFlowError(
        f"this loop waits for {name} to change, but a plain load gives the same each time; use "
        f"iris.load({name} + ..., volatile=True) or an atomic op to see what other programs write",
        at_line,
    )


class If:
    """An `if`, traced if its condition is."""

    def __init__(self, condition: object, names: Sequence[str], scope: Mapping[str, object]):
        self.traced = isinstance(condition, Traced)
        self.names = names
        if not self.traced:
            self.taken = bool(condition)
            return
        self.condition = as_condition(condition)
        self.before = values_of(names, scope)
        self.outer = current().builder.region
        self.branches: list[tuple[Region, dict[str, object]]] = []

    def then(self) -> bool:
        if not self.traced:
            return self.taken
        current().builder.region = Region()
        return True

    def otherwise(self) -> bool:
        if not self.traced:
            return not self.taken
        current().builder.region = Region()
        return True

    def start(self) -> tuple[object, ...]:
        missing = "has no value before this branch"
        return tuple(self.before.get(n, Missing(n, missing)) for n in self.names)

    def finish(self, scope: Mapping[str, object]) -> None:
        builder = current().builder
        values = {n: scope.get(n, Missing(n, "has no value")) for n in self.names}
        self.branches.append((builder.region, values))
        builder.region = self.outer

    def results(self, names: Sequence[str]) -> tuple[object, ...]:
        regions = [region for region, _ in self.branches]
        merged: list[object] = []
        carried: list[int] = []
        pairs: list[list[Traced]] = []
        for index, name in enumerate(names):
            a, b = (values[name] for _, values in self.branches)
            if isinstance(a, Missing) or isinstance(b, Missing):
                why = "has a value after only one of the branches; give it one before the if"
                merged.append(Missing(name, why))
            elif same(a, b):
                merged.append(a)
            else:
                pairs.append(merge(name, regions, [a, b]))
                carried.append(index)
                merged.append(a)
        op = branch(self.condition, regions, pairs)
        for index, value in zip(carried, op.results, strict=True):
            value.name = names[index]
            old = merged[index]
            new = Traced(value)
            if isinstance(old, Pointer):
                merged[index] = old.at(new)
            else:
                merged[index] = new
        return tuple(merged)


def branch(condition: Traced, regions: Sequence[Region], pairs: list[list[Traced]]) -> Op:
    """An `if` of two regions traced already, which yields a pair of values for each result."""
    for side, region in enumerate(regions):
        region.append(control.Yield([pair[side].value for pair in pairs]))
    types = [pair[0].value.type for pair in pairs]
    op = control.If.create((condition.value,), (), types, tuple(regions))
    return current().insert(op)


# Expressions.


def as_condition(x: object) -> Traced:
    """A scalar bool."""
    traced = as_traced(x)
    if traced.shape:
        bool(traced)
    return traced if traced.dtype is bool_ else compare(Predicate.NE, traced, 0)


def _traced_apart(function: Callable[[], object]) -> tuple[Region, object]:
    """Trace an expression into a region of its own."""
    builder = current().builder
    outer, builder.region = builder.region, Region()
    try:
        value = function()
        return builder.region, value
    finally:
        builder.region = outer


def all_of(*parts: Callable[[], object]) -> object:
    """`a and b`, where b runs only if a holds."""
    return _short_circuit(parts, stop=False)


def any_of(*parts: Callable[[], object]) -> object:
    """`a or b`, where b runs only if a does not hold."""
    return _short_circuit(parts, stop=True)


def _short_circuit(parts: Sequence[Callable[[], object]], *, stop: bool) -> object:
    first, *rest = parts
    value = first()
    if not rest:
        return value
    if not isinstance(value, Traced):
        return value if bool(value) is stop else _short_circuit(rest, stop=stop)
    if value.shape:
        word, operator = ("or", "|") if stop else ("and", "&")
        raise error_here(
            ControlFlowError, f"{word} is for scalar conditions; for tiles write {operator}"
        )
    condition = as_condition(value)

    def remaining() -> object:
        return as_condition(_short_circuit(rest, stop=stop))

    region, other = _traced_apart(remaining)
    traced: Any = other
    if _is_harmless(region):
        _unwrap(region)
        kind = math.Or if stop else math.And
        return emit(kind(condition.value, traced.value))
    known = Region()
    outer, current().builder.region = current().builder.region, known
    decided = constant(stop, bool_)
    current().builder.region = outer
    sides = [(known, decided), (region, traced)] if stop else [(region, traced), (known, decided)]
    op = branch(condition, [r for r, _ in sides], [[v for _, v in sides]])
    return Traced(op.results[0])


def _is_harmless(region: Region) -> bool:
    return all(may_speculate(op) for op in region)


def _unwrap(region: Region) -> None:
    """Move the ops of a region to where we are."""
    builder = current().builder
    for op in region:
        op.detach()
        builder.insert(op)


def negation(x: object) -> object:
    """`not x`."""
    if not isinstance(x, Traced):
        return not x
    if x.shape:
        raise error_here(ControlFlowError, "not is for scalar conditions; for tiles write ~")
    return emit(math.Not(as_condition(x).value))


def choice(condition: object, on_true: Callable[[], object], on_false: Callable[[], object]) -> Any:
    """`a if condition else b`, where only one of the two runs."""
    if not isinstance(condition, Traced):
        return on_true() if condition else on_false()
    wanted = as_condition(condition)
    sides = [_traced_apart(on_true), _traced_apart(on_false)]
    regions, values = [r for r, _ in sides], [v for _, v in sides]
    pair = merge("the value of this expression", regions, values)
    result = Traced(branch(wanted, regions, [pair]).results[0])
    pointer = next((v for v in values if isinstance(v, Pointer)), None)
    if pointer is not None:
        return pointer.at(result)
    return result


def leaving(word: str, *regions: _Loop | If) -> None:
    """Called before `break`, `continue` and `return`, with the statements these leave."""
    if any(region.traced for region in regions):
        raise error_here(
            ControlFlowError,
            f"{word} cannot depend on a traced value: a traced loop or branch runs to its end; "
            "carry a condition and use iris.where or if instead",
        )
