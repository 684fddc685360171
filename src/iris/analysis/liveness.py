"""Which values nobody misses: those made only for results of loops and branches without users."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir.control import If
from iris.ir.core import Op, Value
from iris.ir.effects import must_run
from iris.ir.metal import Foreach

# What gives what its regions yield, and carries nothing back.
_JOINS: set[type[Op]] = {Foreach, If}


def dead_values(ops: Sequence[Op]) -> frozenset[Value]:
    """Of the values that have users, those that serve only results that have none.

    The ops are all those of a body, as `walk` gives them.
    """
    joins = [op for op in ops if type(op) in _JOINS]
    if all(v.users for op in joins for v in op.results):
        return frozenset()
    needed: set[Value] = set()
    # Backwards: what uses a value comes after it.
    for op in reversed(ops):
        if op.terminator:
            needed.update(_yielded(op, needed))
        elif op.regions or must_run(op) or not needed.isdisjoint(op.results):
            needed.update(op.operands)
    return frozenset({v for op in ops for v in op.results if v not in needed})


def is_unused(op: Op, dead: frozenset[Value]) -> bool:
    """Whether nobody misses an op: no result is used, and it does nothing else."""
    for value in op.results:
        if value.users and value not in dead:
            return False
    return not must_run(op)


def _yielded(end: Op, needed: set[Value]) -> list[Value]:
    owner = end.parent_op
    if owner is None or type(owner) not in _JOINS:
        return list(end.operands)
    return [v for v, r in zip(end.operands, owner.results, strict=False) if r in needed]
