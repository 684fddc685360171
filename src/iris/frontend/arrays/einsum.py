"""`np.einsum`: products summed over labels, two arrays at a time."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from iris.errors import ArgumentError, ShapeError, UserError
from iris.frontend.arrays.array_products import Label, contract, finished, multiplicands
from iris.frontend.arrays.array_values import cast, emit, traced
from iris.frontend.arrays.protocol import implements, ufunc
from iris.frontend.arrays.rearranging import diagonal
from iris.frontend.arrays.shapes import transpose, without_axes
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.tracing import error_here
from iris.ir import graph
from iris.ir.graph import accumulated
from iris.ir.kinds import ReduceKind

# An array, and the label of each axis: a letter, or of what `...` stands for the place from the
# end.
Part: TypeAlias = "tuple[TracedArray, list[Label]]"


@implements("einsum")
def einsum(*operands: Any, out: None = None, optimize: Any = False) -> TracedArray:
    """`optimize` says nothing: the order of three or more arrays is always chosen."""
    text, arrays = _text_of(operands)
    inputs, result = _taken_apart(text, len(arrays))
    values, common = multiplicands(*arrays)
    pairs = zip(inputs, values, strict=True)
    labelled = [(x, _labels(text, part, x.ndim)) for part, x in pairs]
    wanted = _wanted(text, result, [labels for _, labels in labelled])
    parts = _of_one_size(text, [_without_repeats(*part) for part in labelled])
    if len(parts) > 2 and any(label not in wanted for _, labels in parts for label in labels):
        parts = [(_summable(x), labels) for x, labels in parts]
    for group in _order(parts, wanted):
        taken = [parts[i] for i in group]
        parts = [part for i, part in enumerate(parts) if i not in group]
        parts.append(_multiplied(taken, wanted, parts))
    ((x, labels),) = parts
    alone = [i for i, label in enumerate(labels) if label not in wanted]
    if alone:
        wide = cast(x, accumulated(x.element))
        x = emit(graph.Reduce(ReduceKind.SUM, tuple(alone), wide.value))
        labels = [label for label in labels if label in wanted]
    made = finished(transpose(x, [labels.index(label) for label in wanted]), common)
    if len(arrays) > 1 or alone:
        return made
    return traced(arrays[0]).seen(made.value)  # rearranged, which NumPy does without a copy


def _summable(x: TracedArray) -> TracedArray:
    """Integers in the dtype of their sum, which holds the products of some arrays, too."""
    return x if x.element.is_float else cast(x, accumulated(x.element))


# The text.


def _text_of(operands: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """The subscripts as text, and the arrays."""
    if not operands:
        raise error_here(ArgumentError, "einsum takes subscripts and arrays")
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), operands[1:]
    inputs = [_letters(labels) for labels in operands[1::2]]
    text = ",".join(inputs)
    if len(operands) % 2:
        text += f"->{_letters(operands[-1])}"
    return text, operands[: 2 * len(inputs) : 2]


def _letters(labels: Any) -> str:
    """Labels given as numbers and `...`."""
    try:
        return "".join("..." if n is Ellipsis else string.ascii_letters[n] for n in labels)
    except (TypeError, IndexError):
        raise error_here(
            ArgumentError, "einsum takes a text, or each array followed by the numbers of its axes"
        ) from None


def _wrong(text: str, why: str, kind: type[UserError] = ArgumentError) -> UserError:
    return error_here(kind, f"einsum {text!r}: {why}")


def _taken_apart(text: str, count: int) -> tuple[list[str], str | None]:
    """The subscripts of each array, and those of the result, if they are given."""
    left, arrow, right = text.partition("->")
    inputs = left.split(",")
    if not all(re.fullmatch(r"[a-zA-Z]*(\.\.\.)?[a-zA-Z]*", part) for part in (*inputs, right)):
        raise _wrong(text, "axes are letters, or ... for any number of them")
    if len(inputs) != count:
        raise _wrong(text, f"it is for {len(inputs)} arrays, not {count}")
    return inputs, right if arrow else None


def _labels(text: str, part: str, rank: int) -> list[Label]:
    """The label of each axis of an array."""
    before, dots, after = part.partition("...")
    rest = rank - len(before) - len(after)
    if rest < 0 or (rest and not dots):
        raise _wrong(text, f"{part!r} does not go with an array of {rank} axes", ShapeError)
    return [*before, *range(-rest, 0), *after]


def _wanted(text: str, result: str | None, parts: Sequence[Sequence[Label]]) -> list[Label]:
    """The labels of the result."""
    counts = Counter(label for labels in parts for label in labels)
    spread = sorted(label for label in counts if isinstance(label, int))
    letters = sorted(label for label in counts if isinstance(label, str))
    if result is None:
        return [*spread, *[label for label in letters if counts[label] == 1]]
    if spread and "..." not in result:
        raise _wrong(text, "the result has no ...")
    before, dots, after = result.partition("...")
    wanted: list[Label] = [*before, *(spread if dots else ()), *after]
    for label in wanted:
        if label not in counts:
            raise _wrong(text, f"no array has the axis {label}")
        if wanted.count(label) > 1:
            raise _wrong(text, f"the result has the axis {label} twice")
    return wanted


# The arrays.


def _without_repeats(x: TracedArray, labels: list[Label]) -> Part:
    """Where one label stands for two axes, their diagonal."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            one = labels.index(label)
            other = labels.index(label, one + 1)
            if x.shape[one] != x.shape[other]:
                raise error_here(
                    ShapeError,
                    f"axes {one} and {other} of {x} are both {label}, but differ in size",
                )
            x = diagonal(x, 0, one, other)
            labels = [*[n for i, n in enumerate(labels) if i not in (one, other)], label]
    return x, labels


