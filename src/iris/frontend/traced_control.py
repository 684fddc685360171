"""Trace rewritten `for`, `while` and `if` into regions of IR.

The body of a loop is traced with a region argument for each variable that it changes.  Tracing
finds these variables and their types: where an iteration ends with a variable of another type than
the argument has, the ops are erased and the body is traced again.
"""

from __future__ import annotations

import builtins
import functools
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from types import CellType
from typing import Any, Generic

from iris.errors import (
    CarriedError,
    ControlFlowError,
    DTypeError,
    SourceSpot,
    UserError,
)
from iris.frontend.assignment import assign, assigning, changed, reached, updated, updated_at
from iris.frontend.loop_variables import (
    UNNEEDED,
    CarriedValue,
    Clashing,
    Missing,
    RegionEnd,
    Slot,
    Tree,
    Unchanged,
    assigned,
    carried_tree,
    check_structure,
    check_unchanged,
    forget,
    is_local,
    is_simple,
    is_unchanged,
    merge_trees,
    named,
    noted,
    slot_for,
    values_of,
)
from iris.frontend.numbers import as_variable, carry
from iris.frontend.objects import Place, Reach, Watched, alike, ask, contents
from iris.frontend.returns import PATHS, RESULT, RETURNED
from iris.frontend.rewriting import rewritten_callable
from iris.frontend.tracing import at_line, current, error_here, location, user_frame
from iris.frontend.values import (
    Traced,
    as_traced,
    binary,
    cast,
    compare,
    constant,
    emit,
    emit_assert,
    is_natural,
    is_number,
    natural,
    promote,
    spread,
    unify,
)
from iris.ir import control, math, tile
from iris.ir.core import AnyOp, Location, Op, Region, Value
from iris.ir.effects import may_speculate
from iris.ir.math import Predicate
from iris.ir.types import DType, bool_, i32, i64, u64
from iris.ir.waiting import deciding_values, stands_still

# Rewritten code calls what is here by these names, `named` among them.
__all__ = [
    "AGAIN",
    "GO",
    "LEAVE",
    "ForLoop",
    "IfStatement",
    "LastIf",
    "WhileLoop",
    "all_hold",
    "all_of",
    "any_holds",
    "any_of",
    "as_variable",
    "asserted",
    "assign",
    "bind",
    "called",
    "chained",
    "changed",
    "choice",
    "known",
    "leaving",
    "named",
    "negation",
    "noted",
    "range_of",
    "reached",
    "slice",
    "updated",
    "updated_at",
    "values_of",
]

MOST_UNROLLED = 64  # iterations, without a warning
MAX_RETRACES = 8  # of one body, and one more for each carried value


class TracedRange:
    """A range with traced bounds; a loop over it becomes a `for` of the IR."""

    def __init__(self, lower: Traced, upper: Traced, step: Traced):
        self.lower, self.upper, self.step = lower, upper, step


def traced_range(*bounds: object) -> TracedRange:
    """A traced range with the arguments of `range`."""
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
    if not dtype.is_signed and not all(map(is_natural, traced)):
        if dtype is u64:
            raise error_here(
                DTypeError,
                "this range has a u64 among numbers that may be negative, and no dtype holds both; "
                "cast all of them to i64 or to u64",
            )
        dtype = i64
    return TracedRange(*[cast(x, dtype) for x in traced])


def range_of(function: object) -> Any:
    """What to call for `range(...)` in the head of a loop."""
    return current().vocabulary.range_of if function is builtins.range else function


slice = builtins.slice  # whatever the name means in the user's code


# Statements.


