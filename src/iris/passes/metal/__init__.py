"""Passes over Metal IR."""

from iris.passes.metal import (
    allocate_threadgroup,
    async_copies,
    block_swizzle,
    canonicalize_registers,
    check_resources,
    choose_register_shapes,
    fuse_register_loops,
    insert_barriers,
    mark_nowrap,
    preload_fragments,
    reuse_registers,
    serpentine_fragments,
    share_barriers,
    simplify_extrema,
    uniform_conditions,
    wait_for_copies,
)

__all__ = [
    "allocate_threadgroup",
    "async_copies",
    "block_swizzle",
    "canonicalize_registers",
    "check_resources",
    "choose_register_shapes",
    "fuse_register_loops",
    "insert_barriers",
    "mark_nowrap",
    "preload_fragments",
    "reuse_registers",
    "serpentine_fragments",
    "share_barriers",
    "simplify_extrema",
    "uniform_conditions",
    "wait_for_copies",
]
