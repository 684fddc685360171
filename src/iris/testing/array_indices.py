"""Indices of all forms, and what changes at them.

Blocks go forwards and backwards, by one and by more; masks have one axis or several; places are
known or computed, in one row or in several, beside each other or with other entries between them.
"""

from __future__ import annotations

from math import prod

from iris.testing.array_draft import Line
from iris.testing.array_probe import ArrayProbe

_STEPS = (1, -1, -1, 2, -2, -3)
_AT = {1: "np.array([0])", 2: "np.array([0, 1])"}
_FOUR_AXES = "(np.arange(48).reshape(2, 3, 4, 2) + np.any((a0 > 1) & (a0 < 1)))"


def indexed(f: ArrayProbe) -> Line:
    """A part of an array."""
    f.tells_signs = f.must_take = True
    return Line(f"a0[{_key(f)}]")


def changed(f: ArrayProbe) -> Line:
    """Set a part of an array, or add to it, from numbers whose order matters."""
    key = _key(f)
    # Places that are computed must differ where they are set.
    name = "add_at" if "astype" in key or f.choices.flag() else "set_at"
    f.tells_signs = True
    f.must_take = name == "set_at" or f.dtype != "bool"  # which are not added
    part = f"a0[{key}]"
    numbers = f"(np.arange({part}.size) + 1).reshape({part}.shape).astype(a0.dtype)"
    values = f.choices.of((numbers, f"{part}[::-1]", f"{numbers}[None]", "-a0.ravel()[:1]", "0"))
    return Line(f"{name}(a0, np.s_[{key}], {values})")


def _key(f: ArrayProbe) -> str:
    return f.choices.of((_block, _masked, _block, _beside_places, _any_key))(f)


def _any_key(f: ArrayProbe) -> str:
    return f.key("a0")


def _block(f: ArrayProbe) -> str:
    """Slices and numbers."""
    choices, rank = f.choices, len(f.shape)
    steps = choices.of(((1, -1), _STEPS, (1, -1, 1)))  # those by one make a block of memory
    parts = [_slice(f, size, choices.of(steps)) for size in f.shape[: rank - choices.flag(3)]]
    for axis, size in enumerate(f.shape[: len(parts)]):
        if size and choices.flag(5):
            parts[axis] = str(choices.below(2 * size) - size)
    if choices.flag(3):
        parts.insert(choices.below(len(parts) + 1), choices.of(("None", "...")))
    return ", ".join(parts) or "..."


def _slice(f: ArrayProbe, size: int, step: int) -> str:
    """A slice that mostly has some elements; its ends may be left out, or counted from the end."""
    choices = f.choices
    low = choices.of((0, 1, 2, 0)) % max(size, 1)
    high = size - choices.of((0, 1, 0, 2)) % max(size - low, 1)
    first, last = (low, high) if step > 0 else (high - 1, low - 1)
    start = "" if first in (0, size - 1) and choices.flag() else str(_from_end(f, first, size))
    stop = "" if last in (-1, size) else str(_from_end(f, last, size))
    return f"{start}:{stop}:{step}" if step != 1 else f"{start}:{stop}"


def _from_end(f: ArrayProbe, place: int, size: int) -> int:
    return place - size if 0 <= place < size and f.choices.flag() else place


def _masked(f: ArrayProbe) -> str:
    """A mask of some axes, beside entries of others."""
    choices, rank = f.choices, len(f.shape)
    axes = choices.of((min(2, rank), rank, 1))
    before = choices.below(rank - axes + 1)
    over = f.shape[before : before + axes]
    flags = [choices.below(5) < 2 for _ in range(prod(over))]
    others = [_beside_mask(f, size) for size in (*f.shape[:before], *f.shape[before + axes :])]
    parts = [*others[:before], f"np.array({flags}, bool).reshape({over})", *others[before:]]
    return ", ".join(parts[: before + 1] if choices.flag() else parts)


def _beside_mask(f: ArrayProbe, size: int) -> str:
    """A slice, or one element, at times by a mask of its own."""
    if not size or not f.choices.flag(2):
        return _slice(f, size, f.choices.of((1, 1, -1)))
    alone = [place == size - 1 for place in range(size)]
    return f.choices.of(("0", "[0]", "-1", f"np.array({alone})", f"np.array({alone})"))


