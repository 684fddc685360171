"""The shared math: elementwise ops for scalars, tiles, tensors and register arrays alike.

What each one means, per dtype, is in `scalar.py`; here is only what they are.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from itertools import repeat
from typing import ClassVar

from iris.errors import VerifyError
from iris.ir import literal
from iris.ir.attributes import Bits, Boolean, Integer, OneOf
from iris.ir.core import Location, Op, Value
from iris.ir.declare import (
    BITS,
    BOOLEANS,
    ELEMENTS,
    FLOATS,
    INTEGERS,
    NUMBERS,
    attribute,
    operand,
    result,
)
from iris.ir.types import DType, ElementType, Type, bool_


class Constant(Op):
    """A number, in every element of its type.

    %c2: f32 = constant 2.5
    %ones: tile<64xi32> = constant 1
    """

    name = "constant"
    bits: int = attribute(Bits())
    result: Value = result(ELEMENTS)

    def __init__(
        self, value: literal.Number, result: ElementType, *, location: Location | None = None
    ):
        """The constant nearest to a Python number."""
        try:
            bits = literal.encode(value, result.element)
        except OverflowError as error:
            raise VerifyError(f"constant: {error}", field="bits") from None
        super().__init__(bits, result, location=location)

    @classmethod
    def of_bits(cls, bits: int, type_: ElementType) -> Constant:
        return cls.create((), (bits,), (type_,))

    @property
    def value(self) -> literal.Number:
        return literal.decode(self.bits, self.dtype)

    @property
    def dtype(self) -> DType:
        return self.results[0].type.element

    def check(self) -> None:
        if self.bits >> self.dtype.bits:
            raise self.invalid(f"{self.bits} has more bits than {self.dtype}", at="bits")

    def result_name(self) -> str | None:
        return _constant_name(literal.text(self.bits, self.dtype))


@lru_cache(1 << 10)
def _constant_name(text: str) -> str | None:
    """What a constant is called: `%c2_5` for 2.5."""
    if text in ("true", "false", "inf", "nan"):
        return text
    plain = text.replace("-", "m").replace(".", "_").replace("+", "")
    return f"c{plain}" if plain.replace("_", "").isalnum() and len(plain) < 12 else None


class Elementwise(Op):
    """The base of ops that compute each element from those at the same index in the operands.

    Operands and result have one shape.  A subclass needs only a `meaning` (see `scalar.py`) to be
    interpreted, folded, fused, laid out and lowered.
    """

    def _same_type(self, first: int = 0) -> Type:
        """The type of the operands from `first` on; blames the one that stands out."""
        operands = self.operands
        type_ = operands[first].type
        for position in range(first + 1, len(operands)):
            if operands[position].type is not type_:
                raise self._odd_one_out(first)
        return type_

    def _odd_one_out(self, first: int) -> VerifyError:
        # The result's type, where there is one already, tells which operand to blame.
        types = [v.type for v in self.operands[first:]]
        wanted = self._operand_type_of_result() or max(types, key=types.count)
        odd = next((i for i, t in enumerate(types) if t is not wanted), len(types) - 1)
        field, index = self.spec.operand_field(first + odd, len(self.operands))
        others = ", ".join(dict.fromkeys(str(t) for t in types))
        message = f"operands must have one type, not {others}"
        return self.invalid(message, at=field.name, index=index)

    def _operand_type_of_result(self) -> Type | None:
        return self.results[0].type if self.results else None


class Transcendental(Elementwise):
    """The base of functions of floats that a GPU need not round correctly: see `Target.ulps`."""


class Unary(Elementwise):
    """One operand; the result has its type."""

    x: Value = operand(NUMBERS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        return (self.operands[0].type,)


class FloatUnary(Unary):
    x: Value = operand(FLOATS)


class Binary(Elementwise):
    """Two operands of one type; the result has it too."""

    lhs: Value = operand(NUMBERS)
    rhs: Value = operand(NUMBERS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        lhs, rhs = self.operands
        if lhs.type is not rhs.type:
            raise self._odd_one_out(0)
        return (lhs.type,)


class Nowrap(Enum):
    """Why integer arithmetic need not wrap.  Where it does not hold, that is a program error."""

    NONE = "none"  # it may have to
    FITS = "fits"  # every result fits its dtype
    NATURAL = "natural"  # so it does, and no operand is negative
    ADDRESS = "address"  # only addresses are made of it, for which more bits do as well

    __hash__ = object.__hash__  # by identity: passes look ops up by their attributes


class Wrapping(Elementwise):
    """The base of arithmetic that wraps where a result, of integers, does not fit."""

    #: Whether the low bits of the result depend on those of the operands only.
    modular: ClassVar[bool] = False
    nowrap: Nowrap = attribute(OneOf(Nowrap), Nowrap.NONE)

    @property
    def may_wrap(self) -> bool:
        return self.nowrap is Nowrap.NONE

    def may_speculate(self) -> bool:
        return self.may_wrap

    def check(self) -> None:
        if self.may_wrap:
            return
        if not _is_of_integers(self):
            raise self.invalid("only integers wrap", at="nowrap")
        if self.nowrap is Nowrap.ADDRESS and not (self.modular and makes_addresses(self)):
            message = "more than addresses is made of it; mark-nowrap finds where that is not so"
            raise self.invalid(message, at="nowrap")


def makes_addresses(op: Op) -> bool:
    """Whether all that is made of a result is addresses, by arithmetic that need not wrap."""
    value = op.results[0]
    return all(map(_makes_address, value.users, repeat(value)))


def _makes_address(user: Op, value: Value) -> bool:
    if isinstance(user, Wrapping):
        is_address = user.nowrap is Nowrap.ADDRESS
        return is_address or (user.modular and not user.may_wrap and makes_addresses(user))
    addresses = user.spec.addresses
    if not addresses:
        return False
    return all(i in addresses for i, v in enumerate(user.operands) if v is value)


class Neg(Wrapping, Unary):
    """`-x`; integers wrap, and `nowrap` says why they need not."""

    name = "neg"
    modular = True


class Abs(Wrapping, Unary):
    """The magnitude; the least signed integer stays itself, if `nowrap` does not exclude it."""

    name = "abs"


class Not(Unary):
    """Every bit flipped; of a bool, its negation."""

    name = "not"
    x: Value = operand(BITS)


class Exp(Transcendental, FloatUnary):
    """e to the x."""

    name = "exp"


class Exp2(Transcendental, FloatUnary):
    """2 to the x."""

    name = "exp2"


class Log(Transcendental, FloatUnary):
    """The natural logarithm."""

    name = "log"


class Log2(Transcendental, FloatUnary):
    """The logarithm to base 2."""

    name = "log2"


class Sqrt(FloatUnary):
    """The square root."""

    name = "sqrt"


class Rsqrt(Transcendental, FloatUnary):
    """One over the square root."""

    name = "rsqrt"


class Sin(Transcendental, FloatUnary):
    """The sine."""

    name = "sin"


class Cos(Transcendental, FloatUnary):
    """The cosine."""

    name = "cos"


class Tanh(Transcendental, FloatUnary):
    """The hyperbolic tangent."""

    name = "tanh"


class Erf(Transcendental, FloatUnary):
    """The error function."""

    name = "erf"


class Floor(FloatUnary):
    """The integer at or below."""

    name = "floor"


class Ceil(FloatUnary):
    """The integer at or above."""

    name = "ceil"


class Round(FloatUnary):
    """The nearest integer, ties to even."""

    name = "round"


class Sigmoid(Transcendental, FloatUnary):
    """`1 / (1 + exp(-x))`."""

    name = "sigmoid"


class Add(Wrapping, Binary):
    """`lhs + rhs`; integers wrap, and `nowrap` says why they need not."""

    name = "add"
    commutative = True
    modular = True


class Sub(Wrapping, Binary):
    """`lhs - rhs`; integers wrap, and `nowrap` says why they need not."""

    name = "sub"
    modular = True


class Mul(Wrapping, Binary):
    """`lhs * rhs`; integers wrap, and `nowrap` says why they need not."""

    name = "mul"
    commutative = True
    modular = True


class Div(Binary):
    """`lhs / rhs`, of floats.  With `invariant`, several quotients have the divisor, so its
    reciprocal can be computed once."""

    name = "div"
    invariant: bool = attribute(Boolean(), False)
    lhs: Value = operand(FLOATS)
    rhs: Value = operand(FLOATS)


class Division(Binary):
    """The base of division that rounds down.  By zero it is a program error, of integers."""

    natural: bool = attribute(Boolean(), False)

    def may_speculate(self) -> bool:
        return not self.natural and _divides_safely(self)

    def check(self) -> None:
        if self.natural and not _is_of_integers(self):
            raise self.invalid("only integers are natural", at="natural")


class FloorDiv(Division):
    """The quotient rounded down.  An integer divided by zero is a program error.
    With `natural`, no operand is negative."""

    name = "floordiv"


class Mod(Division):
    """What `floordiv` leaves; it has the divisor's sign.
    With `natural`, no operand is negative."""

    name = "mod"


class Pow(Transcendental, Binary):
    """`lhs` to the `rhs`."""

    name = "pow"
    lhs: Value = operand(FLOATS)
    rhs: Value = operand(FLOATS)


class Extremum(Binary):
    """The base of the greater and the lesser of two numbers."""

    commutative = True
    nsz: bool = attribute(Boolean(), False)


class MaxNum(Extremum):
    """The greater; of a number and a nan, the number.  -0 is less than +0;
    with `nsz`, for no signed zeros, the result may be either."""

    name = "maxnum"


class MinNum(Extremum):
    """The lesser; of a number and a nan, the number.  -0 is less than +0;
    with `nsz`, for no signed zeros, the result may be either."""

    name = "minnum"


class Maximum(Extremum):
    """The greater; nan if either is.  -0 is less than +0;
    with `nsz`, for no signed zeros, the result may be either."""

    name = "maximum"


class Minimum(Extremum):
    """The lesser; nan if either is.  -0 is less than +0;
    with `nsz`, for no signed zeros, the result may be either."""

    name = "minimum"


class And(Binary):
    """Bitwise and."""

    name = "and"
    commutative = True
    lhs: Value = operand(BITS)
    rhs: Value = operand(BITS)


class Or(Binary):
    """Bitwise or."""

    name = "or"
    commutative = True
    lhs: Value = operand(BITS)
    rhs: Value = operand(BITS)


class Xor(Binary):
    """Bitwise exclusive or."""

    name = "xor"
    commutative = True
    lhs: Value = operand(BITS)
    rhs: Value = operand(BITS)


class Shl(Wrapping, Binary):
    """`lhs << rhs`; a shift outside the width is a program error.
    With `nowrap`, no bits are lost."""

    name = "shl"
    lhs: Value = operand(INTEGERS)
    rhs: Value = operand(INTEGERS)

    def may_speculate(self) -> bool:
        return self.may_wrap and _shifts_safely(self)


class Shr(Binary):
    """`lhs >> rhs`, keeping the sign; a shift outside the width is a program error."""

    name = "shr"
    lhs: Value = operand(INTEGERS)
    rhs: Value = operand(INTEGERS)

    def may_speculate(self) -> bool:
        return _shifts_safely(self)


class AssumeDivisible(Elementwise):
    """`x`, which a number is known to divide; it is a program error if that does not.

    %n: i32 = assume_divisible 16 %n_arg
    """

    name = "assume_divisible"
    divisor: int = attribute(Integer(2, 2**31 - 1))
    x: Value = operand(INTEGERS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        return (self.x.type,)

    def check(self) -> None:
        dtype = element_type(self.x.type).element
        if self.divisor > dtype.high:
            raise self.invalid(f"{self.divisor} is over the range of {dtype}", at="divisor")

    def may_speculate(self) -> bool:
        return False


class Fma(Elementwise):
    """`a * b + c`, rounded once."""

    name = "fma"
    a: Value = operand(FLOATS)
    b: Value = operand(FLOATS)
    c: Value = operand(FLOATS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        return (self._same_type(),)


class Predicate(Enum):
    """How `compare` compares.  With a nan only `ne` holds."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"

    @property
    def swapped(self) -> Predicate:
        """The predicate that holds of (b, a) where this one holds of (a, b)."""
        return _SWAPPED.get(self, self)

    @property
    def negated(self) -> Predicate:
        """The predicate that holds where this one does not, there being no nan."""
        return _NEGATED[self]


