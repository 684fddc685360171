"""The words of `triton.language` that touch memory.

A masked load without `other` gives zeros: Triton leaves such lanes undefined, and this is what its
interpreter computes with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iris.errors import ArgumentError, LanguageError
from iris.frontend import memory as iris
from iris.frontend.tracing import error_here
from iris.frontend.triton import blocks
from iris.frontend.triton.blocks import Block
from iris.frontend.triton.float8 import check_is_plain, float8_of, loaded_as, stored_as
from iris.frontend.triton.language import as_mask, word
from iris.frontend.values import Pointer, Traced, as_pointer

_CACHE = ("", ".ca", ".cg", ".cv", ".wb", ".cs", ".wt")
_EVICTION = ("", "evict_first", "evict_last", "evict_normal", "no_allocate")


def _check_hints(cache_modifier: Any, eviction_policy: Any) -> None:
    """Refuse a hint that there is not; those that there are change nothing on a Mac."""
    hints = (("cache_modifier", cache_modifier, _CACHE),)
    for name, given, legal in (*hints, ("eviction_policy", eviction_policy, _EVICTION)):
        if given is not None and given not in legal:
            raise error_here(ArgumentError, f"{name} is one of {legal}, not {given!r}")


@word
def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> Any:
    """The elements at a pointer, or of a block; `other`, or else 0, where they are masked."""
    _check_hints(cache_modifier, eviction_policy)
    if isinstance(pointer, Block):
        if mask is not None or other is not None:
            raise error_here(
                ArgumentError, "a block has boundary_check= and padding_option=, and no mask"
            )
        return blocks.load(pointer, boundary_check, padding_option)
    if boundary_check or padding_option:
        raise error_here(ArgumentError, "boundary_check and padding_option are for blocks")
    encoding = float8_of(pointer)
    padding = 0 if other is None else stored_as(encoding, other)
    condition = as_mask(mask)
    if condition is None:
        loaded = iris.load(pointer, volatile=volatile)
    else:
        loaded = iris.load(pointer, condition, padding, volatile=volatile)
    return loaded_as(encoding, loaded)


@word
def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Write elements at a pointer, or of a block, except where they are masked."""
    _check_hints(cache_modifier, eviction_policy)
    if isinstance(pointer, Block):
        if mask is not None:
            raise error_here(ArgumentError, "a block has boundary_check=, and no mask")
        blocks.store(pointer, value, boundary_check)
        return
    if boundary_check:
        raise error_here(ArgumentError, "boundary_check is for blocks")
    iris.store(pointer, stored_as(float8_of(pointer), value), as_mask(mask))


def _check_order(sem: Any, scope: Any) -> None:
    """Refuse an order of memory that there is not; Iris's atomics have the strictest."""
    if sem not in (None, "relaxed", "acquire", "release", "acq_rel"):
        raise error_here(ArgumentError, f"sem is acquire, release, acq_rel or relaxed, not {sem!r}")
    if scope not in (None, "gpu", "cta", "sys"):
        raise error_here(ArgumentError, f"scope is gpu, cta or sys, not {scope!r}")
    if scope == "sys":
        raise error_here(LanguageError, "atomics of a Mac are of the GPU, not of the system")


def _atomic(name: str, function: Callable[..., Traced]) -> Callable[..., Traced]:
    def atomic(
        pointer: Any, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
    ) -> Traced:
        _check_order(sem, scope)
        check_is_plain(pointer, atomic.__name__)
        return function(pointer, val, as_mask(mask))

    atomic.__name__ = atomic.__qualname__ = f"atomic_{name}"
    atomic.__doc__ = function.__doc__
    return word(atomic)


atomic_add = _atomic("add", iris.atomic_add)
atomic_max = _atomic("max", iris.atomic_max)
atomic_min = _atomic("min", iris.atomic_min)
atomic_and = _atomic("and", iris.atomic_and)
atomic_or = _atomic("or", iris.atomic_or)
atomic_xor = _atomic("xor", iris.atomic_xor)
atomic_xchg = _atomic("xchg", iris.atomic_exchange)


@word
def atomic_cas(
    pointer: Any, cmp: Any, val: Any, sem: str | None = None, scope: str | None = None
) -> Traced:
    """Put a value in the place of each element that is the expected one; gives the old ones."""
    _check_order(sem, scope)
    check_is_plain(pointer, "atomic_cas")
    return iris.atomic_cas(pointer, cmp, val)


@word
def atomic_store(
    pointer: Any, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> None:
    """Write elements, each in one step."""
    _check_order(sem, scope)
    check_is_plain(pointer, "atomic_store")
    iris.atomic_exchange(pointer, val, as_mask(mask))


# Blocks.


@word
def make_block_ptr(
    base: Pointer, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any = None
) -> Block:
    """A block of an array of a shape and strides; Iris orders memory itself."""
    return blocks.block(as_pointer(base, "make_block_ptr"), shape, strides, offsets, block_shape)


@word
def advance(base: Block, offsets: Any) -> Block:
    """The block that is further by some elements along each axis."""
    if not isinstance(base, Block):
        raise error_here(ArgumentError, "advance takes a block that make_block_ptr made")
    return blocks.advanced(base, offsets)


@word
def make_tensor_descriptor(
    base: Pointer, shape: Any, strides: Any, block_shape: Any, padding_option: str = "zero"
) -> blocks.Descriptor:
    """An array of a shape and strides, to be loaded and stored in blocks."""
    pointer = as_pointer(base, "make_tensor_descriptor")
    return blocks.descriptor(pointer, shape, strides, block_shape, padding_option)


@word
def load_tensor_descriptor(desc: blocks.Descriptor, offsets: Any) -> Any:
    """The block of a descriptor at some offsets."""
    return desc.load(offsets)


@word
def store_tensor_descriptor(desc: blocks.Descriptor, offsets: Any, value: Any) -> None:
    """Write the block of a descriptor at some offsets."""
    desc.store(offsets, value)
