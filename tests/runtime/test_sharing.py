"""How tensors of torch are taken: by what they say themselves, or by DLPack; no GPU is needed."""

from __future__ import annotations

from typing import Any

import pytest

from iris.errors import ArgumentError, DTypeError
from iris.ir.types import DTYPES
from iris.runtime import dlpack, sharing
from iris.runtime.device import stored
from torch_stand_in import Derived, Parameter, Tensor, Torch

HOME = dlpack.GPU, 0
pytestmark = pytest.mark.usefixtures("torch")


@pytest.mark.parametrize("shape", [(), (0,), (5,), (6, 4)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", [Tensor, Parameter])
def test_a_plain_tensor_tells_what_dlpack_does(
    kind: type[Tensor], dtype: str, shape: tuple[int, ...]
) -> None:
    tensor = kind(shape, dtype)
    held = sharing.reader_of(kind)(tensor)
    assert held is not None and held.keeps is tensor.storage
    assert not tensor.capsules  # which cost a launch more than all else
    found, element = sharing.taken("x", tensor, HOME, stream=7)
    assert held[1:5] == (found.pointer, found.device, element, found.shape)
    assert found.is_row_major and held.is_read_only == found.read_only
    size = 1
    for n in shape:
        size *= n
    assert held.size == size * stored(DTYPES["bf16" if dtype == "bfloat16" else "f32"]).itemsize


def on_the_host() -> Tensor:
    tensor = Tensor()
    tensor.is_cuda = False
    return tensor


def with_gradient() -> Tensor:
    tensor = Tensor()
    tensor.requires_grad = True
    return tensor


class Unreal(Tensor):
    """As within torch.func.vmap."""

    def untyped_storage(self) -> Any:
        raise NotImplementedError("Cannot access storage")


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor(is_contiguous=False),
        Tensor(is_neg=True),
        Tensor(dtype="float64"),
        on_the_host(),
        with_gradient(),
    ],
)
def test_dlpack_is_asked_of_others(tensor: Tensor) -> None:
    assert sharing.reader_of(Tensor)(tensor) is None


def test_dlpack_is_asked_of_other_classes_and_libraries() -> None:
    assert sharing.reader_of(Derived)(Derived()) is None
    assert sharing.reader_of(int)(5) is None
    assert sharing.reader_of(Tensor)(Unreal()) is None


def test_the_public_way_to_the_stream_of_torch(torch: Torch) -> None:
    ask = sharing.current_stream
    torch.stream = 256
    assert ask("torch", 0) == 256
    stream = type("Stream", (), {"cuda_stream": 512})
    torch._C, torch.cuda = object(), type("cuda", (), {"current_stream": lambda gpu: stream})
    assert ask("torch", 0) == 512


def test_what_is_refused_is_told() -> None:
    with pytest.raises(DTypeError, match="x has the dtype float64; arrays are of "):
        sharing.taken("x", Tensor(dtype="float64"), HOME, stream=7)
    with pytest.raises(ArgumentError, match="x is on GPU 1, and the launch on GPU 0"):
        sharing.taken("x", Tensor(get_device=1), HOME, stream=7)
    with pytest.raises(ArgumentError, match=r"x does not share its memory: .* tensor.detach\(\)"):
        sharing.taken("x", with_gradient(), HOME, stream=7)
