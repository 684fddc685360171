"""Control flow, which all threads of a program go through together."""

from __future__ import annotations

from collections.abc import Sequence

from iris.errors import PipelineError
from iris.ir.control import For, If, Return, While, Yield
from iris.ir.core import Op, Region, Value
from iris.ir.types import Staged, Type
from iris.passes.tile.lowering import staging
from iris.passes.tile.lowering.context import Lowering, lower


@lower(While, If)
def with_regions(at: Lowering, op: While | If) -> Sequence[Value]:
    for value in op.results:
        if isinstance(value.type, Staged):
            raise PipelineError(
                f"{value!r} is not lowered: staged tiles are carried by for loops only, not by "
                f"{op.name}"
            )
    operands = tuple([at[v] for v in op.operands])
    regions = tuple([_region(at, region) for region in op.regions])
    types = [at.type(v.type) for v in op.results]
    new: Op = at.b.insert(type(op).create(operands, op.attributes, types, regions))
    return new.results


def _region(at: Lowering, region: Region) -> Region:
    new = Region()
    for argument in region.arguments:
        at.values[argument] = new.add_argument(at.type(argument.type), argument.name)
    with at.b.inside(new):
        at.region(region)
    return new


@lower(For)
def loop(at: Lowering, op: For) -> Sequence[Value]:
    """A staged tile that it carries is in one of two memories: the other is for the next one."""
    initial = []
    for value in op.initial:
        initial.append(at[value])
        if isinstance(value.type, Staged):
            initial.append(staging.second_buffer(at, op, value))
    body = Region()
    for argument in op.body.arguments:
        at.values[argument] = body.add_argument(_type(at, argument), argument.name)
        if isinstance(argument.type, Staged):
            spare = body.add_argument(_type(at, argument), f"{argument.name or 'staged'}_next")
            at.spares[argument] = spare
    with at.b.inside(body):
        at.region(op.body)
    types = [v.type for v in body.arguments[1:]]
    operands = (*[at[v] for v in op.operands[:3]], *initial)
    new: Op = at.b.insert(For.create(operands, op.attributes, types, (body,)))
    results = iter(new.results)
    found = []
    for value in op.results:
        found.append(next(results))
        if isinstance(value.type, Staged):
            at.spares[value] = next(results)
    return found


def _type(at: Lowering, value: Value) -> Type:
    if isinstance(value.type, Staged):
        return staging.memory_type(value.type)
    return at.type(value.type)


@lower(Yield, Return)
def carry(at: Lowering, op: Op) -> Sequence[Value]:
    loop = op.parent_op
    values = (
        staging.yielded(at, loop, op) if isinstance(loop, For) else [at[v] for v in op.operands]
    )
    at.b.insert(type(op).create(tuple(values), op.attributes, ()))
    return ()
