"""Single calls of NumPy's functions, with arguments at which things go wrong.

    @given(array_probes.probes())
    def test_calls(probes):
        probes.check()

A probe is an expression of arguments that it has for itself: arrays of any dtype with zeros of two
signs, infinities, nan and limits, Python numbers at the ends of a dtype, axes of size 0 and 1.
One example has many of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from iris.frontend.arrays import array_reductions, counting, linalg
from iris.frontend.arrays.protocol import FUNCTIONS, UFUNCS, VIEWS, name_of
from iris.testing import array_functions
from iris.testing.array_draft import ArrayDraft, Line
from iris.testing.choices import Choices
from iris.testing.numpy_calls import Callee, call_of, callees
from iris.testing.numpy_expressions import Expression

Array = npt.NDArray[Any]
BYTES = 40  # of a probe
TOGETHER = 20
TRIES = 3
MOST = 600  # elements of a result

_INTEGERS = ("int32", "int8", "uint8", "int16", "uint32", "int64", "uint64", "uint16")
DTYPES = ("float32", "float16", *_INTEGERS[:3], "float32", "float16", *_INTEGERS[3:], "bool")
_SHAPES = ((3, 4), (5,), (3, 3), (2, 3, 4), (1, 5), (4, 1), (7,), (2, 3, 3), (1,), (0, 3), (2, 0))
_FLOATS = (0.0, -0.0, 1.0, -1.5, float("nan"), float("inf"), float("-inf"), 2.5, 300.0, -6e4, 1e-4)


class Probe(ArrayDraft):
    """An expression, and its arguments."""

    most_lines = 1

    def __init__(self, data: bytes):
        choices = Choices(data)
        self.shape = choices.of(_SHAPES)
        self.dtype = choices.of(DTYPES)
        self.adds = self.tells_signs = False
        super().__init__(choices)
        text = self.lines[-1].partition(" = ")[2] if self.lines else ""
        arguments = {k: x for k, x in self.arguments.items() if k in text}
        self.expression = Expression(text, arguments, self.adds, self.tells_signs)

    def _argument(self) -> Array:
        choices = self.choices
        size = self.shape[-1]
        ones = tuple([n if choices.flag() else 1 for n in self.shape])
        shape = choices.of((self.shape, self.shape, (size,), ones, choices.of(_SHAPES)))
        dtype = np.dtype(self.dtype if choices.flag() else choices.of(DTYPES))
        rng = np.random.default_rng(choices.below(256))
        if not self.arguments:
            shape, dtype = self.shape, np.dtype(self.dtype)
        if dtype.kind == "b" or choices.flag():
            low, high = {"u": (0, 9), "b": (0, 2)}.get(dtype.kind, (-4, 5))
            return rng.integers(low, high, shape).astype(dtype)
        numbers = _FLOATS if dtype.kind == "f" else ends(dtype)
        some = [choices.of(numbers) for _ in range(choices.of((9, 2, 9, 1)))]
        return np.array(some, dtype)[rng.integers(0, len(some), shape)]

    def _try(self, line: Line) -> None:
        if any(x in line.text for x in self.arguments):
            self.lines.append(f"v0 = {line.text}")

    def number(self, dtype: np.dtype[Any]) -> str:
        """A Python number, at times one that a dtype just holds, or does not."""
        if self.choices.flag(3):
            return super().number(dtype)
        if dtype.kind == "f":
            return self.choices.of(("-0.0", "np.inf", "np.nan", "-1.5", "6e4"))
        numbers = [int(n) for n in ends(np.dtype(np.uint8) if dtype.kind == "b" else dtype)]
        return str(self.choices.of([*numbers, *numbers, numbers[1] + 1, numbers[0] - 1]))


def ends(dtype: np.dtype[Any]) -> Sequence[int]:
    known = np.iinfo(dtype)
    return (known.min, known.max, 1, 0, max(known.min, -1), known.bits, known.bits - 1, 2)


# Expressions.


@cache
def _weighted() -> Sequence[Callee]:
    """What may be called: the more it may be given, the more often."""
    return [one for some in callees() for one in some for _ in range(_weight(one))]


def _weight(callee: Callee) -> int:
    return len(callee.required) + len(callee.options) - (callee.text.endswith("_like"))


@cache
def adding() -> frozenset[str]:
    """What adds up 16 bits in 32."""
    rooms = (array_reductions.__name__, linalg.__name__, counting.__name__)
    return frozenset(name_of(f) for f, rule in FUNCTIONS.items() if rule.__module__ in rooms)


@cache
def telling() -> frozenset[str]:
    """What has zeros of a known sign."""
    found = [name_of(f) for f in (*VIEWS, *UFUNCS["__call__"])]
    return frozenset(found) - _OF_EITHER_SIGN


_OF_EITHER_SIGN = frozenset(f"np.{name}" for name in ("maximum", "minimum", "fmax", "fmin", "clip"))


def _called(f: Probe) -> Line:
    callee = f.choices.of(_weighted()[f.choices.below(4) :: 4])  # a choice is of 256 at most
    f.adds = callee.multiplies or callee.text in adding()
    f.tells_signs = callee.text in telling() and not callee.multiplies
    return call_of(f, callee)


def _changed(f: Probe) -> Line:
    """Set a part of an array, or add to it, from an array whose order matters."""
    key = f.choices.of((f.key("a0"), _places_beside_slices(f)))
    # Places that are computed must differ where they are set.
    name = "add_at" if "astype" in key or f.choices.flag() else "set_at"
    f.tells_signs = True
    values = f"(np.arange(a0[{key}].size) + 1).reshape(a0[{key}].shape).astype(a0.dtype)"
    return Line(f"{name}(a0, np.s_[{key}], {f.choices.of((values, '-a0.ravel()[:1]', '0'))})")


def _places_beside_slices(f: Probe) -> str:
    """Places along an axis, and parts of the others, mostly backwards."""
    choices, axis = f.choices, f.choices.below(len(f.shape))
    parts = [choices.of(("::-1", ":", "::-2", "-2::-1", "1:")) for _ in f.shape]
    size = max(f.shape[axis], 1)
    parts[axis] = str([choices.below(size), choices.below(size)])
    return ", ".join(parts)


def _indexed(f: Probe) -> Line:
    f.tells_signs = True
    return Line(f"a0[{f.key('a0')}]")


def _viewed(f: Probe) -> Line:
    """Change what may be a view of an array."""
    moves = f.choices.of((*[array_functions.move] * 3, _indexed))
    text = f"({moves(f).text})"
    for name in f.arguments:
        text = text.replace(name, "y")
    return Line(f"in_place(lambda y: {text}, a0)")


def _chained(f: Probe) -> Line:
    """Two arrays of one shape together, each seen through views of views that keep the shape: as
    its axes have equal sizes, only values tell one from the other."""
    choices = f.choices
    rank, size = choices.of(((3, 3), (2, 4), (2, 2), (4, 2)))
    ones = [choices.flag(4) for _ in range(rank)]
    shape = tuple([1 if is_one else size for is_one in ones])
    count = int(np.prod(shape))
    for number, name in enumerate(("a0", "a1")):
        f.arguments[name] = (np.arange(count) * (1 + 6 * number)).reshape(shape).astype(np.float32)
    alike = [axis for axis in range(rank) if not ones[axis]]
    alike = alike if len(alike) > 1 else [*range(rank)]

    def chain(x: str) -> str:
        for _ in range(choices.of((2, 3, 1))):
            i, j = (choices.of(alike) for _ in "12")
            axes = [alike[at] for at in sorted(range(len(alike)), key=lambda _: choices.below(256))]
            order = [*range(rank)]
            for at, axis in zip(alike, axes, strict=True):
                order[at] = axis
            to = shape if shape[i] == shape[j] else shape[::-1]
            moves = (
                f"{x}.transpose({order})",
                f"np.swapaxes({x}, {i}, {j})",
                f"np.moveaxis({x}, {i}, {j})",
                f"np.flip({x}, {i})",
                f"np.roll({x}, {1 + choices.below(2)}, {j})",
                f"{x}.reshape(-1, {shape[i]}).T.reshape({to})",
                f"np.broadcast_to({x}[{':, ' * i}:1], {shape})",
                f"np.concatenate([{x}[{':, ' * i}1:], {x}[{':, ' * i}:1]], {i})",
            )
            x = choices.of(moves)
        return x

    one, other = chain("a0"), chain(choices.of(("a1", "a0")))
    f.tells_signs = True
    return Line(f"({one} - {other} * 2){choices.of(('', f'.max({alike[0]})'))}")


def _captured(f: Probe) -> Line:
    size = f.shape[-1]
    return Line(f"meanwhile(a0, np.array({[1 + n * n for n in range(size)]}, np.float32))")


def _with_known(f: Probe) -> Line:
    """Combine an array with a known number or array, which takes its dtype if that holds it."""
    choices, dtype = f.choices, f.values["a0"].dtype
    f.tells_signs = True
    if dtype.kind == "f":
        known = choices.of((_tie(f, np.finfo(dtype).nmant), f.number(dtype)))
        return Line(f"a0 {choices.of(('+', '*', '-', '<', '/', '>='))} {known}")
    some = [*ends(np.dtype(np.uint8) if dtype.kind == "b" else dtype), 1000, -1000]
    known = f"np.array({[choices.of(some) for _ in range(choices.of((f.shape[-1], 1)))]})"
    operator = choices.of(("<", "+", "==", "<<", "&", ">>", ">=", "*", "-"))
    return Line(f"a0 {operator} {choices.of((known, f.number(dtype)))}")


def _paired(f: Probe) -> Line:
    """Two arrays, whose dtypes may not go together."""
    f.tells_signs = True
    operator = f.choices.of(("<", "==", ">=", "+", "*", "-", "/", "&", "|", ">", "!="))
    return Line(f"{f.choices.of(('a0', 'a1'))} {operator} {f.choices.of(('a1', 'a0'))}")


def _tie(f: Probe, bits: int) -> str:
    """A number halfway between two of a dtype, or not quite."""
    to = f.choices.of((0, 1, -1)) * 2.0**-40
    return str((1 + 2.0**-bits / 2 + to) * f.choices.of((1, -1)))


def _at_the_ends(f: Probe) -> Line:
    """A function of elements, at each special number, or at each two of them."""
    choices, dtype = f.choices, np.dtype(f.dtype)
    ufuncs = [u for u in UFUNCS["__call__"] if u.signature is None and u.nin < 3]
    ufunc = ufuncs[(256 * choices.below(256) + choices.below(256)) % len(ufuncs)]
    numbers = _FLOATS if dtype.kind == "f" else (0, 1) if dtype.kind == "b" else ends(dtype)
    f.arguments["a0"] = x = np.array(numbers, dtype)
    # What NumPy warns of for whole numbers is not compared: for most it divides by 0.
    f.arguments["a1"] = x if dtype.kind == "f" or choices.flag() else x[x != 0]
    name = name_of(ufunc)
    f.tells_signs = name in telling()
    return Line(f"{name}(a0)" if ufunc.nin == 1 else f"{name}(a0[:, None], a1[None])")


def _in_bf16(f: Probe) -> Line:
    number = _tie(f, 7)
    operator = f.choices.of(("multiply", "add", "subtract", "maximum"))
    return Line(f"in_bf16(a0.astype(np.float32), {operator!r}, {number})")


def _looked_up(f: Probe) -> Line:
    """Elements at places, known or not, which may lie outside if a mode says what that means; at
    times one lies outside, which is an error."""
    choices, axis = f.choices, f.axis("a0")
    size, rank, style = f.shape[axis], len(f.shape), choices.below(5)
    mode = choices.of((", mode='wrap'", ", mode='clip'", "")) if style < 2 else ""
    near = (0, size - 1, -1, -size, size // 2)
    outside = (size, -size - 1, size + 1, 2 * size, -3 * size)
    some = [*near * (size > 0), *outside * (bool(mode) or choices.flag(4))] or outside
    places = [choices.of(some) for _ in range(choices.of((4, 2, 1, 0)))]
    dtype = choices.of(("int32", "int64", "int8"))
    known = f"np.array({places}, np.{dtype})"
    # Added to what is computed, they are not known.
    given = choices.of((known, f"({known} + np.any(a0 < a0).astype(np.{dtype}))"))
    before = ":, " * (axis % rank)
    f.tells_signs = True
    match style:
        case 0:
            return Line(f"np.take(a0, {given}, axis={axis}{mode})")
        case 1:
            return Line(f"np.take(a0, {given}{mode})")
        case 2:
            ends = [choices.of((":", ":1")) for _ in f.shape]
            kept = [n if end == ":" else min(n, 1) for end, n in zip(ends, f.shape, strict=True)]
            along = [choices.of((1, n)) for n in kept]
            along[axis] = len(places)
            grid = f"np.broadcast_to({_spread(given, axis, rank)}, {along})"
            return Line(f"np.take_along_axis(a0[{', '.join(ends)}], {grid}, axis={axis})")
        case 3:
            return Line(f"a0[{before}{given}]")
        case _:
            part = f"a0[{before}{known}]"
            numbers = f"(np.arange({part}.size) + 1).reshape({part}.shape).astype(a0.dtype)"
            return Line(f"add_at(a0, np.s_[{before}{given}], {numbers})")


def _spread(places: str, axis: int, rank: int) -> str:
    """Places along an axis, over axes of size 1."""
    shape = [1] * rank
    shape[axis] = -1
    return f"{places}.reshape({shape})"


def _summed(f: Probe) -> Line:
    """Sum along axes in any order, with weights, or fewer elements than a formula divides by."""
    choices, axes = f.choices, f.axes("a0")
    f.adds = True
    sizes = tuple([f.shape[axis] for axis in axes])
    weights = f"(np.arange({int(np.prod(sizes))}) + 1).reshape({sizes})"
    count, mode = choices.of((4, 3, 2, 1)), choices.of(("same", "full", "valid"))
    letters = [choices.of(("ij,jk,kl", "ij,kj,jl", "ij,k,jk")), choices.of(("->il", "", "->li"))]
    a, b, c = (choices.of(("x", "x.T", "(x + 1)", "x[::-1]")) for _ in "123")
    square = "np.clip(a0.ravel()[:4].reshape(2, 2).astype(np.float32), -3, 3)"
    factors = [part.replace("x", square) for part in (a, b, c)]
    factors[1] += ".ravel()[:2]" if letters[0].endswith("jk") else ""
    return Line(
        choices.of(
            (
                f"np.convolve(a0.ravel()[:7].astype(np.float32), np.arange({count}) + 1, {mode!r})",
                f"np.average(a0, axis={axes}, weights={weights})",
                f"np.linalg.norm(a0, {choices.of(('1', '-1', 'np.inf', '-np.inf'))}, {axes[:2]})",
                f"np.linalg.norm(a0, axis={axes[0]})",
                f"np.{choices.of(('var', 'std'))}(a0, axis={axes}, ddof={choices.below(6)})",
                f"np.{choices.of(('mean', 'sum'))}(a0, axis={axes})",
                f"np.einsum('{''.join(letters)}', {', '.join(factors)})",
            )
        )
    )


_MAKERS: Sequence[Callable[[Any], Line]] = (
    *[_called] * 7,
    *[_summed, _changed, _paired, _looked_up, _chained] * 2,
    *(_indexed, _viewed, _captured, _in_bf16, _with_known, _at_the_ends, _at_the_ends),
)
Probe.makers = _MAKERS


@dataclass
class Probes:
    """Several probes; the first that fails is shown."""

    data: bytes
    shown: str = field(default="", init=False)

    def check(self) -> None:
        """Assert that Iris returns for each what NumPy does."""
        for start in range(0, len(self.data), BYTES):
            probe = Probe(self.data[start : start + BYTES])
            self.shown = repr(probe.expression)
            probe.expression.check()

    def __repr__(self) -> str:
        return self.shown


def probes() -> st.SearchStrategy[Probes]:
    """Probes, many at once."""
    size = BYTES * TOGETHER
    return st.binary(min_size=size, max_size=size).map(Probes)
