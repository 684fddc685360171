"""How tensors of torch are taken: by what they say themselves, or by DLPack; no GPU is needed."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from iris.errors import ArgumentError, DTypeError
from iris.runtime import dlpack, sharing

HOME = dlpack.GPU, 0


class Tensor:
    """As torch has it, in memory that is never touched."""

    def __init__(self, shape: tuple[int, ...] = (6, 4), dtype: str = "float32", **facts: Any):
        self.shape, self.dtype, self.layout = shape, dtype, "strided"
        self.requires_grad = False
        self.facts = {"is_contiguous": True, "is_neg": False, "get_device": 0, **facts}
        self.capsules = 0

    def __getattr__(self, name: str) -> Any:
        return lambda: self.facts[name]

    def data_ptr(self) -> int:
        return 1 << 20

    def detach(self) -> str:
        return "an alias"

    def __dlpack__(self, **options: Any) -> Any:
        assert options["stream"] == 7
        self.capsules += 1
        if self.requires_grad:
            raise RuntimeError("Can't export tensors that require gradient, use tensor.detach()")
        element = {"float32": (dlpack.FLOAT, 32, 1), "bfloat16": (dlpack.BFLOAT, 16, 1)}
        found = element.get(self.dtype, (dlpack.FLOAT, 64, 1))
        device = dlpack.GPU, self.facts["get_device"]
        return dlpack.capsule_of(self.data_ptr(), device, found, self.shape, self)


class Derived(Tensor):
    """A class of somebody else, which may do anything."""


Tensor.__module__ = Derived.__module__ = "torch"


@pytest.fixture(autouse=True)
def _torch(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("float32", "float64", "bfloat16")
    torch = SimpleNamespace(Tensor=Tensor, strided="strided", **{name: name for name in names})
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(sharing, "_elements_of_torch", sharing._elements_of_torch.__wrapped__)


def facts(found: dlpack.Given) -> tuple[Any, ...]:
    return *found[1:5], found.is_row_major, found.read_only


@pytest.mark.parametrize("shape", [(), (0,), (5,), (6, 4)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_plain_tensor_is_taken_as_by_dlpack(dtype: str, shape: tuple[int, ...]) -> None:
    tensor = Tensor(shape, dtype)
    found, _ = sharing.taken("x", tensor, HOME, stream=7)
    assert found.capsule == "an alias"
    assert not tensor.capsules  # which cost a launch more than all else
    by_dlpack = dlpack.given(tensor, stream=7)
    assert by_dlpack is not None
    assert facts(found) == facts(by_dlpack)


@pytest.mark.parametrize("tensor", [Tensor(is_contiguous=False), Tensor(is_neg=True), Derived()])
def test_dlpack_is_asked_of_others(tensor: Tensor) -> None:
    sharing.taken("x", tensor, HOME, stream=7)
    assert tensor.capsules


def test_what_is_refused_is_told_as_ever() -> None:
    with pytest.raises(DTypeError, match="x has the dtype float64; arrays are of "):
        sharing.taken("x", Tensor(dtype="float64"), HOME, stream=7)
    with pytest.raises(ArgumentError, match="x is on GPU 1, and the launch on GPU 0"):
        sharing.taken("x", Tensor(get_device=1), HOME, stream=7)
    needs_gradient = Tensor()
    needs_gradient.requires_grad = True
    with pytest.raises(ArgumentError, match=r"x does not share its memory: .* tensor.detach\(\)"):
        sharing.taken("x", needs_gradient, HOME, stream=7)
