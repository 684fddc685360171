"""Which shapes of register arrays the text can have: others are refused, never written wrong."""

from __future__ import annotations

from collections.abc import Sequence

from iris.analysis.liveness import is_unused
from iris.errors import VerifyError
from iris.ir import metal
from iris.ir.control import For, If, Return, While, Yield
from iris.ir.core import Facet, Op, Value
from iris.ir.math import Constant
from iris.ir.metal import FRAGMENT_LANES, VECTOR, count_of, lanes_of, moves_words
from iris.ir.types import Registers, Type, bool_

#: What is wrong with the shapes of an op that somebody needs, or None.
misfit = Facet("misfit of register shapes")


def check_shapes(ops: Sequence[Op], dead: frozenset[Value]) -> None:
    """Refuse the first op whose arrays are held as no text can hold them."""
    values = [v for op in ops for v in op.results]
    values += [v for op in ops for region in op.regions for v in region.arguments]
    types = {type_ for type_ in {v.type for v in values} if isinstance(type_, Registers)}
    if not types:
        return
    words = {type_ for type_ in types if _is_words(type_)}
    near_words = {op for v in values if v.type in words for op in (v.op, *v.users)}
    for op in ops:
        rule = misfit.get(type(op)) or (_misfit_of_computed if op in near_words else None)
        why = None if rule is None else rule(op)
        if why is not None and (op.regions or not op.results or not is_unused(op, dead)):
            raise _refused(op, why)


def _refused(op: Op, why: str) -> VerifyError:
    where = f" at {op.location}" if op.location is not None else ""
    return op.invalid(f"{why}{where}; choose-register-shapes finds shapes that fit")


def _misfit_of_computed(op: Op) -> str | None:
    return _misfit_of_words((*op.operands, *op.results))


def _misfit_of_words(values: Sequence[Value]) -> str | None:
    for value in values:
        if _is_words(value.type):
            return f"{value!r} is held as words, which are only moved"
    return None


def _is_words(type_: Type) -> bool:
    return isinstance(type_, Registers) and (type_.lanes or 1) > VECTOR


@misfit(For, While, If, Yield, Return)
def _fits(op: Op) -> None:
    """What is carried from one to the other is of one type."""


@misfit(Constant)
def _misfit_of_constant(op: Constant) -> str | None:
    value = op.result
    if not _is_words(value.type):
        return None
    if all(isinstance(u, metal.Load) and u.other is value for u in _needed_users(value)):
        return None
    return _misfit_of_words((value,))


def _needed_users(value: Value) -> list[Op]:
    return [u for u in value.users if not u.results or u.regions or not is_unused(u, frozenset())]


@misfit(metal.Mma, metal.MmaShared, metal.LoadRows)
def _misfit_of_matrices(op: Op) -> str | None:
    for value in (*op.operands, *op.results):
        if isinstance(value.type, Registers) and lanes_of(value.type) != FRAGMENT_LANES:
            return f"{value!r} is not held by twos, as a matrix is"
    return None


@misfit(metal.Load, metal.Store)
def _misfit_of_access(op: metal.Load | metal.Store) -> str | None:
    moved = op.value if isinstance(op, metal.Store) else op.result
    count, lanes = count_of(moved.type), lanes_of(moved.type)
    if lanes == 1 and count > 1:
        return f"{moved!r} is held by element, and is moved as a vector"
    if lanes <= VECTOR:
        return None
    # The bytes of a bool may be any numbers in memory.
    is_word = lanes == count and moves_words(op.base, moved) and moved.type.element is not bool_
    return None if is_word else _misfit_of_words((moved,))


@misfit(metal.Slice)
def _misfit_of_slice(op: metal.Slice) -> str | None:
    return _misfit_of_part(op.x, op.result)


@misfit(metal.Insert)
def _misfit_of_insert(op: metal.Insert) -> str | None:
    if lanes_of(op.x.type) != lanes_of(op.result.type):
        return f"{op.result!r} is held otherwise than {op.x!r}"
    return None


@misfit(metal.Foreach)
def _misfit_of_foreach(op: metal.Foreach) -> str | None:
    for whole, part in zip(op.results, op.body.end.operands, strict=True):
        why = _misfit_of_part(whole, part)
        if why is not None:
            return why
    return None


def _misfit_of_part(whole: Value, part: Value) -> str | None:
    if lanes_of(whole.type) == lanes_of(part.type):
        return None
    if count_of(whole.type) == count_of(part.type):
        return f"{part!r} is all of {whole!r}, and is held otherwise"
    return _misfit_of_words((whole, part))
