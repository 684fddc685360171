"""Which values nobody misses: those made only for results of loops and branches without users."""

from __future__ import annotations

from iris.ir.control import If
from iris.ir.core import Op, Region, Value
from iris.ir.effects import must_run
from iris.ir.metal import Foreach

_JOINS = (Foreach, If)  # what gives what its regions yield, and carries nothing back


def dead_values(body: Region) -> frozenset[Value]:
    """Of the values that have users, those that serve only results that have none."""
    if not any(map(_is_odd, body.walk())):
        return frozenset()
    needed: set[Value] = set()
    _need(body, needed)
    return frozenset({v for op in body.walk() for v in op.results if v not in needed})


def is_unused(op: Op, dead: frozenset[Value]) -> bool:
    """Whether nobody misses an op: no result is used, and it does nothing else."""
    if any(value.users and value not in dead for value in op.results):
        return False
    return not must_run(op)


def _is_odd(op: Op) -> bool:
    return isinstance(op, _JOINS) and not all(v.users for v in op.results)


def _need(region: Region, needed: set[Value]) -> None:
    """Backwards: what uses a value comes after it."""
    for op in reversed(region):
        if op.terminator:
            needed.update(_yielded(op, needed))
        elif op.regions or must_run(op) or not needed.isdisjoint(op.results):
            needed.update(op.operands)
        for inner in op.regions:
            _need(inner, needed)


def _yielded(end: Op, needed: set[Value]) -> list[Value]:
    owner = end.parent_op
    if not isinstance(owner, _JOINS):
        return list(end.operands)
    return [v for v, r in zip(end.operands, owner.results, strict=False) if r in needed]
