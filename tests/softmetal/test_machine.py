# ruff: noqa: E501  (MSL in strings)
"""Many at once: threads that run kernels, processes that compile into one empty cache."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
from msl import Failure, Library

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
KERNEL = (
    HEAD + "kernel void k(device float* X [[buffer(0)]], uint i [[thread_position_in_grid]]) {\n"
    "threadgroup float a[64];\na[i % 64] = X[i];\nthreadgroup_barrier(mem_flags::mem_threadgroup);\n"
    "X[i] = simd_sum(a[63 - i % 64]); }"
)


def test_threads_run_kernels_at_once() -> None:
    library = Library.compile(KERNEL)
    wrong: list[int] = []

    def work(number: int) -> None:
        for step in range(200):
            x = np.full(640, number + step, np.float32)
            library.run("k", [x], 640, 64, seed=step)
            if not (x == 32 * (number + step)).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_failure_leaves_the_others_alone() -> None:
    good = Library.compile(KERNEL)
    bad = Library.compile(
        HEAD + "kernel void k(device float* X, uint i [[thread_position_in_grid]]) {\n"
        "if (i == 77) X[1l << 40] = 1;\nthreadgroup_barrier(mem_flags::mem_none); }"
    )
    failed = 0
    for _ in range(20):
        x = np.ones(640, np.float32)
        try:
            bad.run("k", [x], 640, 64)
        except Failure:
            failed += 1
        good.run("k", [x], 640, 64)
        assert (x == 32).all()
    assert failed == 20


def test_memory_stays_flat() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    def round_() -> None:
        for _ in range(1000):
            library.run("k", [np.ones(640, np.float32)], 640, 64)

    library = Library.compile(KERNEL)
    round_()
    before = resident()
    round_()
    assert resident() - before < 1 << 20


def test_a_process_that_forks() -> None:
    library = Library.compile(KERNEL)
    library.run("k", [np.ones(64, np.float32)], 64, 64)
    child = os.fork()
    if child == 0:
        x = np.ones(64, np.float32)
        library.run("k", [x], 64, 64)
        os._exit(0 if (x == 32).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_processes_share_an_empty_cache(tmp_path: Path) -> None:
    program = (
        "import sys; import numpy as np; from msl import Library, machine\n"
        f"machine().msl_configure(None, {str(tmp_path).encode()!r}, None)\n"
        f"x = np.ones(64, np.float32); Library.compile({KERNEL!r}).run('k', [x], 64, 64)\n"
        "assert (x == 32).all()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    processes = [
        subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(4)
    ]
    assert [process.wait() for process in processes] == [0] * 4
    assert len(list(tmp_path.glob("*.pch"))) == 1
    assert {path.suffix for path in tmp_path.iterdir()} == {".pch", ".lock"}


def test_the_compiler_is_a_clang_that_runs() -> None:
    program = (
        "from msl import Failure, Library\n"
        f"try: Library.compile({KERNEL!r})\nexcept Failure as failure: print(failure)"
    )
    for compiler in ("g++", "no-such-compiler"):
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent),
            "IRIS_SOFTMETAL_COMPILER": compiler,
        }
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
        )
        assert "apt install clang-19" in done.stdout and f"'{compiler}'" in done.stdout
