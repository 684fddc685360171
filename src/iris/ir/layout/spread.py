"""Spreading a value over axes along which it is the same: who must hold what beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from iris.errors import LayoutError
from iris.ir.layout.linear import REGISTER, LinearLayout, Span, check_hardware


@dataclass(frozen=True, slots=True)
class Spreading:
    """`layout` is that of the operand; register i of the result is its register `sources[i]`."""

    layout: LinearLayout
    sources: tuple[int, ...]


@lru_cache(maxsize=4096)
def spread(result: LinearLayout, shape: tuple[int, ...]) -> Spreading:
    """How to spread a value of a shape, whose sizes of 1 grow, so that none moves: every thread
    holds the elements that its elements of the result are made of, each in one register.

    >>> rows = LinearLayout.of((2, 4), register=[(0, 1), (0, 2)], lane=[(1, 0)], simdgroup=[])
    >>> str(spread(rows, (2, 1)).layout), spread(rows, (2, 1)).sources
    ('linear<2x1, register=[], lane=[(1,0)], simdgroup=[]>', (0, 0, 0, 0))
    """
    check_hardware(result)
    if len(shape) != result.rank or any(
        old not in (1, new) for old, new in zip(shape, result.shape, strict=True)
    ):
        raise LayoutError(f"{shape} cannot be broadcast to {result}")
    small = result.restrict(shape)
    span = Span()
    kept: list[int] = []
    combinations: list[int] = []
    for bit, column in enumerate(small.columns_of(REGISTER)):
        known = span.combination(column)
        if known is None:
            span.add(column)
            known = 1 << len(kept)
            kept.append(bit)
        combinations.append(known)
    sources = [0]
    for combination in combinations:
        sources += [s ^ combination for s in sources]
    inputs = dict(small.inputs)
    inputs[REGISTER] = tuple([inputs[REGISTER][bit] for bit in kept])
    return Spreading(LinearLayout.of_inputs(inputs.items(), shape), tuple(sources))
