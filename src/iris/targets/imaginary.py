"""GPUs that nobody builds: what depends on the target is decided otherwise for them.

On one core a kernel costs much to start, and there is little memory beside it.  On many slow ones
it costs nothing: whatever can be divided among cores is.  Where threads have few registers, kernels
spill, and become several.
"""

from __future__ import annotations

from dataclasses import replace

from iris.targets.apple import M1

ONE_CORE = replace(
    M1,
    name="one-core",
    cores=1,
    clock=100,
    dispatch_microseconds=1000,
    threadgroup_bytes=4096,
    core_threadgroup_bytes=4096,
    cache_bytes=32 * 1024,
)
SLOW_CORES = replace(M1, name="slow-cores", cores=64, clock=1e-4, dispatch_microseconds=0)
FEW_REGISTERS = replace(M1, name="few-registers", thread_registers=64)
