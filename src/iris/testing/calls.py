"""Random calls of functions of arrays, from NumPy arrays or Buffers to what they return.

    @given(calls.calls())
    def test_calls(call):
        call.check()

A function of few lines is compiled by `iris.jit`, at times with the schedules of its kernels tuned,
and called several times: with other numbers, by name, with one array for two.  The elements of
arrays lie in memory in row-major order, or otherwise: what is returned is the same.

Some take arrays in tuples, lists and dicts, or return them so: they come apart and together as the
same function without these does.

Some functions take a number of Python, too, which may not fit the arrays of a later call: NumPy
refuses that, and so must Iris.  Or they take a number that is static, alone or in something, and a
later call has an equal one of another type or sign.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import iris
from iris.compiler import candidates
from iris.errors import UserError
from iris.frontend.arrays.array_function import ArrayFunction
from iris.interp.memory import memory_dtype
from iris.ir.control import Func
from iris.ir.math import element_type
from iris.testing.array_draft import NAMES, REFUSED, STATIC, ArrayDraft, Line
from iris.testing.array_functions import BYTES, Function
from iris.testing.choices import Choices
from iris.testing.faults import doing
from iris.testing.fusing import EXPANDED, values_of
from iris.testing.nests import Nest, Pair, filled, leaves_of, nest, places, written
from iris.testing.numpy_graphs import Expected
from iris.testing.sources import defined

Array = npt.NDArray[Any]
DEVICES = ("interp", "interp:metal", "interp", "interp")


@dataclass(frozen=True)
class Held:
    """A static argument, as users keep options together."""

    number: Any


# How a function reads a static number, and the argument that holds it.
_HOLDERS: Mapping[str, Callable[[Any], Any]] = {
    STATIC: lambda number: number,
    f"{STATIC}.number": Held,
    f"{STATIC}[0]": lambda number: (number,),
    f"{STATIC}[0].number": lambda number: (Held(number),),
}
_EQUAL = ((2, 2.0), (0.0, -0.0), (1, 1.0, True), (3, np.float32(3)))
_NUMBERS = (300, -1, 2.5)  # some do not fit some dtypes


def _by_number(f: ArrayDraft) -> Line:
    """Combine a value with a number that the function is given, if it is given one."""
    x = f.some()
    number = f.choices.of(f.names or [f.number(f.values[x].dtype)])
    words = ["{} + {}", "{} * {}", "np.maximum({}, {})", "np.copysign({}, {})", "{} - {}"]
    if f.names:  # which may be a flag
        words += ["({0} * 2 if {1} is True else {0})"] * 2
    return Line(f.choices.of(words).format(x, number))


class _Short(Function):
    """A function of few lines, which returns the last and maybe others."""

    most_lines = 8
    tries = 16
    makers = (*Function.makers, *[_by_number] * 14)

    def __init__(self, choices: Choices):
        self._equal: list[Any] = []  # what a static argument may be as well
        super().__init__(choices)
        self._returned = [n for n in super().returned[:-1] if choices.flag(3)]
        self._returned += super().returned[-1:]

    def _numbers(self) -> dict[str, Any]:
        choices, numbers = self.choices, dict[str, Any]()
        style = choices.below(4)
        if style in (1, 3):
            numbers["n"] = choices.of((3, 1, 0.5))
            self.names.append("n")
        if style > 1:
            name = choices.of([*_HOLDERS])
            self._equal = [_HOLDERS[name](number) for number in choices.of(_EQUAL)]
            numbers[STATIC] = self._equal[0]
            self.names.append(name)
        return numbers

    def number(self, dtype: np.dtype[Any]) -> str:
        if self.names and self.choices.flag():
            return self.choices.of(self.names)
        return super().number(dtype)

    @property
    def returned(self) -> Sequence[str]:
        return self._returned

    def others(self) -> Iterator[dict[str, Any]]:
        """The arguments with other numbers: such as NumPy takes, or such as it refuses, too."""
        given = {**self.arguments, **self.numbers}
        others = [("n", number) for number in _NUMBERS] if "n" in given else []
        for name, number in [*others, *[(STATIC, number) for number in self._equal[1:]]]:
            if re.search(rf"\b{name}\b", self.text.partition("):")[2]):
                yield {**given, name: number}


@dataclass(frozen=True)
class Trees:
    """A function around another one, which takes some of its arguments in one tree, and returns its
    results in another."""

    taken: Nest
    returned: Nest  # of r0, r1 and so on

    def text(self, given: Mapping[str, Any]) -> str:
        """Its source, if the other one is `flat`."""
        got = places(self.taken, "tree")
        named = ", ".join([f"{name}={got.get(name, name)}" for name in given])
        lines = [f"def drawn({', '.join(self.around(given))}):", f"    found = flat({named})"]
        lines += [f"    {n} = found[{at}]" for at, n in enumerate(self._names)]
        return "\n".join([*lines, f"    return {written(self.returned)}", ""])

    @property
    def _names(self) -> Sequence[str]:
        return [f"r{number}" for number in range(len(places(self.returned, "")))]

    def around(self, given: Mapping[str, Any], *, turned: bool = False) -> dict[str, Any]:
        """The arguments, some of them in a tree, whose dicts may be filled from their end."""
        rest = {k: x for k, x in given.items() if k not in places(self.taken, "")}
        return {"tree": filled(self.taken, given, turned=turned), **rest}

    def results(self, found: Any) -> Sequence[Any]:
        """What the other one returns."""
        values = dict(leaves_of(self.returned, found))
        return [values[name] for name in self._names]


@dataclass(frozen=True)
class Call:
    """A function, and some calls of it, each with arrays and numbers by their names; some arrays
    are Buffers."""

    text: str
    given: Sequence[Mapping[str, Any]]
    buffers: frozenset[str]
    named: int  # how many of the last are passed by name
    tune: bool
    device: str
    layouts: Mapping[str, str]  # how the elements of arrays lie in memory
    static: Sequence[str] = ()
    place: int | None = None  # where the static parameter is, if that is said in place of its name
    trees: Trees | None = None

    def __repr__(self) -> str:
        calls = [repr({k: _shown(x) for k, x in given.items()}) for given in self.given]
        how = f"{self.device}, tune={self.tune}, Buffers {sorted(self.buffers)}, {self.named} named"
        how += f", {dict(self.layouts)}, static {self.static if self.place is None else self.place}"
        around = self.trees.text(self.given[0]) if self.trees else ""
        return "\n".join([*calls, how, "", self.text, around])

    def _compiled(self, made: Callable[..., Any]) -> Callable[..., Any]:
        """What is called: the function, or one around it that has trees."""
        if self.trees is not None:
            made = defined(self.trees.text(self.given[0]), Pair=Pair, flat=made)
        static: dict[str, Any] = {"static_argnames": self.static}
        if self.place is not None:
            static = {"static_argnums": self.place}
        compiled: Callable[..., Any] = iris.jit(made, tune=self.tune, **static)
        return compiled

    def check(self) -> None:
        """Asserts that each call returns what the graph of the function does."""
        made = defined(self.text, **NAMES)
        compiled = self._compiled(made)
        function = ArrayFunction(made, static_argnames=self.static)
        with candidates.watched():
            for number, given in enumerate(self.given):
                arrays = {k: x for k, x in given.items() if isinstance(x, np.ndarray)}
                laid_out: dict[int, Array] = {}
                for name, x in arrays.items():
                    laid_out.setdefault(id(x), _LAYOUTS[self.layouts[name]](x))
                passed = {k: laid_out.get(id(x), x) for k, x in given.items()}
                call = partial(self._returned, compiled, passed, turned=number % 2 == 1)
                if _is_too_great(made, given):
                    with doing(repr(self)):
                        self._refuses(call)
                    continue
                expected = _expected(function, given)
                with doing(repr(self)):
                    found = call()
                    kinds = [(memory_dtype(x.dtype), x.values.shape) for x in expected.results]
                    assert [(x.dtype, x.shape) for x in found] == kinds
                    expected.compare(found)
                    for x in arrays.values():
                        assert np.array_equal(laid_out[id(x)], x, equal_nan=x.dtype.kind == "f")

    def _refuses(self, call: Callable[[], object]) -> None:
        try:
            call()
        except UserError:
            return
        raise AssertionError("a number that does not fit is taken")

    def _returned(self, compiled: Any, arrays: Mapping[str, Any], *, turned: bool) -> list[Array]:
        made: dict[int, iris.Buffer] = {}  # one for each array, whichever parameters it is for
        passed: dict[str, Any] = {}
        for name, array in arrays.items():
            passed[name] = array
            if name in self.buffers:
                made.setdefault(id(array), iris.asarray(array, device=self.device))
                passed[name] = made[id(array)]
        if self.trees is not None:
            passed = self.trees.around(passed, turned=turned)
        names = [*passed]
        first = len(names) - self.named
        by_name = {name: passed[name] for name in names[first:][::-1]}
        found = compiled(*[passed[n] for n in names[:first]], **by_name, device=self.device)
        if self.trees is not None:
            found = self.trees.results(found)
        return [values_of(x) if isinstance(x, iris.Buffer) else x for x in found]


def _made(data: bytes) -> Call:
    choices = Choices(data)
    function = _Short(choices)
    first_given = {**function.arguments, **function.numbers}
    given = [first_given]
    for turn in range(choices.of((0, 1, 2))):
        arrays = {k: np.roll(x, 1 + turn) for k, x in function.arguments.items()}
        if _takes(function, {**first_given, **arrays}):
            given.append({**first_given, **arrays})
    made = defined(function.text, **NAMES)
    for other in function.others():
        if _is_too_great(made, other) or (_takes(function, other) and _traces(function, other)):
            given.append(other)
    first, *rest = function.arguments
    for name in rest:
        alike = function.arguments[name].dtype == function.arguments[first].dtype
        same = {**first_given, name: function.arguments[first]}
        if alike and same[first].shape == function.arguments[name].shape and _takes(function, same):
            given.append(same)
    named = choices.of((0, 0, 1, len(function.arguments)))
    trees = _trees(function, choices) if choices.flag(3) else None
    parameters = first_given if trees is None else trees.around(first_given)
    place = choices.of((len(parameters) - 1, -1)) if function.static and choices.flag() else None
    return Call(
        function.text,
        given,
        frozenset([name for name in function.arguments if choices.flag()]),
        min(named, len(parameters)),
        choices.flag(4),
        choices.of(DEVICES),
        {name: choices.of(("", "", *_LAYOUTS)) for name in function.arguments},
        function.static,
        place,
        trees,
    )


def _trees(function: _Short, choices: Choices) -> Trees:
    arrays = sorted(function.arguments, key=lambda _: choices.below(256))
    results = [f"r{number}" for number in range(len(function.returned))]
    some = arrays[: choices.of((len(arrays), 2, 1))]
    numbers = [name for name in function.numbers if name != STATIC]
    return Trees(nest([*numbers, *some], choices), nest(results, choices))


def _shown(x: Any) -> Any:
    return x.tolist() if isinstance(x, np.ndarray) else x


def _is_too_great(made: Callable[..., Any], given: Mapping[str, Any]) -> bool:
    """Whether NumPy says that a number does not fit the arrays that it is combined with."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            made(**given)
        except OverflowError:
            return True
        except REFUSED:
            return False
    return False


