"""Layouts and their algebra against the definitions, as functions on integers.

Each operation meets CASES random arguments. The oracle knows layouts only as lists of offsets: it
decides, by search and from the definition alone, whether an answer exists, and what it is. An
operation must answer exactly when its docstring says, and never wrongly. Acceptance rates are
printed (`pytest -s`).
"""

from __future__ import annotations

import copy
import math
import pickle
import random
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise, permutations, product

import numpy as np
import pytest

from iris.errors import LayoutError
from iris.ir.layout.algebra import (
    coalesce,
    complement,
    composition,
    left_inverse,
    logical_divide,
    logical_product,
    right_inverse,
)
from iris.ir.layout.cute import Layout, from_flat, join
from support import counts

CASES = counts(3_000, 20_000)

# The oracle: a function on [0, n) is the list of its values.

Modes = list[tuple[int, int]]
Values = list[int]


def values(*modes: tuple[int, int]) -> Values:
    """The offsets of (size, stride) modes, in colexicographic order."""
    offsets = [0]
    for size, stride in modes:
        offsets = [offset + c * stride for c in range(size) for offset in offsets]
    return offsets


def table(layout: Layout) -> Values:
    return values(*layout.flat)


@cache
def prime_orders(n: int) -> tuple[tuple[int, ...], ...]:
    """Every order of the prime factors of n: the finest shapes of n elements."""
    primes, p = [], 2
    while n > 1:
        while n % p == 0:
            primes.append(p)
            n //= p
        p += 1
    return tuple(sorted(set(permutations(primes))))


def as_modes(f: Values) -> Modes | None:
    """Some (size, stride) modes whose function f is, by trying every shape; None if none is."""
    for shape in prime_orders(len(f)):
        modes, step = [], 1
        for size in shape:
            modes.append((size, f[step]))
            step *= size
        if all(stride >= 0 for _, stride in modes) and values(*modes) == f:
            return modes
    return None


def as_layout_shaped(f: Values, sizes: list[int]) -> bool:
    """Whether f is the function of a layout whose shape refines these sizes."""
    modes, step = [], 1
    for size in sizes:
        along = as_modes([f[c * step] for c in range(size)])
        if along is None:
            return False
        modes += along
        step *= size
    return values(*modes) == f


def fewest_modes(f: Values) -> Modes:
    """The coalesced modes of a layout's function, by the fewest over all shapes."""
    best = None
    for shape in prime_orders(len(f)):
        modes: Modes = []
        step = 1
        for size in shape:
            if modes and f[step] == modes[-1][0] * modes[-1][1]:
                modes[-1] = (modes[-1][0] * size, modes[-1][1])
            else:
                modes.append((size, f[step]))
            step *= size
        if values(*modes) == f and (best is None or len(modes) < len(best)):
            best = modes
    assert best is not None
    return best


def greedy_complement(offsets: Values, n: int) -> Values | None:
    """The shifts that tile [0, N) by a set of offsets, N >= n least; None if nothing tiles."""
    tile = sorted(set(offsets))
    covered: set[int] = set()
    shifts: Values = []
    least = 0
    while True:
        if shifts and least >= n and len(covered) == least:
            return shifts
        moved = {least + offset for offset in tile}
        # Shifts are forced: each is the least integer not covered yet. A tile that tiles an
        # interval tiles one of at most 2 * (its largest offset + 1) integers.
        if moved & covered or (len(covered) != least and least > 4 * (tile[-1] + 1) + n):
            return None
        covered |= moved
        shifts.append(least)
        while least in covered:
            least += 1


# Random layouts.


def random_size(rng: random.Random) -> int:
    return rng.choice((1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 6, 8))


