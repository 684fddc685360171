"""Drawings: read one with your eyes here, and all of them by machine."""

from __future__ import annotations

import random
import re
from textwrap import dedent

import pytest

from iris.errors import LayoutError
from iris.ir.layout.draw import draw
from iris.ir.layout.linear import APPLE_FRAGMENT, LinearLayout
from random_layouts import random_layout, random_shape


def golden(text):
    return dedent(text).strip("\n")


def test_fragment():
    assert draw(APPLE_FRAGMENT) == golden("""
        linear<8x8, register=[(0,1)], lane=[(0,2), (1,0), (2,0), (0,4), (4,0)], simdgroup=[]>
              0     1     2     3     4     5     6     7
        0  T0:0  T0:1  T1:0  T1:1  T8:0  T8:1  T9:0  T9:1
        1  T2:0  T2:1  T3:0  T3:1 T10:0 T10:1 T11:0 T11:1
        2  T4:0  T4:1  T5:0  T5:1 T12:0 T12:1 T13:0 T13:1
        3  T6:0  T6:1  T7:0  T7:1 T14:0 T14:1 T15:0 T15:1
        4 T16:0 T16:1 T17:0 T17:1 T24:0 T24:1 T25:0 T25:1
        5 T18:0 T18:1 T19:0 T19:1 T26:0 T26:1 T27:0 T27:1
        6 T20:0 T20:1 T21:0 T21:1 T28:0 T28:1 T29:0 T29:1
        7 T22:0 T22:1 T23:0 T23:1 T30:0 T30:1 T31:0 T31:1
    """)


def test_replicas_and_holes():
    rows = APPLE_FRAGMENT.slice(1)
    assert "T0-1,8-9:0-1" in draw(rows)
    assert "T0,2,…(16):0" in draw(
        LinearLayout.of((2,), register=[], lane=[1, 0, 0, 0, 0], simdgroup=[])
    )
    assert draw(LinearLayout.of((4,), register=[1], lane=[1], simdgroup=[])) == golden("""
        linear<4, register=[1], lane=[1], simdgroup=[]>
                  0         1 2 3
        0 T0:0|T1:1 T1:0|T0:1 - -
    """)
    assert "S0T0:0|S1T0:0|…(4)" in draw(
        LinearLayout.of((4,), register=[1], lane=[2, 3], simdgroup=[0])
    )


def test_ranks():
    line = LinearLayout.of((32,), register=[], lane=[1, 2, 4, 8, 16], simdgroup=[])
    rows = draw(line).splitlines()
    assert rows[2].split() == ["0", *(f"T{i}:0" for i in range(16))]
    assert rows[3].split() == ["16", *(f"T{i}:0" for i in range(16, 32))]
    cube = LinearLayout.of((2, 1, 2), register=[(0, 0, 1)], lane=[], simdgroup=[(1, 0, 0)])
    assert draw(cube) == golden("""
        linear<2x1x2, register=[(0,0,1)], lane=[], simdgroup=[(1,0,0)]>
        [0, :, :]
               0      1
        0 S0T0:0 S0T0:1
        [1, :, :]
               0      1
        0 S1T0:0 S1T0:1
    """)


def test_large_tiles_are_cut():
    exact = LinearLayout.blocked((64, 64), per_thread=(1, 1), lanes=(4, 8), simdgroups=(1, 1))
    assert "…" not in draw(exact)
    assert len(draw(exact).splitlines()) == 66
    large = LinearLayout.blocked((128, 128), per_thread=(1, 1), lanes=(4, 8), simdgroups=(1, 1))
    lines = draw(large).splitlines()
    assert len(lines) == 67
    assert all(line.endswith("…") for line in lines[1:])
    assert len(lines[2].split()) == 66
    deep = LinearLayout.blocked(
        (16, 1, 2), per_thread=(1,) * 3, lanes=(1,) * 3, simdgroups=(1,) * 3
    )
    assert draw(deep).count("\n[") == 8
    assert draw(deep).endswith("…")


def test_every_cell_names_its_holder():
    rnd = random.Random(13)
    for _ in range(2_000):
        layout = random_layout(rnd, random_shape(rnd), rnd.choice(("permuted", "mixed")))
        cells = re.findall(r"(?:S(\d+))?T(\d+):(\d+)", draw(layout))
        shown = range(
            min(layout.num_elements, 8 * layout.shape[-1] * layout.shape[-2])
            if layout.rank == 3
            else layout.num_elements
        )
        assert len(cells) == len(shown)
        for element, (simdgroup, lane, register) in zip(shown, cells, strict=True):
            index = layout.apply(
                register=int(register), lane=int(lane), simdgroup=int(simdgroup or 0)
            )
            flat = 0
            for c, size in zip(index, layout.shape, strict=True):
                flat = flat * size + c
            assert flat == element


def test_columns_are_aligned():
    lines = draw(APPLE_FRAGMENT).splitlines()[1:]
    assert len({len(line) for line in lines}) == 1


def test_rejects_other_inputs():
    with pytest.raises(LayoutError, match="needs the inputs"):
        draw(LinearLayout.of((4,), lane=[1, 2]))
