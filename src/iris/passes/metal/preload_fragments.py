"""Load the fragments of the next step of a product before the products of this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iris.analysis.backward_slice import makers, operands_within
from iris.analysis.registers import Pressure, half_registers
from iris.ir import math, metal
from iris.ir.builder import Builder
from iris.ir.control import For, Func
from iris.ir.core import Module, Op, Value
from iris.ir.declare import Access
from iris.ir.effects import effects_within, is_convergent
from iris.ir.math import Constant
from iris.passes.pipeline import TargetPass


@dataclass(frozen=True)
class PreloadFragments(TargetPass):
    """Load what a loop multiplies one iteration ahead, into registers.

        %c: regs<2xf32> = for %c0, %c4, %c1 (%k: i32, %acc: regs<2xf32> = %zero) {
          %a: regs<2xf16> = metal.load %left, %k
          %sum: regs<2xf32> = metal.mma %a, %b, %acc
          yield %sum
        }

    becomes, with the last iteration after the loop,

        %a: regs<2xf16> = metal.load %left, %c0
        %0: regs<2xf32>, %1: regs<2xf16> = for %c0, %c3, %c1 (%k: i32,
            %acc: regs<2xf32> = %zero, %a_1: regs<2xf16> = %a) {
          %next: i32 = add %k, %c1
          %a_2: regs<2xf16> = metal.load %left, %next
          %sum: regs<2xf32> = metal.mma %a_1, %b, %acc
          yield %sum, %a_2
        }
        %c: regs<2xf32> = metal.mma %1, %b, %0

    So a load has the time of the products.  A loop stays as it is if it writes memory, if it is not
    known how often it runs, if what it carries decides what it loads, or if a thread has no
    registers for the fragments of two iterations.

    The cost model counts these registers, and no time of a load from threadgroup memory that other
    work hides.  So it is for a launch to ask for, `preload=True`, and for the clock of a device to
    judge.
    """

    name = "preload-fragments"
    level = metal.MetalOp.level

    def run(self, module: Module) -> dict[str, int]:
        functions = [f for f in module if isinstance(f, Func)]
        return {"loops": sum(map(self._visit, functions))}

    def _visit(self, function: Func) -> int:
        loops = [op for op in function.walk() if isinstance(op, For)]
        found = [ahead for loop in loops if (ahead := _find_fragments(loop)) is not None]
        if not found:
            return 0
        held, count = Pressure(function).most, 0
        for ahead in found:
            more = sum(map(half_registers, ahead.fragments))
            if held + more <= 2 * self.target.thread_registers:
                ahead.apply()
                held += more
                count += 1
        return count


def _find_fragments(loop: For) -> _FragmentsAhead | None:
    """What a loop can load an iteration ahead."""
    body, index = loop.body, loop.body.arguments[0]
    times = loop.trip_count()
    products = [op for op in body if isinstance(op, metal.Mma)]
    if times is None or times < 2 or not products:
        return None
    if any(e.access is not Access.READ for e in effects_within(loop)):
        return None
    factors = dict.fromkeys(v for op in products for v in (op.a, op.b))
    fragments = [v for v in factors if any(map(effects_within, makers([v], body)))]
    wanted = makers(fragments, body)
    ops = [op for op in body if op in wanted]
    moves = all(
        not is_convergent(op)
        and all(v.region is not body or v is index for v in operands_within(op))
        for op in ops
    )
    return _FragmentsAhead(loop, times, ops, fragments) if fragments and moves else None


class _FragmentsAhead:
    """The fragments that a loop loads, and the ops that do."""

    def __init__(self, loop: For, times: int, ops: Sequence[Op], fragments: Sequence[Value]):
        self.loop = loop
        self.body = loop.body
        self.times = times
        self.ops = ops
        self.fragments = fragments

    def apply(self) -> None:
        loop, body = self.loop, self.body
        b = Builder.before_op(loop)
        first = self._load(b, loop.lower)
        last = b(Constant(self._last_index(), loop.lower.type.element), "last")
        new = self._shortened(last, first)
        (index, *carried), end = body.arguments, body.end
        inside = Builder(body, body.first, loop.location)
        following = self._load(inside, inside(math.Add(index, new.step), "next"))
        for value, argument in zip(self.fragments, carried[-len(first) :], strict=True):
            value.replace_by(argument)
        for op in reversed(self.ops):
            if not any(v.users for v in op.results):
                op.erase()
        mapping = dict(zip(body.arguments, (last, *new.results), strict=True))
        ahead = makers(following, body)
        for op in list(body)[:-1]:
            if op not in ahead:
                b.insert(op.clone(mapping))
        for result, value in zip(loop.results, end.operands, strict=True):
            result.replace_by(mapping.get(value, value))
        end.set_operands((*end.operands, *following))
        loop.erase()

    def _last_index(self) -> int:
        lower, step = self.loop.lower.op, self.loop.step.op
        assert isinstance(lower, Constant) and isinstance(step, Constant)
        return int(lower.value) + (self.times - 1) * int(step.value)

    def _load(self, b: Builder, index: Value) -> list[Value]:
        """Load the fragments of an iteration."""
        mapping = {self.body.arguments[0]: index}
        for op in self.ops:
            b.insert(op.clone(mapping))
        return [mapping[v] for v in self.fragments]

    def _shortened(self, last: Value, first: Sequence[Value]) -> For:
        """The loop without its last iteration, before the old one; it carries fragments, too."""
        loop = self.loop
        for value in self.fragments:
            self.body.add_argument(value.type, value.name)
        regions = loop.regions
        loop.set_regions(())
        operands = (loop.lower, last, loop.step, *loop.initial, *first)
        types = [v.type for v in (*loop.results, *first)]
        new: For = For.create(operands, loop.attributes, types, regions, loop.location)
        loop.insert_before(new)
        return new
