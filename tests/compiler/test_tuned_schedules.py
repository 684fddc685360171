"""Functions of arrays whose kernels get the fastest of several schedules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris.compiler import candidates
from iris.errors import ArgumentError
from iris.passes.graph.tiling import fusion
from iris.tools.cli import main


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is kept from other tests."""
    monkeypatch.setenv("IRIS_CACHE_DIR", str(tmp_path))
    yield


def shares(x: Any, w: Any) -> Any:
    hidden = np.tanh(x @ w)
    return hidden / hidden.sum(axis=1, keepdims=True)


def weighs(q: Any, k: Any) -> Any:
    scores = q @ k.T
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True) @ k


def layers(x: Any, w: Any) -> Any:
    for _ in range(3):
        x = np.tanh(x @ w)
    return x


def added(x: Any, i: Any) -> Any:
    return np.tanh(x).at[i].add(x[:3]) * 2


def turned(x: Any, w: Any) -> Any:
    hidden = (x @ w).reshape(32, 2, 48)
    return np.exp(hidden.sum(axis=0)) @ w[:48]


def two_shapes(x: Any, w: Any) -> Any:
    return np.tanh(x), np.exp(w.sum(axis=0))


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).random(shape, np.float32) - np.float32(0.5)


X, W, SQUARE = numbers(32, 64), numbers(64, 96), numbers(64, 64)


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (shares, (X, W)),
        (layers, (X, SQUARE)),
        (turned, (X, W)),
        (added, (SQUARE, np.array([7, 0, 7], np.int32))),
    ],
)
def test_a_tuned_function_computes_the_same_bits(
    function: Any, arguments: tuple[Any, ...], device: str
) -> None:
    tuned = iris.jit(function, tune=True)
    expected = iris.jit(function)(*arguments, device=device)
    for _ in range(2):
        np.testing.assert_array_equal(tuned(*arguments, device=device), expected)
    assert len(tuned.reports) == len({*map(str, tuned.reports)})


def test_kernels_side_by_side_are_tuned() -> None:
    """One schedule at a time is another."""
    tuned = iris.jit(two_shapes, tune=True)
    for found, expected in zip(tuned(X, W), iris.jit(two_shapes)(X, W), strict=True):
        np.testing.assert_array_equal(found, expected)
    (report,) = tuned.reports
    assert str(report).count("i0i1: programs 64 of 2048, ") > 1


def test_texts_are_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IRIS_CACHE_DIR")  # the device need not be built again
    tuned = iris.jit(lambda x: np.tanh(x) / 2, tune=True)
    found = tuned(X[0], device="softmetal")
    np.testing.assert_array_equal(
        found, iris.jit(lambda x: np.tanh(x) / 2)(X[0], device="softmetal")
    )


def test_buffers_and_halves() -> None:
    x, w = (iris.asarray(a.astype(np.float16), device="interp") for a in (X, W))
    found, expected = iris.jit(shares, tune=True)(x, w), iris.jit(shares)(x, w)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_schedules_are_compared_and_the_fastest_is_in_the_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fusion, "refined", lambda own, *_: own.with_blocks({}, 4))
    # The BLAS of some processors adds the products of smaller tiles in another order.
    tuned = iris.jit(weighs, tune=True, reorder=True)
    q = numbers(256, 64)
    before = tuned.lower(q, q, device="interp").fused
    tuned(q, q, device="interp")
    (report,) = tuned.reports
    assert "by the cost model of apple-m1: interp is no GPU" in str(report)
    times = [row.milliseconds for row in report.rows if row.milliseconds is not None]
    chosen = report.rows[report.chosen]
    assert chosen.milliseconds == min(times) < report.rows[0].milliseconds
    assert f"schedule=[{report.rows[0].config}]" in before
    after = tuned.lower(q, q, device="interp").fused
    assert f"schedule=[{chosen.config}]" in after


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda a, b: a @ b, (numbers(256, 256), numbers(256, 256))),
        (weighs, (numbers(256, 64), numbers(256, 64))),
    ],
)
def test_two_targets_get_other_schedules_with_the_reason(
    function: Any, arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    schedules, results, reasons = [], [], []
    for target in ("apple-m1", "nvidia-h100"):
        monkeypatch.setenv("IRIS_TARGET", target)
        tuned = iris.jit(function, tune=True)
        results.append(tuned(*arguments, device="interp"))
        (report,) = tuned.reports
        schedules.append(report.rows[report.chosen].config)
        assert f"schedule=[{schedules[-1]}]" in tuned.lower(*arguments, device="interp").fused
        text = str(report)
        assert f"by the cost model of {target}: interp is no GPU" in text
        (found,) = re.findall(rf"{re.escape(schedules[-1])} +[\d.]+  chosen\n    (.*)", text)
        (kernel,) = tuned.kernels(*arguments, device="interp")
        (chip,) = [chip for chip in kernel.estimate.chips if chip.chip.name == target]
        assert found.startswith(f"limited by {chip.bottleneck}, with {kernel.estimate.registers} ")
        reasons.append(found)
    assert schedules[0] != schedules[1]
    assert reasons[0] != reasons[1]
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-4)


def test_numbers_of_simdgroups_are_compared() -> None:
    tuned = iris.jit(shares, tune=True)
    tuned(X, W, device="interp")
    for report in tuned.reports:
        own = report.rows[0].config
        axes, count = own.split(", simdgroups: ")
        configs = [row.config for row in report.rows]
        assert f"{axes}, simdgroups: {2 * int(count)}" in configs


def test_equal_kernels_are_compared_once_and_choices_are_kept_on_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []
    compare = candidates.compare

    def counting(*arguments: Any, **options: Any) -> Any:
        compared.append(arguments)
        return compare(*arguments, **options)

    monkeypatch.setattr(candidates, "compare", counting)
    for _ in range(2):
        tuned = iris.jit(layers, tune=True)
        tuned(SQUARE, SQUARE, device="interp")
        assert len(tuned.lower(SQUARE, SQUARE).kernels) == 3
    assert len(compared) == len(tuned.reports) < 3


def test_sums_keep_their_order_unless_it_may_change() -> None:
    x = numbers(4, 3000)
    for reorder in (False, True):
        tuned = iris.jit(lambda x: x.sum(axis=1), tune=True, reorder=reorder)
        plain = iris.jit(lambda x: x.sum(axis=1))
        found, expected = tuned(x, device="interp"), plain(x, device="interp")
        if reorder:
            np.testing.assert_allclose(found, expected, rtol=1e-5)
        else:
            np.testing.assert_array_equal(found, expected)


def test_an_executor_compares() -> None:
    with ThreadPoolExecutor(2) as executor:
        tuned = iris.jit(shares, tune=True, executor=executor)
        np.testing.assert_array_equal(
            tuned(X, W, device="interp"), iris.jit(shares)(X, W, device="interp")
        )


def test_options_that_are_of_tuning_alone() -> None:
    with pytest.raises(ArgumentError, match=r"reorder= and executor= are for tune=True"):
        iris.jit(shares, reorder=True)


def test_iris_tune_shows_how_schedules_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import iris, numpy as np\n"
        "f = iris.jit(lambda x: np.tanh(x) / 2, tune=True)\n"
        "f(np.ones((64, 64), np.float32), device='interp')\n"
    )
    assert main(["tune", str(script)]) == 0
    assert "milliseconds by the cost model" in capsys.readouterr().out