def of_four_axes(f: ArrayProbe) -> Line:
    """A part of an array of four axes: masks, some of several axes, beside each other or with
    other entries between them."""
    choices, shape, parts = f.choices, (2, 3, 4, 2), list[str]()
    f.must_take = True
    axis, masks, places = 0, 2, 1 + choices.below(2)
    while axis < len(shape):
        over = shape[axis : axis + 1 + choices.below(2)]
        if masks and choices.flag():
            masks -= 1
            first = choices.below(prod(over) - places + 1)
            parts.append(
                f"np.isin(np.arange({prod(over)}).reshape({over}), {first} + {_AT[places]})"
            )
            axis += len(over)
        else:
            parts.append(choices.of((_slice(f, shape[axis], choices.of((1, -1))), "0", "None")))
            axis += parts[-1] != "None"
    key = ", ".join(parts)
    return Line(choices.of((f"{_FOUR_AXES}[{key}]", f"set_at({_FOUR_AXES}, np.s_[{key}], 77)")))


def _beside_places(f: ArrayProbe) -> str:
    """Places along an axis or two, some of them many, and parts of the others, mostly
    backwards."""
    choices, rank = f.choices, len(f.shape)
    parts = [choices.of(("::-1", ":", "::-2", "-2::-1", "1:")) for _ in f.shape]
    count = choices.of((2, 3, 20, 1))
    for axis in {choices.below(rank), choices.below(rank)}:
        size = max(f.shape[axis], 1)
        places = [choices.below(2 * size) - size for _ in range(count)]
        forms = (f"{places}", f"np.array({places})", f"np.array({places})[:, None]")
        parts[axis] = choices.of(forms)
    if choices.flag(3):
        parts.insert(choices.below(rank + 1), choices.of(("None", "...")))
    return ", ".join(parts)


def looked_up(f: ArrayProbe) -> Line:
    """Elements at places, known or not, which may lie outside if a mode says what that means; at
    times one lies outside, which is an error."""
    choices, axis = f.choices, f.axis("a0")
    size, rank, style = f.shape[axis], len(f.shape), choices.below(5)
    mode = choices.of((", mode='wrap'", ", mode='clip'", "")) if style < 2 else ""
    near = (0, size - 1, -1, -size, size // 2)
    outside = (size, -size - 1, size + 1, 2 * size, -3 * size)
    # NumPy does not look at indices of an array without elements.
    is_outside = bool(mode) or (choices.flag(4) and 0 not in f.shape)
    some = [*near * (size > 0), *outside * is_outside] or outside
    places = [choices.of(some) for _ in range(choices.of((4, 2, 1, 0, 20)))]
    dtype = choices.of(("int32", "int64", "int8"))
    known = f"np.array({places}, np.{dtype})"
    # Added to what is computed, they are not known.
    given = choices.of((known, f"({known} + np.any(a0 < a0).astype(np.{dtype}))"))
    before = ":, " * (axis % rank)
    f.tells_signs = True
    match style:
        case 0:
            return Line(f"np.take(a0, {given}, axis={axis}{mode})")
        case 1:
            return Line(f"np.take(a0, {given}{mode})")
        case 2:
            ends = [choices.of((":", ":1")) for _ in f.shape]
            kept = [n if end == ":" else min(n, 1) for end, n in zip(ends, f.shape, strict=True)]
            along = [choices.of((1, n)) for n in kept]
            along[axis] = len(places)
            grid = f"np.broadcast_to({_spread(given, axis, rank)}, {along})"
            return Line(f"np.take_along_axis(a0[{', '.join(ends)}], {grid}, axis={axis})")
        case 3:
            return Line(f"a0[{before}{given}]")
        case _:
            part = f"a0[{before}{known}]"
            numbers = f"(np.arange({part}.size) + 1).reshape({part}.shape).astype(a0.dtype)"
            return Line(f"add_at(a0, np.s_[{before}{given}], {numbers})")


def _spread(places: str, axis: int, rank: int) -> str:
    """Places along an axis, over axes of size 1."""
    shape = [1] * rank
    shape[axis] = -1
    return f"{places}.reshape({shape})"
