"""The facts of each math op: its NumPy function, and what it takes to compute.

    facts[math.Exp].numpy                # np.exp
    facts[math.Exp].work                 # {"exp2": 1, "alu": 1}, as exp2(x * log2(e))

An op of your own needs its facts, too, for fusion to weigh it and for `.estimate` to count it:

    facts(Softplus)(Facts(work={"exp2": 2, "alu": 3}, flops=1))
"""

from __future__ import annotations

import math as python_math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.errors import DeclarationError
from iris.ir import math
from iris.ir.core import Facet, Op

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Facts:
    """What `scalar` computes an op by, and what costs and counters count of it."""

    #: Elements of each part of the arithmetic hardware, named as in `Core.rates`, for an element of
    #: floats.  What has no hardware of its own is computed as the formula beside it says.
    work: Mapping[str, int]
    flops: int = 0
    #: Of `Transcendental` ops in float64; of others in the dtype of the operands.
    numpy: Callable[..., Array] | None = None
    #: With its operand: between two operands it lies between the results.
    grows: bool = False


facts = Facet("facts")


def numpy_of(op: type[Op]) -> Callable[..., Array]:
    """The NumPy function of an op."""
    known: Facts = facts[op]
    if known.numpy is None:
        raise DeclarationError(f"the facts of {op.name} name no NumPy function")
    return known.numpy


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(python_math.erf, 1, 1)(x), np.float64)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _power(x: Array, y: Array) -> Array:
    # Where all exponents are one 0.5, NumPy takes the square root, whose -0.0 and nan of -0.0 and
    # -inf are no powers.
    is_odd = (y == 0.5) & ((x == 0) | np.isinf(x))
    return np.asarray(np.power(np.where(is_odd, np.abs(x), x), y))


def _reciprocal_root(x: Array) -> Array:
    return np.asarray(1 / np.sqrt(x))


_PLAIN = {"alu": 1}
_CHOICE = {"choice": 1}
_FACTS: dict[type[Op], Facts] = {
    math.Neg: Facts(_PLAIN, numpy=np.negative),
    math.Abs: Facts(_PLAIN, numpy=np.absolute),
    math.Not: Facts(_PLAIN, numpy=np.invert),
    math.Floor: Facts(_PLAIN, numpy=np.floor),
    math.Ceil: Facts(_PLAIN, numpy=np.ceil),
    math.Round: Facts(_PLAIN, numpy=np.rint),
    math.Add: Facts(_PLAIN, 1, np.add),
    math.Sub: Facts(_PLAIN, 1, np.subtract),
    math.Mul: Facts(_PLAIN, 1, np.multiply),
    math.Div: Facts({"recip": 1, "alu": 1}, 1, np.true_divide),
    math.FloorDiv: Facts({"recip": 1, "alu": 4}),
    math.Mod: Facts({"recip": 1, "alu": 4}, numpy=np.remainder),
    math.Fma: Facts(_PLAIN, 2),
    math.Maximum: Facts(_CHOICE, 1, np.maximum),
    math.Minimum: Facts(_CHOICE, 1, np.minimum),
    math.MaxNum: Facts(_CHOICE, 1, np.fmax),
    math.MinNum: Facts(_CHOICE, 1, np.fmin),
    math.And: Facts(_PLAIN, numpy=np.bitwise_and),
    math.Or: Facts(_PLAIN, numpy=np.bitwise_or),
    math.Xor: Facts(_PLAIN, numpy=np.bitwise_xor),
    math.Shl: Facts(_PLAIN, numpy=np.left_shift),
    math.Shr: Facts(_PLAIN, numpy=np.right_shift),
    math.Compare: Facts(_CHOICE),
    math.Select: Facts(_CHOICE, numpy=np.where),
    math.Cast: Facts(_PLAIN),
    math.Bitcast: Facts({}),
    math.AssumeDivisible: Facts({}),
    math.Exp: Facts({"exp2": 1, "alu": 1}, numpy=np.exp, grows=True),  # exp2(x * log2(e))
    math.Exp2: Facts({"exp2": 1}, numpy=np.exp2, grows=True),
    math.Log: Facts({"exp2": 1, "alu": 1}, numpy=np.log, grows=True),  # log2(x) * log(2)
    math.Log2: Facts({"exp2": 1}, numpy=np.log2, grows=True),
    math.Sqrt: Facts({"rsqrt": 1, "alu": 1}, numpy=np.sqrt),  # x * rsqrt(x)
    math.Rsqrt: Facts({"rsqrt": 1}, numpy=_reciprocal_root),
    math.Sin: Facts({"sin": 1}, numpy=np.sin),
    math.Cos: Facts({"sin": 1}, numpy=np.cos),
    # 1 - 2 / (1 + exp(2 * x))
    math.Tanh: Facts({"exp2": 1, "recip": 1, "alu": 3}, numpy=np.tanh, grows=True),
    # 1 / (1 + exp(-x))
    math.Sigmoid: Facts({"exp2": 1, "recip": 1, "alu": 2}, numpy=_sigmoid, grows=True),
    # As `expand-math` makes it.
    math.Erf: Facts({"exp2": 1, "alu": 23}, numpy=_erf, grows=True),
    # exp2(log2(x) * y)
    math.Pow: Facts({"exp2": 2, "alu": 1}, numpy=_power),
}

for _op, _known in _FACTS.items():
    facts(_op)(_known)
