"""Single expressions of arrays, in forms and with keywords that few programs use.

    @given(numpy_forms.forms())
    def test_forms(forms):
        forms.check()

Each keyword that Iris takes is drawn as often as any other.  There are changes in place, `out=`,
loops over rows, places of few bits, products of booleans, axes of size 1 in `einsum`, ranges
between arrays, and numbers that a dtype does not hold.  What NumPy refuses to cast by itself, Iris
must refuse; and some forms it must take wherever NumPy does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from iris.errors import UserError
from iris.frontend.arrays.array_function import ArrayFunction
from iris.testing.array_draft import REFUSED, Line
from iris.testing.array_indices import of_four_axes
from iris.testing.array_probe import BYTES, ArrayProbe, ends
from iris.testing.array_probes import called
from iris.testing.array_sums import FALSE, contracted, in_series, multiplied
from iris.testing.numpy_calls import Callee, callees
from iris.testing.numpy_expressions import NAMES, Expression
from iris.testing.sources import defined

Array = npt.NDArray[Any]
TOGETHER = 20
_WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
_OPERATORS = ("+", "-", "*", "//", "%", "&", "|", "==", "<", ">=")


@cache
def keywords() -> Sequence[tuple[Callee, str]]:
    """Each keyword of each function."""
    return [(one, name) for some in callees() for one in some for name in one.options]


class Form(ArrayProbe):
    """An expression that may be one that Iris must take, or refuse, as NumPy does."""

    def __init__(self, data: bytes):
        self.numbers_given: dict[str, int] = {}  # that stand in the text
        super().__init__(data)

    def check(self) -> None:
        """Assert that Iris returns what NumPy does, and refuses what it refuses to cast."""
        error = _refusal(self.expression)
        if error is None:
            self.expression.check()
        elif self.must_refuse:
            try:
                self._trace()
            except (UserError, *REFUSED):
                return
            raise AssertionError(f"NumPy refuses it: {error}\n\n{self.expression!r}")

    def _trace(self) -> None:
        """Trace the expression, where numbers of its text are arguments."""
        given = {**self.expression.arguments, **self.numbers_given}
        text = self.expression.text
        for name, known in self.numbers_given.items():
            text = text.replace(f" {known}", f" {name}")
        source = f"def drawn({', '.join(given)}):\n    return {text}\n"
        function = ArrayFunction(defined(source, **NAMES))
        call = function.bind([*given.values()], {})
        for number in function.trace(call).narrowed:
            number.check(call.leaves)


def _refusal(expression: Expression) -> Exception | None:
    """What NumPy has against an expression."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            eval(expression.text or "0", {**NAMES, **expression.arguments})
    except REFUSED as error:
        return error
    return None


# Expressions.


def _called(f: Form) -> Line:
    """A call with a keyword."""
    high, low = f.choices.below(256), f.choices.below(256)
    callee, name = keywords()[(256 * high + low) % len(keywords())]
    return called(f, callee, name)


def _changed(f: Form) -> Line:
    """An array changed in place, by an array or a number."""
    f.must_take = f.must_refuse = True
    name = f.choices.of(("iadd", "isub", "imul", "imul", "itruediv", "iand", "ior"))
    return Line(f"changed(lambda y: operator.{name}(y, {_other(f)}), a0)")


def _other(f: Form) -> str:
    return f.choices.of(("a1", "a0", f.number(f.values["a0"].dtype), "0.5", "True"))


def _written(f: Form) -> Line:
    """What has an `out=`."""
    functions = ("np.add(y, a1, ", "np.multiply(y, y, ", "np.negative(y, ", "np.maximum(y, 1, ")
    methods = ("y.cumsum(axis=0, ", "np.cumsum(y, axis=0, ", "np.clip(y, 0, 1, ", "y.clip(0, 1, ")
    called = f.choices.of((*functions, *methods))
    return Line(f"written(lambda y: {called}out=y), a0)")


def _cast(f: Form) -> Line:
    """A function told the dtype that it computes in, and how to cast."""
    f.must_refuse = True
    dtype = f.choices.of(("np.uint8", "np.int8", "np.uint32", "np.int32", "np.float32", "bool"))
    how = f.choices.of(("", "", ", casting='unsafe'", ", casting='safe'", ", casting='no'"))
    called = ("np.add(a0, a1", "np.multiply(a0, a0", "np.subtract(a0, a1", "np.maximum(a0, a1")
    joined = ("np.concatenate([a0, a1]", "np.stack([a0, a0]", "np.hstack([a0, a1]")
    return Line(f"{f.choices.of(called + joined)}, dtype={dtype}{how})")


def _multiplied(f: Form) -> Line:
    """A product of booleans, which says whether there is any."""
    f.must_take = True
    x, y = (f"(a0 {f.choices.of(('>', '==', '!='))} {f.choices.of('012')})" for _ in "xy")
    y = f.choices.of((f"{y}.T", f"np.swapaxes({y}, 0, -1)"))
    x, y = f"{x}.reshape({f.shape[0]}, -1)", f"{y}.reshape(-1, {f.shape[0]})"
    words = ("({} @ {})", "np.dot({}, {})", "np.matmul({}, {})", "np.einsum('ij,jk->ik', {}, {})")
    more = ("np.tensordot({}, {}, 1)", "np.inner({}, {}.T)", "np.vecdot({}, {}.T)")
    return Line(f.choices.of((*words, *more)).format(x, y))


