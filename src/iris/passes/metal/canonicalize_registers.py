"""Rules of `canonicalize` for register arrays: what is taken of one is found where it is from."""

from __future__ import annotations

from iris.ir import math
from iris.ir.core import Facet, Op, Value
from iris.ir.math import Constant, element_type
from iris.ir.metal import Join, Literal, Pattern, Slice, Splat, Take, count_of, take
from iris.ir.rewriter import Rewriter
from iris.passes.generic.canonicalize import rules

# The elements with these numbers of what an op makes, if they can be had in another way.
taken = Facet("way to its elements")


@rules(Take)
def take_from_the_source(op: Take, rewriter: Rewriter) -> None:
    """What is taken of a splat is the scalar, of a sum the sum of what is taken."""
    source = op.x.op
    rule = None if source is None else taken.get(type(source))
    if op.result.type is op.x.type and op.indices == tuple(range(count_of(op.x.type))):
        rewriter.replace(op, op.x)
    elif rule is not None:
        found = rule(source, op, rewriter)
        if found is not None:
            rewriter.replace(op, found)


@rules(Splat)
def constant_splat(op: Splat, rewriter: Rewriter) -> None:
    """A constant in every element is a constant."""
    if isinstance(op.x.op, Constant):
        rewriter.replace(op, Constant.of_bits(op.x.op.bits, element_type(op.result.type)))


@rules(Slice)
def slice_of_repeated(op: Slice, rewriter: Rewriter) -> None:
    """If all parts are the same elements, that part is taken: the whole array need not be held."""
    source = op.x.op
    if isinstance(source, Take):
        width = count_of(op.result.type)
        part = source.indices[:width]
        if source.indices == part * (len(source.indices) // width):
            rewriter.replace(op, Take(part, source.x, op.result.type))


@taken(Constant)
def of_constant(source: Constant, op: Take, rewriter: Rewriter) -> Op:
    return Constant.of_bits(source.bits, element_type(op.result.type))


@taken(Splat)
def of_splat(source: Splat, op: Take, rewriter: Rewriter) -> Op | Value:
    return source.x if len(op.indices) == 1 else Splat(source.x, op.result.type)


@taken(Literal)
def of_literal(source: Literal, op: Take, rewriter: Rewriter) -> Op:
    return _integers([source.values[i] for i in op.indices], op)


@taken(Pattern)
def of_pattern(source: Pattern, op: Take, rewriter: Rewriter) -> Op:
    return _integers([at(source.images, i) for i in op.indices], op)


@taken(Take)
def of_take(source: Take, op: Take, rewriter: Rewriter) -> Op:
    return Take(tuple([source.indices[i] for i in op.indices]), source.x, op.result.type)


@taken(Join)
def of_join(source: Join, op: Take, rewriter: Rewriter) -> Op | None:
    start = 0
    for part in source.parts:
        end = start + count_of(part.type)
        if all(start <= i < end for i in op.indices):
            indices = tuple([i - start for i in op.indices])
            return None if end - start == 1 else Take(indices, part, op.result.type)
        start = end
    return None


@taken(math.Elementwise)
def elementwise(source: math.Elementwise, op: Take, rewriter: Rewriter) -> Op | None:
    """One element of integers or bools that are wanted for nothing else."""
    type_ = element_type(op.result.type)
    if type_.element.is_float or type_.shape or len(op.x.users) > 1:
        return None

    def part(value: Value) -> Value:
        if not element_type(value.type).shape:
            return value
        return rewriter.insert(take(op.indices, value), op).results[0]

    operands = tuple([part(v) for v in source.operands])
    return type(source).create(operands, source.attributes, (type_,), (), source.location)


def at(images: tuple[int, ...], number: int) -> int:
    """An element of a pattern."""
    found = 0
    for bit, image in enumerate(images):
        if number >> bit & 1:
            found ^= image
    return found


def _integers(values: list[int], op: Take) -> Op:
    type_ = element_type(op.result.type)
    if not type_.shape:
        return Constant(values[0], type_)
    return Literal(tuple(values), type_)
