"""Words of kernels by thread that few kernels use, each alone: vectors, matrices, atomics.

    @given(thread_words.words())
    def test_words(word):
        word.check()

Numbers are small and whole, so that what a kernel stores is what NumPy computes, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from iris import metal
from iris.testing.choices import Choices
from iris.testing.sources import defined

BYTES = 16
Array = npt.NDArray[Any]

_VECTORS = """\
@metal.kernel
def drawn(A: "device const {type}*", B: "device const {type}*", Out: "device {out}*"):
    i = metal.thread_id_x()
    Out[i] = metal.{word}(A[i], B[i])
"""
_MATRICES = """\
@metal.kernel
def drawn(A: "device const {type}*", B: "device const {type}*", Out: "device float*"):
    a, b = metal.simdgroup_load(A, {a}), metal.simdgroup_load(B, {b})
    c = metal.simdgroup_load(Out, {out})
    metal.simdgroup_store(metal.simdgroup_multiply_accumulate(a, b, c), Out, {out})
"""
_ATOMICS = """\
@metal.kernel
def drawn(A: "device const {type}*", B: "device const int*", Out: "device {type}*"):
    i = metal.thread_id_x()
    metal.atomic_{word}(Out + B[i], A[i])
"""
_DTYPES = {"float": np.float32, "int": np.int32, "uint": np.uint32}
_ATOMIC: Mapping[str, Any] = {"min": np.minimum, "max": np.maximum, "add": np.add}


class _Drawn(NamedTuple):
    text: str
    arrays: list[Array]
    expected: Array
    grid: Mapping[str, int]


@dataclass(frozen=True)
class Word:
    """A word, and the numbers that it is given, as some bytes choose."""

    data: bytes

    def __repr__(self) -> str:
        return _drawn(self.data).text

    def check(self) -> None:
        """Assert that the kernel stores what NumPy computes."""
        text, (a, b, out), expected, grid = _drawn(self.data)
        defined(text, metal=metal)(a, b, out, **grid, device="interp:metal")
        assert np.array_equal(out, expected), f"{out.tolist()}, not {expected.tolist()}:\n{text}"


def words() -> st.SearchStrategy[Word]:
    """Words of all kinds."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(Word)


def _drawn(data: bytes) -> _Drawn:
    choices = Choices(data)
    rng = np.random.default_rng(choices.below(256))
    kinds: tuple[Callable[[Choices, np.random.Generator], _Drawn], ...]
    kinds = (_vectors, _matrices, _atomics)
    return choices.of(kinds)(choices, rng)


def _vectors(choices: Choices, rng: np.random.Generator) -> _Drawn:
    word, width = choices.of((("cross", 3), ("dot", 2), ("dot", 3), ("dot", 4)))
    a, b = rng.integers(-5, 6, (2, 8, width)).astype(np.float32)
    type_ = "packed_float3" if width == 3 else f"float{width}"
    expected = np.cross(a, b) if word == "cross" else (a * b).sum(axis=1)
    text = _VECTORS.format(type=type_, word=word, out=type_ if word == "cross" else "float")
    return _Drawn(text, [a, b, np.zeros_like(expected)], expected, {"threads": 8})


def _matrices(choices: Choices, rng: np.random.Generator) -> _Drawn:
    type_, dtype = choices.of((("float", np.float32), ("half", np.float16)))
    widths = [choices.of((8, 11, 16)) for _ in "123"]
    a, b, expected = (rng.integers(-3, 4, (8, width)).astype(np.float32) for width in widths)
    out = expected.copy()
    expected[:, :8] += a[:, :8] @ b[:, :8]
    a, b = a.astype(dtype), b.astype(dtype)
    text = _MATRICES.format(type=type_, a=widths[0], b=widths[1], out=widths[2])
    return _Drawn(text, [a, b, out], expected, {"grid": 1, "threadgroup": 32})


def _atomics(choices: Choices, rng: np.random.Generator) -> _Drawn:
    type_, word = choices.of([*_DTYPES]), choices.of([*_ATOMIC])
    dtype = _DTYPES[type_]
    a, out = (rng.integers(0 if type_ == "uint" else -9, 9, n).astype(dtype) for n in (32, 4))
    places = rng.integers(0, 4, 32).astype(np.int32)
    expected = out.copy()
    _ATOMIC[word].at(expected, places, a)
    text = _ATOMICS.format(type=type_, word=word)
    return _Drawn(text, [a, places, out], expected, {"threads": 32})
