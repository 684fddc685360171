"""Random kernels as Python source, which Python itself runs on NumPy as Iris does.

    @given(tile_functions.functions())
    def test_words(kernel):
        kernel.check()

A kernel is drawn line by line.  Each line assigns to a variable an expression of the tile language,
or what a branch or a loop makes; `plain_tiles` says what it means.  A line is left out if the
language refuses it or if its result is not exact.  In the end the kernel asserts the dtype and
shape of each variable and stores it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from iris.errors import IrisError
from iris.ir.scalar import storage
from iris.ir.types import DTYPES, DType, bool_
from iris.testing.choices import Choices
from iris.testing.plain_blocks import TritonWords
from iris.testing.plain_tiles import LIMITS, Plain, PlainPointer, Refused, Words
from iris.testing.sources import defined

Array = npt.NDArray[Any]
BYTES = 192
LINES = 8
_TRIES = 24
_FINEST, _LARGEST = 16, 2048  # floats are multiples of 1 / 16 below 2048: sums of them are exact
_DIGITS = 1 << 12
# Halfway between two numbers of tf32, or nearer to the greater.
_BEYOND_TF32 = ("1.00048828125", "-2.0009765625", "1.999755859375")
_DTYPES = ("i32", "f32", "u8", "u32", "i8", "f16", "bool", "i64", "i16", "u16", "u64")
_HASHING = (1 << 64) * 89 // 144 | 1
_FLOATS = ("f32", "f16", "bf16")
_ALL = (*_DTYPES, "bf16")
_INTEGERS = tuple([t for t in _DTYPES if DTYPES[t].is_integer])
_LONG = tuple([DTYPES[t] for t in _INTEGERS if DTYPES[t].bits >= 32])
_SHAPES = ((8,), (4, 4), (2, 4), (4,), (4, 2), (2, 2, 4), (1, 4), (4, 1), (16,), ())
_MATRICES = ((16, 5), (4, 16), (16, 16), (3, 8), (5, 7))
_IRIS = "import iris\n\n\n@iris.kernel"
# Triton's language has Iris's dtypes by other names.
_TRITON = """\
from types import SimpleNamespace

import iris
from iris import triton
from iris.triton import language

names = "i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 bool_".split()
dtypes = {name: getattr(iris, name) for name in names}
iris = SimpleNamespace(**{**vars(language), **dtypes})


