# ruff: noqa: E501  (MSL in strings)
"""Mistakes in kernels that a GPU lets pass, or answers with garbage: here they are errors."""

from __future__ import annotations

import mmap
import re

import numpy as np
import pytest
from msl import Failure, Library, check

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
PARAMETERS = (
    "device float* X [[buffer(0)]], ushort lid [[thread_index_in_threadgroup]],"
    " ushort lane [[thread_index_in_simdgroup]], uint i [[thread_position_in_grid]]"
)


def kernel(body: str) -> Library:
    return Library.compile(HEAD + f"kernel void k({PARAMETERS}) {{\n{body}\n}}")


def failure(body: str, threads: int = 64, **options: object) -> str:
    x = np.zeros(1024, np.float32)
    with pytest.raises(Failure) as caught:
        kernel(body).run("k", [x], threads, 64, **options)  # type: ignore[arg-type]
    # The machine is as good as before.
    kernel("threadgroup_barrier(mem_flags::mem_none);\nX[i] = simd_sum(1.0f);").run(
        "k", [x], 1024, 64
    )
    assert (x == 32).all()
    return str(caught.value)


BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            f"if (lid == 3) return;\n{BARRIER}",
            "line 5: threadgroup_barrier is not reached by all threads: 1 of 64",
        ),
        (
            f"if (lid < 32) {{\n{BARRIER}\n}}",
            "line 5: threadgroup_barrier is not reached by all threads: 32 of 64",
        ),
        (f"if (lid < 5) {{\n{BARRIER}\n}} else {{\n{BARRIER}\n}}", "wait at different barriers"),
        (
            f"if (lid < 32) {{\n{BARRIER}\n}} else {{\n{BARRIER}\n}}",
            "some simdgroups wait at this threadgroup_barrier",
        ),
        (
            "if (lane < 4) X[i] = simd_shuffle_xor(X[i], 4);",
            "line 4: a shuffle reads a lane that takes no part (lanes 0-3 do)",
        ),
        (
            "if (lane < 4) simdgroup_barrier(mem_flags::mem_none);",
            "line 4: simdgroup_barrier needs all lanes",
        ),
        (
            "simdgroup_float8x8 a(1.0f);\nif (lane) simdgroup_multiply(a, a, a);\nX[i] = a.thread_elements().x;",
            "line 5: a matrix multiplication needs all lanes of a simdgroup, here come only 1-31",
        ),
        (
            "for (int n = 0; n < 3; ++n) {\nif (lane < 4 && n == 1) break;\nX[i] = simd_sum(X[i]);\n}\nX[i] = simd_max(X[i]);",
            "which comes first depends on the hardware",
        ),
        ("X[i] = 7 / int(X[i]);", "line 4: an integer is divided by zero"),
        ("X[i - (1ul << 40)] = 1;", "line 4: access to memory that is not there"),
        (
            "volatile int one = 1;\n*(device float4*)(X + one) += float4(X[i]);",
            "line 5: access to memory that is not aligned as its type needs",
        ),
        (
            "volatile float much[100000];\nmuch[i] = 1;\nX[i] = much[lid];",
            "too much on a thread's stack",
        ),
    ],
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_mistake_is_an_error(body: str, message: str, seed: int) -> None:
    assert message in failure(body, seed=seed)


def test_a_kernel_without_end() -> None:
    said = failure("while (X[0] == 0) {}", seconds=0.2)
    assert "line 4: a threadgroup did not end in time: it had 0.2 s" in said
    assert "another threadgroup" not in said  # at no fence it could learn of one


def test_limits() -> None:
    big = "threadgroup float a[8200];\na[lid] = 1;\nX[i] = a[lid];"
    assert "32800 bytes of threadgroup memory, of which there are 32768" in failure(big)
    x = np.zeros(2048, np.float32)
    with pytest.raises(
        Failure, match="2048 threads per threadgroup, of which there can be 1 to 1024"
    ):
        kernel("X[i] = 1;").run("k", [x], 2048, 2048)
    limited = Library.compile(
        HEAD + f"[[max_total_threads_per_threadgroup(64)]]\nkernel void k({PARAMETERS}) {{}}"
    )
    assert limited.max_threads("k") == 64
    with pytest.raises(Failure, match="128 threads per threadgroup, of which there can be 1 to 64"):
        limited.run("k", [x], 128, 128)


