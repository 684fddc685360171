"""Where a thread is, and what the threads of a simdgroup or threadgroup do together."""

from __future__ import annotations

from iris.codegen.expression import Expression, Touch
from iris.codegen.operators import call, dtype_of, integer
from iris.codegen.statements import Run
from iris.codegen.tree import Member, Name
from iris.codegen.writer import Writer, emit
from iris.ir import metal
from iris.ir.types import bf16, bool_, i32


@emit(metal.Lane, metal.Simdgroup)
def _position(ctx: Writer, op: metal.Lane | metal.Simdgroup) -> None:
    # Shorter than int, it becomes one in any arithmetic.
    usual = "lane" if isinstance(op, metal.Lane) else "simdgroup"
    type_ = ctx.language.positions[usual].type
    ctx.expressions[op.result] = Expression(ctx.position(usual), type_)


@emit(metal.ThreadgroupId, metal.NumThreadgroups)
def _program(ctx: Writer, op: metal.ThreadgroupId | metal.NumThreadgroups) -> Expression:
    usual = "tid" if isinstance(op, metal.ThreadgroupId) else "grid"
    component = Member("xyz"[op.axis], ctx.position(usual))
    return Expression(component, ctx.language.positions[usual].type, wraps=True)


@emit(metal.Extent)
def _extent(ctx: Writer, op: metal.Extent) -> None:
    ctx.expressions[op.result] = Expression(ctx.extent(op.base, op.axis), i32)


@emit(metal.Barrier)
def _barrier(ctx: Writer, op: metal.Barrier) -> None:
    ctx.flush()
    ctx.put(Run(Name(ctx.language.barriers[op.scope])))


@emit(metal.Fence)
def _fence(ctx: Writer, op: metal.Fence) -> None:
    ctx.flush()
    ctx.version = max(ctx.version, ctx.language.fence_version)
    ctx.put(Run(Name(ctx.language.fence)))


@emit(metal.ShuffleXor)
def _shuffle_xor(ctx: Writer, op: metal.ShuffleXor) -> Expression:
    return _exchange(ctx, op, ctx.language.shuffle_xor, integer(op.mask))


@emit(metal.Shuffle)
def _shuffle(ctx: Writer, op: metal.Shuffle) -> Expression:
    return _exchange(ctx, op, ctx.language.shuffle, ctx.number(op.lane))


@emit(metal.Broadcast)
def _broadcast(ctx: Writer, op: metal.Broadcast) -> Expression:
    return _exchange(ctx, op, ctx.language.broadcast, integer(op.lane))


def _exchange(
    ctx: Writer,
    op: metal.ShuffleXor | metal.Shuffle | metal.Broadcast,
    function: str,
    lane: Expression,
) -> Expression:
    dtype = dtype_of(op.x)
    if dtype in (bool_, bf16) or dtype.bits > 32:
        raise ctx.unsupported(op, f"lanes do not exchange {dtype}")
    found = call(function, ctx.typed(op.x), lane, type_=dtype)
    return found.replace(touches=found.touches | Touch.CONVERGENT)
