"""Blocks of products and numbers of simdgroups are those that cost least on the target."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import iris
from iris import nn
from iris.compiler.array_compilation import KernelCompilation
from iris.compiler.compilation import entry_of
from iris.compiler.graph_kernels import kernels_of
from iris.cost.resources import needs_of
from iris.ir.core import Level
from iris.ir.text.parser import parse
from iris.passes import run
from iris.passes.graph.tiling import predict
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule
from iris.passes.graph.tiling.predict import has_dots, predicted
from iris.passes.graph.tiling.refine_schedule import neighbours, refined
from iris.passes.graph.tiling.tile_limits import MAX_TILE_BYTES
from iris.passes.graph.tiling.tile_program import schedule_of
from iris.targets import find

TARGETS = ["apple-m1", "apple-m4", "nvidia-h200"]


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


def product(x: Any, w: Any) -> Any:
    return x @ w


def hidden(x: Any, w: Any) -> Any:
    return np.tanh(x @ w + 1)


def shares(x: Any, w: Any) -> Any:
    e = np.exp(x @ w - (x @ w).max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = np.exp(q @ k.T - (q @ k.T).max(1, keepdims=True))
    return scores / scores.sum(1, keepdims=True) @ v


def causal(q: Any, k: Any, v: Any) -> Any:
    scores = np.where(np.tri(len(q), dtype=bool), q @ k.T, -np.inf)
    scores = np.exp(scores - scores.max(1, keepdims=True))
    return scores / scores.sum(1, keepdims=True) @ v


def kernels(function: Any, *arguments: Any) -> list[KernelCompilation]:
    return iris.jit(function).kernels(*arguments)


def with_schedule(kernel: KernelCompilation, schedule: Any) -> KernelCompilation:
    """The kernel by another schedule."""
    module = parse(str(kernel.traced))
    (own,) = kernels_of(entry_of(module), keep_schedules=True)
    own.op.attributes = (own.op.symbol, schedule.written)
    (again,) = kernels_of(entry_of(module), keep_schedules=True)
    return KernelCompilation(again)


def milliseconds(kernel: KernelCompilation, target: str) -> float:
    """What the lowered kernel costs."""
    (chip,) = [c for c in kernel.estimate.chips if c.chip.name == target]
    return chip.milliseconds


PRODUCTS = [
    (product, zeros(4096, 4096), zeros(4096, 4096)),
    (product, zeros(4096, 4096, dtype=np.float16), zeros(4096, 4096, dtype=np.float16)),
    (product, zeros(128, 4096), zeros(4096, 4096)),
    (hidden, zeros(1024, 100), zeros(100, 1024)),
    (attention, *[zeros(4096, 64, dtype=np.float16)] * 3),
    (causal, *[zeros(4096, 64, dtype=np.float16)] * 3),
]


class Lowered(NamedTuple):
    """What a product costs when it is lowered, in microseconds."""

    own: float
    by: dict[KernelSchedule, float]  # its own schedule and neighbours, if they fit


@cache
def lowered(case: int, target: str) -> Lowered:
    function, *arguments = PRODUCTS[case]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IRIS_TARGET", target)
        (kernel,) = kernels(function, *arguments)
        own = schedule_of(kernel.kernel.op)
        assert has_dots(own)
        fit = [
            schedule
            for schedule in (own, *neighbours(own))
            if predicted(schedule, schedule.simdgroups, find(target)).fits
        ]
        by = {s: 1e3 * milliseconds(with_schedule(kernel, s), target) for s in fit}
        return Lowered(1e3 * milliseconds(kernel, target), by)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", range(len(PRODUCTS)))
def test_what_is_predicted_is_what_lowered_kernels_cost(case: int, target: str) -> None:
    for schedule, cost in lowered(case, target).by.items():
        known = predicted(schedule, schedule.simdgroups, find(target))
        assert 0.6 * cost < known.microseconds - 1.3 < 1.5 * cost, schedule.written


@pytest.mark.parametrize("rows, columns", [(64, 64), (1024, 32), (256, 16)])
def test_products_whose_rows_are_reduced_are_computed_once(rows: int, columns: int) -> None:
    """A simdgroup has whole rows of them, so few rows keep few simdgroups busy."""
    (kernel,) = kernels(shares, zeros(rows, 64), zeros(64, columns))
    estimate = kernel.estimate
    assert estimate.counts.mmas * estimate.sizes.programs == rows * 64 * columns // 512
    own = schedule_of(kernel.kernel.op)
    lowered = milliseconds(kernel, "apple-m1")
    known = predicted(own, own.simdgroups, find("apple-m1")).microseconds - 1.3
    assert 0.6 * 1e3 * lowered < known < 1.5 * 1e3 * lowered


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", range(len(PRODUCTS)))
def test_lowered_kernels_with_other_blocks_cost_no_less(case: int, target: str) -> None:
    own, by = lowered(case, target)
    assert min(by.values()) > 0.9 * own


def test_two_targets_have_other_blocks_and_the_reason_is_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = [zeros(4096, 4096, dtype=np.float16)] * 2
    reasons = {}
    for target in ("apple-m1", "nvidia-h200"):
        monkeypatch.setenv("IRIS_TARGET", target)
        (kernel,) = kernels(product, *arguments)
        head, own, reason, *others = kernel.why.splitlines()
        assert target in head
        assert own.startswith("-> ")
        assert others
        reasons[target] = own.split(": ", 1)[1], reason.strip().split(",")[0]
    assert reasons == {
        "apple-m1": (
            "[i0: programs 64 of 4096, i1: programs 64 of 4096, k0: loop 32 of 4096, "
            "simdgroups: 4]",
            "limited by arithmetic",
        ),
        "nvidia-h200": (
            "[i0: programs 256 of 4096, i1: programs 128 of 4096, k0: loop 64 of 4096, "
            "simdgroups: 8]",
            "limited by waiting",
        ),
    }


def test_two_targets_make_attention_in_other_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """An H200 has too many cores for one program to take 64 queries."""
    reasons = {}
    for target in ("apple-m1", "nvidia-h200"):
        monkeypatch.setenv("IRIS_TARGET", target)
        compilation = iris.jit(attention).lower(*[zeros(2048, 64)] * 3)
        reasons[target] = " ".join(map(str, compilation.why))
    assert not reasons["apple-m1"]
    assert "tensor<2048x2048xf32> is written to memory" in reasons["nvidia-h200"]


@pytest.mark.parametrize(("terms", "padded"), [(40, 48), (80, 80), (100, 112)])
def test_the_last_terms_are_padded_to_sixteen(terms: int, padded: int) -> None:
    (kernel,) = kernels(product, zeros(1024, terms), zeros(terms, 1024))
    counts = kernel.estimate.counts
    assert counts.mmas * kernel.estimate.sizes.programs == (1024 // 8) ** 2 * padded // 8


def test_a_schedule_that_has_no_room_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the blocks are that `refined` starts from."""
    (kernel,) = kernels(product, zeros(512, 512), zeros(512, 512))
    own = schedule_of(kernel.kernel.op)
    rows, columns, _ = own.elements.axes
    large = own.with_blocks({rows: 128, columns: 128}, 1)
    target = find("apple-m1")
    assert "registers" in predicted(large, 1, target).reason
    assert not predicted(large, 1, target).fits
    found = refined(large, MAX_TILE_BYTES, target)
    assert predicted(found, found.simdgroups, target).fits


