"""The methods of traced arrays that are functions of NumPy, and indexing; and the method `outer` of
ufuncs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from iris.errors import ArgumentError, DTypeError, LanguageError, ShapeError
from iris.frontend.arrays.array_values import cast, reshaped, shape_of, strong, traced
from iris.frontend.arrays.dtypes import as_dtype
from iris.frontend.arrays.indexed_update import AtIndexer
from iris.frontend.arrays.indexing import getitem
from iris.frontend.arrays.protocol import UFUNCS, Rule, call_function
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here

_FUNCTIONS = (
    "all",
    "any",
    "argmax",
    "argmin",
    "clip",
    "cumprod",
    "cumsum",
    "diagonal",
    "dot",
    "max",
    "mean",
    "min",
    "prod",
    "ravel",
    "repeat",
    "round",
    "squeeze",
    "std",
    "sum",
    "swapaxes",
    "take",
    "trace",
    "var",
)


def _of_numpy(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: TracedArray, *arguments: Any, **named: Any) -> Any:
        return call_function(function, (self, *arguments), named)

    method.__name__ = method.__qualname__ = name
    return method


def _astype(
    self: TracedArray,
    dtype: object,
    order: str = "K",
    casting: str = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> TracedArray:
    """The same numbers in another dtype."""
    if casting != "unsafe":
        raise error_here(LanguageError, f"casting={casting!r} is not supported for traced arrays")
    made = cast(self, as_dtype(dtype))
    return TracedArray(made.value, made.owner) if copy else made


def _reshape(self: TracedArray, *shape: Any, order: Any = "C", copy: Any = None) -> Any:
    """The shape in one, or size by size."""
    sizes = shape[0] if len(shape) == 1 else shape
    return call_function(np.reshape, (self, sizes), {"order": order, "copy": copy})


def _transpose(self: TracedArray, *axes: Any) -> Any:
    """The order of the axes in one, or axis by axis; without one, turned round."""
    return np.transpose(self, axes[0] if len(axes) == 1 else axes or None)


def _matrix_transpose(self: TracedArray) -> Any:
    return np.swapaxes(self, -1, -2)


def _same(self: TracedArray) -> TracedArray:
    return self


def _flatten(self: TracedArray, order: Any = "C") -> TracedArray:
    flat: TracedArray = call_function(np.ravel, (self, order), {})
    return flat.copied()


def _copy(self: TracedArray, *arguments: Any) -> TracedArray:
    return self.copied()


def _iterate(self: TracedArray) -> Iterator[TracedArray]:
    if not self.shape:
        raise error_here(ArgumentError, f"{self} has no axes to iterate over")
    return iter([getitem(self, i) for i in range(self.shape[0])])


def _in_place(name: str) -> Callable[[TracedArray, Any], TracedArray]:
    """`x += y`, which gives the name to another array, of the same shape and dtype; other names of
    what NumPy would change are used no more. A number, as NumPy's reductions and elements are, may
    become anything."""
    operate = getattr(operator, name)

    def operated(self: TracedArray, other: Any) -> TracedArray:
        found: TracedArray = operate(self, other)
        if self.memory.is_number:
            return found
        if found.shape != self.shape:
            raise error_here(
                ShapeError, f"{self} stays of its shape; this would make it {found.shape}"
            )
        if found.element.kind is not self.element.kind:
            raise error_here(
                DTypeError,
                f"{self} stays of its dtype; this would make it {found.element}: write "
                "x = x + y instead of x += y, and so on",
            )
        return self.changed(cast(found, self.element).value)

    return operated


def _outer(rule: Rule) -> Rule:
    def outer(A: Any, B: Any, **named: Any) -> Any:
        a, b = strong(A), strong(B)
        if shape_of(a) and shape_of(b):
            a = traced(a)
            a = reshaped(a, a.shape + (1,) * len(shape_of(b)))
        return rule(a, b, **named)

    return outer


def define() -> None:
    """Give traced arrays and ufuncs their methods, all functions being registered."""
    for function, rule in UFUNCS["__call__"].items():
        if function.nin == 2 and function.signature is None:
            UFUNCS["outer"][function] = _outer(rule)
    methods: dict[str, Any] = {name: _of_numpy(name) for name in _FUNCTIONS}
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
        *("and", "or", "xor", "lshift", "rshift"),
    ):
        word = f"{name}_" if name in ("and", "or") else name
        methods[f"__i{name}__"] = _in_place(word)
    methods |= {
        "conj": _same,  # of real numbers; the functions of NumPy make a copy
        "conjugate": _same,
        "imag": property(np.imag),
        "real": property(_same),
        "T": property(_transpose),
        "__copy__": _copy,
        "__deepcopy__": _copy,
        "__getitem__": getitem,
        "__iter__": _iterate,
        "astype": _astype,
        "at": property(AtIndexer),
        "copy": _copy,
        "flatten": _flatten,
        "mT": property(_matrix_transpose),
        "reshape": _reshape,
        "transpose": _transpose,
    }
    for name, method in methods.items():
        setattr(TracedArray, name, method)