def test_buffers_are_bound_and_large_enough() -> None:
    library = Library.compile(
        HEAD + "struct P { int a[4]; };\n"
        "kernel void k(constant P& p [[buffer(1)]], device int* x [[buffer(0)]]) { x[0] = p.a[3]; }"
    )
    x = np.zeros(4, np.int32)
    with pytest.raises(Failure, match=r"buffer 1 \(p\) is not bound"):
        library.run("k", [x], 1, 1)
    with pytest.raises(Failure, match=r"buffer 1 \(p\) has 12 bytes, and 16 are needed"):
        library.run("k", [x, x[:3]], 1, 1)


def test_an_overrun_is_told_by_its_buffer_and_line() -> None:
    pages = np.frombuffer(mmap.mmap(-1, 2 * mmap.PAGESIZE), np.uint8)
    page = pages.ctypes.data
    import ctypes

    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(page + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
    x = pages[: mmap.PAGESIZE].view(np.float32)
    with pytest.raises(
        Failure, match=r"line 5: access to memory .* 0 bytes past the end of buffer 0 \(X\)"
    ):
        kernel("float y = lane;\nX[i] = y;").run("k", [x], 1025, 64)
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(page + mmap.PAGESIZE), mmap.PAGESIZE, 3)


def test_threadgroup_memory_is_poisoned() -> None:
    x = np.zeros(64, np.float32)
    library = kernel("threadgroup float a[64];\nX[i] = a[lid];\na[lid] = 1;")
    for _ in range(2):
        library.run("k", [x], 64, 64)
        assert np.isnan(x).all()


def test_a_missing_barrier_is_seen_by_some_order() -> None:
    text = "threadgroup float a[64];\na[lid] = lid;\n{barrier}\nX[i] = a[63 - lid];"
    want = 63 - np.arange(64, dtype=np.float32)

    def right(barrier: str, seed: int) -> bool:
        x = np.zeros(64, np.float32)
        kernel(text.replace("{barrier}", barrier)).run("k", [x], 64, 64, seed=seed)
        return bool((x == want).all())

    assert all(right(BARRIER, seed) for seed in range(5))
    assert not any(right("", seed) for seed in range(5))


def test_the_order_of_threads_is_the_seeds() -> None:
    library = Library.compile(
        HEAD
        + "kernel void k(device atomic_uint* n [[buffer(0)]], device uint* order [[buffer(1)]],"
        " ushort lid [[thread_index_in_threadgroup]]) {"
        " order[atomic_fetch_add_explicit(n, 1, memory_order_relaxed)] = lid; }"
    )

    def order(seed: int) -> list[int]:
        n, x = np.zeros(1, np.uint32), np.zeros(128, np.uint32)
        library.run("k", [n, x], 128, 128, seed=seed)
        return [int(v) for v in x]

    assert order(0) == list(range(128))
    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == order(0)


@pytest.mark.parametrize(
    ("body", "right"),
    [
        ("device float* y = X + 1;\ny[0] = 1;", True),
        ("threadgroup float a[4];\nthreadgroup float* p = a;\nX[0] = p[lid];", True),
        ("threadgroup float a[4];\ndevice float* p = a;\nX[0] = p[lid];", False),
        ("thread float* p = X;\nX[0] = p[1];", False),
        ("device char* p = (device char*)X;\nX[0] = p[1];", True),
        (
            "threadgroup float a[4];\nthreadgroup uint* p = (threadgroup uint*)a;\nX[0] = p[1];",
            True,
        ),
        ("threadgroup float a[4];\ndevice float* p = (device float*)a;\nX[0] = p[1];", False),
        ("float a[4];\n\nX[0] = *(device float*)&a[1];", False),
    ],
)
def test_address_spaces_are_held_apart(body: str, right: bool) -> None:
    wrong = check(HEAD + f"kernel void k({PARAMETERS}) {{\n{body}\n}}")
    assert (wrong is None) == right, wrong
    message = r"cannot initialize a variable|a cast from one address space to another"
    assert right or (wrong is not None and re.search(message, wrong))
    assert right or (wrong is not None and "program_source:" in wrong)
