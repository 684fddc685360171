"""A library with tensors in the memory of a GPU, under the name of torch: no GPU is needed."""

from __future__ import annotations

import ctypes
from math import prod
from types import SimpleNamespace
from typing import Any

from iris.runtime import dlpack


class Storage:
    """Memory that nobody touches, for as long as somebody refers to this."""

    def __init__(self, size: int):
        self.held = (ctypes.c_char * (size + 256))()
        self.pointer = -(-ctypes.addressof(self.held) // 256) * 256


class Tensor:
    """As torch has it: of a shape, from an offset in a storage on."""

    def __init__(
        self,
        shape: tuple[int, ...] = (6, 4),
        dtype: str = "float32",
        storage: Storage | None = None,
        offset: int = 0,
        **facts: Any,
    ):
        self.storage = storage or Storage(8 * prod(shape))
        self.shape, self.dtype, self.layout, self.offset = shape, dtype, "strided", offset
        self.is_cuda, self.requires_grad = True, False
        self.facts = {"is_contiguous": True, "is_neg": False, "get_device": 0, **facts}
        self.capsules = 0

    def is_contiguous(self) -> bool:
        return bool(self.facts["is_contiguous"])

    def is_neg(self) -> bool:
        return bool(self.facts["is_neg"])

    def get_device(self) -> int:
        return int(self.facts["get_device"])

    def untyped_storage(self) -> Storage:
        return self.storage

    def data_ptr(self) -> int:
        return self.storage.pointer + self.offset

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.GPU, self.get_device()

    def __dlpack__(self, **options: Any) -> Any:
        self.capsules += 1
        if self.requires_grad:
            raise RuntimeError("Can't export tensors that require gradient, use tensor.detach()")
        if not self.is_contiguous():
            raise BufferError("it has strides")
        element = {"float32": (dlpack.FLOAT, 32, 1), "bfloat16": (dlpack.BFLOAT, 16, 1)}
        found = element.get(self.dtype, (dlpack.FLOAT, 64, 1))
        return dlpack.capsule_of(
            self.data_ptr(), self.__dlpack_device__(), found, self.shape, self.storage
        )


class Parameter(Tensor):
    """A class of torch that does nothing else with its memory."""


class Derived(Tensor):
    """A class of somebody else, which may do anything."""


Tensor.__module__ = Parameter.__module__ = Derived.__module__ = "torch"


class Torch(SimpleNamespace):
    """The module, with the stream on which it works, and how often that was asked for."""

    def __init__(self) -> None:
        names = ("float32", "float64", "bfloat16")
        super().__init__(**{name: name for name in names})
        self.Tensor, self.strided = Tensor, "strided"
        self.nn = SimpleNamespace(Parameter=Parameter)
        self.stream, self.asked = 0, 0
        self._C = SimpleNamespace(_cuda_getCurrentRawStream=self._current)

    def _current(self, gpu: int) -> int:
        self.asked += 1
        return self.stream
