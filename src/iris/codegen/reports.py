"""Asserts and prints: records in a buffer that the host reads; `Source` has their format."""

from __future__ import annotations

from iris.codegen.expression import Expression
from iris.codegen.helpers import define
from iris.codegen.operators import as_type, dtype_of, logical_not
from iris.codegen.registers import element_of
from iris.codegen.source import Site
from iris.codegen.statements import Declare, If, Run
from iris.codegen.tree import Call, Member, Name, Tree, binary, number
from iris.codegen.writer import Writer, emit
from iris.ir import metal
from iris.ir.core import Value
from iris.ir.types import DType, u32

_RECORD = "add_record"


@emit(metal.Assert)
def _assert(ctx: Writer, op: metal.Assert) -> None:
    condition = ctx.value(op.condition)
    ctx.flush()
    with ctx.nest() as body:
        _record(ctx, _site(ctx, Site(op.message, None, op.location)))
    ctx.put(If(body, logical_not(condition).tree))


@emit(metal.Print)
def _print(ctx: Writer, op: metal.Print) -> None:
    pairs = [(ctx.simple(x), ctx.simple(at)) for x, at in zip(op.values, op.places, strict=True)]
    ctx.flush()
    site = _site(ctx, Site(op.prefix, op.types, op.location))
    if not pairs:
        with ctx.nest() as body:
            _record(ctx, site, number(0), number(-1))
        ctx.put(If(body, binary("==", ctx.position("thread_index"), number(0))))
        return
    for part, (value, (x, at)) in enumerate(zip(op.values, pairs, strict=True)):
        with ctx.loop(metal.count_of(value.type)) as i:
            _print_element(ctx, value, site, part, element_of(x, i), element_of(at, i))


def _print_element(
    ctx: Writer, value: Value, site: int, part: int, x: Expression, at: Expression
) -> None:
    with ctx.nest() as body:
        bits = _bits(ctx, x, dtype_of(value))
        _record(ctx, site, number(part), at.tree, bits.tree)
    ctx.put(If(body, binary(">=", at.tree, number(0))))


def _bits(ctx: Writer, x: Expression, dtype: DType) -> Expression:
    """The bits of an element, as an unsigned integer."""
    if dtype.is_float:
        return as_type(ctx, x, dtype.unsigned)
    return ctx.cast(x, dtype.unsigned) if dtype.is_signed else x


def _site(ctx: Writer, site: Site) -> int:
    """Take down a place that reports: its number."""
    define(ctx, _RECORD, u32)
    if ctx.report is None:
        ctx.report = ctx.names.new("report", everywhere=True)
    ctx.sites.append(site)
    return len(ctx.sites) - 1


def _record(ctx: Writer, site: int, *rest: Tree) -> None:
    """The statement that adds a record."""
    assert ctx.report is not None, "a site has made the report"
    thread = ctx.position("thread_index")
    ctx.put(Run(Call(_RECORD, Name(ctx.report), number(site), _program(ctx), thread, *rest)))


def _program(ctx: Writer) -> Tree:
    """The name of the number of the program."""
    if ctx.program is None:
        tid, grid = ctx.position("tid"), ctx.position("grid")
        ctx.program = ctx.names.new("program", everywhere=True)
        x, y, z = (Member(axis, tid) for axis in "xyz")
        rows = binary("+", y, binary("*", Member("y", grid), z))
        whole = binary("+", x, binary("*", Member("x", grid), rows))
        ctx.opening.append(Declare(ctx.language.types[u32], ctx.program, whole))
    return Name(ctx.program)
