"""Arguments of a launch: what they are, and what a kernel may know of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.compiler.devices import ArrayArgument, Device
from iris.errors import ArgumentError, DTypeError, UserError
from iris.frontend.function import TileFunction
from iris.frontend.specs import ALIGNMENT, ArraySpec, ScalarSpec
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


def scalar_spec(name: str, value: object, divisors: Iterable[int]) -> ScalarSpec:
    """What a kernel may know of a number: its dtype, and which of some numbers divide it."""
    dtype = scalar_dtype(name, value)
    if not isinstance(value, (int, np.integer)) or dtype is bool_:
        return ScalarSpec(dtype)
    number = int(value)
    divisor = gcd(number, ALIGNMENT)
    for other in sorted(divisors):
        both = lcm(divisor, other)
        if number % other == 0 and both <= i32.high:
            divisor = both
    return ScalarSpec(dtype, divisor, is_one=number == 1)


def specs(
    function: TileFunction, bound: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the kernel may know of each argument, and the arguments as it gets them: arrays and
    numbers."""
    known: dict[str, Any] = {}
    passed: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    constants = {p.name: bound[p.name] for p in function.parameters if p.is_constexpr}
    for name, value in constants.items():
        known[name] = value.item() if isinstance(value, np.generic) else value
    divisors = {n for n in known.values() if type(n) is int and n > 1}
    for parameter in function.parameters:
        name, value = parameter.name, bound[parameter.name]
        if parameter.is_constexpr:
            continue
        array = as_array(name, value)
        if array is None:
            known[name] = scalar_spec(name, value, divisors)
            passed[name] = value
        else:
            arrays[name] = passed[name] = array
    for block in _blocks(arrays):
        for name, offset in block.offsets.items():
            array = arrays[name]
            known[name] = ArraySpec(
                array_dtype(name, array),
                array.ndim,
                noalias=len(block.offsets) == 1,
                aligned=offset % ALIGNMENT == 0,
                divisors=tuple([gcd(n, ALIGNMENT) for n in array.shape]),
            )
    return known, passed


def place(device: Device, arrays: Mapping[str, Array]) -> dict[str, ArrayArgument]:
    """Copies of arrays in device memory, in which arrays that overlap still do."""
    placed: dict[str, ArrayArgument] = {}
    for block in _blocks(arrays):
        memory = device.allocate(block.size)
        for name, offset in block.offsets.items():
            array = arrays[name]
            if len(block.offsets) > 1 and not array.flags.c_contiguous:
                others = ", ".join(block.offsets)
                raise error_here(
                    ArgumentError, f"{others} overlap in memory, and {name} is not contiguous"
                )
            placed[name] = ArrayArgument(memory, offset, array_dtype(name, array), array.shape)
            device.copy_in(placed[name], array)
    return placed


@dataclass
class _Block:
    """Memory for arrays that overlap, or for one that does not."""

    size: int
    offsets: dict[str, int]  # where in it each array starts


def _blocks(arrays: Mapping[str, Array]) -> list[_Block]:
    blocks: list[_Block] = []
    start = end = -1
    for low, high, name in sorted((*byte_bounds(a), n) for n, a in arrays.items()):
        if low >= end:
            blocks.append(_Block(arrays[name].nbytes, {name: 0}))
            start, end = low, high
        else:
            end = max(end, high)
            blocks[-1].offsets[name] = low - start
            blocks[-1].size = end - start
    return blocks
