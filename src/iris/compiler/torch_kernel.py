"""A kernel for PyTorch, which compiles its text and launches it in order with its own.

    softmax = kernel.lower(x, out, 300, BLOCK=512, grid=8).to_torch()
    softmax(tensor, result, 300)

[PyTorch, torch.mps.compile_shader:
https://docs.pytorch.org/docs/stable/generated/torch.mps.compile_shader.html; its binding, for
`threads`, `group_size` and lists of numbers:
https://github.com/pytorch/pytorch/blob/main/torch/csrc/mps/Module.cpp]
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from iris.compiler.arguments import array_spec, scalar_spec
from iris.compiler.foreign_kernel import ForeignKernel, foreign_dtype, imported
from iris.compiler.grids import GridLike
from iris.errors import ArgumentError
from iris.frontend.specs import ALIGNMENT, Spec
from iris.frontend.tracing import error_here


def torch_kernel(kernel: ForeignKernel) -> Callable[..., None]:
    """A function that launches a kernel on tensors of the device `mps`."""
    torch = imported("torch", "torch")
    source = kernel.source
    run = getattr(torch.mps.compile_shader(source.text), source.entry)

    def launch(*arguments: Any, grid: GridLike | None = None, **named: Any) -> None:
        storages = [
            value.untyped_storage().data_ptr()
            for value in (*arguments, *named.values())
            if isinstance(value, torch.Tensor)
        ]

        def look(name: str, value: Any) -> tuple[Spec, Any]:
            if not isinstance(value, torch.Tensor):
                return _scalar(name, value), value
            if value.device.type != "mps":
                raise error_here(
                    ArgumentError, f"{name} is on the device {value.device}; pass {name}.to('mps')"
                )
            if not value.is_contiguous():
                raise error_here(
                    ArgumentError, f"{name} is not contiguous; pass {name}.contiguous()"
                )
            apart = storages.count(value.untyped_storage().data_ptr()) == 1
            # A storage is a buffer of its own.
            start = value.storage_offset() * value.element_size()
            dtype, is_aligned = foreign_dtype(name, value.dtype), start % ALIGNMENT == 0
            return array_spec(dtype, tuple(value.shape), apart, is_aligned), value

        arrays, constants, threads = kernel.bound(grid, arguments, named, look)
        if not all(threads):
            return
        # Their size is a multiple of 16.
        words = struct.unpack(f"<{len(constants) // 8}q", constants)
        scalars = [list(words)] if words else []
        run(*arrays, *scalars, threads=threads, group_size=(source.threads, 1, 1))

    return launch


def _scalar(name: str, value: Any) -> Spec:
    if hasattr(value, "shape") and value.shape:
        raise error_here(
            ArgumentError,
            f"{name} is a {type(value).__name__}; pass a torch.Tensor on the device 'mps'",
        )
    return scalar_spec(name, value, ())
