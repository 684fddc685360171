"""Calls that are right, and beside each one that is wrong in one way, which must be refused.

    @given(refused_calls.calls())
    def test_refusals(call):
        call.check()

What is wrong follows from what is drawn, by a plain rule: elements that share memory are counted,
options are looked up, shapes and devices compared, indices held against the size of their axis.
So a rule that refuses what is right is found, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import iris
from iris.errors import IrisError, UserError
from iris.testing import refused_lines
from iris.testing.choices import Choices
from iris.testing.sources import defined

BYTES = 24
_DEVICES = ("interp", "interp:metal")
# What options may be, as docs/language.md says.
_POWERS = (1, 2, 4, 8, 16, 32)
_LEGAL: dict[str, tuple[Any, ...]] = {
    "num_simdgroups": (None, *_POWERS),
    "num_stages": (None, *range(1, 9)),
    "swizzle": (None, *_POWERS[1:]),
    "fast_math": (True, False),
    "serpentine": (True, False),
    "preload": (True, False),
}
_VALUES = (1, 2, 3, 4, 0, -1, 8, 9, 32, 64, True, False, 1.0, 4.0, "4", None, np.int64(4))


@iris.kernel
def _put(Out, number):  # type: ignore[no-untyped-def]
    iris.store(Out, number)


@iris.kernel
def _fill(Out, n, B: iris.constexpr):  # type: ignore[no-untyped-def]
    at = iris.arange(0, B)  # type: ignore[arg-type]
    iris.store(Out + at, 1.0, mask=at < n)


@iris.kernel
def _look_up(X, At, Out, SHAPE: iris.constexpr, AXIS: iris.constexpr, N: iris.constexpr):  # type: ignore[no-untyped-def]
    i = iris.arange(0, N)  # type: ignore[arg-type]
    x, at = iris.load(X + i), iris.load(At + i)
    found = iris.gather(iris.reshape(x, SHAPE), iris.reshape(at, SHAPE), AXIS)  # type: ignore[arg-type]
    iris.store(Out + i, iris.ravel(found))


@iris.kernel
def _move(X, At, Out, N: iris.constexpr):  # type: ignore[no-untyped-def]
    at = iris.load(At + iris.arange(0, N))  # type: ignore[arg-type]
    iris.store(Out + at, iris.load(X + at))


# Each looks up in the inner part of an array, where an index outside still finds an element.
@iris.jit
def _element(x, at):  # type: ignore[no-untyped-def]
    return x[1:-1, 1:-1][at]


@iris.jit
def _column(x, at):  # type: ignore[no-untyped-def]
    return x[1:-1, 1:-1][:, at]


@iris.jit
def _pair(x, at):  # type: ignore[no-untyped-def]
    return x[1:-1, 1:-1][at, at[::-1]]


@iris.jit
def _taken(x, at):  # type: ignore[no-untyped-def]
    return np.take(x[1:-1, 1:-1], at, axis=1)


@iris.jit
def _updated_at(x, at):  # type: ignore[no-untyped-def]
    return x[1:-1, 1:-1].at[at].add(1)


@iris.jit
def _sum(x, y):  # type: ignore[no-untyped-def]
    return x + y


@iris.jit
def _by_name(x, **others):  # type: ignore[no-untyped-def]
    return x + others["y"] + others["z"]


def calls() -> st.SearchStrategy[Refused]:
    """Calls of all kinds."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(Refused)


@dataclass(frozen=True)
class Refused:
    """A call, as some bytes choose."""

    data: bytes

    def __repr__(self) -> str:
        words, _, is_right = _drawn(self.data)
        return f"{words}: {'right' if is_right else 'wrong'}"

    def check(self) -> None:
        """Assert that the call is refused if, and only if, it is wrong."""
        words, call, is_right = _drawn(self.data)
        try:
            call()
        except IrisError as error:
            assert not is_right, f"{words} is refused: {error}"
        except TypeError as error:  # such as of a dtype
            assert isinstance(error, UserError) and not is_right, f"{words}: {error}"
        else:
            assert is_right, f"{words} is not refused"


Drawn = tuple[str, Callable[[], object], bool]


def _drawn(data: bytes) -> Drawn:
    choices = Choices(data)
    return choices.of(_KINDS)(choices)


