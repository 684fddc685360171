"""NumPy's ufuncs that take a formula of the shared math.

f16 and bf16 have too few bits for what goes on in between: they are computed in f32, and rounded
once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iris.frontend import formulas
from iris.frontend.arrays.array_elementwise import as_float
from iris.frontend.arrays.array_values import cast, unify, unify_floats
from iris.frontend.arrays.protocol import ufunc
from iris.frontend.arrays.trace import current
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.formulas import Term
from iris.ir.types import f32


def _in_f32(formula: Callable[..., Term], *operands: TracedArray) -> TracedArray:
    """A formula of floats of one dtype."""
    trace = current()
    terms = [Term(cast(x, f32).value, trace.emit) for x in operands]
    weak = all(x.weak for x in operands)
    return cast(TracedArray(formula(*terms).value, trace, weak), operands[0].element)


def _of_one(formula: Callable[[Term], Term]) -> Callable[[Any], TracedArray]:
    return lambda x: _in_f32(formula, *map(as_float, unify(x)))


def _of_two(formula: Callable[[Term, Term], Term]) -> Callable[[Any, Any], TracedArray]:
    return lambda x1, x2: _in_f32(formula, *unify_floats(x1, x2))


for _name, _formula in {
    "expm1": formulas.expm1,
    "log1p": formulas.log1p,
    "log10": formulas.log10,
    "cbrt": formulas.cbrt,
    "deg2rad": formulas.radians,
    "radians": formulas.radians,
    "rad2deg": formulas.degrees,
    "degrees": formulas.degrees,
    "tan": formulas.tan,
    "arctan": formulas.atan,
    "arcsin": formulas.asin,
    "arccos": formulas.acos,
    "sinh": formulas.sinh,
    "cosh": formulas.cosh,
    "arcsinh": formulas.asinh,
    "arccosh": formulas.acosh,
    "arctanh": formulas.atanh,
}.items():
    ufunc(_name)(_of_one(_formula))

for _name, _formula_of_two in {
    "logaddexp": formulas.logaddexp,
    "logaddexp2": formulas.logaddexp2,
    "hypot": formulas.hypot,
    "arctan2": formulas.atan2,
}.items():
    ufunc(_name)(_of_two(_formula_of_two))