class _LoopTrace(Generic[AnyOp]):
    """The trace of a loop: its variables and objects, and the values that it carries."""

    def __init__(self, names: Sequence[str], scope: Mapping[str, object]):
        self.traced = False
        self.names = names
        self.before = values_of(names, scope)
        self.carried: dict[str | tuple[int, Place], Tree] = {}
        self.clashing: dict[str, Clashing] = {}
        self.op: AnyOp | None = None
        self.done = False
        self.retraces = 0
        self.last: dict[str, object] = {}
        self.where = ""
        self.unrolled = 0
        self.first = current().builder.region.last

    @property
    def loop_op(self) -> AnyOp:
        """The op of the loop."""
        if self.op is None:
            raise error_here(ControlFlowError, "the loop has not been traced")
        return self.op

    @property
    def slots(self) -> list[Slot]:
        return [slot for tree in self.carried.values() for slot in tree.slots()]

    def begin(self, reach: Reach) -> None:
        """Note the line of the loop; traced values from before it are carried."""
        self.traced = True
        self.reach = reach
        here = location()
        self.where = f"line {here.line}" if here else "above"
        for name, start in self.before.items():
            if isinstance(start, Traced):
                self.carried[name] = CarriedValue(slot_for(start, name, start))

    def set(self, values: Sequence[Value]) -> dict[str, object]:
        """Put values into objects; return the changed variables."""
        following = iter(values)
        built = {key: tree.build(following) for key, tree in self.carried.items()}
        for watched in self.reach:
            held = dict(watched.before)
            for place in held:
                held[place] = built.get((id(watched.object), place), held[place])
            watched.hold(held)
        return {key: value for key, value in built.items() if isinstance(key, str)}

    def variables(self, arguments: Sequence[Value]) -> tuple[object, ...]:
        """The value of each variable at the start of an iteration."""
        carried = self.set(arguments)
        current().watch(self.reach)
        forget(self.names)
        values: list[object] = []
        for name in self.names:
            if name in carried:
                values.append(carried[name])
            else:
                missing = Missing(name, "has no value yet in the first iteration of the loop")
                values.append(self.before.get(name, self.clashing.get(name, missing)))
        return tuple(values)

    def end_iteration(self, scope: Mapping[str, object]) -> list[Value] | None:
        """The values to yield, or None if the body must be traced again."""
        current().watching.pop()
        self.last = values_of(self.names, scope)
        ends = RegionEnd(self.reach)
        again = False
        for key, path, start, new, line in self._places(scope):
            tree = self.carried.get(key)
            if tree is None and is_unchanged(start, new):
                continue
            with self._dropping(key), at_line(line):
                self.carried[key] = carried_tree(path, tree or Unchanged(start), start, new, ends)
            again = again or key in self.clashing or self.carried[key] is not tree
        if again:
            return None
        yielded: dict[str | tuple[int, Place], list[Traced | None]] = {}
        for key, _, _, new, line in self._places(scope):
            if key in self.carried:
                yielded[key] = [None]
                with self._dropping(key), at_line(line):
                    yielded[key] = self.carried[key].ends(new)
        if not self.carried.keys() >= yielded.keys():
            return None
        accepted = [end for key in self.carried for end in yielded[key]]
        values = [a.value for a in accepted if a is not None]
        return values if len(values) == len(accepted) else None

    @contextmanager
    def _dropping(self, key: str | tuple[int, Place]) -> Iterator[None]:
        """Let a variable have no value at the start of an iteration if it cannot be carried: that
        matters only where it is used."""
        try:
            yield
        except UserError as error:
            if not isinstance(key, str):
                raise
            self.carried.pop(key, None)
            del self.before[key]
            self.clashing[key] = Clashing(error)

    def _places(self, scope: Mapping[str, object]) -> Iterator[Any]:
        """Each variable, and each place in an object: its key, its path, its value before and
        after, and the line that changed it."""
        for name, start in list(self.before.items()):
            yield name, name, start, scope.get(name, Missing(name, "is deleted")), assigned(name)
        for watched in self.reach:
            now = watched.now()
            with at_line(watched.changed):
                check_structure(watched, watched.before, now, "a traced loop")
            for place, start in watched.before.items():
                path = place.within(watched.path)
                key = id(watched.object), place
                yield key, path, start, now[place], watched.changed

    def results(self, names: Sequence[str]) -> tuple[object, ...]:
        """The value of each variable after the loop."""
        carried = self.set(self.loop_op.results)
        values: list[object] = []
        for name in names:
            if name in carried:
                values.append(carried[name])
            elif name in self.before:
                values.append(self.before[name])
            elif name in self.clashing:
                values.append(self.clashing[name])
            elif name in self.last and not is_local(self.last[name]):
                values.append(self.last[name])
            else:
                why = f"belongs to the loop at {self.where}: "
                if name in self.names:
                    why += "give it a value before the loop"
                else:
                    why += "it counts its iterations; carry another variable out of it"
                values.append(Missing(name, why))
        return tuple(values)

    def count_retrace(self) -> bool:
        """Count the traces of the body: each may widen the type of a carried value."""
        self.retraces += 1
        if self.retraces > MAX_RETRACES + len(self.slots):
            raise error_here(
                CarriedError, "the values that this loop carries do not settle to one type"
            )
        return True

    def count_unrolled(self) -> None:
        """Count the iterations of an ordinary loop: each adds its ops to the program."""
        self.unrolled += 1
        frame = user_frame()
        has_ops = current().builder.region.last is not self.first
        if self.unrolled == MOST_UNROLLED + 1 and has_ops and frame is not None:
            warnings.warn_explicit(
                f"this loop is unrolled more than {MOST_UNROLLED} times: the program is large and "
                "takes long to compile; iris.tile_range makes a loop of the program",
                RuntimeWarning,
                frame.f_code.co_filename,
                frame.f_lineno,
                registry=frame.f_globals.setdefault("__warningregistry__", {}),
            )

    def discard(self) -> None:
        """Erase the traced loop, to trace it again."""
        if self.op is not None:
            self.op.erase()
            self.op = None


