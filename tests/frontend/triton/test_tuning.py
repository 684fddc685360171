"""Tuned kernels of Triton's: hooks of configurations, and which configurations are worth a try."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris.triton as triton
import iris.triton.language as tl
from iris.errors import ArgumentError, ShapeError
from iris.triton.tools.tensor_descriptor import TensorDescriptor

ASKED: list[tuple[int, int]] = []
SIZES = [(rows, depth) for rows in (16, 32, 64) for depth in (8, 16)]


@pytest.fixture(autouse=True)
def nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("iris.compiler.candidates.Cache.get", lambda *key: None)
    ASKED.clear()
    yield


def described(known: dict[str, Any]) -> None:
    rows, columns, depth = (known[name] for name in ("BM", "BN", "BK"))
    ASKED.append((rows, depth))
    known["a_desc"].block_shape = [rows, depth]
    known["b_desc"].block_shape = [columns, depth]
    known["c_desc"].block_shape = [rows, columns]


def not_too_high(
    configs: list[triton.Config], known: dict[str, Any], **named: Any
) -> list[triton.Config]:
    assert known["a_desc"].base is not None
    return [config for config in configs if config.kwargs["BM"] < 2 * named["M"]]


@triton.jit
def product(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tl.static_assert(BM < 32 or BK < 16, "too large")
    columns = tl.cdiv(N, BN)
    row, column = tl.program_id(0) // columns * BM, tl.program_id(0) % columns * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=False):
        total = tl.dot(a_desc.load([row, k]), b_desc.load([column, k]).T, total)
    c_desc.store([row, column], total)


def tuned(**options: Any) -> Any:
    configs = [
        triton.Config({"BM": rows, "BN": 16, "BK": depth}, num_warps=2, pre_hook=described)
        for rows, depth in SIZES
    ]
    return triton.autotune(configs=configs, key=["M", "N", "K"], **options)(product)


@pytest.mark.parametrize(
    "device", ["interp", pytest.param("softmetal", marks=pytest.mark.softmetal)]
)
def test_a_hook_sets_the_blocks_of_descriptors(device: str) -> None:
    kernel = tuned(prune_configs_by={"early_config_prune": not_too_high})
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (size, 40)).astype(np.float32) for size in (20, 24))
    c = np.zeros((20, 24), np.float32)

    def grid(known: dict[str, Any]) -> tuple[int]:
        return (triton.cdiv(known["M"], known["BM"]) * triton.cdiv(24, known["BN"]),)

    for fresh in range(2):
        x, y, z = (TensorDescriptor(x, x.shape, [x.shape[1], 1], [1, 1]) for x in (a, b, c))
        for again in range(2):
            c[:] = 0
            kernel[grid](x, y, z, M=20, N=24, K=40, device=device)
            np.testing.assert_array_equal(c, a @ b.T)
            chosen = kernel.best_config.kwargs["BM"], kernel.best_config.kwargs["BK"]
            if fresh or again:  # only the chosen configuration is prepared
                assert ASKED == [chosen]
            else:
                assert set(ASKED) == set(SIZES[:4]) and ASKED[-1] == chosen
            ASKED.clear()
    (report,) = kernel.reports
    assert [row.why_not for row in report.rows if row.milliseconds is None] == [
        "static_assert failed: too large"
    ]


def test_a_hook_runs_before_the_kernel_is_lowered() -> None:
    kernel = tuned(prune_configs_by={"early_config_prune": not_too_high})
    x, y, z = (
        TensorDescriptor(np.zeros(shape, np.float32), shape, [shape[1], 1], [1, 1])
        for shape in ((20, 40), (24, 40), (20, 24))
    )
    lowered = kernel.lower(x, y, z, M=20, N=24, K=40, grid=4)
    rows, depth = ASKED[-1]
    assert f"tile<{rows}x{depth}xf32> = tile.load_tile" in str(lowered.traced)
    assert lowered.options.num_simdgroups == 2


def test_a_model_ranks_configurations() -> None:
    @triton.jit
    def filled(out_ptr, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, BLOCK, mask=at < n)

    def cost(n: int, BLOCK: int, num_warps: int, **others: Any) -> int:
        return abs(n - BLOCK) + num_warps

    configs = [triton.Config({"BLOCK": size}, num_warps=1) for size in (8, 16, 32, 64)]
    for most, tried in ((0.5, [32, 16]), (1, [32])):
        kernel = triton.autotune(
            configs=configs, key=["n"], prune_configs_by={"perf_model": cost, "top_k": most}
        )(filled)
        out = np.zeros(33, np.int32)
        kernel[lambda known: (triton.cdiv(33, known["BLOCK"]),)](out, 33)
        assert kernel.best_config.kwargs["BLOCK"] == out[0] == 32
        (report,) = kernel.reports
        assert [row.config for row in report.rows] == [
            f"BLOCK={size}, num_warps=1" for size in tried
        ]


def test_one_configuration_is_taken_at_once() -> None:
    config = triton.Config({"BM": 16, "BN": 16, "BK": 8}, pre_hook=described)
    kernel = triton.autotune(configs=[config], key=["M"])(product)
    a, c = np.ones((16, 8), np.float32), np.zeros((16, 16), np.float32)
    x, y, z = (TensorDescriptor(x, x.shape, [x.shape[1], 1], [1, 1]) for x in (a, a.copy(), c))
    kernel[(1,)](x, y, z, M=16, N=16, K=8)
    assert (c == 8).all() and ASKED == [(16, 8)] and not kernel.reports


def test_what_a_descriptor_became_is_checked() -> None:
    a, c = np.ones((16, 8), np.float32), np.zeros((16, 16), np.float32)
    x, y, z = (TensorDescriptor(x, x.shape, [x.shape[1], 1], [16, 8]) for x in (a, a.copy(), c))
    z.block_shape = [16]
    with pytest.raises(ShapeError, match="block_shape of a descriptor differ in length"):
        product[(1,)](x, y, z, M=16, N=16, K=8, BM=16, BN=16, BK=8)


def test_a_kernel_is_told_what_a_configuration_chose() -> None:
    @triton.jit
    def told(out_ptr, num_warps: tl.constexpr, num_stages: tl.constexpr):
        tl.store(out_ptr, 10 * num_warps + num_stages)

    kernel = triton.autotune(configs=[triton.Config({}, num_warps=8, num_stages=3)], key=[])(told)
    out = np.zeros(1, np.int32)
    kernel[(1,)](out)
    assert out[0] == 83
    assert kernel.lower(out, grid=1).options.num_simdgroups == 8
    with pytest.raises(ArgumentError, match="num_warps of told is chosen for each launch"):
        kernel[(1,)](out, num_warps=4)


def test_what_is_tuned_is_launched_without_a_choice_as_its_fn() -> None:
    one = triton.Config({"BM": 16, "BN": 16, "BK": 8}, pre_hook=described)
    assert {one: 1}[triton.Config({"BN": 16, "BK": 8, "BM": 16})] == 1
    given = triton.heuristics({"BN": lambda known: 16})(product)
    kernel = triton.autotune(configs=[triton.Config({"BM": 16, "BK": 8})], key=["M"])(given)
    assert kernel.fn is given and given.fn is product and kernel.base_fn is product.fn
    a, c = np.ones((16, 8), np.float32), np.zeros((16, 16), np.float32)
    x, y, z = (
        TensorDescriptor(x, x.shape, [x.shape[1], 1], block)
        for x, block in ((a, [16, 8]), (a.copy(), [16, 8]), (c, [16, 16]))
    )
    kernel.fn.fn[(1,)](x, y, z, M=16, N=16, K=8, BM=16, BN=16, BK=8)
    assert (c == 8).all()


def clear_first(known: dict[str, Any]) -> None:
    """Clears what is copied to by the kernel that is tuned, too."""
    if known["n"] > 2:
        copied[(4,)](np.zeros(8, np.int32), known["to"], 2, device="interp")


@triton.autotune(
    [triton.Config({"B": 2}, pre_hook=clear_first), triton.Config({"B": 4}, pre_hook=clear_first)],
    key=["n"],
)
@triton.jit
def copied(x, to, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(to + at, tl.load(x + at, at < n, 0), at < 8)


def test_a_hook_may_launch_the_kernel_that_is_tuned() -> None:
    x, to = np.arange(8, dtype=np.int32), np.full(8, 9, np.int32)
    copied[(4,)](x, to, 5, device="interp")
    np.testing.assert_array_equal(to, np.where(x < 5, x, 0))
