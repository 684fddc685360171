"""Random functions of arrays as Python source, which NumPy runs as Iris does.

    @given(array_functions.functions())
    def test_arrays(function):
        function.check()

A function is drawn line by line.  Each line is an expression of the arguments and of earlier lines;
a line is left out if NumPy refuses it or its result is too large.  The function returns all lines.
Numbers are small integers, so most results are exact.  Some sums and products are of 16-bit floats:
they are rounded once.  After a division, sums may differ by the
error bounds of another order, and no comparison or index depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from iris.frontend.arrays.padding import MODES
from iris.testing.array_draft import ArrayDraft, Line
from iris.testing.choices import Choices
from iris.testing.numpy_calls import call

Array = npt.NDArray[Any]
BYTES = 96
MOST = 8
SCALE = 0.37  # that makes of few bits as many as 16-bit floats have


def _index(f: ArrayDraft) -> Line:
    x = f.shaped()
    return Line(f"{x}[{f.key(x)}]")


def _change(f: ArrayDraft) -> Line:
    """A part of it set, or added to."""
    x = f.shaped()
    key = f.key(x)
    if "astype" in key or not f.values[x].size:  # which may name a place twice, or takes any shape
        return _index(f)
    number = "1" if f.values[x].dtype.kind == "b" else "2"
    value = f.choices.of(("1", number, f.some(lambda y: y.dtype == f.values[x].dtype)))
    name = "set_at" if f.values[x].dtype.kind == "b" or f.choices.flag() else "add_at"
    return Line(f"{name}({x}, np.s_[{key}], {value})")


def _reduce(f: ArrayDraft) -> Line:
    choices = f.choices
    name = choices.of(("sum", "mean", "max", "var", "any", "argmax", "min", "all", "argmin", "std"))
    is_exact = name not in ("mean", "var", "std")
    x = f.shaped(exact=name.startswith("a"))
    # NumPy divides integers in 64 bits.
    taken = x if is_exact or f.values[x].dtype.kind == "f" else f"{x}.astype(np.float32)"
    options = []
    if choices.flag():
        options.append(f"axis={f.axis(x)}")
    elif choices.flag() and not name.startswith("arg"):
        options.append(f"axis={f.axes(x)}")
    if choices.flag():
        options.append("keepdims=True")
    if choices.flag() and not name.startswith("arg"):
        options.append(f"where={f.mask(f.values[x].shape)}")
        if name in ("max", "min"):
            options.append(f"initial={choices.of((0, 1))}")
    in_halves = name == "sum" and choices.flag(3) and _is_few_bits(f, x)
    taken = f"halves({x}, {SCALE})" if in_halves else taken
    call = f"{taken}.{name}(" if choices.flag() else f"np.{name}({taken}, "
    text = f"{call}{', '.join(options)})"
    return _in_halves(text) if in_halves else Line(text, is_exact)


def _is_few_bits(f: ArrayDraft, *names: str) -> bool:
    """Whether sums of some values are exact in 32 bits, also if one of them has 11 bits more."""
    return all(name in f.exact and np.all(np.abs(f.values[name]) <= MOST) for name in names)


def _in_halves(text: str) -> Line:
    """What is rounded once to 16 bits; if anything is made of that, it is rounded again."""
    return Line(f"of_halves({text})", is_result=True)


def _scan(f: ArrayDraft) -> Line:
    name = f.choices.of(("cumsum", "diff", "cumsum", "maximum.accumulate", "trapezoid"))
    x = f.shaped()
    return Line(f"np.{name}({x}, axis={f.axis(x)})")


def _join(f: ArrayDraft) -> Line:
    x = f.shaped()
    alike = f.some(lambda y: y.shape == f.values[x].shape)
    name = f.choices.of(("concatenate", "stack", "concatenate", "hstack", "vstack"))
    axis = f", axis={f.axis(x)}" if name in ("concatenate", "stack") else ""
    parts = ", ".join(f.choices.of(((x, alike), (alike, x, x), (x, f"{x}[::-1]"))))
    return Line(f"np.{name}([{parts}]{axis})")


def _pad(f: ArrayDraft) -> Line:
    x = f.shaped()
    widths = [(f.choices.below(3), f.choices.of((0, 1, 3))) for _ in f.values[x].shape]
    mode = f.choices.of([mode for mode in MODES if mode != "empty"])
    option = MODES[mode]
    given = f", {option}={f.choices.of(_PADDED_BY[option])}" if option and f.choices.flag() else ""
    return Line(f"np.pad({x}, {widths}, mode={mode!r}{given})", mode != "mean", any_call=True)


_PADDED_BY = {
    "constant_values": ("1", "(2, 3)"),
    "stat_length": ("1", "(2, 1)", "3"),
    "reflect_type": ("'even'",),
}


def move(f: ArrayDraft) -> Line:
    choices, x = f.choices, f.shaped()
    shape, axis = f.values[x].shape, f.axis(x)
    by, other = choices.of((1, -1, 2, 5)), f.axis(x)
    # As many axes, in another order.
    axes = f.axes(x)
    others = tuple(sorted(axes, key=lambda _: choices.below(256)))
    order = f.axes(x)
    return Line(
        choices.of(
            (
                f"np.roll({x}, {by}, axis={axis})",
                f"np.roll({x}, {by})",
                f"np.flip({x}, axis={choices.of((axis, axes))})",
                f"{x}.transpose{order}" if len(order) == len(shape) > 1 else f"{x}.T",
                f"np.moveaxis({x}, {axis}, {other})",
                f"np.moveaxis({x}, {axes}, {others})",
                f"np.swapaxes({x}, {axis}, {other})",
                f"{x}.reshape({choices.of(('-1', '2, -1', '-1, 3', '-1, 2, 2'))})",
                f"np.repeat({x}, {choices.of((2, 3))}, axis={axis})",
                f"np.tile({x}, {choices.of(('2', '(2, 1)', '(1, 3)'))})",
                f"np.expand_dims({x}, {axis})",
                f"np.take({x}, {[0, -1, 0] if shape[axis] else []}, axis={axis})",
                f"np.rot90({x})",
                f"np.tril({x}, {by})",
                f"np.triu({x}, {by})",
                f"np.diagonal({x})",
                f"np.squeeze({x})",
            )
        )
    )


def _combine(f: ArrayDraft) -> Line:
    choices, x = f.choices, f.some()
    other = f.some() if choices.flag() else f.number(f.values[x].dtype)
    if choices.flag(3) and f.values[x].ndim:
        other = f"{x}{choices.of(('[:, None]', '[::-1]', '.T', '[0]', '[..., None]'))}"
    if choices.flag(6):
        other = _written(f.values[x])
    operator = choices.of(("+", "*", "-", "+", "*", "/"))
    both = (other, x) if choices.flag(3) else (x, other)
    return Line(f"{both[0]} {operator} {both[1]}", operator != "/")


def _written(like: Array) -> str:
    """An array that the function has in its text, of a shape and a dtype."""
    numbers = (np.arange(like.size) % 5 + 1).reshape(like.shape)
    return f"np.array({numbers.tolist()}, np.{like.dtype.name if like.dtype != bool else 'int32'})"


def _choose(f: ArrayDraft) -> Line:
    choices, x, y = f.choices, f.some(exact=True), f.some(exact=True)
    number = f.number(f.values[x].dtype)
    return Line(
        choices.of(
            (
                f"np.where({x} > {y}, {x}, {number})",
                f"np.where({x} > {number}, {y}, {x})",
                f"np.clip({x}, {number}, {y})",
                f"{x} {choices.of(('<', '>=', '==', '!='))} {y}",
                f"np.maximum({x}, {y})",
                f"np.minimum({x}, {number})",
                f"{x} % {choices.of((2, 3))}",
                f"{x} // {choices.of((2, 3))}",
                f"np.take_along_axis({x}, np.argmax({x}, axis=-1, keepdims=True), axis=-1)",
                f"{x}.astype(np.{choices.of(_casts(f.values[x]))})",
            )
        )
    )


def _casts(value: Array) -> Sequence[str]:
    """The dtypes that take an array: floats outside an integer's range are a program error."""
    whole = [np.iinfo(name) for name in ("int32", "int8")]
    is_float = value.dtype.kind == "f"
    fit = [k for k in whole if not is_float or np.all((value > k.min - 1) & (value < k.max + 1))]
    return ["float32", *[str(k.dtype) for k in fit]]


