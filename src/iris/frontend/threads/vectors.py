"""Words of Metal for vectors, for choices among values, and for their bits."""

from __future__ import annotations

from iris.errors import ShapeError
from iris.frontend import language
from iris.frontend.language import where
from iris.frontend.threads.types import as_type
from iris.frontend.threads.words import word
from iris.frontend.tracing import error_here
from iris.frontend.values import Operand, Traced, as_traced, binary, describe, emit, taken, unary
from iris.ir import metal
from iris.ir.math import Div, Sqrt
from iris.ir.types import bool_


@word
def select(on_false: Operand, on_true: Operand, condition: Operand) -> Traced:
    """One value or the other, element by element; as in Metal, the condition comes last."""
    chosen = as_traced(condition)
    if chosen.dtype is not bool_:
        raise error_here(
            ShapeError,
            "metal.select(a, b, condition) gives b where the condition holds, which is a bool, "
            f"not {describe(condition)}",
        )
    return where(chosen, on_true, on_false)


@word
def bitcast(x: Operand, type: object) -> Traced:
    """The same bits as another type of the same width, such as `metal.uint`."""
    to = as_type(type)
    value: Traced = language.bitcast(as_traced(x), to.element)
    if to.width > 1 and value.shape != (to.width,):
        raise error_here(ShapeError, f"{describe(x)} is no vector of {to.width}, as {to.name} is")
    return value


@word
def mix(a: Operand, b: Operand, t: Operand) -> Traced:
    """What lies between two values: the first where t is 0, the second where it is 1."""
    start = as_traced(a)
    return start + (as_traced(b) - start) * t


@word
def dot(a: Traced, b: Traced) -> Traced:
    """The sum of the products of components."""
    products = _vector(a, "dot") * _vector(b, "dot")
    total = taken(products, [0])
    for i in range(1, products.shape[0]):
        total = total + taken(products, [i])
    return total


@word
def length(v: Traced) -> Traced:
    """How long a vector is."""
    return unary(Sqrt, dot(v, v))


@word
def normalize(v: Traced) -> Traced:
    """The vector of length 1 that points the same way."""
    return binary(Div, v, length(v))


@word
def cross(a: Traced, b: Traced) -> Traced:
    """A vector at right angles to two others."""
    if not a.shape == b.shape == (3,):
        raise error_here(ShapeError, "metal.cross is of two vectors of three components")
    (ax, ay, az), (bx, by, bz) = [[taken(v, [i]) for i in range(3)] for v in (a, b)]
    parts = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
    return emit(metal.join([part.value for part in parts]))


def _vector(x: Traced, use: str) -> Traced:
    if not isinstance(x, Traced) or len(x.shape) != 1:
        raise error_here(ShapeError, f"metal.{use} is of vectors, not of {describe(x)}")
    return x
