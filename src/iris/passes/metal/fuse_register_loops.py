"""Making one loop of what is done to each register."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

from iris.analysis.registers import half_registers
from iris.ir import math, metal
from iris.ir.builder import Builder
from iris.ir.control import Yield
from iris.ir.core import Effect, Module, Op, Region, Value
from iris.ir.effects import conflict, effects_within
from iris.ir.math import Constant, element_type
from iris.ir.metal import (
    VECTOR,
    Foreach,
    Pattern,
    Slice,
    Splat,
    count_of,
    registers,
)
from iris.ir.types import ElementType, Registers, Type, i32
from iris.passes.metal.index_arithmetic import IndexArithmetic
from iris.passes.pipeline import Pass

# How many registers a loop may keep alive at most for values that are computed between its members,
# and so before it.
MOST_KEPT = 32

# What makes each element alone.
_ELEMENT_BY_ELEMENT = (math.Elementwise, Constant, Splat, Pattern)


@dataclass(frozen=True)
class FuseRegisterLoops(Pass):
    """Merge consecutive ops on register arrays into one loop over the registers.

        %x: regs<16xf32> = metal.foreach 4 (%i: i32) {
          ...
          %0: regs<4xf32> = metal.load %X, %at
          yield %0
        }
        %y: regs<16xf32> = exp %x
        metal.foreach 4 (%j: i32) {
          %1: regs<4xf32> = metal.slice %y, %j
          ...
          metal.store %Y, %to, %1
          yield
        }

    becomes

        metal.foreach 4 (%i: i32) {
          ...
          %0: regs<4xf32> = metal.load %X, %at
          %1: regs<4xf32> = exp %0
          ...
          metal.store %Y, %to, %1
          yield
        }

    Loops are fused if no element is needed before another's turn, and if none may write what
    another touches.  A loop ends before it keeps too many values alive that were computed between
    its members.  Numbers that are cheap to make again, such as register numbers, are made again in
    each loop.  A function whose register shapes are chosen stays as it is.
    """

    name = "fuse-register-loops"
    level = metal.MetalOp.level

    def run(self, module: Module) -> dict[str, int]:
        fusing = _Fusing()
        for function in module:
            types = {v.type for op in function.walk() for v in op.results}
            if not any(map(_is_shaped, types)):
                fusing.visit(function.regions[0])
        return {"loops": fusing.loops}


class _Fusing:
    """The fusing of what is in a region and in those within it, but for register loops."""

    def __init__(self) -> None:
        self.loops = 0
        self._cheap: dict[Op, bool] = {}

    def visit(self, region: Region) -> None:
        cluster = _Cluster(self)
        for op in region:
            if type(op) is not Foreach:
                for inner in op.regions:
                    self.visit(inner)
            starts = self.starts(op)
            if starts and cluster.takes(op):
                cluster.add(op)
            elif starts or cluster.holds_up(op):
                self.loops += cluster.close(op)
                cluster = _Cluster(self)
                if starts:
                    cluster.add(op)
            else:
                cluster.passed.update(op.results)

    def starts(self, op: Op) -> bool:
        """Whether an op may be part of a loop at all."""
        if type(op) is Foreach:
            sizes = {count_of(v.type) for v in op.results}
            return len(sizes) <= 1 and not any(inner.regions for inner in op.body)
        return _size(op) > VECTOR and not self.is_cheap(op)

    def is_cheap(self, op: Op | None) -> bool:
        """Whether it costs less to make the elements again than to keep them."""
        if op is None:
            return False
        known = self._cheap.get(op)
        if known is None:
            known = self._cheap[op] = isinstance(op, (Splat, Pattern, Constant)) or (
                isinstance(op, math.Elementwise)
                and not isinstance(op, (math.FloorDiv, math.Mod))
                and not op.results[0].type.element.is_float
                and all(not _is_array(v) or self.is_cheap(v.op) for v in op.operands)
            )
        return known


@dataclass
class _Cluster:
    """Ops that are to be one loop, at the place of the last of them."""

    fusing: _Fusing
    members: dict[Op, None] = field(default_factory=dict)
    size: int = 0  # elements in the arrays
    parts: int = 0  # rounds of the loop, once a member decides that
    own: set[Value] = field(default_factory=set)  # what the members result in
    effects: list[Effect] = field(default_factory=list)  # of the members
    passed: set[Value] = field(default_factory=set)  # computed between the members, before the loop
    kept: set[Value] = field(default_factory=set)  # of these, what members use

    def takes(self, op: Op) -> bool:
        """Whether an op that may be part of a loop can be one more member."""
        if not self.members:
            return False
        kept = self.kept | self.passed.intersection(_used(op))
        if sum(map(half_registers, kept)) > 2 * MOST_KEPT:
            return False
        if not isinstance(op, Foreach):
            return _size(op) == self.size
        sizes = {count_of(v.type) for v in op.results} | {self.size}
        if (self.parts or op.count) != op.count or len(sizes) > 1 or self.size % op.count:
            return False
        if conflict(self.effects, effects_within(op)):
            return False
        # It must need of each array no more than the part that it is the turn of.
        return all(
            _is_turn(inner, op) for inner in op.body if not self.own.isdisjoint(inner.operands)
        )

    def add(self, op: Op) -> None:
        self.members[op] = None
        self.own.update(op.results)
        self.kept |= self.passed.intersection(_used(op))
        self.effects += effects_within(op)
        if isinstance(op, Foreach):
            self.parts = op.count
            sliced = [inner.operands[0] for inner in op.body if _is_turn(inner, op)]
            self.size = self.size or max(
                [count_of(v.type) for v in (*op.results, *sliced)], default=0
            )
        else:
            self.size = _size(op)

    def holds_up(self, op: Op) -> bool:
        """Whether an op must stay behind the loop."""
        if op.terminator:
            return True
        if not self.members:
            return False
        if not self.own.isdisjoint(_used(op)):
            return True
        return conflict(self.effects, effects_within(op))

    def close(self, before: Op) -> int:
        """Put the loop in place of the members, before an op; gives how many loops were made."""
        if not self.members or (all(map(self._is_done, self.members)) and len(self.members) == 1):
            return 0
        _Loop(self, self.parts or self.size // gcd(self.size, VECTOR), before).build()
        return 1

    def _is_done(self, op: Op) -> bool:
        """Whether an op is a loop that slices nothing that can be made again."""
        return isinstance(op, Foreach) and not any(
            isinstance(inner, Slice) and self.fusing.is_cheap(inner.x.op) for inner in op.body
        )


class _Loop(IndexArithmetic):
    """The making of one loop."""

    def __init__(self, cluster: _Cluster, parts: int, before: Op):
        self.members = cluster.members
        self.fusing = cluster.fusing
        self.parts = parts
        self.before = before
        self.body = Region(None, [i32])
        self.index = self.body.arguments[0]
        self.index.name = "i"
        super().__init__(Builder(self.body))
        self.inside: dict[Value, Value] = {}  # what has become of values, in the loop

    def build(self) -> None:
        for op in self.members:
            self.b.location = op.location
            if isinstance(op, Foreach):
                self._take_over(op)
            else:
                self._now(op.results[0], self._part_of(op))
        outer = [v for op in self.members for v in op.results if self._is_used_outside(v)]
        self.b.insert(Yield([self.inside[v] for v in outer]))
        types = [v.type for v in outer]
        first = next(iter(self.members))
        loop = Foreach.create((), (self.parts, ()), types, (self.body,), first.location)
        self.before.insert_before(loop)
        for old, new in zip(outer, loop.results, strict=True):
            new.name = old.name
            old.replace_by(new)
        for op in reversed(self.members):
            op.erase()

    def _is_used_outside(self, value: Value) -> bool:
        return any(
            user not in self.members and user.parent_op not in self.members for user in value.users
        )

    def _now(self, old: Value, new: Value) -> None:
        old.became = self.inside[old] = new
        if new.name is None:
            new.name = old.name

    def _take_over(self, loop: Foreach) -> None:
        """Moves the body of one of the old loops into the new one."""
        own: dict[Value, Value] = {loop.body.arguments[0]: self.index}  # by old values, new ones
        for op in loop.body:
            if op.terminator:
                for old, value in zip(loop.results, op.operands, strict=True):
                    self._now(old, own.get(value, value))
            elif _is_turn(op, loop):
                (part,) = op.results
                own[part] = self._part(op.operands[0], count_of(part.type))
                own[part].name = own[part].name or part.name
            else:
                self.b.insert(op.clone(own))
        for old, new in own.items():
            old.became = new

    def _part(self, value: Value, width: int) -> Value:
        """The part of an array that it is the turn of."""
        if value not in self.inside:
            op = value.op
            if op is not None and self.fusing.is_cheap(op):
                made = self._part_of(op)
            else:
                type_ = registers(width, value.type.element)
                made = self.b(Slice(value, self.index, type_))
            self._now(value, made)
        return self.inside[value]

    def _part_of(self, op: Op) -> Value:
        """What an op makes of the parts of its operands."""
        whole = element_type(op.results[0].type)
        width = count_of(whole) // self.parts
        type_ = registers(width, whole.element)
        if isinstance(op, Splat):
            return op.x if width == 1 else self.b(Splat(op.x, type_))
        if isinstance(op, Constant):
            return self.b.insert(Constant.of_bits(op.bits, type_)).result
        if isinstance(op, Pattern):
            return self._numbers(op, type_)
        operands = tuple([self._part(v, width) if _is_array(v) else v for v in op.operands])
        return self.b.insert(type(op).create(operands, op.attributes, (type_,))).results[0]

    def _numbers(self, op: Pattern, type_: ElementType) -> Value:
        """A part of a pattern: what the turn contributes, and what the place in the part."""
        width = count_of(type_)
        low, high = op.images[: width.bit_length() - 1], op.images[width.bit_length() - 1 :]
        first = self.value(self.linear_form(self.index, high), type_.element)
        if width == 1:
            return first
        within = self.b(Pattern(low, type_))
        overlap = any(a & b for a in low for b in high)
        return self.b((math.Xor if overlap else math.Add)(self.b(Splat(first, type_)), within))


def _used(op: Op) -> list[Value]:
    """The values that an op uses, also within its regions."""
    return [v for inner in op.walk() for v in inner.operands] if op.regions else [*op.operands]


def _is_shaped(type_: Type) -> bool:
    return isinstance(type_, Registers) and type_.lanes is not None


def _is_array(value: Value) -> bool:
    return bool(element_type(value.type).shape)


def _is_turn(op: Op, loop: Foreach) -> bool:
    """Whether an op takes the part of an array that it is the turn of, and no other."""
    if not isinstance(op, Slice) or op.index is not loop.body.arguments[0]:
        return False
    width, rest = divmod(count_of(op.x.type), loop.count)
    return rest == 0 and op.result.type is registers(width, op.x.type.element)


def _size(op: Op) -> int:
    """Of how many elements of an array an op makes as many others, each alone; 0 if it does not."""
    type_ = op.results[0].type if op.results else None
    if isinstance(type_, Registers) and isinstance(op, _ELEMENT_BY_ELEMENT):
        return count_of(type_)
    return 0