def _of_one_size(text: str, parts: Sequence[Part]) -> list[Part]:
    """With axes of size 1 left out where others have more elements under their label."""
    sizes: dict[Label, int] = {}
    for x, labels in parts:
        for label, size in zip(labels, x.shape, strict=True):
            known = sizes.setdefault(label, size)
            if known == 1:
                sizes[label] = size
            elif size not in (1, known):
                raise _wrong(text, f"the axis {label} has the sizes {known} and {size}", ShapeError)
    found = []
    for x, labels in parts:
        ones = [i for i, label in enumerate(labels) if x.shape[i] != sizes[label]]
        kept = [label for i, label in enumerate(labels) if i not in ones]
        found.append((without_axes(x, ones), kept))
    return found


def _order(parts: Sequence[Part], wanted: Sequence[Label]) -> list[tuple[int, ...]]:
    """Which arrays to multiply, one group after another; what they give comes last."""
    if len(parts) < 3:
        return [(0, 1)] if len(parts) == 2 else []
    labels = dict.fromkeys(label for _, own in parts for label in own)
    letters = dict(zip(labels, string.ascii_letters, strict=False))
    text = ",".join("".join(letters[label] for label in own) for _, own in parts)
    text += "->" + "".join(letters[label] for label in wanted)
    shapes = [np.broadcast_to(np.float32(0), x.shape) for x, _ in parts]
    return [tuple(group) for group in np.einsum_path(text, *shapes, optimize="greedy")[0][1:]]


def _multiplied(taken: Sequence[Part], wanted: Sequence[Label], others: Sequence[Part]) -> Part:
    """The product of some arrays, with the axes that the result or the other arrays have."""
    (x, labels), *rest = taken
    for nth, (y, more) in enumerate(rest):
        later = [label for _, own in (*rest[nth + 1 :], *others) for label in own]
        kept = [n for n in dict.fromkeys([*labels, *more]) if n in wanted or n in later]
        if set(kept) == set(wanted):
            kept = list(wanted)
        x, labels = contract(x, labels, y, more, kept), kept
    return x, labels


@ufunc("vecdot")
def vecdot(x1: Any, x2: Any) -> TracedArray:
    return einsum("...i,...i->...", x1, x2)


@ufunc("matvec")
def matvec(x1: Any, x2: Any) -> TracedArray:
    return einsum("...ij,...j->...i", x1, x2)


@ufunc("vecmat")
def vecmat(x1: Any, x2: Any) -> TracedArray:
    return einsum("...i,...ij->...j", x1, x2)
