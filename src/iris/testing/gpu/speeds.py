"""How fast a copy, products of matrices and attention are, and that they are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import iris
from iris.compiler.benchmark import do_bench
from iris.runtime.device import Device
from iris.testing import kernels
from iris.testing.gpu.by_hand import none_of

Array = npt.NDArray[Any]


class _Sizes(NamedTuple):
    elements: int  # of a copy
    side: int  # of matrices
    length: int  # of a sequence


# What keeps a GPU busy for a millisecond or so; and what is enough to see that results are right.
_LARGE = _Sizes(2**24, 2048, 4096)
_SMALL = _Sizes(2**14, 100, 100)
_HEAD = 64


class _Work(NamedTuple):
    """A launch, what it must come to, and how much it does."""

    name: str
    launch: Callable[[], object]
    out: iris.Buffer
    expected: Array
    tolerance: float  # of the greatest number that is expected
    amount: float
    unit: str  # of a billion in a second


def work_is_right_and_timed(device: Device) -> str:
    """A copy, products and attention, on a device that is timed of sizes for which that counts."""
    sizes = _LARGE if device.is_timed else _SMALL
    works = [_copy(device, sizes.elements)]
    for dtype, tolerance in ((np.float32, 1e-4), (np.float16, 4e-3)):
        works.append(_matmul(device, sizes.side, dtype, tolerance))
        works.append(_attention(device, sizes.length, dtype, tolerance))
    wrong, said = [], []
    for work in works:
        milliseconds = do_bench(work.launch, warmup=10, rep=50, device=device)
        truth = work.expected.astype(np.float64)
        off = float(np.abs(work.out.numpy() - truth).max() / np.abs(truth).max())
        if not off <= work.tolerance:
            wrong.append(f"{work.name} is off by {off:.1e} of the greatest number")
        said.append(f"{work.name} {work.amount / milliseconds / 1e6:.3g} {work.unit}")
    none_of(wrong)
    return ", ".join(said)


def _copy(device: Device, n: int) -> _Work:
    x = np.arange(n, dtype=np.float32)
    given, out = iris.asarray(x, device=device), iris.empty(n, device=device)

    def launch() -> None:
        kernels.copy[iris.cdiv(n, 1024)](given, out, n, B=1024)

    return _Work("copy", launch, out, x, 0.0, 2 * x.nbytes, "GB/s")


def _matmul(device: Device, n: int, dtype: type, tolerance: float) -> _Work:
    a, b = np.random.default_rng(0).standard_normal((2, n, n)).astype(dtype)
    x, y, out = (iris.asarray(z, device=device) for z in (a, b, np.zeros((n, n), np.float32)))
    grid = (iris.cdiv(n, 64), iris.cdiv(n, 64))

    def launch() -> None:
        kernels.matmul[grid](x, y, out, n, n, n, BM=64, BN=64, BK=32)

    product = a.astype(np.float32) @ b.astype(np.float32)
    name = f"matmul {np.dtype(dtype).name} {n}"
    return _Work(name, launch, out, product, tolerance, 2 * n**3, "GFLOP/s")


def _attention(device: Device, length: int, dtype: type, tolerance: float) -> _Work:
    arrays: Array = np.random.default_rng(1).standard_normal((3, length, _HEAD)).astype(dtype)
    q, k, v = (iris.asarray(array, device=device) for array in arrays)
    out = iris.empty((length, _HEAD), device=device)

    def launch() -> None:
        kernels.attention[iris.cdiv(length, 32)](q, k, v, out, length, _HEAD**-0.5, D=_HEAD, B=32)

    wide = arrays.astype(np.float32)
    scores = wide[0] @ wide[1].T * _HEAD**-0.5
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = p / p.sum(axis=1, keepdims=True) @ wide[2]
    name = f"attention {np.dtype(dtype).name} {length}x{_HEAD}"
    return _Work(name, launch, out, expected, tolerance, 4 * length**2 * _HEAD, "GFLOP/s")
