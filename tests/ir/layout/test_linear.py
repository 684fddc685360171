"""Layout operations equal their definitions as functions on integers, over 20,000 cases each.

The oracle is a table of the layout on all its locations, made from `bases` by the definition of a
linear map, with 16 bits a coordinate: it shares neither packing nor elimination with the code.
"""

from __future__ import annotations

import itertools
import pickle
import random
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from iris.errors import LayoutError
from iris.ir.layout.linear import APPLE_FRAGMENT, HARDWARE, LinearLayout
from random_layouts import (
    coordinates,
    grid,
    join,
    random_layout,
    random_shape,
    row_major,
    wide,
)
from support import counts

CASES = counts(3_000, 20_000)


@cache
def pool():
    rnd = random.Random(7)
    layouts = [random_layout(rnd) for _ in range(CASES)]
    return [(layout, wide(layout)) for layout in layouts]


def test_apply_on_all_locations_and_on_ints():
    rnd = random.Random(1)
    for layout, table in pool():
        where = grid(layout)
        got = layout.apply(**dict(zip(layout.dims, where, strict=True)))
        assert all(map(np.array_equal, got, coordinates(table, layout.rank)))
        i = rnd.randrange(len(table))
        ints = {dim: int(axis[i]) for dim, axis in zip(layout.dims, where, strict=True)}
        one = layout.apply(**ints)
        assert all(type(c) is int for c in one)
        assert one == tuple(int(c[i]) for c in got)


def test_apply_broadcasts_and_rejects():
    row, column = APPLE_FRAGMENT.apply(register=np.arange(2)[:, None], lane=np.arange(32))
    lane, e = np.arange(32), np.arange(2)[:, None]
    b = [lane >> i & 1 for i in range(5)]
    assert np.array_equal(row, np.broadcast_to(4 * b[4] + 2 * b[2] + b[1], (2, 32)))
    assert np.array_equal(column, 4 * b[3] + 2 * b[0] + e)
    small = np.arange(2, dtype=np.uint8)
    assert APPLE_FRAGMENT.apply(register=small, lane=31)[1].tolist() == [6, 7]
    wide_tile = LinearLayout.of((1024,), lane=[512])
    assert wide_tile.apply(lane=small)[0].tolist() == [0, 512]
    assert APPLE_FRAGMENT.apply(register=0, lane=0, simdgroup=small & 0)[0].shape == (2,)
    for bad in (
        {"lane": 32},
        {"lane": -1},
        {"lane": np.array([0, 32])},
        {"simdgroup": 1},
        {"x": 0},
    ):
        with pytest.raises(LayoutError):
            APPLE_FRAGMENT.apply(**{"register": 0, "lane": 0} | bad)
    with pytest.raises(LayoutError, match="apply needs lane="):
        APPLE_FRAGMENT.apply(register=0)


def test_table():
    for layout, table in pool():
        flat = row_major(coordinates(table, layout.rank), layout.shape)
        assert np.array_equal(layout.table(), flat.reshape(layout.sizes, order="F"))