def random_modes(rng: random.Random, most: int = 64) -> Modes:
    """Up to four modes: compact, permuted, padded, broadcast or arbitrary."""
    sizes = [random_size(rng) for _ in range(rng.randint(1, 4))]
    while math.prod(sizes) > most:
        sizes.remove(max(sizes))
    order = list(range(len(sizes)))
    if rng.random() < 0.6:
        rng.shuffle(order)
    kind = rng.random()
    strides = [0] * len(sizes)
    step = rng.choice((1, 1, 1, 1, 2, 3))
    for k in order:
        if kind < 0.35:
            strides[k] = step
            step *= sizes[k]
        elif kind < 0.65:
            strides[k] = rng.choice((step, step, step, 0))
            step = step * sizes[k] * rng.choice((1, 1, 2, 3)) + rng.choice((0, 0, 0, 1))
        elif kind < 0.75:
            strides[k] = rng.choice((0, 0, 1, step))
            step *= sizes[k]
        else:
            strides[k] = rng.randint(0, 12)
    return list(zip(sizes, strides, strict=True))


def nested(rng: random.Random, modes: Modes, depth: int = 2) -> Layout:
    """A layout over these leaves, grouped at random."""
    if len(modes) == 1 and rng.random() < 0.8:
        return Layout(*modes[0])
    if depth == 0 or rng.random() < 0.4:
        return join(*(Layout(*mode) for mode in modes))
    groups: list[Layout] = []
    start = 0
    while start < len(modes):
        stop = rng.randint(start + 1, len(modes))
        groups.append(nested(rng, modes[start:stop], depth - 1))
        start = stop
    return join(*groups)


def random_layout(rng: random.Random, most: int = 64) -> Layout:
    return nested(rng, random_modes(rng, most))


def random_inside(rng: random.Random, a: Layout, rank: int = 3) -> Layout:
    """A layout whose offsets mostly lie in a's domain, with strides that mostly mean something."""
    steps = [1]
    for size, _ in a.flat:
        steps.append(steps[-1] * size)
    room = a.size - 1
    modes = []
    for _ in range(rng.randint(1, rank)):
        stride = rng.choice((*steps, *steps, 2, rng.choice(steps) * 2, rng.randint(0, room + 1)))
        most = 1 + room // stride if stride else 4
        size = min(rng.choice((1, 2, 2, 3, 4, 6, 8, most)), most)
        room -= (size - 1) * stride
        modes.append((size, stride))
    if rng.random() < 0.4:
        rng.shuffle(modes)
    if rng.random() < 0.02:
        modes[0] = (modes[0][0] + 1, modes[0][1] + 1)
    return nested(rng, modes)


class Tally:
    """How many cases the oracle says have an answer; each must get it, and no other may."""

    def __init__(self, name: str, least: float) -> None:
        self.name, self.least = name, least
        self.tried = self.answered = 0

    def check(self, admissible: bool, operation: Callable[[], Layout]) -> Layout | None:
        self.tried += 1
        try:
            answer = operation()
        except LayoutError:
            assert not admissible, f"{self.name} refused a case of its family"
            return None
        assert admissible, f"{self.name} answered {answer} where it promises to raise"
        self.answered += 1
        return answer

    def report(self) -> None:
        rate = self.answered / self.tried
        print(f"\n{self.name}: {self.answered}/{self.tried} admissible ({rate:.1%}), all answered")
        assert self.tried >= CASES
        assert rate >= self.least, "the generator has gone stale"


def cases(seed: int, count: int = CASES) -> Iterator[random.Random]:
    rng = random.Random(seed)
    for _ in range(count):
        yield rng


# The class.


def test_text() -> None:
    assert str(Layout((64, 32))) == "(64,32):(1,64)"
    assert str(Layout((4, (2, 3)), (1, (8, 4)))) == "(4,(2,3)):(1,(8,4))"
    assert str(Layout(4)) == "4:1"
    assert str(Layout((4,))) == "(4):(1)"
    assert str(Layout.row_major((4, (2, 3)))) == "(4,(2,3)):(6,(3,1))"


def test_value() -> None:
    a = Layout((4, (2, 3)), (1, (8, 4)))
    assert a == Layout((np.int64(4), (2, 3)), (1, (8, 4)))
    assert hash(a) == hash(Layout((4, (2, 3)), (1, (8, 4))))
    assert a != a.flatten()
    assert Layout((4,)) != Layout(4)
    assert pickle.loads(pickle.dumps(a)) == copy.deepcopy(a) == a
    assert eval(repr(a)) == a
    with pytest.raises(AttributeError):
        a.shape = 4  # type: ignore[misc]