def _overlapping(choices: Choices) -> Drawn:
    """Write to an array whose elements may overlap in memory."""
    shape = tuple([choices.of((2, 1, 3, 4)) for _ in range(1 + choices.below(3))])
    strides = tuple([choices.of((1, 2, 3, 4, 8, 12, 0)) for _ in shape])
    array = as_strided(np.zeros(128, np.float32), shape, tuple([4 * s for s in strides]))
    places = {
        sum(i * s for i, s in zip(index, strides, strict=True))
        for index in product(*map(range, shape))
    }
    is_right = len(places) == array.size
    words = f"a launch that writes an array of shape {shape} and strides {strides}"
    return words, lambda: _put[1](iris.strided(array), 1.0, device="interp"), is_right


def _of_two_devices(choices: Choices) -> Drawn:
    """Buffers are of one device, or of two."""
    on = [choices.of(_DEVICES) for _ in "12"]
    x, y = (iris.asarray(np.ones(8, np.float32), device=device) for device in on)
    return f"a function of Buffers on {on}", lambda: _sum(x, y), on[0] == on[1]


def _option(choices: Choices) -> Drawn:
    """An option has a value that it may have, or another one."""
    name = choices.of([*_LEGAL])
    value = choices.of(_VALUES)
    is_right = any(type(value) is type(legal) and value == legal for legal in _LEGAL[name])
    out = np.zeros(1, np.float32)
    call = lambda: _put[1](out, 1.0, device="interp", **{name: value})  # noqa: E731
    return f"a launch with {name}={value!r}", call, is_right


def _updated(choices: Choices) -> Drawn:
    """A recorded launch gets another Buffer, of the same form or of another."""
    sizes = [choices.of((8, 16, 4)) for _ in "12"]
    dtypes = [choices.of((np.float32, np.int32)) for _ in "12"]
    old, new = (
        iris.asarray(np.zeros(n, d), device="interp") for n, d in zip(sizes, dtypes, strict=True)
    )
    with iris.record() as recording:
        _fill[1](old, 4, B=16, device="interp")
    forms = [f"{n} {d.__name__}" for n, d in zip(sizes, dtypes, strict=True)]
    words = f"an update of a Buffer of {forms[0]} by {forms[1]}"
    is_right = sizes[0] == sizes[1] and dtypes[0] is dtypes[1]
    return words, lambda: recording.launches[0].update(Out=new), is_right


def _indexed(choices: Choices) -> Drawn:
    """Indices are within their axis, at its ends, or one is outside; what is found is compared."""
    size = choices.of((4, 1, 8, 2, 3, 0))
    device, dtype = choices.of(_DEVICES), choices.of((np.int32, np.int64, np.int8, np.uint8))
    x = np.arange((size + 2) ** 2, dtype=np.float32).reshape(size + 2, size + 2)
    function, by_numpy = choices.of(_LOOK_UPS)
    count = choices.of((1, 2, 5))
    at = _indices(choices, size, -size if dtype is not np.uint8 else 0, (count,), dtype)

    def call() -> None:
        found = function(x, at, device=device)
        np.testing.assert_array_equal(found, by_numpy(x[1:-1, 1:-1], at.astype(np.int64)))

    words = f"{function.function.name} of {size} elements at {at} of {at.dtype} on {device}"
    inside = (at.astype(np.int64) < size) & (at.astype(np.int64) >= -size)
    return words, call, bool(inside.all())


def _gathered(choices: Choices) -> Drawn:
    """Lanes are looked up along one of three axes, which may be equal; or elements of an array."""
    shape = tuple([choices.of((2, 4, 1, 8)) for _ in range(3)])
    size, axis, device = int(np.prod(shape)), choices.below(4), choices.of(_DEVICES)
    x = np.arange(size, dtype=np.float32).reshape(shape)
    by_pointer = axis == 3
    length = size if by_pointer else shape[axis]
    at = _indices(choices, length, 0, shape, np.int32)

    def call() -> None:
        out = np.zeros(shape, np.float32)
        given = (x.ravel(), at.ravel(), out.reshape(-1))
        if by_pointer:
            _move[1](*given, N=size, device=device)
            out.ravel()[np.setdiff1d(np.arange(size), at)] = 0
            expected = np.zeros(size, np.float32)
            expected[at.ravel()] = x.ravel()[at.ravel()]
            np.testing.assert_array_equal(out.ravel(), expected)
        else:
            _look_up[1](*given, SHAPE=shape, AXIS=axis, N=size, device=device)
            np.testing.assert_array_equal(out, np.take_along_axis(x, at, axis))

    words = f"a kernel that looks up along axis {axis} of {shape} on {device} at {at.tolist()}"
    return words, call, bool(((at >= 0) & (at < length)).all())


