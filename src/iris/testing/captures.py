"""Functions that read what others may change: globals, closures, attributes of modules, tuples,
defaults.

    @given(captures.histories())
    def test_changes(history):
        history.check()

A function of arrays, or a kernel, reads some numbers itself, and others in functions that it calls:
by name, through objects, or as a constant argument.  Between its calls a number becomes another,
maybe an equal one of another type or sign, or a function becomes another.  Each call must do what
it does where the function is compiled anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

import iris
from iris.errors import IrisError
from iris.testing.choices import Choices
from iris.testing.sources import evaluated

BYTES = 64
STEPS = 4
# A function reads numbers of one row.  Most of a row are equal, and compute something else.
_NUMBERS = ((2, 3, -1), (0.0, -0.0), (1, True, 1.0), (3, 3.0, np.float32(3), np.int32(3)))
_FORMS = ("x * {}", "x + {}", "x - {}", "x * 2 if {} is True else x - 1")
_SIZE = 8
# How a function reads a number, how the number is there at first, and how another is put there.
_PLACES = (
    ("g{0}", "g{0} = {1!r}", "g{0} = {1!r}"),
    ("t{0}[1]", "t{0} = (5, {1!r})", "t{0} = (5, {1!r})"),
    ("t{0}[0][1]", "t{0} = ((5, {1!r}), 6)", "t{0} = ((5, {1!r}), 6)"),
    ("m{0}.value", 'm{0} = Module("drawn.m{0}")\nm{0}.value = {1!r}', "m{0}.value = {1!r}"),
    (
        "m{0}.inner.value",
        'm{0} = Module("drawn.m{0}")\n'
        'm{0}.inner = Module("drawn.m{0}.inner")\n'
        "m{0}.inner.value = {1!r}",
        "m{0}.inner.value = {1!r}",
    ),
    ("d{0}()", "def d{0}(v={1!r}): return v", "d{0}.__defaults__ = ({1!r},)"),
    ("k{0}()", "def k{0}(*, v={1!r}): return v", "k{0}.__kwdefaults__ = dict(v={1!r})"),
    ("c{0}", "", "change{0}({1!r})"),
)
# How a function is held, and called.
_HELD = (
    ("", "{0}(x)"),
    ("class C_{0}:\n    do = staticmethod({0})", "C_{0}.do(x)"),
    ("class C_{0}:\n    @classmethod\n    def do(cls, x): return {0}(x)", "C_{0}.do(x)"),
    ("class C_{0}:\n    @property\n    def do(self): return {0}", "C_{0}().do(x)"),
    ("class C_{0}:\n    def __call__(self, x): return {0}(x)\ni_{0} = C_{0}()", "i_{0}(x)"),
    ("class C_{0}:\n    def do(self, x): return {0}(x)\nb_{0} = C_{0}().do", "b_{0}(x)"),
    ("p_{0} = partial({0})", "p_{0}(x)"),
    ("l_{0} = dict(of=[({0}, 1)])", "l_{0}['of'][0][0](x)"),
)
_FUNCTION = """\
def {name}(x):
    return {value}
"""
_MADE = """\
def made():
{variables}
{inner}
{drawn}
{changes}
    return drawn, [{names}]

drawn, changes = made()
for change in changes:
    globals()[change.__name__] = change
"""
_CHANGE = """\
def change{0}(value):
    nonlocal c{0}
    c{0} = value
"""
_ARRAYS = """\
def drawn(x, how):
{lines}
    return x
"""
_KERNEL = """\
def drawn(X, Out, how: iris.constexpr, B: iris.constexpr):
    at = iris.arange(0, B)
    x = iris.load(X + at)
{lines}
    iris.store(Out + at, x)
"""


def histories() -> st.SearchStrategy[History]:
    """Functions, and what changes between their calls."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(History)


