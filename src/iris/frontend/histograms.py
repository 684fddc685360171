"""How often integers occur in a tile."""

from __future__ import annotations

from math import prod
from typing import Any

from iris.errors import DTypeError
from iris.frontend.halves import flat, in_shape
from iris.frontend.language import arange
from iris.frontend.language import sum as total
from iris.frontend.tracing import current, error_here, word
from iris.frontend.values import (
    Traced,
    as_shape,
    as_traced,
    binary,
    cast,
    compare,
    constant,
    emit,
    spread,
)
from iris.ir import control, math
from iris.ir.math import Predicate
from iris.ir.types import bool_, i32

BINS = 8  # that are counted together, so that one pass over the elements serves them all


@word
def histogram(x: Traced, bins: int, mask: Any = None) -> Traced:
    """How often each of 0, ..., bins - 1 occurs in a tile of integers, where a mask holds."""
    traced = as_traced(x)
    if not traced.dtype.is_integer:
        raise error_here(DTypeError, f"histogram counts integers, not {traced}")
    (size,) = as_shape(bins)
    together = min(size, BINS)
    column = prod(traced.shape), 1
    shape = column[0], together
    counted = cast(traced, i32) if traced.dtype.bits < 32 else traced
    values = spread(in_shape(counted, *column), shape)
    holds = None if mask is None else spread(as_traced(mask), traced.shape)
    if holds is not None and holds.dtype is not bool_:
        raise error_here(DTypeError, f"a mask is of bools, not {holds}")

    def counts_from(first: Traced) -> Traced:
        """The counts of some neighbouring bins."""
        wanted = binary(math.Add, arange(0, together), first)
        equal = compare(Predicate.EQ, values, cast(wanted, values.dtype))
        if holds is not None:
            equal = binary(math.And, equal, spread(in_shape(holds, *column), shape))
        return total(cast(equal, i32), 0)

    first_counts = counts_from(constant(0, i32))
    if size == together:
        return first_counts
    rows = size // together
    row_numbers = in_shape(arange(0, rows), rows, 1)
    bounds = [constant(n, i32).value for n in (1, rows, 1)]
    # Each other row has the first counts, too, until its own turn: like these, the counts of a tile
    # of which no lane counts do not count.
    start = spread(in_shape(first_counts, 1, together), (rows, together))
    op = control.For(*bounds, [start.value])
    current().insert(op)
    builder = current().builder
    outer, builder.region = builder.region, op.body
    index, counts = map(Traced, op.body.arguments)
    new = in_shape(counts_from(binary(math.Mul, index, together)), 1, together)
    is_row = spread(compare(Predicate.EQ, row_numbers, index), (rows, together))
    kept = emit(math.Select(is_row.value, spread(new, (rows, together)).value, counts.value))
    current().insert(control.Yield([kept.value]))
    builder.region = outer
    return flat(Traced(op.results[0]))
