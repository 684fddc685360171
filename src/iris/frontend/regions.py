"""What rewritten control flow asks while it is traced: which region to trace into, with what.

A loop's body is traced with a region argument for each variable that it changes.  Which those are,
and of what types, is found by tracing: where a round ends with something that does not fit what
the body was traced with, the ops are dropped and the body is traced again.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NoReturn

from iris.errors import (
    CarriedError,
    ControlFlowError,
    DTypeError,
    PointerError,
    ScopeError,
    UserError,
)
from iris.frontend.tracing import current, error_at, error_here, location
from iris.frontend.values import (
    Pointer,
    Traced,
    as_offset,
    as_traced,
    cast,
    compare,
    constant,
    emit,
    is_number,
    promote,
    spread,
    strong_dtype,
)
from iris.ir import control, math
from iris.ir.core import Op, Region, Value
from iris.ir.effects import may_speculate
from iris.ir.math import Predicate
from iris.ir.types import DType, bool_, f32, i32

MOST_ROUNDS = 8  # of tracing one body: each can only widen what is carried


class Missing:
    """Stands for a variable that has no value here; any use of it is an error that says why."""

    def __init__(self, name: str, why: str):
        self.__dict__.update(_name=name, _why=why)

    def reject_use(self) -> NoReturn:
        raise error_here(ScopeError, f"{self._name} {self._why}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.reject_use()


def _rejecting(self: Missing, *operands: object) -> NoReturn:
    self.reject_use()


_BINARY: tuple[str, ...] = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
)
_BINARY += ("lshift", "rshift")
_UNARY = ("neg", "pos", "abs", "invert", "bool", "int", "float", "index", "iter", "len")
_OTHERS = ("lt", "le", "gt", "ge", "getitem", "call")
for _word in (*_BINARY, *(f"r{word}" for word in _BINARY), *_UNARY, *_OTHERS):
    setattr(Missing, f"__{_word}__", _rejecting)


def values_of(names: Sequence[str], scope: Mapping[str, object]) -> dict[str, object]:
    """The variables of some names that have a value."""
    return {n: scope[n] for n in names if n in scope and not isinstance(scope[n], Missing)}


def named(name: str, value: object) -> None:
    """Called after an assignment: the IR keeps the user's names."""
    if isinstance(value, Pointer):
        value = value.offset
    if isinstance(value, Traced) and value.value.name is None:
        value.value.name = name


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


# Carried variables.


class _Slot:
    """A variable that is carried: by its value, or as the offset of a pointer."""

    def __init__(self, name: str, start: object, dtype: DType, shape: tuple[int, ...], weak: bool):
        self.name = name
        self.start = start
        self.dtype = dtype
        self.shape = shape
        self.weak = weak  # it started as a Python number, whose dtype may still change

    def initial(self) -> Value:
        """Its value before the loop."""
        start = _offset(self.start) if isinstance(self.start, Pointer) else self.start
        return spread(cast(start, self.dtype), self.shape).value

    def wrap(self, value: Value) -> object:
        """What the variable is in the body, or after the loop."""
        if value.name is None:
            value.name = self.name
        traced = Traced(value)
        if isinstance(self.start, Pointer):
            return Pointer(self.start.base, self.start.name, self.start.rank, traced)
        return traced

    def accept(self, new: object) -> Traced | None:
        """What a round ends with, in the type that is carried; None if that has to widen first."""
        if isinstance(self.start, Pointer):
            new = _offset_of(new, self.start, self.name)
        if not isinstance(new, Traced) and not is_number(new):
            raise error_here(CarriedError, f"{self.name} starts as a number, but becomes {new!r}")
        dtype, shape = self.dtype, self.shape
        traced = constant(new, dtype) if _fits(new, dtype) else as_traced(new)  # type: ignore[arg-type]
        if traced.shape != shape and traced.shape:
            if shape:
                raise _changed(self.name, traced, f"its shape is {shape} at first")
            self.shape = traced.shape
        if traced.dtype is not dtype:
            wider = promote(dtype, traced.dtype)
            if self.weak and traced.dtype.is_float:
                wider = promote(wider, f32)
            if not self.weak:
                raise _changed(self.name, traced, f"its dtype is {dtype} at first")
            self.dtype = wider
        if (self.dtype, self.shape) != (dtype, shape):
            return None
        return spread(cast(traced, dtype), shape)


def _fits(new: object, dtype: DType) -> bool:
    """Whether a Python number is one of the dtype."""
    return is_number(new) and (dtype.is_float or strong_dtype(new).kind is dtype.kind)  # type: ignore[arg-type]


