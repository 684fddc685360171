"""A kernel by thread that is drawn line by line: what it has so far, and the parts that lines are
made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from iris.frontend.values import Traced
from iris.ir.types import DTYPES, DType, bf16, bool_
from iris.testing.choices import Choices
from iris.testing.plain_formulas import Near
from iris.testing.plain_threads import Launch
from iris.testing.plain_tiles import HELD, Plain, Refused
from iris.testing.tile_draft import is_exact

Array = npt.NDArray[Any]
LINES = 6
_TRIES = 14
UNTOUCHED = 77
REFUSED = (Refused, IndexError, OverflowError, TypeError, ValueError)

# Metal's names of dtypes.
NAMES = {
    "int": "i32",
    "float": "f32",
    "uint": "u32",
    "half": "f16",
    "char": "i8",
    "uchar": "u8",
    "short": "i16",
    "ushort": "u16",
    "long": "i64",
    "ulong": "u64",
    "bool": "bool",
    "bfloat": "bf16",
}
CALLED = {DTYPES[dtype]: name for name, dtype in NAMES.items()}
_HELD = tuple([name for name in NAMES if name != "bfloat"])  # NumPy has no bf16
_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 2.0, -0.5)
_LAUNCHES = (
    Launch((32, 1, 1), (32, 1, 1), says_groups=True),
    Launch((64, 1, 1), (32, 1, 1), says_groups=True),
    Launch((20, 1, 1), (32, 1, 1)),
    Launch((5, 3, 1), (8, 4, 1)),
    Launch((64, 1, 1), (64, 1, 1), says_groups=True),
    Launch((8, 8, 1), (4, 4, 1), says_groups=True),
    Launch((3, 5, 2), (4, 2, 4)),
    Launch((8, 8, 1), (8, 4, 1), says_groups=True),
    Launch((7, 5, 1), (16, 2, 1)),
    Launch((9, 6, 1), (3, 6, 1)),
    Launch((4, 4, 4), (2, 4, 4), says_groups=True),
    Launch((50, 1, 1), (64, 1, 1)),
    Launch((6, 1, 4), (4, 1, 8)),
    Launch((2, 8, 8), (1, 8, 4), says_groups=True),
)


class Term(NamedTuple):
    """Python, and the value of each thread, or the number that Python has."""

    text: str
    value: Any


class Line(NamedTuple):
    """Lines of a kernel; the last one assigns to `{0}`.  And what that holds."""

    text: str
    value: Plain | Near


def assigned(term: Term) -> Line:
    return Line(f"{{0}} = {term.text}", term.value)


class Parameter(NamedTuple):
    name: str
    declared: str
    given: Any  # with which the kernel is called
    expected: Array | None  # of an array, what it is after that


class Type(NamedTuple):
    """A scalar, or a vector of some: how an array of these lies in memory."""

    name: str
    dtype: DType
    width: int

    @property
    def stride(self) -> int:
        return 4 if self.width == 3 and not self.name.startswith("packed") else self.width

    def laid_out(self, rows: Array, around: Any = 0) -> Array:
        """An array of these, with something in what no element takes."""
        whole = np.full((len(rows), self.stride), around, HELD[self.dtype])
        whole[:, : self.width] = rows
        return whole.reshape(-1)


def check(x: Traced, dtype: str, width: int) -> None:
    """Assert in a kernel what a value is.

    As it is no function of a user's, its source is not read.
    """
    found = f"{x.dtype}", *x.shape
    assert found == (dtype, *[width] * (width > 1)), f"{found} is not {dtype} of {width}"


class ThreadDraft:
    """A kernel, and how it is launched."""

    makers: Sequence[Callable[[Any], Line]]

    def __init__(self, choices: Choices):
        self.choices = choices
        self.launch = choices.of(_LAUNCHES)
        self.rng = np.random.default_rng(choices.below(256))
        self.names = [choices.of(_HELD), choices.of(("int", "float"))]  # few, so that they meet
        self.parameters: list[Parameter] = []
        self.memory: list[str] = []  # lines that declare some
        self.values: dict[str, Plain] = {}
        self.near: dict[str, Near] = {}  # which no line uses, as they are not exact
        self.lines: list[str] = []
        self.is_annotated = not choices.flag(3)
        self.number = 0  # of what has got a name
        for width in (1, choices.of((2, 3, 4))):
            self._load(self.type(width))
        for _ in range(_TRIES):
            if len(self.lines) < LINES:
                self._try(choices.of(self.makers))

    @property
    def count(self) -> int:
        return self.launch.count

    def _load(self, type_: Type) -> None:
        rows = self.rows(type_)
        name = self.array(type_, rows)
        self._try(lambda _: Line(f"{{0}} = {name}[i]", Plain(rows, type_.dtype)))

    def _try(self, maker: Callable[[Any], Line]) -> None:
        """Add a line, if the language takes it."""
        parameters, memory = [*self.parameters], [*self.memory]
        name = f"v{len(self.lines)}"
        try:
            with np.errstate(all="ignore"):
                text, value = maker(self)
                known = isinstance(value, Near) or is_exact(value)
            if not known or len(value.shape) != 2 or value.shape[0] != self.count:
                raise Refused("nothing that each thread has, or not exact")
        except REFUSED:
            self.parameters, self.memory = parameters, memory
            return
        if isinstance(value, Near):
            self.near[name] = value
        else:
            self.values[name] = value
        self.lines.append(text.replace("{0}", name))

    # What kernels are called with.

    def fresh(self, letter: str) -> str:
        self.number += 1
        return f"{letter}{self.number}"

    def type(self, width: int | None = None, names: Sequence[str] = ()) -> Type:
        """A type of elements of memory."""
        choices = self.choices
        name = choices.of(names or (*self.names, *self.names, choices.of(_HELD)))
        wide = choices.of((1, 2, 3, 4)) if width is None else width
        packed = "packed_" if wide > 1 and choices.flag(3) else ""
        return Type(f"{packed}{name}{wide if wide > 1 else ''}", DTYPES[NAMES[name]], wide)

    def type_of(self, x: Plain) -> Type:
        """A type of memory that holds some values."""
        width = x.shape[1]
        packed = "packed_" if width > 1 and self.choices.flag() else ""
        return Type(f"{packed}{CALLED[x.dtype]}{width if width > 1 else ''}", x.dtype, width)

    def rows(self, type_: Type, count: int = 0) -> Array:
        """Numbers, small, all of one sign, special, or such that integers overflow."""
        dtype, shape = type_.dtype, (count or self.count, type_.width)
        if dtype is bool_:
            return self.rng.integers(0, 2, shape).astype(np.bool_)
        style, is_signed = self.choices.below(4), dtype.is_float or dtype.is_signed
        if style == 3 and dtype.is_float:
            rows: Array = self.rng.choice(_SPECIAL, shape)
        elif style == 3:
            rows = self.rng.integers(dtype.low, dtype.high, shape, HELD[dtype], endpoint=True)
        elif style == 2:
            rows = self.rng.integers(1, 7, shape) * self.choices.of((1, -1) if is_signed else (1,))
        else:
            rows = self.rng.integers(-20 if is_signed else 0, 21, shape)
            rows = rows / 4 if dtype.is_float else rows // 4
        return rows.astype(HELD[dtype])

    def array(self, type_: Type, rows: Array, after: Array | None = None) -> str:
        """One more array, which a kernel writes or not."""
        is_const = self.choices.of(("device const", "constant", "const device"))
        declared = f"{is_const if after is None else 'device'} {type_.name}*"
        name = self.fresh("A" if after is None else "W")
        laid = type_.laid_out(rows, UNTOUCHED)
        expected = type_.laid_out(rows if after is None else after, UNTOUCHED)
        self.parameters.append(Parameter(name, declared, laid, expected))
        return name

    def given(self) -> Term:
        """A number that the kernel is called with."""
        type_ = self.type(1)
        (number,) = self.rows(type_, 1)[0]
        name = self.fresh("n")
        forms = (f'"{type_.name}"', f"metal.{type_.name}", f'"constant {type_.name}&"')
        self.parameters.append(Parameter(name, self.choices.of(forms), number.item(), None))
        return Term(name, Plain(np.full((self.count, 1), number), type_.dtype))

    # Parts of lines.

    def some(self, fits: Callable[[Plain], bool] = lambda x: True) -> Term:
        names = [name for name, x in self.values.items() if fits(x)]
        if not names:
            raise Refused("nothing that fits")
        name = self.choices.of(names[-3:] if self.choices.flag() else names)
        return Term(name, self.values[name])

    def scalar(self, fits: Callable[[Plain], bool] = lambda x: True) -> Term:
        return self.some(lambda x: x.shape[1] == 1 and fits(x))

    def integer(self) -> Term:
        return self.scalar(lambda x: x.dtype.is_integer and x.dtype is not bool_)

    def vector(self) -> Term:
        return self.some(lambda x: x.shape[1] > 1)

    def alike(self, x: Plain) -> Term:
        """One of the same dtype and width."""
        return self.some(lambda v: v.dtype is x.dtype and v.shape == x.shape)

    def plain_number(self) -> Term:
        text = self.choices.of(("2", "1", "3", "0", "0.5", "-1", "-1.5", "True", "7", "200"))
        return Term(text, eval(text))

    def operand(self, beside: Term) -> Term:
        """One that fits beside another, mostly."""
        match self.choices.below(6):
            case 0 | 1 | 2:
                return self.alike(beside.value)
            case 3:
                return self.plain_number()
            case 4:
                return self.scalar()
        return self.some()

    def condition(self) -> Term:
        """Of scalars."""
        x = self.scalar()
        y = self.choices.of((self.alike(x.value), self.plain_number()))
        word = self.choices.of(("<", "<=", ">", ">=", "==", "!="))
        return Term(f"({x.text} {word} {y.text})", compared(word, x.value, y.value))

    def below(self, limit: int) -> Term:
        """An index of a thread's own, of an unsigned or a signed integer."""
        x = self.integer()
        small = Plain(x.value.data.astype(np.uint8) % limit, DTYPES["u8"])
        return Term(f"metal.uchar({x.text}) % {limit}", small)

    # Source.

    @property
    def results(self) -> dict[str, Plain | Near]:
        return {**self.values, **self.near}

    def outputs(self) -> dict[str, tuple[Type, str]]:
        """The type as which each result is stored, and how it is written as that."""
        found = {}
        for at, (name, x) in enumerate(self.results.items()):
            width, written = x.shape[1], name
            dtype = x.dtype
            if dtype is bf16:
                dtype, written = DTYPES["f32"], f"metal.float{width if width > 1 else ''}({name})"
            packed = "packed_" if width > 1 and at % 2 else ""
            called = f"{packed}{CALLED[dtype]}{width if width > 1 else ''}"
            found[name] = Type(called, dtype, width), written
        return found

    @property
    def text(self) -> str:
        """Its source."""
        stored = self.outputs()
        declared = {p.name: p.declared for p in self.parameters}
        declared = {n: d if d.startswith(('"', "metal")) else f'"{d}"' for n, d in declared.items()}
        declared |= {f"Out_{name}": f'"device {t.name}*"' for name, (t, _) in stored.items()}
        said = ", ".join([f"{name}: {d}" for name, d in declared.items()])
        head = f"@metal.kernel\ndef drawn({said}):"
        if not self.is_annotated:
            types = ", ".join([f'"{name}": {d}' for name, d in declared.items()])
            head = f"@metal.kernel(param_types={{{types}}})\ndef drawn({', '.join(declared)}):"
        body = [
            "x, y, z = metal.thread_id_x(), metal.thread_id_y(), metal.thread_id_z()",
            "i = x + metal.grid_size_x() * (y + metal.grid_size_y() * z)",
            *self.memory,
            *"\n".join(self.lines).splitlines(),
            *[f'check({name}, "{x.dtype}", {x.shape[1]})' for name, x in self.results.items()],
            *[f"Out_{name}[i] = {written}" for name, (_, written) in stored.items()],
        ]
        return "\n".join([head, *[f"    {line}" for line in body], ""])

    @property
    def elements(self) -> int:
        """How many threads a threadgroup has: what shared memory has an element for."""
        return prod(self.launch.size)


def compared(word: str, a: Any, b: Any) -> Any:
    return eval(f"a {word} b", {"a": a, "b": b})
