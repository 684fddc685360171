"""Launches that are told from earlier ones at a glance, beside what sorts out any launch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import iris
from iris import metal
from iris.compiler.arguments import _integer_spec
from iris.compiler.kernel import Kernel, device_of
from iris.errors import ArgumentError, IrisError
from iris.frontend.specs import exact_key
from iris.runtime.buffer import Buffer
from support import counts


@iris.kernel
def tiles(X, Y, n, factor=2.0, BLOCK: iris.constexpr = 8, MODE: iris.constexpr = 0):
    i = iris.arange(0, BLOCK)
    iris.store(Y + i, factor * iris.load(X + i, mask=i < n), mask=i < n)


@metal.kernel(
    param_types={"X": "device const float*", "Y": "device float*", "n": "uint", "factor": "float"}
)
def threads(X, Y, n, factor=2.0, MODE: iris.constexpr = 0):
    i = metal.thread_id_x()
    if i < n:
        Y[i] = X[i] * factor


@iris.kernel
def clashing(X, n, swizzle=4, BLOCK: iris.constexpr = 8, fast_math: iris.constexpr = False):
    iris.store(X + iris.arange(0, BLOCK), n + swizzle)


NUMBERS = [0, 1, 2, 3, 4, 6, 8, 12, 16, 48, -1, -16, 2**31, 2**40, 2**63, 2**70, True, False]
NUMBERS += [0.0, -0.0, 1.0, 2.5, float("nan"), float("inf"), 3.4028235e38, 1e39, 1e-60]
NUMBERS += [np.int32(4), np.float32(2), np.float64(1e39), np.bool_(True)]
CONSTANTS = [0, 1, 2, 3, 8, 12, True, False, 1.0, 0.0, -0.0, (1, 2), (1.0, 2), (True, 2)]
# A divisor of one of these numbers, and not of the other, whose power of two it has.
NUMBERS += [16, 48] * 5
CONSTANTS += [12, np.int32(12)] * 4
CONSTANTS += ["a", None, iris.f32, [1], np.float32(1)]
SIZES = [1, 2, 8, 32, 33, 64, 100, 128, 256, (4, 4), (4, 3), 0, 2048, True, 1.0, (8.0, 1), -1]
SHAPES = [("threads",), ("threads", "threadgroup"), ("threadgroup",), ()]
OPTIONS = {"num_simdgroups": [1, True, 2, 3, None, 1.0], "fast_math": [True, False, 1, 0]}
OPTIONS["swizzle"] = [4, 2, 3]


class Drawn:
    """Random launches, each like the one before but in some of its arguments."""

    def __init__(self) -> None:
        self.rng = random.Random(0)
        self.last: dict[str, Any] = {}
        self.buffers = [iris.empty(n, np.float32, device="interp") for n in (0, 1, 8, 16)]
        self.buffers += [iris.empty((4, 4), np.float32, device="interp")]
        self.buffers += [iris.empty(8, np.int32, device="interp")]
        self.elsewhere = iris.empty(8, np.float32, device="interp:metal")
        self.freed = iris.empty(8, np.float32, device="interp")
        self.arrays = [np.zeros(8, np.float32), np.zeros(8, np.int32)[::2]]
        shared = self.buffers[2]
        self.view = Buffer(shared.device, shared.argument.memory, shared.dtype, (4,))
        # They know their facts from their first launch on.
        for buffer in (*self.buffers, self.freed):
            tiles.asked(1, (buffer, buffer, 1), {})
            tiles.asked(1, (buffer, self.view, 1), {})
        self.freed.free()

    def drawn(self, name: str, values: Sequence[Any]) -> Any:
        """One of some values: mostly the one before."""
        if name not in self.last or self.rng.random() < 0.1:
            self.last[name] = self.rng.choice(values)
        return self.last[name]

    def argument(self, name: str, is_constant: bool) -> Any:
        odd = [self.view, self.elsewhere, self.freed, *self.arrays, 3, None, "n"]
        usual = self.buffers if name in "XY" else CONSTANTS if is_constant else NUMBERS
        return self.drawn(name, [*usual, self.rng.choice(odd)])

    def launch(self, kernel: Kernel) -> tuple[Any, list[Any], dict[str, Any]]:
        function = kernel.function
        values = {n: self.argument(n, n in function.constants) for n in function.names}
        first = self.drawn("first", range(len(values) + 1))
        positional = [*values.values()][:first]
        named = dict([*values.items()][first : self.drawn("end", [*range(3, 7), 6, 6])])
        if self.rng.random() < 0.02:
            named[self.rng.choice([*values, "Z"])] = self.rng.choice(NUMBERS)
        if self.drawn("has options", [False, False, True]):
            name = self.drawn("option", [*OPTIONS])
            named[name] = self.drawn(name, OPTIONS[name])
        grid = self.drawn("grid", [1, (2, 3), 1, None, -1])
        if kernel is threads:
            for name in self.drawn("shape", SHAPES):
                named[name] = self.drawn(name, SIZES)
            grid = None if "threads" in named and self.rng.random() < 0.95 else grid
        shuffled = [*named.items()]
        self.rng.shuffle(shuffled)
        return grid, positional, dict(shuffled)


def sorted_out(kernel: Kernel, grid: Any, positional: Any, named: Any, device: Any) -> Any:
    """What any launch becomes: all that it is compiled for, where, and what the device is told."""
    options, given, sizes = kernel.asked(grid, tuple(positional), named)
    on = device_of(device, given)
    constants = [(name, exact_key(value)) for name, value in given.constants.items()]
    hash((options, *constants))
    facts = options, constants, [*given.specs.values()], on, bool(given.arrays)
    return facts, sizes, [*given.told.values()]


def is_hashable(key: Any) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("kernel", [tiles, threads, clashing])
def test_a_plain_call_is_what_the_launch_is_sorted_out_to(kernel: Kernel) -> None:
    known: dict[Any, Any] = {}
    drawn = Drawn()
    again = plain = 0
    for _ in range(counts(20_000, 400_000)):
        grid, positional, named = drawn.launch(kernel)
        device = drawn.rng.choice([None, None, None, "interp", "interp:metal"])
        wrong = quick = None
        try:
            facts, sizes, told = sorted_out(kernel, grid, positional, named, device)
        except (IrisError, TypeError) as error:
            wrong = error
        try:
            quick = kernel.plain(grid, tuple(positional), named, device)
        except IrisError as error:
            assert wrong is not None, error  # of several, this may be another one
            continue
        if quick is None or not is_hashable(quick.key):
            continue
        if wrong is not None:  # nor may any launch of this key be right
            assert known.setdefault(quick.key, None) is None, (wrong, positional, named)
            continue
        plain += 1
        again += quick.key in known
        assert known.setdefault(quick.key, facts) == facts, (positional, named)
        assert quick.device is facts[3] and quick.grid == sizes
        assert [exact_key(value) for value in quick.told] == [exact_key(value) for value in told]
    assert plain > again > 300  # or little was tried


def test_what_tells_launches_apart_is_asked_each_time() -> None:
    """Each launch differs from one that was quick by what makes another kernel, or is wrong."""
    x, y = (iris.asarray(np.arange(16, dtype=np.float32), device="interp") for _ in range(2))
    for _ in range(3):
        tiles[1](x, y, 8)
    assert (y.numpy()[:8] == 2 * np.arange(8)).all()
    tiles[1](x, y, 8, 3)
    assert (y.numpy()[:8] == 3 * np.arange(8)).all()
    tiles[1](x, y, 16, 5.0, BLOCK=16)
    assert (y.numpy() == 5 * np.arange(16)).all()
    whole = iris.asarray(np.arange(16, dtype=np.int32), device="interp")
    tiles[1](whole, y, 8)
    assert (y.numpy()[:8] == 2 * np.arange(8)).all()
    tiles[1](x, x, 8)  # in place
    assert (x.numpy()[:8] == 2 * np.arange(8)).all()
    for wrong in ({"num_simdgroups": 3}, {"Z": 1}, {"n": 8}, {"device": "interp:metal"}):
        with pytest.raises(ArgumentError):
            tiles[1](x, y, 8, **wrong)
    for grid in (-1, 1.0, True, (1, 2, 3, 4)):
        with pytest.raises(ArgumentError):
            tiles[grid](x, y, 8)
    x.free()
    with pytest.raises(ArgumentError, match="after it was freed"):
        tiles[1](x, y, 8)


def test_a_key_keeps_what_it_has_the_ids_of() -> None:
    """Launches of other threads may put facts out of their caches, between two steps of one."""
    x = iris.empty(8, np.float32, device="interp")
    y = iris.empty(8, np.float32, device="interp")
    tiles.asked(1, (x, y, 1), {})  # from here on the Buffers know their facts
    plains = []
    for n in range(15, 0, -1):
        plains.append(tiles.plain(1, (x, y, n), {}, None))
        _integer_spec.cache_clear()
    specs = [tiles.asked(1, (x, y, n), {})[1].specs["n"] for n in range(15, 0, -1)]
    told_apart = {(plain.key, spec) for plain, spec in zip(plains, specs, strict=True) if plain}
    assert len({key for key, _ in told_apart}) == len(told_apart) == len(set(specs)) == 5


@iris.kernel
def blocks(X, Y):
    iris.tile_store(Y, 0, 0, 4, 2 * iris.tile_load(X, 0, 0, 4, (4, 4)))


def test_a_quick_launch_asks_how_long_arrays_are() -> None:
    x, y = (iris.asarray(np.ones((16, 4), np.float32), device="interp") for _ in range(2))
    for _ in range(2):
        blocks[1](x, y)
    assert (y.numpy()[:4] == 2).all()
    long = Buffer(x.device, x.argument.memory, x.dtype, (2**31, 4))
    for _ in range(2):
        with pytest.raises(ArgumentError, match="X has 2147483648 elements along axis 0"):
            blocks[1](long, y)
