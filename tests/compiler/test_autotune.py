"""Configurations compared, the one that is taken, and constexprs computed from arguments."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris.cache_folder import cache_folder
from iris.compiler import candidates
from iris.compiler.autotune import Autotuned
from iris.compiler.candidates import watched
from iris.compiler.kernel import Kernel
from iris.errors import ArgumentError, OutOfResources, ProgramError
from iris.runtime.device import Grid, Program, Timing
from iris.runtime.devices import select
from iris.runtime.interpreters import Interpreter
from iris.testing import do_bench
from tuned_kernels import blocks, scale


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is kept from other tests, but for the library of softmetal, which takes long."""
    built = cache_folder() / "softmetal"
    if built.exists():
        (tmp_path / "softmetal").symlink_to(built)
    monkeypatch.setenv("IRIS_CACHE_DIR", str(tmp_path))
    yield


@iris.kernel
def double(X, Out, N, BLOCK: iris.constexpr):
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    iris.store(Out + i, 2 * iris.load(X + i, mask=i < N), mask=i < N)


@iris.kernel
def total(X, Out, N, BLOCK: iris.constexpr):
    s = iris.zeros((BLOCK,))
    for i in iris.tile_range(0, N, BLOCK):
        at = i + iris.arange(0, BLOCK)
        s += iris.load(X + at, mask=at < N)
    iris.store(Out, iris.sum(s))


@iris.kernel
def count(X, Bins, N, BLOCK: iris.constexpr):
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    iris.atomic_add(Bins + iris.load(X + i, mask=i < N), 1, mask=i < N)


@iris.kernel
def power(X, Out, N, BLOCK: iris.constexpr, EXPONENT: iris.constexpr):
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    x = iris.load(X + i, mask=i < N)
    y = x
    for _ in range(EXPONENT - 1):
        y *= x
    iris.store(Out + i, y, mask=i < N)


@iris.kernel
def square_sums(X, Out, BLOCK: iris.constexpr):
    i = iris.arange(0, BLOCK)
    x = iris.load(X + i[:, None] * BLOCK + i[None, :])
    iris.store(Out + i, iris.sum(x * iris.dot(x, x), axis=1))


class Clocked(Interpreter):
    """A device whose clock says that many programs are fast, whatever the cost model thinks."""

    name = "clocked"
    is_timed = True

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        super().launch(program, grid, arguments, stream)
        if self._tell is not None:
            self._tell(Timing(program.entry, grid, tuple(arguments), 1.0, 1.0 + 1 / grid[0]))

    def time_launches(self, tell: Any) -> None:
        """The interpreter would tell of its own times."""
        self._tell = None if tell is None else _later(tell)


def _later(tell: Any) -> Any:
    """Of the two that a launch tells, only the one of the clock above."""
    return lambda timing: tell(timing) if timing.start == 1.0 else None


def tuned(kernel: Kernel, *configs: iris.Config, **options: Any) -> Autotuned:
    return iris.autotune(configs=configs, **options)(kernel)


