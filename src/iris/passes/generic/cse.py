"""Common subexpression elimination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iris.ir.core import Module, Op, Region, Resource, Value
from iris.ir.declare import Access
from iris.ir.effects import effects_within, may_alias, reads, writes
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class CommonSubexpressionElimination(Pass):
    """Compute equal values once, where the first is visible from the second.

        %a: f32 = mul %x, %y
        %b: f32 = mul %y, %x
        %c: f32 = sub %a, %b

    becomes

        %a: f32 = mul %x, %y
        %c: f32 = sub %a, %a

    Reads of memory are merged only while nothing may have written it.  A convergent op is
    merged only within its region, for another region may run under other threads.
    """

    name = "cse"

    def run(self, module: Module) -> dict[str, int]:
        state = _Available()
        for function in module:
            state.region(function.regions[0])
        return {"merged": state.merged}


class _Available:
    """What has been computed at the point the walk has reached."""

    def __init__(self) -> None:
        self.values: dict[Any, Op] = {}  # what depends on operands alone
        self.loads: dict[Any, Op] = {}  # what depends on memory, too
        self.merged = 0

    def region(self, region: Region) -> None:
        """Walk a region; what is computed in it is not seen after it."""
        added: list[Any] = []
        values, loads = self.values, dict(self.loads)
        for op in region:
            if op.regions:
                self._nested(op)
            elif op.terminator:
                break
            elif op.touches_nothing:
                key = _key(op)
                known = values.setdefault(key, op)
                if known is op:
                    added.append(key)
                else:
                    self._merge(op, known)
            else:
                self._touching(op)
        for key in added:
            del self.values[key]
        self.loads = loads

    def _nested(self, op: Op) -> None:
        # Only loads before it can be forgotten: those in it are not seen after it.
        written = writes(effects_within(op)) if self.loads else []
        if op.loops:
            self._forget(written)  # an earlier round may have written it
        for inner in op.regions:
            self.region(inner)
        self._forget(written)

    def _touching(self, op: Op) -> None:
        effects = op.effects()
        if [e for e in effects if e.access is not Access.READ]:
            self._forget(writes(effects))
            return
        known = self.loads.setdefault(_key(op), op)
        if known is not op:
            self._merge(op, known)

    def _merge(self, op: Op, known: Op) -> None:
        """Put an equal op in place of one."""
        for old, new in zip(op.results, known.results, strict=True):
            if new.name is None:
                new.name = old.name
            old.replace_by(new)
        op.erase()
        self.merged += 1

    def _forget(self, written: list[Value | Resource]) -> None:
        if not written or not self.loads:
            return
        self.loads = {
            key: op
            for key, op in self.loads.items()
            if not any(may_alias(r, w) for r in reads(op.effects()) for w in written)
        }


def _key(op: Op) -> Any:
    """Equal for ops that compute the same from the same."""
    operands = op.operands
    if op.commutative and id(operands[0]) > id(operands[1]):
        operands = operands[::-1]
    # What is inferred follows from the rest.
    types = None if op.spec.inferred else tuple([v.type for v in op.results])
    place = op.parent if op.convergent else None
    return type(op), operands, op.attributes, types, place
