"""Choosing how many simdgroups run a program."""

from __future__ import annotations

import pytest

from iris.errors import PipelineError
from iris.ir import parse
from iris.ir.control import Func
from iris.passes import run


def chosen(body: str, passes: str = "choose-simdgroups") -> int:
    (function,) = run(parse(f"func tile @f(%n: i32) {{\n{body}\nreturn\n}}\n"), passes)
    assert isinstance(function, Func)
    return function.simdgroups


@pytest.mark.parametrize(
    ("size", "count"),
    [(1, 1), (64, 1), (256, 1), (512, 2), (1024, 4), (2048, 8), (4096, 8), (8192, 8), (16384, 16)],
)
def test_as_many_as_have_32_bytes_a_thread(size: int, count: int) -> None:
    assert chosen(f"%x: tile<{size}xi32> = tile.arange 0") == count
    assert chosen(f"%x: tile<{2 * size}xf16> = constant 1.0") == count
    assert chosen(f"%x: tile<{4 * size}xbool> = constant true") == count


def test_the_largest_tile_decides_also_in_a_loop() -> None:
    body = """
        %c0: i32 = constant 0
        %c1: i32 = constant 1
        %small: tile<64xi32> = tile.arange 0
        for %c0, %n, %c1 (%i: i32) {
          %big: tile<1024xi32> = tile.arange 0
          yield
        }
        """
    assert chosen(body) == 4


def test_a_number_that_cannot_be() -> None:
    for count in ("3", "64"):
        with pytest.raises(PipelineError, match=f"power of two from 1 to 32, not {count}"):
            chosen("", f"choose-simdgroups{{count={count}}}")
