"""The errors of what is computed in any order, as fast math allows; see `terms.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.interp.frame import held_by, interpretation
from iris.ir import math, tile
from iris.ir.core import Facet, Op
from iris.ir.kinds import ReduceKind, ScanKind
from iris.ir.types import DType, bf16, f16, f32
from iris.testing.bounds.frame import NORMAL, BoundedFrame
from iris.testing.bounds.interval import TINY, beside_sign, interval
from iris.testing.bounds.terms import Terms, one_term

Array = npt.NDArray[Any]

# The bits of each float dtype, and its greatest number.
_BITS: dict[DType, int] = {f32: 24, f16: 11, bf16: 8}
_LARGEST: dict[DType, float] = {
    f32: 2.0**128 - 2.0**104,
    bf16: 2.0**128 - 2.0**120,
    f16: 2.0**16 - 2.0**5,
}
# What keeps floats as they are, the signs of zeros included.
_KEEPS = (math.Constant, math.Bitcast, tile.Load, tile.LoadTile, tile.Atomic, tile.AtomicCas)
_MOVES = (
    tile.Broadcast,
    tile.ExpandDims,
    tile.Flip,
    tile.Gather,
    tile.Pick,
    tile.Reshape,
    tile.Transpose,
    tile.ConvertLayout,
    tile.Stage,
    tile.Unstage,
)
_ELEMENTWISE = (math.Add, math.Sub, math.Mul, math.Div, math.Fma)

# `rule(frame, op, operands, *terms of the operands)` gives those of the result; without a rule the
# result is a term itself.
combination = Facet("terms of a sum")
# `rule(op, results, operands, errors)` gives by how much more a result may be off.
approximation = Facet("error of fast math")


def reorder(
    frame: BoundedFrame,
    op: Op,
    result: Array,
    operands: Sequence[Any],
    errors: Sequence[Array],
    terms: Sequence[Terms],
    error: Array,
) -> Array:
    """The error of a float, given that in the order of the program; notes its terms."""
    value, dtype = op.results[0], held_by(op.results[0]).element
    if isinstance(op, _KEEPS):
        if error.any():
            frame.terms[value] = _stored(dtype, one_term(result, error), error)
        return error
    near = approximation.get(type(op))
    if near is not None:
        error = error + near(frame, op, result, operands, errors)
    rule = combination.get(type(op))
    if rule is not None:
        made: Terms | None = rule(frame, op, operands, *terms)
        if made is not None:
            frame.terms[value] = made
            if not isinstance(op, _UNROUNDED):
                error = _in_any_order(op, dtype, result, operands, made, error)
    # No sign of zero is kept.
    return (
        error if isinstance(op, _MOVES) else np.where(result == 0, np.maximum(error, TINY), error)
    )


def _in_any_order(
    op: Op, dtype: DType, result: Array, operands: Sequence[Any], terms: Terms, error: Array
) -> Array:
    # Reductions and products are made in f32, and rounded after that.
    made = f32 if isinstance(op, tile.Reduce | tile.Scan | tile.Dot) else dtype
    bits = _BITS[made]
    small = terms.least < NORMAL[made]
    exact = (beside_sign(error) == 0) & (terms.gross <= terms.grain * 2.0**bits) & ~small
    # Twice, as the interpreter rounds, too.
    more = 2 * terms.steps * 2.0**-bits * terms.gross
    more = more + np.where(small, NORMAL[made] * terms.most, 0.0)
    if made is not dtype:
        more = more + 2.0 ** (1 - _BITS[dtype]) * np.abs(result)
    found = np.where(exact, error, error + more)
    infinite = np.isinf(result)
    found = np.where(infinite & (error < np.inf), 0.0, found)
    lost = (infinite & small) | (terms.most > _LARGEST[made])
    nan = np.isnan(result)
    if nan.any():
        lost = lost | (nan & ~_surely_nan(op, operands, terms))
    return np.where(lost, np.inf, found)


def _stored(dtype: DType, x: Terms, error: Array) -> Terms:
    """What was stored may be computed with as if it were not: it had no more terms than this."""
    gross = x.gross + np.where(np.isfinite(error), error * 2.0 ** (_BITS[dtype] - 1), 0.0)
    return x._replace(gross=gross, most=np.maximum(gross, 1))


def _surely_nan(op: Op, operands: Sequence[Any], terms: Terms) -> Array:
    """Where what is nan is so in any order.  By one operand alone it is; that of two may cancel, as
    in `(nan + x) - nan`, if one of them is computed."""
    if not isinstance(op, _ELEMENTWISE):
        return np.zeros(1, np.bool_)
    count = sum(np.isnan(x).astype(int) for x in operands)
    return np.asarray((count == 1) | ((count > 1) & (terms.steps <= len(operands) - 1)))


# The terms of what is computed.


@combination(math.Add, math.Sub)
def total(frame: BoundedFrame, op: Op, operands: Sequence[Any], a: Terms, b: Terms) -> Terms:
    return Terms(
        a.gross + b.gross,
        a.most + b.most,
        np.minimum(a.least, b.least),
        np.minimum(a.grain, b.grain),
        _operations(frame, a, b),
    )


@combination(math.Mul)
def product(frame: BoundedFrame, op: Op, operands: Sequence[Any], a: Terms, b: Terms) -> Terms:
    made = [x * y for x, y in zip(a[:-1], b[:-1], strict=True)]
    return Terms._make([*made, _operations(frame, a, b)])


@combination(math.Fma)
def product_and_sum(
    frame: BoundedFrame, op: Op, operands: Sequence[Any], a: Terms, b: Terms, c: Terms
) -> Terms:
    return total(frame, op, operands, product(frame, op, operands, a, b), c)


@combination(math.Div)
def quotient(
    frame: BoundedFrame, op: math.Div, operands: Sequence[Any], a: Terms, b: Terms
) -> Terms:
    """A product with the reciprocal, of which the parts are as great as those of it are small."""
    size = np.abs(np.asarray(operands[1], np.float64))
    with np.errstate(divide="ignore"):
        inverse = np.where((size > 0) & np.isfinite(size), 1 / size, 1.0)
        # Where terms of the divisor cancel, its own error says so.
        other = Terms(inverse, 1 / b.least, 1 / b.most, np.zeros(1), b.steps)
    return product(frame, op, operands, a, other)


def _operations(frame: BoundedFrame, *terms: Terms) -> Array:
    """How many operations a result is made of: at most all that there were."""
    frame.launch.operations += 1
    return np.minimum(sum(x.steps for x in terms) + 1, frame.launch.operations)


_UNROUNDED = (math.Neg, math.Abs, math.Select, tile.Update, *_MOVES)


@combination(math.Neg, math.Abs)
def same(frame: BoundedFrame, op: Op, operands: Sequence[Any], x: Terms) -> Terms:
    return x


@combination(tile.Update)
def updated(frame: BoundedFrame, op: Op, operands: Sequence[Any], old: Terms, new: Terms) -> Terms:
    return new


@combination(math.Select)
def either(
    frame: BoundedFrame, op: Op, operands: Sequence[Any], condition: Terms, a: Terms, b: Terms
) -> Terms:
    """Whatever is done with what is chosen may be done before that."""
    return Terms(
        np.maximum(a.gross, b.gross),
        np.maximum(a.most, b.most),
        np.minimum(a.least, b.least),
        np.minimum(a.grain, b.grain),
        np.maximum(a.steps, b.steps),
    )


@combination(*_MOVES)
def moved(frame: BoundedFrame, op: Op, operands: Sequence[Any], x: Terms, *indices: Terms) -> Terms:
    rule, where = interpretation[type(op)], operands[1:]
    return Terms._make([*[rule(frame, op, part, *where)[0] for part in x[:-1]], x.steps])


@combination(tile.Reduce)
def reduced(
    frame: BoundedFrame, op: tile.Reduce, operands: Sequence[Any], x: Terms
) -> Terms | None:
    if op.kind not in (ReduceKind.SUM, ReduceKind.PROD):
        return None
    axis = 1 + op.axis
    return _along(frame, op, x, lambda ufunc, part: ufunc.reduce(part, axis=axis))


@combination(tile.Scan)
def scanned(frame: BoundedFrame, op: tile.Scan, operands: Sequence[Any], x: Terms) -> Terms | None:
    if op.kind not in (ScanKind.SUM, ScanKind.PROD):
        return None
    axis = 1 + op.axis
    return _along(frame, op, x, lambda ufunc, part: ufunc.accumulate(part, axis=axis))


def _along(
    frame: BoundedFrame,
    op: tile.Reduce | tile.Scan,
    x: Terms,
    apply: Callable[[np.ufunc, Array], Array],
) -> Terms:
    shape = held_by(op.x).shape
    parts = [np.broadcast_to(part, (len(part), *shape)) for part in x[:-1]]
    adds = op.kind.value == "sum"
    ufuncs = (np.add, np.add, np.minimum, np.minimum) if adds else (np.multiply,) * 4
    with np.errstate(all="ignore"):
        made = [apply(ufunc, part) for ufunc, part in zip(ufuncs, parts, strict=True)]
    return Terms._make([*made, _many(frame, shape[op.axis] - 1, x)])


@combination(tile.Dot)
def dotted(
    frame: BoundedFrame, op: tile.Dot, operands: Sequence[Any], a: Terms, b: Terms, *acc: Terms
) -> Terms:
    left, right = (
        [np.broadcast_to(part, (len(part), *held_by(v).shape)) for part in x[:-1]]
        for v, x in ((op.a, a), (op.b, b))
    )
    with np.errstate(all="ignore"):
        gross, most = left[0] @ right[0], left[1] @ right[1]
        least, grain = (
            left[i].min(-1, keepdims=True) * right[i].min(-2, keepdims=True) for i in (2, 3)
        )
    count = _many(frame, held_by(op.a).shape[-1], a, b)
    made = Terms(gross, most, least, grain, count)
    return total(frame, op, operands, made, *acc) if acc else made


def _many(frame: BoundedFrame, more: int, *terms: Terms) -> Array:
    """The number of operations of a result that takes several."""
    frame.launch.operations += more
    return _operations(frame, *terms) + more


# What is less exact in fast math.


@approximation(math.Sqrt)
def root(
    frame: BoundedFrame, op: Op, result: Array, operands: Sequence[Array], errors: Sequence[Array]
) -> Array:
    return _units(frame, op, "sqrt", result)


@approximation(math.Div)
def divided(
    frame: BoundedFrame, op: Op, result: Array, operands: Sequence[Array], errors: Sequence[Array]
) -> Array:
    more = _units(frame, op, "div", result)
    return np.where(_divides(op, operands, errors), more, np.inf)


@approximation(math.FloorDiv)
def divided_and_rounded_down(
    frame: BoundedFrame, op: Op, result: Array, operands: Sequence[Array], errors: Sequence[Array]
) -> Array:
    """A quotient that is off is mended, if it is not so great that 1 may be lost in it."""
    with np.errstate(all="ignore"):
        size = np.abs(operands[0].astype(np.float64) / operands[1].astype(np.float64))
    return np.where(_divides(op, operands, errors) & (size < 2.0**20), 0.0, np.inf)


def _divides(op: Op, operands: Sequence[Array], errors: Sequence[Array]) -> Array:
    """Where the reciprocal of the divisor is a normal number, too."""
    normal = NORMAL[held_by(op.results[0]).element]
    low, high = interval(np.abs(operands[1].astype(np.float64)), errors[1])
    return np.asarray((low >= normal) & (high <= 1 / normal))


def _units(frame: BoundedFrame, op: Op, name: str, result: Array) -> Array:
    """How far a quotient or root may be off, in f16 and bf16 by as many of their own units."""
    size = np.abs(result.astype(np.float64))
    unit = 2.0 ** (1 - _BITS[held_by(op.results[0]).element])
    # One more: the result may be in another binade, and is rounded itself.
    return np.where(np.isfinite(size), (frame.launch.accuracy[name].ulps + 1) * unit * size, 0.0)


@approximation(math.Cast)
def unrounded(
    frame: BoundedFrame, op: Op, result: Array, operands: Sequence[Array], errors: Sequence[Array]
) -> Array:
    """What is rounded to a narrower dtype may be used as it was."""
    if not held_by(op.operands[0]).element.is_float:
        return np.zeros(1)
    lost = np.abs(operands[0].astype(np.float64) - result.astype(np.float64))
    return np.where(np.isfinite(lost), lost, 0.0)
