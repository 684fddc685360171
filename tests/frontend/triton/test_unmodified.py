"""Modules that import triton run unmodified: by `python -m iris.triton`, or after an install."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import iris.triton as triton
import iris.triton.language as tl
from iris.errors import ArgumentError

SCRIPT = """
import sys
import numpy as np
import triton
import triton.language as tl
from triton import cdiv
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
from triton.language.extra.cuda.libdevice import tanh
from triton.language.random import philox, rand
from triton.language.standard import _log2, sum, zeros_like
from triton.runtime.jit import JITFunction


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.autotune(configs=[triton.Config({"BLOCK": 8}, num_warps=1)], key=["n"])
@triton.jit(do_not_specialize=["n"])
def twice(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def curved(x_ptr):
    gdc_wait()
    x = tl.load(x_ptr + tl.arange(0, 4))
    gdc_launch_dependents()
    tl.store(x_ptr + tl.arange(0, 4), tanh(x) + libdevice.round(x))


if __name__ == "__main__":
    assert isinstance(curved, JITFunction) and curved.arg_names == ["x_ptr"]
    x = np.array([0.5, -0.5, 2.5, -1.2], np.float32)
    expected = np.tanh(x) + [1, -1, 3, -1]
    curved[(1,)](x, extern_libs={"libdevice": "libdevice.10.bc"}, launch_pdl=True)
    np.testing.assert_allclose(x, expected, rtol=1e-6)
    x = np.ones(11, np.float32)
    twice.base[(cdiv(11, 8),)](x, 11, BLOCK=8, EVEN=False)
    assert (x == 2).all()
    print(sys.argv[1:], triton.__name__)
"""


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_a_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run("-m", "iris.triton", "script.py", "one", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['one'] iris.triton\n"


def test_a_command_on_a_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    iris = shutil.which("iris", path=str(Path(sys.executable).parent))
    assert iris is not None
    done = run("-m", "iris.triton", iris, "explain", "script.py", "one", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\n@curved:\n" in done.stdout
    assert "\n@twice:\n" in done.stdout


def test_an_installed_triton_is_not_shadowed_unasked(tmp_path: Path) -> None:
    (tmp_path / "triton.py").write_text("mine = True\n")
    script = "import iris.triton\niris.triton.install({})\nimport triton\nprint(triton.__name__)"
    for asked, printed in (("", "Triton is installed"), ("instead=True", "iris.triton")):
        (tmp_path / "script.py").write_text(script.format(asked))
        done = run("script.py", folder=tmp_path)
        assert printed in done.stdout + done.stderr
        assert (done.returncode == 0) is bool(asked)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 4}), triton.Config({"BLOCK": 16}, num_warps=1, num_stages=2)],
    key=["n", "BLOCK"],
    prune_configs_by={"early_config_prune": lambda configs, known: configs[1:]},
    reset_to_zero=["out_ptr"],
)
@triton.jit
def count(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x), sem="relaxed")


def test_autotune_measures_copies() -> None:
    x, out = np.ones(20, np.float32), np.zeros(1, np.float32)
    count[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, out, 20)
    assert list(out) == [20]
    (report,) = count.reports
    assert [row.config for row in report.rows] == ["BLOCK=16, num_stages=2, num_warps=1"]


def cleared(arguments: dict[str, Any]) -> None:
    assert arguments["BLOCK"] == 8 and arguments["num_warps"] == 2
    arguments["out_ptr"][:] = 0


def test_the_hook_of_a_configuration_runs_before_each_launch() -> None:
    config = triton.Config({"BLOCK": 8}, num_warps=2, pre_hook=cleared)
    kernel = triton.autotune(configs=[config], key=["n"])(count.base)
    x, out = np.ones(20, np.float32), np.full(1, 7, np.float32)
    for _ in range(2):
        kernel[(3,)](x, out, n=20)
        assert list(out) == [20]


@triton.heuristics(
    {
        "TWICE": lambda args: bool(args["TWICE"]),
        "BLOCK": lambda args: triton.next_power_of_2(args["n"]),
        "num_warps": lambda args: 1 if args["BLOCK"] <= 32 else 4,
    }
)
@triton.jit
def scaled(x_ptr, n, TWICE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if TWICE:
        x = 2 * x
    tl.store(x_ptr + at, x, mask=at < n)


def test_a_rule_may_replace_what_is_given_and_choose_options() -> None:
    for given, factor in ((1, 2), (0, 1)):
        x = np.ones(20, np.float32)
        scaled[(1,)](x, 20, TWICE=given)
        assert (x == factor).all()
        lowered = scaled.lower(x, 20, TWICE=given, grid=1)
        assert lowered.options.num_simdgroups == 1
    with pytest.raises(ArgumentError, match="TWICE of scaled is chosen for each launch"):
        scaled[(1,)](x, 20, 1)


@triton.jit
def doubles(x_ptr, n, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    for first in tl.range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = first + tl.arange(0, BLOCK)
        tl.store(x_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)


def test_a_kernel_is_compiled_before_it_is_launched() -> None:
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    x = np.ones(100, np.float32)
    kernel = doubles.warmup(x, 100, BLOCK=32, num_stages=2, num_warps=1, grid=(1,))
    kernel._init_handles()
    fit = properties["max_num_regs"] // (kernel.n_regs * properties["warpSize"])
    programs = min(fit, properties["max_shared_mem"] // kernel.metadata.shared, 3)
    kernel[(programs, 1, 1)](x, 100, 32, 2)
    assert programs == 3 and (x == 2).all()


def test_a_report_has_a_row_for_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    @triton.testing.perf_report(
        triton.testing.Benchmark(
            ["M", "N"],
            [16, (2, 4)],
            "by",
            ["sum", "product"],
            ["Sum", "Product"],
            "of-two",
            {"C": 1},
        )
    )
    def measured(M: int, N: int, C: int, by: str) -> object:
        return (M + N + C, 0, 99) if by == "sum" else M * N

    assert measured.run(print_data=True) == [[(16, 16, 33, 256), (2, 4, 7, 8)]]
    heading, names, *rows = capsys.readouterr().out.splitlines()
    assert heading == "of-two:" and names.split() == ["M", "N", "Sum", "Product"]
    assert [row.split() for row in rows] == [["16", "16", "33", "256"], ["2", "4", "7", "8"]]


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, float),
        ({"return_mode": "min"}, float),
        ({"return_mode": "all"}, list),
        ({"quantiles": [0.5]}, float),
        ({"quantiles": [0.5, 0.2, 0.8]}, list),
    ],
)
def test_a_benchmark_is_asked_as_by_triton(options: dict[str, Any], kind: type) -> None:
    tensor = SimpleNamespace(grad=1)
    measured = triton.testing.do_bench(lambda: None, 1, 2, [tensor], **options)
    assert isinstance(measured, kind) and np.all(np.asarray(measured) >= 0)
    assert tensor.grad is None
    if "quantiles" in options and kind is list:
        assert measured[1] <= measured[0] <= measured[2]


def test_a_benchmark_has_known_modes() -> None:
    with pytest.raises(ArgumentError, match="return_mode is one of all, max, mean, median, min"):
        triton.testing.do_bench(lambda: None, return_mode="most")


def test_lower_shows_every_stage() -> None:
    compilation = count.base.lower(
        np.ones(4, np.float32), np.zeros(1, np.float32), 4, BLOCK=4, grid=1
    )
    assert "tile.atomic add" in compilation.tile
    assert "kernel void count" in compilation.msl


@pytest.mark.parametrize("options", [{"num_warps": 3}, {"num_stages": 0}])
def test_options_are_checked(options: dict[str, int]) -> None:
    x = np.ones(4, np.float32)
    with pytest.raises(ArgumentError, match="is a"):
        count.base[(1,)](x, x, 4, BLOCK=4, **options)