def _summed(f: Form) -> Line:
    """`einsum` where some axes have size 1, in one array or in all."""
    f.must_take, f.adds = True, True
    sizes = {c: f.choices.of((1, 2, 3)) for c in "ijk"}
    terms = f.choices.of((("ij", "jk"), ("ij", "ij"), ("ijk", "kj"), ("i", "ji"), ("ij", "j", "k")))
    factors = []
    for term in terms:
        shape = tuple([1 if f.choices.flag() else sizes[c] for c in term])
        count = int(np.prod(shape))
        part = f"np.arange({count}).reshape({shape})"
        factors.append(f"({FALSE} + {part}).astype(np.float32)")
    letters = sorted({c for term in terms for c in term}, key=lambda _: f.choices.below(256))
    kept = "".join([c for c in letters if f.choices.flag()])
    to = f.choices.of(("", f"->{kept}", f"->{kept}"))
    return Line(f"np.einsum('{','.join(terms)}{to}', {', '.join(factors)})")


def _rows(f: Form) -> Line:
    """An array as something to iterate over."""
    f.must_take = 0 not in f.shape
    f.tells_signs = True
    words = ("[*a0]", "np.stack([*a0][::-1])", "[x[..., None] for x in a0]", "list(a0[::-1])")
    more = ("[x for x, _ in zip(a0, range(2))]", "next(iter(a0), a0)", "np.stack(list(a0.T))")
    return Line(f.choices.of((*words, *more)))


def _placed(f: Form) -> Line:
    """Index an axis by narrow integers, some of them negative."""
    choices = f.choices
    dtype = choices.of(("int8", "int16", "int32", "int64", "uint8"))
    size = choices.of((300, 200, 5, 130))
    f.must_take = True
    places = [choices.below(5) - (0 if dtype == "uint8" else choices.below(6)) for _ in range(3)]
    at = f"(np.array({places}, np.{dtype}) + {FALSE})"
    x = f"(np.arange({size}, dtype=np.int32) + {FALSE})"
    words = ("{}[{}]", "np.take({}, {})", "{}[{}[:, None]]", "np.take({}, {}, mode='wrap')")
    return Line(choices.of(words).format(x, at))


def _between(f: Form) -> Line:
    """Ranges between arrays: the ends are what is given, to the bit."""
    choices = f.choices
    number, axis = choices.of((5, 8, 2, 3, 1)), choices.of((0, -1))
    x = f"(a0.ravel()[:9].astype(np.float32) {choices.of(('/ 7', '* 0.37', '+ 0.1'))})"
    y = f"({x} * {choices.of(('3', '-0.7', '1.1'))})"
    call = f"np.linspace({x}, {y}, {number}, axis={axis})"
    first, last = ("[0]", "[-1]") if axis == 0 else ("[:, 0]", "[:, -1]")
    end, place = (y, last) if number > 1 and choices.flag() else (x, first)
    whole = f"(np.arange(3) + {FALSE}).astype(np.float32)"
    spans = f"np.linspace({whole}, {whole} * {choices.of('395')}, 4, endpoint=False, axis={axis})"
    return Line(choices.of((f"({call}{place} == {end}) | ~np.isfinite({y} - {x})", spans)))


def _binned(f: Form) -> Line:
    """How many elements lie between edges, which elements are, too."""
    bins = f.choices.of(("4, (0, 1)", "2, (-1, 1)", "[-2, 0, 1, 3]", "[0, 2]", "3, (0, 3)"))
    x = f"(a0.astype(np.float32) / {f.choices.of('124')})"
    what = f.choices.of(
        ("", "", ", density=True", ", weights=np.arange(a0.size).reshape(a0.shape)")
    )
    f.adds = True
    return Line(f"np.histogram({x}, {bins}{what})[0]")


def _moved(f: Form) -> Line:
    """The axes of an array of four, in any order, or some of them."""
    choices, f.must_take, f.tells_signs = f.choices, True, True
    x = f"(np.arange(120).reshape(2, 3, 4, 5) + {FALSE})"
    count = choices.of((2, 3, 4, 1))

    def axes() -> list[int]:
        order = sorted(range(4), key=lambda _: choices.below(256))[:count]
        return [axis - 4 * choices.flag(3) for axis in order]

    word = choices.of(("np.moveaxis({}, {}, {})", "np.moveaxis({}, {}, {})", "np.rot90({}, 1, {})"))
    if "rot90" in word:
        count = 2
    return Line(word.format(x, axes(), axes()))


def _by_number(f: Form) -> Line:
    """An array of whole numbers and a number, which may not fit its dtype."""
    f.must_refuse = True
    known = ends(np.dtype(f.choices.of(_WHOLE)))
    n = f.choices.of((known[0], known[1], known[1] + 1, known[0] - 1, -1, 3))
    f.numbers_given = {"n": n}
    return Line(f"a0 {f.choices.of(_OPERATORS)} {n}")


_MAKERS: Sequence[Callable[[Any], Line]] = (
    *[_called] * 9,
    *(_changed, _written, _cast, _cast, _multiplied, _summed, _rows, _placed, _between, _binned),
    *(
        of_four_axes,
        _moved,
        _by_number,
        contracted,
        contracted,
        multiplied,
        multiplied,
        in_series,
        in_series,
    ),
)
Form.makers = _MAKERS


@dataclass
class Forms:
    """Several; the first that fails is shown."""

    data: bytes
    shown: str = field(default="", init=False)

    def check(self) -> None:
        """Assert that Iris does with each what NumPy does."""
        for start in range(0, len(self.data), BYTES):
            form = Form(self.data[start : start + BYTES])
            self.shown = repr(form.expression)
            form.check()

    def __repr__(self) -> str:
        return self.shown


def forms() -> st.SearchStrategy[Forms]:
    """Forms, many at once."""
    size = BYTES * TOGETHER
    return st.binary(min_size=size, max_size=size).map(Forms)
