"""Metal itself: kernels by thread, `iris.metal.kernel`, and kernels that are Metal text."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from iris.compiler.thread_kernel import kernel
from iris.frontend.language import (
    abs,
    bitcast,
    cdiv,
    ceil,
    cos,
    exp,
    exp2,
    floor,
    fma,
    log,
    log2,
    round,
    rsqrt,
    sin,
    sqrt,
    tanh,
)
from iris.frontend.language import maximum as max
from iris.frontend.language import minimum as min
from iris.frontend.language import tile_range as range
from iris.frontend.language import where as select
from iris.frontend.threads.matrices import (
    simdgroup_load,
    simdgroup_matrix,
    simdgroup_multiply_accumulate,
    simdgroup_store,
)
from iris.frontend.threads.memory import (
    array,
    atomic_add,
    atomic_and,
    atomic_exchange,
    atomic_load,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xor,
    shared,
)
from iris.frontend.threads.positions import (
    grid_size_x,
    grid_size_y,
    grid_size_z,
    lane_id,
    num_threadgroups_x,
    num_threadgroups_y,
    num_threadgroups_z,
    simdgroup_id,
    thread_id_x,
    thread_id_y,
    thread_id_z,
    thread_in_threadgroup,
    thread_in_threadgroup_x,
    thread_in_threadgroup_y,
    thread_in_threadgroup_z,
    threadgroup_id_x,
    threadgroup_id_y,
    threadgroup_id_z,
    threadgroup_size_x,
    threadgroup_size_y,
    threadgroup_size_z,
)
from iris.frontend.threads.together import (
    barrier,
    simd_all,
    simd_any,
    simd_ballot,
    simd_broadcast,
    simd_max,
    simd_min,
    simd_prefix_exclusive_sum,
    simd_prefix_inclusive_sum,
    simd_product,
    simd_shuffle,
    simd_shuffle_down,
    simd_shuffle_up,
    simd_shuffle_xor,
    simd_sum,
)
from iris.frontend.threads.types import TYPES

if TYPE_CHECKING:
    from iris.compiler.metal_library import library

__all__ = [
    "abs",
    "array",
    "atomic_add",
    "atomic_and",
    "atomic_exchange",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xor",
    "barrier",
    "bitcast",
    "cdiv",
    "ceil",
    "cos",
    "exp",
    "exp2",
    "floor",
    "fma",
    "grid_size_x",
    "grid_size_y",
    "grid_size_z",
    "kernel",
    "lane_id",
    "library",
    "log",
    "log2",
    "max",
    "min",
    "num_threadgroups_x",
    "num_threadgroups_y",
    "num_threadgroups_z",
    "range",
    "round",
    "rsqrt",
    "select",
    "shared",
    "simd_all",
    "simd_any",
    "simd_ballot",
    "simd_broadcast",
    "simd_max",
    "simd_min",
    "simd_prefix_exclusive_sum",
    "simd_prefix_inclusive_sum",
    "simd_product",
    "simd_shuffle",
    "simd_shuffle_down",
    "simd_shuffle_up",
    "simd_shuffle_xor",
    "simd_sum",
    "simdgroup_id",
    "simdgroup_load",
    "simdgroup_matrix",
    "simdgroup_multiply_accumulate",
    "simdgroup_store",
    "sin",
    "sqrt",
    "tanh",
    "thread_id_x",
    "thread_id_y",
    "thread_id_z",
    "thread_in_threadgroup",
    "thread_in_threadgroup_x",
    "thread_in_threadgroup_y",
    "thread_in_threadgroup_z",
    "threadgroup_id_x",
    "threadgroup_id_y",
    "threadgroup_id_z",
    "threadgroup_size_x",
    "threadgroup_size_y",
    "threadgroup_size_z",
]


def __getattr__(name: str) -> Any:
    """Types, by their names in Metal: `metal.float4`."""
    if name == "library":  # opened when it is first asked for, with the devices of Metal
        return import_module("iris.compiler.metal_library").library
    if name in TYPES:
        return TYPES[name]
    raise AttributeError(f"iris.metal has no {name!r}")
