"""Flash attention, written as an ordinary program: right within bounds that are derived, and what
it does to the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris
from matrix_programs import F16, F32, Array, Lowered, attention, count
from support import counts

HEADS = 2


@pytest.fixture(autouse=True)
def device() -> None:
    """Each launch here names its own."""


def inputs(s: int, d: int, dtype: Any, seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((HEADS, s, d)).astype(dtype) for _ in range(3))
    return q, k, v


def expected(
    q: Array, k: Array, v: Array, scale: float, causal: bool, steps: int
) -> tuple[Array, Array]:
    """Attention, and how far from it an element may be that is computed in f32 from blocks of keys,
    its weights rounded to the dtype of V, and stored in that.

    With u half a unit in the last place of 1, in f32:
    - A score is a sum of D products, times the scale: off by D + 1 roundings of the sum of their
      absolute values; that of a row's largest is as far off.
    - The weights of a row are exponentials of what the scores are below the maximum so far, times
      one of each step by which that maximum grew.  Together these differences are at most from the
      row's least score to its largest, and each is rounded.  An exponential is off by 4 units in
      the last place, 8 u, and so is that of each step, which then is multiplied.
    - The sums have at most S terms, and those of the steps; the quotient is rounded.
    All but the last are of each weight relative to it, and come in the numerator and in the
    denominator.  Rounding a weight to f16 is relative, too, or below the normal range by half of
    the least step, where the weights are relative to a sum of 1 or more.
    """
    u = 2.0**-24
    wide = [x.astype(float) for x in (q, k, v)]
    scores = wide[0] @ wide[1].swapaxes(1, 2) * scale
    size = abs(wide[0]) @ abs(wide[1]).swapaxes(1, 2) * scale
    s, d = q.shape[1:]
    seen = np.tri(s, dtype=bool) if causal else np.ones((s, s), bool)
    largest = np.where(seen, scores, -np.inf).max(2, keepdims=True)
    span = largest - np.where(seen, scores, np.inf).min(2, keepdims=True)
    off = (d + 1) * u * np.where(seen, size, 0).max(2, keepdims=True)
    weights = np.exp(np.where(seen, scores, -np.inf) - largest)
    total = weights.sum(2, keepdims=True)
    right = weights / total @ wide[2]
    each = 2 * off + span * u + 8 * u + 9 * u * steps + (s + steps) * u
    relative = 2 * each + u
    absolute = 0.0
    if v.dtype == F16:
        relative = relative + 2.0**-11
        absolute = 2.0**-25 * abs(wide[2]).sum(1, keepdims=True) / total
    bound = np.expm1(relative) * (weights / total @ abs(wide[2])) + absolute
    if v.dtype == F16:
        bound = bound + 2.0**-11 * (abs(right) + bound) + 2.0**-25
    return right, bound


def check(
    s: int,
    d: int,
    dtype: Any,
    blocks: tuple[int, int],
    causal: bool,
    device: Any,
    **named: Any,
) -> None:
    q, k, v = inputs(s, d, dtype, seed=s)
    scale = d**-0.5
    out = np.full(q.shape, np.nan, dtype)
    named |= {"D": d, "BQ": blocks[0], "BK": blocks[1], "causal": causal, "device": device}
    attention[iris.cdiv(s, blocks[0]), HEADS](q, k, v, out, s, scale, **named)
    steps = iris.cdiv(s, blocks[1])
    right, bound = expected(q, k, v, float(F32.type(scale)), causal, steps)
    worst = np.abs(out - right) / bound
    assert (worst <= 1).all(), f"{worst.max()} of the bound"
    assert bound.max() < 0.01 * abs(right).max()  # else it would say little


def fits(blocks: tuple[int, int], d: int, dtype: Any) -> bool:
    """Whether Q, K and V of a block fit in threadgroup memory together, with 16 bytes between
    rows for the sake of its banks."""
    return (blocks[0] + 2 * blocks[1]) * (d * dtype.itemsize + 16) <= 32 * 1024


BLOCKS = [(16, 16), (32, 32), (64, 64), (64, 32)]
CAUSAL = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
DEPTHS = pytest.mark.parametrize("d", [64, 128])
DTYPES = pytest.mark.parametrize("dtype", [F16, F32], ids=str)


@CAUSAL
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
@DTYPES
@DEPTHS
def test_attention(d: int, dtype: Any, blocks: tuple[int, int], causal: bool) -> None:
    step = max(blocks)
    check(step + 13, d, dtype, blocks, causal, "interp")
    for s in (step + 13, 2 * step, 3 * step - 1, 5)[: counts(2, 4)]:
        check(s, d, dtype, blocks, causal, Lowered())
    for seed in range(counts(1, 10)):
        check(step + 13, d, dtype, blocks, causal, Lowered(seed))


@pytest.mark.parametrize("simdgroups", [1, 2, 4, 8])
@CAUSAL
def test_any_number_of_simdgroups(causal: bool, simdgroups: int) -> None:
    for s in range(1, 65, counts(21, 1)):
        for seed in (None, s):
            named = {"num_simdgroups": simdgroups}
            check(s, 64, F16, (32, 16), causal, Lowered(seed), **named)


def test_the_bound_is_less_than_what_goes_wrong() -> None:
    """A key left out, or seen that should not be; a maximum that is not passed on."""
    q, k, v = inputs(64, 64, F16)
    right, bound = expected(q, k, v, 0.125, True, 2)
    for other, causal in ((k, False), (np.where(np.arange(64)[:, None] == 0, 0, k), True)):
        wrong, _ = expected(q, other, v, 0.125, causal, 2)
        assert (np.abs(wrong - right) > bound).any(axis=2).mean() > 0.9


def computed(
    s: int, d: int, dtype: Any, blocks: tuple[int, int], causal: bool, **named: Any
) -> Any:
    q, k, v = inputs(s, d, dtype)
    out = np.zeros(q.shape, F32)
    named |= {"D": d, "BQ": blocks[0], "BK": blocks[1], "causal": causal}
    return count(attention, (s // blocks[0], HEADS), q, k, v, out, s, d**-0.5, **named)


def rounds(s: int, blocks: tuple[int, int], causal: bool) -> int:
    """The blocks of keys that the programs see, in all."""
    ends = [(i + 1) * blocks[0] if causal else s for i in range(s // blocks[0])]
    return HEADS * sum(iris.cdiv(end, blocks[1]) for end in ends)


@CAUSAL
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
@DTYPES
@DEPTHS
def test_one_pass_and_no_weights_in_memory(
    d: int, dtype: Any, blocks: tuple[int, int], causal: bool
) -> None:
    """By as many simdgroups as have a row of fragments each."""
    s, (queries, keys) = 2 * max(blocks), blocks
    simdgroups = queries // 8
    found = computed(s, d, dtype, blocks, causal, num_simdgroups=simdgroups)
    programs, steps = HEADS * s // queries, rounds(s, blocks, causal)
    of_q, of_kv = queries * d * dtype.itemsize, keys * d * dtype.itemsize
    # One pass: what programs load of K and V are the blocks that they see, once.
    assert found.loaded["K"] == found.loaded["V"] == steps * of_kv
    # Nothing is shared but Q, K and V: not the weights, nor what is known of a row.  What is
    # prefetched is staged in the last round, too.
    assert found.threadgroup_stores.bytes <= programs * of_q + (steps + programs) * 2 * of_kv
    # Q is split among the simdgroups, each of which needs all of K and V.
    assert found.threadgroup_loads.bytes <= steps * (of_q + simdgroups * 2 * of_kv)
    assert found.threadgroup_loads.conflicts == 0
    # Rows are reduced within a simdgroup, from pairs of columns in four lanes; a row of
    # fragments has two registers: its maximum and its sum.
    assert dict(found.shuffles) == {"shuffle_xor": steps * 2 * 2 * queries // 8}
    # What is staged is waited for, once before and once after; together if there is room.
    stagings = 1 if fits(blocks, d, dtype) else 2
    assert found.barriers.total() <= 2 * stagings * steps + programs
    assert found.mmas == steps * 2 * queries * keys * d // 512
    # An exponential for each weight, and one for each row and step; those of the lanes that have
    # the same row are replicas.
    assert found.transcendentals["exp"] <= steps * queries * (keys + 4)


@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
@DTYPES
@DEPTHS
def test_nothing_is_computed_twice_by_default(d: int, dtype: Any, blocks: tuple[int, int]) -> None:
    """By as many simdgroups as are chosen where none is said."""
    s, (queries, keys) = 2 * max(blocks), blocks
    found = computed(s, d, dtype, blocks, False)
    steps = rounds(s, blocks, False)
    assert found.mmas == steps * 2 * queries * keys * d // 512
    of_q, of_kv = queries * d * dtype.itemsize, keys * d * dtype.itemsize
    programs = HEADS * s // queries
    assert found.threadgroup_stores.bytes <= programs * of_q + (steps + programs) * 2 * of_kv


@iris.kernel
def attention_within(
    Q, K, V, Out, S, scale, stride, D: iris.constexpr, BQ: iris.constexpr, BK: iris.constexpr
):
    """Q, K and V are columns of one matrix of all heads, as a projection gives them."""
    first = iris.program_id(0) * BQ
    head = iris.program_id(1) * D
    q = iris.tile_load(Q + head, first, 0, stride, (BQ, D), rows=S, cols=D) * scale
    m, total = iris.full((BQ, 1), -1e30), iris.zeros((BQ, 1))
    acc = iris.zeros((BQ, D))
    for start in iris.tile_range(0, S, BK):
        k = iris.tile_load(K + head, start, 0, stride, (BK, D), rows=S, cols=D)
        v = iris.tile_load(V + head, start, 0, stride, (BK, D), rows=S, cols=D)
        seen = (start + iris.arange(0, BK) < S)[None, :]
        scores = iris.where(seen, iris.dot(q.to(k.dtype), k.T), -1e30)
        new = iris.maximum(m, iris.max(scores, axis=1, keepdims=True))
        p, rescale = iris.exp(scores - new), iris.exp(m - new)
        total = total * rescale + iris.sum(p, axis=1, keepdims=True)
        acc = iris.dot(p.to(v.dtype), v, acc * rescale)
        m = new
    iris.tile_store(Out + head, first, 0, stride, acc / total, rows=S, cols=D)


@pytest.mark.parametrize("s", [128, 77])
def test_another_way_to_write_it_costs_the_same(s: int) -> None:
    """Scaled before the product, statistics as columns, the product added to the result so far."""
    d, blocks = 64, (32, 32)
    q, k, v = inputs(s, d, F32)
    sizes, named = (s, 0.125), {"D": d, "BQ": 32, "BK": 32, "num_simdgroups": 4}
    grid = iris.cdiv(s, 32), HEADS
    known = count(attention, grid, q, k, v, np.zeros_like(q), *sizes, causal=False, **named)
    flat = [np.ascontiguousarray(x.swapaxes(0, 1)).reshape(s, -1) for x in (q, k, v)]
    out = np.zeros_like(flat[0])
    found = count(attention_within, grid, *flat, out, *sizes, HEADS * d, **named)
    right, bound = expected(q, k, v, 0.125, False, iris.cdiv(s, blocks[1]))
    assert (np.abs(out.reshape(s, HEADS, d).swapaxes(0, 1) - right) <= bound).all()
    assert found.mmas == known.mmas
    assert found.loaded == known.loaded
    assert found.device_loads.lines <= 1.05 * known.device_loads.lines
    assert found.shared_bytes <= 1.05 * known.shared_bytes
    assert found.barriers.total() <= 1.05 * known.barriers.total()
