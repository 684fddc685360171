"""Graphs do what NumPy's own functions do, within error bounds.

    @given(programs.graph())
    def test_simplify(program):
        matches_numpy(program, "simplify")

There is no tolerance.  Each value of NumPy has an error beside it: how far any correct execution
may be from the value, by the rules of `interp.bounds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from iris.interp.memory import memory_dtype
from iris.ir import graph, math, verify
from iris.ir.control import Func
from iris.ir.core import Facet, Op, Region, Value
from iris.ir.graph import ScatterKind
from iris.ir.kinds import ReduceKind
from iris.ir.math import element_type
from iris.ir.scalar import from_bits, to_bits
from iris.ir.types import DType, bf16
from iris.passes import Pass, Pipeline
from iris.targets.target import EXACTLY, Accuracy
from iris.testing.bounds.arithmetic import worst
from iris.testing.bounds.combine import combined, multiplied, place
from iris.testing.bounds.frame import origin, propagation
from iris.testing.bounds.interval import EXACT, rounded
from iris.testing.faults import Judge, doing
from iris.testing.levels import compare
from iris.testing.numpy_ops import evaluate, grouped_filters, unrounded, windows
from iris.testing.oracles import pipeline_of
from iris.testing.reduce import SECONDS
from iris.testing.report import check
from iris.testing.rescaled_terms import Terms
from iris.tools.replay import Program, Values

Array = npt.NDArray[Any]

# `rule(op, result, operands, errors)` gives the error of what is not element by element.
graph_error = Facet("error in graphs")


def matches_numpy(
    program: Program, passes: Pass | Pipeline | str = "", *, seconds: float = SECONDS
) -> None:
    """Asserts that a graph, and what passes make of it, returns what NumPy's functions give.

        matches_numpy(program)
        matches_numpy(program, "fold,simplify")

    Where a sum may be made in another order, an element may be off by as much as that allows;
    elsewhere it must have the same bits.  The error names the first pass after which something is
    wrong and shows what it changed, for the smallest program found in some `seconds`.
    """
    __tracebackhide__ = True
    check(program, [pipeline_of(passes)], _as_numpy, seconds=seconds)


def _as_numpy(program: Program) -> Judge:
    """The oracle of `matches_numpy`."""
    verify(program.module)
    expected = Expected.of(program)
    with doing("the interpreter does otherwise than NumPy"):
        expected.compare(program.run(program.make_arguments()))

    def judge(made: Program, rest: Pipeline) -> None:
        if made.module == program.module:
            return
        with doing("made a program that fails"):
            returned = made.run(made.make_arguments())
        with doing("changed what the program does"):
            expected.compare(returned)

    return judge


class Result(NamedTuple):
    """What NumPy returns, as it is in memory, and how far each element may be off."""

    dtype: DType
    values: Array
    errors: Array


class Expected(NamedTuple):
    """What a graph returns by NumPy.

    Expected.of(program).compare(program.run(program.make_arguments()))
    """

    results: list[Result]

    @staticmethod
    def of(program: Program, accuracy: Mapping[str, Accuracy] | None = None) -> Expected:
        """Functions such as `exp` are as exact as a target says, or correctly rounded."""
        return Expected.of_function(program.function, program.make_arguments(), accuracy)

    @staticmethod
    def of_function(
        function: Func, arguments: Sequence[Any], accuracy: Mapping[str, Accuracy] | None = None
    ) -> Expected:
        """What a function returns for some arguments."""
        graphs = BoundedGraph(accuracy or {})
        for parameter, x in zip(function.body.arguments, arguments, strict=True):
            dtype = element_type(parameter.type).element
            graphs.values[parameter] = from_bits(dtype, x) if dtype is bf16 else np.asarray(x)
        graphs.run(function.body)
        return Expected([graphs.result(v) for v in function.body.end.operands])

    def compare(self, returned: Sequence[Values]) -> None:
        """Raises `Disagreement` for the first element that is not as it must be."""
        for index, (result, found) in enumerate(zip(self.results, returned, strict=True)):
            compare(f"returned[{index}]", result.dtype, result.values, result.errors, found)


class BoundedGraph:
    """The values of a graph and their errors.

    An error has one axis in front, which rules of tile programs have for the programs.
    """

    def __init__(self, accuracy: Mapping[str, Accuracy]):
        self._accuracy = accuracy
        self.values: dict[Value, Array] = {}
        self.errors: dict[Value, Array] = {}
        self.terms = Terms()

    def accuracy(self, name: str, dtype: DType) -> Accuracy:
        """How exact a function such as `exp` is before its result is rounded to a dtype."""
        return self._accuracy.get(name, EXACTLY)

    def run(self, region: Region) -> None:
        for op in region:
            if isinstance(op, graph.Kernel | graph.Launch):
                self.run(op.body)
                for value, own in zip(op.results, op.body.end.operands, strict=True):
                    self.values[value], self.errors[value] = self.values[own], self._error(own)
            elif not op.terminator:
                self._step(op)

    def result(self, value: Value) -> Result:
        x, dtype = self.values[value], element_type(value.type).element
        error = np.broadcast_to(self._error(value), (1, *x.shape))[0]
        bits = to_bits(dtype, x) if memory_dtype(dtype) != x.dtype else x
        return Result(dtype, bits, error)

    def _error(self, value: Value) -> Array:
        return self.errors.get(value, EXACT)

    def _step(self, op: Op) -> None:
        operands = [self.values[v] for v in op.operands]
        found, (value,) = evaluate(op, *operands), op.results
        self.values[value] = found
        with np.errstate(all="ignore"):
            error = self._own_error(op, found, operands)
            if isinstance(op, _TWICE_ROUNDED) and found.dtype.kind == "f":
                wide = unrounded(op, *operands)[None].astype(np.float64)
                dtype = element_type(value.type).element
                error = np.maximum(error, rounded(dtype, found[None], (wide, wide)))
            if isinstance(op, _PRODUCTS):
                error = np.where(self.terms.skipped(op, self.values)[None], np.inf, error)
        self.errors[value] = error if error.any() else EXACT
        self.terms.note(op, self.values)

    def _error_of_terms(self, op: Op) -> list[Array]:
        """The errors of the operands of a sum, or of products that are summed."""
        errors = []
        for value in op.operands:
            others = [self.values[v] for v in op.operands if v is not value]
            greatest = [np.abs(x[np.isfinite(x)]).max(initial=1.0) for x in others]
            own = self.values[value]
            most = own.size * float(max(greatest, default=1.0))
            errors.append(self.terms.error(value, self._error(value), own, most))
        return errors

    def _own_error(self, op: Op, found: Array, operands: Sequence[Array]) -> Array:
        if not found.size:
            return EXACT
        errors = [self._error(v) for v in op.operands]
        if isinstance(op, graph.Matmul) or (
            isinstance(op, graph.Reduce) and op.kind is ReduceKind.SUM
        ):
            errors = self._error_of_terms(op)
        rule = graph_error.get(type(op))
        if rule is not None:
            pairs = zip(operands, errors, strict=True)
            whole = [np.broadcast_to(e, (1, *x.shape))[0] for x, e in pairs]
            return np.asarray(rule(op, found, operands, whole))[None]
        rule = origin.get(type(op))
        if rule is None and any(error is not EXACT for error in errors):
            rule = propagation[type(op)]
        if rule is None:
            return EXACT
        (error,) = rule(self, op, [found[None]], [x[None] for x in operands], errors)
        return np.asarray(error)


# What float64 rounds before it is rounded to the dtype, or computes in another way than `scalar`.
_TWICE_ROUNDED = (math.Fma, math.Sigmoid, math.Cast)
# What may be skipped with an iteration whose terms are 0.
_PRODUCTS = (math.Mul, math.Div, graph.Matmul)


# What moves elements moves their errors.


@graph_error(graph.Broadcast, graph.Reshape, graph.Transpose, graph.Slice, graph.Pad, graph.Concat)
def moved(op: Op, found: Array, operands: Sequence[Array], errors: Sequence[Array]) -> Array:
    return unrounded(op, *errors)


@graph_error(graph.Gather)
def gather(
    op: graph.Gather, found: Array, operands: Sequence[Array], errors: Sequence[Array]
) -> Array:
    doubt = worst(errors[1:])
    lost = doubt.reshape((*doubt.shape, *[1] * (found.ndim - doubt.ndim)))
    return np.asarray(unrounded(op, errors[0], *operands[1:]) + lost)


# What combines elements.


@graph_error(graph.Reduce)
def reduce(
    op: graph.Reduce, found: Array, operands: Sequence[Array], errors: Sequence[Array]
) -> Array:
    (x,), (error,) = operands, errors
    if op.kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN):
        greatest, (axis,) = op.kind is ReduceKind.ARGMAX, op.axes
        (doubt,) = place(greatest, found[None], x[None], error[None], 1 + axis)
        return np.asarray(doubt)

    def along(ufunc: np.ufunc, y: Array) -> Array:
        return np.asarray(ufunc.reduce(y, axis=op.axes))

    return combined(element_type(op.x.type).element, op.kind.value, found, x, error, along)


@graph_error(graph.Scan)
def scan(op: graph.Scan, found: Array, operands: Sequence[Array], errors: Sequence[Array]) -> Array:
    def along(ufunc: np.ufunc, y: Array) -> Array:
        return np.asarray(ufunc.accumulate(y, axis=op.axis))

    dtype = element_type(op.x.type).element
    return combined(dtype, op.kind.value, found, operands[0], errors[0], along)


@graph_error(graph.Scatter)
def scatter(
    op: graph.Scatter, found: Array, operands: Sequence[Array], errors: Sequence[Array]
) -> Array:
    (x, updates, *indices), (error, new, *doubts) = operands, errors
    if any(doubt.any() for doubt in doubts):
        return np.full(found.shape, np.inf)
    if op.kind is ScatterKind.SET:
        return unrounded(op, error, new, *indices)
    # Where each update goes, by its place in memory.
    everywhere = np.arange(x.size).reshape(x.shape)
    to = np.moveaxis(everywhere, op.axes, range(len(op.axes)))[tuple(indices)].reshape(-1)

    def along(ufunc: np.ufunc, y: Array) -> Array:
        made = y[: x.size].copy()
        ufunc.at(made, to, y[x.size :])
        return np.asarray(made)

    terms, doubt = np.append(x, updates), np.append(error, new)
    dtype = element_type(op.x.type).element
    total = combined(dtype, "sum", found.reshape(-1), terms, doubt, along)
    return np.broadcast_to(total, terms[: x.size].shape).reshape(found.shape)


@graph_error(graph.Matmul)
def matmul(
    op: graph.Matmul, found: Array, operands: Sequence[Array], errors: Sequence[Array]
) -> Array:
    pairs = zip(operands, errors, strict=True)
    a, b = ((_matrices(x), _matrices(error)) for x, error in pairs)
    dtype = element_type(op.result.type).element
    error = multiplied(dtype, _matrices(found), a, b)
    return np.broadcast_to(error, _matrices(found).shape).reshape(found.shape)


def _matrices(x: Array) -> Array:
    return x.reshape(int(np.prod(x.shape[:-2])), *x.shape[-2:])


@graph_error(graph.Conv2d)
def conv2d(
    op: graph.Conv2d, found: Array, operands: Sequence[Array], errors: Sequence[Array]
) -> Array:
    """Products of matrices, one for each group: what is seen at each place, and the filters."""
    images, channels, height, width = found.shape
    groups, each = op.groups, channels // op.groups
    count, reach = images * height * width, int(np.prod(operands[1].shape[1:]))

    def seen(x: Array) -> Array:
        return np.moveaxis(windows(op, x), 1, 0).reshape((groups, count, reach))

    def filters(w: Array) -> Array:
        return np.swapaxes(grouped_filters(op, w).reshape((groups, each, reach)), 1, 2)

    (x, w), (ex, ew) = operands, errors
    results = found.reshape((images, groups, each, height * width)).transpose(1, 0, 3, 2)
    results = results.reshape((groups, count, each))
    dtype = element_type(op.result.type).element
    error = multiplied(dtype, results, (seen(x), seen(ex)), (filters(w), filters(ew)))
    error = np.broadcast_to(error, results.shape)
    error = error.reshape((groups, images, height * width, each)).transpose(1, 0, 3, 2)
    return np.reshape(error, found.shape)
