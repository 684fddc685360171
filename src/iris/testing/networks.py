"""Random calls of functions of `iris.nn`, which give what their formulas do in NumPy.

    @given(networks.calls())
    def test_networks(call):
        call.check()

A call is traced, and its graph is evaluated in 64 bits; it is made with NumPy's own arrays, too.
So nothing is rounded but the numbers in a graph, which are of f32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from iris import nn
from iris.frontend.arrays.array_function import ArrayFunction
from iris.ir.control import Func
from iris.ir.core import Value
from iris.ir.scalar import storage
from iris.testing import plain_networks as plain
from iris.testing.choices import Choices
from iris.testing.numpy_ops import unrounded

Array = npt.NDArray[Any]
BYTES = 64
NEAR = 2.0**-20  # of numbers around 1: constants of f32 are off by 2**-24, and are used a few times
SHAPES = ((3, 4), (5,), (2, 3, 4), (4, 4), (1, 7), (2, 1, 3))
DTYPES = ("float32", "float32", "float16")


class Drawn(NamedTuple):
    """The arrays of a call, and its options."""

    arrays: Sequence[Array]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A call of a function by its name."""

    name: str
    drawn: Drawn

    def __repr__(self) -> str:
        given = [f"np.{x!r}" for x in self.drawn.arrays]
        given += [f"{k}={v!r}" for k, v in self.drawn.options.items()]
        return f"nn.{self.name}({', '.join(given)})"

    def check(self) -> None:
        """Assert that it gives what the formula does, traced and of NumPy's arrays."""
        (arrays, options), made = self.drawn, getattr(nn, self.name)
        wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in arrays]
        expected = np.asarray(getattr(plain, self.name)(*wide, **options))
        with np.errstate(invalid="ignore"):  # a query that sees no key
            self._compare("of NumPy's arrays", made(*wide, **options), expected)
        parameters = ", ".join([f"x{n}" for n in range(len(arrays))])
        call = eval(f"lambda {parameters}: made({parameters}, **options)", locals())
        function = ArrayFunction(call)
        traced = function.trace(function.bind([*arrays], {}))
        (func,) = traced.module
        assert isinstance(func, Func)
        (result,) = func.body.end.operands
        found = evaluated(func, [*arrays, *traced.captured])
        self._compare("traced", found, expected)
        dtype = storage(result.type.element)
        assert dtype == self.dtype, f"traced, it is of {dtype}, not {self.dtype}\n\n{self!r}"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the result: that of the first array, unless that is of labels."""
        first = self.drawn.arrays[0].dtype
        return first if first.kind == "f" else np.dtype(np.float32)

    def _compare(self, how: str, found: Any, expected: Array) -> None:
        now = np.asarray(found, np.float64)
        if now.shape == expected.shape and np.allclose(now, expected, NEAR, NEAR, equal_nan=True):
            return
        raise AssertionError(f"{how}, it is\n{now}\nnot\n{expected}\n\n{self!r}")


def evaluated(func: Func, arguments: Sequence[Any]) -> Array:
    """What a graph returns, of floats in 64 bits."""
    values: dict[Value, Array] = dict(zip(func.body.arguments, arguments, strict=True))
    for op in func.body:
        if not op.terminator:
            values[op.results[0]] = unrounded(op, *[values[v] for v in op.operands])
    return values[func.body.end.operands[0]]


# What they are called with.


def _floats(choices: Choices, *shape: int, dtype: str = "float32") -> Array:
    rng = np.random.default_rng(choices.below(256))
    return (rng.integers(-8, 9, shape) / 4).astype(dtype)


def _labels(choices: Choices, *shape: int, below: int) -> Array:
    return np.random.default_rng(choices.below(256)).integers(0, below, shape).astype(np.int32)


def _elementwise(choices: Choices, options: Sequence[Mapping[str, Any]] = ({},)) -> Drawn:
    x = _floats(choices, *choices.of(SHAPES), dtype=choices.of(DTYPES))
    return Drawn([x], choices.of(options))


def _axis(choices: Choices, rank: int) -> dict[str, Any]:
    """The axis as an option, or axes, or none."""
    axis = choices.below(rank) - rank * choices.flag()
    every = tuple(range(rank))
    return choices.of(({}, {"axis": axis}, {"axis": axis}, {"axis": every[choices.below(rank) :]}))


def _along(choices: Choices) -> Drawn:
    x = _floats(choices, *choices.of(SHAPES), dtype=choices.of(DTYPES))
    return Drawn([x], _axis(choices, x.ndim))


def _norm(choices: Choices, most: int) -> Drawn:
    """With weights, and what else there is, for the last axis."""
    x = _floats(choices, *choices.of(SHAPES), dtype=choices.of(DTYPES))
    more = [_floats(choices, x.shape[-1], dtype=x.dtype.name) for _ in range(choices.below(most))]
    eps = choices.of(({}, {"eps": 0.25}, {"eps": 1.0}))
    return Drawn([x, *more], {**_axis(choices, x.ndim), **eps})


def _one_hot(choices: Choices) -> Drawn:
    classes = choices.of((3, 1, 4))
    labels = _labels(choices, *choices.of(SHAPES), below=classes + choices.below(2))
    return Drawn([labels], {"classes": classes})


def _cross_entropy(choices: Choices) -> Drawn:
    x = _floats(choices, *choices.of(SHAPES), dtype=choices.of(DTYPES))
    axis = choices.below(x.ndim)
    if choices.flag(3):
        return Drawn([x, np.abs(_floats(choices, *x.shape))], {"axis": axis})
    shape = [n for a, n in enumerate(x.shape) if a != axis]
    labels = _labels(choices, *shape, below=x.shape[axis])
    return Drawn([x, labels], {"axis": axis - x.ndim * choices.flag()})


def _attention(choices: Choices) -> Drawn:
    """Of one head or of several, which may share keys and values."""
    queries, keys, features = (choices.of((3, 1, 4)) for _ in range(3))
    heads, shared = choices.of((((), ()), ((2,), (2,)), ((4,), (2,)), ((3, 2), (3, 1))))
    dtype = choices.of(DTYPES)
    q = _floats(choices, *heads, queries, features, dtype=dtype)
    k = _floats(choices, *shared, keys, features, dtype=dtype)
    v = _floats(choices, *shared, keys, choices.of((features, 2)), dtype=dtype)
    options: dict[str, Any] = choices.of(({}, {"scale": 0.5}, {"causal": True}, {"causal": True}))
    masks: list[Array] = []
    if choices.flag(3):
        mask = _floats(choices, queries, keys)
        masks = [mask > -1 if choices.flag() else mask]
    return Drawn([q, k, v, *masks], options)


def _conv2d(choices: Choices) -> Drawn:
    groups, each, channels = choices.of((1, 1, 2)), choices.of((1, 2)), choices.of((1, 2))
    size = [choices.of((5, 4, 6, 7)) for _ in "hw"]
    window = [choices.of((3, 1, 2, 4)) for _ in "hw"]
    x = _floats(choices, choices.of((1, 2)), groups * channels, *size)
    w = _floats(choices, groups * each, channels, *window)
    bias = [_floats(choices, len(w))] if choices.flag(3) else []
    paddings = ("same", 0, "valid", "same", 1, (2, 0), ((1, 2), (0, 3)))
    options = {
        "stride": choices.of((1, 2, (2, 1), 3, (1, 3))),
        "padding": choices.of(paddings),
        "dilation": choices.of((1, 1, 2, (1, 2))),
        "groups": groups,
    }
    return Drawn([x, w, *bias], options)


_DRAWN: Mapping[str, Callable[[Choices], Drawn]] = {
    "conv2d": _conv2d,
    "attention": _attention,
    "layer_norm": partial(_norm, most=3),
    "rms_norm": partial(_norm, most=2),
    "softmax": _along,
    "log_softmax": _along,
    "cross_entropy": _cross_entropy,
    "one_hot": _one_hot,
    "relu": _elementwise,
    "sigmoid": _elementwise,
    "silu": _elementwise,
    "erf": _elementwise,
    "gelu": partial(_elementwise, options=({}, {"approximate": "tanh"})),
}


def _made(data: bytes) -> Call:
    choices = Choices(data)
    name = choices.of([*_DRAWN, "conv2d", "attention", "layer_norm"])
    return Call(name, _DRAWN[name](choices))


def calls() -> st.SearchStrategy[Call]:
    """Calls of any of the functions."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(_made)
