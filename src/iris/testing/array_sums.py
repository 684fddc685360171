"""Sums along axes, and products that are summed: of axes in any order, of labels in any role."""

from __future__ import annotations

from math import prod
from string import ascii_letters

import numpy as np

from iris.testing.array_draft import Line
from iris.testing.array_probe import ArrayProbe

FALSE = "np.any((a0 > 1) & (a0 < 1))"  # which is traced
STEPWISE = ("np.diff", "np.polyval")  # rounded at each step, as NumPy does
_IN_FULL = (("float32",), ("int8", "int32", "int16"), ("float32",), ("uint8", "uint16"))
_HALVES = ("float16",)


def numbered(f: ArrayProbe, *shapes: tuple[int, ...]) -> list[str]:
    """Traced arrays of different numbers, or of narrow integers whose products do not fit; or two
    of 16 bits, the one of all digits, the other of few, whose sum must be rounded once."""
    dtypes = f.choices.of((*_IN_FULL, _HALVES) if len(shapes) == 2 else _IN_FULL)
    if dtypes is _HALVES:
        f.is_exact = True
        digits = ("* 14 % 499 + 1500", "% 3 + 1")[:: f.choices.of((1, -1))]
        pairs = zip(shapes, digits, strict=True)
        return [
            f"halves(({FALSE} + np.arange({prod(shape)}) {numbers}).reshape({shape}), 1)"
            for shape, numbers in pairs
        ]
    given = [(shape, f.choices.of(dtypes)) for shape in shapes]
    return [
        f"wide(({FALSE} + np.arange({prod(shape)}) * 7 % 31).reshape({shape}).astype(np.{dtype}))"
        for shape, dtype in given
    ]


def _finished(f: ArrayProbe, text: str) -> Line:
    return Line(f"of_halves({text})" if f.is_exact else text)


def contracted(f: ArrayProbe) -> Line:
    """A product whose labels may be of both factors and the result, of one and the result, of both
    alone, or of one alone; some have size 1, and one may stand twice."""
    choices = f.choices
    f.must_take, f.adds = True, True
    counts = {"ab": 1, "ab=": choices.of((1, 0, 2)), "a=": choices.of((1, 0, 2))}
    counts |= {"b=": choices.of((1, 0, 2)), "a": choices.flag(4), "b": choices.flag(4)}
    roles = [role for role, count in counts.items() for _ in range(count)]
    letters = _shuffled(f, ascii_letters[: 2 * len(roles)])[: len(roles)]
    sizes = {c: choices.of((2, 3, 2, 1)) for c in letters}
    pairs = list(zip(letters, roles, strict=True))
    terms = [_shuffled(f, "".join([c for c, role in pairs if x in role])) for x in "ab"]
    kept = _shuffled(f, "".join([c for c, role in pairs if "=" in role]))
    if choices.flag(5):
        terms[0] += terms[0][:1]
    if choices.flag(5):  # a third factor scales along an axis
        terms.append(choices.of(letters))
    factors = numbered(f, *[tuple([sizes[c] for c in term]) for term in terms])
    to = choices.of((f"->{kept}", f"->{kept}", ""))
    if choices.flag(5):
        places = [[ascii_letters.index(c) for c in part] for part in (*terms, kept)]
        given = [f"{x}, {at}" for x, at in zip(factors, places, strict=False)]
        return _finished(f, f"np.einsum({', '.join(given)}, {places[-1]})")
    return _finished(f, f"np.einsum('{','.join(terms)}{to}', {', '.join(factors)})")


def _shuffled(f: ArrayProbe, letters: str) -> str:
    return "".join(sorted(letters, key=lambda _: f.choices.below(256)))


def multiplied(f: ArrayProbe) -> Line:
    """A product of stacks of matrices or of vectors, or along listed axes."""
    choices = f.choices
    f.must_take, f.adds = True, True
    n, m, k = (choices.of((2, 3, 1, 4)) for _ in "123")
    stack = choices.of(((), (2,), (3, 2), (1,)))
    other = choices.of((stack, (), stack[-1:], (1, *stack[1:])))
    word = choices.of(("np.matmul", "np.tensordot", "np.dot", "np.inner", "np.matmul"))
    first, second = (*stack, n, k), (*other, k, m)
    match word:
        case "np.tensordot":
            shape = choices.of(((n, k, m), (k, n, 2, m), (n, k)))
            order = sorted(range(len(shape)), key=lambda _: choices.below(256))
            count = 1 + choices.below(len(shape))
            pairs = [*enumerate(order)]
            pairs = sorted(pairs, key=lambda _: choices.below(256))[:count]
            axes = [[at for at, _ in pairs], [axis for _, axis in pairs]]
            axes[0] = [at - len(shape) * choices.flag(3) for at in axes[0]]
            turned = tuple([shape[axis] for axis in np.argsort(order)])
            factors = ", ".join(numbered(f, shape, turned))
            return _finished(f, f"np.tensordot({factors}, {axes})")
        case "np.inner":
            second = (*other, m, k)
    first = first[-1:] if choices.flag(5) else first
    second = (k,) if choices.flag(5) else second
    return _finished(f, f"{word}({', '.join(numbered(f, first, second))})")


def in_series(f: ArrayProbe) -> Line:
    """Differences and sums along an axis whose elements are not evenly spaced, and the like."""
    choices, axis = f.choices, f.axis("a0")
    size, rank = f.shape[axis], len(f.shape)
    steps = f"np.array({[n * n + n // 2 for n in range(size)]})"
    beside = str((*f.shape[: axis % rank], choices.of((1, 2)), *f.shape[axis % rank + 1 :]))
    y = "a0.astype(np.float32)" if f.dtype == "float16" else "a0"  # which is rounded in between
    ends = f"np.ones({beside}, a0.dtype)"
    spacing = choices.of(("2", "0.5", "2, 0.5", "np.float32(4)"))
    vectors = [
        f"({FALSE} + np.arange({prod(shape)}) ** 2).reshape({shape}).astype(a0.dtype)"
        for shape in ((2, 3), choices.of(((2, 3), (3,))))
    ]
    turned, along = choices.of((("", -1), (".T", 0)))
    crossed = f"np.cross({vectors[0]}{turned}, {vectors[1]}, axisa={along}"
    text = choices.of(
        (
            f"np.trapezoid({y}, {steps}, axis={axis})",
            f"np.trapezoid({y}, np.broadcast_to({FALSE}, a0.shape) + {steps}.reshape("
            f"{[size if at == axis % rank else 1 for at in range(rank)]}), axis={axis})",
            f"np.trapezoid({y}, dx={choices.of(('2', '0.5'))}, axis={axis})",
            f"np.gradient({y}, {spacing}, axis={f.axes('a0')})",
            f"np.gradient({y}, axis={axis})",
            f"np.diff(a0, {choices.of('123')}, {axis}, prepend={ends})",
            f"np.diff(a0, {choices.of('120')}, {axis}, append={ends})",
            f"{crossed})",
            f"{crossed}, axisc={choices.of((0, -1))})",
            f"np.polyval({choices.of((steps, 'a0.ravel()[:3]'))}, a0.ravel()[:4])",
        )
    )
    f.adds = not text.startswith(STEPWISE)
    f.must_take = f.dtype not in ("bool", "uint64") and not text.startswith("np.gradient")
    return Line(text)


def summed(f: ArrayProbe) -> Line:
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