@dataclass(frozen=True)
class History:
    """What happens, as some bytes choose."""

    data: bytes

    def __repr__(self) -> str:
        run = _Run(Choices(self.data))
        return "\n".join([run.text, *run.steps])

    def check(self) -> None:
        """Assert that each call does what it does where the function is compiled anew."""
        run = _Run(Choices(self.data))
        scope = evaluated(run.text, Module=ModuleType, np=np, partial=partial)
        drawn = scope["drawn"]
        make: Callable[[Any], Any] = (
            iris.kernel if run.is_kernel else partial(iris.jit, static_argnames="how")
        )
        kept = make(drawn)
        for step in ("pass", *run.steps):
            exec(step, scope)
            how = scope[run.how]
            found, expected = (_outcome(f, run, how) for f in (kept, make(drawn)))
            assert found == expected, f"after {step!r} it gives {found}, not {expected}"


class _Run:
    """The source of a function, and the lines that change what it reads."""

    def __init__(self, choices: Choices):
        self.is_kernel = choices.flag()
        self.x = np.array([-0.0, 0.0, 1, -2, 3, 5, -7, 8], choices.of((np.float32, np.int32)))
        numbers = choices.of(_NUMBERS)
        self.how = "same"  # the function that is a constant argument
        globals_, inner, lines = ["def same(x): return x"], list[str](), list[str]()
        variables, changes = list[str](), list[str]()
        others: list[tuple[str, int]] = []  # how a number is put there, and where
        for number in range(1 + choices.below(3)):
            reading, at_first, change = choices.of(_PLACES)
            value = choices.of(_FORMS).format(reading.format(number))
            is_closed = reading == "c{0}"
            first = choices.of(numbers)
            if is_closed:
                variables.append(f"c{number} = {_written(first)}")
                changes.append(_CHANGE.format(number))
            else:
                globals_.append(_placed(at_first, number, first))
            others.append((change, number))
            for depth in range(choices.below(3)):
                name = f"f{number}_{depth}"
                is_closed = is_closed or choices.flag()
                function = _FUNCTION.format(name=name, value=value)
                held, value = (form.format(name) for form in choices.of(_HELD))
                (inner if is_closed else globals_).extend([function, held])
                if not is_closed and self.how == "same" and choices.flag():
                    self.how, value = name, "how(x)"
                    break
            lines.append(f"x = {value}")
        if choices.flag():
            globals_.append("def one(x): return x * 2\ndef other(x): return x - 3\nturn = one")
            lines.append("x = turn(x)")
            others += [("turn = other", 0), ("turn = one", 0)]
        frame = _KERNEL if self.is_kernel else _ARRAYS
        made = _MADE.format(
            variables=_indented(variables),
            inner=_indented(inner),
            drawn=_indented([frame.format(lines=_indented(lines))]),
            changes=_indented(changes),
            names=", ".join([f"change{n}" for n in range(3) if f"c{n} = " in "".join(variables)]),
        )
        self.text = "\n".join([*globals_, made])
        self.steps = [_placed(*choices.of(others), choices.of(numbers)) for _ in range(STEPS)]


def _placed(form: str, number: int, value: Any) -> str:
    return form.replace("{1!r}", _written(value)).replace("{0}", str(number))


def _written(value: Any) -> str:
    if isinstance(value, np.generic):
        return f"np.{type(value).__name__}({value.item()!r})"
    return repr(value)


def _indented(parts: list[str]) -> str:
    return "\n".join([f"    {line}" for part in parts for line in part.splitlines()])


def _outcome(function: Any, run: _Run, how: Any) -> tuple[object, ...]:
    """What a call comes to: the kind of an error, or what is written or returned."""
    out = np.zeros(_SIZE, np.float32)
    try:
        if run.is_kernel:
            function[1](run.x, out, how, B=_SIZE, device="interp")
        else:
            out = np.asarray(function(run.x, how, device="interp"))
    except IrisError as error:
        return (type(error).__name__,)
    # 0.0 and -0.0 are shown as such.
    return str(out.dtype), *map(str, out.tolist())
