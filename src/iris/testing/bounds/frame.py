"""Programs that run as `interp.tile` runs them, with the errors of their values kept beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.frame import Frame, Grid, Launch, data_of, held_by, is_pointer, masking, take
from iris.interp.memory import View
from iris.interp.operands import Masked, with_axes
from iris.ir.control import For, Func, If, Loop, While
from iris.ir.core import Facet, Op, Region, Value
from iris.ir.effects import effects_within, writes
from iris.ir.types import DType, bf16, f16, f32
from iris.targets.target import EXACTLY, Accuracy
from iris.testing.bounds.interval import EXACT
from iris.testing.bounds.masked import BoundedOperands
from iris.testing.bounds.memory import Memory
from iris.testing.bounds.terms import NONE, Terms, one_term

Array = npt.NDArray[Any]

# `rule(frame, op, results, operands, errors)` gives the errors of the results: `propagation`
# where an operand has an error, `origin` always, for ops that may make one out of none.
Rule = Callable[..., Sequence[Array]]
propagation = Facet("error propagation")
origin = Facet("error origin")

# The least normal number of each float dtype.
NORMAL = {f32: 2.0**-126, bf16: 2.0**-126, f16: 2.0**-14}

# How many operands of an op with regions decide what it runs; the others it carries.
_STEERING: dict[type[Op], int] = {For: 3, While: 0, If: 1}


class BoundedLaunch(Launch):
    """What all programs share: also the errors in memory, and the precision of the target."""

    def __init__(
        self,
        function: Func,
        grid: Grid,
        arguments: Sequence[Any],
        accuracy: Mapping[str, Accuracy],
        coarse: Mapping[str, Accuracy],
        *,
        flushes: bool,
        reorder: Callable[..., Array] | None,
        contended: Mapping[Value, Array],
    ):
        super().__init__(function, grid, arguments)
        self.accuracy = accuracy
        self.coarse = coarse
        self.flushes = flushes
        self.reorder = reorder  # where floats may be computed in any order, the errors of that
        self.operations = 0  # that were so, until now
        parameters = function.body.arguments
        views = zip(parameters, self.arguments, strict=True)
        self.views = {v: x for v, x in views if isinstance(x, View)}
        self.memory = Memory(list(self.views.values()))
        self.contended = {self.views[v]: found for v, found in contended.items()}
        # For each op with regions that is being run, of which programs it is not determined what
        # they do in it.
        self.lost: list[Array] = []
        # Whether it is not determined which elements of some value count: then nothing is.
        self.is_doubted = False

    @property
    def written(self) -> list[Value]:
        """The arguments that the function writes to."""
        touched = set(writes(effects_within(self.function)))
        return [v for v in self.views if v in touched]


def _by_program(value: Value, error: Array) -> Array:
    """An error of a value; if there is one number for each program, as branches put them together,
    with the axes of a tile."""
    rank = len(held_by(value).shape)
    if not rank or error.ndim > 1 or len(error) == 1:
        return error
    return error.reshape(-1, *[1] * rank)


class BoundedFrame(Frame):
    """Some of the programs, their values, and the errors of these.

    Loops and branches carry errors as further values, so those rules of the interpreter that run
    regions serve as they are.
    """

    __slots__ = ("errors", "terms")
    launch: BoundedLaunch

    def __init__(self, launch: Launch, programs: Array, origin: tuple[Frame, Array] | None = None):
        super().__init__(launch, programs, origin)
        self.errors: dict[Value, Array] = {}
        self.terms: dict[Value, Terms] = {}

    def accuracy(self, name: str, dtype: DType) -> Accuracy:
        """How exact a function such as `exp` is before its result is rounded to a dtype."""
        exact = self.launch.accuracy.get(name, EXACTLY)
        return exact if dtype is f32 else self.launch.coarse.get(name, exact)

    def error(self, value: Value) -> Array:
        found = self.errors.get(value)
        if found is None:
            if self.origin is None:
                return EXACT
            frame, kept = self.origin
            assert isinstance(frame, BoundedFrame)
            found = self.errors[value] = take(frame.error(value), kept)
        return found

    def terms_of(self, value: Value) -> Terms:
        """What a value is the sum of, where sums may be made in any order."""
        found = self.terms.get(value)
        if is_pointer(value):
            return NONE
        if found is None:
            if value not in self.values and self.origin is not None:
                frame, kept = self.origin
                assert isinstance(frame, BoundedFrame)
                found = Terms(*[take(x, kept) for x in frame.terms_of(value)])
            else:
                found = one_term(data_of(self[value]), self.error(value))
            self.terms[value] = found
        return found

    def beside(self, values: Sequence[Value]) -> list[Array]:
        """What is kept beside values: the errors, and with fast math the parts of the terms."""
        found = [self.error(v) for v in values]
        if self.launch.reorder:
            for parts in zip(*[self.terms_of(v) for v in values], strict=True):
                found.extend(parts)
        return found

    def _keep(self, values: Sequence[Value], beside: Sequence[Array]) -> None:
        """Notes what `beside` gave of as many values, which may come from several branches."""
        if not values:
            return
        count = len(values)
        parts = [beside[i : i + count] for i in range(0, len(beside), count)]
        for value, error, *terms in zip(values, *parts, strict=True):
            self.errors[value] = _by_program(value, error)
            if terms:
                *sizes, steps = terms
                made = [_by_program(value, x) for x in sizes]
                self.terms[value] = Terms._make([*made, steps.max(keepdims=True)])

    def run(self, region: Region, arguments: Sequence[Any]) -> list[Any]:
        """What the terminator of a region carries, and after that what is kept beside all this."""
        count = len(region.arguments)
        beside = arguments[count:]
        each = 1 + len(Terms._fields) if self.launch.reorder else 1
        self.values.update(zip(region.arguments, arguments[:count], strict=True))
        # What nothing is kept of, such as the index of a loop, is first.
        self._keep(region.arguments[count - len(beside) // each :], beside)
        for op, rule, dying in self.launch.plan(region):
            self.values.update(zip(op.results, self.results(op, rule), strict=True))
            for value in dying:
                self.values.pop(value, None)
                self.errors.pop(value, None)
                self.terms.pop(value, None)
        end = region.end.operands
        if isinstance(region.owner, While) and region is region.owner.condition:
            self._lose(self.error(end[0]))
        return [*[self[v] for v in end], *self.beside(end)]

    def results(self, op: Op, rule: Callable[..., Sequence[Any]]) -> Sequence[Any]:
        """What an op gives, run by a rule; notes the errors of that."""
        operands = [self[v] for v in op.operands]
        beside = [self.beside([v]) for v in op.operands]
        if self.has_masks(op, operands):
            results, errors = self._run_masked(op, rule, operands, beside)
        else:
            act = self._run_regions if op.regions else self._run_op
            results, errors = act(op, rule, self.settled(op, operands), beside)
        self.errors.update(zip(op.results, map(_plain, errors), strict=True))
        return results

    def _run_masked(
        self, op: Op, rule: Rule, operands: Sequence[Any], beside: Sequence[Sequence[Array]]
    ) -> tuple[Sequence[Any], Sequence[Array]]:
        """Runs an op of which not all elements count; the error of those that do not is 0."""
        errors: Sequence[Array] = ()

        def run(*data: Any, **named: Any) -> Sequence[Any]:
            nonlocal errors
            results, errors = self._run_op(op, rule, self.settled(op, data), given.beside, **named)
            return results

        given = BoundedOperands(operands, run, beside)
        results = masking[type(op)](self, op, given)
        self.launch.is_doubted |= given.is_doubted
        return results, [_where_counted(*x) for x in zip(results, errors, strict=True)]

    def kept(self, op: Loop, olds: Sequence[Any], news: Sequence[Any]) -> Sequence[Any]:
        """What the next iteration is given, and what is kept beside it."""
        count = len(op.results)
        values, beside = super().kept(op, olds[:count], news[:count]), list(news[count:])
        for place, old in enumerate(olds[count:]):
            new = news[place % count]
            if self.launch.updates(op)[place % count] and isinstance(new, Masked):
                beside[place] = np.where(with_axes(new.counts, old), beside[place], old)
        return [*values, *beside]

    def _run_op(
        self,
        op: Op,
        rule: Rule,
        operands: Sequence[Any],
        beside: Sequence[Sequence[Array]],
        **named: Any,
    ) -> tuple[Sequence[Any], Sequence[Array]]:
        results = rule(self, op, *operands, **named)
        errors = [_plain(error) for error, *_ in beside]
        errors += [EXACT] * (len(operands) - len(errors))
        bound: Rule | None = origin.get(type(op))
        found: Sequence[Array] = [EXACT] * len(op.results)
        with np.errstate(all="ignore"):
            if bound is None and any(error is not EXACT for error in errors) and op.results:
                bound = propagation[type(op)]
            if bound is not None:
                found = bound(self, op, results, operands, errors, **named)
            reorder = self.launch.reorder
            if reorder and results and held_by(op.results[0]).element.is_float:
                terms = [Terms._make(parts) for _, *parts in beside]
                found = [reorder(self, op, results[0], operands, errors, terms, found[0])]
            if self.launch.flushes:
                found = [_flushed(*x) for x in zip(op.results, results, found, strict=True)]
        return results, found

    def _run_regions(
        self, op: Op, rule: Rule, operands: Sequence[Any], beside: Sequence[Sequence[Array]]
    ) -> tuple[Sequence[Any], Sequence[Array]]:
        """Run an op with regions.

        If it is undetermined which region runs, so are the results, and the arrays that it may
        write to.
        """
        launch, steering = self.launch, _STEERING[type(op)]
        launch.lost.append(np.zeros(launch.count, np.bool_))
        for error, *_ in beside[:steering]:
            self._lose(error)
        found = rule(self, op, *operands, *self.beside(op.operands[steering:]))
        count = len(op.results)
        results = list(found[:count])
        self._keep(op.results, found[count:])
        errors = [self.error(v) for v in op.results]
        lost = launch.lost.pop()[self.programs]
        if lost.any():
            for place in writes(effects_within(op)):
                if isinstance(place, Value) and is_pointer(place):
                    launch.memory.poison(launch.views[place])
            for i, value in enumerate(op.results):
                rank = len(held_by(value).shape)
                errors[i] = np.where(lost.reshape(-1, *[1] * rank), np.inf, errors[i])
            launch.is_doubted |= any(isinstance(x, Masked) for x in results)
        return results, errors

    def _lose(self, error: Array) -> None:
        """Notes that it is not determined what programs run next."""
        if error.any():
            lost = np.broadcast_to(error > 0, self.programs.shape)
            self.launch.lost[-1][self.programs[lost]] = True


def _plain(error: Array) -> Array:
    return error if error is EXACT or error.any() else EXACT


def _where_counted(x: Any, error: Array) -> Array:
    """The error of a result, 0 for elements that do not count."""
    if error is EXACT or not isinstance(x, Masked):
        return error
    return np.where(with_axes(x.counts, error), error, 0.0)


def _flushed(value: Value, x: Array, error: Array) -> Array:
    """The error of a result of which a subnormal number may be made 0."""
    normal = NORMAL.get(held_by(value).element)
    if normal is None:
        return error
    size = np.abs(x.astype(np.float64))
    near = (size - error < normal) & ((size > 0) | (error > 0))
    return np.where(near, np.maximum(error, size), error) if near.any() else error