class ForLoop(_LoopTrace[control.For]):
    """A `for`, traced if its iterable is a traced range."""

    def __init__(self, iterable: Any, names: Sequence[str], scope: Mapping[str, object]):
        super().__init__(names, scope)
        self.iterable = iterable
        if isinstance(iterable, TracedRange):
            self.begin(Reach(variables=names))
        else:
            carry(self.before.values())
            ask(iterable)
            if isinstance(iterable, (Traced, Missing)):
                iter(iterable)

    def __iter__(self) -> Iterator[object]:
        return self._iterations() if self.traced else self._unrolled()

    def _unrolled(self) -> Iterator[object]:
        for x in self.iterable:
            self.count_unrolled()
            yield x

    def _iterations(self) -> Iterator[object]:
        builder = current().builder
        outer = builder.region
        bounds = [self.iterable.lower, self.iterable.upper, self.iterable.step]
        while self.count_retrace():
            self.discard()
            initial = [slot.initial() for slot in self.slots]
            op = control.For(*[b.value for b in bounds], initial)
            self.op = current().insert(op)
            if is_natural(self.iterable.lower) and is_natural(self.iterable.step):
                natural(Traced(op.body.arguments[0]))
            builder.region = op.body
            try:
                yield Traced(op.body.arguments[0])
            finally:
                builder.region = outer
            if self.done:
                return

    def start(self) -> tuple[object, ...]:
        return self.variables(self.loop_op.regions[0].arguments[1:])

    def finish(self, scope: Mapping[str, object]) -> None:
        ends = self.end_iteration(scope)
        if ends is not None:
            current().insert(control.Yield(ends))
            self.done = True


class Verdict(Enum):
    """What a rewritten `while` does next."""

    GO = "run the body"
    LEAVE = "leave the loop"
    AGAIN = "ask for the condition again"


GO, LEAVE, AGAIN = Verdict


