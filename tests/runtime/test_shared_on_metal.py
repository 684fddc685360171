"""Arrays of other libraries in Metal's memory: a stand-in has buffers of softmetal's.

DLPack gives a buffer and an offset, and orders nothing.
[https://dmlc.github.io/dlpack/latest/c_api.html, https://github.com/ml-explore/mlx/pull/3531]
"""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import ArgumentError, DTypeError
from iris.ir.types import DTYPES
from iris.runtime import dlpack, foreign
from iris.runtime.buffer import Buffer
from iris.runtime.sharing import ELEMENTS

pytestmark = pytest.mark.softmetal


class Tensor:
    """A tensor of a library: a part of a buffer."""

    def __init__(self, library: str, buffer: Buffer, start: int = 0, shape: Any = None):
        self.buffer, self.start = buffer, start
        self.shape = (buffer.size,) if shape is None else shape
        self.element = ELEMENTS[buffer.dtype]
        # What tells whose it is.
        self.__class__ = type("Tensor", (Tensor,), {"__module__": library})

    def __dlpack_device__(self) -> tuple[int, int]:
        return 8, 0

    def __dlpack__(self, **options: Any) -> Any:
        memory = self.buffer.argument.memory
        capsule = dlpack.capsule_of(
            memory.block.buffer.pointer, (8, 0), self.element, self.shape, memory
        )
        pointer = ctypes.pythonapi["PyCapsule_GetPointer"]
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        offset = self.start * np.dtype(np.float32).itemsize
        dlpack._Managed.from_address(pointer(capsule, b"dltensor")).tensor.byte_offset = offset
        return capsule


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which libraries were waited for."""
    told: list[str] = []
    mps = SimpleNamespace(synchronize=lambda: told.append("torch"))
    nn = SimpleNamespace(Parameter=None)
    torch = SimpleNamespace(mps=mps, Tensor=Tensor, nn=nn)
    monkeypatch.setitem(sys.modules, "torch", torch)
    mlx = SimpleNamespace(synchronize=lambda: told.append("mlx"))
    monkeypatch.setitem(sys.modules, "mlx.core", mlx)
    monkeypatch.setitem(foreign.HOMES, 8, "softmetal")
    return told


def _buffer(n: int) -> Buffer:
    return iris.asarray(np.arange(n, dtype=np.float32), persistent=True, device="softmetal")


@iris.kernel
def double(X, Out, n, B: iris.constexpr = 32):
    at = iris.arange(0, B)
    iris.store(Out + at, 2 * iris.load(X + at, mask=at < n), mask=at < n)


def test_tensors_share_their_memory(waits: list[str]) -> None:
    x, out = _buffer(64), _buffer(64)
    double[1](Tensor("torch", x, 5, (20,)), Tensor("torch", out, 32, (20,)), 20)
    # Its work before, twice for the arguments; and then the launch is done, which it does not know.
    assert waits == ["torch"] * 3
    expected = np.arange(64, dtype=np.float32)
    expected[32:52] = 2 * np.arange(5, 25)
    shown = out.argument.memory.block
    seen = np.ctypeslib.as_array((ctypes.c_float * 64).from_address(shown.contents))
    np.testing.assert_array_equal(seen, expected)


def test_a_buffer_of_a_tensor_is_waited_for_whenever_it_is_used(waits: list[str]) -> None:
    x = _buffer(32)
    lent, out = iris.asarray(Tensor("torch", x)), iris.empty(32, device="softmetal")
    waits.clear()
    step = double.prepare(lent, out, 32, grid=1)
    step()
    step()
    assert waits == ["torch"] * 2
    np.testing.assert_array_equal(out.numpy(), 2 * np.arange(32))
    np.testing.assert_array_equal(lent.numpy(), np.arange(32))
    assert waits == ["torch"] * 3


def test_parts_of_one_buffer_are_not_apart(waits: list[str]) -> None:
    """So that launches on them are in order, and their kernel reckons with it."""
    x = _buffer(40)
    a, b = iris.asarray(Tensor("torch", x, 0, (32,))), iris.asarray(Tensor("torch", x, 1, (32,)))
    assert a.argument.memory is b.argument.memory
    text = str(double.lower(a, b, 32, grid=1, device="softmetal").stages[0].text)
    assert "noalias" not in text


def test_arrays_of_mlx_are_read_only(waits: list[str]) -> None:
    x, out = _buffer(32), iris.empty(32, device="softmetal")
    double[1](Tensor("mlx.core", x), out, 32)
    assert waits == ["mlx"]
    np.testing.assert_array_equal(out.numpy(), 2 * np.arange(32))
    with pytest.raises(ArgumentError, match="Out is written to, but its array is read-only"):
        double[1](out, Tensor("mlx.core", x), 32)


def test_what_cannot_be_shared(waits: list[str]) -> None:
    out = iris.empty(32, device="softmetal")
    with pytest.raises(ArgumentError, match="X is an array of cupy, and nothing waits for its"):
        double[1](Tensor("cupy", _buffer(32)), out, 32)
    double_precision = Tensor("torch", _buffer(32))
    double_precision.element = (2, 64, 1)
    with pytest.raises(DTypeError, match=f"arrays are of {', '.join(DTYPES)}"):
        double[1](double_precision, out, 32)
