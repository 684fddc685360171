"""Arguments of a launch: what they are, and what a kernel may know of them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from math import gcd, lcm
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from iris.errors import ArgumentError, DTypeError, UserError
from iris.frontend.function import Parameter
from iris.frontend.plain import check_plain
from iris.frontend.specs import (
    ALIGNMENT,
    ArraySpec,
    Composite,
    ScalarSpec,
    TupleSpec,
    exact_key,
    put_together,
)
from iris.frontend.tracing import Vocabulary, error_here
from iris.ir.literal import decode, encode
from iris.ir.types import DType, bool_, f32, i32, i64, u64
from iris.runtime import foreign
from iris.runtime.borrowing import Borrowing
from iris.runtime.buffer import NUMPY_NAMES, Buffer, dtype_of, shared
from iris.runtime.device import ArrayArgument, Device

if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
    from numpy.lib.array_utils import byte_bounds
else:
    from numpy import byte_bounds  # type: ignore[no-redef,attr-defined]

Array = npt.NDArray[Any]
_MOST_F32 = float(np.finfo(np.float32).max)


class HasParameters(Protocol):
    """A function, as a launch sorts out its arguments."""

    name: str
    parameters: tuple[Parameter, ...]
    names: tuple[str, ...]
    constants: tuple[str, ...]  # the names of constexprs
    variables: tuple[str, ...]  # the names of others
    vocabulary: Vocabulary


def bind(
    function: HasParameters, positional: Sequence[Any], named: Mapping[str, Any]
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
            advice = import_module("iris.frontend.suggestions").option_instead(name, *names)
            raise _wrong(function, f"has no parameter {name!r}; it has {', '.join(names)}{advice}")
        if name in bound:
            raise _wrong(function, f"was given {name!r} twice")
        bound[name] = value
    if len(bound) == len(names):
        return bound
    for parameter in parameters:
        if parameter.name not in bound:
            if not parameter.has_default:
                kind = "the constexpr" if parameter.is_constexpr else "the argument"
                raise _wrong(function, f"needs {kind} {parameter.name!r}")
            bound[parameter.name] = parameter.default
    return bound


def _wrong(function: HasParameters, message: str) -> UserError:
    return error_here(ArgumentError, f"{function.name} {message}")


def as_array(name: str, value: object) -> Array | None:
    """An array argument as a NumPy array over the same memory; None if it is no array."""
    if isinstance(value, type):  # of NumPy, which tells of its instances
        return None
    try:
        array = foreign.as_array(name, value)
    except UserError as error:
        raise error_here(type(error), error.message) from None
    if array is not None:
        check_plain(name, array, ArgumentError)
    return array


@dataclass(frozen=True, slots=True)
class Strided:
    """An array whose memory a kernel gets uncopied; `iris.strided` makes it."""

    array: Array


def strided(array: Any) -> Any:
    """Pass an array that is not contiguous to a kernel that reckons with its strides.

    matmul[grid](a, iris.strided(b.T), out, ..., *[s // b.itemsize for s in b.T.strides])

    The kernel gets the memory from the first element on.  Only the array's own elements are in
    bounds: what lies between them is not there to be read, and is never written to.  Strides may be
    0, but not negative; elements of what is written to may not overlap.
    """
    if isinstance(array, (Buffer, Strided)):
        return array
    found = as_array("the argument of iris.strided", array)
    if found is None:
        raise error_here(
            ArgumentError, f"iris.strided takes an array, not a {type(array).__name__}"
        )
    return Strided(found)


def array_dtype(name: str, array: Array) -> DType:
    """The dtype of an array's elements."""
    if array.dtype.name == "float64":
        raise error_here(
            DTypeError,
            f"{name} is float64, which Apple GPUs do not have; pass {name}.astype(np.float32)",
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
        if not _fits_f32(value):
            raise error_here(ArgumentError, f"{name} is {value}, which f32 does not hold")
        return f32
    if isinstance(value, (type, DType, np.dtype)):
        instead = f"a dtype is a constant: declare the parameter as {name}: iris.constexpr"
    elif isinstance(value, (list, tuple)):
        instead = f"for an array pass np.array({name}, np.float32) or the like, and for constants"
        instead += f" a tuple, declared as {name}: iris.constexpr"
    else:
        instead = "arguments are arrays and numbers, and what is neither is declared iris.constexpr"
    raise error_here(ArgumentError, f"{name} is a {type(value).__name__}; {instead}")


def _plain_number(value: np.generic) -> object:
    """A number as one of Python's: longdouble is none even as an `.item()`."""
    return float(value) if isinstance(value, np.floating) else value.item()


def _fits_f32(value: float | np.floating[Any]) -> bool:
    number = float(value)
    if -_MOST_F32 <= number <= _MOST_F32:
        return True
    try:
        encode(number, f32)
    except OverflowError:
        return False
    return math.isfinite(number) or not np.isfinite(value)  # longdouble holds more than float


def scalar_spec(name: str, value: object, divisors: tuple[int, ...]) -> ScalarSpec:
    """What a kernel may know of a number: its dtype, and which of some numbers divide it."""
    if type(value) is int:  # as most are
        return _integer_spec(name, value, divisors)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return _integer_spec(name, int(value), divisors)
    return _plain_spec(scalar_dtype(name, value))


@lru_cache(maxsize=64)
def _plain_spec(dtype: DType) -> ScalarSpec:
    return _interned(ScalarSpec(dtype))


@lru_cache(maxsize=1 << 12)
def _integer_spec(name: str, number: int, divisors: tuple[int, ...]) -> ScalarSpec:
    dtype = scalar_dtype(name, number)
    divisor = gcd(number, ALIGNMENT)
    for other in sorted(divisors):
        both = lcm(divisor, other)
        if number % other == 0 and both <= i32.high:
            divisor = both
    return _interned(ScalarSpec(dtype, divisor, is_one=number == 1))


@lru_cache(maxsize=1 << 12)
def _of_type(spec: ScalarSpec, dtype: DType) -> ScalarSpec:
    return _interned(ScalarSpec(dtype) if dtype.is_float else replace(spec, type=dtype))


def typed(name: str, value: Any, spec: ScalarSpec, dtype: DType) -> tuple[ScalarSpec, Any]:
    """A number as one of a dtype that is declared, and what a kernel may know of it."""
    if dtype.is_float:
        try:
            held = decode(encode(value, dtype), dtype)  # an integer is rounded once
        except OverflowError:
            raise error_here(
                ArgumentError, f"{name} is {value}, which {dtype} does not hold"
            ) from None
        return _of_type(spec, dtype), held
    if isinstance(value, float) or not dtype.low <= value <= dtype.high:
        raise error_here(ArgumentError, f"{name} is {value}, which is no {dtype}")
    return _of_type(spec, dtype), value


def number_spec(
    name: str, value: Any, divisors: tuple[int, ...], declared: DType | None
) -> tuple[ScalarSpec, Any]:
    """What a kernel may know of a number, and the number as one of the dtype that is declared."""
    if declared is None:
        return scalar_spec(name, value, divisors), value
    if type(value) is int and declared.is_integer and declared.low <= value <= declared.high:
        return _declared_integer_spec(name, value, divisors, declared), value
    return typed(name, value, scalar_spec(name, value, divisors), declared)


@lru_cache(maxsize=1 << 12)
def _declared_integer_spec(
    name: str, number: int, divisors: tuple[int, ...], declared: DType
) -> ScalarSpec:
    return _of_type(_integer_spec(name, number, divisors), declared)


_Spec = TypeVar("_Spec", ArraySpec, ScalarSpec)
_SPECS: weakref.WeakValueDictionary[tuple[Any, ...], Any] = weakref.WeakValueDictionary()


def _interned(spec: _Spec) -> _Spec:
    """The one object of all specs that are equal, so that they are told apart by identity."""
    return _SPECS.setdefault((type(spec), *vars(spec).values()), spec)  # type: ignore[no-any-return]


@dataclass(slots=True)
class Call:
    """The arguments of a launch, by the names of the parameters."""

    constants: dict[str, Any]  # constexprs, and others that are constants to the vocabulary
    specs: dict[str, Any]  # what the kernel may know of the others; None of constants
    told: dict[str, Any]  # the others as a device is told of them; arrays are to be placed
    arrays: dict[str, Array]
    buffers: dict[str, Buffer]
    is_lent: bool = False  # whether some of these are of other libraries

    @property
    def passed(self) -> dict[str, Any]:
        """The others as they were passed: arrays, Buffers and numbers."""
        return self.told | self.buffers

    @property
    def arguments(self) -> dict[str, Any]:
        """All arguments as they were passed, by the names of the parameters."""
        return put_together(self.passed | self.constants, self.specs)


def call(function: HasParameters, positional: Sequence[Any], named: Mapping[str, Any]) -> Call:
    """Sort out the arguments of a launch."""
    bound = bind(function, positional, named)
    constants: dict[str, Any] = {}
    specs: dict[str, Any] = {}
    told: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    encodings: dict[str, str] = {}  # of arrays that are passed as codes
    buffers: dict[str, Buffer] = {}
    divisors: list[int] = []
    for name in function.constants:
        value = bound[name]
        constants[name] = value = value.item() if isinstance(value, np.generic) else value
        if type(value) is int and value > 1:
            divisors.append(value)
    dividing = tuple(divisors)
    memories: list[int] = []  # of the Buffers
    is_lent, borrowing = False, Borrowing()
    vocabulary, variables = function.vocabulary, function.variables
    kinds = tuple, Composite
    if vocabulary.fixes(()) and any(isinstance(value, kinds) for value in bound.values()):
        several = [_one_by_one(name, bound, specs, vocabulary) for name in variables]
        variables = tuple([name for names in several for name in names])
    for name in variables:
        value = bound[name]
        if isinstance(value, Buffer):
            buffers[name] = value
            told[name] = argument = value.argument
            memories.append(id(argument.memory))
            specs[name] = value.spec or _buffer_spec(value)
            if value.lent is not None:
                is_lent = True
            continue
        if isinstance(value, (int, float, np.generic)):
            specs[name] = scalar_spec(name, value, dividing)
            told[name] = _plain_number(value) if isinstance(value, np.generic) else value
            continue
        if vocabulary.fixes(value):
            constants[name], specs[name] = value, None  # among both, which tell calls apart
            continue
        there = shared_buffer(name, value, borrowing)
        if there is not None:
            buffers[name] = there
            told[name] = argument = there.argument
            memories.append(id(argument.memory))
            specs[name] = _buffer_spec(there)
            is_lent = True
            continue
        array = value.array if isinstance(value, Strided) else as_array(name, value)
        if array is None:
            specs[name] = scalar_spec(name, value, dividing)  # which raises
            continue
        if not array.flags.c_contiguous:
            asked = isinstance(value, Strided) or vocabulary.reckons_with_strides
            _check_strides(name, array, asked=asked)
        if array.dtype.name in vocabulary.encodings:
            encodings[name], array = array.dtype.name, array.view(np.uint8)
        arrays[name] = told[name] = array
        specs[name] = None  # in its place, for they are told apart in this order
    if arrays:
        for block in _blocks(arrays):
            apart = len(block.offsets) == 1
            for name, offset in block.offsets.items():
                array = arrays[name]
                dtype, is_aligned = array_dtype(name, array), offset % ALIGNMENT == 0
                specs[name] = array_spec(
                    dtype,
                    array.shape,
                    apart,
                    is_aligned,
                    _rows_are_dense(array),
                    encodings.get(name, ""),
                )
        _check_apart(arrays, buffers)
    if is_lent or len(set(memories)) < len(memories):
        for (name, buffer), memory in zip(buffers.items(), memories, strict=True):
            apart = memories.count(memory) == 1
            if apart and is_lent:
                apart = not any(_overlap(buffer, other) for other in buffers.values())
            if not apart:
                specs[name] = _buffer_spec(buffer, noalias=False)
    return Call(constants, specs, told, arrays, buffers, is_lent)


def _one_by_one(
    name: str, bound: dict[str, Any], specs: dict[str, Any], vocabulary: Vocabulary
) -> list[str]:
    """The names that an argument is passed under: of a tuple that holds arrays one for each item,
    but for those that are constants."""
    value = bound[name]
    if isinstance(value, Composite):
        value = value.parts()
    if not isinstance(value, tuple) or _is_constant(value, vocabulary):
        return [name]
    names = [
        None if _is_constant(x, vocabulary) else _free_name(f"{name}_{i}", bound)
        for i, x in enumerate(value)
    ]
    constants = tuple([x if n is None else None for n, x in zip(names, value, strict=True)])
    kind = type(value)
    key = kind, *names, exact_key(constants)
    specs[name] = _SPECS.setdefault(key, TupleSpec(kind, tuple(names), constants))
    found = []
    for item, x in zip(names, value, strict=True):
        if item is not None:
            bound[item] = x
            found += _one_by_one(item, bound, specs, vocabulary)
    return found


def _is_constant(value: object, vocabulary: Vocabulary) -> bool:
    """Whether an argument, or an item of one, is a constant; a tuple of numbers is one."""
    if not isinstance(value, tuple):
        return vocabulary.fixes(value)
    return all(
        isinstance(x, (int, float, np.generic)) or _is_constant(x, vocabulary) for x in value
    )


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    while name in taken:
        name += "_"
    return name


def shared_buffer(name: str, value: object, borrowing: Borrowing) -> Buffer | None:
    """Another library's array in the memory of a device, as a Buffer."""
    try:
        return shared(name, value, borrowing)
    except UserError as error:
        raise error_here(type(error), error.message) from None


def _overlap(buffer: Buffer, other: Buffer) -> bool:
    is_another = other is not buffer and other.device is buffer.device
    return is_another and buffer.device.overlap(buffer.argument, other.argument)


def _buffer_spec(buffer: Buffer, *, noalias: bool = True) -> ArraySpec:
    """What a kernel may know of a Buffer, which keeps it if nothing else has the same memory."""
    aligned = buffer.lent is None or buffer.lent.is_aligned
    spec = array_spec(buffer.dtype, buffer.shape, noalias, aligned)
    if noalias:
        buffer.spec = spec
    return spec


@lru_cache(maxsize=1 << 12)
def array_spec(
    dtype: DType,
    shape: tuple[int, ...],
    noalias: bool,
    aligned: bool,
    rows_are_dense: bool = True,
    encoding: str = "",
) -> ArraySpec:
    """What a kernel may know of an array."""
    divisors = tuple([gcd(n, ALIGNMENT) for n in shape])
    told = dtype, len(shape), noalias, aligned, divisors, rows_are_dense, encoding
    return _interned(ArraySpec(*told))


def _rows_are_dense(array: Array) -> bool:
    return array.flags.c_contiguous or array.shape[-1] <= 1 or array.strides[-1] == array.itemsize


def _check_strides(name: str, array: Array, *, asked: bool) -> None:
    """Refuse an array that is not contiguous, unless it is passed as one that need not be."""
    wrong = _wrong_strides(array)
    if asked and wrong is None:
        return
    what = "is not contiguous" if wrong is None else f"has a stride that is {wrong}"
    instead = (
        f"np.ascontiguousarray({name}), a copy in row-major order, and copy back what is written"
    )
    if wrong is None:
        instead += f"; or pass iris.strided({name}) if the kernel reckons with its strides"
    raise error_here(
        ArgumentError,
        f"{name} {what}: its shape is {array.shape}, and its strides, in bytes, are "
        f"{array.strides}; pass {instead}",
    )


def _wrong_strides(array: Array) -> str | None:
    """What is wrong with strides that no kernel can reckon with; None if nothing is."""
    strides = [stride for n, stride in zip(array.shape, array.strides, strict=True) if n > 1]
    if any(stride < 0 for stride in strides):
        return "negative"
    return "no whole number of elements" if any(s % array.itemsize for s in strides) else None


def check_written(name: str, array: Array | Buffer) -> None:
    """Refuse an array that a kernel cannot write to."""
    is_lent = isinstance(array, Buffer) and array.lent is not None and array.lent.is_read_only
    if is_lent or (isinstance(array, np.ndarray) and not array.flags.writeable):
        raise error_here(ArgumentError, f"{name} is written to, but its array is read-only")
    if isinstance(array, Buffer):
        return
    if not array.flags.c_contiguous and overlaps_itself(array):
        raise error_here(
            ArgumentError,
            f"{name} is written to, but some of its elements overlap: its shape is {array.shape}, "
            f"and its strides, in bytes, are {array.strides}",
        )


def overlaps_itself(array: Array) -> bool:
    """Whether two elements share memory, for strides that are not negative."""
    end = array.itemsize
    axes = zip(array.strides, array.shape, strict=True)
    for stride, n in sorted([(stride, n) for stride, n in axes if n > 1]):
        if stride < end:  # it may be so
            _, high = byte_bounds(array)
            own = np.zeros(high - array.ctypes.data, np.bool_)
            as_strided(own, array.shape, array.strides)[...] = True
            return int(np.count_nonzero(own)) < array.size
        end += stride * (n - 1)
    return False


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
        is_dense = all(arrays[name].flags.c_contiguous for name in block.offsets)
        # What else may not be touched is told of memory that nothing else is put into afterwards.
        memory = device.allocate(block.size, persistent=not is_dense)
        for name, offset in block.offsets.items():
            array = arrays[name]
            dtype, strides = array_dtype(name, array), None
            if not array.flags.c_contiguous:
                strides = tuple([stride // array.itemsize for stride in array.strides])
            placed[name] = ArrayArgument(memory, offset, dtype, array.shape, strides)
            device.copy_in(placed[name], array)
        if not is_dense:
            device.bound(memory, [placed[name] for name in block.offsets])
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
            blocks.append(_Block(high - low, {name: 0}))
            start, end = low, high
        else:
            end = max(end, high)
            blocks[-1].offsets[name] = low - start
            blocks[-1].size = end - start
    return blocks
