"""Stand-ins for PyTorch and MLX on a Mac: what of them launches kernels, over NumPy and softmetal.

They do what the libraries' pages say:

    https://docs.pytorch.org/docs/stable/generated/torch.mps.compile_shader.html
    https://ml-explore.github.io/mlx/build/html/dev/custom_metal_kernels.html
    https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.fast.metal_kernel.html

`make foreign` compares the head that MLX writes with that of MLX itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from support import ROOT

sys.path.append(str(Path(ROOT) / "tests" / "softmetal"))

from msl import Library

VERSION = 310  # of the language
Array = np.ndarray[Any, Any]


class Tensor:
    """A tensor of PyTorch."""

    def __init__(self, array: Array, storage: Array | None = None, device: str = "mps"):
        self.array = array
        self.storage = array if storage is None else storage
        self.device = SimpleNamespace(type=device)
        self.dtype = f"torch.{array.dtype}"
        self.shape = array.shape

    def is_contiguous(self) -> bool:
        return self.array.flags.c_contiguous

    def storage_offset(self) -> int:
        return (self.array.ctypes.data - self.storage.ctypes.data) // self.array.itemsize

    def element_size(self) -> int:
        return self.array.itemsize

    def untyped_storage(self) -> Any:
        return SimpleNamespace(data_ptr=lambda: self.storage.ctypes.data)


class Shaders:
    """What `compile_shader` gives: kernels by name."""

    def __init__(self, source: str):
        self._library = Library.compile(source, version=VERSION)

    def __getattr__(self, name: str) -> Any:
        return partial(self._launch, name)

    def _launch(
        self, name: str, *arguments: Any, threads: Sequence[int], group_size: Sequence[int]
    ) -> None:
        buffers = [x.array if isinstance(x, Tensor) else np.array(x, np.int64) for x in arguments]
        self._library.run(name, buffers, tuple(threads), tuple(group_size))


torch = SimpleNamespace(Tensor=Tensor, mps=SimpleNamespace(compile_shader=Shaders))


class MlxArray:
    """An array of MLX."""

    def __init__(self, value: Any, dtype: Any = None):
        self.value = np.array(value, dtype)
        self.dtype = f"mlx.core.{self.value.dtype}"
        self.shape, self.size = self.value.shape, self.value.size

    def reshape(self, *shape: int) -> MlxArray:
        return MlxArray(self.value.reshape(*shape))


_ATTRIBUTES = {
    "simdgroup_index_in_threadgroup": "uint",
    "thread_index_in_simdgroup": "uint",
    "thread_index_in_threadgroup": "uint",
    "thread_position_in_grid": "uint3",
    "threadgroup_position_in_grid": "uint3",
    "threadgroups_per_grid": "uint3",
    "grid_size": "uint3",
}


_MLX_TYPES = "#include <metal_stdlib>\ntypedef half float16_t;\n"  # in its own headers


def _type(dtype: Any) -> str:
    name = np.dtype(dtype).name
    return {"float32": "float", "bool": "bool"}.get(name, f"{name}_t")


def mlx_text(
    name: str, inputs: dict[str, Array], outputs: dict[str, Array], source: str, header: str
) -> str:
    """The text that MLX makes of the body of a kernel."""
    parameters: list[str] = []

    def add(declaration: str) -> None:
        parameters.append(f"{declaration} [[buffer({len(parameters)})]]")

    for word, array in inputs.items():
        space, mark = "constant" if array.size < 8 else "device", "*" if array.ndim else "&"
        add(f"const {space} {_type(array.dtype)}{mark} {word}")
        for fact, type_ in (("shape", "int*"), ("strides", "int64_t*"), ("ndim", "int&")):
            if f"{word}_{fact}" in source:
                add(f"const constant {type_} {word}_{fact}")
    for word, array in outputs.items():
        add(f"device {_type(array.dtype)}* {word}")
    parameters += [f"{t} {word} [[{word}]]" for word, t in _ATTRIBUTES.items() if word in source]
    head = ",\n  ".join(parameters)
    return f"{header}[[kernel]] void {name}(\n  {head}) {{\n{source}\n}}\n"


class MlxKernel:
    """What `metal_kernel` gives."""

    def __init__(
        self,
        *,
        name: str,
        input_names: Sequence[str],
        output_names: Sequence[str],
        source: str,
        header: str = "",
    ):
        self.name, self.source, self.header = f"custom_kernel_{name}", source, header
        self.input_names, self.output_names = input_names, output_names

    def __call__(
        self,
        *,
        inputs: Sequence[MlxArray],
        output_shapes: Sequence[tuple[int, ...]],
        output_dtypes: Sequence[Any],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        init_value: float | None = None,
    ) -> list[MlxArray]:
        given = {
            n: np.ascontiguousarray(x.value) for n, x in zip(self.input_names, inputs, strict=True)
        }
        # Not what anybody expects in memory that was not set.
        made = {
            name: np.full(shape, 77 if init_value is None else init_value, dtype)
            for name, shape, dtype in zip(
                self.output_names, output_shapes, output_dtypes, strict=True
            )
        }
        text = mlx_text(self.name, given, made, self.source, self.header)
        buffers = [*given.values(), *made.values()]
        Library.compile(_MLX_TYPES + text, version=VERSION).run(
            self.name, buffers, grid, threadgroup
        )
        return [MlxArray(array) for array in made.values()]


def _pad(array: MlxArray, width: tuple[int, int]) -> MlxArray:
    return MlxArray(np.pad(array.value, width))


mlx = SimpleNamespace(
    array=MlxArray,
    fast=SimpleNamespace(metal_kernel=MlxKernel),
    pad=_pad,
    full=lambda shape, value, dtype: MlxArray(np.full(shape, value, dtype)),
    bool_=np.bool_,
    **{name: getattr(np, name) for name in ("uint8", "int32", "uint32", "float16", "float32")},
)