class WhileLoop(_LoopTrace[control.While]):
    """A `while`, traced if its condition is."""

    def __init__(self, names: Sequence[str], condition: Sequence[str], scope: Mapping[str, object]):
        super().__init__(names, scope)
        self.condition = condition  # the variables that the condition assigns
        self.outer: Region | None = None
        self.mark: Op | None = None

    def look(self, scope: Mapping[str, object]) -> None:
        """Note the start of the condition, which may turn out to be traced."""
        if self.traced and not self.done:
            return
        builder = current().builder
        self.outer, self.mark = builder.region, builder.region.last
        if not self.traced:
            self.before = values_of(self.names, scope)
            self.reach = Reach(variables=self.names)

    def _drop_condition(self) -> None:
        """Erase the ops of a condition."""
        for op in reversed(self.outer):  # type: ignore[arg-type]
            if op is self.mark:
                break
            op.erase()

    def start(self) -> tuple[object, ...]:
        if self.done:
            return tuple(self.last.get(n) for n in self.names)
        self.count_retrace()
        self.discard()
        op = self.op = current().insert(control.While([s.initial() for s in self.slots]))
        current().builder.region = op.condition
        return self.variables(op.condition.arguments)

    def decide(self, condition: object) -> Verdict:
        if self.done:
            self._drop_condition()
            return Verdict.LEAVE
        if not self.traced:
            if not isinstance(condition, Traced):
                carry(self.before.values())
                if not condition:
                    return Verdict.LEAVE
                self.count_unrolled()
                return Verdict.GO
            as_condition(condition)
            if self.condition:
                raise error_here(
                    ControlFlowError,
                    f"{self.condition[0]} is assigned in the condition of a traced while; give it "
                    "its value before the loop, and the next one at the end of the body",
                )
            self._drop_condition()
            self.begin(self.reach)
            return Verdict.AGAIN
        current().watching.pop()
        check_unchanged(self.reach, "the condition of a traced while")
        current().insert(control.Yield([as_condition(condition).value]))
        return Verdict.GO

    def enter(self) -> tuple[object, ...]:
        body = self.loop_op.body
        current().builder.region = body
        return self.variables(body.arguments)

    def finish(self, scope: Mapping[str, object]) -> None:
        ends = self.end_iteration(scope)
        if ends is not None:
            current().insert(control.Yield(ends))
            self.done = True
            _check_terminates(self.loop_op)
        current().builder.region = self.outer  # type: ignore[assignment]


def _check_terminates(loop: control.While) -> None:
    """Refuse a loop that only writes of other programs could end, but that never sees them."""
    if not stands_still(loop):
        return
    spot = None if loop.location is None else SourceSpot.of_line(*loop.location)
    loads = (v.op for v in deciding_values(loop) if isinstance(v.op, tile.Load | tile.MaskedLoad))
    names = sorted({op.base.name or "an array" for op in loads})
    if not names:
        raise ControlFlowError("nothing in this loop changes its condition: it never ends", spot)
    name = names[0]
    raise ControlFlowError(
        f"this loop waits for {name} to change, but a plain load gives the same each time; use "
        f"iris.load({name} + ..., volatile=True) or an atomic op to see what other programs write",
        spot,
    )


