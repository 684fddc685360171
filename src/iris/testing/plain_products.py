"""Products of matrices as most are written, for what compilers do with no others: copies that go on
by themselves, iterations ahead of the product."""

from __future__ import annotations

from hypothesis import strategies as st

from iris.ir import math, tile
from iris.ir.control import For
from iris.ir.types import Tile, bf16, f16, f32, i8, i32
from iris.testing.choices import Choices
from iris.testing.elementwise import SUMMED
from iris.testing.idioms import Factor, factors_dtype, over_blocks
from iris.testing.tiles import TileDraft
from iris.tools.replay import Program

BYTES = 64
_DTYPES = (f16, bf16, f32, i8)  # that GPUs have matrix units for


def programs() -> st.SearchStrategy[Program]:
    """Programs that multiply two matrices, and store the product."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: _made(Choices(data)))


def _made(choices: Choices) -> Program:
    draft = TileDraft([], choices, _DTYPES)
    draft.add_built(multiply_plainly(draft, choices))
    return draft.finish()


def multiply_plainly(draft: TileDraft, choices: Choices) -> For:
    """A product of matrices as most are written: a loop that loads tiles of two aligned matrices,
    and does nothing but multiply them.  So GPUs may copy them ahead, in vectors, and some of the
    rows only where a mask holds."""
    dtype = factors_dtype(draft, choices)
    rows, columns = draft.fitting((choices.of((32, 64, 16)), choices.of((32, 64, 16))))
    depth = choices.of((32, 16, 32, 8, 64))
    width = depth * choices.of((3, 2, 4, 1))
    height = width - choices.of((0, 0, depth // 2, 1))
    a = Factor(draft, dtype, rows * draft.programs, width, choices, is_plain=True)
    b = Factor(draft, dtype, height, columns, choices, is_plain=True)
    row = draft.put(math.Mul(draft.number, draft.constant(rows, i32)))
    zero = draft.constant(0, i32)
    initial = [draft.constant(0, Tile((rows, columns), f32 if dtype.is_float else i32))]
    with over_blocks(draft, 0, height, depth, initial, choices, is_plain=True) as made:
        x = a.load(row, made.start, (rows, depth), choices, None, (True, True))
        fits = height == width, True
        y = b.load(made.start, zero, (depth, columns), choices, None, fits)
        made.following.append(draft.put(tile.Dot(x, y, made.carried[0])))
    if dtype.is_float and not (a.is_odd or b.is_odd):
        draft.bounds[made.loop.results[0]] = width * SUMMED**2
    return made.loop
