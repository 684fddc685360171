"""Random kernels as Python source, which Python itself runs on NumPy as Iris does.

    @given(tile_functions.functions())
    def test_words(kernel):
        kernel.check()

A kernel is drawn line by line.  Each line assigns to a variable an expression of the tile language,
or what a branch or a loop makes; `plain_words` says what it means.  A line is left out if the
language refuses it or if nobody knows its result.  In the end the kernel asserts the dtype and
shape of each variable and stores the lanes that count.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import iris
from iris.errors import IrisError
from iris.ir.types import DType
from iris.testing import tile_lines
from iris.testing.choices import Choices
from iris.testing.plain_formulas import Near
from iris.testing.plain_tiles import Plain, same_numbers
from iris.testing.sources import defined
from iris.testing.tile_draft import TileDraft

Array = npt.NDArray[Any]
BYTES = 256
_UNTOUCHED = 77  # in lanes that nothing is stored to
_IRIS = """\
import iris
from iris.testing.tile_functions import keep


@iris.kernel"""
# Triton's language has Iris's dtypes by other names.
_TRITON = """\
from types import SimpleNamespace

import iris
from iris import triton
from iris.testing.tile_functions import keep
from iris.triton import language
from iris.triton.language.extra import libdevice

names = "i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 bool_".split()
dtypes = {name: getattr(iris, name) for name in names}
iris = SimpleNamespace(**{**vars(language), **dtypes})


@triton.jit"""


def keep(out: Any, x: Any, dtype: DType, shape: tuple[int, ...]) -> None:
    """Assert in a kernel what a value is, and store it.

    As it is no function of a user's, its source is not read, which would take longer than this.
    """
    iris.static_assert(x.dtype is dtype and x.shape == shape, f"{x} is not {dtype} of {shape}")
    lanes = iris.reshape(iris.arange(0, prod(shape)), shape) if shape else 0
    iris.store(out + lanes, x)


class TileFunction(TileDraft):
    """A kernel, and what it is called with."""

    makers = tile_lines.MAKERS
    makers_of_triton = tile_lines.OF_TRITON

    def __repr__(self) -> str:
        given = "".join(f"{k} = np.{v!r}\n" for k, v in self.given.items())
        grid = f"grid = {self.grid}\n" if self.grid != 1 else ""
        return f"{given}{grid}{self.sizes}\n\n{self.text}"

    def check(self, *, device: str | None = None) -> None:
        """Assert that the kernel stores what NumPy says."""
        results = self.results
        given = [array.copy() for array in self.given.values()]
        outs = [np.full(max(1, prod(x.shape)), _UNTOUCHED, _stored(x)) for x in results.values()]
        drawn = defined(f"{_TRITON if self.is_triton else _IRIS}\n{self.text}")
        try:
            drawn[self.grid](*given, *outs, *self.sizes.values(), device=device)
        except (IrisError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise AssertionError(f"{error}\n\n{self!r}") from error
        for name, now, was in zip(self.arrays, given, self.arrays.values(), strict=True):
            if not same_numbers(now, was):
                raise AssertionError(f"{name} is\n{now}\nnot\n{was}\n\n{self!r}")
        for (name, x), out in zip(results.items(), outs, strict=True):
            found = out.reshape(x.shape)
            with np.errstate(over="ignore"):
                data = x.data.astype(out.dtype)
            expected = np.where(x.counts, data, out.dtype.type(_UNTOUCHED))
            kept = bool(np.all(x.counts | (found == _UNTOUCHED)))
            right = x.holds(found) if isinstance(x, Near) else same_numbers(found, expected)
            if not (kept and right):
                raise AssertionError(f"{name} is\n{found}\nnot\n{expected}\n\n{self!r}")


def _stored(x: Plain | Near) -> str:
    """A dtype that shows each value, and whether it is signed."""
    if x.dtype.is_float:
        return "float32"
    return "uint64" if str(x.dtype) == "u64" else "int64"


def functions() -> st.SearchStrategy[TileFunction]:
    """Kernels of a few lines."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: TileFunction(Choices(data)))
