# ruff: noqa: E501  (MSL in strings)
"""Races are found whatever the order of threads and whatever they write, and nothing else is taken
for one: kernels with checks of their accesses, in a process of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent
HEAD = """#include <metal_stdlib>
using namespace metal;
struct Wide { float x[9]; };
"""
# Of a kernel, after its name.
START = """(device float* X [[buffer(0)]], device float* Y [[buffer(1)]], device atomic_int* A [[buffer(2)]],
              device const float* C [[buffer(3)]], threadgroup float* dynamic [[threadgroup(0)]],
              ushort lid [[thread_index_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]],
              uint i [[thread_position_in_grid]], uint group [[threadgroup_position_in_grid]],
              ushort simdgroup [[simdgroup_index_in_threadgroup]]) {"""
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
ON_DEVICE = "threadgroup_barrier(mem_flags::mem_device);"
IN_SIMDGROUP = "simdgroup_barrier(mem_flags::mem_threadgroup);"
MEMORY = "threadgroup float a[64]; threadgroup atomic_int n[2]; threadgroup uchar b[64];"
RELAXED = ", memory_order_relaxed)"
ALL = "threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);"
FENCE = "atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);"

# Two threadgroups of 64 threads.  Y is the second half of X's memory; C is read alone.
PROGRAM = """
import json, sys
import numpy as np
from msl import Failure, Library
answers = []
names, text = json.load(sys.stdin)
library = Library.compile(text)
for name in names:
    said = []
    for seed in (0, 1, 2):
        x = np.zeros(2048, np.float32)
        a = np.zeros(64, np.int32)
        try:
            library.run(name, [x, x[1024:], a, np.zeros(512, np.float32)], 128, 64, threadgroup_bytes=[256], seed=seed)
            said.append("")
        except Failure as failure:
            said.append(str(failure))
    answers.append(said)
json.dump(answers, sys.stdout)
"""


class Race(NamedTuple):
    body: str  # a line for each access
    memory: str  # a pattern
    lines: tuple[int, int]  # of the body
    why: str = "no barrier between them orders that"


THREADGROUP = r"byte \d+ of a in threadgroup memory"
GROUPS = "nothing orders threadgroups"
RACES = {
    "read after write": Race("a[lid] = i;\nX[i] = a[63 - lid];", THREADGROUP, (1, 2)),
    "write after read": Race(
        f"a[lid] = 0; {BARRIER}\nX[i] = a[63 - lid];\na[lid] = 1;", THREADGROUP, (2, 3)
    ),
    "write after write": Race("a[lid / 2] = lid;", THREADGROUP, (1, 1)),
    "the same value": Race("a[5] = 1;", "byte 20 of a in threadgroup memory", (1, 1)),
    "the value that is there": Race(
        f"if (lid == 0) a[0] = 7; {BARRIER} float x = a[0];\n{BARRIER}\na[0] = x;",
        THREADGROUP,
        (3, 3),
    ),
    "in a simdgroup": Race(
        "if (simdgroup == 0) a[lane] = i;\nif (simdgroup == 0) X[i] = a[31 - lane];",
        THREADGROUP,
        (1, 2),
    ),
    "lanes that shuffle": Race(
        "a[lid] = i;\nX[i] = simd_sum(a[lid]) + a[lid ^ 1];", THREADGROUP, (1, 2)
    ),
    "a simdgroup's barrier for all": Race(
        f"a[lid] = i; {IN_SIMDGROUP}\nX[i] = a[63 - lid];", THREADGROUP, (1, 2)
    ),
    "a barrier of another simdgroup": Race(
        f"if (simdgroup == 0) a[lane] = i;\n{IN_SIMDGROUP} if (simdgroup == 1) X[i] = a[lane];",
        THREADGROUP,
        (1, 2),
    ),
    "a barrier of other memory": Race(
        f"a[lid] = i; {ON_DEVICE}\nX[i] = a[63 - lid];", THREADGROUP, (1, 2)
    ),
    "a barrier of no memory": Race(
        "a[lid] = i; threadgroup_barrier(mem_flags::mem_none);\nX[i] = a[63 - lid];",
        THREADGROUP,
        (1, 2),
    ),
    "a simdgroup's of other memory": Race(
        "a[lid] = i; simdgroup_barrier(mem_flags::mem_device);\nX[i] = a[lid ^ 1];",
        THREADGROUP,
        (1, 2),
    ),
    "a barrier too early": Race(
        f"for (int k = 0; k < 3; ++k) {{ a[lid] = k;\n{BARRIER} X[i] = a[63 - lid]; }}",
        THREADGROUP,
        (1, 2),
    ),
    "a dynamic argument": Race(
        "dynamic[lid] = i;\nX[i] = dynamic[63 - lid];",
        r"byte \d+ of dynamic in threadgroup memory",
        (1, 2),
    ),
    "part of a vector": Race("*(threadgroup float4*)&a[lid / 4 * 4] = 1;", THREADGROUP, (1, 1)),
    "one byte of a vector": Race(
        "if (lid == 0) *(threadgroup uchar4*)&b[4] = 1;\nif (lid == 40) b[6] = 2;",
        r"byte [46] of b in threadgroup memory",
        (1, 2),
    ),
    "vectors and bytes of them": Race(
        "if (lid == 0) b[15] = 2;\nif (lid == 40) *(threadgroup uint4*)&b[0] = 1;",
        r"byte (0|15) of b in threadgroup memory",
        (1, 2),
    ),
    "a whole object": Race(
        "if (lid == 0) *(device Wide*)X = *(device Wide*)(X + 256);\nif (lid == 63) X[8] = 1;",
        r"byte (0|32) of buffer 0 \(X\)",
        (1, 2),
    ),
    "from a whole object": Race(
        "if (lid == 0) *(device Wide*)X = *(device Wide*)(X + 256);\nif (lid == 63) X[264] = 1;",
        r"byte (1024|1056) of buffer 0 \(X\)",
        (1, 2),
    ),
    "a matrix": Race(
        "a[lid] = i; a[lid] = 0;\nsimdgroup_float8x8 m; simdgroup_load(m, a, 8); X[i] = m.thread_elements()[0];",
        THREADGROUP,
        (1, 2),
    ),
    "a matrix that is stored": Race(
        "simdgroup_float8x8 m(1.0f); simdgroup_store(m, a, 8);", THREADGROUP, (1, 1)
    ),
    "device memory": Race(
        "X[i] = i;\nX[i + 256] = X[i ^ 63];", r"byte \d+ of buffer 0 \(X\)", (1, 2)
    ),
    "a barrier of threadgroup memory": Race(
        f"X[i] = i; {BARRIER}\nX[i + 256] = X[i ^ 63];", r"byte \d+ of buffer 0 \(X\)", (1, 2)
    ),
    "what one thread needs": Race(
        "float x = X[512 + group];\nif (lid == 9) X[512 + group] = x - x;",
        r"byte \d+ of buffer 0 \(X\)",
        (1, 2),
    ),
    "one memory by two names": Race(
        "if (lid == 3) Y[group] = 1;\nif (lid == 4) X[256 + i] = X[1024 + group];",
        r"byte \d+ of buffer [01] \([XY]\)",
        (1, 2),
    ),
    "threadgroups": Race("X[lid] = i;", r"byte \d+ of buffer 0 \(X\)", (1, 1), GROUPS),
    "threadgroups and barriers": Race(
        "X[i] = 1; threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);\nX[i + 256] = X[127 - i];",
        r"byte \d+ of buffer 0 \(X\)",
        (1, 2),
        GROUPS,
    ),
    "the second reader": Race(
        "float x = lid < 2 ? X[600 + group] : 0; X[i + 256] = x;\nif (lid == 1) X[600 + group] = 1;",
        r"byte \d+ of buffer 0 \(X\)",
        (1, 2),
    ),
    "a reader of another threadgroup": Race(
        f"X[i + 256] = X[0]; {ON_DEVICE} X[i + 256] += X[0]; {ON_DEVICE}\nif (group == 1 && lid == 3) X[0] = 1;",
        r"byte 0 of buffer 0 \(X\)",
        (1, 2),
        GROUPS,
    ),
    "atomic and not": Race(
        f"if (lid == 1) atomic_fetch_add_explicit(&n[0], 1{RELAXED};\nif (lid == 2) *(threadgroup int*)&n[0] = 1;",
        r"byte 0 of n in threadgroup memory",
        (1, 2),
    ),
    "an atomic without a fence after it": Race(
        f"if (lid == 0) {{ X[group] = 1; {FENCE} if (atomic_fetch_add_explicit(&A[0], 1{RELAXED} == 1) {{\nX[7] = X[0] + X[1]; }} }}",
        r"byte \d+ of buffer 0 \(X\)",
        (1, 2),
        GROUPS,
    ),
    "an atomic without a fence before it": Race(
        f"if (lid == 0) {{ X[group] = 1; if (atomic_fetch_add_explicit(&A[0], 1{RELAXED} == 1) {{ {FENCE}\nX[7] = X[0] + X[1]; }} }}",
        r"byte \d+ of buffer 0 \(X\)",
        (1, 2),
        GROUPS,
    ),
    "a fence for other threads": Race(
        f"threadgroup int last; X[i] = 1; if (lid == 0) {{ {FENCE} last = atomic_fetch_add_explicit(&A[0], 1{RELAXED}; {FENCE} }} {ALL} if (last == 1)\nX[i] = X[i ^ 65];",
        r"byte \d+ of buffer 0 \(X\)",
        (1, 2),
        GROUPS,
    ),
    "an atomic store and a read": Race(
        f"if (lid == 1) atomic_store_explicit(&A[group], 1{RELAXED};\nif (lid == 2) X[i] = *(device int*)&A[group];",
        r"byte \d of buffer 2 \(A\)",
        (1, 2),
    ),
    "an atomic read and a write": Race(
        f"if (lid == 1) X[i] = atomic_load_explicit(&A[group]{RELAXED};\nif (lid == 2) *(device int*)&A[group] = 1;",
        r"byte \d of buffer 2 \(A\)",
        (1, 2),
    ),
    "a failed exchange and a read": Race(
        f"int e = 5; if (lid == 1) atomic_compare_exchange_weak_explicit(&A[group], &e, 1, memory_order_relaxed{RELAXED};\nif (lid == 2) X[i] = *(device int*)&A[group];",
        r"byte \d of buffer 2 \(A\)",
        (1, 2),
    ),
}
NO_RACES = {
    "barriers": f"for (int k = 0; k < 3; ++k) {{ a[lid] = k; {BARRIER} X[i] = a[63 - lid]; {BARRIER} }}",
    "barriers of all memory": f"a[lid] = X[i]; X[i] = 2; {BARRIER} {ON_DEVICE} X[i ^ 63] = a[63 - lid];",
    "a simdgroup's barriers": f"a[lid] = i; {IN_SIMDGROUP} X[i] = a[lid ^ 31]; {IN_SIMDGROUP} a[lid] = 1;",
    "a simdgroup's of device memory": "X[i] = i; simdgroup_barrier(mem_flags::mem_device); X[i ^ 1] = 4;",
    "a simdgroup's, then all": f"a[lid] = i; {IN_SIMDGROUP} X[i] = a[lid ^ 31]; {BARRIER} a[63 - lid] = 1;",
    "one thread": "if (lid == 5) { a[0] = i; a[0] += a[0]; X[i] = a[0]; X[i] *= 2; }",
    "many readers": "X[i] = C[0] + C[5] + X[512] + X[513];",
    "neighbours": "b[lid] = lid; *(device ushort*)((device uchar*)X + i * 2) = 3;",
    "vectors and parts of them": f"if (lid < 4) *(threadgroup uint4*)&b[lid * 16] = 1; {BARRIER} b[lid] += 1; {BARRIER} X[i] = *(threadgroup uint*)&b[lid / 4 * 4];",
    "atomic": f"atomic_fetch_add_explicit(&A[0], 1{RELAXED}; atomic_store_explicit(&A[1], 1{RELAXED}; X[i] = atomic_load_explicit(&A[0]{RELAXED}; atomic_fetch_max_explicit(&n[0], 5{RELAXED}; int e = 1; atomic_compare_exchange_weak_explicit(&A[1], &e, 2, memory_order_relaxed{RELAXED};",
    "atomic reads and others": f"X[i] = atomic_load_explicit(&A[3]{RELAXED} + *(device int*)&A[3];",
    "memory of another threadgroup": "for (int k = 0; k < 2; ++k) a[lid] = k;",
    "variables of a thread": "float v[64]; for (int k = 0; k < 64; ++k) v[k] = k * i; X[i] = v[lid] + simd_sum(v[3]); Wide w; for (int k = 0; k < 9; ++k) w.x[k] = v[k + lane]; Wide u = w; X[i] += u.x[lane % 9];",
    "fences": f"if (lid == 0) {{ X[group] = 1; {FENCE} if (atomic_fetch_add_explicit(&A[0], 1{RELAXED} == 1) {{ {FENCE} X[7] = X[0] + X[1]; }} }}",
    "fences and barriers": f"threadgroup int last; X[i] = 1; {ON_DEVICE} if (lid == 0) {{ {FENCE} last = atomic_fetch_add_explicit(&A[0], 1{RELAXED}; {FENCE} }} {ALL} if (last == 1) X[i] = X[i ^ 64] + X[i];",
    "a matrix": f"a[lid] = i; {BARRIER} simdgroup_float8x8 m; simdgroup_load(m, a, 8); {BARRIER} if (simdgroup == 1) simdgroup_store(m, a, 8);",
}  # fmt: skip


BEFORE = START.count("\n") + 2  # lines of a kernel before its body


@cache
def answers() -> dict[str, list[str]]:
    """What each body came to, in several orders of threads.

    They are one text, whose lines are counted anew for each: a compiler takes long to start.
    """
    bodies = [*(race.body for race in RACES.values()), *NO_RACES.values()]
    named = {f"k{n}": body for n, body in enumerate(bodies)}
    kernels = [
        f"#line 1\nkernel void {name}{START}\n{MEMORY}\n{body}\n}}\n"
        for name, body in named.items()
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "IRIS_SOFTMETAL_SANITIZE": "1", "PYTHONPATH": str(HERE)},
        input=json.dumps([[*named], HEAD + "".join(kernels)]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    return dict(zip(bodies, json.loads(done.stdout), strict=True))


FOUND = re.compile(
    r"kernel 'k\d+': line (\d+): race: thread \d+ \(simdgroup \d+, lane \d+\) of threadgroup \((\d), 0, 0\) "
    r"(?:atomically )?(?:reads|writes|updates) (.*), which thread \d+ \(simdgroup \d+, lane \d+\)"
    r"(?: of threadgroup \(\d, 0, 0\))? (?:atomically )?(?:reads|writes|updates) in line (\d+), and (.*)"
)


@pytest.mark.parametrize("name", RACES)
def test_a_race_is_found_in_every_order(name: str) -> None:
    race = RACES[name]
    for answer in answers()[race.body]:
        found = FOUND.fullmatch(answer)
        assert found is not None, answer
        line, group, memory, other, why = found.groups()
        assert sorted((int(line) - BEFORE, int(other) - BEFORE)) == list(race.lines), answer
        assert re.fullmatch(race.memory, memory), answer
        # In the threadgroup that runs first, if it has one to itself.
        assert why == race.why and (group == "0" or why == GROUPS), answer


@pytest.mark.parametrize("name", NO_RACES)
def test_what_is_in_order_is_no_race(name: str) -> None:
    assert answers()[NO_RACES[name]] == ["", "", ""]