def test_product():
    rnd = random.Random(2)
    small = [(layout, table) for layout, table in pool() if len(table) <= 32]
    refused = done = 0
    while done < CASES:
        (a, ta), (b, tb) = rnd.choice(small), rnd.choice(small)
        if a.rank != b.rank:
            refused += 1
            with pytest.raises(LayoutError):
                a * b
            continue
        done += 1
        got = a * b
        where = grid(got)
        low = [x % n for x, n in zip(where, a.sizes, strict=True)]
        high = [x // n for x, n in zip(where, a.sizes, strict=True)]
        ca = coordinates(ta.reshape(a.sizes, order="F")[tuple(low)], a.rank)
        cb = coordinates(tb.reshape(b.sizes, order="F")[tuple(high)], a.rank)
        want = [x + n * y for x, n, y in zip(ca, a.shape, cb, strict=True)]
        assert np.array_equal(wide(got), join(want))
        assert got.sizes == tuple(x * y for x, y in zip(a.sizes, b.sizes, strict=True))
        assert got.shape == tuple(x * y for x, y in zip(a.shape, b.shape, strict=True))
    print(f"product: {done} accepted, {refused} refused (ranks differ)")


def test_product_with_other_dimensions():
    a = LinearLayout.of((2, 2), lane=[(1, 1)])
    b = LinearLayout.of((4, 1), register=[(2, 0)], lane=[(1, 0)])
    want = LinearLayout.of((8, 2), lane=[(1, 1), (2, 0)], register=[(4, 0)])
    assert a * b == want
    assert (a * b).dims == ("lane", "register")


def test_compose_accepts_exactly_what_stays_inside():
    rnd = random.Random(3)
    accepted = refused = 0
    for outer, table in itertools.cycle(pool()):
        shape = [size << (rnd.random() < 0.1) for size in outer.sizes]
        if rnd.random() < 0.1:
            shape = [max(size >> 1, 1) for size in shape]
        inner = random_layout(rnd, tuple(shape))
        inside = coordinates(wide(inner), 3)
        if any((x >= n).any() for x, n in zip(inside, outer.sizes, strict=True)):
            refused += 1
            with pytest.raises(LayoutError):
                outer.compose(inner)
            continue
        want = table.reshape(outer.sizes, order="F")[tuple(inside)]
        got = outer.compose(inner)
        assert np.array_equal(wide(got), want)
        assert (got.dims, got.sizes, got.shape) == (inner.dims, inner.sizes, outer.shape)
        accepted += 1
        if accepted == CASES:
            break
    print(f"compose: {accepted} accepted, {refused} refused (outside)")
    with pytest.raises(LayoutError, match="does not give the inputs"):
        APPLE_FRAGMENT.compose(APPLE_FRAGMENT)


def test_inverses_and_properties():
    inverses = rights = 0
    for layout, table in pool():
        held = np.unique(table)
        elements = int(np.prod(layout.shape))
        surjective, injective = len(held) == elements, len(held) == len(table)
        assert layout.is_surjective == surjective
        assert layout.is_injective == injective
        assert layout.is_invertible == (surjective and injective)
        assert layout.num_elements == elements
        if not surjective:
            with pytest.raises(LayoutError):
                layout.right_inverse()
            with pytest.raises(LayoutError):
                layout.invert()
            continue
        rights += 1
        inverse = layout.right_inverse()
        assert inverse.shape == layout.sizes
        index = np.unravel_index(np.arange(elements), layout.shape, order="F")
        where = coordinates(wide(inverse), 3)
        assert np.array_equal(table.reshape(layout.sizes, order="F")[tuple(where)], join(index))
        free = layout.free_bits()
        assert not any((x & free[d]).any() for x, d in zip(where, layout.dims, strict=True))
        if injective:
            inverses += 1
            assert layout.invert() == inverse
        else:
            with pytest.raises(LayoutError):
                layout.invert()
    print(f"right_inverse: {rights} of {CASES} have one; invert: {inverses}")
    assert inverses > CASES / 3


def test_invert_both_ways():
    rnd = random.Random(14)
    for _ in range(CASES):
        layout = random_layout(rnd, kind=rnd.choice(("permuted", "mixed")))
        inverse, where = layout.invert(), grid(layout)
        back = dict(zip(inverse.dims, coordinates(wide(layout), layout.rank), strict=True))
        assert all(map(np.array_equal, inverse.apply(**back), where))
        assert len(wide(inverse)) == len(wide(layout))


def test_right_inverse_with_replicas():
    rnd = random.Random(4)
    for _ in range(CASES):
        layout = random_layout(rnd, kind="replicated")
        index = np.unravel_index(np.arange(layout.num_elements), layout.shape, order="F")
        where = coordinates(wide(layout.right_inverse()), 3)
        got = wide(layout).reshape(layout.sizes, order="F")[tuple(where)]
        assert np.array_equal(got, join(index))


def test_kernel_is_a_basis_of_what_maps_to_zero():
    for layout, table in pool():
        span = np.zeros(1, np.int64)
        for vector in layout.kernel():
            flat = np.ravel_multi_index(vector, layout.sizes, order="F")
            span = np.concatenate([span, span ^ flat])
        assert np.array_equal(np.sort(span), np.flatnonzero(table == 0))


def test_free_bits_are_the_dependent_ones_and_leave_one_location():
    for layout, table in pool():
        free = layout.free_bits()
        fixed = np.ones(len(table), bool)
        for x, dim in zip(grid(layout), layout.dims, strict=True):
            fixed &= (x & free[dim]) == 0
        assert np.array_equal(np.sort(table[fixed]), np.unique(table))
        i = 0
        for dim in layout.dims:
            for bit in range(layout.bits(dim)):
                repeats = bool((table[: 1 << i] == table[1 << i]).any())
                assert repeats == bool(free[dim] >> bit & 1)
                i += 1


def test_slice_expand_transpose():
    rnd = random.Random(5)
    sliced = expanded = 0
    for layout, table in itertools.cycle(pool()):
        cs = coordinates(table, layout.rank)
        axis = rnd.randrange(layout.rank)
        if layout.rank == 1:
            with pytest.raises(LayoutError):
                layout.slice(axis)
        else:
            sliced += 1
            got = layout.slice(axis)
            assert np.array_equal(wide(got), join(cs[:axis] + cs[axis + 1 :]))
            assert got.shape == layout.shape[:axis] + layout.shape[axis + 1 :]
        if expanded < CASES:
            expanded += 1
            at = rnd.randint(0, layout.rank)
            got = layout.expand(at)
            assert np.array_equal(wide(got), join([*cs[:at], table & 0, *cs[at:]]))
            assert got.shape == (*layout.shape[:at], 1, *layout.shape[at:])
            perm = rnd.sample(range(layout.rank), layout.rank)
            got = layout.transpose(perm)
            assert np.array_equal(wide(got), join([cs[p] for p in perm]))
            assert got.shape == tuple(layout.shape[p] for p in perm)
        if sliced == CASES:
            break


def test_reshape():
    rnd = random.Random(6)
    refused = 0
    for layout, table in pool():
        bits = layout.num_elements.bit_length() - 1 + (rnd.random() < 0.1)
        cuts = sorted(rnd.randint(0, bits) for _ in range(rnd.randint(0, 2)))
        shape = tuple(1 << b - a for a, b in itertools.pairwise([0, *cuts, bits]))
        if int(np.prod(shape)) != layout.num_elements:
            refused += 1
            with pytest.raises(LayoutError):
                layout.reshape(shape)
            continue
        got = layout.reshape(shape)
        assert got.shape == shape
        flat = row_major(coordinates(table, layout.rank), layout.shape)
        assert np.array_equal(wide(got), join(np.unravel_index(flat, shape)))
    print(f"reshape: {CASES - refused} accepted, {refused} refused (sizes differ)")


def test_reshape_between_equal_sizes():
    rnd = random.Random(8)
    for layout, table in pool():
        shape = list(layout.shape) + [1] * (3 - layout.rank)
        rnd.shuffle(shape)
        flat = row_major(coordinates(table, layout.rank), layout.shape)
        assert np.array_equal(wide(layout.reshape(shape)), join(np.unravel_index(flat, shape)))


def test_broadcast():
    rnd = random.Random(9)
    for _ in range(CASES):
        rank = rnd.randint(1, 3)
        shape = [rnd.choice((1, 1, 2, 4)) for _ in range(rank)]
        layout = random_layout(rnd, tuple(shape))
        target = [rnd.choice((1, 2, 4)) if size == 1 else size for size in shape]
        got = layout.broadcast(target)
        counts = [new // old for old, new in zip(shape, target, strict=True)]
        r, *rest = grid(got)
        old = wide(layout).reshape(layout.sizes, order="F")[(r % layout.sizes[0], *rest)]
        digits = np.unravel_index(r // layout.sizes[0], counts)
        want = [c + d for c, d in zip(coordinates(old, rank), digits, strict=True)]
        assert np.array_equal(wide(got), join(want))
        assert got.shape == tuple(target)
        assert got.sizes == (layout.sizes[0] * int(np.prod(counts)), *layout.sizes[1:])


def test_blocked():
    rnd = random.Random(10)
    for _ in range(CASES):
        shape = random_shape(rnd)
        per_thread, lanes, simdgroups = ([rnd.choice((1, 2, 4)) for _ in shape] for _ in range(3))
        order = rnd.sample(range(len(shape)), len(shape))
        if rnd.random() < 0.3:
            order = list(reversed(range(len(shape))))
        given = None if order == list(reversed(range(len(shape)))) else order
        got = LinearLayout.blocked(
            shape, per_thread=per_thread, lanes=lanes, simdgroups=simdgroups, order=given
        )
        p = [min(x, n) for x, n in zip(per_thread, shape, strict=True)]
        block = [a * b * c for a, b, c in zip(p, lanes, simdgroups, strict=True)]
        extra = [max(n // b, 1) for n, b in zip(shape, block, strict=True)]
        sizes = [int(np.prod(x)) for x in (p, lanes, simdgroups, extra)]
        assert got.sizes == (sizes[0] * sizes[3], sizes[1], sizes[2])
        r, lane, s = grid(got)

        def digits(x, counts, order=order):
            result = [0] * len(counts)
            for axis in order:
                result[axis] = x % counts[axis]
                x = x // counts[axis]
            return result

        dr, dl = digits(r % sizes[0], p), digits(lane, lanes)
        ds, de = digits(s, simdgroups), digits(r // sizes[0], extra)
        want = [
            (dr[a] + p[a] * (dl[a] + lanes[a] * (ds[a] + simdgroups[a] * de[a]))) % n
            for a, n in enumerate(shape)
        ]
        assert np.array_equal(wide(got), join(want))
        assert got.is_surjective


def test_blocked_is_a_product_of_identities():
    i = LinearLayout.identity
    want = (
        i("register", 2, axis=1, rank=2)
        * i("lane", 4, axis=1, rank=2)
        * i("lane", 8, axis=0, rank=2)
        * i("simdgroup", 2, axis=0, rank=2)
    )
    got = LinearLayout.blocked((16, 8), per_thread=(1, 2), lanes=(8, 4), simdgroups=(2, 1))
    assert got == want


def test_identity():
    for size, rank in itertools.product((1, 2, 32), (1, 2, 3)):
        for axis in range(rank):
            got = LinearLayout.identity("lane", size, axis=axis, rank=rank)
            where = got.apply(lane=np.arange(size))
            assert all(
                np.array_equal(c, np.arange(size) * (a == axis)) for a, c in enumerate(where)
            )
    with pytest.raises(LayoutError):
        LinearLayout.identity("lane", 2, axis=1)


def test_value_semantics_and_text():
    seen = {}
    for layout, _ in pool():
        copy = LinearLayout(tuple(layout.bases), tuple(layout.shape))
        assert copy == layout
        assert hash(copy) == hash(layout)
        assert seen.setdefault(str(layout), layout) == layout
    assert len(seen) == len(set(seen.values()))
    assert LinearLayout.of((8, 8), register=[], lane=[], simdgroup=[]) != APPLE_FRAGMENT
    assert str(APPLE_FRAGMENT) == (
        "linear<8x8, register=[(0,1)], lane=[(0,2), (1,0), (2,0), (0,4), (4,0)], simdgroup=[]>"
    )
    line = LinearLayout.of((128,), register=[1, 2], lane=[4, 8, 16, 32, 64], simdgroup=[])
    assert str(line) == "linear<128, register=[1, 2], lane=[4, 8, 16, 32, 64], simdgroup=[]>"


def test_a_pickle_is_equal_in_another_process():
    # Hashes of strings differ there, so the cached one must not travel.
    program = """
import pickle, sys
from iris.ir.layout.linear import APPLE_FRAGMENT
other = pickle.loads(sys.stdin.buffer.read())
assert other == APPLE_FRAGMENT and hash(other) == hash(APPLE_FRAGMENT)
"""
    payload = pickle.dumps(APPLE_FRAGMENT)
    subprocess.run([sys.executable, "-c", program], input=payload, check=True)


def test_queries():
    assert APPLE_FRAGMENT.dims == HARDWARE
    assert APPLE_FRAGMENT.sizes == (2, 32, 1)
    assert APPLE_FRAGMENT.size("lane") == 32
    assert APPLE_FRAGMENT.bits("lane") == 5
    assert APPLE_FRAGMENT.size("nothing") == 1
    assert APPLE_FRAGMENT.is_invertible


@pytest.mark.parametrize(
    ("shape", "bases", "message"),
    [
        ((), {"lane": []}, "at least one"),
        ((4,), {}, "at least one"),
        ((6,), {"lane": [1]}, "powers of two"),
        ((0,), {"lane": []}, "powers of two"),
        ((4,), {"lane": [4]}, "outside the shape"),
        ((4,), {"lane": [-1]}, "outside the shape"),
        ((4, 4), {"lane": [(1,)]}, "tuple of 2 coordinates"),
        ((4, 4), {"lane": [1]}, "tuple of 2 coordinates"),
    ],
)
def test_constructor_rejects(shape, bases, message):
    with pytest.raises(LayoutError, match=message):
        LinearLayout.of(shape, **bases)


def test_other_rejections():
    with pytest.raises(LayoutError, match="named twice"):
        LinearLayout((("lane", ()), ("lane", ())), (1,))
    f = APPLE_FRAGMENT
    for bad in (
        lambda: f.slice(2),
        lambda: f.slice(-1),
        lambda: f.expand(3),
        lambda: f.transpose((0, 0)),
        lambda: f.transpose((0,)),
        lambda: f.broadcast((16, 8)),
        lambda: f.broadcast((8, 8, 1)),
        lambda: f.expand(0).broadcast((3, 8, 8)),
        lambda: LinearLayout.blocked((8,), per_thread=(1, 1), lanes=(8,), simdgroups=(1,)),
        lambda: LinearLayout.blocked((8,), per_thread=(3,), lanes=(8,), simdgroups=(1,)),
        lambda: LinearLayout.blocked(
            (8,), per_thread=(1,), lanes=(8,), simdgroups=(1,), order=(1,)
        ),
    ):
        with pytest.raises(LayoutError):
            bad()
