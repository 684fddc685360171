"""Simdgroups that work together, at every number of them, in several orders of threads.

A barrier that is missing, or that a compiler moves something across, shows as a wrong number.
"""

from __future__ import annotations

from iris.ir.kinds import AtomicKind, ReduceKind, ScanKind
from iris.runtime.device import Device
from iris.testing.gpu import tile_ops
from iris.testing.gpu.by_hand import none_of
from iris.testing.gpu.from_ir import differences

_SHAPE = (32, 64)


def simdgroups_work_together(device: Device) -> str:
    """What goes through threadgroup memory, and atomics."""
    programs = [
        *[tile_ops.reduction(ReduceKind.SUM, axis, "f32", *_SHAPE) for axis in range(2)],
        *[tile_ops.running(ScanKind.SUM, axis, "i32", *_SHAPE) for axis in range(2)],
        tile_ops.reduction(ReduceKind.ARGMAX, 0, "f16", *_SHAPE),
        tile_ops.transposed("f32", *_SHAPE),
        tile_ops.product("f16", *_SHAPE),
        tile_ops.counted(AtomicKind.ADD, *_SHAPE),
    ]
    most = device.target.max_threads // device.target.simdgroup_width
    counts = [1 << n for n in range(most.bit_length())]
    none_of([line for count in counts for line in differences(device, programs, count)])
    return f"{len(programs)} programs of 1 to {most} simdgroups"