def _slot(name: str, start: object, new: object) -> _Slot:
    """The slot for a variable that a round changes from `start` to `new`."""
    if isinstance(start, Pointer):
        offset = _offset(start)
        return _Slot(name, start, offset.dtype, offset.shape, weak=False)
    if isinstance(start, Traced):
        return _Slot(name, start, start.dtype, start.shape, weak=False)
    if is_number(start) and (is_number(new) or isinstance(new, Traced)):
        number: Any = start
        dtype = strong_dtype(number)
        shape: tuple[int, ...] = ()
        if isinstance(new, Traced):
            # At least f32, so that sums of f16 are not made in f16.
            meets = promote(new.dtype, f32) if new.dtype.is_float else new.dtype
            dtype = meets if not dtype.is_float else promote(f32, meets)
            shape = new.shape
        return _Slot(name, start, dtype, shape, weak=True)
    raise error_here(
        CarriedError,
        f"{name} changes in a traced loop from {_shown(start)} to {_shown(new)}; a loop carries "
        "numbers, tiles and pointers only",
    )


def _offset(pointer: Pointer) -> Traced:
    return as_offset(0) if pointer.offset is None else pointer.offset


def _offset_of(new: object, start: Pointer, name: str) -> Traced:
    if not isinstance(new, Pointer) or new.base is not start.base:
        raise error_here(
            PointerError, f"{name} starts as {start!r}, and must stay a pointer to the same array"
        )
    return _offset(new)


def _changed(name: str, new: Traced, was: str) -> UserError:
    """The error for a carried variable that changes its type, at the line that changes it."""
    message = f"{name} becomes {new}, but {was}; a loop or branch cannot change that"
    made = new.value.op.location if new.value.op is not None else None
    if made is None:
        return error_here(CarriedError, message)
    return error_at(CarriedError, message, made.file, made.line)


def _shown(x: object) -> str:
    return repr(x) if is_number(x) or isinstance(x, (Traced, Pointer)) else f"a {type(x).__name__}"


def _same(a: object, b: object) -> bool:
    """Whether a variable did not change."""
    if a is b:
        return True
    if isinstance(a, Traced) and isinstance(b, Traced):
        return a.value is b.value
    if isinstance(a, Pointer) and isinstance(b, Pointer):
        return a.base is b.base and _same(a.offset, b.offset)
    if isinstance(a, (Traced, Pointer)) or isinstance(b, (Traced, Pointer)):
        return False
    return type(a) is type(b) and bool(a == b)


def _is_local(value: object) -> bool:
    return isinstance(value, (Traced, Pointer))


class _Loop:
    """What `for` and `while` share: the variables and what they carry."""

    def __init__(self, names: Sequence[str], scope: Mapping[str, object]):
        self.traced = False
        self.names = names
        self.before = values_of(names, scope)
        self.slots: dict[str, _Slot] = {}
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
                self.slots[name] = _slot(name, start, start)

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
            if name not in self.slots and not _same(start, scope.get(name)):
                self.slots[name] = _slot(name, start, scope.get(name))
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
            elif name in self.last and not _is_local(self.last[name]):
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
        current().builder.region = self.outer  # type: ignore[assignment]


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
            elif _same(a, b):
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
                merged[index] = Pointer(old.base, old.name, old.rank, new)
            else:
                merged[index] = new
        return tuple(merged)


def merge(name: str, regions: Sequence[Region], values: list[object]) -> list[Traced]:
    """Values from the ends of two regions, in one type."""
    builder = current().builder
    outer = builder.region
    pointer = next((v for v in values if isinstance(v, Pointer)), None)
    made: list[Traced] = []
    try:
        for region, value in zip(regions, values, strict=True):
            builder.region = region
            if pointer is not None:
                value = _offset_of(value, pointer, name)
            if not isinstance(value, Traced) and not is_number(value):
                raise error_here(
                    CarriedError,
                    f"{name} is {_shown(values[0])} or {_shown(values[1])}, depending on a traced "
                    "condition; that works for numbers, tiles and pointers only",
                )
            other = next((v for v in values if isinstance(v, Traced)), None)
            made.append(as_traced(value, other.dtype if other is not None else None))
        first, second = made
        dtype = promote(first.dtype, second.dtype)
        both = all(isinstance(v, Traced) for v in values)
        shapes = {first.shape, second.shape} - {()}
        if len(shapes) > 1 or (both and first.dtype is not second.dtype):
            # Blame what a branch made, rather than what was there before it.
            made_here = second.value.home is regions[1]
            one, other = (second, first) if made_here else (first, second)
            raise _changed(name, one, f"it is {other} in the other branch")
        shape = first.shape or second.shape
        for index, region in enumerate(regions):
            builder.region = region
            made[index] = spread(cast(made[index], dtype), shape)
    finally:
        builder.region = outer
    return made


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
        return Pointer(pointer.base, pointer.name, pointer.rank, result)
    return result


def leaving(word: str, *regions: _Loop | If) -> None:
    """Called before `break`, `continue` and `return`, with the statements these leave."""
    if any(region.traced for region in regions):
        raise error_here(
            ControlFlowError,
            f"{word} cannot depend on a traced value: a traced loop or branch runs to its end; "
            "carry a condition and use iris.where or if instead",
        )
