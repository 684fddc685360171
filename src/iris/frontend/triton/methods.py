"""The methods of tiles and pointers that Triton has and Iris has not."""

from __future__ import annotations

from functools import partial
from math import prod as size_of
from types import ModuleType
from typing import Any

from iris.frontend.triton import combining, language, memory
from iris.frontend.values import Address, Traced, no_attribute

_WORDS = (
    *("abs", "argmax", "argmin", "broadcast_to", "cast", "cdiv", "ceil", "cos", "cumprod"),
    *("cumsum", "erf", "exp", "exp2", "expand_dims", "floor", "log", "log2", "max", "min"),
    *("permute", "ravel", "reshape", "rsqrt", "sigmoid", "sin", "softmax", "sqrt"),
    *("sqrt_rn", "squeeze", "sum", "trans", "unsqueeze", "view"),
)
_COMBINING = (
    *("associative_scan", "flip", "gather", "histogram", "reduce", "reduce_or", "sort", "split"),
    "xor_sum",
)
_OF_POINTERS = (
    *("load", "store", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min"),
    *("atomic_or", "atomic_xchg", "atomic_xor", "atomic_store"),
)


def bound(x: Traced | Address, name: str) -> Any:
    """A method, or a property, of a tile or a pointer."""
    names: tuple[str, ...]
    room: ModuleType
    if isinstance(x, Address):
        if name == "shape":
            return addresses_of(x)
        if name in ("to", "cast"):
            return partial(language.cast, x)
        names, room = _OF_POINTERS, memory
    else:
        if name == "numel":
            return size_of(x.shape)
        names, room = _WORDS, language
        if name in _COMBINING:
            names, room = _COMBINING, combining
    if name not in names:
        raise no_attribute(x, name)
    return partial(getattr(room, name), x)


def addresses_of(x: Address) -> tuple[int, ...]:
    """The shape of the addresses of a pointer."""
    (_, pointer), *_ = x.each()
    return () if pointer.offset is None else pointer.offset.shape