def test_queries() -> None:
    a = Layout((4, (2, 3)), (1, (8, 4)))
    assert (a.size, a.cosize, a.rank, a.depth) == (24, 20, 2, 2)
    assert a[1] == a[-1] == Layout((2, 3), (8, 4))
    assert list(a) == [Layout(4), a[1]]
    assert a[0][0] == a[0] == Layout(4)
    assert a.flat == ((4, 1), (2, 8), (3, 4))
    assert a.flatten() == Layout((4, 2, 3), (1, 8, 4))
    assert Layout(4).flatten() == Layout(4)
    assert Layout(4).depth == 0


@pytest.mark.parametrize(
    ("shape", "stride", "says"),
    [
        ((4, 2), (1,), "nest alike"),
        ((4, 2), 1, "nest alike"),
        ((4, (2, 3)), ((1, 2), 3), "nest alike"),
        ((4, 0), (1, 4), "at least 1"),
        ((4, 2), (1, -4), "at least 0"),
        ((), (), "at least one mode"),
        ((4, ()), (1, ()), "at least one mode"),
        ((4, 2.0), (1, 4), "an integer"),
        ("4", "1", "an integer"),
    ],
)
def test_mistakes(shape: object, stride: object, says: str) -> None:
    with pytest.raises(LayoutError, match=says):
        Layout(shape, stride)  # type: ignore[arg-type]


def test_outside_the_domain() -> None:
    a = Layout((4, (2, 3)), (1, (8, 4)))
    for coord in (-1, 24, (4, 0), (0, 6), (0, (2, 0)), (0, 0, 0), (0, (0, 0, 0)), ((0, 0), 0)):
        with pytest.raises(LayoutError):
            a(coord)
    for indices in (np.array([0, 24]), np.array([-1, 3]), np.array([0.0])):
        with pytest.raises(LayoutError):
            a(indices)
    with pytest.raises(LayoutError, match="no mode 2"):
        a[2]
    assert a(np.zeros((0,), np.int64)).shape == (0,)
    assert a(np.arange(24, dtype=np.uint8)).dtype == np.int64


def test_evaluation() -> None:
    for rng in cases(1):
        modes = random_modes(rng)
        a = nested(rng, modes, depth=3)
        expected = values(*modes)
        assert (a.size, a.cosize) == (len(expected), max(expected) + 1)
        assert a(np.arange(a.size)).tolist() == expected
        i = rng.randrange(a.size)
        assert a(i) == expected[i]

        def coordinate(part: Layout, index: int, rng: random.Random = rng) -> object:
            """A nested coordinate of an index, with some subtrees left as an index."""
            if isinstance(part.shape, int) or rng.random() < 0.2:
                return index
            coords = []
            for mode in part:
                coords.append(coordinate(mode, index % mode.size))
                index //= mode.size
            return tuple(coords)

        assert a(coordinate(a, i)) == expected[i]  # type: ignore[call-overload]


def test_compact_strides() -> None:
    for rng in cases(2):
        shape = random_layout(rng).shape
        assert table(Layout(shape)) == list(range(Layout(shape).size))
        assert sorted(table(Layout.row_major(shape))) == list(range(Layout(shape).size))
        sizes = [size for size, _ in Layout(shape).flat]
        strides = [stride for _, stride in Layout.row_major(shape).flat]
        assert strides == [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]


# The algebra.


def test_coalesce() -> None:
    for rng in cases(3):
        a = random_layout(rng)
        assert coalesce(a) == from_flat(fewest_modes(table(a)))


def test_composition() -> None:
    tally = Tally("composition", 0.5)
    split = 0
    for rng in cases(4):
        a = random_layout(rng)
        b = random_inside(rng, a)
        f, inside = table(a), b.cosize <= a.size
        expected = [f[i] for i in table(b)] if inside else []
        admissible = inside and as_layout_shaped(expected, [size for size, _ in b.flat])
        r = tally.check(admissible, lambda: composition(a, b))  # noqa: B023
        if r is None:
            continue
        assert table(r) == expected
        assert shape_refines(r.shape, b.shape)
        split += len(r.flat) > len(b.flat)
    tally.report()
    print(f"composition: {split} of the answers had to split a mode of B")
    assert split > CASES / 40


