"""A kernel for MLX, which compiles its text and launches it when a result is needed.

    softmax = kernel.lower(x, out, 300, BLOCK=512, grid=8).to_mlx()
    result = softmax(array, (8, 300), 300)

MLX's arrays do not change: what a kernel writes to is a new array.  A caller gives its shape, and
it has no elements before the kernel writes them, or all of them are `init_value`.

[MLX, mlx.core.fast.metal_kernel:
https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.fast.metal_kernel.html]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from iris.codegen.languages.mlx import BUFFER, MLX
from iris.compiler.arguments import array_spec, scalar_spec
from iris.compiler.foreign_kernel import ForeignKernel, foreign_dtype, imported
from iris.compiler.grids import GridLike
from iris.errors import ArgumentError
from iris.frontend.specs import ArraySpec, Spec
from iris.frontend.tracing import error_here
from iris.runtime.buffer import numpy_name

# An array of fewer elements is passed in another address space.
_LEAST = 8


class Result(NamedTuple):
    """An array that a kernel writes to."""

    shape: tuple[int, ...]


def mlx_kernel(kernel: ForeignKernel, is_read: frozenset[str]) -> Callable[..., Any]:
    """A function that launches a kernel on arrays of MLX; of its results some are read, too."""
    mx = imported("mlx.core", "mlx")
    source, written = kernel.source, kernel.written
    _check(kernel)
    needs_value = [name for name in written if name in is_read]
    numbers = {name: BUFFER.format(index=i) for i, name in enumerate(kernel.arrays)}
    inputs = [number for name, number in numbers.items() if name not in written]
    if source.constants_buffer is not None:
        inputs.append(BUFFER.format(index=source.constants_buffer))
    header, body = source.parts
    run = mx.fast.metal_kernel(
        name=source.entry,
        input_names=inputs,
        output_names=[numbers[name] for name in written],
        source=body,
        header=header,
    )

    def look(name: str, value: Any) -> tuple[Spec, Any]:
        if name in written:
            return _result(name, value, kernel.parameters.specs[name]), Result(value)
        if isinstance(value, mx.array):
            # It may be a part of another one: no result is, and nobody says where it starts.
            dtype = foreign_dtype(name, value.dtype)
            return array_spec(dtype, tuple(value.shape), True, False), value
        if hasattr(value, "shape") and value.shape:
            raise error_here(
                ArgumentError, f"{name} is a {type(value).__name__}; pass an array of MLX"
            )
        return scalar_spec(name, value, ()), value

    def launch(
        *arguments: Any, grid: GridLike | None = None, init_value: float | None = None, **named: Any
    ) -> Any:
        if needs_value and init_value is None:
            raise error_here(
                ArgumentError,
                f"{source.entry} reads {' and '.join(needs_value)}, which MLX makes anew: say what "
                "its elements are before, as init_value=0",
            )
        arrays, constants, threads = kernel.bound(grid, arguments, named, look)
        given = dict(zip(kernel.arrays, arrays, strict=True))
        dtypes = [_dtype(mx, kernel.parameters.specs[name]) for name in written]
        shapes = [given[name].shape for name in written]
        if all(threads):
            passed = [_long(mx, x) for name, x in given.items() if name not in written]
            if constants:
                passed.append(mx.array(list(constants), mx.uint8))
            made = run(
                inputs=passed,
                output_shapes=shapes,
                output_dtypes=dtypes,
                grid=threads,
                threadgroup=(source.threads, 1, 1),
                init_value=init_value,
            )
        else:
            made = [
                mx.full(shape, init_value or 0, dtype)
                for shape, dtype in zip(shapes, dtypes, strict=True)
            ]
        return made[0] if len(made) == 1 else tuple(made)

    return launch


def _check(kernel: ForeignKernel) -> None:
    """Refuse a kernel that MLX's head is not for."""
    source = kernel.source
    if not kernel.written:
        raise error_here(
            ArgumentError, f"{source.entry} writes to no array, and MLX runs only what makes one"
        )
    if source.version > MLX.version:
        raise error_here(
            ArgumentError,
            f"the threadgroups of {source.entry} wait for each other, which needs memory that MLX "
            "does not declare",
        )


def _result(name: str, shape: Any, needed: Spec) -> Spec:
    """What a kernel may know of an array that MLX makes."""
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise error_here(
            ArgumentError,
            f"{name} is written to, and MLX makes it anew: pass its shape, a tuple, not "
            f"a {type(shape).__name__}",
        )
    assert isinstance(needed, ArraySpec)
    return array_spec(needed.dtype, shape, True, True)


def _dtype(mx: Any, spec: Spec) -> Any:
    assert isinstance(spec, ArraySpec)
    name = numpy_name(spec.dtype)
    return getattr(mx, "bool_" if name == "bool" else name)


def _long(mx: Any, array: Any) -> Any:
    return array if array.size >= _LEAST else mx.pad(array.reshape(-1), (0, _LEAST - array.size))
