"""What a traced array does for each function of NumPy, told to NumPy by its own protocols.

The modules of functions register theirs here; one that nobody has registered is an error that
names it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np

from iris.errors import ArgumentError, LanguageError
from iris.frontend.arrays.advice import advice
from iris.frontend.tracing import error_here

Rule = Callable[..., Any]
AnyRule = TypeVar("AnyRule", bound=Rule)

FUNCTIONS: dict[Any, Rule] = {}
UFUNCS: dict[str, dict[Any, Rule]] = {
    method: {} for method in ("__call__", "reduce", "accumulate", "outer")
}


def implements(*names: str) -> Callable[[AnyRule], AnyRule]:
    """Registers a rule for functions of NumPy, which may be of later versions than the one here.

    Its parameters are those of the function, or the first of them; `out` is checked here.
    """

    def register(rule: AnyRule) -> AnyRule:
        for name in names:
            function = find(name)
            if function is not None:
                FUNCTIONS[function] = rule
        return rule

    return register


def ufunc(*names: str, method: str = "__call__") -> Callable[[AnyRule], AnyRule]:
    """Registers a rule for a method of ufuncs of NumPy, most often being called."""

    def register(rule: AnyRule) -> AnyRule:
        for name in names:
            function = find(name)
            if function is not None:
                UFUNCS[method][function] = rule
        return rule

    return register


def find(name: str) -> Any:
    """The function of NumPy of a name, such as `linalg.norm`; None if there is none."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def call_function(function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What NumPy's protocol for functions asks for."""
    name = name_of(function)
    rule = FUNCTIONS.get(function)
    if rule is None:
        raise error_here(LanguageError, f"{name} {advice(name)}")
    found = _call(name, rule, arguments, named)
    return found if function in VIEWS else _copied(found)


def call_ufunc(function: Any, method: str, operands: Sequence[Any], named: dict[str, Any]) -> Any:
    """What NumPy's protocol for ufuncs asks for."""
    name = name_of(function) if method == "__call__" else f"{name_of(function)}.{method}"
    rules = UFUNCS.get(method, {})
    rule = rules.get(function)
    if rule is None and rules and method != "__call__":
        those = ", ".join(sorted([one.__name__ for one in rules]))
        raise error_here(
            LanguageError,
            f"{name} is not supported for traced arrays; {method} is there of {those}. Of others, "
            "write a loop over the axis: Python unrolls it",
        )
    if rule is None:
        raise error_here(LanguageError, f"{name} {advice(name)}")
    if named.get("out") is not None:
        raise error_here(LanguageError, _NO_OUT.format(name))
    if method == "__call__" and named.get("where", True) is not True:
        raise error_here(
            LanguageError,
            f"where= of {name} would leave elements without a value; write np.where(condition, "
            f"{name}(...), other)",
        )
    skipped = ("out", "where") if method == "__call__" else ("out",)
    options = {k: v for k, v in named.items() if k not in skipped}
    return _copied(_call(name, rule, operands, options))


# The functions whose results share memory with their operands; those of others have their own.
VIEWS = {
    find(name)
    for name in (
        *("reshape", "ravel", "squeeze", "expand_dims", "atleast_1d", "atleast_2d", "atleast_3d"),
        *("transpose", "permute_dims", "matrix_transpose", "swapaxes", "moveaxis", "rollaxis"),
        *("flip", "fliplr", "flipud", "rot90", "diagonal", "broadcast_to", "broadcast_arrays"),
        *("split", "array_split", "hsplit", "vsplit", "dsplit", "unstack", "linalg.diagonal"),
        *("asarray", "asanyarray", "ascontiguousarray", "real", "linalg.matrix_transpose"),
        *("array", "astype", "diag", "diff", "einsum", "meshgrid"),  # for some arguments
    )
}


def _copied(found: Any) -> Any:
    """A result with memory of its own."""
    if isinstance(found, (tuple, list)):
        parts = [_copied(part) for part in found]
        return type(found)(*parts) if hasattr(found, "_fields") else type(found)(parts)
    copied = getattr(found, "copied", None)
    return found if copied is None else copied()


_NO_OUT = (
    "{} cannot write to out=, nor += to an array that is not traced: no array changes while a "
    "function is traced; use what it returns, as in a = a + x"
)


def _call(name: str, rule: Rule, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    try:
        bound = _signature(rule).bind(*arguments, **named)
    except TypeError as error:
        raise error_here(
            ArgumentError, f"{name} of a traced array: {error}; this option is not supported"
        ) from None
    if bound.arguments.get("out") is not None:
        raise error_here(LanguageError, _NO_OUT.format(name))
    return rule(*bound.args, **bound.kwargs)


@cache
def _signature(rule: Rule) -> inspect.Signature:
    return inspect.signature(rule)


def name_of(function: Any) -> str:
    """`np.linalg.norm`, as the user writes it."""
    name: str = function.__name__
    module = getattr(function, "__module__", None) or "numpy"
    if isinstance(function, np.ufunc) or not module.startswith("numpy.") or "._" in module:
        return f"np.{name}"
    return f"np.{module.removeprefix('numpy.')}.{name}"
