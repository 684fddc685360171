"""Arguments of a launch: what they are, and what a kernel may know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, lcm
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from iris.errors import ArgumentError, DTypeError, UserError
from iris.frontend.function import TileFunction
from iris.frontend.specs import ALIGNMENT, ArraySpec, ScalarSpec
from iris.frontend.tracing import error_here
from iris.ir.types import DType, bool_, f32, i32, i64, u64
from iris.runtime.buffer import NUMPY_NAMES, Buffer, dtype_of
from iris.runtime.device import ArrayArgument, Device

if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
    from numpy.lib.array_utils import byte_bounds
else:
    from numpy import byte_bounds  # type: ignore[no-redef,attr-defined]

Array = npt.NDArray[Any]


def bind(
    function: TileFunction, positional: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by the names of the parameters."""
    parameters, names = function.parameters, function.names
    if len(positional) > len(parameters):
        raise _wrong(
            function,
            f"takes {len(parameters)} arguments ({', '.join(names)}), not {len(positional)}",
        )
    bound = dict(zip(names, positional, strict=False))
    if len(bound) == len(names) and not named:
        return bound
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
    dtype = dtype_of(array.dtype)
    if dtype is None:
        raise error_here(
            DTypeError,
            f"{name} has the dtype {array.dtype}; arrays are of {', '.join(NUMPY_NAMES)}",
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


def scalar_spec(name: str, value: object, divisors: tuple[int, ...]) -> ScalarSpec:
    """What a kernel may know of a number: its dtype, and which of some numbers divide it."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return _integer_spec(name, int(value), divisors)
    return _interned(ScalarSpec(scalar_dtype(name, value)))


@lru_cache(maxsize=1 << 12)
def _integer_spec(name: str, number: int, divisors: tuple[int, ...]) -> ScalarSpec:
    dtype = scalar_dtype(name, number)
    divisor = gcd(number, ALIGNMENT)
    for other in sorted(divisors):
        both = lcm(divisor, other)
        if number % other == 0 and both <= i32.high:
            divisor = both
    return _interned(ScalarSpec(dtype, divisor, is_one=number == 1))


_Spec = TypeVar("_Spec", ArraySpec, ScalarSpec)
_SPECS: dict[Any, Any] = {}


def _interned(spec: _Spec) -> _Spec:
    """The one object of all specs that are equal, so that they are told apart by identity."""
    return _SPECS.setdefault(spec, spec)  # type: ignore[no-any-return]


@dataclass(slots=True)
class Call:
    """The arguments of a launch, by the names of the parameters."""

    constants: dict[str, Any]  # constexprs
    specs: dict[str, Any]  # what the kernel may know of the others
    passed: dict[str, Any]  # the others as the kernel gets them: arrays, Buffers and numbers
    arrays: dict[str, Array]
    buffers: dict[str, Buffer]


def call(function: TileFunction, positional: Sequence[Any], named: Mapping[str, Any]) -> Call:
    """Sort out the arguments of a launch."""
    bound = bind(function, positional, named)
    constants: dict[str, Any] = {}
    specs: dict[str, Any] = {}
    passed: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    buffers: dict[str, Buffer] = {}
    divisors: list[int] = []
    for name in function.constants:
        value = bound[name]
        constants[name] = value = value.item() if isinstance(value, np.generic) else value
        if type(value) is int and value > 1:
            divisors.append(value)
    dividing = tuple(divisors)
    for name in function.variables:
        value = bound[name]
        if isinstance(value, Buffer):
            buffers[name] = passed[name] = value
            continue
        array = as_array(name, value)
        if array is None:
            specs[name] = scalar_spec(name, value, dividing)
            passed[name] = value
        else:
            arrays[name] = passed[name] = array
    if arrays:
        for block in _blocks(arrays):
            apart = len(block.offsets) == 1
            for name, offset in block.offsets.items():
                array = arrays[name]
                dtype, is_aligned = array_dtype(name, array), offset % ALIGNMENT == 0
                specs[name] = _array_spec(dtype, array.shape, apart, is_aligned)
        _check_apart(arrays, buffers)
    if buffers:
        memories = [id(buffer.argument.memory) for buffer in buffers.values()]
        for (name, buffer), memory in zip(buffers.items(), memories, strict=True):
            apart = memories.count(memory) == 1
            specs[name] = _array_spec(buffer.dtype, buffer.shape, apart, aligned=True)
    return Call(constants, specs, passed, arrays, buffers)


@lru_cache(maxsize=1 << 12)
def _array_spec(dtype: DType, shape: tuple[int, ...], noalias: bool, aligned: bool) -> ArraySpec:
    divisors = tuple([gcd(n, ALIGNMENT) for n in shape])
    return _interned(ArraySpec(dtype, len(shape), noalias, aligned, divisors))


def _check_apart(arrays: Mapping[str, Array], buffers: Mapping[str, Buffer]) -> None:
    """Refuse arrays that share memory with Buffers: they would be copied, and share it no more."""
    for other, buffer in buffers.items():
        view = buffer.device.view(buffer.argument)
        for name, array in arrays.items():
            if view is not None and np.may_share_memory(array, view):
                raise error_here(
                    ArgumentError,
                    f"{name} shares memory with the Buffer {other}; pass a Buffer for both",
                )


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
