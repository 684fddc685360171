"""Control flow, which all threads of a program go through together."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir.control import For, If, Return, While, Yield
from iris.ir.core import Op, Region, Value
from iris.passes.lowering.context import Lowering, lower


@lower(For, While, If)
def with_regions(at: Lowering, op: For | While | If) -> Sequence[Value]:
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


@lower(Yield, Return)
def carry(at: Lowering, op: Op) -> Sequence[Value]:
    at.b.insert(type(op).create(tuple([at[v] for v in op.operands]), op.attributes, ()))
    return ()