_SWAPPED = {
    Predicate.LT: Predicate.GT,
    Predicate.GT: Predicate.LT,
    Predicate.LE: Predicate.GE,
    Predicate.GE: Predicate.LE,
}
_NEGATED = {
    Predicate.EQ: Predicate.NE,
    Predicate.NE: Predicate.EQ,
    Predicate.LT: Predicate.GE,
    Predicate.GE: Predicate.LT,
    Predicate.GT: Predicate.LE,
    Predicate.LE: Predicate.GT,
}


class Compare(Elementwise):
    """Whether a predicate holds, element by element.

    %inside: tile<64xbool> = compare lt %cols, %n
    """

    name = "compare"
    predicate: Predicate = attribute(OneOf(Predicate))
    lhs: Value = operand(ELEMENTS)
    rhs: Value = operand(ELEMENTS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        return (element_type(self._same_type()).with_element(bool_),)

    def _operand_type_of_result(self) -> Type | None:
        return None


class Select(Elementwise):
    """`on_true` where the condition holds, else `on_false`; a scalar condition is for all.

    %clamped: tile<64xf32> = select %mask, %x, %zero
    """

    name = "select"
    condition: Value = operand(BOOLEANS)
    on_true: Value = operand(ELEMENTS)
    on_false: Value = operand(ELEMENTS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        type_ = self._same_type(1)
        condition = self.operands[0].type
        if condition is not bool_ and condition is not element_type(type_).with_element(bool_):
            raise self.invalid(f"{condition} does not choose between {type_}", at="condition")
        return (type_,)


class _Conversion(Elementwise):
    x: Value = operand(ELEMENTS)
    result: Value = result(ELEMENTS)

    def check(self) -> None:
        source, target = element_type(self.operands[0].type), element_type(self.results[0].type)
        if source.with_element(target.element) is not target:
            raise self.invalid(f"{source} and {target} differ in shape", at="result")


class Cast(_Conversion):
    """The same numbers in another dtype.

    Integers wrap; a float becomes an integer by dropping its fraction, and one out of range is
    a program error.
    """

    name = "cast"

    def may_speculate(self) -> bool:
        source, target = element_type(self.operands[0].type), element_type(self.results[0].type)
        return not (source.element.is_float and target.element.is_integer)


class Bitcast(_Conversion):
    """The same bits under another dtype of the same width."""

    name = "bitcast"

    def check(self) -> None:
        super().check()
        source, target = (element_type(v.type).element for v in (self.operands[0], self.result))
        if source.bits != target.bits:
            raise self.invalid(f"{source} and {target} differ in width", at="result")


def constant_bits(value: Value) -> int | None:
    """The bits of a value that is a constant."""
    op = value.op
    return op.attributes[0] if type(op) is Constant else None


def element_type(type_: Type) -> ElementType:
    """The type as one with elements, which a field's constraint has checked."""
    if not isinstance(type_, ElementType):
        raise VerifyError(f"{type_} has no elements")
    return type_


def _is_of_integers(op: Op) -> bool:
    return element_type(op.results[0].type).element.is_integer


def _divides_safely(op: Op) -> bool:
    if element_type(op.operands[1].type).element.is_float:
        return True
    return constant_bits(op.operands[1]) not in (None, 0)


def _shifts_safely(op: Op) -> bool:
    bits = constant_bits(op.operands[1])
    return bits is not None and bits < element_type(op.operands[1].type).element.bits