def _traces(function: Function, given: Mapping[str, Any]) -> bool:
    """Whether Iris takes other numbers, too; it may refuse some that NumPy takes."""
    made = ArrayFunction(defined(function.text, **NAMES), static_argnames=function.static)
    try:
        call = made.bind([], given)
        for number in made.trace(call).narrowed:
            number.check(call.leaves)
    except UserError:
        return False
    return True


def _traced(function: ArrayFunction, given: Mapping[str, Any]) -> tuple[Func, list[Array]]:
    """A graph, and what it is called with."""
    call = function.bind([], given)
    traced = function.trace(call)
    (func,) = traced.module
    assert isinstance(func, Func)
    parameters = func.body.arguments
    passed = zip(call.leaves, parameters, strict=False)
    own = [np.asarray(x.value, memory_dtype(element_type(v.type).element)) for x, v in passed]
    return func, [*own, *traced.captured]


def _expected(function: ArrayFunction, given: Mapping[str, Any]) -> Expected:
    func, passed = _traced(function, given)
    return Expected.of_function(func, passed, EXPANDED)


def _takes(function: Function, arrays: Mapping[str, Any]) -> bool:
    """Whether other numbers are as good for all lines."""
    if re.search(r"astype\(np.u?int", function.text):  # which may not hold them
        return False
    with suppress(*REFUSED):
        return function.takes(arrays)
    return False


def _apart(x: Array) -> Array:
    """With other elements between."""
    wide: Array = np.ones((*x.shape, 2), x.dtype)
    wide[..., 0] = x
    found: Array = wide[..., 0]
    return found


def _at_an_odd_byte(x: Array) -> Array:
    memory = np.zeros(x.nbytes + 1, np.uint8)
    found: Array = np.ndarray(x.shape, x.dtype, memory, 1)
    found[...] = x
    return found


def _read_only(x: Array) -> Array:
    found: Array = x.copy()
    found.flags.writeable = False
    return found


_LAYOUTS: Mapping[str, Callable[[Array], Array]] = {
    "": lambda x: x,
    "columns first": lambda x: x.copy(order="F"),
    "backwards": lambda x: np.flip(np.flip(x).copy()),
    "apart": _apart,
    "at an odd byte": _at_an_odd_byte,
    "read-only": _read_only,
}


def calls() -> st.SearchStrategy[Call]:
    """Calls of functions of two or three arrays."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(_made)
