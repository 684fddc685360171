"""Arguments of a launch: what they are, and what a kernel may know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.compiler.devices import ArrayArgument, Device
from iris.errors import ArgumentError, DTypeError, UserError
from iris.frontend.function import ArraySpec, TileFunction
from iris.frontend.tracing import error_here
from iris.ir.types import DTYPES, DType, bf16, bool_, f32, i32, i64, u64

if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
    from numpy.lib.array_utils import byte_bounds
else:
    from numpy import byte_bounds  # type: ignore[no-redef,attr-defined]

Array = npt.NDArray[Any]

_DTYPES: dict[str, DType] = {
    "bool": bool_,
    "bfloat16": bf16,
    "float16": DTYPES["f16"],
    "float32": f32,
    **{f"int{d.bits}": d for d in DTYPES.values() if d.is_signed},
    **{f"uint{d.bits}": d for d in DTYPES.values() if d.is_integer and not d.is_signed},
}


def bind(
    function: TileFunction, positional: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by the names of the parameters."""
    parameters = function.parameters
    names = [p.name for p in parameters]
    if len(positional) > len(parameters):
        raise _wrong(
            function,
            f"takes {len(parameters)} arguments ({', '.join(names)}), not {len(positional)}",
        )
    bound = dict(zip(names, positional, strict=False))
    for name, value in named.items():
        if name not in names:
            raise _wrong(function, f"has no parameter {name!r}; it has {', '.join(names)}")
        if name in bound:
            raise _wrong(function, f"was given {name!r} twice")
        bound[name] = value
    for parameter in parameters:
        if parameter.name not in bound:
            if not parameter.has_default:
                kind = "the constexpr" if parameter.is_constexpr else "the argument"
                raise _wrong(function, f"needs {kind} {parameter.name!r}")
            bound[parameter.name] = parameter.default
    return bound


def _wrong(function: TileFunction, message: str) -> UserError:
    return error_here(ArgumentError, f"{function.name} {message}")


def as_array(name: str, value: object) -> Array | None:
    """An array argument as a NumPy array over the same memory; None if it is no array."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, (np.generic, bool, int, float)):
        return None
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    return None


def array_dtype(name: str, array: Array) -> DType:
    """The dtype of an array's elements."""
    if array.dtype.name == "float64":
        raise error_here(
            DTypeError,
            f"{name} is float64, which Apple GPUs have not; pass {name}.astype(np.float32)",
        )
    dtype = _DTYPES.get(array.dtype.name)
    if dtype is None or not array.dtype.isnative:
        raise error_here(
            DTypeError, f"{name} has the dtype {array.dtype}; arrays are of {', '.join(_DTYPES)}"
        )
    return dtype


def scalar_dtype(name: str, value: object) -> DType:
    """The dtype of a scalar argument."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        for dtype in (i32, i64, u64):
            if dtype.low <= int(value) <= dtype.high:
                return dtype
        raise error_here(ArgumentError, f"{name} is over 64 bits: {value}")
    if isinstance(value, (float, np.floating)):
        return f32
    raise error_here(
        ArgumentError,
        f"{name} is a {type(value).__name__}; arguments are arrays and numbers, and what is "
        "neither is declared iris.constexpr",
    )


def specs(
    function: TileFunction, bound: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the kernel may know of each argument, and the arguments as it gets them: arrays and
    numbers."""
    known: dict[str, Any] = {}
    passed: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    for parameter in function.parameters:
        name, value = parameter.name, bound[parameter.name]
        if parameter.is_constexpr:
            if isinstance(value, np.generic):
                value = value.item()
            known[name] = value
            continue
        array = as_array(name, value)
        if array is None:
            known[name] = scalar_dtype(name, value)
            passed[name] = value
        else:
            arrays[name] = passed[name] = array
    for group in _overlapping(arrays):
        for name in group:
            array = arrays[name]
            known[name] = ArraySpec(array_dtype(name, array), array.ndim, len(group) == 1)
    return known, passed


def place(device: Device, arrays: Mapping[str, Array]) -> dict[str, ArrayArgument]:
    """Copies of arrays in device memory, in which arrays that overlap still do."""
    placed: dict[str, ArrayArgument] = {}
    for group in _overlapping(arrays):
        bounds = [byte_bounds(arrays[name]) for name in group]
        start = min(low for low, _ in bounds)
        size = max(high for _, high in bounds) - start
        if len(group) == 1:
            start, size = bounds[0][0], arrays[group[0]].nbytes
        memory = device.allocate(size)
        for name, (low, _) in zip(group, bounds, strict=True):
            array = arrays[name]
            if len(group) > 1 and not array.flags.c_contiguous:
                others = ", ".join(group)
                raise error_here(
                    ArgumentError, f"{others} overlap in memory, and {name} is not contiguous"
                )
            dtype = array_dtype(name, array)
            placed[name] = ArrayArgument(memory, low - start, dtype, array.shape)
            device.copy_in(placed[name], array)
    return placed


def _overlapping(arrays: Mapping[str, Array]) -> list[list[str]]:
    """The names of the arrays, those together whose memory overlaps."""
    groups: list[list[str]] = []
    end = -1
    for low, high, name in sorted((*byte_bounds(a), n) for n, a in arrays.items()):
        if low >= end:
            groups.append([])
        groups[-1].append(name)
        end = max(end, high)
    return groups
