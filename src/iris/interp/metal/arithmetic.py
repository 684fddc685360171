"""The shared math, on scalars and register arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.metal.counters import Counters
from iris.interp.metal.frame import Frame
from iris.interp.metal.rules import counting, interpretation
from iris.ir import math, scalar
from iris.ir.core import Op
from iris.ir.facts import facts
from iris.ir.math import element_type

Array = npt.NDArray[Any]


@interpretation(math.Elementwise)
def elementwise(frame: Frame, op: math.Elementwise, *operands: Array) -> Sequence[Array]:
    for where, message in scalar.program_errors(op, *operands):
        frame.check(op, where, message)
    return [scalar.evaluate_unwarned(op, *operands)]


@interpretation(math.Constant)
def constant(frame: Frame, op: math.Constant) -> Sequence[Array]:
    rank = frame.rank(element_type(op.result.type))
    return [scalar.from_bits(op.dtype, np.full((1,) * rank, op.bits, np.uint64))]


@interpretation(math.Select)
def select(
    frame: Frame, op: math.Select, condition: Array, on_true: Array, on_false: Array
) -> Sequence[Array]:
    if condition.ndim < on_true.ndim:
        condition = condition[..., None]
    return [scalar.evaluate_unwarned(op, condition, on_true, on_false)]


# What is counted: operations on floats, by element.


def _elements(frame: Frame, op: Op) -> int:
    """How many elements all threads that run an op compute."""
    type_ = element_type(op.results[0].type)
    if not type_.element.is_float:
        return 0
    return frame.threads_running() * int(np.prod(type_.shape, dtype=int))


@counting(math.Elementwise)
def count_flops(counters: Counters, frame: Frame, op: Op, *operands: Array) -> None:
    flops = facts[type(op)].flops
    if flops:
        counters.flops += flops * _elements(frame, op)


@counting(math.Transcendental, math.Sqrt)
def count_functions(counters: Counters, frame: Frame, op: Op, *operands: Array) -> None:
    counters.transcendentals[op.name] += _elements(frame, op)
