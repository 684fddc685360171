"""The words of `triton.language` that draw random numbers; Iris has the same numbers."""

from __future__ import annotations

from typing import Any

from iris.frontend import language as iris
from iris.frontend import philox as drawn
from iris.frontend.philox import Words
from iris.frontend.triton.language import same_word, word
from iris.frontend.values import Traced, as_traced, cast, unify
from iris.ir.types import u32, u64

rand, rand4x = same_word(drawn.rand), same_word(drawn.rand4x)
randn, randn4x = same_word(drawn.randn), same_word(drawn.randn4x)
randint, randint4x = same_word(drawn.randint), same_word(drawn.randint4x)
philox = same_word(drawn.philox)


@word
def philox_impl(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: int = 10) -> Words:
    """Four random words for a counter of four and two keys."""
    counters = unify(c0, c1, c2, c3)
    unsigned = u64 if counters[0].dtype.bits == 64 else u32
    words, keys = ([cast(x, unsigned) for x in given] for given in (counters, (k0, k1)))
    return drawn.rounds(words, keys, n_rounds)


@word
def uint_to_uniform_float(x: Any) -> Traced:
    """An f32 from 0 up to 1, of a u32 or i32."""
    return drawn.uniform(as_traced(x))


@word
def pair_uniform_to_normal(u1: Any, u2: Any) -> tuple[Traced, Traced]:
    """Two numbers, normally distributed, of two uniform ones."""
    return drawn.normals(u1, u2)


@word
def umulhi(x: Any, y: Any) -> Traced:
    """The high half of the product of two integers."""
    return iris.umulhi(x, y)
