"""Random calls of functions of arrays, from NumPy arrays or Buffers to what they return.

    @given(calls.calls())
    def test_calls(call):
        call.check()

A function of few lines is compiled by `iris.jit`, at times with the schedules of its kernels tuned,
and called several times: with other numbers, by name, with one array for two.  The elements of
arrays lie in memory in row-major order, or otherwise: what is returned is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import iris
from iris.compiler import candidates
from iris.frontend.arrays.array_function import ArrayFunction
from iris.ir.control import Func
from iris.testing.array_draft import NAMES, REFUSED
from iris.testing.array_functions import BYTES, Function
from iris.testing.choices import Choices
from iris.testing.faults import doing
from iris.testing.fusing import EXPANDED, values_of
from iris.testing.numpy_graphs import Expected
from iris.testing.sources import defined

Array = npt.NDArray[Any]
DEVICES = ("interp", "interp:metal", "interp", "interp")


class _Short(Function):
    """A function of few lines, which returns the last and maybe others."""

    most_lines = 8

    def __init__(self, choices: Choices):
        super().__init__(choices)
        self._returned = [n for n in super().returned[:-1] if choices.flag(3)]
        self._returned += super().returned[-1:]

    @property
    def returned(self) -> Sequence[str]:
        return self._returned


@dataclass(frozen=True)
class Call:
    """A function, and some calls of it, each with arrays by their names; some are Buffers."""

    text: str
    given: Sequence[Mapping[str, Array]]
    buffers: frozenset[str]
    named: int  # how many of the last are passed by name
    tune: bool
    device: str
    layouts: Mapping[str, str]  # how the elements of arrays lie in memory

    def __repr__(self) -> str:
        calls = [repr({k: x.tolist() for k, x in arrays.items()}) for arrays in self.given]
        how = f"{self.device}, tune={self.tune}, Buffers {sorted(self.buffers)}, {self.named} named"
        how += f", {dict(self.layouts)}"
        return "\n".join([*calls, how, "", self.text])

    def check(self) -> None:
        """Asserts that each call returns what the graph of the function does."""
        made = defined(self.text, **NAMES)
        compiled = iris.jit(made, tune=self.tune)
        function = ArrayFunction(made)
        with candidates.watched():
            for arrays in self.given:
                traced = function.trace(function.bind([*arrays.values()], {}))
                (func,) = traced.module
                assert isinstance(func, Func)
                given = [*arrays.values(), *traced.captured]
                expected = Expected.of_function(func, given, EXPANDED)
                laid_out: dict[int, Array] = {}
                for name, x in arrays.items():
                    laid_out.setdefault(id(x), _LAYOUTS[self.layouts[name]](x))
                with doing(repr(self)):
                    passed = {name: laid_out[id(x)] for name, x in arrays.items()}
                    expected.compare(self._returned(compiled, passed))
                    for x in arrays.values():
                        assert np.array_equal(laid_out[id(x)], x, equal_nan=x.dtype.kind == "f")

    def _returned(self, compiled: Any, arrays: Mapping[str, Array]) -> list[Array]:
        made: dict[int, iris.Buffer] = {}  # one for each array, whichever parameters it is for
        passed: dict[str, Any] = {}
        for name, array in arrays.items():
            passed[name] = array
            if name in self.buffers:
                made.setdefault(id(array), iris.asarray(array, device=self.device))
                passed[name] = made[id(array)]
        names = [*passed]
        first = len(names) - self.named
        by_name = {name: passed[name] for name in names[first:][::-1]}
        found = compiled(*[passed[n] for n in names[:first]], **by_name, device=self.device)
        return [values_of(x) if isinstance(x, iris.Buffer) else x for x in found]


def _made(data: bytes) -> Call:
    choices = Choices(data)
    function = _Short(choices)
    given = [dict(function.arguments)]
    for turn in range(choices.of((0, 1, 2))):
        arrays = {k: np.roll(x, 1 + turn) for k, x in function.arguments.items()}
        if _takes(function, arrays):
            given.append(arrays)
    first, *rest = function.arguments
    for name in rest:
        alike = function.arguments[name].dtype == function.arguments[first].dtype
        same = {**function.arguments, name: function.arguments[first]}
        if alike and same[first].shape == function.arguments[name].shape and _takes(function, same):
            given.append(same)
    return Call(
        function.text,
        given,
        frozenset([name for name in function.arguments if choices.flag()]),
        choices.of((0, 0, 1, len(function.arguments))),
        choices.flag(4),
        choices.of(DEVICES),
        {name: choices.of(("", "", *_LAYOUTS)) for name in function.arguments},
    )


def _takes(function: Function, arrays: Mapping[str, Array]) -> bool:
    """Whether other numbers are as good for all lines."""
    if "astype" in function.text:  # which may not hold them
        return False
    with suppress(*REFUSED):
        return function.takes(arrays)
    return False


def _apart(x: Array) -> Array:
    """With other elements between."""
    wide: Array = np.ones((*x.shape, 2), x.dtype)
    wide[..., 0] = x
    found: Array = wide[..., 0]
    return found


def _at_an_odd_byte(x: Array) -> Array:
    memory = np.zeros(x.nbytes + 1, np.uint8)
    found: Array = np.ndarray(x.shape, x.dtype, memory, 1)
    found[...] = x
    return found


def _read_only(x: Array) -> Array:
    found: Array = x.copy()
    found.flags.writeable = False
    return found


_LAYOUTS: Mapping[str, Callable[[Array], Array]] = {
    "": lambda x: x,
    "columns first": lambda x: x.copy(order="F"),
    "backwards": lambda x: np.flip(np.flip(x).copy()),
    "apart": _apart,
    "at an odd byte": _at_an_odd_byte,
    "read-only": _read_only,
}


def calls() -> st.SearchStrategy[Call]:
    """Calls of functions of two or three arrays."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(_made)