def test_blocks_do_not_outgrow_the_tiles_that_there_is_room_for() -> None:
    (kernel,) = kernels(product, zeros(512, 512), zeros(512, 512))
    own = schedule_of(kernel.kernel.op)
    rows, columns, _ = own.elements.axes
    small = own.with_blocks({rows: 16, columns: 16}, 1)
    found = refined(small, MAX_TILE_BYTES // 16, find("apple-m1"))
    assert own.lanes[rows] * own.lanes[columns] == 64 * 64
    assert 16 * 16 < found.lanes[rows] * found.lanes[columns] <= 32 * 32


@pytest.mark.parametrize("simdgroups", [1, 2, 4, 8])
@pytest.mark.parametrize("columns", [64, 128])
def test_threads_have_room_for_operands_on_their_way_to_threadgroup_memory(
    columns: int, simdgroups: int
) -> None:
    target = find("apple-m1")
    (kernel,) = kernels(product, zeros(512, 512), zeros(512, 512))
    own = schedule_of(kernel.kernel.op)
    down, across, terms = own.elements.axes
    blocks = own.with_blocks({down: 32, across: columns, terms: 32}, simdgroups)
    lowered = with_schedule(kernel, blocks).kernel.lowered(Level.METAL, target)
    fits = needs_of(lowered, target).registers <= target.thread_registers
    assert predicted(blocks, simdgroups, target).fits is fits


@pytest.mark.parametrize(
    "function, shapes",
    [
        (lambda x, w: np.tanh(x @ w) * (x @ w), [(512, 512)] * 2),
        (lambda x, w, v: np.tanh(x @ w) * (x @ v), [(512, 512)] * 3),
        (lambda q, k, v: nn.softmax(q @ k.T) @ v, [(512, 64)] * 3),
    ],
)
def test_registers_are_those_of_what_a_loop_carries_and_vectors_of_the_rest(
    function: Callable[..., Any], shapes: list[tuple[int, ...]]
) -> None:
    (kernel,) = kernels(function, *[zeros(*shape) for shape in shapes])
    own, target = schedule_of(kernel.kernel.op), find("apple-m1")
    known = re.search(r"(\d+) registers", predicted(own, own.simdgroups, target).reason)
    assert known is not None
    assert 0.75 < kernel.estimate.registers / int(known[1]) < 1.25


CENTRED = """
func graph @f returns=[tensor<@imagesx256x784xf32>](%x: tensor<@imagesx256x784xf32>) {
  %y: tensor<@imagesx256x784xf32> = graph.kernel @centred {
    %sum: tensor<256xf32> = graph.reduce sum [0, 2] %x
    %one: tensor<1x256x1xf32> = graph.reshape %sum
    %all: tensor<@imagesx256x784xf32> = graph.broadcast %one
    %d: tensor<@imagesx256x784xf32> = sub %x, %all
    yield %d
  }
  return %y
}
"""


@pytest.mark.parametrize(("images", "simdgroups"), [(48, 16), (64, 32)])
def test_programs_are_few_where_the_cache_keeps_no_more(images: int, simdgroups: int) -> None:
    """256 programs load 38 MB twice, or 51; the cache has 50 MB."""
    text = CENTRED.replace("@images", str(images))
    made = str(run(parse(text), "schedule{target=nvidia-h100}"))
    assert f"simdgroups: {simdgroups}]" in made


def test_what_all_programs_read_counts_whole_for_each_window() -> None:
    (kernel,) = kernels(lambda x, w: x * w, zeros(4096, 1024), zeros())
    schedule = schedule_of(kernel.kernel.op)
    (elements,) = schedule.elements.output_axes
    traffic = predict._traffic(schedule.with_blocks({elements: 1024}, 4))
    x, w, out = 4096 * 1024 * 4, 4, 4096 * 1024 * 4
    # A cache of 16 kB keeps what one program needs: each of them loads `w` anew.
    assert traffic.moved(16 << 10, 1) == x + 4096 * w + out
