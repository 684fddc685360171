"""`iris doctor`: what there is on this machine, and whether it works.

    iris doctor                       every device, and the default one in full
    iris doctor --device softmetal    another one in full

Says which devices there are, and tries a launch on each that is here. On the default one, or the
one that is asked for, it runs what every device must do, checks how the lanes of a simdgroup hold a
matrix, and runs kernels against NumPy. The exit code is 1 if anything was not as it must be. What
it prints is what a report of a problem needs.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import iris
from iris.codegen.source import Array as ArrayPlace
from iris.codegen.source import Source
from iris.compiler.compilation import entry_of
from iris.errors import IrisError
from iris.ir import parse
from iris.ir.core import Level
from iris.ir.layout.linear import APPLE_FRAGMENT
from iris.ir.types import f32
from iris.runtime.device import Device
from iris.runtime.devices import devices, select
from iris.testing import conformance, kernels

Array = npt.NDArray[Any]


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "doctor",
        help="say what there is on this machine, and whether it works",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--device", help="the device to try (default: that of launches)")
    parser.set_defaults(run=run_command)


def run_command(options: argparse.Namespace) -> None:
    mac = platform.mac_ver()[0]
    print(f"machine     {platform.machine()}, {f'macOS {mac}' if mac else platform.platform()}")
    print(f"python      {platform.python_version()}, NumPy {np.__version__}")
    wrong = []
    for there in devices():
        fault = None if there.missing is not None else _fault(there.name)
        print(f"device      {there}" if fault is None else f"device      {there.name}: {fault}")
        if fault is not None:
            wrong.append(there.name)
    device = _selected(options.device)
    if device.name not in wrong:
        print(f"trying      {device.name}: {device.describe()}")
        wrong += [*_conformance(device), *_kernels(device)]
        if not isinstance(device.accepts, Level):
            wrong += _lanes(device)
    if wrong:
        raise IrisError(f"{len(wrong)} checks failed: {', '.join(wrong)}")
    print("everything is as it must be")


# What a device that does not work may raise.
_FAULTS = (
    AssertionError,
    AttributeError,
    IrisError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def _fault(name: str) -> str | None:
    """What goes wrong in a small launch on a device; None if nothing does."""
    x = np.arange(100, dtype=np.float32)
    try:
        device = select(name)
        buffer = iris.asarray(np.zeros(100, np.float32), device=device)
        kernels.add[4](iris.asarray(x, device=device), x, buffer, 100, B=32, device=device)
        is_right = bool((buffer.numpy() == 2 * x).all())
    except _FAULTS as error:
        return f"does not work: {_words(error)}"
    return None if is_right else "does not work: a sum of two arrays is wrong"


def _selected(name: str | None) -> Device:
    try:
        return select(name)
    except _FAULTS as error:
        raise IrisError(_words(error)) from None


def _words(error: BaseException) -> str:
    """An error of Iris as it is, another with its kind."""
    return str(error) if isinstance(error, IrisError) else f"{type(error).__name__}: {error}"


def _conformance(device: Device) -> list[str]:
    """The checks that fail."""
    wrong = []
    for check in conformance.CHECKS:
        try:
            check(device)
        except _FAULTS as error:
            wrong.append(check.__name__)
            print(f"conformance {check.__name__}: {_words(error)}")
    right = len(conformance.CHECKS) - len(wrong)
    print(f"conformance {right} of {len(conformance.CHECKS)} checks")
    return wrong


# Matrices.

_LANES = """#include <metal_stdlib>
using namespace metal;