class _Branches:
    """The traces of two branches, and how variables and objects are merged after them."""

    def __init__(self, condition: Traced, reach: Reach):
        self.condition = condition
        self.reach = reach
        self.outer = current().builder.region
        self.regions: list[Region] = []
        self.ends: list[RegionEnd] = []

    def begin(self) -> None:
        current().builder.region = Region()
        current().watch(self.reach)

    def finish(
        self,
        values: Iterable[object],
        unnamed: Sequence[object] = (),
        *,
        returned: bool = False,
    ) -> None:
        """Note the end of a branch, its values, and those that no variable of the user's holds;
        and restore objects for the other branch.  `returned`: the function is left with it."""
        current().watching.pop()
        builder = current().builder
        self.regions.append(builder.region)
        builder.region = self.outer
        self.ends.append(RegionEnd(self.reach, {id(w.object): w.now() for w in self.reach}))
        if self.changed() or not all(is_simple(v) for v in (*values, *unnamed)):
            self.ends[-1].look(unnamed, returned=returned)
        for watched in self.reach:
            watched.hold(watched.before)
            now = watched.now()
            if not alike(now, watched.before):  # it cannot be put back
                with at_line(watched.changed):
                    check_structure(
                        watched, watched.before, now, "one branch of a traced condition"
                    )

    def trace(self, function: Callable[[], object]) -> object:
        """Trace an expression as a branch."""
        self.begin()
        value = function()
        self.finish((), [value])
        return value

    def changed(self) -> bool:
        """Whether the branch that was traced last changed objects."""
        return any(not alike(w.before, self.ends[-1].held[id(w.object)]) for w in self.reach)

    def only_starts(self) -> bool:
        """Whether the last branch only gave variables their first values; then keep these."""
        held = self.ends[-1].held
        changed = [w for w in self.reach if not alike(w.before, held[id(w.object)])]
        if any(w.before or not isinstance(w.object, CellType) for w in changed):
            return False
        for watched in changed:
            watched.hold(held[id(watched.object)])
        return True

    def swap(self) -> None:
        """Swap the branches."""
        for sides in self.regions, self.ends:
            sides.reverse()

    def merge(
        self,
        values: Mapping[str, Sequence[object]],
        lines: Mapping[str, Location | None],
        needed: Sequence[Reach | None] = (None, None),
    ) -> dict[str, object]:
        """Emit the `if`, and merge variables and objects.

        `values` has a pair of values for each variable, and `lines` the line that assigned it.
        `needed` reaches the objects that are needed after each of the branches, if not all are.
        """
        merge = functools.partial(merge_trees, regions=self.regions, ends=self.ends)
        variables: dict[str, Tree] = {}
        for name, pair in values.items():
            try:
                with at_line(lines.get(name)):
                    variables[name] = merge(PATHS.get(name, name), values=list(pair))
            except UserError as error:
                variables[name] = Unchanged(Clashing(error))
        objects: list[tuple[Watched, dict[Place, Tree]]] = []
        for watched in self.reach:
            both = [end.held[id(watched.object)] for end in self.ends]
            sides = [reach is None or reach.reaches(watched) for reach in needed]
            if not all(sides):
                if not any(sides):
                    continue
                both[sides.index(False)] = dict.fromkeys(both[sides.index(True)], UNNEEDED)
            first, second = both
            if isinstance(watched.object, CellType) and not (_is_set(first) and _is_set(second)):
                why = "has a value on only one side of a traced condition; give it one before"
                missing = Unchanged(Missing(watched.path, why))
                objects.append((watched, dict.fromkeys([*first, *second], missing)))
                continue
            with at_line(watched.changed):
                if list(first) != list(second):
                    other = first if list(first) != list(watched.before) else second
                    check_structure(
                        watched, watched.before, other, "one branch of a traced condition"
                    )
                held = {
                    p: merge(p.within(watched.path), values=[v, second[p]])
                    for p, v in first.items()
                }
            objects.append((watched, held))
        trees = [*variables.values(), *[tree for _, held in objects for tree in held.values()]]
        op = emit_if(self.condition, self.regions, [p for tree in trees for p in tree.pairs()])
        results = iter(op.results)
        built = {name: tree.build(results) for name, tree in variables.items()}
        for watched, held in objects:
            watched.hold({place: tree.build(results) for place, tree in held.items()})
        return built


def _is_set(cell: Mapping[Place, object]) -> bool:
    """Whether a variable that functions share has a value."""
    return bool(cell) and not any(isinstance(value, Missing) for value in cell.values())


