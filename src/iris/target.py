"""The target as data: what an Apple GPU offers, each number with its source.

This is a description, never a live device: nothing here opens a framework or asks the machine.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    #: Banks of threadgroup memory, and the bytes each serves per cycle. Undocumented by Apple;
    #: found by probing an M5. [meTile: source]
    banks: int = 32
    bank_bytes: int = 4
    #: A cache line of device memory. [philipturner/metal-benchmarks, M1 and M2]
    line_bytes: int = 128
    #: Buffers that one kernel can bind. [MLX, tinygrad: source; mlx-vlm #1799]
    buffer_bindings: int = 31