kernel void lanes(
    device const float* X [[buffer(0)]],
    device float* Out [[buffer(1)]],
    ushort lane [[thread_index_in_simdgroup]])
{
    simdgroup_float8x8 matrix;
    simdgroup_load(matrix, X, 8);
    Out[lane * 2] = matrix.thread_elements()[0];
    Out[lane * 2 + 1] = matrix.thread_elements()[1];
}
"""


def _lanes(device: Device) -> list[str]:
    """Which lane of a simdgroup has which elements of an 8x8 matrix: all else rests on that."""
    module = parse("func metal @lanes simdgroups=1(%X: ptr<f32>, %Out: ptr<f32>) { return }")
    source = Source(
        text=_LANES,
        entry="lanes",
        threads=32,
        arguments=(ArrayPlace(0, f32, written=False), ArrayPlace(1, f32, written=True)),
        extents=(),
        constants_buffer=None,
        constants_bytes=0,
        report_buffer=None,
        threadgroup_bytes=0,
        sites=(),
        first_line=1,
        locations=(),
    )
    x = iris.asarray(np.arange(64, dtype=np.float32), device=device)
    out = iris.empty((32, 2), device=device)
    device.launch(device.compile(entry_of(module), source), (1, 1, 1), [x.argument, out.argument])
    found = out.numpy().astype(int)
    places = [[APPLE_FRAGMENT.apply(register=r, lane=lane) for r in range(2)] for lane in range(32)]
    expected = np.array([[8 * row + column for row, column in pair] for pair in places])
    for lane in np.flatnonzero((found != expected).any(axis=1)):
        print(f"lanes       lane {lane} has the elements {found[lane]}, not {expected[lane]}")
    is_right = bool((found == expected).all())
    print(f"lanes       a matrix lies in a simdgroup {'as it must' if is_right else 'otherwise'}")
    return [] if is_right else ["lanes"]


# Kernels.


class _Case(NamedTuple):
    """A kernel on arrays, and what it must come to."""

    name: str
    launch: Callable[[Device, Array], None]
    expected: Array
    tolerance: float  # of the greatest number that is expected


def _kernels(device: Device) -> list[str]:
    wrong = []
    for case in _cases():
        out = np.zeros_like(case.expected)
        start = time.perf_counter()
        try:
            case.launch(device, out)
        except _FAULTS as error:
            print(f"kernel      {case.name}: {_words(error)}")
            wrong.append(case.name)
            continue
        seconds = time.perf_counter() - start
        truth = case.expected.astype(np.float64)
        off = float(np.abs(out - truth).max() / np.abs(truth).max())
        is_right = off <= case.tolerance
        print(
            f"kernel      {case.name:24} {'right' if is_right else 'WRONG'}, "
            f"off by {off:.1e} of {case.tolerance:.0e}, {seconds * 1e3:.0f} ms with compiling"
        )
        if not is_right:
            wrong.append(case.name)
    return wrong


def _cases() -> list[_Case]:
    rng = np.random.default_rng(0)
    cases = []
    x = rng.standard_normal((32, 1000)).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    cases.append(
        _Case(
            "softmax 32x1000",
            lambda on, out: kernels.softmax[32](x, out, 1000, B=1024, device=on),
            (e / e.sum(axis=1, keepdims=True)).astype(np.float32),
            1e-5,
        )
    )
    cases.append(
        _Case(
            "cumsum 32x1000",
            lambda on, out: kernels.running_sum[32](x, out, 1000, B=1024, device=on),
            x.astype(np.float64).cumsum(axis=1).astype(np.float32),
            1e-5,
        )
    )
    for name, tolerance in (("float32", 1e-5), ("float16", 1e-3)):
        for m, n, k in ((128, 128, 128), (100, 70, 50)):
            a, b = (
                rng.standard_normal((m, k)).astype(name),
                rng.standard_normal((k, n)).astype(name),
            )
            cases.append(_matmul(f"matmul {name} {m}x{n}x{k}", a, b, tolerance))
        q, keys, values = rng.standard_normal((3, 100, 64)).astype(name)
        cases.append(_attention(f"attention {name} 100x64", q, keys, values, tolerance))
    return cases


def _matmul(name: str, a: Array, b: Array, tolerance: float) -> _Case:
    (m, k), n = a.shape, b.shape[1]
    grid = (iris.cdiv(m, 64), iris.cdiv(n, 64))

    def launch(on: Device, out: Array) -> None:
        kernels.matmul[grid](a, b, out, m, n, k, BM=64, BN=64, BK=32, device=on)

    product = a.astype(np.float64) @ b.astype(np.float64)
    return _Case(name, launch, product.astype(np.float32), tolerance)


def _attention(name: str, q: Array, k: Array, v: Array, tolerance: float) -> _Case:
    length, d = q.shape

    def launch(on: Device, out: Array) -> None:
        kernels.attention[iris.cdiv(length, 32)](
            q, k, v, out, length, d**-0.5, D=d, B=32, device=on
        )

    scores = q.astype(np.float64) @ k.astype(np.float64).T * d**-0.5
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    result = p / p.sum(axis=1, keepdims=True) @ v.astype(np.float64)
    return _Case(name, launch, result.astype(np.float32), tolerance)
