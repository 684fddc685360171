"""Begin copies between the products of a loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iris.ir import metal
from iris.ir.builder import Builder
from iris.ir.control import For, Yield
from iris.ir.core import Module, Resource, Value
from iris.ir.declare import Access
from iris.ir.effects import effects_within
from iris.ir.math import Add, Constant, Mul, constant_bits
from iris.ir.types import Threadgroup, i32
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class SpreadCopies(Pass):
    """Begin some copies in each round of a loop that multiplies, rather than all before it.

        metal.foreach 8 (%i: i32) {
          %to: i32 = mul %i, %c256
          %at: i32 = mul %i, %c512
          metal.copy 8 %next, %to, %X, %at
          yield
        }
        %c: regs<2xf32> = for %c0, %c4, %c1 (%k: i32, %acc: regs<2xf32> = %zero) {
          %a: regs<2xf16> = metal.load %left, %k
          %sum: regs<2xf32> = metal.mma %a, %b, %acc
          yield %sum
        }

    becomes

        %c: regs<2xf32> = for %c0, %c4, %c1 (%k: i32, %acc: regs<2xf32> = %zero) {
          %a: regs<2xf16> = metal.load %left, %k
          %sum: regs<2xf32> = metal.mma %a, %b, %acc
          %first: i32 = mul %k, %c2
          metal.foreach 2 (%i: i32) {
            %j: i32 = add %first, %i
            %to: i32 = mul %j, %c256
            %at: i32 = mul %j, %c512
            metal.copy 8 %next, %to, %X, %at
            yield
          }
          yield %sum
        }

    All threads that have waited at a barrier would else compute addresses at the same time, and
    nobody multiply.  The loop must do the same number of copies in each of its rounds, and only
    read the memory of the threadgroup.  The copies may begin later than they did, for nobody waits
    for them before the loop ends, and so nobody touches what they bring.
    """

    name = "spread-copies"
    level = metal.MetalOp.level

    def run(self, module: Module) -> dict[str, int]:
        loops = [op for op in module.walk() if isinstance(op, For) and _only_reads(op)]
        return {"copies": sum(map(_spread, loops))}


def _only_reads(loop: For) -> bool:
    """Whether a loop counts its rounds, and only reads memory of the threadgroup."""
    counts = constant_bits(loop.lower) == 0 and constant_bits(loop.step) == 1
    effects = effects_within(loop)
    return (
        counts
        and bool(effects)
        and all(e.access is Access.READ and _is_of_threadgroup(e.resource) for e in effects)
    )


def _is_of_threadgroup(resource: Value | Resource) -> bool:
    return isinstance(resource, Value) and isinstance(resource.type, Threadgroup)


def _spread(loop: For) -> int:
    """Begin in a loop what is copied before it; give how many ops do."""
    rounds = loop.trip_count() or 0
    copying = [op for op in _copying(loop) if rounds > 1 and op.count % rounds == 0]
    for op in reversed(copying):
        _divide(op, loop, op.count // rounds)
    return len(copying)


def _copying(loop: For) -> Iterator[metal.Foreach]:
    """What copies before a loop, from the last on, with nothing between that has another effect."""
    op = loop.previous
    while op is not None and not op.convergent:
        if isinstance(op, metal.Foreach) and _only_copies(op):
            yield op
        elif effects_within(op):
            return
        op = op.previous


def _only_copies(op: metal.Foreach) -> bool:
    ops = [inner for inner in op.body if not inner.touches_nothing]
    return not op.results and len(ops) == 1 and isinstance(ops[0], metal.Copy)


def _divide(op: metal.Foreach, loop: For, each: int) -> None:
    """Do as many turns of an op in each round of a loop."""
    body = loop.body
    b = Builder(body, body.end, op.location)
    turn = body.arguments[0]
    if each == 1:
        _clone(op, b, turn)
    else:
        first = b(Mul(turn, b(Constant(each, i32))), "first")
        part = metal.Foreach(each, [], location=op.location)
        b.insert(part)
        inside = Builder(part.body, None, op.location)
        _clone(op, inside, inside(Add(first, part.body.arguments[0])))
        inside.insert(Yield([]))
    op.erase()


def _clone(op: metal.Foreach, b: Builder, turn: Value) -> None:
    """Do one turn of an op."""
    mapping = {op.body.arguments[0]: turn}
    for inner in op.body:
        if inner is not op.body.end:
            b.insert(inner.clone(mapping))
