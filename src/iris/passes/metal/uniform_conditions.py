"""Making conditions that guard what threads do together the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass

from iris.analysis.ordering import barriers
from iris.analysis.windows import Windows
from iris.ir import metal
from iris.ir.builder import Builder
from iris.ir.control import Func, While
from iris.ir.core import Level, Module, Op, Value
from iris.ir.math import And, Cast, Compare, Constant, Or, Predicate, Shl, Shr
from iris.ir.types import Threadgroup, bool_, i32, u32
from iris.ir.uniformity import Uniformity, guards, needed, uniformity
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class UniformConditions(Pass):
    """Let one thread decide the conditions and bounds of control flow that has to be uniform.

        %more: bool = compare lt %x, %limit
        if %more {
          %y: f32 = metal.shuffle_xor 1 %x
          ...

    becomes, unless `%more` is provably the same for all threads,

        %more: bool = compare lt %x, %limit
        %0: i32 = cast %more
        %1: i32 = metal.broadcast 0 %0
        %more_1: bool = cast %1
        if %more_1 {
          %y: f32 = metal.shuffle_xor 1 %x
          ...

    Control flow has to be uniform over the simdgroup if a simdgroup does something together in
    it, and over the threadgroup if a barrier is there or will be, by `insert-barriers`.  From one
    simdgroup to others the value goes through memory: the first thread stores it, all load it.

    A program of tiles has but one value for each condition, so that all threads agree on it in
    any case.  But that cannot always be proven, and where threads would disagree, by a race with
    other threadgroups, say, they would wait for each other forever.
    """

    name = "uniform-conditions"
    level = Level.METAL

    def run(self, module: Module) -> dict[str, int]:
        return {"broadcast": sum(make_uniform(f) for f in module if isinstance(f, Func))}


def make_uniform(function: Func) -> int:
    """Do so in one function; gives how many values are broadcast."""
    count = 0
    while more := _make_uniform(function):  # for that may be where one more barrier is to go
        count += more
    return count


def _make_uniform(function: Func) -> int:
    """Do so for the barriers that are needed so far."""
    guarded = [op for op in function.walk() if op.regions and guards.get(type(op)) is not None]
    levels = uniformity(function) if guarded else {}
    # Most often all threads agree on everything, and what is required need not be found out.
    if not any(levels[v] for op in guarded for v in guards[type(op)](op)):
        return 0
    required = _required(function)
    count = 0
    for op in guarded:  # outer ones first
        over = required.get(op)
        if over is None:
            continue
        differing = dict.fromkeys(v for v in guards[type(op)](op) if levels[v] > over)
        if not differing:
            continue
        user = op.condition.end if isinstance(op, While) else op
        same = {v: _same(v, user, over, function) for v in differing}
        user.set_operands(tuple([same.get(v, v) for v in user.operands]))
        levels = uniformity(function)  # what depends on this is more uniform now
        count += len(same)
    return count


def _required(function: Func) -> dict[Op, Uniformity]:
    """How uniform control flow has to be, where threads do something together in it."""
    together = {op: needed(op) for op in function.walk() if op.convergent}
    together |= dict.fromkeys(barriers(function, Windows(function)), Uniformity.THREADGROUP)
    required: dict[Op, Uniformity] = {}
    for op, over in together.items():
        around = op.parent_op
        while around is not None and around is not function:
            required[around] = min(over, required.get(around, over))
            around = around.parent_op
    return required


def _same(value: Value, before: Op, over: Uniformity, function: Func) -> Value:
    """What the first thread has, of the simdgroup or of the threadgroup."""
    b = Builder.before_op(before)
    if over is Uniformity.SIMDGROUP or function.simdgroups == 1:
        new = _of_first_lane(value, b)
    else:
        new = _of_first_thread(value, b, function)
    new.name = value.name
    return new


def _of_first_lane(value: Value, b: Builder) -> Value:
    """Lanes give each other no bools, and at most 32 bits."""
    type_ = value.type.element
    if type_ is bool_:
        return b(Cast(b(metal.Broadcast(0, b(Cast(value, i32)))), bool_))
    if type_.bits < 64:
        return b(metal.Broadcast(0, value))
    shift = b(Constant(32, type_))
    parts = value, b(Shr(value, shift))
    low, high = (b(Cast(b(metal.Broadcast(0, b(Cast(v, u32)))), type_)) for v in parts)
    return b(Or(b(Shl(high, shift)), low))


def _of_first_thread(value: Value, b: Builder, function: Func) -> Value:
    type_ = value.type.element
    cell = metal.Alloc(Threadgroup(1, type_), location=b.location)
    function.body.insert(cell, function.body.first)
    zero = b(Constant(0, i32))
    positions = b(metal.Lane()), b(metal.Simdgroup())
    lane, simdgroup = (b(Compare(Predicate.EQ, x, zero)) for x in positions)
    b.insert(metal.Store(cell.result, zero, value, b(And(lane, simdgroup))))
    return b(metal.Load(cell.result, zero, result=type_))
