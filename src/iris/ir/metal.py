"""Metal IR: what one thread does, explicit about the machine."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from iris.ir.attributes import Integer, OneOf
from iris.ir.core import Level, Op, Value
from iris.ir.declare import ELEMENTS, attribute, operand, result
from iris.ir.effects import Access, Effect, Resource
from iris.ir.types import Type


class MetalOp(Op):
    level = Level.METAL


class Scope(Enum):
    """Whose memory accesses a barrier orders."""

    SIMDGROUP = "simdgroup"
    THREADGROUP = "threadgroup"
    DEVICE = "device"


class Barrier(MetalOp):
    """Waits for the threads of a scope, and makes their memory accesses seen.

    metal.barrier threadgroup
    """

    name = "metal.barrier"
    convergent = True
    scope: Scope = attribute(OneOf(Scope))

    def infer(self) -> tuple[Type, ...]:
        return ()

    def effects(self) -> Sequence[Effect]:
        return (Effect(Access.READ | Access.WRITE, Resource.MEMORY),)


class ShuffleXor(MetalOp):
    """The value that the lane numbered this lane's number xor `mask` holds.

    %other: f32 = metal.shuffle_xor 8 %x
    """

    name = "metal.shuffle_xor"
    convergent = True
    mask: int = attribute(Integer(1, 31))
    x: Value = operand(ELEMENTS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        return (self.x.type,)