def shape_refines(fine: object, coarse: object) -> bool:
    """Whether a shape is another whose sizes may have become tuples of the same product."""
    if isinstance(coarse, tuple):
        return (
            isinstance(fine, tuple)
            and len(fine) == len(coarse)
            and all(map(shape_refines, fine, coarse))
        )
    return Layout(fine).size == coarse  # type: ignore[arg-type]


def test_composition_exhaustively_where_carries_cancel() -> None:
    # Jumps that cancel each other are rare at random. Here every small A meets every B.
    admissible = 0
    every = [
        Layout((size, 2), (stride, more))
        for size, stride, more in product((2, 3, 4, 6), range(1, 8), range(1, 12))
    ]
    for sizes in ((2, 2, 4), (2, 3, 4)):
        fitting = [(b, table(b)) for b in every if b.cosize <= math.prod(sizes)]
        for strides in product(range(5), range(5), range(8)):
            a = Layout(sizes, strides)
            f = table(a)
            for b, indices in fitting:
                expected = [f[i] for i in indices]
                try:
                    r = composition(a, b)
                except LayoutError:
                    assert not as_layout_shaped(expected, [size for size, _ in b.flat]), (a, b)
                else:
                    admissible += 1
                    assert table(r) == expected, (a, b)
    assert admissible > 1000


def test_composition_by_example() -> None:
    a = Layout((4, 2), (1, 100))
    assert str(composition(a, Layout(8))) == "(4,2):(1,100)"
    assert (
        str(composition(Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1)))) == "((2,2),3):((24,2),8)"
    )
    # Steps by 3 in (2,3,4) carry twice at once, and the two jumps cancel: linear for ever.
    assert str(composition(Layout((2, 3, 4), (1, 7, 16)), Layout(8, 3))) == "8:8"
    assert str(composition(Layout((2, 3, 1 << 40), (1, 7, 16)), Layout(1 << 40, 3))) == (
        "1099511627776:8"
    )
    with pytest.raises(LayoutError, match="outside the domain"):
        composition(a, Layout(9))
    with pytest.raises(LayoutError, match="not a layout"):
        composition(a, Layout(3, 3))
    with pytest.raises(LayoutError, match="carry"):
        composition(a, Layout((2, 2), (3, 1)))


def test_composition_by_mode() -> None:
    for rng in cases(5):
        a = join(*(random_layout(rng, 12) for _ in range(rng.randint(1, 3))))
        tilers = [random_inside(rng, mode, 2) for mode in a.modes[: rng.randint(1, a.rank)]]
        try:
            r = composition(a, tuple(tilers))
        except LayoutError:
            with pytest.raises(LayoutError):
                for mode, tiler in zip(a, tilers, strict=False):
                    composition(mode, tiler)
            continue
        assert r.rank == a.rank
        for got, mode, tiler in zip(r, a, [*tilers, None, None], strict=False):
            along = table(mode)
            expected = [along[i] for i in table(tiler)] if tiler else along
            assert table(got) == expected


def test_tilers() -> None:
    a = Layout((8, (2, 3)), (6, (3, 1)))
    assert composition(a, (4, 2)) == composition(a, (Layout(4), Layout(2)))
    assert composition(a, (4,)) == join(Layout(4, 6), a[1])
    assert composition(a, (4, (2, 3))) == Layout((4, (2, 3)), (6, (3, 1)))
    assert composition(a, 8) == Layout(8, 6)
    for tiler in ((), (2, 2, 2), (2, (2, 2, 2))):
        with pytest.raises(LayoutError, match="does not fit"):
            composition(a, tiler)


def test_complement() -> None:
    tally = Tally("complement", 0.4)
    for rng in cases(6):
        a = random_layout(rng, 24)
        n = rng.choice((a.size, a.cosize, a.cosize * 2, rng.randint(1, 100)))
        expected = greedy_complement(table(a), n)
        r = tally.check(expected is not None, lambda: complement(a, n))  # noqa: B023
        if r is not None and expected is not None:
            assert table(r) == expected
            assert r == coalesce(r)
    tally.report()
    with pytest.raises(LayoutError, match="cannot cover 0"):
        complement(Layout(4), 0)


