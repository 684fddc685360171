"""The state of tracing a function of arrays: its builder, and the arrays that it captures."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.errors import ScopeError
from iris.frontend.arrays.caller_source import name_of, stored_name
from iris.frontend.arrays.dtypes import numpy_dtype
from iris.frontend.arrays.weak_scalars import WeakScalarCheck
from iris.frontend.tracing import error_here, location, user_frame
from iris.ir.builder import Builder
from iris.ir.control import Func
from iris.ir.core import Location, Op, Value
from iris.ir.types import DType, Tensor

Array = npt.NDArray[Any]

_state = threading.local()


class Trace:
    """One function of arrays being traced."""

    def __init__(self, function: Func):
        self.function = function
        self.captured: list[Array] = []
        self.narrowed: dict[tuple[Value, DType], WeakScalarCheck] = {}
        self._builder = Builder(function.body)
        self._inputs: dict[tuple[int, DType], tuple[Array, Array, Value]] = {}
        self._named: tuple[CodeType, int, Op] | None = None  # where, and the op that has the name

    def emit(self, op: Op) -> Value:
        """Put an op of one result in place, with the user's line and, if it is the last op of what
        the user assigns to a variable, that name."""
        (value,) = self._builder.insert(op).results
        frame = user_frame()
        if frame is None:
            return value
        op.location = Location(frame.f_code.co_filename, frame.f_lineno)
        name = stored_name(frame)
        if name is not None:
            here = frame.f_code, frame.f_lasti
            if self._named is not None and self._named == (*here, op.previous):
                self._named[2].results[0].name = None
            value.name = name
            self._named = *here, op
        return value

    def narrow(self, number: Value, dtype: DType) -> None:
        """Note that a Python number is cast to the dtype of the array that it is combined with."""
        self.narrowed.setdefault((number, dtype), WeakScalarCheck(number, dtype, location()))

    def capture(self, array: Array, dtype: DType, source: Array) -> Value:
        """An input of the function that is not among its arguments: a copy of what is in an array
        of the user's, cast."""
        with np.errstate(all="ignore"):
            copy = np.array(array, numpy_dtype(dtype), order="C")
        key = id(source), dtype
        if key in self._inputs:
            _, known, value = self._inputs[key]
            # The user may have written to it meanwhile.
            if known.shape == copy.shape and known.tobytes() == copy.tobytes():
                return value
        frame = user_frame()
        name = None if frame is None else name_of(source, frame)
        value = self.function.body.add_argument(Tensor(copy.shape, dtype), name or "captured")
        self.captured.append(copy)
        self._inputs[key] = source, copy, value  # while it is held, no other has its id
        return value


def is_tracing() -> bool:
    """Whether a function of arrays is being traced."""
    return getattr(_state, "trace", None) is not None


def current() -> Trace:
    """The trace under way."""
    trace: Trace | None = getattr(_state, "trace", None)
    if trace is None:
        raise error_here(
            ScopeError,
            "this array was traced in a call that has ended, so it has no value; return it from "
            "the function",
        )
    return trace


@contextmanager
def trace_into(function: Func) -> Iterator[Trace]:
    """Trace into a function for a while."""
    outer = getattr(_state, "trace", None)
    _state.trace = trace = Trace(function)
    try:
        yield trace
    finally:
        _state.trace = outer
