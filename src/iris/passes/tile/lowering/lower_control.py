"""Lower control flow, which all threads of a program execute together."""

from __future__ import annotations

from collections.abc import Sequence

from iris.errors import PipelineError
from iris.ir.control import For, If, Return, While, Yield
from iris.ir.core import Op, Region, Value
from iris.ir.types import Staged, Type
from iris.passes.tile.lowering import staging
from iris.passes.tile.lowering.context import Lowering, lower


@lower(While, If)
def lower_while_if(ctx: Lowering, op: While | If) -> Sequence[Value]:
    for value in op.results:
        if isinstance(value.type, Staged):
            raise PipelineError(
                f"{value!r} is not lowered: staged tiles are carried by for loops only, not by "
                f"{op.name}"
            )
    operands = tuple([ctx[v] for v in op.operands])
    regions = tuple([_lower_region(ctx, region) for region in op.regions])
    types = [ctx.type(v.type) for v in op.results]
    new: Op = ctx.b.insert(type(op).create(operands, op.attributes, types, regions))
    return new.results


def _lower_region(ctx: Lowering, region: Region) -> Region:
    new = Region()
    for argument in region.arguments:
        argument.became = ctx.values[argument] = new.add_argument(
            ctx.type(argument.type), argument.name
        )
    with ctx.b.inside(new):
        ctx.region(region)
    return new


@lower(For)
def lower_for(ctx: Lowering, op: For) -> Sequence[Value]:
    """Carry two buffers for each tile that an iteration stages for the next one: one to read, one
    to write."""
    replaced = staging.replaced_arguments(op)
    initial = []
    for carried in op.carried():
        value = carried.initial
        initial.append(ctx[value])
        if isinstance(value.type, Staged):
            staging.check_initial(op, value)
        if carried.argument in replaced:
            initial.append(staging.second_buffer(ctx, value))
    body = Region()
    for argument in op.body.arguments:
        type_ = _thread_type(ctx, argument)
        argument.became = ctx.values[argument] = body.add_argument(type_, argument.name)
        if argument in replaced:
            spare = body.add_argument(
                _thread_type(ctx, argument), f"{argument.name or 'staged'}_next"
            )
            ctx.spares[argument] = spare
    with ctx.b.inside(body):
        ctx.region(op.body)
    types = [v.type for v in body.arguments[1:]]
    operands = (*[ctx[v] for v in op.operands[:3]], *initial)
    new: Op = ctx.b.insert(For.create(operands, op.attributes, types, (body,)))
    results = iter(new.results)
    lowered = []
    for carried in op.carried():
        lowered.append(next(results))
        if carried.argument in replaced:
            ctx.spares[carried.result] = next(results)
    return lowered


def _thread_type(ctx: Lowering, value: Value) -> Type:
    if isinstance(value.type, Staged):
        return staging.memory_type(value.type)
    return ctx.type(value.type)


@lower(Yield, Return)
def lower_yield(ctx: Lowering, op: Op) -> Sequence[Value]:
    loop = op.parent_op
    values = (
        staging.yielded_memories(ctx, loop, op)
        if isinstance(loop, For)
        else [ctx[v] for v in op.operands]
    )
    ctx.b.insert(type(op).create(tuple(values), op.attributes, ()))
    return ()