def _product(f: ArrayDraft) -> Line:
    """`einsum` of one or two values; axes of the same size often share a letter.  At times a
    product of integers."""
    choices = f.choices
    if choices.flag(4):
        x = f.some(lambda y: y.ndim == 2 and y.dtype.kind in "iu", exact=True)
        if f.values[x].ndim == 2 and f.values[x].dtype.kind in "iu":
            pair = (f"{x}.T", x)[:: choices.of((1, -1))]
            return Line(f"whole_product({', '.join(pair)})")
    letters: dict[str, int] = {}
    first = choices.below(10)  # of the letters: a result without its own has them by the alphabet
    terms = []
    names = [f.shaped() for _ in range(choices.of((2, 2, 1)))]
    for name in names:
        term = ""
        for size in f.values[name].shape:
            known = [c for c, n in letters.items() if n == size and (c not in term)]
            new = "ijklmnopqr"[(first + len(letters)) % 10]
            letter = known[0] if known and not choices.flag(3) else new
            letters.setdefault(letter, size)
            term += letter
        terms.append(term)
    in_halves = choices.flag() and _is_few_bits(f, *names)
    if in_halves:  # one array has elements of 11 bits, the other of few
        scales = (1, SCALE)[:: choices.of((1, -1))]
        operands = [f"halves({name}, {scale})" for name, scale in zip(names, scales, strict=False)]
    else:
        operands = [f"{name}.astype(np.float32)" for name in names]
    # Along an axis of one factor alone the order is free: to add first, or to multiply and round.
    alone = {c for c in letters if any(c not in term for term in terms)}
    rounded = alone if any(name not in f.exact for name in names) else set()
    kept = [c for c in letters if choices.flag() or c in rounded]
    kept.sort(key=lambda _: choices.below(256))
    to = "" if choices.flag(3) else f"->{''.join(kept)}"
    text = f"np.einsum('{','.join(terms)}{to}', {', '.join(operands)})"
    if len(terms) == 2 and choices.flag(4):
        text = f"({operands[0]} @ {operands[1]}{choices.of(('', '.T'))})"
    return _in_halves(text) if in_halves else Line(text)


class Function(ArrayDraft):
    """A function of lines of all these kinds."""

    makers = (
        _index,
        _reduce,
        _combine,
        _index,
        _reduce,
        _change,
        _join,
        _choose,
        _pad,
        move,
        _scan,
        _product,
        _index,
        move,
        _reduce,
        _product,
        *[call] * 14,
    )


def functions() -> st.SearchStrategy[Function]:
    """Functions of two or three arrays."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: Function(Choices(data)))
