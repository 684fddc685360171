"""`iris fuzz`: what is found, where it is written, and where it goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from hypothesis import strategies as st

from iris.ir import Module
from iris.ir.math import Sub
from iris.passes import Pass
from iris.testing.properties import PROPERTIES, Property, of_passes
from iris.tools.cli import main
from iris.tools.fuzz import BATCH, Campaign


@dataclass(frozen=True)
class SwapSubs(Pass):
    """Swap the operands of subtractions, which is wrong."""

    name = "swap-subs"

    def run(self, module: Module) -> None:
        for op in module.walk():
            if isinstance(op, Sub):
                op.set_operands((op.rhs, op.lhs))


def one_thread() -> Executor:
    return ThreadPoolExecutor(1)


WRONG = of_passes("cse,swap-subs")[0]


def campaign(property: Property, folder: Path, batches: int = 3) -> Campaign:
    made = Campaign([property], folder)
    made.run(one_thread, workers=1, examples=batches * BATCH)
    return made


def small(numbers: Sequence[list[int]], seconds: float) -> None:
    for each in numbers:
        if sum(each) > 9:
            raise ValueError("too much")


def test_python_that_fails_is_reduced_and_shown(tmp_path: Path) -> None:
    lists = partial(st.lists, st.integers(0, 20))
    found = campaign(Property("sums", "python", lists, small), tmp_path)
    (path,) = found.paths
    assert path.read_text().endswith("ValueError: too much\n\n[10]\n")


def test_what_is_found_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong pass fails in most programs, in one way: that is one find, of a few ops."""
    found = campaign(WRONG, tmp_path, 2)
    assert list(found.finds) == ["swap-subs"]
    assert found.again
    (path,) = found.paths
    assert path.name == "swap-subs.iris"
    text = path.read_text()
    assert text.startswith('# found by: iris fuzz --passes "cse,swap-subs" --property preserves-')
    assert text.count(" = ") <= 16
    assert f"{path}: swap-subs " in "\n".join(found.summary())
    # The file is replayed as it says.
    assert f'bisect --passes "cse,swap-subs" {path}\n' in text
    assert main(["bisect", "--passes", "cse,swap-subs", str(path)]) == 1
    assert capsys.readouterr().out.startswith("swap-subs ")


def test_a_batch_is_the_same_each_time(tmp_path: Path) -> None:
    once, again = (campaign(WRONG, tmp_path / name, 1) for name in "ab")
    assert (
        once.paths[0].read_text().split("\n", 2)[2] == again.paths[0].read_text().split("\n", 2)[2]
    )
    assert (once.ops, once.examples) == (again.ops, again.examples)


def test_a_second_run_goes_on(tmp_path: Path) -> None:
    first = campaign(PROPERTIES["graph-kernels"], tmp_path)
    second = Campaign([PROPERTIES["graph-kernels"]], tmp_path)
    assert second.start() == f"going on after {3 * BATCH} examples, see {tmp_path / 'fuzz.json'}"
    assert second.tallies["graph-kernels"].batches == first.tallies["graph-kernels"].batches == 3
    assert Campaign([PROPERTIES["graph-kernels"]], tmp_path, seed=7).start() == ""


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--property", "graph-passes", "--examples", "10", "--jobs", "1"]
    assert main(["fuzz", *arguments, "--corpus", str(tmp_path / "finds")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["graph-passes", "10"]
    assert lines[2].startswith("10 examples, ") and lines[2].endswith(" 0 found")


MINE = """
from dataclasses import dataclass
from iris.ir.math import Sub
from iris.passes import Pass

@dataclass(frozen=True)
class Mine(Pass):
    name = "mine"

    def run(self, module):
        for op in module.walk():
            if isinstance(op, Sub):
                op.set_operands((op.rhs, op.lhs))
"""


def test_a_pass_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    command = [sys.executable, "-m", "iris.tools.cli", "--import", "mine"]
    arguments = ["--passes", "mine", "--examples", "40", "--jobs", "1"]
    done = subprocess.run(
        [*command, "fuzz", *arguments], cwd=tmp_path, text=True, capture_output=True
    )
    assert done.returncode == 1, done.stderr
    assert "iris-fuzz/mine.iris: mine " in done.stdout
    again = ["bisect", "--passes", "mine", "iris-fuzz/mine.iris"]
    done = subprocess.run([*command, *again], cwd=tmp_path, text=True, capture_output=True)
    assert done.returncode == 1 and done.stdout.startswith("mine "), done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--property", "agrees"], "there is no property agrees; there are agree, "),
        (["--passes", "no-such"], "no-such"),
        (["--level", "graph", "--passes", "insert-barriers"], "there are metal"),
        (["--passes", "cse", "--device", "softmetal"], "not for one run"),
        (["--device", "interp", "--property", "libraries"], "there is no property libraries"),
    ],
)
def test_wrong_usage(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fuzz", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_another_executor(tmp_path: Path) -> None:
    """A cluster: programs are drawn and run by its workers."""
    from distributed import Client, LocalCluster

    make: Callable[[], LocalCluster] = lambda: LocalCluster(  # noqa: E731
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with make() as cluster, Client(cluster) as client:
        made = Campaign([PROPERTIES["graph-passes"]], tmp_path)
        made.run(client.get_executor, workers=1, examples=2 * BATCH)
    assert made.examples == 2 * BATCH and not made.finds