def _indices(
    choices: Choices, size: int, least: int, shape: tuple[int, ...], dtype: Any
) -> np.ndarray[Any, Any]:
    """Indices from `least` on, below the size of an axis; at times one is at an end or outside."""
    rng = np.random.default_rng(choices.below(256))
    at = rng.integers(least, max(size, least + 1), shape).astype(dtype)
    if choices.flag():
        known = np.iinfo(dtype)
        far = (size + 1, 2 * size, known.max, known.min, 2**32)
        number = choices.of((size - 1, size, least, least - 1, size, *far))
        if known.min <= number <= known.max:
            at.reshape(-1)[choices.below(at.size)] = number
    return at


def _freed(choices: Choices) -> Drawn:
    """A recording is replayed, some of whose Buffers may have been freed, or exchanged before."""
    buffers = [iris.asarray(np.zeros(8, np.float32), device="interp") for _ in "123"]
    needed = [0, 1]
    with iris.record() as recording:
        for number in needed:
            _fill[1](buffers[number], 4, B=16, device="interp")
    for _ in range(choices.below(3)):
        at, number = choices.below(2), choices.below(3)
        recording.launches[at].update(Out=buffers[number])
        needed[at] = number
    freed = choices.below(4)
    for buffer in buffers[freed : freed + 1]:
        buffer.free()
    words = f"a replay on the Buffers {needed} with {freed} freed"
    return words, recording.replay, freed not in needed


def _edited(choices: Choices) -> Drawn:
    """A function is edited to one that takes the same arrays, or others."""
    size, other = (choices.of((64, 32, 8)) for _ in "12")
    x = np.ones(size, np.float32)
    lowered = _sum.lower(x, x, device="interp")
    text = lowered.graph.replace(f"tensor<{size}x", f"tensor<{other}x")
    return f"an edit of {size} to {other} elements", lambda: lowered.edited(text), size == other


def _changed(choices: Choices) -> Drawn:
    """A function changes arguments in place, for what it returns or for nobody."""
    names = ("x", "y")
    lines = list[str]()
    own = {name: name for name in names}  # which argument's memory a variable has; none, if made
    last: dict[str, set[str]] = {}  # what the last change of an argument needs: names of changes
    needs: dict[str, set[str]] = {name: set() for name in names}
    for number in range(1 + choices.below(4)):
        to, other = choices.of(names), choices.of(names)
        needed = needs[to] | needs[other]
        if choices.flag(3):
            lines.append(f"{to} = {to} * {other}")
            own.pop(to, None)
        else:
            lines.append(f"{to} += {other}")
            needed = needed | {f"change {number}"}
            if to in own:
                last[to] = {f"change {number}"}
        needs[to] = needed
    returned = choices.of(("x", "y", "x * y"))
    found = set[str]().union(*[needs[name] for name in names if name in returned])
    is_right = all(change <= found for change in last.values())
    text = "\n".join(
        ["def drawn(x, y):", *[f"    {line}" for line in lines], f"    return {returned}"]
    )
    given = (np.ones(3, np.float32), np.ones(3, np.float32))
    return (
        f"a call of\n{text}\n",
        lambda: iris.jit(defined(text))(*given, device="interp"),
        is_right,
    )


def _named(choices: Choices) -> Drawn:
    """An argument is of a dtype that no function takes: the error begins with its name."""
    names = ("x", "y", "z")
    wrong = choices.of((*names, ""))
    given = {name: np.ones(2, np.float64 if name == wrong else np.float32) for name in names}

    def call() -> None:
        try:
            _by_name(device="interp", **given)
        except TypeError as error:
            assert str(error).startswith(f"{wrong} is "), f"the error is not of {wrong}: {error}"
            raise

    return f"a call with {wrong or 'nothing'} of float64", call, wrong == ""


def _added(x: np.ndarray[Any, Any], at: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x = x.copy()
    np.add.at(x, at, 1)
    return x


_LOOK_UPS: tuple[tuple[Any, Callable[..., Any]], ...] = (
    (_element, lambda x, at: x[at]),
    (_column, lambda x, at: x[:, at]),
    (_pair, lambda x, at: x[at, at[::-1]]),
    (_taken, lambda x, at: np.take(x, at, axis=1)),
    (_updated_at, _added),
)
_KINDS = (
    _overlapping,
    _of_two_devices,
    _option,
    _updated,
    _freed,
    _edited,
    refused_lines.line,
    _named,
    _changed,
    _overlapping,
    _option,
    _indexed,
    _indexed,
    _gathered,
    _gathered,
    _gathered,
    refused_lines.line,
    refused_lines.line,
)
