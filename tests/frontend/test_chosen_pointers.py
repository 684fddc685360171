"""Pointers chosen among arrays while a program runs, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import iris
from iris.errors import DTypeError, LanguageError, MaskError, PointerError, UserError

N = 11
LEVELS = ["interp", "interp:metal", pytest.param("softmetal", marks=pytest.mark.softmetal)]


@iris.kernel
def element_by_element(A, B, Which, Out, BLOCK: iris.constexpr):
    at = iris.arange(0, BLOCK)
    inside = at < N
    which = iris.load(Which + at, mask=inside, other=0)
    source = iris.where(which == 1, A, iris.where(which == 2, B, A + N))
    by_row = source[:, None] + iris.arange(0, 2)[None, :] * 2 * N
    x = iris.load(by_row + at[:, None], mask=inside[:, None], other=0.0)
    iris.store(Out + at, iris.sum(x, 1), mask=inside)


@pytest.mark.parametrize("device", LEVELS)
def test_each_element_has_its_own(device: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, (4, N)).astype(np.float32) for _ in range(2))
    which, out = rng.integers(0, 3, N).astype(np.int32), np.zeros(N, np.float32)
    element_by_element[1](a, b, which, out, BLOCK=16, device=device)
    rows = np.choose(which, [a[1] + a[3], a[0] + a[2], b[0] + b[2]])
    np.testing.assert_array_equal(out, rows)


@iris.kernel
def by_branch(A, B, C, Out, BLOCK: iris.constexpr):
    pid = iris.program_id(0)
    at = iris.arange(0, BLOCK)
    if pid == 0:
        source = A
    elif pid == 1:
        source = B + N
    else:
        source = C if pid == 2 else A + 1
    for _ in range(2):
        source += at
    total = iris.zeros(BLOCK, iris.f32)
    for _ in iris.tile_range(0, pid):
        total += iris.load(source)
        source += 1
    iris.store(Out + pid * BLOCK + at, total)


@pytest.mark.parametrize("device", LEVELS)
def test_a_branch_decides_and_a_loop_carries_it(device: str) -> None:
    a, b, c = (100 * k + np.arange(40, dtype=np.float32) for k in (1, 2, 3))
    out = np.zeros((4, 4), np.float32)
    by_branch[4](a, b, c, out, BLOCK=4, device=device)
    first = 2 * np.arange(4)
    starts = [(a, 0), (b, N), (c, 0), (a, 1)]
    expected = [
        sum((x[start + first + step] for step in range(pid)), np.zeros(4))
        for pid, (x, start) in enumerate(starts)
    ]
    np.testing.assert_array_equal(out, expected)


@iris.kernel
def written(X, A, B, Old, BLOCK: iris.constexpr):
    at = iris.arange(0, BLOCK)
    x = iris.load(X + at)
    target = iris.where(at % 2 == 0, A, B) + at
    iris.store(target, x, mask=at != 3)
    iris.store(Old + at, iris.atomic_add(target, 10, mask=at != 5), mask=at != 5)
    iris.store(Old + BLOCK + at, iris.atomic_cas(target, 16, 1))


@pytest.mark.parametrize("device", LEVELS)
def test_stores_and_atomics_take_them(device: str) -> None:
    x, old = np.arange(8, dtype=np.int32), np.full((2, 8), -1, np.int32)
    a, b = np.full(8, 50, np.int32), np.full(8, 70, np.int32)
    written[1](x, a, b, old, BLOCK=8, device=device)
    even = x % 2 == 0
    stored = np.where(x == 3, 70, x)
    added = np.where(x == 5, stored, stored + 10)
    np.testing.assert_array_equal(old, [np.where(x == 5, -1, stored), added])
    added[added == 16] = 1
    np.testing.assert_array_equal(a, np.where(even, added, 50))
    np.testing.assert_array_equal(b, np.where(even, 70, added))


@iris.kernel
def least_and_mean(A, B, Which, Out, n, BLOCK: iris.constexpr):
    at = iris.arange(0, BLOCK)
    inside = at < n
    which = iris.load(Which + at, mask=inside)
    x = iris.load(iris.where(which == 0, A, B) + at, mask=inside & (at != 3))
    iris.store(Out, iris.min(x))
    iris.store(Out + 1, iris.sum(x + 1))
    iris.store(Out + 2 + at, x, mask=inside)


@pytest.mark.parametrize("device", LEVELS)
def test_a_masked_element_of_none_does_not_count(device: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(2, 9, N).astype(np.float32) for _ in range(2))
    which, out = rng.integers(0, 2, N).astype(np.int32), np.full(2 + N, -1, np.float32)
    least_and_mean[1](a, b, which, out, N, BLOCK=16, device=device)
    chosen = np.where(which == 0, a, b)
    counted = np.delete(chosen, 3)
    chosen[3] = -1
    np.testing.assert_array_equal(out, [counted.min(), (counted + 1).sum(), *chosen])


@iris.kernel
def of_one_array(X, Out, BLOCK: iris.constexpr):
    at = iris.arange(0, BLOCK)
    iris.store(Out + at, iris.load(iris.where(at < 2, X + at, X + 5)))


def test_pointers_to_one_array_are_one() -> None:
    x, out = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    of_one_array[1](x, out, BLOCK=4)
    assert list(out) == [0, 1, 5, 5]
    traced = str(of_one_array.lower(x, out, BLOCK=4, grid=1).traced)
    assert traced.count("tile.load") == 1


@iris.kernel
def refused(A, B, H, Out, CASE: iris.constexpr):
    at = iris.arange(0, 4)
    chosen = iris.where(at < 2, A, B)
    if CASE == "dtypes":
        iris.where(at < 2, A, H)
    elif CASE == "number":
        iris.where(at < 2, A, 0)
    elif CASE == "arithmetic":
        chosen * 2
    elif CASE == "format":
        print(f"{chosen:.3}")
    elif CASE == "block":
        iris.tile_load(chosen, 0, 0, 4, (4, 4))
    elif CASE == "other":
        iris.load(chosen + at, mask=at < 3, volatile=True)
    elif CASE == "loop":
        source = A
        for k in iris.tile_range(0, iris.program_id(0)):
            source = iris.where(k < 2, source, B)
        iris.load(source)
    elif CASE == "branch":
        source = A if iris.program_id(0) == 0 else H
        iris.load(source)


@pytest.mark.parametrize(
    ("case", "kind", "message"),
    [
        ("dtypes", DTypeError, "A and H hold f16 and f32; a pointer is chosen among arrays of one"),
        ("number", PointerError, "a pointer is chosen among pointers, not a int"),
        ("arithmetic", PointerError, "the pointer A or B is no number"),
        ("format", LanguageError, "unsupported format string passed to ChosenPointer"),
        ("block", PointerError, "tile_load takes a pointer to one array, not the pointer A or B"),
        ("other", MaskError, "a volatile load with a mask needs other=, too"),
        ("loop", PointerError, "source starts as the pointer A, and must stay"),
        ("branch", DTypeError, "A and H hold f16 and f32"),
    ],
)
def test_what_is_refused(case: str, kind: type[UserError], message: str) -> None:
    a, h = np.zeros(16, np.float32), np.zeros(16, np.float16)
    with pytest.raises(kind, match=message):
        refused[1](a, a.copy(), h, a.copy(), CASE=case)


def test_a_name_may_be_of_pointers_of_two_shapes_in_two_branches() -> None:
    @iris.kernel
    def copied(A, B, Out):
        if iris.program_id(0) == 0:
            pointers = A + iris.arange(0, 4)
            iris.store(Out + iris.arange(0, 4), iris.load(pointers))
        else:
            pointers = B + iris.arange(0, 8)
            iris.store(Out + 8 + iris.arange(0, 8), iris.load(pointers))

    a, b, out = np.arange(4, dtype=np.float32), -np.arange(8, dtype=np.float32), np.zeros(16)
    out = out.astype(np.float32)
    copied[2](a, b, out)
    np.testing.assert_array_equal(out, [*a, 0, 0, 0, 0, *b])


def test_a_loop_may_name_the_arrays_in_another_order() -> None:
    @iris.kernel
    def copied(A, B, Out, n):
        at = iris.arange(0, 4)
        pointers = iris.where(n == 3, A, B) + at
        for i in iris.tile_range(0, n):
            iris.store(Out + i * 4 + at, iris.load(pointers))
            pointers = iris.where(i == 0, B, A) + at

    a, b, out = (np.array([x] * 4, np.float32) for x in (1, 2, 0))
    out = np.zeros(12, np.float32)
    for device in ("interp", "interp:metal"):
        copied[1](a, b, out, 3, device=device)
        np.testing.assert_array_equal(out, [*a, *b, *a])
