"""Small expressions: what rewrite rules of arithmetic look for, and little else.

    for expression in simple(i8, [i32]): ...            # add %x, %y   mul %x, 2   cast %x to i32
    for expression in nested(i8, [i32], inner): ...     # add (neg %x), %y

They are made from the declarations of the ops, so that they have every op that works on each
element alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple, TypeAlias

from iris.errors import VerifyError
from iris.ir import math, scalar
from iris.ir.attributes import Integer, OneOf
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.core import OPS, Level, Module, Op, Value
from iris.ir.declare import AttributeField
from iris.ir.literal import encode
from iris.ir.math import Constant, element_type
from iris.ir.types import DType, ElementType, Tensor, bool_
from iris.testing.draft import special_numbers

_PRODUCTS = (math.Mul, math.FloorDiv, math.Mod)


class Unknown(NamedTuple):
    """A parameter."""

    name: str
    dtype: DType


class Number(NamedTuple):
    """A constant, as its bits."""

    bits: int
    dtype: DType


class Form(NamedTuple):
    """An op, but for its operands: only their dtypes."""

    cls: type[Op]
    attributes: tuple[Any, ...]
    operands: tuple[DType, ...]
    dtype: DType  # of the result


class Call(NamedTuple):
    """An op with its operands."""

    form: Form
    operands: tuple[Expression, ...]

    @property
    def dtype(self) -> DType:
        return self.form.dtype


Expression: TypeAlias = Unknown | Number | Call


@cache
def type_at(level: Level, dtype: DType) -> ElementType:
    """The type of one element at some level."""
    return Tensor((), dtype) if level is Level.GRAPH else dtype


def function(expressions: Sequence[Expression], level: Level) -> Module:
    """A module with a function that returns what some expressions come to."""
    found: set[Unknown] = set()
    for expression in expressions:
        _add_unknowns(expression, found)
    unknowns = sorted(found)
    returns = tuple([type_at(level, e.dtype) for e in expressions])
    arguments = [(u.name, type_at(level, u.dtype)) for u in unknowns]
    func = Func("f", level, arguments, returns=returns)
    b = Builder(func.body)
    values: dict[Expression, Value] = dict(zip(unknowns, func.body.arguments, strict=True))

    def value(expression: Expression) -> Value:
        found = values.get(expression)
        if found is None:
            made = _made(expression, [value(e) for e in _operands(expression)], level)
            found = values[expression] = b(made)
        return found

    b.insert(Return([value(e) for e in expressions]))
    return Module([func])


def _operands(expression: Expression) -> Sequence[Expression]:
    return expression.operands if isinstance(expression, Call) else ()


def _made(expression: Expression, operands: Sequence[Value], level: Level) -> Op:
    type_ = type_at(level, expression.dtype)
    if isinstance(expression, Call):
        form = expression.form
        return form.cls.create(tuple(operands), form.attributes, (type_,))
    assert isinstance(expression, Number)
    return Constant.of_bits(expression.bits, type_)


def _add_unknowns(expression: Expression, found: set[Unknown]) -> None:
    if isinstance(expression, Unknown):
        found.add(expression)
    else:
        for operand in _operands(expression):
            _add_unknowns(operand, found)


def leaves(expression: Expression) -> Iterator[Expression]:
    if isinstance(expression, Call):
        for operand in expression.operands:
            yield from leaves(operand)
    else:
        yield expression


@cache
def forms(dtypes: tuple[DType, ...]) -> tuple[Form, ...]:
    """Every op on elements of some dtypes, with each attribute that it must be given."""
    return tuple(
        [
            form
            for cls in OPS.values()
            if scalar.meaning.get(cls) is not None
            for form in _forms_of(cls, dtypes)
        ]
    )


def _forms_of(cls: type[Op], dtypes: Sequence[DType]) -> Iterator[Form]:
    spec = cls.spec
    attributes = list(product(*[_choices(field) for field in spec.positional_attributes]))
    for operands in product(dtypes, repeat=len(spec.fixed)):
        if not all(t in f.constraint for t, f in zip(operands, spec.fixed, strict=True)):
            continue
        for results in product(dtypes, repeat=0 if spec.inferred else len(spec.results)):
            for chosen in attributes:
                values = Func("f", Level.TILE, [(None, t) for t in operands]).body.arguments
                try:
                    op = cls(*chosen, *values, *results)
                    op.check()
                except VerifyError:
                    continue
                yield Form(cls, op.attributes, operands, element_type(op.results[0].type).element)


def _choices(field: AttributeField) -> Sequence[Any]:
    kind = field.kind
    if isinstance(kind, OneOf):
        return list(kind.members.values())
    if isinstance(kind, Integer):
        return [n for n in (2, 3, 4, 6, 64) if kind.accepts(n)]
    raise NotImplementedError(f"{field.name} is {kind.what}, and no values of it are known here")


@cache
def unknowns(dtype: DType) -> tuple[Expression, ...]:
    """Two unknowns of a dtype; of floats one, as all its values can be tried."""
    names = ("p", "q") if dtype is bool_ else ("x",) if dtype.is_float else ("x", "y")
    return tuple([Unknown(name, dtype) for name in names])


@cache
def numbers(dtype: DType) -> tuple[Expression, ...]:
    """What rules may know: 0, 1, -1, powers of two, the ends of the range, nan."""
    return tuple([Number(encode(n, dtype), dtype) for n in special_numbers(dtype)])


@cache
def plain_numbers(dtype: DType) -> tuple[Expression, ...]:
    """Two that stand for all others: one that is a power of two, and one that is not."""
    known = [True] if dtype is bool_ else [3.0, 0.5] if dtype.is_float else [3, 4]
    return tuple([Number(encode(n, dtype), dtype) for n in known])


def simple(dtype: DType, others: Sequence[DType]) -> Iterator[Call]:
    """Every op of a dtype and bools, on unknowns and numbers; and conversions to other dtypes."""
    known = {t: [*unknowns(t), *numbers(t)] for t in (dtype, bool_)}
    plain = {n for t in known for n in plain_numbers(t)}
    for form in forms_with(dtype, others):
        if known.keys() >= {*form.operands}:
            for operands in product(*[known[t] for t in form.operands]):
                # Of numbers alone a few: rules that know none of them are the same for all.
                if plain.issuperset(operands) or any(isinstance(e, Unknown) for e in operands):
                    yield Call(form, operands)


def nested(dtype: DType, others: Sequence[DType], inner: Iterable[Call]) -> Iterator[Call]:
    """Every op with some expressions as one operand and leaves as the others; or with two that
    have one operand each; and conversions of conversions."""
    plain = {t: [*unknowns(t), *plain_numbers(t)] for t in (dtype, bool_)}
    every = {t: [*unknowns(t), *numbers(t)] for t in (dtype, bool_)}
    by_dtype: dict[DType, list[Call]] = {}
    for call in inner:
        by_dtype.setdefault(call.dtype, []).append(call)
    for form in forms_with(dtype, others):
        most = 2 if len(form.operands) > 2 else None
        for position, wanted in enumerate(form.operands):
            for call in by_dtype.get(wanted, ()):
                known = every if len(call.operands) == 1 else plain
                rest: list[Sequence[Expression]] = [known.get(t, [])[:most] for t in form.operands]
                rest[position] = [call]
                for operands in product(*rest):
                    yield Call(form, operands)
        if len(form.operands) == 2 and len({*form.operands}) == 1:
            single = [c for c in by_dtype.get(form.operands[0], ()) if len(c.operands) == 1]
            for one, other in product(single, repeat=2):
                for unknown in unknowns(other.form.operands[0]):
                    yield Call(form, (one, Call(other.form, (unknown,))))


def forms_with(dtype: DType, others: Sequence[DType]) -> Iterable[Form]:
    """Every op of a dtype and bools, and conversions between them and others."""
    own = dict.fromkeys((dtype, bool_))
    converting = [f for f in forms((*dict.fromkeys((*own, *others)),)) if not f.cls.spec.inferred]
    return dict.fromkeys([*forms((*own,)), *converting])


def multiplies_unknowns(expression: Expression) -> bool:
    """Whether two operands, neither of which is a number, are multiplied or divided."""
    if not isinstance(expression, Call):
        return False
    own = expression.form.cls in _PRODUCTS
    if own and not any(isinstance(e, Number) for e in expression.operands):
        return True
    return any(multiplies_unknowns(e) for e in expression.operands)


def is_plain(call: Call) -> bool:
    """Whether an expression stands for all that differ from it in names and numbers: it has an
    unknown, the first ones of their dtype, and plain numbers."""
    plain = {n for e in leaves(call) for n in plain_numbers(e.dtype)}
    seen: dict[DType, list[Expression]] = {}
    for leaf in leaves(call):
        names = seen.setdefault(leaf.dtype, [])
        if isinstance(leaf, Number):
            if leaf not in plain:
                return False
        elif leaf not in names:
            names.append(leaf)
    return any(seen.values()) and all(n == [*unknowns(t)[: len(n)]] for t, n in seen.items())