@triton.jit"""
# What is called otherwise there.
_SPELLED = {
    "iris.transpose": "iris.permute",
    "iris.tile_range": "iris.range",
    "atomic_exchange": "atomic_xchg",
    "keepdims": "keep_dims",
}
_REFUSED = (Refused, IndexError, OverflowError, TypeError, ValueError)


class _Line(NamedTuple):
    """The text of a line, and the expression that gives what it assigns."""

    text: str  # `{0}` is the variable
    meaning: str


class TileFunction:
    """A kernel, and what it is called with."""

    def __init__(self, choices: Choices):
        self.choices = choices
        self.is_triton = choices.flag(3)
        # Few, so that they meet.  Triton has other rules for bf16.
        known = _DTYPES if self.is_triton else choices.of((_ALL, _ALL, _FLOATS))
        self.dtypes = [choices.of(known) for _ in range(4)]
        self.arrays: dict[str, Array] = {}
        self.sizes = {"n": choices.below(4), "m": choices.of((1, 2, 3, 5, -1, -2))}
        self.values: dict[str, Plain] = {}
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"iris": TritonWords if self.is_triton else Words}
        for name, number in self.sizes.items():
            self.values[name] = Plain(number, DTYPES["i32"])
        for number in range(choices.of((3, 2))):
            shape = choices.of(_SHAPES)
            dtype = choices.of(self.dtypes)
            held = dtype if dtype in _DTYPES else "f32"  # NumPy has no bf16
            self.array(f"A{number}", (prod(shape),), held)
            converted = "" if dtype == held else f".to(iris.{dtype})"
            loaded = _assigned(f"iris.load(A{number}{self.lanes(shape)}){converted}")
            self._try(lambda kernel, line=loaded: line)  # type: ignore[misc]
        self.array("B", choices.of(_MATRICES))
        self.array("W", (16,), choices.of(("i32", "u32")))
        self.given = {name: array.copy() for name, array in self.arrays.items()}
        for _ in range(_TRIES):
            if len(self.lines) < LINES:
                self._try(choices.of(_OF_TRITON if self.is_triton else _MAKERS))

    def array(self, name: str, shape: tuple[int, ...], dtype: str = "") -> None:
        held = DTYPES[dtype or self.choices.of(_DTYPES)]
        rng = np.random.default_rng(self.choices.below(256))
        if held.is_integer and self.choices.flag():  # whose sums overflow
            data = rng.integers(held.low, held.high, shape, storage(held), endpoint=True)
        elif held.is_float and self.choices.flag(4):  # of more digits than f16 and tf32 have
            data = rng.integers(-_DIGITS, _DIGITS, shape) / _FINEST
        else:
            low, high = (0, 9) if held.low == 0 else (-4, 5)
            data = rng.integers(low, 2 if held is bool_ else high, shape)
        self.arrays[name] = data.astype(storage(held))
        self.scope[name] = PlainPointer(self.arrays[name], held)

    def _try(self, maker: Callable[[TileFunction], _Line]) -> None:
        """Add a line, if the language takes it and its result is exact."""
        before = {name: array.copy() for name, array in self.arrays.items()}
        try:
            line = maker(self)
            with np.errstate(all="ignore"):
                value = eval(line.meaning, {**self.scope, **self.values})
        except _REFUSED:
            value = None
        if not isinstance(value, Plain) or not _is_exact(value):
            for name, array in before.items():
                self.arrays[name][...] = array
            return
        name = f"v{len(self.lines)}"
        text = line.text.format(name)
        for word, other in _SPELLED.items() if self.is_triton else ():
            text = text.replace(word, other)
        self.lines.append(text)
        self.values[name] = value

    @property
    def text(self) -> str:
        """Its source."""
        results = self.results
        names = [*self.arrays, *[f"Out{n}" for n in range(len(results))], *self.sizes]
        body = "\n".join(self.lines).splitlines()
        for number, (name, value) in enumerate(results.items()):
            of_type = f"{name}.dtype is iris.{_written(value.dtype)}"
            body.append(
                f'iris.static_assert({of_type} and {name}.shape == {value.shape}, "{name}")'
            )
            body.append(f"iris.store(Out{number}{self.lanes(value.shape)}, {name})")
        return "\n".join([f"def drawn({', '.join(names)}):", *[f"    {x}" for x in body], ""])

    @property
    def results(self) -> dict[str, Plain]:
        return {name: x for name, x in self.values.items() if name not in self.sizes}

    def __repr__(self) -> str:
        given = "".join(f"{k} = np.{v!r}\n" for k, v in self.given.items())
        return f"{given}{self.sizes}\n\n{self.text}"

    def check(self, *, device: str | None = None) -> None:
        """Assert that the kernel stores what NumPy says."""
        results = self.results
        given = [array.copy() for array in self.given.values()]
        outs = [np.zeros(max(1, x.data.size), _stored(x.dtype)) for x in results.values()]
        drawn = defined(f"{_TRITON if self.is_triton else _IRIS}\n{self.text}")
        try:
            drawn[1](*given, *outs, *self.sizes.values(), device=device)
        except (IrisError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise AssertionError(f"{error}\n\n{self!r}") from error
        expected = [x.data.astype(_stored(x.dtype)) for x in results.values()]
        names = [*results, *self.arrays]
        found, wanted = [*outs, *given], [*expected, *self.arrays.values()]
        for name, now, was in zip(names, found, wanted, strict=True):
            if now.tobytes() != was.tobytes():
                raise AssertionError(f"{name} is\n{now}\nnot\n{was}\n\n{self!r}")

    # Parts of lines.

    def some(self, fits: Callable[[Plain], bool] = lambda x: True) -> str:
        """The name of a value, as often as not of a late one; or a number."""
        names = [name for name, x in self.values.items() if fits(x)]
        if not names:
            raise Refused("nothing that fits")
        return self.choices.of(names[-3:] if self.choices.flag() else names)

    def shaped(self) -> str:
        return self.some(lambda x: bool(x.shape))

    def scalar(self) -> str:
        return self.some(lambda x: not x.shape)

    def integer(self) -> str:
        return self.some(lambda x: x.dtype.is_integer)

    def number(self) -> str:
        return self.choices.of(
            ("2", "1", "3", "0", "0.5", "-1", "-1.5", "True", "-0.0", "7", "200")
        )

    def operand(self, beside: str = "") -> str:
        """A value, a number, or a value in another shape or dtype: mostly one that fits beside
        another."""
        style = self.choices.below(8)
        if style < 4:
            shape = self.values[beside].shape if beside else ()
            return self.some(lambda x: _meet(x.shape, shape))
        if style == 4:
            return self.number()
        if style == 5:
            return self.indexed(self.shaped())
        return f"{self.some()}.to({self.dtype()})" if style == 6 else self.scalar()

    def dtype(self) -> str:
        return f"iris.{_written(DTYPES[self.choices.of(self.dtypes)])}"

    def axis(self, x: str) -> int:
        """One of its axes, at times counted from the last."""
        rank = max(self.values[x].data.ndim, 1)
        return self.choices.below(rank) - rank * self.choices.flag()

    def indexed(self, x: str) -> str:
        """A value with a new axis."""
        keys = (
            "None, :",
            ":, None",
            "None, ...",
            "..., None",
            "None",
            ":, None, :",
            ":, ..., None",
        )
        return f"{x}[{self.choices.of(keys)}]"

    def condition(self) -> str:
        """Whether two values compare, or are not 0."""
        word = self.choices.of(("<", "<=", ">", ">=", "==", "!="))
        x = self.some()
        pair = [x, self.operand(x)]
        if self.choices.flag(3):
            pair.reverse()
        return f"({pair[0]} {word} {pair[1]})"

    def truth(self) -> str:
        """A scalar condition."""
        word = self.choices.of(("<", "<=", ">", ">=", "==", "!="))
        x = self.scalar()
        return f"({x} {word} {self.choices.of((self.scalar(), self.number()))})"

    def lanes(self, shape: tuple[int, ...]) -> str:
        """The offsets of a tile, to be added to a pointer."""
        if not shape:
            return ""
        lanes = f"iris.arange(0, {prod(shape)})"
        return f" + {lanes}" if len(shape) == 1 else f" + iris.reshape({lanes}, {shape})"


def _meet(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two shapes have a common one."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return all(x == y or 1 in (x, y) for x, y in pairs)


def _is_exact(value: Plain) -> bool:
    """Whether whatever is made of a value in any order is exact."""
    if not value.dtype.is_float:
        return True
    with np.errstate(all="ignore"):
        data = value.data.astype(np.float64) * _FINEST
    return bool(np.all((np.abs(data) < _LARGEST * _FINEST) & (data == np.rint(data))))


def _written(dtype: DType) -> str:
    return "bool_" if dtype is bool_ else str(dtype)


def _stored(dtype: DType) -> str:
    """A dtype that shows each value, and whether it is signed."""
    if dtype.is_float:
        return "float32"
    return "uint64" if str(dtype) == "u64" else "int64"


# Lines.


def _assigned(expression: str, meaning: str = "") -> _Line:
    return _Line(f"{{0}} = {expression}", meaning or expression)


# Operators of Triton, and what they mean.
_DIVISIONS = {"//": "quotient", "%": "remainder", "/": "ratio"}


def _special(kernel: TileFunction) -> _Line:
    """What a function is at numbers at which it has a limit."""
    choices = kernel.choices
    numbers = ('float("inf")', '-float("inf")', 'float("nan")', "0.0", "-0.0", "1.0")
    one, other = choices.of(numbers), choices.of(numbers)
    x = f"iris.where({kernel.condition()}, {one}, {other})"
    word, asked = choices.of([*LIMITS]), choices.of(("isnan", "isinf", "isinf"))
    return _assigned(f"iris.{asked}(iris.{word}({x}))", f'iris.{asked}(iris.limit("{word}", {x}))')


def _random(kernel: TileFunction) -> _Line:
    choices = kernel.choices
    words = [choices.of((kernel.integer(), "n", "0")) for _ in range(4)]
    seed = choices.of(("7", "n", kernel.scalar()))
    counters = ", ".join(f"({word} + n).to(iris.u32)" for word in words)
    return _assigned(f"iris.philox({seed}, {counters})[{choices.below(4)}]")


def _by_chosen_pointer(kernel: TileFunction) -> _Line:
    """Load or store through a pointer that is chosen among two arrays, or two places of one,
    where a mask holds."""
    choices, shape = kernel.choices, kernel.choices.of(((4,), (2, 2), (2,)))
    one, other = choices.of((("W", "W"), ("W", "A0"), ("A1", "A0"), ("A0", "A0")))
    if choices.flag():
        one, other = other, one
    first, second = choices.of(("", " + 1", " + n", " + 4")), choices.of(("", " + 2", " + n"))
    lanes = kernel.lanes(shape)
    inner, outer = choices.of(((lanes, ""), ("", lanes)))
    condition = kernel.truth()
    if one == other and choices.flag():
        condition = f"({lanes.removeprefix(' + ')} {choices.of(('<', '>'))} {choices.of('012')})"
    at = f"iris.where({condition}, {one}{first}{inner}, {other}{second}{inner}){outer}"
    covers = f"({lanes.removeprefix(' + ')} < {choices.of(('2', 'n', '3'))})"
    mask = choices.of((kernel.truth(), covers, covers, ""))
    masked = f", mask={mask}" if mask else ""
    if choices.flag():
        value = f", other={kernel.operand()}" if mask else ""
        return _assigned(f"iris.load({at}{masked}{value})")
    stored = f"iris.store({at}, {kernel.operand()}{masked})"
    loaded = f"iris.load({choices.of((one, other))}{lanes})"
    return _Line(f"{stored}\n{{0}} = {loaded}", f"[{stored}, {loaded}][1]")


def _walked(kernel: TileFunction) -> _Line:
    """What a pointer finds that a loop carries, from some place on."""
    choices, name = kernel.choices, kernel.choices.of(("W", "A0", "A1"))
    lanes = kernel.lanes(choices.of(((2,), (), (2, 2))))
    start, step = f"{name}{choices.of((' + 1', ' + 3', ''))}{lanes}", choices.of(("1", "2"))
    first = f"iris.load({start})"
    held = choices.of(("{0} + %s", "%s - {0}", "%s"))
    loop = choices.of(("for k in iris.tile_range(n):", "while k < n:"))
    counted = ["    k = k + 1"] if "while" in loop else []
    moved = f"    p = p + {step}" if choices.flag() else f"    p += {step}"
    lines = [f"p = {start}", f"k = 0\n{{0}} = {first}", loop]
    lines += [f"    {{0}} = {held % 'iris.load(p)'}", moved, *counted]
    following = (held % f"iris.load({start} + k * {step})").replace("{0}", "held")
    meaning = f"iris.repeated({first}, range(n), lambda held, k: {following})"
    return _Line("\n".join(lines), meaning)


def _binary(kernel: TileFunction) -> _Line:
    words = ("+", "-", "*", "//", "%", "/", "&", "|", "^", "<<", ">>", "+", "*")
    word = kernel.choices.of(words)
    x = kernel.some()
    pair = [x, kernel.operand(x)]
    if kernel.choices.flag(3):
        pair.reverse()
    expression = f"{pair[0]} {word} {pair[1]}"
    if kernel.is_triton and word in _DIVISIONS:
        return _assigned(expression, f"iris.{_DIVISIONS[word]}({pair[0]}, {pair[1]})")
    return _assigned(expression)


def _unary(kernel: TileFunction) -> _Line:
    words = ("-{}", "~{}", "abs({})", "iris.floor({})", "iris.round({})", "iris.ceil({})")
    more = ("iris.sqrt({0} * {0})", "{} ** 2", "{} ** 3", "{} ** 0", "+{}", "iris.trunc({})")
    word = kernel.choices.of((*words, *more[: 5 if kernel.is_triton else 6]))
    return _assigned(word.format(kernel.some()) if word != "+{}" else kernel.some())


def _compared(kernel: TileFunction) -> _Line:
    return _assigned(kernel.condition())


def _converted(kernel: TileFunction) -> _Line:
    words = ("{}.to({})", "iris.cast({}, {})", "iris.bitcast({}, {})")
    word = kernel.choices.of(words[: 2 if kernel.is_triton else 3])
    return _assigned(word.format(kernel.some(), kernel.dtype()))


def _chosen(kernel: TileFunction) -> _Line:
    style = kernel.choices.below(6)
    if style == 5 and not kernel.is_triton:
        word = kernel.choices.of(("isnan", "isinf", "isfinite"))
        number = kernel.choices.of(('float("nan")', 'float("inf")', '-float("inf")'))
        chosen = f"iris.where({kernel.condition()}, {number}, {kernel.operand()})"
        return _assigned(f"iris.{word}({chosen})")
    if style > 3:
        x = kernel.some()
        return _assigned(f"iris.clamp({x}, {kernel.operand(x)}, {kernel.operand(x)})")
    if style == 0:
        condition = kernel.choices.of((kernel.condition(), kernel.operand()))
        return _assigned(f"iris.where({condition}, {kernel.operand()}, {kernel.operand()})")
    if style == 1:
        operands = ", ".join(kernel.operand() for _ in range(3))
        return _assigned(f"iris.fma({operands})")
    word = ("iris.maximum", "iris.minimum")[style - 2]
    x = kernel.some()
    return _assigned(f"{word}({x}, {kernel.operand(x)})")


def _shaped(kernel: TileFunction) -> _Line:
    choices, x = kernel.choices, kernel.shaped()
    shape = choices.of(_SHAPES)
    style = choices.below(6)
    if style == 0:
        return _assigned(f"{x}.T")
    if style == 1:
        rank = kernel.values[x].data.ndim
        orders = ((1, 0),) if rank == 2 else ((1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0))
        return _assigned(f"iris.transpose({x}, {choices.of(orders)})")
    if style == 2:
        return _assigned(kernel.indexed(x))
    if style == 3:
        return _assigned(f"iris.broadcast_to({kernel.some()}, {shape or (4,)})")
    if style == 4:
        return _assigned(f"iris.full({shape or (4,)}, {kernel.scalar()}, {kernel.dtype()})")
    count = kernel.values[x].data.size
    fitting = [s for s in _SHAPES if prod(s) == count and s] or [(count,)]
    return _assigned(f"iris.reshape({x}, {choices.of(fitting)})")


def _reduced(kernel: TileFunction) -> _Line:
    choices, x = kernel.choices, kernel.some() if kernel.choices.flag(5) else kernel.shaped()
    words = ("sum", "max", "min", "argmax", "argmin", "cumsum", "sum", "any", "all", "prod")
    word = choices.of(words[: 7 if kernel.is_triton else None])
    goes_along_one = kernel.is_triton and word.startswith(("arg", "cum"))
    given = "" if choices.flag(3) and not goes_along_one else f", axis={kernel.axis(x)}"
    if word in ("sum", "prod", "cumsum") and choices.flag(4):
        given += f", dtype={kernel.dtype()}"
    if word != "cumsum" and choices.flag(3):
        given += ", keepdims=True"
    if word == "prod":
        x = f"{x}.to({choices.of(('iris.i32', 'iris.u8', 'iris.i64', 'iris.u16'))})"
    return _assigned(f"iris.{word}({x}{given})")


# Of integers, whose sums and products wrap; and of numbers.
_OF_INTEGERS = ("a + b", "a * b", "a ^ b", "iris.minimum(a, b)", "a & b")
_OF_NUMBERS = ("iris.maximum(a, b)", "iris.minimum(a, b)")
# Associative alone; of pairs of elements, a composition of `x * a + b`, and the first greatest.
_IN_ORDER = ("a", "b", "iris.where(b == 0, a, b)")
_COMPOSED = "lambda a, b, c, d: (a * c, b * c + d)"
_GREATEST = (
    "lambda a, i, b, j: (iris.maximum(a, b), "
    "iris.where((a > b) | ((a == b) & (i < j)), i, j).to(i.dtype))"
)


def _combined(kernel: TileFunction) -> _Line:
    """Elements along an axis, combined by a function; or pairs of them."""
    choices, x = kernel.choices, kernel.shaped()
    axis, dtype = kernel.axis(x), kernel.values[x].dtype
    is_scan = choices.flag()
    word = "associative_scan" if is_scan else "reduce"
    more = choices.of(("", ", reverse=True" if is_scan else ", keepdims=True"))
    if choices.flag(3) and dtype.is_integer:
        one = kernel.some(lambda v: v.dtype is dtype)
        pair = _COMPOSED if is_scan else _GREATEST
        return _assigned(f"iris.{word}(({x}, {one}), {axis}, {pair}{more})[{choices.below(2)}]")
    some = (*_OF_NUMBERS, *(_OF_INTEGERS if dtype.is_integer else ()))
    function = choices.of((*some, *_IN_ORDER) if is_scan else some)
    return _assigned(f"iris.{word}({x}, {axis}, lambda a, b: {function}{more})")


def _rearranged(kernel: TileFunction) -> _Line:
    """Elements in order, or in other places."""
    choices, x = kernel.choices, kernel.shaped()
    axis = kernel.axis(x)
    other = (
        kernel.some()
        if choices.flag(3)
        else kernel.some(lambda v: v.shape == kernel.values[x].shape)
    )
    size, dtype = kernel.values[x].shape[axis], kernel.values[x].dtype
    count = choices.of((2, 1, 4))
    greatest = f"iris.topk({x}, {count}, {axis})"
    if dtype.is_float and choices.flag(6):  # which no variable is to hold
        some = f'iris.where({kernel.condition()}, {x}, float("nan"))'
        found = f"iris.sort({some}, {axis}, {choices.of(('True', 'False'))})"
        is_number = "iris.where({0} == {0}, {0}, 7)"
        meaning = f"(lambda v: {is_number.format('v')})({found})"
        return _Line(f"{{0}} = {found}\n{{0}} = {is_number}", meaning)
    forms = (
        f"iris.sort({x}, {axis})",
        f"iris.sort({x}, {axis}, True)",
        greatest,
        f"iris.flip({x}, {axis if kernel.is_triton else choices.of((axis, None))})",
        f"iris.gather({x}, {other}.to(iris.u8) % {size}, {axis})",
        f"iris.gather({x}, iris.flip({other}.to(iris.u8) % {size}, {axis}), {axis})",
        f"iris.join({x}, {other})",
        f"iris.split({x})[{choices.below(2)}]",
        f"iris.split(iris.join({x}, {other}))[{choices.below(2)}]",
        f"iris.interleave({x}, {other})",
        _histogram(kernel, x),
        f"iris.ravel({x})",
        f"iris.expand_dims({x}, {choices.of((0, 1, -1))})",
    )
    style = choices.below(len(forms) + 1)
    if style == len(forms):
        text = f"iris.cat({x}, {other}, {'dim=' if kernel.is_triton else ''}{axis})"
        return _assigned(text, f"iris.cat({x}, {other}, {axis})")
    if forms[style] is greatest and kernel.is_triton and count < size and dtype.bits < 32:
        # Triton leaves some out by maxima, which are of 32 bits at least.
        wide = f"{x}.to(iris.{'f32' if dtype.is_float else 'i32'})"
        return _assigned(greatest, f"iris.topk({wide}, {count}, {axis})")
    return _assigned(forms[style])


def _histogram(kernel: TileFunction, x: str) -> str:
    """Counts of integers, of which bins may have more than there are."""
    choices = kernel.choices
    counted = choices.of((kernel.integer(), f"{x}.to(iris.i8)", f"{x}.to(iris.u8)"))
    mask = f", mask={kernel.condition()}" if choices.flag(3) else ""
    return f"iris.histogram({counted}, {choices.of((256, 4, 16))}{mask})"


def _multiplied(kernel: TileFunction) -> _Line:
    choices = kernel.choices
    a = kernel.some(lambda x: x.data.ndim == 2)
    axis = choices.below(2)
    size = kernel.values[a].shape[1]
    b = kernel.some(lambda x: x.data.ndim == 2 and x.shape[axis] == size)
    turned = ".T" if axis else ""
    acc = choices.of(("", "", f", {kernel.number()}", f", {kernel.some()}"))
    precise = ""
    if not kernel.is_triton and choices.flag():
        factor = choices.of(_BEYOND_TF32)
        a = choices.of((a, f"iris.where({a} > 0, {factor}, {a}.to(iris.f32))"))
        precise = ', precision="tf32"'
    return _assigned(f"iris.dot({a}, {b}{turned}{acc}{precise})")


def _counted(kernel: TileFunction) -> _Line:
    style = kernel.choices.below(4)
    if style == 3:
        if kernel.choices.flag():  # of 64 bits that differ, as where a number is hashed
            a, b = (f"{kernel.integer()}.to(iris.u64) * {_HASHING}" for _ in range(2))
        else:
            a, b = (kernel.some(lambda x: x.dtype in _LONG) for _ in range(2))
        return _assigned(f"iris.umulhi({a}, {b})")
    if style == 2:
        return _assigned(_histogram(kernel, kernel.shaped()))
    if style == 0:
        x, divisor = kernel.integer(), kernel.choices.of(("2", "3", "4", "100", kernel.integer()))
        if kernel.choices.flag():  # near the greatest that there are
            x = f"{x} & 7 ^ {kernel.values[x].dtype.high}"
        return _assigned(f"iris.cdiv({x}, {divisor})")
    first = kernel.choices.of((0, 1, -2, 5))
    count = kernel.choices.of((4, 8, 2))
    return _assigned(f"iris.arange({first}, {first + count})")


def _loaded(kernel: TileFunction) -> _Line:
    """A gather with a mask; or a block of a matrix."""
    choices = kernel.choices
    if choices.flag(3) and not kernel.is_triton:
        height, width = kernel.arrays["B"].shape
        row, column = (choices.of(("0", "n", "1", "-1", "2")) for _ in range(2))
        shape = choices.of(((4, 4), (2, 4), (4, 8), (2, 2)))
        rows = choices.of(("", "", f", rows={height - 1}"))
        columns = choices.of(("", "", f", cols={width - 1}"))
        given = f"{row}, {column}, {width}, {shape}{rows}{columns}"
        return _assigned(f"iris.tile_load(B, {given})")
    name = choices.of(("A0", "W", "A1"))
    # A sum in an address must not overflow, so it is cut first.
    size = kernel.arrays[name].size
    index = f"{kernel.integer()}.to(iris.u8) % {size}"
    if choices.flag():
        index = f"({index}).to(iris.{choices.of(_INTEGERS)})"
    forms = f"{name} + {index}", f"{index} + {name}", f"{name} + {size - 1} - {index}"
    at = choices.of(forms)
    if choices.flag():
        return _assigned(f"iris.load({at})")
    mask = choices.of((kernel.condition(), kernel.truth(), "True", "False"))
    is_bare = kernel.is_triton and choices.flag(3)  # then 0 is what is not there
    other = "" if is_bare else f", other={kernel.operand()}"
    return _assigned(f"iris.load({at}, mask={mask}{other})")


def _block(kernel: TileFunction) -> _Line:
    """A block of an array, loaded, or stored and read: at a pointer that moves, or by a
    descriptor, whose axes are all checked."""
    choices = kernel.choices
    name = choices.of(("B", "W", "A0"))
    count = kernel.arrays[name].size
    whole = kernel.arrays["B"].shape if name == "B" else choices.of(((count,), (count // 4, 4)))
    strides = [prod(whole[axis + 1 :]) for axis in range(len(whole))]
    shape: list[Any] = [choices.of((size, size - 1, "n")) for size in whole]
    if len(whole) > 1 and choices.flag(3):  # its columns first
        shape, strides = shape[::-1], strides[::-1]
    if choices.flag(4):  # of many such arrays the first
        shape, strides = [1, *shape], [count, *strides]
    sizes = tuple([choices.of((4, 2, 8, 1)) for _ in shape])
    offsets, by = (
        f"[{', '.join([choices.of(('0', 'n', '1', '-1', '2', 'm')) for _ in shape])}]" for _ in "12"
    )
    base = f"{name}{choices.of(('', '', ' + n', ' + 1'))}"
    array = f"{base}, [{', '.join(map(str, shape))}], {strides}"
    checked = [axis for axis in range(len(shape)) if choices.below(4)]
    padding = choices.of(("zero", "zero", "nan"))
    of_nan = "iris.where({0} == {0}, {0}, 7)"
    if choices.flag(3):
        held = f'iris.make_tensor_descriptor({array}, {sizes}, "{padding}")'
        load, store = f"{held}.load({offsets})", f"{held}.store({offsets}, %s)"
    else:
        order = [*range(len(shape))][::-1]
        held = f"iris.make_block_ptr({array}, {offsets}, {sizes}, {order})"
        if choices.flag():
            held = f"iris.advance({held}, {by})"
        load = f'iris.load({held}, boundary_check={checked}, padding_option="{padding}")'
        store = f"iris.store({held}, %s, boundary_check={checked})"
    if choices.flag(3):
        store %= kernel.operand()
        read = f"iris.load({name} + iris.arange(0, {min(count, 16) & -min(count, 16)}))"
        return _Line(f"{store}\n{{0}} = {read}", f"[{store}, {read}][1]")
    if padding == "nan":  # which no variable is to hold
        meaning = f"(lambda v: {of_nan.format('v')})({load})"
        return _Line(f"{{0}} = {load}\n{{0}} = {of_nan}", meaning)
    return _assigned(load)


def _stored_and_read(kernel: TileFunction) -> _Line:
    """What elements of an array are after some were written, or were before."""
    choices, shape = kernel.choices, kernel.choices.of(((8,), (2, 4), (4,)))
    at = f"W{kernel.lanes(shape)}{choices.of(('', ' + n', ' + 1', ' + 4 - n'))}"
    style = choices.below(3)
    if style == 0:
        mask = choices.of(("", f", mask={kernel.condition()}", f", mask={kernel.truth()}"))
        stored = f"iris.store({at}, {kernel.operand()}{mask})"
        loaded = f"iris.load(W{kernel.lanes(shape)})"
        return _Line(f"{stored}\n{{0}} = {loaded}", f"[{stored}, {loaded}][1]")
    if style == 1:
        given = f"{kernel.operand()}, {kernel.operand()}"
        return _assigned(f"iris.atomic_cas({at}, {given})")
    word = choices.of(("add", "max", "min", "and", "or", "xor", "exchange"))
    return _assigned(f"iris.atomic_{word}({at}, {kernel.operand()})")


def _joined(kernel: TileFunction) -> _Line:
    """`and`, `or`, `not`: the rest is asked only if it counts, for it may divide by zero."""
    if kernel.choices.flag():
        return _operand(kernel)
    x, y = kernel.truth(), kernel.truth()
    divisor = kernel.some(lambda v: not v.shape and v.dtype.is_integer)
    divided = f"{kernel.some(lambda v: not v.shape)} // {divisor} > 0"
    forms = (
        f"{x} and {y}",
        f"{x} or {y}",
        f"{divisor} != 0 and {divided}",
        f"{divisor} == 0 or {divided}",
        f"not {x} and ({y} or {divisor} > 0)",
        f"not ({x} or {divisor})",
    )
    form = kernel.choices.of(forms)
    # What Python does not ask is traced all the same, and may be refused.
    return _Line(f"{{0}} = {form}", f"({x}, {y}, iris.cast(bool({form}), iris.bool_))[2]")


def _operand(kernel: TileFunction) -> _Line:
    """The operand that `and` or `or` of numbers gives."""
    x, y = kernel.scalar(), kernel.choices.of((kernel.scalar(), kernel.number()))
    if kernel.choices.flag():
        return _Line(f"{{0}} = {x} and {y}", f"iris.where({x}, {y}, {x})")
    return _Line(f"{{0}} = {x} or {y}", f"iris.where({x}, {x}, {y})")


def _branched(kernel: TileFunction) -> _Line:
    """What one of two branches makes, or one alone."""
    condition = kernel.choices.of((kernel.truth(), kernel.scalar()))
    x = kernel.some()
    one, other = x, kernel.choices.of((kernel.number(), f"{x} + {kernel.number()}", kernel.some()))
    if kernel.choices.flag():
        one, other = other, one
    texts = (
        f"{{0}} = {one} if {condition} else {other}",
        f"if {condition}:\n    {{0}} = {one}\nelse:\n    {{0}} = {other}",
        f"{{0}} = {other}\nif {condition}:\n    {{0}} = {one}",
    )
    return _Line(kernel.choices.of(texts), f"iris.either({condition}, {one}, {other})")


def _repeated(kernel: TileFunction) -> _Line:
    """What a loop makes of a value or of a number, some of them without any iteration."""
    choices, x = kernel.choices, kernel.operand()
    start = choices.of(("0", kernel.some(), "0.0", kernel.some(), "1", "-0.0"))
    bounds = choices.of(("n", "1, n", "n, -1, -1", "0, 7, n + 1", "m, 3", "n, 0", "3"))
    steps = (
        "{0} + %s",
        "%s - {0}",
        "{0} + k",
        "iris.maximum({0}, %s)",
        "iris.where(k > 0, {0}, %s)",
        "-{0}",
        "({0} * 3 + %s).to({0}.dtype)",
        "-0.0",
        "%s",
    )
    chosen = choices.of(
        steps if start in kernel.values else [s for s in steps if ".dtype" not in s]
    )
    step = chosen % x if "%s" in chosen else chosen
    body = [f"{{0}} = {step}"]
    style = choices.below(4)
    if style == 2:
        bounds = "n"
    loop = f"for k in range({bounds}):"
    if style == 1 or bounds == "3":  # else that is a loop of Python
        loop = f"for k in iris.tile_range({bounds}):"
    if style == 2:
        loop, body = "while k < n:", [*body, "k = k + 1"]
    elif choices.flag(3):
        count = f"{kernel.some(lambda v: not v.shape and v.dtype.is_integer)}.to(iris.u32) % 7"
        bounds = choices.of(("%s, 0, -1", "-2, %s", "n, %s, -1", "%s")) % count
        loop = f"for k in range({bounds}):"
        body = ["k = k.to(iris.i32)", *body]  # it counts in i64 or u32
    held = "held[0]" if style == 3 else "{0}"
    lines = ["k = 0", f"held = [{start}, 1]" if style == 3 else f"{{0}} = {start}", loop]
    lines += [f"    {line.replace('{0}', held)}" for line in body]
    if style == 3:
        lines.append("{0} = held[0]")
    following = step.replace("{0}", "held")
    meaning = f"iris.repeated({start}, range({bounds}), lambda held, k: {following})"
    return _Line("\n".join(lines), meaning)


_MAKERS: tuple[Callable[[TileFunction], _Line], ...] = (
    _binary,
    _converted,
    _chosen,
    _binary,
    _shaped,
    _reduced,
    _unary,
    _compared,
    _multiplied,
    _multiplied,
    _counted,
    _loaded,
    _stored_and_read,
    _joined,
    _branched,
    _repeated,
    _reduced,
    _binary,
    _branched,
    _repeated,
    _combined,
    _rearranged,
    _rearranged,
    _special,
    _random,
    _by_chosen_pointer,
    _by_chosen_pointer,
    _walked,
)
# Of words that Triton has.
_OF_TRITON = (
    *[_binary] * 4,
    _converted,
    _chosen,
    _compared,
    *[_combined] * 2,
    _rearranged,
    _branched,
    *[_block] * 5,
    _shaped,
    _reduced,
    _loaded,
    _stored_and_read,
    _repeated,
)


def functions() -> st.SearchStrategy[TileFunction]:
    """Kernels of a few lines."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: TileFunction(Choices(data)))
