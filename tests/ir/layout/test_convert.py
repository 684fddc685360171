"""Conversions: the pull map is right, and no class of movement below the chosen one would do."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from iris.errors import LayoutError
from iris.ir.layout.convert import Movement, convert
from iris.ir.layout.linear import APPLE_FRAGMENT, LinearLayout
from random_layouts import random_shape, wide, xor
from support import counts

CASES = counts(3_000, 20_000)


def split(columns, shape, lanes, simdgroups):
    """The last columns go to simdgroups and lanes, the others to registers."""
    registers = len(columns) - lanes - simdgroups
    return LinearLayout.of(
        shape,
        register=columns[:registers],
        lane=columns[registers : registers + lanes],
        simdgroup=columns[registers + lanes :],
    )


def random_pair(rnd):
    """Two layouts of one shape over the same lanes and simdgroups, related or not."""
    shape = random_shape(rnd, 4)
    units = [
        tuple(1 << bit if a == axis else 0 for a in range(len(shape)))
        for axis, size in enumerate(shape)
        for bit in range(size.bit_length() - 1)
    ]
    lanes, simdgroups = rnd.randint(0, 3), rnd.randint(0, 2)

    def mix(columns, times):
        for _ in range(times if len(columns) > 1 else 0):
            i, j = rnd.sample(range(len(columns)), 2)
            columns[i] = xor(columns[i], columns[j])

    def fill(columns):
        while len(columns) < lanes + simdgroups or rnd.random() < 0.3:
            extra = rnd.choice([*columns, (0,) * len(shape)])
            columns.insert(rnd.randint(0, len(columns)), extra)

    src = list(units)
    rnd.shuffle(src)
    mix(src, rnd.choice((0, 0, 3)))
    fill(src)
    dst = list(src)
    kind = rnd.randrange(5)
    registers = len(src) - lanes - simdgroups
    if kind == 0:  # the same, perhaps
        if rnd.random() < 0.5 and registers:
            dst.insert(rnd.randint(0, registers), rnd.choice(src))
    elif kind == 1:  # other registers
        head = dst[:registers]
        rnd.shuffle(head)
        mix(head, 2)
        dst[:registers] = head
        for i in range(registers, len(dst)):
            if registers and rnd.random() < 0.5:
                dst[i] = xor(dst[i], rnd.choice(head))
    elif kind == 2:  # other lanes
        head = dst[: registers + lanes]
        rnd.shuffle(head)
        dst[: registers + lanes] = head
        for i in range(registers + lanes, len(dst)):
            if head and rnd.random() < 0.5:
                dst[i] = xor(dst[i], rnd.choice(head))
    elif kind == 3:
        rnd.shuffle(dst)
        mix(dst, 3)
    else:  # anything, perhaps not all elements
        dst = [
            tuple(rnd.randrange(size) for size in shape)
            for _ in range(lanes + simdgroups + rnd.randint(0, 2))
        ]
    return split(src, shape, lanes, simdgroups), split(dst, shape, lanes, simdgroups)


def table(layout):
    """elements[register, lane, simdgroup], as small numbers."""
    return wide(layout).reshape(layout.sizes, order="F")


def least_movement(src, dst):
    """By trying every replica for every location."""
    names, (s, d) = {}, (table(src), table(dst))
    for e in np.concatenate([s.ravel(), d.ravel()]).tolist():
        names.setdefault(e, len(names))
    number = np.vectorize(names.__getitem__, otypes=[int])
    s, d = number(s), number(d)
    if s.shape == d.shape and (s == d).all():
        return Movement.NOTHING
    _, lane, simdgroup = np.indices(s.shape)
    held = np.zeros((*s.shape[1:], len(names)), bool)
    held[lane, simdgroup, s] = True
    _, lane, simdgroup = np.indices(d.shape)
    if held[lane, simdgroup, d].all():
        return Movement.REGISTERS
    if held.any(axis=0)[simdgroup, d].all():
        return Movement.SHUFFLE
    return Movement.THREADGROUP


def reads(where):
    """The shuffles of the plain lowering, and whether all are xors, by location."""
    register, lane, _ = where
    xors = True
    for r, s in np.ndindex(register.shape[0], register.shape[2]):
        mask = lane[r, :, s] ^ np.arange(lane.shape[1])
        xors &= bool((mask == mask[0]).all())
    needed = set()
    for r in range(register.shape[0]):
        lanes = tuple(lane[r, :, 0].tolist())
        if all(
            np.array_equal(lane[r, :, s], np.arange(lane.shape[1])) for s in range(lane.shape[2])
        ):
            continue
        needed |= {(source, lanes) for source in register[r, :, 0].tolist()}
    return len(needed), xors


def test_pull_map_class_and_cost():
    rnd = random.Random(11)
    classes, xors = Counter(), 0
    for _ in range(CASES):
        src, dst = random_pair(rnd)
        got = convert(src, dst)
        where = np.array(got.pull.apply(**dict(zip(dst.dims, np.indices(dst.sizes), strict=True))))
        s = table(src)
        assert np.array_equal(s[tuple(where)], table(dst)), (src, dst)
        assert got.movement == least_movement(src, dst), (src, dst)
        # The pull map itself goes no farther than its class.
        own = np.indices(dst.sizes)
        if got.movement < Movement.THREADGROUP:
            assert np.array_equal(where[2], own[2])
        if got.movement < Movement.SHUFFLE:
            assert np.array_equal(where[1], own[1])
        if got.movement == Movement.NOTHING:
            assert np.array_equal(where[0], own[0])
        if got.movement == Movement.SHUFFLE:
            assert (got.shuffles, got.xor) == reads(where), (src, dst)
            xors += got.xor
        else:
            assert (got.shuffles, got.xor) == (0, False)
        classes[got.movement.name] += 1
    print(f"convert: {dict(classes)}, {xors} shuffles by xor")
    assert min(classes.values()) > CASES / 40
    assert xors > CASES / 200


def test_what_need_not_move_does_not_though_replicas_abound():
    src = LinearLayout.of((4,), register=[1, 0], lane=[2, 0], simdgroup=[0])
    got = convert(src, src)
    assert got.movement is Movement.NOTHING
    assert str(got.pull) == (
        "linear<4x4x2, register=[(1,0,0), (2,0,0)], lane=[(0,1,0), (0,2,0)], simdgroup=[(0,0,1)]>"
    )


def test_fragment_transposed():
    got = convert(APPLE_FRAGMENT, APPLE_FRAGMENT.transpose((1, 0)))
    assert got.movement is Movement.SHUFFLE
    assert (got.shuffles, got.xor) == (4, False)


def test_rejections():
    line = LinearLayout.of((4,), register=[1], lane=[2], simdgroup=[])
    with pytest.raises(LayoutError, match="does not hold every element"):
        convert(LinearLayout.of((4,), register=[1], lane=[0], simdgroup=[]), line)
    with pytest.raises(LayoutError, match="keeps the shape"):
        convert(line, line.expand(0))
    with pytest.raises(LayoutError, match="numbers of lanes"):
        convert(line, LinearLayout.of((4,), register=[1, 2], lane=[], simdgroup=[]))
    with pytest.raises(LayoutError, match="needs the inputs"):
        convert(LinearLayout.of((4,), lane=[1, 2]), line)
