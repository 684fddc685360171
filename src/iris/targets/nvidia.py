"""NVIDIA's GPUs, which the device `cuda` runs on.

[CUDA C++ Programming Guide, compute capability 9.0; H100 and H200: data sheets]
"""

from __future__ import annotations

from dataclasses import replace

from iris.targets.target import Accuracy, Core, Matrices, Target

_RATES = {
    "alu": 128,
    "choice": 64,
    "int_mul": 64,
    "wide": 32,
    "exp2": 16,
    "recip": 16,
    "rsqrt": 16,
    "sin": 16,
}
# Each of a core's four schedulers has 16384 registers, for whole simdgroups of its own.
# [CUDA Toolkit: occupancy calculator, warp allocation granularity]
_OCCUPANCY = tuple(
    (2 * registers, 16384 // registers // 32 * 32 * 4) for registers in range(32, 256, 8)
)

H200 = Target(
    "nvidia-h200",
    cores=132,
    clock=1.98,
    bandwidth=4800,
    core=Core(
        rates=_RATES,
        # [Nsight Compute: pipelines FMA, ALU, XU]
        pipes=(("alu", "int_mul", "wide"), ("choice",), ("exp2", "recip", "rsqrt", "sin")),
        mma_cycles=2,
        has_matrix_units=True,
        shuffle_bytes=128,
        l1_bytes=128,
        l1_cache_bytes=256 * 2**10,  # less what programs take of it as threadgroup memory
        # While all cores ask for as much; blocks of products were measured on an H100 to find it.
        l2_bytes=26,
        l2_port_bytes=64,
        # Sums of columns were measured on an H100 to find it, beside what they move.
        latency_cycles=480,
        # [arXiv 2402.13499: Hopper by microbenchmarks]
        threadgroup_cycles=29,
        # Counted in what NVIDIA's compiler makes.
        exactness={"div": 10, "exp": 6},
        barrier_cycles=250,
        saturating_simdgroups=16,
        # Rows of 700 to 2500 elements were measured on an H200 to find it.
        reduced_bytes=64,
        occupancy=(*_OCCUPANCY, (510, 256)),
    ),
    # [PTX ISA: mma.m16n8k16, ldmatrix]
    matrices={
        16: Matrices(rows=2, depth=2, transposed=True, loads_rows=True),
        32: Matrices(multiplies=False),
    },
    reach=0.92,  # adding large arrays was measured on an H100, by the best of four compilers
    copies=True,  # [PTX ISA: cp.async]
    maker="NVIDIA",
    max_threads=1024,
    threadgroup_bytes=227 * 1024,
    core_threadgroup_bytes=228 * 1024,
    thread_registers=255,
    banks=32,
    bank_bytes=4,
    line_bytes=128,
    cache_bytes=50 * 2**20,
    constant_bytes=4096,
    buffer_bindings=511,
    atomic_bits=(32, 64),
    forward_progress=True,
    # One instruction, within 2^-22 of the result; and for `exp` what rounding `x * log2(e)` adds.
    # [PTX ISA: ex2.approx]
    coarse={"exp": Accuracy(ulps=5, ulps_per_unit=1.3), "exp2": Accuracy(ulps=5)},
)
H100 = replace(H200, name="nvidia-h100", bandwidth=3350)
GPUS = (H100, H200)


def nearest(bandwidth: float, cores: int) -> Target:
    """The GPU whose memory is about as fast, in GB/s, with some cores.

    >>> nearest(3352, 132).name, nearest(4915, 114).name
    ('nvidia-h100', 'nvidia-h200-114-cores')
    """
    return min(GPUS, key=lambda gpu: abs(gpu.bandwidth - bandwidth)).with_cores(cores)
