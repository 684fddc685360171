"""Lowering op by op: in any layouts, Metal IR does exactly what the tile program means."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import reduce
from operator import xor as xor_

import numpy as np
import pytest

from iris.compiler.options import Options
from iris.errors import LanguageError, PipelineError
from iris.interp import metal as interpreter
from iris.ir import Level, Module, math, metal, parse
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.kinds import AtomicKind, ReduceKind, ScanKind
from iris.ir.layout.convert import Movement, convert
from iris.ir.layout.linear import LANE, REGISTER, LinearLayout
from iris.ir.layout.reduce import reduce_axis
from iris.ir.layout.spread import spread
from iris.ir.types import DTYPES, DType, Kind
from iris.passes import Pipeline, run
from iris.passes.generic.cse import CommonSubexpressionElimination
from iris.passes.metal.index_arithmetic import IndexArithmetic
from iris.passes.tile.layouts.access_layouts import coalesced
from iris.passes.tile.lowering import LowerToMetal
from iris.targets.apple import M1, ON_CPU
from laid_out_programs import LaidOut, floats, random_data, stored, tile_type
from random_layouts import machine_layout, random_shape, xor
from support import counts

BOOL, I32, U32, F32 = (DTYPES[name] for name in ("bool", "i32", "u32", "f32"))
NUMBERS = [d for d in DTYPES.values() if d is not BOOL]


def drawn(seed: int, most: int = 7) -> tuple[random.Random, np.random.Generator, int, LinearLayout]:
    """What a case is made of: a random layout, and the number of simdgroups that it is for."""
    rnd = random.Random(seed)
    simdgroups = rnd.choice((1, 1, 2, 4))
    shape = random_shape(rnd, most)
    return rnd, np.random.default_rng(seed), simdgroups, machine_layout(rnd, shape, simdgroups)


def near(rnd: random.Random, layout: LinearLayout) -> LinearLayout:
    """A layout with other registers, or other lanes and registers."""
    images = dict(layout.bases)
    dims = rnd.choice(((REGISTER,), (REGISTER, LANE)))
    own = [image for dim in dims for image in images[dim]]
    rnd.shuffle(own)
    if rnd.random() < 0.4 and len(own) > 1:
        i, j = rnd.sample(range(len(own)), 2)
        own[i] = xor(own[i], own[j])
    for dim in dims:
        count = len(images[dim])
        images[dim], own = tuple(own[:count]), own[count:]
    return LinearLayout(tuple(images.items()), layout.shape)


def test_an_index_is_computed_once() -> None:
    block = "offsets=[%zero, %zero], strides=[%n, %one], bounds=[%n, %n]"
    module = parse(
        "func tile @f(%A: ptr<f16>, %B: ptr<f16>, %C: ptr<f32>, %n: i32) {\n"
        "  %zero: i32 = constant 0\n  %one: i32 = constant 1\n  %none: f32 = constant 0.0\n"
        "  %acc: tile<64x64xf32> = tile.broadcast %none\n"
        f"  %a: tile<64x32xf16> = tile.load_tile %A, {block}\n"
        f"  %b: tile<32x64xf16> = tile.load_tile %B, {block}\n"
        "  %c: tile<64x64xf32> = tile.dot %a, %b, acc=%acc\n"
        f"  tile.store_tile %C, %c, {block}\n  return\n}}"
    )
    whole = list(Options().pipeline(Level.METAL))
    end = [pass_.name for pass_ in whole].index(LowerToMetal.name) + 1
    lowered = run(module, Pipeline(tuple(whole[:end])))
    computed = [op for op in lowered.walk() if not isinstance(op, math.Constant)]
    CommonSubexpressionElimination().run(lowered)
    assert computed == [op for op in lowered.walk() if not isinstance(op, math.Constant)]


# Conversions.


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_conversions_between_any_layouts(dtype: DType) -> None:
    accessed_value: Counter[str] = Counter()
    for seed in range(counts(14, 300)):
        rnd, rng, simdgroups, source = drawn(seed)
        target = near(rnd, source)
        if rnd.random() < 0.4:
            target = machine_layout(rnd, source.shape, simdgroups)
        program = LaidOut(simdgroups)
        x = program.load(source, dtype, random_data(dtype, source.num_elements, rng))
        y = program.emit(tile_type(target, dtype), f"tile.convert_layout {x}")
        program.store(y, target, dtype)
        lowered, _ = program.check()
        conversion = convert(source, target)
        through_memory = any(isinstance(op, metal.Alloc) for op in lowered.walk())
        shuffles = any(isinstance(op, metal.Shuffle | metal.ShuffleXor) for op in lowered.walk())
        if conversion.movement < Movement.SHUFFLE:
            assert not shuffles
            assert not through_memory
        elif conversion.movement is Movement.THREADGROUP:
            assert through_memory
        accessed_value[conversion.movement.name + " by memory" * through_memory] += 1
    assert len(accessed_value) >= 4, accessed_value


def test_each_way_of_moving() -> None:
    """By the shuffles that are the cheapest; dear ones are replaced by a way through memory."""
    line = LinearLayout.of((128,), register=[1, 2], lane=[4, 8, 16, 32, 64], simdgroup=[])
    by_lane = LinearLayout.of((128,), register=[1, 2], lane=[5, 8, 16, 32, 64], simdgroup=[])
    turned = LinearLayout.of((128,), register=[32, 64], lane=[1, 2, 4, 8, 16], simdgroup=[])
    plain = LinearLayout.of((64,), register=[32], lane=[1, 2, 4, 8, 16], simdgroup=[])
    neighbour = LinearLayout.of((64,), register=[33], lane=[1, 2, 4, 8, 16], simdgroup=[])
    swapped = LinearLayout.of((64,), register=[32], lane=[2, 1, 4, 8, 16], simdgroup=[])
    for source, target, way in [
        (line, line, None),
        (line, by_lane, math.Select),
        (plain, neighbour, metal.ShuffleXor),
        (plain, swapped, metal.Shuffle),
        (line, turned, metal.Alloc),
    ]:
        program = LaidOut()
        x = program.load(source, F32, np.arange(source.num_elements, dtype=np.float32))
        y = program.emit(tile_type(target, F32), f"tile.convert_layout {x}")
        program.store(y, target, F32)
        (lowered,) = program.check(pipelines=["lower-to-metal,dce,insert-barriers"])
        ways = {math.Select, metal.ShuffleXor, metal.Shuffle, metal.Alloc}
        assert {type(op) for op in lowered.walk()} & ways == ({way} if way else set())


@pytest.mark.parametrize("seed", range(counts(20, 200)))
def test_places_are_linear_in_the_bits_of_lane_and_simdgroup(seed: int) -> None:
    """Whatever the images of the bits, which may have bits in common."""
    rnd = random.Random(seed)
    lanes, groups = ([rnd.choice((0, 1, 3, 5, 6, rnd.randrange(256))) << rnd.randrange(4)
                      for _ in range(n)] for n in (5, 2))  # fmt: skip
    for bit in range(1, 5):
        if rnd.random() < 0.5:
            lanes[bit] = 2 * lanes[bit - 1]
    function = Func("f", Level.METAL, returns=(I32,), simdgroups=4)
    b = Builder(function.body)
    numbers = IndexArithmetic(b)
    parts = (
        numbers.linear_form(b(metal.Lane()), lanes),
        numbers.linear_form(b(metal.Simdgroup()), groups),
    )
    b.insert(Return([numbers.value(numbers.xor_forms(*parts, lanes, groups))]))
    (found,) = interpreter.run(function, (1, 1, 1), [])
    for thread, place in enumerate(found[0].tolist()):
        expected = numbers.linear_form(thread % 32, lanes) ^ numbers.linear_form(
            thread // 32, groups
        )
        assert place == expected
        bits = [*lanes, *groups]
        assert expected == reduce(xor_, [c for i, c in enumerate(bits) if thread >> i & 1], 0)


# Elementwise, and what only names registers anew.


@pytest.mark.parametrize("seed", range(counts(30, 500)))
def test_shapes(seed: int) -> None:
    """Broadcast, expand_dims, transpose and reshape, one after the other."""
    rnd, rng, simdgroups, result = drawn(seed)
    dtype = rnd.choice(list(DTYPES.values()))
    program = LaidOut(simdgroups)
    shape = tuple(1 if rnd.random() < 0.5 else size for size in result.shape)
    small = spread(result, shape).layout
    x = program.load(small, dtype, random_data(dtype, small.num_elements, rng))
    x = program.emit(tile_type(result, dtype), f"tile.broadcast {x}")
    if result.rank < 3:
        axis = rnd.randint(0, result.rank)
        result = result.expand(axis)
        x = program.emit(tile_type(result, dtype), f"tile.expand_dims {axis} {x}")
    order = rnd.sample(range(result.rank), result.rank)
    result = result.transpose(tuple(order))
    x = program.emit(tile_type(result, dtype), f"tile.transpose {order} {x}")
    shape = random_shape(random.Random(seed), 0)
    while np.prod(shape) < result.num_elements:
        axis = rnd.randrange(len(shape))
        shape = tuple(n * 2 if a == axis else n for a, n in enumerate(shape))
    result = result.reshape(shape)
    x = program.emit(tile_type(result, dtype), f"tile.reshape {x}")
    program.store(x, result, dtype)
    program.check()


@pytest.mark.parametrize("seed", range(counts(20, 300)))
def test_numbers_scalars_and_what_is_elementwise(seed: int) -> None:
    rnd, rng, simdgroups, layout = drawn(seed)
    dtype = DTYPES[rnd.choice(("i32", "i64", "u32", "i8", "u8"))]
    program = LaidOut(simdgroups)
    flat = layout.reshape((layout.num_elements,))
    fits = min(dtype.high, 100) - flat.num_elements
    start = rnd.randint(0 if dtype.low == 0 else -100, max(0, fits))
    number = I32 if start + flat.num_elements > dtype.high else dtype
    x = program.emit(tile_type(flat, number), f"tile.arange {start}")
    x = program.emit(tile_type(flat, dtype), f"cast {x}") if number is not dtype else x
    x = program.emit(tile_type(layout, dtype), f"tile.reshape {x}")
    pid = program.emit("i32", "tile.program_id 0")
    grid = program.emit("i32", "tile.num_programs 0")
    last = program.emit("i32", f"sub {grid}, {pid}")
    last = program.emit(str(dtype), f"cast {last}") if dtype is not I32 else last
    last = program.emit(tile_type(layout, dtype), f"tile.broadcast {last}")
    y = program.load(layout, dtype, random_data(dtype, layout.num_elements, rng))
    less = program.emit(tile_type(layout, BOOL), f"compare lt {x}, {y}")
    z = program.emit(tile_type(layout, dtype), f"select {less}, {last}, {x}")
    z = program.emit(tile_type(layout, dtype), f"mul {z}, {y}")
    program.store(z, layout, dtype)
    program.check()


# Memory.


@pytest.mark.parametrize("seed", range(counts(30, 500)))
def test_loads_and_stores_at_given_offsets(seed: int) -> None:
    """Gathers in any order, masked with `other`, and stores of a part of the elements."""
    rnd, rng, simdgroups, layout = drawn(seed)
    dtype = rnd.choice(list(DTYPES.values()))
    program, count = LaidOut(simdgroups), layout.num_elements
    where = rng.permutation(2 * count)[:count].astype(np.int32)
    if rnd.random() < 0.4:
        where = np.arange(count, dtype=np.int32)
    at = program.load(layout, I32, where)
    mask = program.load(layout, BOOL, random_data(BOOL, count, rng))
    other = program.load(layout, dtype, random_data(dtype, count, rng))
    x = program.array(dtype, random_data(dtype, 2 * count, rng))
    found = program.emit(
        tile_type(layout, dtype), f"tile.load {x}, {at}, mask={mask}, other={other}"
    )
    program.store(found, layout, dtype)
    y = program.array(dtype, random_data(dtype, 2 * count, rng))
    program.lines.append(f"tile.store {y}, {at}, {found}, mask={mask}")
    program.check()


@pytest.mark.parametrize("seed", range(counts(60, 1000)))
def test_blocks(seed: int) -> None:
    """Blocks that reach over the edges of what there is, on either side, with any strides."""
    rnd, rng, simdgroups, layout = drawn(seed)
    dtype = rnd.choice(list(DTYPES.values()))
    program = LaidOut(simdgroups)
    index = rnd.choice(("i32", "i64"))
    sizes = [rnd.choice((n, n, 2 * n, 3 * n - 1, max(1, n - 1))) for n in layout.shape]
    order = (
        rnd.sample(range(layout.rank), layout.rank) if rnd.random() < 0.4 else range(layout.rank)
    )
    strides, step = [0] * layout.rank, 1
    for axis in reversed(order):
        strides[axis] = step
        step *= sizes[axis] + rnd.choice((0, 0, 0, 3))
    inside = rnd.random() < 0.3
    starts = [
        rnd.choice((0, 0, n)) if inside or rnd.random() < 0.5 else rnd.randint(-n, size)
        for n, size in zip(layout.shape, sizes, strict=True)
    ]

    def scalar(value: int) -> str:
        if rnd.random() < 0.5:
            return program.constant(value, index)
        return program.argument(index, value)

    offsets = ", ".join(map(scalar, starts))
    steps = ", ".join(map(scalar, strides))
    bounds = ", ".join(map(scalar, sizes))
    limit = rnd.choice((0, step // 2, step))
    limits = f", limit={scalar(limit)}" if rnd.random() < 0.3 else ""
    place = f"offsets=[{offsets}], strides=[{steps}], bounds=[{bounds}]"
    x = program.array(dtype, random_data(dtype, step, rng))
    found = program.emit(tile_type(layout, dtype), f"tile.load_tile {x}{limits}, {place}")
    program.store(found, layout, dtype)
    y = program.array(dtype, random_data(dtype, step, rng))
    value = program.load(layout, dtype, random_data(dtype, layout.num_elements, rng))
    program.lines.append(f"tile.store_tile {y}, {value}{limits}, {place}")
    program.check()


def test_a_scalar_is_stored_by_one_thread() -> None:
    program = LaidOut(2)
    x = program.array(I32, np.array([5, 7], np.int32))
    yes, no = (program.emit("bool", f"constant {truth}") for truth in ("true", "false"))
    zero, one = program.constant(0), program.constant(1)
    a = program.emit("i32", f"tile.load {x}, {one}")
    b = program.emit("i32", f"tile.load {x}, {zero}, mask={no}, other={a}")
    program.store(b, None, I32)
    y = program.array(I32, np.zeros(2, np.int32))
    program.lines.append(f"tile.store {y}, {zero}, {a}, mask={yes}")
    program.lines.append(f"tile.store {y}, {one}, {a}, mask={no}")
    program.check()


# Reductions and scans.

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 1.0, -1.0, 2.0, 2.0]


def to_reduce(kind: str, dtype: DType, count: int, rng: np.random.Generator) -> np.ndarray:
    """Data of which any order gives the same; for extrema, what is special."""
    if not dtype.is_float:
        data = random_data(dtype, count, rng)
        return data // 64 if rng.random() < 0.3 and dtype.bits == 8 else data
    if kind == "prod":
        return floats(dtype, rng.choice([1, 1, 1, -1], count))
    if kind == "sum":
        return random_data(dtype, count, rng)
    chosen = SPECIAL[: rng.integers(4, len(SPECIAL))]
    return floats(dtype, rng.choice(chosen, count))


@pytest.mark.parametrize("kind", [k.value for k in ReduceKind])
def test_reductions(kind: str) -> None:
    for seed in range(counts(14, 300)):
        rnd, rng, simdgroups, layout = drawn(seed)
        dtype = BOOL if kind in ("any", "all") else rnd.choice(NUMBERS)
        axis = rnd.randrange(layout.rank)
        program = LaidOut(simdgroups)
        x = program.load(layout, dtype, to_reduce(kind, dtype, layout.num_elements, rng))
        given = I32 if kind.startswith("arg") else dtype
        result = None if layout.rank == 1 else reduce_axis(layout, axis).result
        type_ = str(given) if result is None else tile_type(result, given)
        y = program.emit(type_, f"tile.reduce {kind} {axis} {x}")
        program.store(y, result, given)
        program.check()


@pytest.mark.parametrize("kind", [k.value for k in ScanKind])
def test_scans(kind: str) -> None:
    for seed in range(counts(14, 300)):
        rnd, rng, simdgroups, layout = drawn(seed)
        dtype = rnd.choice(NUMBERS)
        axis = rnd.randrange(layout.rank)
        program = LaidOut(simdgroups)
        x = program.load(layout, dtype, to_reduce(kind, dtype, layout.num_elements, rng))
        y = program.emit(tile_type(layout, dtype), f"tile.scan {kind} {axis} {x}")
        program.store(y, layout, dtype)
        program.check()


def test_scans_of_what_is_loaded_coalesced() -> None:
    for seed in range(counts(40, 600)):
        rnd, rng, simdgroups, drawn_layout = drawn(seed)
        shape = drawn_layout.shape
        order = tuple(rnd.sample(range(len(shape)), len(shape)))
        layout = coalesced(shape, order, rnd.choice((1, 2, 4)), simdgroups)
        kind, axis = rnd.choice(list(ScanKind)).value, rnd.randrange(layout.rank)
        program = LaidOut(simdgroups)
        x = program.load(layout, I32, to_reduce(kind, I32, layout.num_elements, rng))
        y = program.emit(tile_type(layout, I32), f"tile.scan {kind} {axis} {x}")
        program.store(y, layout, I32)
        program.check()


# Atomics.


@pytest.mark.parametrize("kind", [k.value for k in AtomicKind])
def test_atomics(kind: str) -> None:
    """Of elements that only one of several updates, the old one is known; of others the sum is."""
    for seed in range(counts(8, 100)):
        rnd, rng, simdgroups, layout = drawn(seed, most=6)
        bits = kind in ("and", "or", "xor")
        dtype = rnd.choice([I32, U32] if bits else [I32, U32, F32])
        count = layout.num_elements
        program = LaidOut(simdgroups)
        contended = kind != "exchange" and rnd.random() < 0.5
        where = rng.integers(0, 3, count) if contended else rng.permutation(count)
        at = program.load(layout, I32, where.astype(np.int32))
        x = program.array(dtype, random_data(dtype, max(count, 3), rng))
        value = program.load(layout, dtype, random_data(dtype, count, rng))
        mask = f", mask={program.load(layout, BOOL, random_data(BOOL, count, rng))}"
        mask = mask if rnd.random() < 0.5 else ""
        old = program.emit(tile_type(layout, dtype), f"tile.atomic {kind} {x}, {at}, {value}{mask}")
        if not contended:
            program.store(old, layout, dtype)
        program.check()


@pytest.mark.parametrize("dtype", [I32, U32, F32], ids=str)
def test_compare_and_swap(dtype: DType) -> None:
    for seed in range(counts(8, 100)):
        _, rng, simdgroups, layout = drawn(seed, most=6)
        count = layout.num_elements
        program = LaidOut(simdgroups)
        at = program.load(layout, I32, rng.permutation(count).astype(np.int32))
        x = program.array(dtype, floats(F32, rng.integers(0, 2, count)).astype(stored(dtype)))
        expected, value = (
            program.load(layout, dtype, rng.integers(0, 3, count).astype(stored(dtype)))
            for _ in range(2)
        )
        old = program.emit(
            tile_type(layout, dtype), f"tile.atomic_cas {x}, {at}, {expected}, {value}"
        )
        program.store(old, layout, dtype)
        program.check()


def test_a_scalar_atomic_is_done_once_and_all_know_the_old_element() -> None:
    for simdgroups in (1, 4):
        program = LaidOut(simdgroups)
        layout = machine_layout(random.Random(0), (64,), simdgroups)
        x = program.array(I32, np.array([5], np.int32))
        zero, two = program.constant(0), program.constant(2)
        old = program.emit("i32", f"tile.atomic add {x}, {zero}, {two}")
        program.store(program.emit(tile_type(layout, I32), f"tile.broadcast {old}"), layout, I32)
        program.check()


def test_atomics_are_of_32_bits() -> None:
    program = LaidOut()
    x = program.array(DTYPES["i64"], np.zeros(1, np.int64))
    one = program.constant(1, "i64")
    program.emit("i64", f"tile.atomic add {x}, {program.constant(0)}, {one}")
    with pytest.raises(LanguageError, match="atomics of 32-bit elements, not of i64"):
        program.check()


# Reports.


@pytest.mark.parametrize("seed", range(counts(20, 200)))
def test_prints(seed: int) -> None:
    """Each element once, whoever else has it."""
    rnd, rng, simdgroups, layout = drawn(seed, most=4)
    dtype = rnd.choice(list(DTYPES.values()))
    program = LaidOut(simdgroups)
    x = program.load(layout, dtype, random_data(dtype, layout.num_elements, rng))
    pid = program.emit("i32", "tile.program_id 0")
    program.lines.append(f'tile.print "x" {x}, {pid}')
    program.check(grid=2)


@pytest.mark.parametrize("seed", range(counts(12, 100)))
def test_asserts(seed: int) -> None:
    rnd, _, simdgroups, layout = drawn(seed)
    for holds in (True, False):
        program = LaidOut(simdgroups)
        truth = np.ones(layout.num_elements, np.bool_)
        truth[rnd.randrange(truth.size)] = holds
        program.lines.append(f'tile.assert "all" {program.load(layout, BOOL, truth)}')
        if holds:
            program.check()
        else:
            with pytest.raises(Exception, match="all"):
                program.check()


# Control flow.


@pytest.mark.parametrize("seed", range(counts(12, 200)))
def test_carried_tiles(seed: int) -> None:
    rnd, rng, simdgroups, layout = drawn(seed)
    dtype = rnd.choice([d for d in NUMBERS if d.kind is not Kind.FLOAT])
    type_ = tile_type(layout, dtype)
    program = LaidOut(simdgroups)
    n = program.argument("i32", rnd.randint(0, 4))
    yes = program.argument("bool", rnd.random() < 0.5)
    x, y = (program.load(layout, dtype, random_data(dtype, layout.num_elements, rng)) for _ in "xy")
    zero, one = program.constant(0), program.constant(1)
    program.lines += [
        f"%p: {type_}, %q: {type_} = for {zero}, {n}, {one} "
        f"(%i: i32, %a: {type_} = {x}, %b: {type_} = {y}) {{",
        f"%c: {type_} = if {yes} {{",
        f"%d: {type_} = add %a, %b",
        "yield %d",
        "} else {",
        "yield %a",
        "}",
        "yield %b, %c",
        "}",
    ]
    program.store("%p", layout, dtype)
    program.store("%q", layout, dtype)
    program.check()


# What must be there before.


def lowered(text: str) -> Module:
    return run(parse(text), "lower-to-metal")


def test_errors_name_the_pass_that_is_missing() -> None:
    with pytest.raises(PipelineError, match="run choose-simdgroups and assign-layouts before"):
        lowered("func tile @f() {\n  return\n}\n")
    for body in (
        "%x: tile<64xi32> = tile.arange 0",
        "%x: tile<64xf32> = constant 0.0\n%y: tile<64xf32> = exp %x",
    ):
        with pytest.raises(PipelineError, match="has no layout; run assign-layouts before"):
            lowered(f"func tile @f simdgroups=1() {{\n{body}\nreturn\n}}\n")


WAITS = """func tile @f simdgroups=1(%L: ptr<i32, noalias>, %D: ptr<i32, noalias>) {
  %c0: i32 = constant 0
  %c1: i32 = constant 1
  while {
    %old: i32 = tile.atomic_cas %L, %c0, %c0, %c1
    %more: bool = compare ne %old, %c0
    yield %more
  } do {
    yield
  }
  tile.store %D, %c0, %c1
  return
}
"""


LIMITED = """%few: bool = compare lt %n, %c1
    %taken: bool = compare ne %old, %c0
    %more: bool = and %few, %taken"""
COUNTED = """    %next: i32 = add %m, %c1
    yield %next
  }
  tile"""


def test_a_target_must_promise_that_others_go_on() -> None:
    with pytest.raises(LanguageError, match="do not promise"):
        run(parse(WAITS), "lower-to-metal")
    lowered = run(parse(WAITS), "lower-to-metal{target=apple-on-cpu}")
    assert str(lowered).count("metal.fence") == 2
    with pytest.raises(LanguageError, match=r"version 3\.2"):
        run(parse(WAITS), Pipeline((LowerToMetal(replace(ON_CPU, language=(3, 1))),)))


def test_a_loop_that_gives_up_needs_no_promise() -> None:
    tries = WAITS.replace("while {", "%i: i32 = while (%n: i32 = %c0) {")
    tries = tries.replace("%more: bool = compare ne %old, %c0", LIMITED)
    tries = tries.replace("do {", "do (%m: i32) {").replace("    yield\n  }\n  tile", COUNTED)
    assert "metal.fence" in str(run(parse(tries), "lower-to-metal"))


def test_the_target_says_what_it_promises() -> None:
    assert not M1.forward_progress
    assert M1.fences
    assert not replace(M1, language=(3, 1)).fences
    assert "lower-to-metal{target=apple-on-cpu}" in str(Options().pipeline(Level.METAL, ON_CPU))
