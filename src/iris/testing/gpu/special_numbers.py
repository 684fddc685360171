"""Subnormal numbers, nan and infinities, in each math mode.

Apple's GPUs are said to make 0 of subnormal floats and bfloats in every mode, and to keep those of
half.  Nothing in Iris rests on the former; masks rest on nan and infinity, in every mode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from iris.ir.scalar import round_to
from iris.ir.types import DType, bf16, f16, f32
from iris.runtime.device import Device
from iris.runtime.messages import MathMode
from iris.testing.gpu.by_hand import MODES, as_stored, as_values, none_of, run

Array = npt.NDArray[Any]

# Each type, and that in which its arithmetic is done.
_TYPES = {"float": (f32, "float"), "half": (f16, "half"), "bfloat": (bf16, "float")}
_RESULTS = ("sum", "product", "fma", "fmax", "less", "differs from itself")
_KERNEL = """
kernel void numbers_of_{T}(device const {T}* X [[buffer(0)]], device const {T}* Y [[buffer(1)]],
                           device {T}* Out [[buffer(2)]], device const int* Count [[buffer(3)]],
                           uint lane [[thread_index_in_threadgroup]]) {{
    for (int i = lane; i < Count[0]; i += 32) {{
        {C} x = {C}(X[i]), y = {C}(Y[i]);
        Out[i * 6] = {T}(x + y);
        Out[i * 6 + 1] = {T}(x * y);
        Out[i * 6 + 2] = {T}(fma(x, y, x));
        Out[i * 6 + 3] = {T}(fmax(x, y));
        Out[i * 6 + 4] = {T}(x < y ? 1 : 0);
        Out[i * 6 + 5] = {T}(x != x ? 1 : 0);
    }}
}}
"""
_TEXT = "".join([_KERNEL.format(T=name, C=of) for name, (_, of) in _TYPES.items()])


def special_numbers_count(device: Device) -> str:
    """Nan and infinity in arithmetic and comparisons; what becomes of subnormal numbers."""
    wrong: list[str] = []
    fates: dict[str, set[str]] = {name: set() for name in _TYPES}
    for mode in MODES:
        for name, (dtype, _) in _TYPES.items():
            here = f"{name} in mode {mode.name.lower()}"
            x, y = _special(dtype)
            found, right = _results(device, mode, name, x, y)
            bad = ~((found == right) | (np.isnan(found) & np.isnan(right)))
            for i, j in np.argwhere(bad)[:1]:
                wrong.append(
                    f"{here}: the {_RESULTS[j]} of {x[i]} and {y[i]} is {found[i, j]}, "
                    f"not {right[i, j]}"
                )
            x, y = _subnormal(dtype)
            found, right = _results(device, mode, name, x, y)
            is_subnormal = right != 0
            if (found == right).all():
                fates[name].add("kept")
            elif ((found == right) | (found == 0) & is_subnormal).all() and dtype is not f16:
                fates[name].add("made 0")
            else:
                i, j = np.argwhere(found != right)[0]
                wrong.append(
                    f"{here}: the {_RESULTS[j]} of {x[i]:.3g} and {y[i]:.3g} is {found[i, j]:.3g}, "
                    f"not {right[i, j]:.3g}"
                )
    none_of(wrong)
    said = [f"{name} {' or '.join(sorted(fate))}" for name, fate in fates.items()]
    modes = ", ".join([mode.name.lower() for mode in MODES])
    return f"nan and infinity count ({modes}); subnormal numbers: {', '.join(said)}"


def _special(dtype: DType) -> tuple[Array, Array]:
    """All pairs of some numbers, nan and infinity among them; the greatest overflows."""
    greatest = {f16: 65504.0, bf16: 2.0**127, f32: 2.0**127}[dtype]
    numbers = [0.0, 1.0, -2.5, 3.0, greatest, -greatest, np.inf, -np.inf, np.nan]
    x, y = np.meshgrid(numbers, numbers)
    return x.reshape(-1), y.reshape(-1)


def _subnormal(dtype: DType) -> tuple[Array, Array]:
    """Pairs of which something is subnormal: an operand, a result, or both."""
    normal = 2.0**-14 if dtype is f16 else 2.0**-126
    least = {f16: 2.0**-24, bf16: 2.0**-133, f32: 2.0**-149}[dtype]
    pairs = [(normal, 0.5), (least, least), (least, 0.0), (0.0, least), (-least, 0.0), (least, 2e4)]
    x, y = np.array(pairs).T
    return x, y


def _results(device: Device, mode: MathMode, name: str, x: Array, y: Array) -> tuple[Array, Array]:
    """What a device makes of pairs of numbers, and what is right."""
    dtype, _ = _TYPES[name]
    x, y = (as_stored(dtype, numbers) for numbers in (x, y))
    out = np.zeros((x.size, len(_RESULTS)), x.dtype)
    run(device, _TEXT, f"numbers_of_{name}", [x, y, out, np.array([x.size], np.int32)], mode)
    x, y, found = (as_values(dtype, stored).astype(np.float64) for stored in (x, y, out))
    with np.errstate(all="ignore"):
        exact = [x + y, x * y, x * y + x, np.fmax(x, y), (x < y) * 1.0, (x != x) * 1.0]
        return found, round_to(dtype, np.stack(exact, axis=1)).astype(np.float64)
