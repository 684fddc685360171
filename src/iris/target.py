"""The target as data: what an Apple GPU offers, each number with its source.

This is a description, never a live device: nothing here opens a framework or asks the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

#: How far a math function of f32 may be from the truth, in units of the last place of that.
#: [Metal Shading Language Specification, numerical compliance: single precision without fast
#: math; what is not listed, such as `sqrt` and `rsqrt`, is rounded correctly]
ULPS: Mapping[str, float] = MappingProxyType(
    {
        "cos": 4,
        "exp": 4,
        "exp2": 4,
        "log": 4,
        "log2": 4,
        "pow": 16,
        "sin": 4,
        "tanh": 5,
        # Expanded: as below, and what an `exp` that is off by 4 adds to that.
        "erf": 2,
        "sigmoid": 10,
    }
)
#: The same for what Metal has not, expanded (`expand-math`), if all that it is expanded to is
#: rounded correctly.
EXPANSION_ULPS: Mapping[str, float] = MappingProxyType({"erf": 1, "sigmoid": 3})


@dataclass(frozen=True, slots=True)
class AppleGPU:
    """Limits and geometry of an Apple GPU; the defaults hold for every Apple7+ family.

    >>> AppleGPU().threadgroup_bytes
    32768
    """

    #: Threads in a simdgroup. [MLX, tinygrad: source]
    simdgroup_width: int = 32
    #: Threads in a threadgroup; a pipeline may allow fewer (896 seen). [MLX, tinygrad: source]
    max_threads: int = 1024
    #: Threadgroup memory of one threadgroup. [MLX, tinygrad: source]
    threadgroup_bytes: int = 32 * 1024
    #: Threadgroup memory of a core, for all threadgroups on it.
    #: [philipturner/metal-benchmarks, M1 and M2]
    core_threadgroup_bytes: int = 60 * 1024
    #: Registers of 32 bits that a thread can have: 256 of 16 bits. [Mesa: agx_performance.c] About
    #: 124 are there for values; with 128 live ones some spill. [meTile, M5]
    thread_registers: int = 128
    #: Banks of threadgroup memory, and the bytes each serves per cycle. Undocumented by Apple;
    #: found by probing an M5. [meTile: source]
    banks: int = 32
    bank_bytes: int = 4
    #: A cache line of device memory. [philipturner/metal-benchmarks, M1 and M2]
    line_bytes: int = 128
    #: Buffers that one kernel can bind. [MLX, tinygrad: source; mlx-vlm #1799]
    buffer_bindings: int = 31
    #: How far off each math function of f32 may be; see `ULPS`.
    ulps: Mapping[str, float] = field(default_factory=lambda: ULPS, hash=False)
