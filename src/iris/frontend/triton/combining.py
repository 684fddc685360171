"""The words of `triton.language` that combine, order and rearrange the elements of tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iris.errors import DTypeError, LanguageError
from iris.frontend import combining as iris
from iris.frontend import histograms, joins_and_sorts, language
from iris.frontend.traced_control import called
from iris.frontend.tracing import error_here
from iris.frontend.triton.language import as_mask, same_word, widened, word
from iris.frontend.values import Traced, as_traced, binary, broadcast_shapes, spread
from iris.ir import math


@word
def reduce(input: Any, axis: int | None, combine_fn: Any, keep_dims: bool = False) -> Any:
    """The elements along an axis, or all, combined by a function."""
    return iris.reduce(input, axis, combine_fn, keep_dims)


@word
def associative_scan(input: Any, axis: int, combine_fn: Any, reverse: bool = False) -> Any:
    """The elements up to and with each one along an axis, combined by a function."""
    return iris.associative_scan(input, axis, combine_fn, reverse)


def _bits(name: str, kind: type[math.Binary]) -> Callable[..., Traced]:
    def function(input: Traced, axis: int | None = None, keep_dims: bool = False) -> Traced:
        x = as_traced(input)
        if x.dtype.is_float:
            raise error_here(DTypeError, f"{name} is for integers, not {x.dtype}")
        reduced: Traced = iris.reduce(x, axis, lambda a, b: binary(kind, a, b), keep_dims)
        return reduced

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "The bits of the elements along an axis, or of all, combined."
    return word(function)


xor_sum = _bits("xor_sum", math.Xor)
reduce_or = _bits("reduce_or", math.Or)


@word
def flip(x: Traced, dim: int | None = None) -> Traced:
    """The elements in reverse order along an axis, the last if none is given."""
    return language.flip(x, -1 if dim is None else dim)


@word
def gather(src: Traced, index: Traced, axis: int) -> Traced:
    """Elements by their indices along an axis."""
    return language.gather(src, index, axis)


@word
def sort(x: Traced, dim: int | None = None, descending: bool = False) -> Traced:
    """The elements in order along an axis, the last if none is given."""
    return joins_and_sorts.sort(x, -1 if dim is None else dim, descending)


@word
def topk(x: Traced, k: int, dim: int | None = None) -> Traced:
    """The k greatest elements along an axis, the last if none is given, in descending order."""
    axis, x = -1 if dim is None else dim, as_traced(x)
    if not x.shape or k < x.shape[axis]:
        x = widened(x)  # some are left out by maxima
    return joins_and_sorts.topk(x, k, axis)


@word
def cat(input: Traced, other: Traced, can_reorder: bool = False, dim: int = 0) -> Traced:
    """One tile after the other along an axis."""
    return joins_and_sorts.cat(input, other, dim)


@word
def histogram(input: Traced, num_bins: int, mask: Any = None) -> Traced:
    """How often each of 0, ..., num_bins - 1 occurs, where a mask holds; others do not count."""
    return histograms.histogram(input, num_bins, None if mask is None else as_mask(mask))


@word
def map_elementwise(scalar_fn: Callable[..., Any], *args: Any, pack: int = 1) -> Any:
    """A function of scalars for each element; Iris gives it all elements at once."""
    if pack != 1:
        raise error_here(
            LanguageError, "map_elementwise takes one element at a time; pack is for another GPU"
        )
    operands = [as_traced(x) for x in args]
    shape = broadcast_shapes(*[x.shape for x in operands])
    return called(scalar_fn)(*[spread(x, shape) for x in operands])


join = same_word(joins_and_sorts.join)
interleave = same_word(joins_and_sorts.interleave)


@word
def split(a: Traced) -> tuple[Traced, Traced]:
    """The two tiles along the last axis, which has two elements."""
    return joins_and_sorts.split(a)
