"""The Metal Shading Language as MLX takes it: the body of a kernel, and what stands before it.

MLX writes the head.  There buffers have names that the host chooses, and the positions of a thread
the names of Metal's attributes, where the body has these names.  [MLX, Custom Metal Kernels:
https://ml-explore.github.io/mlx/build/html/dev/custom_metal_kernels.html]
"""

from __future__ import annotations

from dataclasses import replace

from iris.codegen.language import Position
from iris.codegen.languages.msl import MSL
from iris.ir.types import u16, u32

#: What a buffer is called in the head.
BUFFER = "buffer{index}"
# What a head declares if the body has the word: these, and more of each buffer.
_ATTRIBUTES = """
dispatch_quadgroups_per_threadgroup dispatch_simdgroups_per_threadgroup
dispatch_threads_per_threadgroup grid_origin grid_size quadgroup_index_in_threadgroup
quadgroups_per_threadgroup simdgroup_index_in_threadgroup simdgroups_per_threadgroup
thread_execution_width thread_index_in_quadgroup thread_index_in_simdgroup
thread_index_in_threadgroup thread_position_in_grid thread_position_in_threadgroup
threadgroup_position_in_grid threadgroups_per_grid threads_per_grid threads_per_simdgroup
threads_per_threadgroup
"""
_BUFFERS = {
    BUFFER.format(index=index) + fact
    for index in range(31)
    for fact in ("", "_shape", "_strides", "_ndim")
}

MLX = replace(
    MSL,
    name="the Metal Shading Language within MLX",
    kernel=None,
    array="{device} {type}* {name} = " + BUFFER,
    constants=f"const device Params& p = *(const device Params*){BUFFER}",
    positions_are_parameters=False,
    positions={
        "tid": Position("uint3 {name} = threadgroup_position_in_grid", u32),
        "grid": Position("uint3 {name} = threadgroups_per_grid", u32),
        "lane": Position("ushort {name} = thread_index_in_simdgroup", u16),
        "simdgroup": Position("ushort {name} = simdgroup_index_in_threadgroup", u16),
        "thread_index": Position("ushort {name} = thread_index_in_threadgroup", u16),
    },
    keywords=MSL.keywords | set(_ATTRIBUTES.split()) | _BUFFERS,
)
