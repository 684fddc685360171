"""`import iris` is cheap and touches nothing: each test imports it in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support import slowness

BUDGET_MS = 100  # of processor time
# What compiling and running need is opened by the first launch.
OPENED = {"compiler", "errors", "frontend", "ir", "knobs", "runtime", "targets", "version"}

WATCHED = """
import ctypes, os, sys
import numpy

before = set(sys.modules)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
FORBIDDEN = (
    "ctypes.dlopen", "socket.", "subprocess.", "os.system", "os.posix_spawn", "os.fork", "os.exec",
    "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate",
)

def watch(event, args):
    opened_to_write = event == "open" and isinstance(args[2], int) and args[2] & WRITING
    if opened_to_write or event.startswith(FORBIDDEN):
        print(event, args)

sys.addaudithook(watch)
PROVOKE
import iris

allowed = {"iris", "numpy"} | sys.stdlib_module_names
for name in sorted(set(sys.modules) - before):
    if name.partition(".")[0] not in allowed:
        print("module", name)
"""

TIMED = """
import time
import numpy
start = time.process_time()
import iris
print(time.process_time() - start)
"""


def fresh(code: str, *, write_bytecode: bool) -> str:
    """What `code` prints in an interpreter of its own."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    if not write_bytecode:
        env["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


def test_import_loads_no_framework_and_touches_nothing() -> None:
    assert fresh(WATCHED.replace("PROVOKE", ""), write_bytecode=False) == ""


@pytest.mark.parametrize(
    ("misdeed", "report"),
    [
        ("ctypes.CDLL(None)", "ctypes.dlopen"),
        ("import subprocess; subprocess.run(['true'])", "subprocess.Popen"),
        ("open(os.devnull, 'w')", "open"),
        ("import hypothesis", "module hypothesis"),
    ],
)
def test_the_watch_reports_a_misdeed(misdeed: str, report: str) -> None:
    assert report in fresh(WATCHED.replace("PROVOKE", misdeed), write_bytecode=False)


def test_import_opens_no_pass() -> None:
    names = "import iris, sys; print(*[n for n in sys.modules if n.startswith('iris.')])"
    rooms = {name.split(".")[1] for name in fresh(names, write_bytecode=False).split()}
    assert rooms == OPENED


def test_import_costs_little() -> None:
    # The least of several: load on the machine only ever adds.
    seconds = min(float(fresh(TIMED, write_bytecode=True)) / slowness() for _ in range(5))
    print(f"import iris over import numpy: {seconds * 1e3:.1f} ms (at most {BUDGET_MS})")
    assert seconds * 1e3 < BUDGET_MS
