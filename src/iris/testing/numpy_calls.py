"""Calls of whatever NumPy has that Iris implements, with any of the options that Iris takes.

The parameters of the rules say what a call may be given: a function that is added is called, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from iris.frontend.arrays import (
    array_products,
    array_reductions,
    counting,
    einsum,
    linalg,
    series,
    special,
)
from iris.frontend.arrays.padding import MODES
from iris.frontend.arrays.protocol import FUNCTIONS, UFUNCS, VIEWS, Rule, name_of
from iris.testing.array_draft import ArrayDraft, Line


class Callee(NamedTuple):
    """A function of NumPy, as Python has it, and what Iris takes for it."""

    text: str
    required: tuple[str, ...]
    options: tuple[str, ...]
    moves: bool  # elements, and computes none
    multiplies: bool  # and adds up: in 32 bits, whatever the integers
    is_formula: bool  # which is not rounded as the ops that it is made of: it is close to NumPy's


@cache
def callees() -> Sequence[Sequence[Callee]]:
    """The functions, and the ufuncs and their methods, all of whose arguments are known here."""
    functions = [(name_of(f), rule, f in VIEWS) for f, rule in FUNCTIONS.items()]
    called = [(name_of(f), rule, False) for f, rule in UFUNCS["__call__"].items()]
    methods = [
        (f"{name_of(f)}.{method}", rule, False)
        for method, rules in UFUNCS.items()
        for f, rule in rules.items()
        if method != "__call__"
    ]
    made = [[_callee(*one) for one in some] for some in (functions, called, methods)]
    return [[one for one in some if one is not None] for some in made]


def _callee(text: str, rule: Rule, moves: bool) -> Callee | None:
    signature = inspect.signature(rule)
    listed = signature.parameters.values()
    parameters = [p for p in listed if p.kind not in _ANY_NUMBER or p.name in _ARRAYS]
    required = [p.name for p in parameters if p.default is p.empty]
    options = [
        p.name
        for p in parameters
        if p.default is not p.empty and (p.name in _OPTIONS or (text, p.name) in _OWN)
    ]
    is_known = bool(required) and {*required} <= _ARRAYS.keys() | _OPTIONS.keys()
    returned = signature.return_annotation
    is_array = returned in (signature.empty, "Any") or "TracedArray" in str(returned)
    if not is_known or not is_array or text in _LEFT_OUT:
        return None
    multiplies = rule.__module__ in _OF_PRODUCTS
    is_formula = text.removesuffix(".outer") in _formulas()
    return Callee(text, tuple(required), tuple(options), moves, multiplies, is_formula)


def is_elementwise(callee: Callee) -> bool:
    """Whether it makes each element of one, or of two."""
    does_other_things = callee.moves or callee.multiplies or callee.text in adding()
    is_of_elements = {*callee.required} <= _OF_ELEMENTS and len(callee.required) <= 2
    return is_of_elements and not does_other_things


def is_along_axis(callee: Callee) -> bool:
    """Whether it may be given one array and an axis, and nothing else, and is no product."""
    takes = {*callee.required} <= _ONE and "axis" in callee.options
    return takes and len(callee.required) == 1 and not callee.multiplies


_ONE = frozenset(("a", "x", "y", "m", "arr", "array"))
_OF_ELEMENTS = frozenset(("x", "x1", "x2", "a", "b", "val"))


@cache
def adding() -> frozenset[str]:
    """What adds up 16 bits in 32."""
    rooms = (array_reductions.__name__, linalg.__name__, counting.__name__)
    return frozenset(name_of(f) for f, rule in FUNCTIONS.items() if rule.__module__ in rooms)


@cache
def _formulas() -> frozenset[str]:
    rules = UFUNCS["__call__"].items()
    return frozenset(name_of(f) for f, rule in rules if rule.__module__ == special.__name__)


_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_OF_PRODUCTS = [room.__name__ for room in (array_products, einsum, linalg, series)]
# Of integers NumPy sums in their own dtype, which may wrap.
_SUMMING = frozenset(
    f"np.{name}"
    for name in (
        *("matmul", "linalg.matmul", "dot", "inner", "vdot", "tensordot", "linalg.tensordot"),
        *("vecdot", "matvec", "vecmat", "convolve"),
    )
)
# New memory holds anything, NumPy warns of its old name of `vstack`, and what lies between two ends
# is rounded more than once.
_LEFT_OUT = ("np.empty_like", "np.row_stack", "np.linspace")
# By negative numbers they are what C makes of them.
_SHIFTS = ("np.left_shift", "np.right_shift")
# These tell the signs of zeros, of which NumPy's maxima and minima take either.
_OF_SIGNS = ("np.signbit", "np.copysign", "np.arctan2")


def call(f: ArrayDraft) -> Line:
    """A call of one of them, which Iris may refuse."""
    functions, called, methods = callees()
    some = f.choices.of((functions, functions, functions, called, methods))
    return call_of(f, f.choices.of(some))


def call_of(f: ArrayDraft, callee: Callee, always: str = "") -> Line:
    """A call of a function, with one of its options in any case."""
    f.is_careful = callee.is_formula
    choices, x = f.choices, f.shaped()
    name = callee.text.removesuffix(".outer")
    given = [_argument(f, x, name, p, n) for n, p in enumerate(callee.required)]
    drawn = [option for option in callee.options if option == always or choices.flag()]
    options = [f"{option}={_argument(f, x, name, option, 1)}" for option in drawn]
    if callee.multiplies:
        kinds = {f.values[v].dtype.kind if v in f.values else v for v in given}
        form = "{}.astype(np.float32)"
        if kinds in ({"i"}, {"u"}) and choices.flag():
            form = "wide({})" if name in _SUMMING and "axes=0" not in options else "{}"
        given = [form.format(v) if v in f.values else v for v in given]
    if name in _SHIFTS:
        given[1:] = [f"np.absolute({v})" for v in given[1:]]
    if name in _OF_SIGNS:
        is_array = [v.partition(".")[0] in f.values for v in given]
        pairs = zip(given, is_array, strict=True)
        given = [f"np.where({v} == 0, 1, {v})" if array else v for v, array in pairs]
    if any("float32" in v for v in given):  # which no integer need hold
        options = ["dtype=np.float32" if o.startswith("dtype=") else o for o in options]
    given += options
    if name in _NEEDS_LIKE:
        given.append(f"like={x}")
    f.is_careful = False
    text = f"{callee.text}({', '.join(given)})"
    return Line(text, callee.moves, any_call=True, is_result=callee.is_formula)


def _argument(f: ArrayDraft, x: str, function: str, name: str, number: int) -> str:
    if (function, name) in _OWN:
        return _OWN[function, name](f, x)
    maker = _ARRAYS.get(name)
    return _OPTIONS[name](f, x) if maker is None else maker(f, x, number)


# Arrays: the first is `x`, mostly.


def _array(f: ArrayDraft, x: str, number: int) -> str:
    """It, or what goes with it: something of its shape, of any, or a number."""
    made = x if number == 0 else _beside(f, x)
    return f"{made}.astype(np.float32)" if made in f.values and f.choices.flag(3) else made


def _beside(f: ArrayDraft, x: str) -> str:
    style = f.choices.below(4)
    if style == 3:
        return f.number(f.values[x].dtype)
    return f.some(lambda y: style == 2 or y.shape == f.values[x].shape)


def _several(f: ArrayDraft, x: str, number: int) -> str:
    alike = f.some(lambda y: y.shape == f.values[x].shape)
    return ", ".join(f.choices.of(((x, alike), (alike, x, x), (x, f.some()))))


def _listed(f: ArrayDraft, x: str, number: int) -> str:
    return f"[{_several(f, x, number)}]"


def _mask(f: ArrayDraft, x: str) -> str:
    return f.mask(f.values[x].shape)


_ARRAYS: dict[str, Callable[[ArrayDraft, str, int], str]] = {
    **dict.fromkeys(("a", "b", "x", "y", "x1", "x2", "a1", "a2", "array", "arr", "ary"), _array),
    **dict.fromkeys(("A", "B", "f", "m", "p", "v", "val", "element"), _array),
    "values": lambda f, x, number: f.some(),
    **dict.fromkeys(("test_elements", "fill_value"), _array),
    **dict.fromkeys(("args", "arys", "xi"), _several),
    **dict.fromkeys(("arrays", "tup", "choicelist"), _listed),
    "condition": lambda f, x, number: _mask(f, x),
    "condlist": lambda f, x, number: f"[{_mask(f, x)}, {_mask(f, x)}]",
}


# Options.


def _axis(f: ArrayDraft, x: str) -> str:
    """One of its axes; seldom, of a call that NumPy refuses, one more than there are."""
    rank = f.values[x].ndim
    return str(f.choices.of((rank, -rank - 1)) if f.choices.flag(24) else f.axis(x))


def _axis_or_axes(f: ArrayDraft, x: str) -> str:
    return f.choices.of((_axis, _axis, _axes))(f, x)


def _order(f: ArrayDraft, x: str) -> tuple[int, ...]:
    """All axes in any order."""
    return tuple(sorted(range(f.values[x].ndim), key=lambda _: f.choices.below(256)))


def _axis_or_order(f: ArrayDraft, x: str) -> str:
    return _axis(f, x) if f.choices.flag() else str(_order(f, x))


def _axes(f: ArrayDraft, x: str) -> str:
    """Some axes, or all in any order."""
    order = _order(f, x)
    return str(order[: f.choices.of((2, len(order), 1))])


def _axes_of_two(f: ArrayDraft, x: str) -> str:
    """For the order of axes, or for what goes along axes of two arrays."""
    if f.choices.flag():
        return _axes(f, x)
    return f.choices.of((f"([{f.axis(x)}], [{f.axis(x)}])", "1", "0"))


def _shape(f: ArrayDraft, x: str) -> str:
    shape = f.values[x].shape
    return f.choices.of(("-1", "(2, -1)", "(-1, 3)", str((2, *shape)), str(shape[::-1])))


def _dtype(f: ArrayDraft, x: str) -> str:
    """One that holds what there is, mostly: of floats outside its range nothing is known."""
    if any(value.dtype.kind == "f" for value in f.values.values()):
        return "np.float32"
    return f.choices.of(("np.float32", "np.int32", "np.int64", "np.uint8", "bool"))


def _repeats(f: ArrayDraft, x: str) -> str:
    """As many times for all, or for each element along an axis."""
    size = f.choices.of(f.values[x].shape or (1,))
    return f.choices.of(("2", str([f.choices.below(3) for _ in range(size)]), "3", "0"))


def _widths(f: ArrayDraft, x: str) -> str:
    """Of all axes, or of each, or of some by their numbers."""
    choices, rank = f.choices, f.values[x].ndim
    each = [(choices.below(3), choices.below(3)) for _ in range(rank)]
    return choices.of(("1", "(1, 2)", str(each), f"{{{f.axis(x)}: (1, 2)}}", "(0, 1)"))


def _uneven(f: ArrayDraft, x: str) -> str:
    """Many places of some axis, in no order."""
    size = f.choices.of(f.values[x].shape or (1,))
    return str([(5 * n * n + n // 2) % max(size, 1) for n in range(20)])


def _of_size_1(f: ArrayDraft, x: str) -> str:
    """The axes of size 1, or one of them, at times counted from the last."""
    rank = f.values[x].ndim
    ones = [axis for axis, size in enumerate(f.values[x].shape) if size == 1]
    found = [axis - rank * f.choices.flag() for axis in ones[: f.choices.of((rank, 1))]]
    return str(tuple(found) if len(found) != 1 or f.choices.flag() else found[0])


def _places_along(f: ArrayDraft, x: str) -> str:
    """Numbers for the elements along an axis, not evenly spaced, or one for each element."""
    size, other = f.choices.of(f.values[x].shape or (1,)), _beside(f, x)
    steps = f"np.array({[n * n + 1 for n in range(size)]}, np.float32)"
    # Differences of unsigned integers may wrap.
    other = f"{other}.astype(np.float32)" if other in f.values else other
    return f.choices.of((steps, steps, other))


def _weights(f: ArrayDraft, x: str) -> str:
    """Floats, or numbers of enough bits: NumPy adds weights in their own dtype, which may wrap."""
    size, other = f.choices.of(f.values[x].shape or (1,)), _beside(f, x)
    other = f"{other}.astype(np.float32)" if other in f.values else other
    return f.choices.of((f"np.arange(1, {size + 1})", other))


def _one_of(*texts: str) -> Callable[[ArrayDraft, str], str]:
    return lambda f, x: f.choices.of(texts)


_INTEGER = _one_of("1", "-1", "2", "-2", "0", "3")

_OPTIONS: dict[str, Callable[[ArrayDraft, str], str]] = {
    "axis": _axis_or_axes,
    **dict.fromkeys(("axis1", "axis2", "axisa", "axisb", "axisc"), _axis),
    **dict.fromkeys(("source", "destination"), _axis_or_order),
    "axes": _axes_of_two,
    **dict.fromkeys(("keepdims", "include_initial", "invert", "returned"), _one_of("True")),
    **dict.fromkeys(("sparse", "equal_nan", "density"), _one_of("True")),
    "retstep": _one_of("True"),
    "assume_unique": _one_of("False"),  # which is not known of elements
    **dict.fromkeys(("endpoint", "copy"), _one_of("False")),
    "casting": _one_of("'no'", "'safe'", "'same_kind'", "'unsafe'"),
    "indexing": _one_of("'ij'"),
    "dtype": _dtype,
    "order": _one_of("'F'", "'C'"),
    "mode": _one_of("'clip'", "'wrap'"),
    "ord": _one_of("1", "2", "np.inf", "-np.inf", "0", "-1", "3", "'fro'"),
    "where": _mask,
    "weights": _weights,
    **dict.fromkeys(
        ("initial", "nan", "posinf", "neginf"), lambda f, x: f.number(f.values[x].dtype)
    ),
    **dict.fromkeys(("default", "prepend", "append"), _beside),
    **dict.fromkeys(("a_min", "a_max", "min", "max", "mean"), _beside),
    **dict.fromkeys(("k", "offset", "shift", "start", "stop"), _INTEGER),
    **dict.fromkeys(("n", "ddof", "correction", "edge_order"), _one_of("1", "2", "0")),
    "decimals": _one_of("1", "0", "-1", "2"),
    **dict.fromkeys(("rtol", "atol"), _one_of("0.5", "1", "0.25")),
    "bins": _one_of("[-2, 0, 1, 3]", "[0, 1, 2]", "[-3, -1, 0, 2]", "3"),
    "range": _one_of("(-3, 3)", "(0, 2)"),
    "num": _one_of("5", "1", "2"),
    "dx": _one_of("0.5", "2"),
    "reps": _one_of("2", "(2, 1)", "(1, 3)", "(2, 1, 1)", "0", "(3, 2)"),
    "repeats": _repeats,
    "indices_or_sections": _one_of("2", "[1]", "3", "[1, -1]", "[2, 1]"),
    "obj": _one_of("0", "-1", "[0, 1]", "slice(1, None, 2)", "[-1, 0]"),
    "indices": lambda f, x: f.choices.of(("[0, -1, 0]", "[[1, 0]]", "2", _uneven(f, x))),
    "pad_width": _widths,
    "shape": _shape,
}

# What a parameter is of one function, where others have another of the name.
_OWN: dict[tuple[str, str], Callable[[ArrayDraft, str], str]] = {
    ("np.convolve", "mode"): _one_of("'same'", "'valid'", "'full'"),
    # NumPy makes the edges in the dtype of the elements.
    ("np.histogram", "a"): lambda f, x: f"{x}.astype(np.float32)",
    ("np.pad", "mode"): _one_of(*[repr(mode) for mode in MODES if mode != "empty"]),
    ("np.roll", "shift"): _one_of("1", "-2", "(1, -1)", "3", "(2, 1)", "-1"),
    ("np.squeeze", "axis"): _of_size_1,
    **{
        (f"np.{name}", "dtype"): _one_of("np.float32")  # which holds what it is
        for name in ("linalg.trace", "mean", "nanmean", "std", "nanstd", "var", "nanvar")
    },
    ("np.trapezoid", "x"): _places_along,
}
# What is told of an array by `like=`.
_NEEDS_LIKE = ("np.array", "np.asarray", "np.asanyarray", "np.ascontiguousarray")
