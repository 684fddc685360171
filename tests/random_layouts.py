"""Random linear layouts, and a table of one by its definition that shares no code with ours."""

from __future__ import annotations

import numpy as np

from iris.ir.layout.linear import LinearLayout


def random_shape(rnd, max_bits=5):
    bits = [0] * rnd.randint(1, 3)
    for _ in range(rnd.randint(0, max_bits)):
        bits[rnd.randrange(len(bits))] += 1
    return tuple(1 << b for b in bits)


def random_columns(rnd, shape, kind=None):
    """Coordinates of input bits: permuted, mixed by xor, replicated, or arbitrary ones."""
    kind = kind or rnd.choice(("permuted", "mixed", "replicated", "arbitrary"))
    columns = [
        tuple(1 << bit if a == axis else 0 for a in range(len(shape)))
        for axis, size in enumerate(shape)
        for bit in range(size.bit_length() - 1)
    ]
    rnd.shuffle(columns)
    if kind == "arbitrary":
        return [tuple(rnd.randrange(size) for size in shape) for _ in range(rnd.randint(0, 6))]
    if kind != "permuted" and len(columns) > 1:
        for _ in range(rnd.randint(0, 6)):
            i, j = rnd.sample(range(len(columns)), 2)
            columns[i] = xor(columns[i], columns[j])
    if kind == "replicated":
        for _ in range(rnd.randint(1, 3)):
            extra = (0,) * len(shape)
            for column in columns:
                if rnd.random() < 0.3:
                    extra = xor(extra, column)
            columns.insert(rnd.randint(0, len(columns)), extra)
    return columns


def xor(a, b):
    return tuple(x ^ y for x, y in zip(a, b, strict=True))


def random_layout(rnd, shape=None, kind=None):
    shape = shape or random_shape(rnd)
    columns = random_columns(rnd, shape, kind)
    i, j = sorted((rnd.randint(0, len(columns)), rnd.randint(0, len(columns))))
    return LinearLayout.of(shape, register=columns[:i], lane=columns[i:j], simdgroup=columns[j:])


def wide(layout):
    """The element at every location (first dimension fastest), 16 bits a coordinate."""
    images = [image for _, images in layout.bases for image in images]
    table = np.zeros(1 << len(images), np.int64)
    for bit, image in enumerate(images):
        value = sum([c << 16 * axis for axis, c in enumerate(image)])
        half = 1 << bit
        np.bitwise_xor(table[:half], value, out=table[half : 2 * half])
    return table


def coordinates(table, rank):
    return [table >> 16 * axis & 0xFFFF for axis in range(rank)]


def row_major(coords, shape):
    flat = 0
    for c, size in zip(coords, shape, strict=True):
        flat = flat * size + c
    return flat


def join(coords):
    return sum(c << 16 * axis for axis, c in enumerate(coords))


def grid(layout):
    """All locations, first dimension fastest, as one array per dimension."""
    return np.unravel_index(np.arange(np.prod(layout.sizes)), layout.sizes, order="F")


def machine_layout(rnd, shape, simdgroups, kind=None):
    """A layout over 32 lanes and so many simdgroups, that holds every element; what there are too
    few elements for is replicas."""
    columns = random_columns(rnd, shape, kind or rnd.choice(("permuted", "mixed", "replicated")))
    outer = 5 + simdgroups.bit_length() - 1
    while len(columns) < outer:
        columns.insert(rnd.randint(0, len(columns)), (0,) * len(shape))
    registers = len(columns) - outer
    return LinearLayout.of(
        shape,
        register=columns[:registers],
        lane=columns[registers : registers + 5],
        simdgroup=columns[registers + 5 :],
    )