def arrays(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(n).standard_normal(n).astype(np.float32), np.zeros(n, np.float32)


def test_the_cost_model_ranks_where_times_mean_nothing() -> None:
    kernel = tuned(double, iris.Config(BLOCK=1), iris.Config(BLOCK=1024, num_simdgroups=4))
    x, out = arrays(5000)
    kernel[blocks(5000)](x, out, 5000)
    np.testing.assert_array_equal(out, 2 * x)
    (report,) = kernel.reports
    assert report.chosen == 1
    costs = [row.milliseconds for row in report.rows]
    assert costs[0] > costs[1]
    text = str(report)
    assert text.startswith("double: milliseconds by the cost model of apple-m1: interp is no GPU\n")
    assert f"BLOCK=1024, num_simdgroups=4      {costs[1]:.4f}  chosen" in text


def test_a_clock_decides_where_there_is_one() -> None:
    device = Clocked()
    x, out = arrays(4096)
    few = tuned(double, iris.Config(BLOCK=1024), iris.Config(BLOCK=512), iris.Config(BLOCK=256))
    few[blocks(4096)](x, out, 4096, device=device)
    np.testing.assert_array_equal(out, 2 * x)
    assert few.reports[0].chosen == 2
    assert [row.milliseconds for row in few.reports[0].rows] == [250.0, 125.0, 62.5]
    assert "by the clock of clocked" in str(few.reports[0])
    # The model rules out one program for each element before it is timed.
    many = tuned(double, iris.Config(BLOCK=1024), iris.Config(BLOCK=1))
    many[blocks(4096)](x, out, 4096, device=device)
    assert many.reports[0].chosen == 0
    assert "by the model" in many.reports[0].rows[1].why_not


def test_other_bits_are_taken_only_where_sums_may_be_reordered() -> None:
    x, out = arrays(3000)
    configs = iris.Config(BLOCK=1), iris.Config(BLOCK=1024)
    strict, free = tuned(total, *configs), tuned(total, *configs, reorder=True)
    strict[1](x, out, 3000)
    assert strict.reports[0].chosen == 0
    assert "reorder=True" in strict.reports[0].rows[1].why_not
    first = out[0]
    free[1](x, out, 3000)
    assert free.reports[0].chosen == 1
    assert out[0] != first
    assert out[0] == pytest.approx(x.sum(dtype=np.float64), abs=1e-3)


@pytest.mark.parametrize("reorder", [False, True])
def test_a_config_that_computes_something_else_is_never_taken(reorder: bool) -> None:
    x, out = arrays(2000)
    configs = iris.Config(BLOCK=1, EXPONENT=3), iris.Config(BLOCK=1024, EXPONENT=2)
    kernel = tuned(power, *configs, reorder=reorder)
    kernel[blocks(2000)](x, out, 2000)
    np.testing.assert_array_equal(out, x * x * x)
    assert kernel.reports[0].rows[1].why_not.startswith("computes")


def test_comparing_changes_nothing_that_it_is_given() -> None:
    n = 1000
    x = np.random.default_rng(0).integers(0, 4, n).astype(np.int32)
    expected = np.bincount(x, minlength=4)
    configs = [iris.Config(BLOCK=size) for size in (32, 64, 128)]
    bins = np.zeros(4, np.int32)
    tuned(count, *configs)[blocks(n)](x, bins, n)
    np.testing.assert_array_equal(bins, expected)
    on_device = iris.asarray(np.zeros(4, np.int32))
    tuned(count, *configs)[blocks(n)](iris.asarray(x), on_device, n)
    np.testing.assert_array_equal(on_device.numpy(), expected)


def test_comparing_tells_of_no_other_launch() -> None:
    @iris.kernel
    def fail(X):
        iris.device_assert(iris.load(X) < 0, "it fails")

    fail[1](iris.asarray(np.zeros(1, np.float32), device="softmetal"), device="softmetal")
    x, out = (iris.asarray(array, device="softmetal") for array in arrays(100))
    kernel = tuned(double, iris.Config(BLOCK=64), iris.Config(BLOCK=128))
    kernel[blocks(100)](x, out, 100, device="softmetal")
    np.testing.assert_array_equal(out.numpy(), 2 * x.numpy())
    with pytest.raises(ProgramError, match="it fails"):
        iris.synchronize()


def test_what_failed_before_is_the_fault_of_no_timed_candidate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @iris.kernel
    def fail(X):
        iris.device_assert(iris.load(X) < 0, "it fails")

    device = select("softmetal")
    monkeypatch.setattr(type(device), "is_timed", True)
    x, out = (iris.asarray(array, device=device) for array in arrays(100))
    kernel = tuned(double, iris.Config(BLOCK=64), iris.Config(BLOCK=128))
    fail[1](iris.asarray(np.zeros(1, np.float32), device=device), device=device)
    kernel[blocks(100)](x, out, 100, device=device)
    assert all(row.milliseconds is not None for row in kernel.reports[0].rows)
    np.testing.assert_array_equal(out.numpy(), 2 * x.numpy())
    with pytest.raises(ProgramError, match="it fails"):
        device.synchronize()


def test_arrays_that_overlap_do_in_the_copies_as_well() -> None:
    x = np.arange(64, dtype=np.float32)
    kernel = tuned(double, iris.Config(BLOCK=64), iris.Config(BLOCK=32, num_simdgroups=1))
    kernel[1](x, x, 32)  # the second would leave half of the first undone
    np.testing.assert_array_equal(x, np.arange(64) * np.where(np.arange(64) < 32, 2, 1))


def test_a_choice_is_made_once_for_a_key_and_kept_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    compare = candidates.compare

    def counting(candidates: Any, device: Any, sizes: str, **options: Any) -> Any:
        compared.append(sizes)
        return compare(candidates, device, sizes, **options)

    monkeypatch.setattr(candidates, "compare", counting)
    configs = iris.Config(BLOCK=64), iris.Config(BLOCK=128)
    kernel = tuned(double, *configs, key=["N"])
    for n in (100, 100, 200, 100):
        kernel[blocks(n)](*arrays(n), n)
    assert compared == ["N=100", "N=200"]
    again = tuned(double, *configs, key=["N"])  # as in the next process
    again[blocks(100)](*arrays(100), 100)
    assert compared == ["N=100", "N=200"]
    assert str(again.reports[0]) == str(kernel.reports[0])
    by_shape = tuned(double, *configs, key=["X"])
    for n in (100, 200, 100):
        by_shape[blocks(n)](*arrays(n), n)
    assert compared[2:] == ["X=(100,)", "X=(200,)"]


def test_what_fails_is_left_out() -> None:
    x, out = np.eye(256, dtype=np.float32), np.zeros(256, np.float32)
    kernel = tuned(square_sums, iris.Config(BLOCK=256), iris.Config(BLOCK=16))
    # For 256 columns there is no room; that 16 compute something else is no matter then.
    kernel[1](x, out)
    assert kernel.reports[0].chosen == 1
    assert "use smaller tiles" in kernel.reports[0].rows[0].why_not
    with pytest.raises(OutOfResources):
        tuned(square_sums, iris.Config(BLOCK=256))[1](x, out, device="interp:metal")
    tuned(square_sums, iris.Config(BLOCK=256))[1](x, out)  # which has room for everything
    np.testing.assert_array_equal(out, np.ones(256))


def test_an_error_of_the_program_is_raised() -> None:
    x, out = arrays(100)
    with pytest.raises(ProgramError, match="outside"):
        tuned(double, iris.Config(BLOCK=32), iris.Config(BLOCK=64))[8](x, out, 200)


def test_prune_chooses_what_is_compared() -> None:
    def smaller(configs: list[iris.Config], known: dict[str, Any]) -> list[iris.Config]:
        return [config for config in configs if config.constants["BLOCK"] <= known["N"]]

    configs = [iris.Config(BLOCK=2**i) for i in range(5, 10)]
    kernel = tuned(double, *configs, prune=smaller)
    kernel[blocks(100)](*arrays(100), 100)
    assert [row.config for row in kernel.reports[0].rows] == ["BLOCK=32", "BLOCK=64"]
    with pytest.raises(ArgumentError, match="prune left no config of double"):
        kernel[blocks(8)](*arrays(8), 8)


def test_rules_below_know_what_a_configuration_sets() -> None:
    for n in (1024, 1000):
        x, out = arrays(n)
        scale[blocks(n)](x, out, n)
        np.testing.assert_array_equal(out, 2 * x)
        text = scale.lower(x, out, n, grid=blocks(n)).traced
        assert ("mask" in str(text).partition("tile.store")[0]) is (n == 1000)


def test_heuristics_compute_from_the_arguments() -> None:
    rules = {
        "BLOCK": lambda known: iris.next_power_of_2(known["N"]),
        "EXPONENT": lambda known: 2 if known["BLOCK"] > 64 else 3,
    }
    kernel = iris.heuristics(rules)(power)
    for n, exponent in ((100, 2), (60, 3)):
        x, out = arrays(n)
        kernel[1](x, out, n)
        np.testing.assert_allclose(out, x**exponent, rtol=1e-6)
    with pytest.raises(ArgumentError, match="BLOCK of power is chosen for each launch"):
        kernel[1](x, out, n, BLOCK=64)


@pytest.mark.parametrize("rules_first", [False, True])
def test_a_kernel_has_both(rules_first: bool) -> None:
    configs = [iris.Config(BLOCK=32), iris.Config(BLOCK=256)]
    given = iris.autotune(configs=configs), iris.heuristics({"EXPONENT": lambda known: 2})
    inner, outer = given if rules_first else given[::-1]
    kernel = outer(inner(power))
    x, out = arrays(500)
    kernel[blocks(500)](x, out, 500)
    np.testing.assert_array_equal(out, x * x)
    assert kernel.__name__ == "power"


def test_all_that_a_kernel_does_a_tuned_one_does() -> None:
    kernel = tuned(double, iris.Config(BLOCK=1), iris.Config(BLOCK=64))
    x, out = (iris.asarray(a) for a in arrays(50))
    assert "func tile @double" in kernel.lower(x, out, 50, grid=blocks(50)).tile
    kernel.warmup(x, out, 50, grid=blocks(50)).result()
    step = kernel.prepare(x, out, 50, grid=blocks(50))
    step()
    np.testing.assert_array_equal(out.numpy(), 2 * x.numpy())
    assert len(kernel.reports) == 1


def compared_by(executor: Executor) -> None:
    """Compare the configurations of a kernel by an executor, and by nothing else."""
    n = 1000
    x, out = arrays(n)
    even = iris.heuristics({"EVEN": lambda known: False})
    configs = [iris.Config(BLOCK=2**i) for i in (5, 7, 9)]
    reports = []
    for workers in (executor, None):
        kernel = iris.autotune(configs=configs, key=["N"], executor=workers)(even(scale.base))
        with watched():  # nothing is taken from the disk
            kernel[blocks(n)](x, out, n)
        np.testing.assert_array_equal(out, 2 * x)
        reports += kernel.reports
    assert reports[0] == reports[1]


def test_other_processes_compare() -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        compared_by(executor)


def test_a_cluster_compares() -> None:
    from distributed import Client, LocalCluster

    make: Callable[[], LocalCluster] = lambda: LocalCluster(  # noqa: E731
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with make() as cluster, Client(cluster) as client:
        compared_by(client.get_executor())


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (lambda: iris.autotune(configs=[]), "autotune needs at least one iris.Config"),
        (lambda: iris.autotune(configs=[{"BLOCK": 8}]), r"made by iris.Config\(BLOCK=64, ...\)"),
        (
            lambda: tuned(double, iris.Config(BLOK=8)),
            "no constexpr 'BLOK' to choose; there is BLOCK",
        ),
        (lambda: tuned(double, iris.Config(N=8)), "no constexpr 'N'"),
        (lambda: tuned(double, iris.Config(BLOCK=8), key=["M"]), "no parameter 'M' for key"),
        (lambda: iris.heuristics({})(lambda x: x), "put this above @iris.kernel"),
    ],
)
def test_wrong_decorators_are_refused(decorate: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as refused:
        decorate()
    assert refused.value.spot is not None
    assert refused.value.spot.file == __file__


def test_what_is_chosen_is_not_given() -> None:
    kernel = tuned(double, iris.Config(BLOCK=8, num_simdgroups=1))
    x, out = arrays(8)
    for named in ({"BLOCK": 8}, {"num_simdgroups": 2}):
        with pytest.raises(ArgumentError, match="chosen for each launch; leave it out"):
            kernel[1](x, out, 8, **named)
    with pytest.raises(ArgumentError, match="BLOCK of double is chosen"):
        kernel[1](x, out, 8, 8)
    with pytest.raises(ArgumentError, match="how many programs are there"):
        kernel.lower(x, out, 8)


def test_do_bench_gives_milliseconds() -> None:
    device = Clocked()
    x, out = (iris.asarray(a, device=device) for a in arrays(64))

    def launch() -> None:
        double[4](x, out, 64, BLOCK=16)

    assert do_bench(launch, warmup=0, rep=5, device=device) == 250.0
    assert do_bench(launch, warmup=0, rep=5, quantiles=[0.2, 0.8], device=device) == [250.0] * 2
    slept = do_bench(lambda: time.sleep(0.002), warmup=0, rep=10, device=device)
    assert 2 <= slept < 20
