"""The cost model: its counts are those of programs that run, and it orders what is known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

import iris
from counting import Counting
from iris.compiler.compilation import entry_of
from iris.compiler.kernel import Kernel
from iris.cost.counts import Counts, cost, count
from iris.cost.estimate import estimate, on_chip
from iris.cost.occupancy import second_buffer_pays, simdgroups_per_core
from iris.cost.sample import Sizes
from iris.errors import DeclarationError
from iris.interp.metal import Counters
from iris.ir import parse, tile, to_text
from iris.ir.core import OPS, Level, Module
from iris.targets.apple import GENERATIONS, M1
from iris.targets.nvidia import H100
from metal_programs import function

F32, F16 = np.float32, np.float16


@pytest.fixture(autouse=True)
def device() -> None:
    """Each launch here names its own."""


@iris.kernel
def matmul(A, B, C, N, T: iris.constexpr, TK: iris.constexpr):
    i, j = iris.program_id(0) * T, iris.program_id(1) * T
    acc = iris.zeros((T, T))
    for k in iris.tile_range(0, N, TK):
        acc = iris.dot(
            iris.tile_load(A, i, k, N, (T, TK)), iris.tile_load(B, k, j, N, (TK, T)), acc
        )
    iris.tile_store(C, i, j, N, acc)


@iris.kernel
def softmax(X, Out, N, B: iris.constexpr):
    at = iris.arange(0, B)
    row = iris.program_id(0) * N
    x = iris.load(X + row + at, mask=at < N)
    e = iris.exp(x - iris.max(x))
    iris.store(Out + row + at, e / iris.sum(e), mask=at < N)


@iris.kernel
def attention(Q, K, V, Out, S, D: iris.constexpr, T: iris.constexpr):
    first = iris.program_id(0) * T
    q = iris.tile_load(Q, first, 0, D, (T, D))
    m, total, acc = iris.full((T,), -1e30), iris.zeros((T,)), iris.zeros((T, D))
    for start in iris.tile_range(0, S, T):
        k = iris.tile_load(K, start, 0, D, (T, D))
        v = iris.tile_load(V, start, 0, D, (T, D))
        scores = iris.dot(q, k.T)
        new = iris.maximum(m, iris.max(scores, axis=1))
        p = iris.exp(scores - new[:, None])
        total = total * iris.exp(m - new) + iris.sum(p, axis=1)
        acc = acc * iris.exp(m - new)[:, None] + iris.dot(p.to(v.dtype), v)
        m = new
    iris.tile_store(Out, first, 0, D, acc / total[:, None])


@iris.kernel
def gelu(X, Out, N, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    x = iris.load(X + at, mask=at < N)
    y = 0.5 * x * (1 + iris.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
    iris.store(Out + at, y, mask=at < N)


@iris.kernel
def transpose(X, Out, N, B: iris.constexpr):
    i, j = iris.program_id(0) * B, iris.program_id(1) * B
    iris.tile_store(Out, j, i, N, iris.tile_load(X, i, j, N, (B, B)).T)


@iris.kernel
def histogram(X, Bins, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.atomic_add(Bins + iris.load(X + at), 1)


def zeros(*shape: int, dtype: Any = F32) -> Any:
    return np.zeros(shape, dtype)


LAUNCHES: dict[str, tuple[Kernel, Any, list[Any], dict[str, Any]]] = {
    "matmul": (
        matmul, (4, 2), [zeros(256, 128), zeros(128, 128), zeros(256, 128), 128],
        {"T": 64, "TK": 32, "num_simdgroups": 4},
    ),
    "matmul of f16": (
        matmul, (2, 2), [*[zeros(128, 128, dtype=F16) for _ in range(3)], 128],
        {"T": 64, "TK": 32, "num_simdgroups": 4},
    ),
    "softmax": (softmax, (8,), [zeros(8, 1024), zeros(8, 1024), 1024], {"B": 1024}),
    "attention": (
        attention, (4,), [*[zeros(128, 64) for _ in range(4)], 128],
        {"D": 64, "T": 32, "num_simdgroups": 4},
    ),
    "gelu": (gelu, (4,), [zeros(4096), zeros(4096), 4096], {"B": 1024}),
    "transpose": (transpose, (2, 2), [zeros(128, 128), zeros(128, 128), 128], {"B": 64}),
    "histogram": (
        histogram, (4,), [zeros(256, dtype=np.int32), zeros(4, dtype=np.int32)], {"B": 64}
    ),
}  # fmt: skip


def counted(name: str) -> tuple[Counts, Counters, int]:
    """The counts of the model, those of a run, and how many programs that was."""
    kernel, grid, arguments, named = LAUNCHES[name]
    device = Counting()
    kernel[grid](*arguments, device=device, **named)
    found = kernel.lower(*arguments, grid=grid, **named).estimate
    return found.counts, device.counters, prod(grid)


@pytest.mark.parametrize("name", LAUNCHES)
def test_counts_are_those_of_a_run(name: str) -> None:
    """All of them, where no program is at an edge."""
    found, ran, programs = counted(name)

    def each(number: int) -> int:
        assert number % programs == 0
        return number // programs

    assert found.flops == each(ran.flops)
    assert found.mmas == each(ran.mmas)
    assert found.atomics == each(ran.atomics.total())
    assert found.shuffles == each(ran.shuffles.total())
    assert found.barriers == {k: each(n) for k, n in ran.barriers.items()}
    assert found.functions == {k: each(n) for k, n in ran.transcendentals.items()}
    device, shared = found.device, found.shared
    loads, stores = ran.device_loads, ran.device_stores
    assert (device.loaded, device.stored) == (each(loads.bytes), each(stores.bytes))
    assert device.lines == each(loads.lines + stores.lines)
    assert device.instructions == each(loads.instructions + stores.instructions)
    banked = ran.threadgroup_loads, ran.threadgroup_stores
    assert (shared.loaded, shared.stored) == tuple(each(b.bytes) for b in banked)
    assert shared.instructions == sum(each(b.instructions) for b in banked)
    # Only where every instruction moves whole rounds of all banks: else the last is counted up.
    if name == "transpose":
        conflicts = each(sum(b.conflicts for b in banked))
        assert shared.cycles == shared.bytes // 128 + conflicts
    assert found.guesses == 0


def test_counts_near_an_edge_are_those_of_a_program_inside() -> None:
    x = zeros(250, 250)
    kernel, grid, arguments = matmul, (4, 4), [x, x.copy(), x.copy(), 250]
    named = {"T": 64, "TK": 32, "num_simdgroups": 4}
    device = Counting()
    kernel[grid](*arguments, device=device, **named)
    found = kernel.lower(*arguments, grid=grid, **named).estimate.counts
    assert found.mmas * 16 == device.counters.mmas
    assert found.barriers["threadgroup"] * 16 == device.counters.barriers["threadgroup"]
    ran = device.counters.device_loads.bytes + device.counters.device_stores.bytes
    assert ran <= found.device.bytes * 16 <= 1.1 * ran


HEAD = "%X: ptr<f32>, %n: i32, %yes: bool"


def counts(body: str, sizes: dict[str, int] | None = None, simdgroups: int = 2) -> Counts:
    return count(function(HEAD, body, simdgroups), Sizes((5, 1, 1), sizes or {}))


def test_loops_multiply() -> None:
    body = """
        %x: f32 = constant 1.0
        for %c0, %n, %c2 (%i: i32) {
          metal.foreach 3 (%j: i32) {
            %y: f32 = fma %x, %x, %x
            yield
          }
          yield
        }
        """
    assert counts(body, {"n": 7}).flops == 4 * 3 * 2 * 64
    assert counts(body, {"n": 0}).flops == 0
    assert counts(body).flops == 512 * 3 * 2 * 64  # nobody said how many
    known = "%m: i32 = assume_divisible 48 %n\n" + body.replace("%c0, %n", "%c0, %m")
    assert counts(known).flops == 528 * 3 * 2 * 64


def test_the_longest_of_the_loops_that_threads_run() -> None:
    body = """
        for %c0, %t, %c1 (%i: i32) {
          metal.barrier simdgroup
          yield
        }
        """
    assert counts(body).barriers["simdgroup"] == 63 * 2


def test_a_loop_that_nobody_knows_runs_once_and_is_said() -> None:
    body = """
        %at: f32 = metal.load %X, %c0
        %m: i32 = cast %at
        for %c0, %m, %c1 (%i: i32) {
          metal.store %X, %m, %at
          yield
        }
        %z: i32 = while (%a: i32 = %c0) {
          %more: bool = compare lt %a, %m
          yield %more
        } do (%b: i32) {
          %y: f32 = add %at, %at
          yield %m
        }
        """
    found = counts(body)
    assert found.guesses == 3  # two loops, and where is stored
    assert found.flops == 64
    # Each lane has a line to itself; the load is of one for each simdgroup.
    assert found.device.lines == 2 + 64


def test_branches_by_the_threads_that_take_them() -> None:
    body = """
        %x: f32 = constant 1.0
        %some: bool = compare lt %t, %c32
        if %some {
          %a: f32 = add %x, %x
          yield
        } else {
          %b: f32 = fma %x, %x, %x
          yield
        }
        %few: bool = compare lt %lane, %c4
        metal.store %X, %t, %x, mask=%few
        if %yes {
          %c: f32 = exp %x
          yield
        } else {
          %d: f32 = exp2 %x
          yield
        }
        """
    found = counts(body)
    assert found.flops == 32 + 2 * 32
    assert found.device.stored == 2 * 4 * 4
    assert found.device.lines == found.device.instructions == 2
    assert found.functions == {"exp": 64, "exp2": 64}
    assert counts(body, {"yes": 0}).functions == {"exp2": 64}


def test_how_lanes_share_lines_and_banks() -> None:
    body = """
        %s: threadgroup<2048xf32> = metal.alloc
        %at: i32 = mul %lane, %c32
        %x: f32 = metal.load %X, %at
        %y: f32 = metal.load %X, %lane
        metal.store %s, %at, %x
        metal.store %s, %lane, %y
        """
    found = counts(body, simdgroups=1)
    assert found.device.lines == 32 + 1
    assert found.shared.cycles == 32 + 1
    assert (found.device.loaded, found.shared.stored) == (256, 256)


def test_integers_of_register_arrays_are_followed() -> None:
    body = """
        %q: regs<4xi32> = metal.pattern [1, 32]
        %l: regs<4xi32> = metal.splat %lane
        %four: regs<4xi32> = metal.literal [0, 64, 0, 64]
        %odd: regs<4xbool> = compare eq %q, %four
        %v: regs<4xi32> = select %odd, %q, %l
        %w: regs<2xi32> = metal.take [1, 2] %v
        %u: regs<3xi32> = metal.join %w, %lane
        %one: i32 = metal.slice %u, %c2
        %first: i32 = metal.take [0] %u
        %x: f32 = constant 1.0
        metal.store %X, %one, %x
        metal.store %X, %first, %x
        """
    found = counts(body, simdgroups=1)
    assert found.guesses == 0
    assert found.device.lines == 2


def test_every_op_has_a_rule() -> None:
    ours = [op for op in OPS.values() if op.__module__.startswith("iris.")]
    here = [op for op in ours if op.level in (None, Level.METAL) and op.name != "func"]
    assert len(here) > 60
    assert [op.name for op in here if cost.get(op) is None] == []


def test_an_op_without_a_rule_is_an_error() -> None:
    with pytest.raises(DeclarationError, match=r"tile\.dot has no rule for 'cost'"):
        cost[tile.Dot]


# What a core holds.


def test_simdgroups_that_a_core_holds() -> None:
    assert simdgroups_per_core(0, 4, M1) == 32
    assert simdgroups_per_core(16, 4, M1) == 32
    assert simdgroups_per_core(20 * 1024, 4, M1) == 12
    assert simdgroups_per_core(32 * 1024, 16, M1) == 16
    assert simdgroups_per_core(32 * 1024 + 16, 4, M1) == 0
    assert [simdgroups_per_core(0, 1, M1, r) for r in (52, 53, 64, 104, 128, 200)] == [
        32, 28, 26, 16, 12, 12
    ]  # fmt: skip
    assert simdgroups_per_core(0, 32, M1, 128) == 32  # compiled with fewer registers
    assert simdgroups_per_core(0, 8, M1, 64) == 24


def test_a_second_buffer_pays_where_there_is_room() -> None:
    one = (64 * 40 + 32 * 72) * 2  # of f16, 64x64x32
    assert simdgroups_per_core(one, 4, M1) == 24
    assert simdgroups_per_core(2 * one, 4, M1) == 12
    assert not second_buffer_pays(one, 2 * one, 4, M1)
    assert second_buffer_pays(one, 2 * one, 8, M1)  # 24 simdgroups are left
    assert second_buffer_pays(1024, 2048, 4, M1)
    assert not second_buffer_pays(2 * one, 4 * one, 8, M1)  # more than a program may have
    # Where registers leave room for few, two buffers take nothing from them.
    assert second_buffer_pays(one, 2 * one, 4, M1, registers=128)
    assert simdgroups_per_core(2 * one, 4, M1, 128) == simdgroups_per_core(one, 4, M1, 128) == 12


# Estimates.


def gemm(tile: int, steps: int, simdgroups: int, dtype: Any = F32, n: int = 512) -> Any:
    a, b, c = zeros(n, n, dtype=dtype), zeros(n, n, dtype=dtype), zeros(n, n)
    grid = (n // tile, n // tile)
    return matmul.lower(a, b, c, n, grid=grid, T=tile, TK=steps, num_simdgroups=simdgroups).estimate


def test_what_larger_tiles_buy_and_cost() -> None:
    """Fewer lines for each product, for fewer simdgroups on a core."""
    small, large = gemm(64, 32, 4), gemm(128, 32, 4)
    assert large.counts.mmas == 4 * small.counts.mmas
    assert large.counts.device.lines < 3 * small.counts.device.lines
    assert large.threadgroup_bytes > small.threadgroup_bytes
    assert large.registers > small.registers
    for a, b in zip(small.chips, large.chips, strict=True):
        assert a.simdgroups > b.simdgroups
        assert a.milliseconds < b.milliseconds


def test_smaller_steps_leave_room_for_more() -> None:
    """Half the threadgroup memory, for twice the barriers: as MLX and Metal.jl have it."""
    long, short = gemm(64, 32, 4), gemm(64, 16, 4)
    assert short.counts.barriers["threadgroup"] == 2 * long.counts.barriers["threadgroup"]
    assert short.counts.mmas == long.counts.mmas
    for a, b in zip(long.chips, short.chips, strict=True):
        assert a.simdgroups < b.simdgroups
        assert b.milliseconds < a.milliseconds


def test_operands_of_16_bits_take_half_the_threadgroup_memory() -> None:
    f32, f16 = gemm(64, 32, 4), gemm(64, 32, 4, F16)
    assert f16.counts.shared.bytes * 2 == f32.counts.shared.bytes
    assert f16.chips[-1].simdgroups == 2 * f32.chips[-1].simdgroups == 24
    assert f16.chips[0].spent["matrix"] == f32.chips[0].spent["matrix"]
    assert f16.chips[0].milliseconds < f32.chips[0].milliseconds


def test_products_of_matrices_are_arithmetic_and_elementwise_kernels_memory() -> None:
    for on in gemm(64, 32, 4, n=2048).chips:
        assert on.bottleneck == "arithmetic"
        assert 0.5 < on.peak < 1
    x = zeros(1 << 20)
    found = gelu.lower(x, x.copy(), x.size, grid=1024, B=1024).estimate
    for on in found.chips:
        assert on.bottleneck == "memory"
        assert on.bandwidth == 1
        assert on.milliseconds == pytest.approx(2 * x.nbytes / on.chip.bandwidth / 1e6)


def test_one_function_of_hardware_of_its_own_costs_more_than_arithmetic() -> None:
    head = "%x: f32 = constant 1.0\n"
    spent = {}
    for op in ("add %x, %x", "exp2 %x", "rsqrt %x", "sin %x", "div %x, %x"):
        f = function(HEAD, f"{head}%y: f32 = {op}", 4)
        spent[op.split()[0]] = estimate(f).chips[0].spent["alu"]
    assert spent["add"] < spent["exp2"] < spent["div"] < spent["rsqrt"] < spent["sin"]
    wide = "%a: i64 = cast %lane\n%b: i64 = add %a, %a"
    assert estimate(function(HEAD, wide, 4)).counts.work["wide"] == 128


def test_parts_of_a_core_compute_at_a_time_if_it_starts_as_much() -> None:
    def cycles(**ops: int) -> tuple[float, float]:
        made = [f"%{op}_{n}: f32 = {op} %x" for op, times in ops.items() for n in range(times)]
        body = "\n".join(["%x: f32 = constant 1.0", *made])
        chips = estimate(function(HEAD, body, 4), Sizes((1 << 14, 1, 1)), H100).chips
        return chips[0].spent["alu"], chips[-1].spent["alu"]

    # Each of 128 threads shifts and adds integers to find its number.  In a cycle an H100 starts
    # 128 elements, and 16 of these may be functions.  On an M1 all take turns.
    place = 2
    assert cycles(exp2=4) == (place + 4 * 4, 32)
    assert cycles(exp2=4, neg=26) == (place + 4 * 4 + 26, 32)
    assert cycles(exp2=4, neg=36) == (place + 4 * 4 + 36, 42)
    assert cycles(exp2=4, rsqrt=3, neg=26) == (place + 4 * 4 + 3 * 8 + 26, 56)


def test_products_of_matrices_wait_for_functions_of_them() -> None:
    def cycles(product: str) -> float:
        made = [f"%{op}_{n}: f32 = {op} %y" for op in ("exp2", "neg") for n in range(64)]
        body = "\n".join(["%y: f32 = constant 1.0", *made, product])
        return estimate(function(HEAD, body, 4), Sizes(), H100).chips[-1].spent["alu"]

    product = """
        %z: regs<2xf16> = constant 0.0
        %acc: regs<2xf32> = constant 0.0
        %d: regs<2xf32> = metal.mma %z, %z, %acc
        """
    place = 2
    assert cycles("") == 64 * 8
    assert cycles(product) == place + 64 * 8 + 64


def test_barriers_make_a_program_wait_unless_others_fill_the_gaps() -> None:
    body = """
        %s: threadgroup<BYTESxf32> = metal.alloc
        %x: f32 = metal.load %X, %t
        metal.store %s, %t, %x
        metal.barrier threadgroup
        %y: f32 = metal.load %s, %t
        metal.store %X, %t, %y
        """

    def on(size: int) -> Any:
        f = function(HEAD, body.replace("BYTES", str(size)), 4)
        return estimate(f, Sizes((1024, 1, 1), {})).chips[0]

    alone, among_others = on(8192), on(128)
    assert alone.spent == among_others.spent
    assert alone.simdgroups < among_others.simdgroups
    assert alone.cycles > among_others.cycles


SUMS = """
    for %c0, %n, %c1 (%i: i32) {
      metal.foreach TIMES (%j: i32) {
        %y: f32 = metal.load %X, %t
        %z: f32 = exp %y
        yield
      }
      yield
    }
    """


def sums(iterations: int, loads: int, programs: int) -> Any:
    """What it costs on an H100 that programs load, iteration by iteration."""
    f = function(HEAD, SUMS.replace("TIMES", str(loads)), 4)
    return estimate(f, Sizes((programs, 1, 1), {"n": iterations}), H100)


def test_an_iteration_waits_once_for_all_that_it_loads() -> None:
    many, few = sums(400, 1, 132), sums(100, 4, 132)
    assert (many.counts.waits, few.counts.waits) == (400, 100)
    assert many.counts.device.loaded == few.counts.device.loaded
    (slow,), (fast,) = ([on for on in x.chips if on.chip is H100] for x in (many, few))
    assert slow.bottleneck == "latency" and slow.milliseconds > 2 * fast.milliseconds
    # Of twice the programs, as many as a core holds wait together.
    twice = sums(400, 1, 264).chips[-1]
    assert twice.milliseconds < 1.2 * slow.milliseconds


def waits(body: str) -> tuple[int, float]:
    """How often a program waits for what 7 iterations load, and for how long on an H100."""
    loop = f"""
        %s: threadgroup<128xf32> = metal.alloc
        for %c0, %n, %c1 (%i: i32) {{{body}}}
        """
    f = function("%X: ptr<f32, aligned>, %n: i32", loop, 4)
    found = estimate(f, Sizes((132, 1, 1), {"n": 7}), H100)
    return found.counts.waits, found.chips[-1].milliseconds


def test_loads_after_a_barrier_are_waited_for_again() -> None:
    both = "%y: f32 = metal.load %X, %t {} %z: f32 = metal.load %X, %t yield"
    found = [waits(both.format(f"metal.barrier {scope}")) for scope in ("threadgroup", "device")]
    together = waits("metal.barrier device " + both.format(""))
    assert found[0] == found[1]
    assert found[0][0] == 2 * together[0] == 14
    assert found[0][1] > 1.5 * together[1]


def test_copies_are_waited_for_where_they_begin_unless_a_later_iteration_waits() -> None:
    copy = "metal.copy 1 %s, %t, %X, %t "
    wait = "metal.wait_copies {} metal.barrier threadgroup "
    use = "%y: f32 = metal.load %s, %c0 metal.barrier threadgroup "
    at_once = waits(copy + wait.format(0) + use + "yield")
    load = "%z: f32 = metal.load %X, %t metal.store %s, %t, %z metal.barrier threadgroup "
    loaded = waits(load + use + "yield")
    assert at_once[0] == loaded[0] == 7
    assert at_once[1] == pytest.approx(loaded[1], rel=0.1)
    for later in (wait.format(0) + use + copy, copy + wait.format(1) + use):
        meanwhile = waits(later + "yield")
        assert meanwhile[0] == 0 and meanwhile[1] < at_once[1]


def test_what_starts_at_a_time_loads_and_computes_in_turn() -> None:
    found = [sums(100, 16, 132 * 16 * waves).chips[-1].milliseconds for waves in (1, 4, 16)]
    assert found[0] > found[1] / 4 > found[2] / 16


def test_the_last_round_takes_as_long_as_a_launch_of_its_own() -> None:
    def time(programs: int) -> float:
        return sums(10, 4, programs).chips[-1].milliseconds

    round_ = H100.cores * sums(10, 4, 1).chips[-1].simdgroups // 4
    full, alone = time(3 * round_), time(7)
    assert time(3 * round_ + 7) == pytest.approx(full + alone)
    assert alone > 5 * full * 7 / (3 * round_)


def adding(sums: int, terms: int, programs: int, held: int) -> Any:
    """What it costs on an H100 that 4 simdgroups of a program add products to sums of a thread."""
    work = {"alu": 4 * 32 * sums * terms}
    counts = Counts(work=Counter(work), sums=Counter(work), terms=4 * terms, copies=terms)
    return on_chip(H100, counts, Sizes((programs, 1, 1)), 4, held, 0)


@pytest.mark.parametrize("sums, each", [(8, 1), (32, 1), (32, 2), (32, 5), (128, 2)])
def test_simdgroups_that_add_to_sums_wait_for_terms_at_times_of_their_own(
    sums: int, each: int
) -> None:
    """Each is in its cycle, of a wait and of an addition to all sums, at a random time."""
    wait = int(H100.core.threadgroup_cycles)
    times = np.random.default_rng(0).integers(wait + sums, size=(200_000, each))
    busy = (times >= wait).any(axis=1).mean()
    terms = 1000
    cycles = adding(sums, terms, H100.cores * each, 4 * each).cycles
    assert each * sums * terms / (each * cycles) == pytest.approx(busy, rel=0.02)


def test_few_programs_of_the_last_round_add_products_more_slowly() -> None:
    round_ = 4 * H100.cores
    full, alone = (adding(32, 1000, n, 16).milliseconds for n in (2 * round_, H100.cores))
    assert adding(32, 1000, 2 * round_ + H100.cores, 16).milliseconds == pytest.approx(full + alone)
    assert alone > 1.5 * full / 8


def test_a_product_of_scalars_adds_each_term_to_all_sums_of_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("IRIS_TARGET", "nvidia-h100")
    a, b, c = (zeros(256, 256) for _ in range(3))
    found = matmul.lower(a, b, c, 256, grid=(4, 4), T=64, TK=16).estimate
    assert found.counts.sums["alu"] == 64 * 64 * 256
    assert found.counts.terms == 256 * found.simdgroups


def test_a_loop_with_masked_loads_adds_terms_to_sums() -> None:
    """Of such a loop only some iterations are looked at."""
    body = """
        %start: regs<16xf32> = constant 0.0
        %zero: f32 = constant 0.0
        %sums: regs<16xf32> = metal.foreach 16 in_place=[0] (%j: i32) {
          %x: f32 = metal.load %X, %j, mask=%yes, other=%zero
          %sum: f32 = metal.slice %start, %j
          %y: f32 = fma %x, %x, %sum
          yield %y
        }
        """
    found = counts(body, simdgroups=1)
    assert (found.sums["alu"], found.terms) == (16 * 32, 1)
    assert 0 < estimate(function(HEAD, body, 1), Sizes(), H100).chips[-1].milliseconds < 1


def test_a_program_alone_on_a_core_loads_and_computes_in_turn() -> None:
    def of(number: int, body: str) -> float:
        head = f"%s: threadgroup<{number}xf32> = metal.alloc %one: f32 = constant 1.0"
        loop = f"{head} for %c0, %n, %c1 (%i: i32) {{{body} yield}}"
        found = estimate(function(HEAD, loop, 4), Sizes((132 * 64, 1, 1), {"n": 100}), H100)
        return found.chips[-1].milliseconds

    load = "metal.foreach 16 (%j: i32) { %y: f32 = metal.load %X, %t yield }"
    compute = "metal.foreach 16 (%k: i32) { %z: f32 = exp %one yield }"
    for number, least, most in ((56_000, 0.95, 1.05), (32, 0.5, 0.9)):
        both = of(number, load + compute)
        assert least < both / (of(number, load) + of(number, compute)) < most


def test_no_launch_moves_more_than_kernels_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_TARGET", "nvidia-h100")
    x = zeros(1 << 22)
    *_, on = gelu.lower(x, x.copy(), x.size, grid=4096, B=1024).estimate.chips
    least = 2 * x.nbytes / on.chip.bandwidth / 1e6
    assert on.chip == H100 and on.bottleneck == "memory"
    assert on.bandwidth * on.milliseconds == pytest.approx(least / H100.reach)
    assert H100.reach < 1 and on.bandwidth <= 1


def test_what_a_core_has_loaded_it_finds_in_its_cache_if_that_is_large_enough() -> None:
    loop = """
        for %c0, %n, %c1 (%i: i32) {
          %k: i32 = mul %i, %c64
          %at: i32 = add %t, %k
          %y: f32 = metal.load %X, %at
          yield
        }
        """

    def passed(body: str, iterations: int, programs: int) -> float:
        f = function(HEAD, "%c64: i32 = constant 64" + body)
        found = estimate(f, Sizes((programs, 1, 1), {"n": iterations}), H100)
        return found.chips[-1].spent["L2"]

    cache = H100.core.l1_cache_bytes
    for iterations, together in ((100, 1), (100, 32), (10_000, 1)):
        hits = min(1, cache / (128 * iterations * together))
        once, twice = (passed(n * loop, iterations, 132 * together) for n in (1, 2))
        assert twice == pytest.approx((2 - hits) * once)
    assert hits < 1
    found = counts("%c64: i32 = constant 64" + loop + loop, {"n": 7})
    assert (found.fetched, found.again) == (2 * 7 * 4 * 64, 7 * 4 * 64)


def test_values_of_a_loop_that_have_no_registers_go_through_the_caches() -> None:
    carried = """
        %zeros: regs<COUNTxf32> = constant 0.0
        %sums: regs<COUNTxf32> = for %c0, %n, %c1 (%i: i32, %x: regs<COUNTxf32> = %zeros) {
          %y: regs<COUNTxf32> = add %x, %x
          yield %y
        }
        """

    def passed(count: int, iterations: int) -> float:
        f = function(HEAD, carried.replace("COUNT", str(count)), 1)
        return estimate(f, Sizes((132, 1, 1), {"n": iterations}), H100).chips[-1].spent["L2"]

    assert passed(64, 1000) == 0
    # A thread has registers for half of the elements.
    all_of_them = 510 * 4 * 32 * 1000 / H100.core.l2_bytes
    assert passed(510, 1000) == pytest.approx(all_of_them / 2, rel=0.05)


def test_nobody_waits_for_what_is_stored() -> None:
    def cycles(op: str) -> float:
        f = function(HEAD, f"%x: f32 = constant 1.0\n{op}\nmetal.barrier threadgroup", 32)
        return estimate(f, Sizes((8, 1, 1), {})).chips[0].cycles

    assert cycles("metal.store %X, %t, %x") < cycles("%y: f32 = metal.load %X, %t")


def test_loops_without_barriers_do_not_wait_for_those_outside() -> None:
    barrier = "metal.barrier threadgroup\n"
    loop = SUMS.replace("TIMES", "1")
    outside, inside = loop + barrier, loop.replace("metal.foreach", barrier + "metal.foreach")
    for body, apart in ((outside, 7 * 4 * 64), (inside, 0)):
        found = counts(body, {"n": 7})
        assert found.device.loaded == 7 * 4 * 64 and found.barriers["threadgroup"]
        assert found.apart is not None and found.apart.device.loaded == apart


def test_functions_take_what_exactness_costs_where_it_is_known() -> None:
    def work(dtype: str, attributes: str = "") -> list[int]:
        body = f"%x: {dtype} = constant 1.0\n%y: {dtype} = exp %x"
        text = to_text(Module([function(HEAD, body)]))
        text = text.replace("simdgroups=1", f"simdgroups=1{attributes}")
        return [count(entry_of(parse(text)), Sizes(), on).work["alu"] for on in (M1, H100)]

    apple, nvidia = work("f32")
    assert nvidia == apple + 32 * H100.core.exactness["exp"]
    assert work("f32", ", fast_math=true") == work("f16") == [apple, apple]


def test_an_estimate_is_a_table_of_chips() -> None:
    lines = str(gemm(64, 32, 4)).splitlines()
    assert lines[0].startswith("@matmul: 64 programs of 4 simdgroups, ")
    assert "4096 matrix products" in lines[1]
    assert "32 threadgroup barriers" in lines[1]
    assert "guesses" not in lines[1]
    assert [line.split()[0] for line in lines[3:]] == [chip.name for chip in GENERATIONS]
    assert len({len(line) for line in lines[2:]}) == 1


def test_the_target_decides() -> None:
    body = "%x: f32 = metal.load %X, %t"
    wide = replace(M1, line_bytes=256)
    assert count(function(HEAD, body, 2), target=wide).device.lines == 2
    assert count(function(HEAD, body.replace("%t", "%lane"), 2)).device.lines == 2


def test_of_the_middle_program() -> None:
    """Of `p`, that is the second of five."""
    body = """
        %x: f32 = constant 1.0
        %is_two: bool = compare eq %p, %c2
        if %is_two {
          %a: f32 = exp %x
          yield
        } else {
          yield
        }
        """
    assert counts(body).functions == {"exp": 64}


def test_lowered_kernels_are_what_is_estimated() -> None:
    kernel, grid, arguments, named = LAUNCHES["softmax"]
    lowered = kernel.lower(*arguments, grid=grid, **named)
    sizes = Sizes((8, 1, 1), {"X": (8, 1024), "Out": (8, 1024), "N": 1024})
    expected = estimate(entry_of(lowered.stages[-1].module), sizes)
    assert lowered.estimate == expected


def test_a_launch_of_no_programs_takes_no_time() -> None:
    kernel, _, arguments, named = LAUNCHES["softmax"]
    lowered = kernel.lower(*arguments, grid=8, **named)
    function = entry_of(lowered.stages[-1].module)
    for chip in estimate(function, Sizes((0, 1, 1))).chips:
        assert chip.milliseconds == 0
