# ruff: noqa: E501  (MSL in strings)
"""Kernels with checks of addresses and of what C++ leaves undefined, in a process of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HEAD = """#include <metal_stdlib>
using namespace metal;
constant int table[5] = {1, 2, 3, 4, 5};
struct Pair { int a, b; };
"""
# Of a kernel, after its name.
START = """(device float* X [[buffer(0)]], device Pair* P [[buffer(1)]], threadgroup float* dynamic [[threadgroup(0)]],
              ushort lid [[thread_index_in_threadgroup]], uint i [[thread_position_in_grid]]) {"""
LINE = START.count("\n") + 2  # of the body
# X has 61 elements, P as many; behind each is memory that no guard page guards.
PROGRAM = """
import json, sys
import numpy as np
from msl import Failure, Library, machine
import ctypes as c
names, text = json.load(sys.stdin)
library = Library.compile(text)
clean = Library.compile("kernel void k(device float* X, uint i [[thread_position_in_grid]]) {"
                        "float a[64]; for (int k = 0; k < 61; ++k) a[k] = X[i]; X[i] = a[i] + 1; }")
memory = np.zeros(4096, np.uint8)
floats = memory[: 61 * 4].view(np.float32)
pairs = memory[1024 : 1024 + 61 * 8].view(np.int64)
for array, room in ((floats, 12), (pairs, 32)):
    machine().msl_make_untouchable(c.c_void_p(array.ctypes.data + array.nbytes), c.c_ulong(room))
answers = []
for name in names:
    memory[:] = 0
    try:
        library.run(name, [floats, pairs], 61, 61, threadgroup_bytes=[61 * 4], seed=1)
        answers.append("")
    except Failure as failure:
        answers.append(str(failure))
    # What failed leaves nothing behind.
    memory[:] = 0
    clean.run("k", [floats], 61, 61)
    assert (floats == 1).all()
json.dump(answers, sys.stdout)
"""

# What a kernel does wrong, and what is said of it.
WRONG = {
    "X[i + 1] = 1;": "access to memory that is not there: 0 bytes past the end of buffer 0 (X)",
    "if (X[60 + lid / 60] > 0) X[0] = 1;": "0 bytes past the end of buffer 0 (X)",
    "P[i + (lid == 60)].b = 1;": "4 bytes past the end of buffer 1 (P)",
    "Pair p = P[i + (lid == 60)]; X[i] = p.a + p.b;": "past the end of buffer 1 (P)",
    "if (lid == 60) *(device int4*)(P + 60) = int4(1);": "over the end of buffer 1 (P)",
    "threadgroup float a[61], b[3]; threadgroup float* p = a; X[i] = p[lid + 1]; if (lid == 0) b[0] = X[i];": "outside of a variable in threadgroup memory",
    "threadgroup float a[61]; a[lid + 1] = 2;": "an index out of the bounds of its array",
    "dynamic[lid + 1] = 1;": "outside of a variable in threadgroup memory",
    "float a[4]; volatile int k = 4; thread float* p = a; p[0] = X[i]; X[i] = p[k];": "outside of a variable of the thread",
    "thread volatile float* p; { volatile float a[2]; a[0] = X[i]; p = a; } X[i] = *p;": "a variable of the thread that is gone",
    "volatile int k = 5; constant int* p = table; X[i] = p[k];": "past the end of a constant",
    "volatile int k = 5; X[i] = table[k];": "an index out of the bounds of its array",
    "P[i].a = 2147483600 + int(lid);": "a sum of signed integers overflows",
    "P[i].a = (int(lid) - 30) * 100000000;": "a product of signed integers overflows",
    "P[i].a = -2147483600 - int(lid);": "a difference of signed integers overflows",
    "P[i].a = 7 / (int(lid) - 30);": "a division of integers by zero",
    "P[i].a = int(1e10f + X[i]);": "does not fit the integer",
    "*(device int*)((device char*)X + 1 + lid) = 0;": "not aligned as its type needs",
}
# What C++ leaves undefined and Metal defines, and what is in order.
RIGHT = [
    "P[i].a = 1 << (lid % 61); P[i].b = (-int(lid)) << 2; P[i].a = P[i].b >> int(lid);",
    "P[i].a = int(4000000000u + lid); P[i].b = as_type<int>(~0u) * 1;",
    "uint k = lid; k *= 4000000000u; X[i] = k - 5u; ushort h = 65535; h += lid; P[i].a = h; P[i].b = char(lid * 9);",
    "int2 v = int2(2147483647) + int(lid); P[i].a = v.x; P[i].b = abs(-2147483647 - 1) + rotate(1, int(lid)) * 0;",
    "X[i] = simd_sum(X[i]); threadgroup_barrier(mem_flags::mem_threadgroup); dynamic[lid] = X[i];",
    "threadgroup float a[61]; threadgroup Pair b[61]; a[lid] = i; b[lid] = P[i]; threadgroup_barrier(mem_flags::mem_threadgroup); X[i] = a[60 - lid] + b[60 - lid].b + table[lid % 5] + 1.0f / 0.0f;",
    "threadgroup atomic_int n; if (lid == 0) atomic_store_explicit(&n, 2147483640, memory_order_relaxed); threadgroup_barrier(mem_flags::mem_threadgroup); atomic_fetch_add_explicit(&n, 1, memory_order_relaxed);",
]


def kernel(body: str, name: str = "k") -> str:
    return f"#line 1\nkernel void {name}{START}\n{body}\n}}\n"


@cache
def answers() -> dict[str, str]:
    """What each body came to; they are one text, for a compiler takes long to start."""
    named = {f"k{n}": body for n, body in enumerate([*WRONG, *RIGHT])}
    text = HEAD + "".join([kernel(body, name) for name, body in named.items()])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "IRIS_SOFTMETAL_SANITIZE": "1", "PYTHONPATH": str(HERE)},
        input=json.dumps([[*named], text]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    return dict(zip(named.values(), json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("body", WRONG)
def test_a_mistake_is_an_error_with_its_line(body: str) -> None:
    answer = answers()[body]
    assert re.match(rf"kernel 'k\d+': line {LINE}: ", answer)
    assert WRONG[body] in answer


@pytest.mark.parametrize("body", RIGHT)
def test_what_metal_defines_is_no_error(body: str) -> None:
    assert answers()[body] == ""


def test_a_library_that_was_not_checked_is_refused() -> None:
    from msl import Library

    image = Library.compile(HEAD + kernel("X[i] = 1;")).image
    program = (
        "import sys; from msl import Failure, Library\n"
        "try: Library.open_bytes(sys.stdin.buffer.read())\n"
        "except Failure as failure: print(failure)"
    )
    environment = {**os.environ, "IRIS_SOFTMETAL_SANITIZE": "1", "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, input=image, stdout=subprocess.PIPE
    )
    assert b"made without sanitizers" in done.stdout


# Arrays that leave out some of the memory that they span: which elements of that may be touched.
GAPS = """
import json
import numpy as np
import iris
from iris.errors import DeviceError

@iris.kernel
def copy(X, Out, first, count, N: iris.constexpr):
    i = first + iris.arange(0, N)
    inside = iris.arange(0, N) < count
    iris.store(Out + i, iris.load(X + i, mask=inside), mask=inside)

found = {}
for dtype in ("uint8", "float16", "float32", "int64"):
    for step in (2, 3, 5):
        x, out = np.arange(40).astype(dtype), np.zeros(40, dtype)
        for i in range(14):
            for given in ((iris.strided(x[1::step]), out), (x, iris.strided(out[1::step]))):
                try:
                    copy[1](*given, i, 1, N=1, device="softmetal")
                    found[f"{dtype} {step} {i} {given[0] is x}"] = ""
                except DeviceError as error:
                    found[f"{dtype} {step} {i} {given[0] is x}"] = str(error)
    copy[1](x, out, 0, 40, N=64, device="softmetal")  # the memory has no gaps any more
    assert (x == out).all()
print(json.dumps(found))
"""


def test_what_lies_between_elements_may_not_be_touched(tmp_path: Path) -> None:
    program = tmp_path / "gaps.py"
    program.write_text(GAPS)
    done = subprocess.run(
        [sys.executable, program],
        env={**os.environ, "IRIS_SOFTMETAL_SANITIZE": "1"},
        stdout=subprocess.PIPE,
        check=True,
        timeout=300,
    )
    for which, error in json.loads(done.stdout).items():
        _, step, i, writes = which.split()
        if int(i) % int(step) == 0:
            assert error == "", which
        else:
            array = "buffer 1 (Out)" if writes == "True" else "buffer 0 (X)"
            assert f"of {array}, between two elements" in error, which
