"""Numbers as bits, as Python values and as text, exactly, for every dtype."""

from __future__ import annotations

import math
import struct
from functools import lru_cache

from iris.ir.types import DType, bf16, bool_, f16, f32

Number = bool | int | float

_FORMAT = {f16: ("<e", "<H"), f32: ("<f", "<I")}


def encode(value: Number, dtype: DType) -> int:
    """The bits of a value in a dtype.  To a float dtype it is rounded once, ties to even; what
    does not fit (in an integer dtype or bool, whatever it does not hold exactly) raises
    `OverflowError`."""
    if not dtype.is_float:
        if not dtype.low <= value <= dtype.high or value != int(value):
            raise OverflowError(
                f"{_short(value)} does not fit {dtype}, "
                f"which holds the integers {dtype.low} to {dtype.high}"
            )
        return int(value) & ((1 << dtype.bits) - 1)
    try:
        wide = value if isinstance(value, float) else _wide(value)
        if dtype is bf16:
            return _bf16_bits(wide)
        pack, unpack = _FORMAT[dtype]
        return int(struct.unpack(unpack, struct.pack(pack, wide))[0])
    except OverflowError:
        raise OverflowError(f"{_short(value)} does not fit {dtype}") from None


def decode(bits: int, dtype: DType) -> Number:
    """The value that bits stand for."""
    if dtype is bool_:
        return bool(bits)
    if dtype.is_signed:
        return bits - (1 << dtype.bits) if bits >> (dtype.bits - 1) else bits
    if not dtype.is_float:
        return bits
    if dtype is bf16:
        bits, dtype = bits << 16, f32
    pack, unpack = _FORMAT[dtype]
    return float(struct.unpack(pack, struct.pack(unpack, bits))[0])


def _wide(value: int) -> float:
    """An integer as a float, rounded to odd if it has too many bits, so that rounding once more
    is right."""
    dropped = max(0, value.bit_length() - 53)
    kept = value >> dropped
    return math.ldexp(kept if kept << dropped == value else kept | 1, dropped)


def _short(value: Number) -> str:
    """A number for an error; Python refuses to write out the longest integers."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    return str(value)


def _bf16_bits(value: float) -> int:
    single = int(struct.unpack("<I", struct.pack("<f", value))[0])
    if math.isnan(value):
        return single >> 16 | 0x40
    # Rounding twice goes wrong only where the first rounding landed on a tie of the second.
    if single & 0xFFFF == 0x8000:
        rounded = struct.unpack("<f", struct.pack("<I", single))[0]
        if abs(rounded) != abs(value):
            single += 1 if abs(rounded) < abs(value) else -1
    bits = (single + 0x7FFF + (single >> 16 & 1)) >> 16
    if bits & 0x7F80 == 0x7F80 and not math.isinf(value):
        raise OverflowError
    return bits


@lru_cache(maxsize=4096)
def text(bits: int, dtype: DType) -> str:
    """The value, rounded to as few decimal digits as still mean these bits."""
    value = decode(bits, dtype)
    if not dtype.is_float:
        return str(value).lower()
    value = float(value)
    if math.isnan(value):
        return "nan" if bits == encode(math.nan, dtype) else f"nan({bits})"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    for digits in range(1, 18):
        short = f"{value:.{digits}g}"
        try:
            if encode(float(short), dtype) == bits:
                break
        except OverflowError:
            continue  # rounded up past the largest finite value: more digits are needed
    return repr(float(short))
