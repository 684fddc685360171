"""Saying which ops compute in place of values that nothing reads again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from iris.analysis.liveness import dead_values
from iris.analysis.matrices import multiplied
from iris.ir.control import For, Func, While
from iris.ir.core import Facet, Level, Module, Value
from iris.ir.in_place import is_last_use, reads_part_by_part
from iris.ir.metal import Foreach, Mma, MmaShared
from iris.passes.pipeline import Pass

#: Marks what an op computes in place, and gives how many values.
reuse = Facet("reuse of registers")


@dataclass(frozen=True)
class ReuseRegisters(Pass):
    """Say which ops compute in place: a product on its sum, a loop on its initial values, and a
    loop over parts on an array that an outer loop carries.

        %sum: regs<2x2xf32> = for %c0, %n, %c1 (%k: i32, %acc: regs<2x2xf32> = %s) {
          %half: regs<2x2xf32> = metal.foreach 2 (%i: i32) {
            %part: regs<1x2xf32> = metal.slice %acc, %i
            %scaled: regs<1x2xf32> = mul %part, %scale
            yield %scaled
          }
          %next: regs<2x2xf32> = metal.mma %a, %b, %half
          yield %next
        }

    becomes, if nothing else reads `%s`,

        %sum: regs<2x2xf32> = for %c0, %n, %c1, in_place=[0] (%k: i32, %acc: regs<2x2xf32> = %s) {
          %half: regs<2x2xf32> = metal.foreach 2 in_place=[0] (%i: i32) {
            %part: regs<1x2xf32> = metal.slice %acc, %i
            %scaled: regs<1x2xf32> = mul %part, %scale
            yield %scaled
          }
          %next: regs<2x2xf32> = metal.mma %a, %b, %half, in_place=true
          yield %next
        }

    So the text has no copies that a Metal compiler would have to remove.  Run it after
    `choose-register-shapes`: an array computed in place is held as the one it overwrites.
    """

    name = "reuse-registers"
    level = Level.METAL

    def run(self, module: Module) -> dict[str, int]:
        return {"values": sum(_reuse(f) for f in module if isinstance(f, Func))}


def _reuse(function: Func) -> int:
    """Mark the ops of a function; give how many values are computed in place."""
    variables = _Variables(function)
    count = 0
    for op in variables.ops:
        rule = reuse.get(type(op))
        if rule is not None:
            count += rule(variables, op)
    return count


class _Variables:
    """What the variables of values are for."""

    def __init__(self, function: Func):
        self.ops = function.body.walk()
        self.carried: set[Value] = set()  # the values in variables that loops carry

    # Few functions need these.

    @cached_property
    def _dead(self) -> frozenset[Value]:
        return dead_values(self.ops)

    @cached_property
    def _matrices(self) -> frozenset[Value]:
        return multiplied(self.ops, self._dead)

    def is_used(self, value: Value) -> bool:
        return bool(value.users) and value not in self._dead

    def alike(self, one: Value, other: Value) -> bool:
        """Whether one variable can hold either value."""
        return one.type is other.type and (one in self._matrices) == (other in self._matrices)


@reuse(Mma, MmaShared)
def _reuse_sum(variables: _Variables, op: Mma | MmaShared) -> int:
    is_free = is_last_use(op, op.acc)
    op.set_attribute("in_place", is_free)
    if is_free and op.acc in variables.carried:
        variables.carried.add(op.result)
    return int(is_free)


@reuse(For, While)
def _reuse_initial(variables: _Variables, op: For | While) -> int:
    numbers = [i for i, value in enumerate(op.initial) if is_last_use(op, value)]
    op.set_attribute("in_place", tuple(numbers))
    for carried in op.carried():
        variables.carried.update([carried.result, *carried.arguments])
    return len(numbers)


@reuse(Foreach)
def _reuse_sliced(variables: _Variables, op: Foreach) -> int:
    numbers = [-1] * len(op.results)
    if op.count > 1:  # a single iteration is no loop
        for number, x in enumerate(op.sliced()):
            if x not in variables.carried or not reads_part_by_part(op, x):
                continue
            for result in op.results:
                is_free = numbers[result.index] < 0 and variables.is_used(result)
                if is_free and variables.alike(result, x):
                    numbers[result.index] = number
                    variables.carried.add(result)
                    break
    count = sum(number >= 0 for number in numbers)
    op.set_attribute("in_place", tuple(numbers) if count else ())
    return count
