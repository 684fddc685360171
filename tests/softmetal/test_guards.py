# ruff: noqa: E501  (MSL in strings)
"""Accesses before the start of memory, and past its end: seen to the byte where kernels are
checked, else to the page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
PROGRAM = r'''
import ctypes, json, mmap, os
import numpy as np
import iris
from iris.runtime.devices import select
from iris.runtime.messages import CONCURRENT, Range, Size
from iris.runtime.objc import Object, Pointer, UInteger

TEXT = """#include <metal_stdlib>
using namespace metal;
kernel void reads(device const uchar* X [[buffer(0)]], device const int* At [[buffer(1)]],
                  device uchar* Out [[buffer(2)]], threadgroup uchar* T [[threadgroup(0)]]) { Out[0] = X[At[0]]; }
kernel void writes(device uchar* X [[buffer(0)]], device const int* At [[buffer(1)]],
                   device uchar* Out [[buffer(2)]], threadgroup uchar* T [[threadgroup(0)]]) { X[At[0]] = 1; }
kernel void shared(device uchar* X [[buffer(0)]], device const int* At [[buffer(1)]],
                   device uchar* Out [[buffer(2)]], threadgroup uchar* T [[threadgroup(0)]]) { T[At[0]] = 1; }
"""
device = select("softmetal")
runtime, send = device.runtime, device.messages
set_length = runtime.message("setThreadgroupMemoryLength:atIndex:", None, UInteger, UInteger)
new_pipeline = runtime.message(
    "newComputePipelineStateWithFunction:error:", Object, Pointer, error=True
)
options = send.new(runtime.get_class("MTLCompileOptions"))
library = send.new_library(device._device, runtime.string(TEXT), options)
states = {
    name: new_pipeline(device._device, send.new_function(library, runtime.string(name)))
    for name in ("reads", "writes", "shared")
}
out = iris.empty(16, np.uint8, device=device)


def launch(kernel, at, bind):
    index = iris.asarray(np.array([at], np.int32), device=device)
    with runtime.pool():
        buffer = send.command_buffer(device._queue._queue)
        encoder = send.encoder(buffer, CONCURRENT)
        send.set_pipeline(encoder, states[kernel])
        blocks = [out.argument.memory.block, index.argument.memory.block, out.argument.memory.block]
        pointers = (Pointer * 3)(*[block.buffer.pointer for block in blocks])
        send.set_buffers(encoder, pointers, (UInteger * 3)(), Range(0, 3))
        set_length(encoder, 64, 0)
        bind(encoder)
        send.dispatch(encoder, Size(1, 1, 1), Size(1, 1, 1))
        send.end_encoding(encoder)
        send.commit(buffer)
        send.wait(buffer)
        return "" if send.status(buffer) == 4 else runtime.error_text(send.error(buffer))


kept = []


def bound(memory, offset):
    kept.append(memory)
    pointer = (Pointer * 1)(memory.block.buffer.pointer)
    return lambda encoder: send.set_buffers(encoder, pointer, (UInteger * 1)(offset), Range(0, 1))


def of_bytes(size):
    return lambda encoder: send.set_bytes(encoder, bytes(size), size, 0)


cases = []  # a name, the kernels, how it is bound, how many bytes
for size in (1, 15, 16, 100, 4096, 4097, 20000):
    cases.append((f"{size}", ("reads", "writes"), bound(device.allocate(size), 0), size))
cases.append(("offset", ("reads", "writes"), bound(device.allocate(1000), 256), 744))
for size in (1, 16, 36, 4096):
    cases.append((f"bytes {size}", ("reads",), of_bytes(size), size))
pages = np.frombuffer(mmap.mmap(-1, 5 * mmap.PAGESIZE), np.uint8)
given = pages[mmap.PAGESIZE : 3 * mmap.PAGESIZE]
cases.append(("no copy", ("reads", "writes"), bound(device.adopt(given), 0), given.nbytes))
cases.append(("threadgroup", ("shared",), lambda encoder: None, 64))

answers = {}
for name, kernels, bind, size in cases:
    for kernel in kernels:
        # Where there are no pages that cannot be touched, a write far off may hit anything here.
        paged = os.environ["IRIS_SOFTMETAL_SANITIZE"] == "0" and name not in ("no copy", "threadgroup")
        far = (-(1 << 20), size + (1 << 20)) if paged or kernel == "reads" else ()
        for at in (0, size - 1, -1, -16, -4096, size, size + 3000, *far):
            answers[f"{name} {kernel} {at - size if at > size - 2 else at} {at >= size - 1}"] = launch(kernel, at, bind)
print(json.dumps(answers))
'''
NAMES = (
    *("1", "15", "16", "100", "4096", "4097", "20000", "offset", "no copy"),
    *("bytes 1", "bytes 16", "bytes 36", "bytes 4096", "threadgroup"),
)


@cache
def answers(sanitize: str) -> dict[str, str]:
    environment = {
        **os.environ,
        "IRIS_SOFTMETAL_SANITIZE": sanitize,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def of(name: str, sanitize: str) -> dict[tuple[str, int, bool], str]:
    """By kernel, and by how far from the start, or from the end."""
    found = {}
    for key, answer in answers(sanitize).items():
        case, kernel, at, is_end = key.rsplit(" ", 3)
        if case == name:
            found[kernel, int(at), is_end == "True"] = answer
    return found


@pytest.mark.softmetal
@pytest.mark.parametrize("name", NAMES)
def test_to_the_byte_where_kernels_are_checked(name: str) -> None:
    for (kernel, at, is_end), answer in of(name, "1").items():
        if (is_end and at == -1) or (not is_end and at == 0):
            assert answer == "", (kernel, at, answer)
        elif name == "threadgroup":
            assert answer != "", (kernel, at)
        else:
            where = f"{at} bytes past the end of" if is_end else f"{-at} bytes before"
            if abs(at) < 1 << 20:
                assert f"{where} buffer 0 (X)" in answer, (kernel, at, answer)


@pytest.mark.softmetal
@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("no copy", "threadgroup")])
def test_to_the_page_where_they_are_not(name: str) -> None:
    for (kernel, at, is_end), answer in of(name, "0").items():
        if (is_end and at == -1) or (not is_end and at == 0):
            assert answer == "", (kernel, at, answer)
        elif at in (-4096, -(1 << 20), 1 << 20, 3000) and name != "offset":
            assert "buffer 0 (X)" in answer, (kernel, at, answer)
