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
from hypothesis import strategies as st

from iris.frontend.arrays.protocol import UFUNCS, VIEWS, name_of
from iris.testing import array_functions
from iris.testing.array_draft import Line
from iris.testing.array_indices import changed, indexed, looked_up
from iris.testing.array_probe import BYTES, FLOATS, ArrayProbe, ends
from iris.testing.array_sums import STEPWISE, summed
from iris.testing.numpy_calls import Callee, adding, call_of, callees, is_elementwise

TOGETHER = 20
TRIES = 3  # of a call


class Probe(ArrayProbe):
    """An expression of any of these kinds."""


# Expressions.


@cache
def _weighted() -> Sequence[Sequence[Callee]]:
    """What may be called: the more it may be given, the more often.  Functions of elements are
    called by sweeps, too."""
    functions, ufuncs, methods = callees()
    of_elements = [one for one in (*functions, *ufuncs) if is_elementwise(one)]
    outer = [one for one in methods if one.text.endswith(".outer")]
    others = [one for some in callees() for one in some if one not in (*of_elements, *outer)]
    weighted = [one for one in others for _ in range(1 + len(one.required) + len(one.options))]
    return [weighted, weighted, weighted, weighted, weighted, of_elements, outer]


@cache
def telling() -> frozenset[str]:
    """What has zeros of a known sign."""
    found = [name_of(f) for f in (*VIEWS, *UFUNCS["__call__"])]
    return frozenset(found) - _OF_EITHER_SIGN


def adds_up(callee: Callee) -> bool:
    """Whether a function adds up 16 bits in 32."""
    return callee.text in adding() or (callee.multiplies and callee.text not in STEPWISE)


def tells_signs(callee: Callee) -> bool:
    return callee.text in telling() and not callee.multiplies


_OF_EITHER_SIGN = frozenset(f"np.{name}" for name in ("maximum", "minimum", "fmax", "fmin", "clip"))


def _called(f: Probe) -> Line:
    some = f.choices.of(_weighted())
    return called(f, some[(256 * f.choices.below(256) + f.choices.below(256)) % len(some)])


def called(f: ArrayProbe, callee: Callee, always: str = "") -> Line:
    """A call of a function, with one of its options in any case; one that NumPy takes, if a few
    tries find that."""
    f.adds, f.tells_signs = adds_up(callee), tells_signs(callee)
    for _ in range(TRIES):
        line = call_of(f, callee, always)
        if f.is_taken(line):
            break
    return line


def _viewed(f: Probe) -> Line:
    """Change what may be a view of an array."""
    moves = f.choices.of((*[array_functions.move] * 3, indexed))
    text = f"({moves(f).text})"
    f.must_take = False
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
    numbers = FLOATS if dtype.kind == "f" else (0, 1) if dtype.kind == "b" else ends(dtype)
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


_MAKERS: Sequence[Callable[[Any], Line]] = (
    *[_called] * 10,
    *[changed, changed, indexed, looked_up] * 2,
    *[summed, _paired, _chained] * 2,
    *(_viewed, _captured, _in_bf16, _with_known, _at_the_ends, _at_the_ends),
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
