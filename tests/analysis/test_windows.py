"""Windows that are told apart have no element in common."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iris.analysis.windows import Window, Windows
from iris.ir import parse
from iris.ir.control import Func

# An offset: a number, and numbers below a bound, each times a factor.
Offset = tuple[int, list[tuple[int, int]]]
offsets = st.tuples(
    st.integers(-40, 40),
    st.lists(
        st.tuples(st.sampled_from([1, 2, 4, 8, 16, 32, 64, 3, 12, -4, 0]), st.integers(1, 5)),
        max_size=3,
    ),
)


def window_of(offset: Offset, size: int, count: int) -> Window:
    """What threads touch that have a lane and an index each for the parts of an offset."""
    start, parts = offset
    numbers = {start, size, count} | {n for part in parts for n in part}
    lines = [f"%n{n}: i32 = constant {n}".replace("n-", "m") for n in sorted(numbers)]
    last = name(start)
    for i, (factor, bound) in enumerate(parts):
        lines += [
            # Below a power of two there would be only some of the bounds.
            f"metal.foreach {bound} (%i{i}: i32) {{",
            f"%t{i}: i32 = mul %i{i}, {name(factor)}",
            f"%s{i}: i32 = add {last}, %t{i}",
        ]
        last = f"%s{i}"
    lines += [f"metal.store %A, {last}, %x", *["yield", "}"] * len(parts), "return"]
    body = "\n".join(lines)
    text = f"func metal @f simdgroups=1(%A: ptr<f32>, %x: f32) {{\n{body}\n}}"
    function = next(iter(parse(text)))
    assert isinstance(function, Func)
    store = next(op for op in function.walk() if op.name == "metal.store")
    window = Windows(function).of(store.operands[1], 0, size, count)
    assert window is not None
    return window


def name(number: int) -> str:
    return f"%n{number}".replace("n-", "m")


def touched(offset: Offset, size: int, count: int) -> set[int]:
    """The bytes of all elements, counted one by one."""
    start, parts = offset
    firsts = [
        start + sum(i * factor for i, (factor, _) in zip(indices, parts, strict=True))
        for indices in product(*[range(bound) for _, bound in parts])
    ]
    return {first * size + byte for first in firsts for byte in range(size * count)}


@given(offsets, offsets, st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]))
def test_what_is_apart_has_nothing_in_common(
    one: Offset, other: Offset, size: int, count: int
) -> None:
    if window_of(one, size, count).is_apart(window_of(other, size, count)):
        assert touched(one, size, count).isdisjoint(touched(other, size, count))


def test_columns_of_rows_are_apart() -> None:
    rows = [(64, 5), (4, 8)]  # of 64 elements, in the first half of which all are touched by fours
    left, right = window_of((0, rows), 4, 4), window_of((32, rows), 4, 4)
    assert left.is_apart(right) and right.is_apart(left)
    for columns in (31, 33):
        assert not left.is_apart(window_of((columns, rows), 4, 4))
    assert not left.is_apart(window_of((32, [(48, 5), (4, 8)]), 4, 4))


def test_sums_that_wrap_are_in_no_window() -> None:
    """Five times 13 is 1 more than 64: rows of 20 meet what is 4 further, 256 numbers later."""
    text = """
    func metal @f simdgroups=1(%A: ptr<f32>, %x: f32) {
      %lane: i32 = metal.lane
      %c31: INTEGER = constant 31
      %c20: INTEGER = constant 20
      %c4: INTEGER = constant 4
      %thread: i64 = cast %lane
      %small: INTEGER = cast %thread
      %row: INTEGER = and %small, %c31
      %at: INTEGER = mul %row, %c20
      %next: INTEGER = add %at, %c4
      %first: i64 = cast %at
      %second: i64 = cast %next
      metal.store %A, %first, %x
      metal.store %A, %second, %x
      return
    }
    """

    def are_apart(integer: str) -> bool:
        (function,) = parse(text.replace("INTEGER", integer))
        assert isinstance(function, Func)
        windows = Windows(function)
        stores = [op for op in function.walk() if op.name == "metal.store"]
        one, other = (windows.of(op.operands[1], 0, 4, 1) for op in stores)
        return one is not None and other is not None and one.is_apart(other)

    rows = np.arange(32) * 20
    for integer, dtype in (("i32", np.int32), ("i16", np.int16), ("i8", np.int8)):
        really = not set(rows.astype(dtype)) & set((rows + 4).astype(dtype))
        assert really == (integer != "i8")
        assert really or not are_apart(integer)
    assert are_apart("i32")
