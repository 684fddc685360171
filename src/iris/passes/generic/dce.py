"""Dead code elimination."""

from __future__ import annotations

from dataclasses import dataclass

from iris.ir.control import leading
from iris.ir.core import Module, Op, Region, Value
from iris.ir.effects import must_run
from iris.ir.rewriter import drop_carried
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class DeadCodeElimination(Pass):
    """Remove what nothing needs: ops whose results are unused, that write nothing and are sure to
    end, and carried values that feed only themselves.

        %x: f32, %y: f32 = for %c0, %n, %c1 (%i: i32, %a: f32 = %p, %b: f32 = %q) {
          %c: f32 = add %a, %p
          %d: f32 = add %b, %q
          yield %c, %d
        }
        return %x

    becomes

        %x: f32 = for %c0, %n, %c1 (%i: i32, %a: f32 = %p) {
          %c: f32 = add %a, %p
          yield %c
        }
        return %x
    """

    name = "dce"

    def run(self, module: Module) -> dict[str, int]:
        marks = _Marks()
        for function in module:
            marks.need_op(function)
            for op in function.walk():
                if not op.only_computes and must_run(op):
                    marks.need_op(op)
        marks.settle()
        sweep = _Sweep(marks)
        for function in module:
            sweep.region(function.regions[0])
        return {"removed": sweep.removed}


class _Marks:
    """What is needed: ops, and positions of carried values."""

    def __init__(self) -> None:
        self.ops: set[Op] = set()
        self.carried: set[tuple[Op, int]] = set()
        self._values: list[Value] = []

    def need_op(self, op: Op) -> None:
        """The op must run: so must what it is in, and it needs its operands (of carried values,
        only those that are needed themselves)."""
        ops, values = self.ops, self._values
        here: Op | None = op
        while here is not None and here not in ops:
            ops.add(here)
            if here.terminator:
                parent = here.parent_op
                if parent is not None and (
                    parent.isolated or not parent.forwards(here.parent)  # type: ignore[arg-type]
                ):
                    values.extend(here.operands)
            elif here.spec.feeds:
                values.extend(here.operands[: len(here.spec.fixed)])
            else:
                values.extend(here.operands)
            for region in here.regions:
                if region.last is not None:
                    self.need_op(region.last)
            here = None if here.parent is None else here.parent.owner

    def _need_carried(self, op: Op, index: int) -> None:
        if (op, index) in self.carried:
            return
        self.carried.add((op, index))
        if op.spec.feeds:
            self._values.append(op.operands[len(op.spec.fixed) + index])
        for region in op.regions:
            if op.forwards(region):
                self._values.append(region.end.operands[index])

    def settle(self) -> None:
        ops, values = self.ops, self._values
        while values:
            value = values.pop()
            op = value.op
            if op is not None:
                if op not in ops:
                    self.need_op(op)
                if op.regions:
                    self._need_carried(op, value.index)
            elif value.region is not None and (owner := value.owner) is not None:
                index = value.index - leading(owner, value.region)
                if not owner.isolated and index >= 0:
                    self._need_carried(owner, index)


class _Sweep:
    def __init__(self, marks: _Marks):
        self.marks = marks
        self.removed = 0

    def region(self, region: Region) -> None:
        """Remove what is not needed, users before what they use."""
        for op in reversed(region):
            if op not in self.marks.ops:
                op.erase()
                self.removed += 1
                continue
            if not op.regions:
                continue
            dead = {i for i in range(len(op.results)) if (op, i) not in self.marks.carried}
            # A result that is joined of parts, in no region what it ends with, stays.
            if not any(map(op.forwards, op.regions)):
                dead = set()
            self.removed += len(dead)
            # What carried the dead values goes first: it uses what goes then.
            for inner in (drop_carried(op, dead) if dead else op).regions:
                self.region(inner)
