"""Libraries as bytes: kept, opened, damaged; and what a process leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from msl import Failure, Library, MathMode, machine

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
TEXT = (
    HEAD + "constant int n [[function_constant(0)]];\n"
    "#ifdef __METAL_FAST_MATH__\nconstant int speed = 1000;\n"
    "#else\nconstant int speed = 2000;\n#endif\n"
    "kernel void k(device int* x [[buffer(0)]]) { x[0] = n + MINE + speed + __METAL_VERSION__; }"
)
MACROS = {"MINE": "(1 << 20)"}


def compiled() -> Library:
    return Library.compile(TEXT, MACROS, version=310, math=MathMode.FAST)


def answer(library: Library) -> int:
    x = np.zeros(1, np.int32)
    library.run("k", [x], 1, 1)
    return int(x[0])


def test_a_library_is_kept_in_a_file_with_its_options(tmp_path: Path) -> None:
    library = compiled()
    base = (1 << 20) + 1000 + 310
    kept = tmp_path / "kept"
    kept.write_bytes(Path(library.path).read_bytes())
    assert kept.read_bytes() == library.image
    del library
    opened = Library.open(str(kept))
    assert answer(opened) == base
    special = opened.specialize(n=("i", np.int32(41)))
    assert answer(special) == base + 41
    again = Library.open_bytes(special.image)
    assert answer(again) == base + 41
    assert [answer(x) for x in (opened, special, again)] == [base, base + 41, base + 41]


def test_a_specialisation_keeps_its_values_in_a_file() -> None:
    two = Library.compile(
        HEAD + "constant int a [[function_constant(0)]]; constant int b [[function_constant(1)]];\n"
        "kernel void k(device int* x [[buffer(0)]]) { x[0] = a * 100 + b; }"
    )
    one = Library.open_bytes(two.specialize(a=("i", np.int32(3))).image)
    assert answer(one.specialize(b=("i", np.int32(4)))) == 304


def test_a_damaged_library_is_refused(tmp_path: Path) -> None:
    image = compiled().image
    rng = np.random.default_rng(0)
    damaged = [image[:size] for size in (0, 1, 100, len(image) // 2, len(image) - 1)]
    damaged += [image + b"x", image[1:], image[: len(image) // 2] * 2, b"\x7fELF" * 5000]
    for place in [*rng.integers(len(image), size=40), *range(len(image) - 50, len(image))]:
        flipped = bytearray(image)
        flipped[place] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    for one in damaged:
        with pytest.raises(Failure, match="library"):
            Library.open_bytes(one)
    assert answer(Library.open_bytes(image)) == (1 << 20) + 1310
    with pytest.raises(Failure, match="cannot be read"):
        Library.open(f"{tmp_path}/nothing")
    with pytest.raises(Failure, match="no library"):
        Library.open(str(tmp_path))


def test_many_libraries_at_once() -> None:
    before = len(os.listdir("/proc/self/fd"))
    image = compiled().image
    many = [Library.open_bytes(image) for _ in range(2000)]
    assert len(os.listdir("/proc/self/fd")) - before < 5
    assert {answer(library) for library in many} == {(1 << 20) + 1310}


def run(program: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    path = {"PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, **path, **environment}
    )


def program(cache: Path, body: str) -> str:
    return (
        "import numpy as np, os; from msl import Library, machine\n"
        f"machine().msl_configure(None, {str(cache).encode()!r}, None)\nx = np.zeros(1, np.int32)\n"
        f"text, macros = {TEXT!r}, {MACROS!r}\n{body}"
    )


def test_no_file_is_left_behind(tmp_path: Path) -> None:
    machine()
    cache, scratch = tmp_path / "cache", tmp_path / "scratch"
    scratch.mkdir()
    body = "Library.compile(text, macros).run('k', [x], 1, 1)\nos._exit(0)"
    environment = {"TMPDIR": str(scratch)}
    assert run(program(cache, body), environment).wait() == 0
    body = "while True: Library.compile(text, macros)"
    for wait in (0.4, 0.5, 0.6, 0.7):
        process = run(program(cache, body), environment)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
    time.sleep(0.3)  # compilers that were at work end
    assert list(scratch.iterdir()) == []
    assert {path.suffix for path in cache.iterdir()} == {".pch", ".lock"}


def test_a_cache_that_is_damaged_or_cannot_be_written(tmp_path: Path) -> None:
    body = "Library.compile(text, macros).run('k', [x], 1, 1)\nassert x[0] == (1 << 20) + 2320, x"
    assert run(program(tmp_path, body), {}).wait() == 0
    (header,) = tmp_path.glob("*.pch")
    right = header.read_bytes()
    flipped = bytearray(right)
    flipped[len(flipped) // 2] ^= 64
    for damaged in (right[: len(right) // 2], b"", bytes(flipped)):
        header.write_bytes(damaged)
        assert run(program(tmp_path, body), {}).wait() == 0
        assert len(header.read_bytes()) == len(right)
    assert run(program(Path("/proc/nowhere"), body), {}).wait() == 0