class IfStatement:
    """An `if`, traced if its condition is."""

    def __init__(self, condition: object, names: Sequence[str], scope: Mapping[str, object]):
        self.traced = isinstance(condition, Traced)
        self.names = names
        if not self.traced:
            self.taken = bool(condition)
            return
        self.sides = _Branches(as_condition(condition), Reach(variables=names))
        forget(names)
        self.before = values_of(names, scope)
        self.values: list[dict[str, object]] = []

    def then(self) -> bool:
        if not self.traced:
            return self.taken
        self.sides.begin()
        return True

    def otherwise(self) -> bool:
        if not self.traced:
            return not self.taken
        self.sides.begin()
        return True

    def start(self) -> tuple[object, ...]:
        missing = "has no value before this branch"
        return tuple(self.before.get(n, Missing(n, missing)) for n in self.names)

    def finish(self, scope: Mapping[str, object]) -> None:
        values = {n: scope.get(n, Missing(n, "has no value")) for n in self.names}
        self.values.append(values)
        result = [values[RESULT]] if RESULT in values else []
        self.sides.finish(values.values(), result, returned=values.get(RETURNED) is True)

    def results(self, names: Sequence[str]) -> tuple[object, ...]:
        after: dict[str, object] = {}
        pairs: dict[str, Sequence[object]] = {}
        for name in names:
            a, b = (_needed(name, values) for values in self.values)
            if name == RETURNED and a is not b and isinstance(a, bool) and isinstance(b, bool):
                after[name] = self.sides.condition if a else negation(self.sides.condition)
            elif isinstance(a, Clashing) or isinstance(b, Clashing):
                after[name] = a if isinstance(a, Clashing) else b
            elif isinstance(a, Missing) or isinstance(b, Missing):
                why = "has a value after only one of the branches; give it one before the if"
                after[name] = Missing(name, why)
            elif callable(a) and callable(b) and not is_unchanged(a, b):
                why = "is one function or another, depending on a traced condition; call each in "
                after[name] = Missing(name, why + "its branch")
            else:
                pairs[name] = a, b
        objects = [
            Reach([values[RESULT]], returned=True) if values.get(RETURNED) is True else None
            for values in self.values
        ]
        after |= self.sides.merge(pairs, {name: assigned(name) for name in names}, objects)
        return tuple([after[name] for name in names])


class LastIf(IfStatement):
    """An `if` after which the function returns."""

    def finish(self, scope: Mapping[str, object]) -> None:
        super().finish({**scope, RETURNED: True})


def _needed(name: str, values: Mapping[str, object]) -> object:
    """What a branch gives a variable: nothing that is needed, if only one that returns would, or
    does not, use it."""
    returned = values.get(RETURNED)
    not_used = returned is False if name == RESULT else returned is True and name != RETURNED
    return UNNEEDED if not_used else values[name]


def emit_if(condition: Traced, regions: Sequence[Region], pairs: list[list[Traced]]) -> Op:
    """Emit an `if` of two traced regions; `pairs` are the values that they yield."""
    for side, region in enumerate(regions):
        region.append(control.Yield([pair[side].value for pair in pairs]))
    types = [pair[0].value.type for pair in pairs]
    op = control.If.create((condition.value,), (), types, tuple(regions))
    return current().insert(op)


# Expressions.


def as_condition(x: object) -> Traced:
    """A value as a scalar bool."""
    traced = as_traced(x)
    if traced.shape:
        bool(traced)
    return traced if traced.dtype is bool_ else compare(Predicate.NE, traced, 0)


def all_of(*parts: Callable[[], object]) -> object:
    """`a and b`, where b runs only if a holds: `b if a else a`."""
    return _short_circuit(parts, stop=False, asked=False)


def any_of(*parts: Callable[[], object]) -> object:
    """`a or b`, where b runs only if a does not hold: `a if a else b`."""
    return _short_circuit(parts, stop=True, asked=False)


def all_hold(*parts: Callable[[], object]) -> object:
    """`a and b` where only the truth is asked."""
    return _short_circuit(parts, stop=False, asked=True)


def any_holds(*parts: Callable[[], object]) -> object:
    """`a or b` where only the truth is asked."""
    return _short_circuit(parts, stop=True, asked=True)


def chained(left: object, *links: Callable[[object], tuple[object, object]]) -> object:
    """`a < b < c`: each link takes the operand on its left, and gives the one on its right with
    whether it holds."""
    link, *rest = links
    right, holds = link(left)
    return all_of(lambda: holds, lambda: chained(right, *rest)) if rest else holds