def divided(a: Layout, b: Layout) -> Modes | None:
    """The modes of the complement by which `a` can be divided, if it can."""
    shifts = greedy_complement(table(b), a.size)
    if shifts is None or shifts[-1] + b.cosize > a.size:
        return None
    rest = fewest_modes(shifts)
    f = table(a)
    whole = [f[i + j] for j in shifts for i in table(b)]
    sizes = [size for size, _ in b.flat] + [size for size, _ in rest]
    return rest if as_layout_shaped(whole, sizes) else None


def random_divisor(rng: random.Random, a: Layout) -> Layout:
    """A layout that mostly tiles a's domain: some of the modes of a shape of it."""
    if rng.random() < 0.2:
        return random_inside(rng, a)
    step, modes = 1, []
    sizes = [size for size, _ in (a if rng.random() < 0.6 else coalesce(a)).flat]
    for size in sizes:
        for part in rng.choice([(size,), *((d, size // d) for d in (2, 3) if size % d == 0)]):
            if rng.random() < 0.5:
                modes.append((part, step))
            step *= part
    if rng.random() < 0.3:
        rng.shuffle(modes)
    return nested(rng, modes or [(1, 0)])


def test_logical_divide() -> None:
    tally = Tally("logical_divide", 0.5)
    for rng in cases(7):
        a = random_layout(rng, 48)
        b = random_divisor(rng, a)
        rest = divided(a, b)
        r = tally.check(rest is not None, lambda: logical_divide(a, b))  # noqa: B023
        if r is not None and rest is not None:
            f = table(a)
            assert r.rank == 2
            assert table(r[0]) == [f[i] for i in table(b)]
            assert table(r[1]) == [f[i] for i in values(*rest)]
            assert shape_refines(r[0].shape, b.shape)
    tally.report()


def test_divide_by_tiler() -> None:
    tally = Tally("logical_divide by tiler", 0.3)
    for rng in cases(8):
        a = join(*(random_layout(rng, 12) for _ in range(rng.randint(1, 3))))
        tilers = [random_divisor(rng, mode) for mode in a.modes[: rng.randint(1, a.rank)]]
        rests = [divided(mode, tiler) for mode, tiler in zip(a, tilers, strict=False)]
        r = tally.check(None not in rests, lambda: logical_divide(a, tuple(tilers)))  # noqa: B023
        if r is None:
            continue
        n = len(tilers)
        for k, (tile, left) in enumerate(r.modes[:n]):
            f = table(a[k])
            assert table(tile) == [f[i] for i in table(tilers[k])]
            rest = rests[k]
            assert rest is not None
            assert table(left) == [f[i] for i in values(*rest)]
        assert r.modes[n:] == a.modes[n:]
    tally.report()


def copies(a: Layout, b: Layout) -> Values | None:
    """A* o B, if it exists with B's shape."""
    shifts = greedy_complement(table(a), a.size * b.cosize)
    if shifts is None:
        return None
    f = [shifts[j] for j in table(b)]
    return f if as_layout_shaped(f, [size for size, _ in b.flat]) else None


def random_factor(rng: random.Random) -> Layout:
    while True:
        b = random_layout(rng, 12)
        if b.cosize <= 40:
            return b


def test_logical_product() -> None:
    tally = Tally("logical_product", 0.4)
    for rng in cases(10):
        a, b = random_layout(rng, 12), random_factor(rng)
        f = copies(a, b)
        r = tally.check(f is not None, lambda: logical_product(a, b))  # noqa: B023
        if r is not None:
            assert r.rank == 2
            assert r[0] == a
            assert table(r[1]) == f
            assert shape_refines(r[1].shape, b.shape)
    tally.report()


def test_product_by_tiler() -> None:
    tally = Tally("logical_product by tiler", 0.3)
    for rng in cases(11):
        a = join(*(random_layout(rng, 8) for _ in range(rng.randint(1, 3))))
        tilers = [random_factor(rng) for _ in range(rng.randint(1, a.rank))]
        expected = [copies(mode, tiler) for mode, tiler in zip(a, tilers, strict=False)]
        r = tally.check(None not in expected, lambda: logical_product(a, tuple(tilers)))  # noqa: B023
        if r is not None:
            n = len(tilers)
            assert [tile for tile, _ in r.modes[:n]] == list(a.modes[:n])
            assert [table(repeats) for _, repeats in r.modes[:n]] == expected
            assert r.modes[n:] == a.modes[n:]
    tally.report()


def longest_walk(a: Layout) -> int:
    """The longest prefix [0, n) that a layout of single steps along A's coalesced modes inverts."""
    steps: list[tuple[int, int]] = []
    step = 1
    for size, stride in coalesce(a).flat:
        steps.append((size, stride))
        step *= size
    longest = 1

    def walk(reached: int, left: list[tuple[int, int]]) -> None:
        nonlocal longest
        longest = max(longest, reached)
        for mode in left:
            size, stride = mode
            if stride == reached:
                for count in range(2, size + 1):
                    walk(reached * count, [other for other in left if other is not mode])

    walk(1, steps)
    return longest


def one_to_one(a: Layout) -> bool:
    return len(set(table(a))) == a.size


def test_right_inverse() -> None:
    injective = 0
    for rng in cases(13):
        a = random_layout(rng)
        r = right_inverse(a)
        f = table(a)
        assert r.cosize <= a.size
        assert [f[i] for i in table(r)] == list(range(r.size))
        assert r.size == longest_walk(a)
        if one_to_one(from_flat(mode for mode in a.flat if mode[1])):
            injective += 1
            offsets = set(f)
            assert r.size == next(n for n in range(a.cosize + 1) if n not in offsets)
    print(f"\nright_inverse: {CASES} answered, of which {injective} one-to-one but for stride 0")
    assert injective > 0.5 * CASES


def nests(a: Layout) -> bool:
    modes = sorted((stride, size) for size, stride in fewest_modes(table(a)))
    return all(stride > 0 for stride, _ in modes) and all(
        after % stride == 0 and after >= stride * size
        for (stride, size), (after, _) in pairwise(modes)
    )


def test_left_inverse() -> None:
    tally = Tally("left_inverse", 0.3)
    injective = 0
    for rng in cases(14):
        a = random_layout(rng)
        injective += one_to_one(a)
        r = tally.check(nests(a), lambda: left_inverse(a))  # noqa: B023
        if r is not None:
            f = table(r)
            assert r.size >= a.cosize
            assert [f[offset] for offset in table(a)] == list(range(a.size))
    tally.report()
    print(f"left_inverse: {injective} of the cases are one-to-one at all")


def test_inverses_by_example() -> None:
    assert str(right_inverse(Layout((4, 8), (8, 1)))) == "(8,4):(4,1)"
    assert str(right_inverse(Layout(4, 2))) == "1:0"
    assert str(left_inverse(Layout((8, 8), (1, 20)))) == "(20,8):(1,8)"
    assert str(left_inverse(Layout(4, 2))) == "(2,4):(0,1)"
    assert str(left_inverse(Layout(1))) == "1:0"
    for overlapping in (Layout((2, 2), (1, 1)), Layout((2, 2), (0, 1)), Layout((4, 2), (1, 3))):
        with pytest.raises(LayoutError, match="nest"):
            left_inverse(overlapping)


def test_large_layouts_are_quick() -> None:
    # Nothing may walk a domain: these have 2^60 elements.
    big = Layout((1 << 20, 1 << 20, 1 << 20), (1, 1 << 21, 1 << 42))
    assert composition(big, Layout(1 << 60)) == big
    first, second, _ = logical_divide(big, (64, 32))
    assert (first[0].size, second[0].size, first[1].size) == (64, 32, 1 << 14)
    with pytest.raises(LayoutError):
        composition(big, Layout((1 << 19, 1 << 19), (3, 5)))
    assert right_inverse(big).size == 1 << 20
    assert left_inverse(big).size == 1 << 62