def _short_circuit(parts: Sequence[Callable[[], object]], *, stop: bool, asked: bool) -> object:
    first, *rest = parts
    value = first()
    if not rest:
        return value
    if not isinstance(value, Traced):
        return value if bool(value) is stop else _short_circuit(rest, stop=stop, asked=asked)
    kind, word = (math.Or, "or") if stop else (math.And, "and")

    def condition_of(x: object) -> Any:
        return current().vocabulary.condition(as_traced(x), word)

    def operand() -> Any:
        """The rest: a number in the dtype in which it meets the first, or whether it holds."""
        other = _short_circuit(rest, stop=stop, asked=asked)
        if asked or condition.shape or as_traced(other).shape:
            return condition_of(other)
        return unify(value, other)[1]

    condition = condition_of(value)
    if condition.shape:
        return binary(kind, condition, operand())
    sides = _Branches(condition, Reach(parts))
    other: Any = sides.trace(operand)
    is_truth = other.dtype is bool_
    if is_truth and _is_harmless(sides.regions[0]) and sides.only_starts():
        _move_ops_here(sides.regions[0])
        return binary(kind, condition, other)

    def decided() -> Traced:
        """What the first alone decides."""
        return spread(constant(stop, bool_) if is_truth else cast(value, other.dtype), other.shape)

    values = [other, sides.trace(decided)]
    if stop:
        values.reverse()
        sides.swap()
    return sides.merge({"the value of this expression": values}, {}).popitem()[1]


def _is_harmless(region: Region) -> bool:
    return all(may_speculate(op) for op in region)


def _move_ops_here(region: Region) -> None:
    """Move the ops of a region to the builder."""
    builder = current().builder
    for op in region:
        op.detach()
        builder.insert(op)


def negation(x: object) -> object:
    """`not x`."""
    if not isinstance(x, Traced):
        return not x
    return emit(math.Not(current().vocabulary.condition(x, "not").value))


def called(function: Any) -> Any:
    """What to call for a function in a kernel: the rewritten function, with changes of objects
    assigned."""
    if function is builtins.next:
        return _next
    function = current().vocabulary.builtin(function)
    if any(function is looks for looks in (isinstance, callable, hasattr, type)):
        return lambda *arguments: function(*map(known, arguments))
    return assigning(rewritten_callable(function, sys.modules[__name__]))


def known(x: object) -> object:
    """A value that Python looks at; a variable without a value has none."""
    if isinstance(x, Missing):
        x.reject_use()
    return x


def _next(*arguments: Any) -> Any:
    for x in arguments[:1]:
        ask(x)
    return next(*arguments)


def choice(condition: object, on_true: Callable[[], object], on_false: Callable[[], object]) -> Any:
    """`a if condition else b`, where only one of the two runs."""
    if not isinstance(condition, Traced):
        return on_true() if condition else on_false()
    sides = _Branches(as_condition(condition), Reach([on_true, on_false]))
    values = [known(sides.trace(on_true)), known(sides.trace(on_false))]
    return sides.merge({"the value of this expression": values}, {}).popitem()[1]


def bind(variable: Callable[[], object], value: object) -> object:
    """`x := value` in a part of an expression that is a function of its own."""
    (cell,) = variable.__closure__ or ()
    value = updated((contents(cell) or {}).get(Place(True, ...)), value)
    cell.cell_contents = value
    return value


def asserted(condition: object, message: Callable[[], object]) -> object:
    """The condition of an `assert`: one that is traced is checked when the kernel runs."""
    if not isinstance(condition, Traced):
        return condition
    emit_assert(condition, str(message()))
    return True


def leaving(word: str, *regions: _LoopTrace[Any] | IfStatement) -> None:
    """Called before a statement that leaves others at once, with these."""
    if any(region.traced for region in regions):
        raise error_here(
            ControlFlowError,
            f"{word} cannot leave a traced loop, nor any loop, with or try under a traced "
            "condition; carry a condition and use iris.where or if instead",
        )
