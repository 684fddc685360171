"""Keeping halves of long register arrays in threadgroup memory, for a core to hold two programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iris.analysis.registers import Pressure, half_registers
from iris.cost.occupancy import OTHER_REGISTERS, simdgroups_per_core
from iris.cost.resources import allocated
from iris.ir import math, metal
from iris.ir.builder import Builder
from iris.ir.control import Func, Yield
from iris.ir.core import Module, Op, Value
from iris.ir.math import Constant, element_type
from iris.ir.metal import SIMDGROUP_WIDTH, VECTOR_BYTES, Foreach, Slice, Take, count_of
from iris.ir.types import DType, Threadgroup, Type, bool_, i32
from iris.passes.pipeline import TargetPass

PROGRAMS = 2  # one loads while the other computes


@dataclass(frozen=True)
class SpillToThreadgroup(TargetPass):
    """Keep the second halves of long register arrays in threadgroup memory, if a core then holds
    two programs where it held one.

        %x: regs<64xf32> = metal.foreach 16 (%i: i32) {
          %at: i32 = mul %i, %c2048
          %a: regs<4xf32> = metal.load %X, %at
          yield %a
        }
        metal.foreach 16 (%j: i32) {
          %b: regs<4xf32> = metal.slice %x, %j
          ...
        }

    becomes

        %x: regs<32xf32> = metal.foreach 8 (%i: i32) { ... }
        %spilled: threadgroup<16384xf32> = metal.alloc
        metal.foreach 8 (%i: i32) {
          %turn: i32 = add %i, %c8
          %at: i32 = mul %turn, %c2048
          %a: regs<4xf32> = metal.load %X, %at
          %own: i32 = ...
          metal.store %spilled, %own, %a
          yield
        }
        metal.foreach 8 (%j: i32) { ... }
        metal.foreach 8 (%j: i32) {
          %own: i32 = ...
          %b: regs<4xf32> = metal.load %spilled, %own
          ...
        }

    While the only program of a core computes, nobody loads; of two, one loads.  A thread touches
    only elements of its own there, so no barrier is needed.  `resident_programs` says that a core
    is to hold both, which limits the registers of a thread.
    """

    name = "spill-to-threadgroup"
    level = metal.MetalOp.level

    def run(self, module: Module) -> dict[str, int]:
        return {"arrays": sum([self._visit(f) for f in module if isinstance(f, Func)])}

    def _visit(self, function: Func) -> int:
        if not _long_arrays(function) or self._programs(function) != 1:
            return 0
        trial = function.clone({})
        _halve(trial)
        if self._programs(trial) < PROGRAMS:
            return 0
        function.set_resident_programs(PROGRAMS)
        return _halve(function)

    def _programs(self, function: Func) -> int:
        """How many programs a core holds at once."""
        memory = sum(allocated(function.walk()).values())
        registers = None if self.target.dynamic_registers else -(-Pressure(function).most // 2)
        held = simdgroups_per_core(memory, function.simdgroups, self.target, registers)
        return held // function.simdgroups


def _halve(function: Func) -> int:
    """Spill halves of arrays; gives how many."""
    spilled = _places(function, _long_arrays(function))
    _Halving(function, spilled).apply()
    return len(spilled)


# What may be spilled.


def _long_arrays(function: Func) -> list[Value]:
    """The arrays that may be spilled, in the order in which they are made."""
    return [v for op in function.walk() for v in op.results if _may_spill(v)]


def _may_spill(array: Value) -> bool:
    """Whether an array is long, and is read by halves or part by part, as it was made."""
    loop = array.op
    if not isinstance(loop, Foreach) or half_registers(array) < 2 * OTHER_REGISTERS:
        return False
    if loop.count % 2 or element_type(array.type).element is bool_:
        return False
    reads_parts = [isinstance(user, Slice) for user in array.users]
    return any(reads_parts) and all(any(_reads(user)) for user in array.users)


def _reads(user: Op) -> Iterator[Op]:
    """The ops that read an array by a user of it: what slices it, or its second half, in step, or
    takes the first half; none for any other user."""
    half = _half(user) if isinstance(user, Take) else None
    if half == 0 or _is_in_step(user, 2):
        yield user
    elif half == 1:
        slices = list(user.results[0].users)
        if all(_is_in_step(op, 1) for op in slices):
            yield from slices


def _is_in_step(op: Op, factor: int) -> bool:
    """Whether an op slices the next part of an array in each turn of a loop beside the one that
    makes it.  The number of turns is a multiple of a factor."""
    loop = op.parent_op
    return (
        isinstance(op, Slice)
        and isinstance(loop, Foreach)
        and loop.count % factor == 0
        and op.parent is loop.body
        and op.index is loop.body.arguments[0]
        and loop.parent is op.x.home
        and count_of(op.result.type) * loop.count == count_of(op.x.type)
    )


def _half(op: Take) -> int | None:
    """Which half of an array is taken; None if it is another part."""
    length = len(op.indices)
    start = op.indices[0]
    if 2 * length != count_of(op.x.type) or op.indices != tuple(range(start, start + length)):
        return None
    return {0: 0, length: 1}.get(start)


# Where it goes.


@dataclass(eq=False)
class _Place:
    """Threadgroup memory for the second half of an array, and later for that of another."""

    element: DType
    count: int  # elements of a thread
    piece: int  # elements that an access moves
    threads: int
    last: int  # the number of the op in which it is read last

    @property
    def type(self) -> Threadgroup:
        return Threadgroup(self.count * self.threads, self.element)

    def suits(self, other: _Place, start: int) -> bool:
        """Whether another place, which is written from a numbered op on, may be this one."""
        return (self.type, self.piece) == (other.type, other.piece) and self.last <= start


def _places(function: Func, arrays: Sequence[Value]) -> dict[Value, _Place]:
    """The place of each array.  What a loop makes of one that it reads last takes its place."""
    number = {op: n for n, op in enumerate(function.walk())}
    found: dict[Value, _Place] = {}
    for array in arrays:
        loop, type_ = array.op, element_type(array.type)
        assert isinstance(loop, Foreach), "makes the array"
        reads = [read for user in array.users for read in _reads(user)]
        last = max([number[read.enclosing_op] for read in reads])
        parts = [count_of(read.results[0].type) for read in reads if isinstance(read, Slice)]
        part = min(*parts, count_of(array.type) // loop.count)
        piece = min(part, VECTOR_BYTES // type_.element.bytes)
        threads = SIMDGROUP_WIDTH * function.simdgroups
        new = _Place(type_.element, count_of(array.type) // 2, piece, threads, last)
        place = next((p for p in found.values() if p.suits(new, number[loop])), new)
        place.last = last
        found[array] = place
    return found


class _Halving:
    """Makes two loops of each that makes or reads spilled arrays, for the first and for the second
    half of its turns."""

    def __init__(self, function: Func, spilled: Mapping[Value, _Place]):
        self.loops = [
            op
            for op in function.walk()
            if isinstance(op, Foreach)
            and not spilled.keys().isdisjoint([*op.results, *op.sliced()])
        ]
        self.spilled = spilled
        self.halves: tuple[dict[Value, Value], dict[Value, Value]] = {}, {}  # but for spilled ones
        b = Builder(function.body, function.body.first, function.location)
        first = b(math.Mul(b(metal.Simdgroup()), b(Constant(SIMDGROUP_WIDTH, i32))))
        thread = b(math.Add(first, b(metal.Lane())))
        #: The memory of each place, and the offset of the thread's first piece there.
        self.memory = {
            place: (
                b(metal.Alloc(place.type), "spilled"),
                b(math.Mul(thread, b(Constant(place.piece, i32))), "own"),
            )
            for place in dict.fromkeys(spilled.values())
        }

    def apply(self) -> None:
        for loop in self.loops:
            self._split(loop)
        for loop in reversed(self.loops):
            loop.erase()

    def _split(self, loop: Foreach) -> None:
        for number, halves in enumerate(self.halves):
            halves.update(self._half(loop, number))
        b = Builder.before_op(loop)
        for array in loop.results:
            for user in list(array.users):
                half = _half(user) if isinstance(user, Take) else None
                if half is not None:
                    self._replace(user, half)
            if array.users and array not in self.spilled:
                array.replace_by(b(metal.join([halves[array] for halves in self.halves])))

    def _half(self, loop: Foreach, number: int) -> Mapping[Value, Value]:
        """Make a loop of half of the turns; gives halves of its results that are in registers."""
        kept = [v for v in loop.results if number == 0 or v not in self.spilled]
        types = [metal.registers(count_of(v.type) // 2, element_type(v.type).element) for v in kept]
        new = Foreach(loop.count // 2, types, location=loop.location)
        loop.insert_before(new)
        b = Builder(new.body, location=loop.location)
        turn = index = new.body.arguments[0]
        if number:
            turn = b(math.Add(index, b(Constant(new.count, i32))))
        mapping = {loop.body.arguments[0]: turn}
        end = loop.body.end
        for op in loop.body:
            if _is_in_step(op, 2):
                mapping[op.results[0]] = self._part(b, op, number, new)
            elif op is not end:
                b.insert(op.clone(mapping))
        made = [mapping.get(value, value) for value in end.operands]
        for array, part in zip(loop.results, made, strict=True):
            if array not in kept:
                self._store(b, self.spilled[array], index, part)
        b.insert(Yield([v for array, v in zip(loop.results, made, strict=True) if array in kept]))
        for array, result in zip(kept, new.results, strict=True):
            result.name = array.name
        return dict(zip(kept, new.results, strict=True))

    def _part(self, b: Builder, op: Op, number: int, loop: Foreach) -> Value:
        """What a turn of a half slices of an array."""
        (array, _), (part,), (index,) = op.operands, op.results, loop.body.arguments
        if number and array in self.spilled:
            return self._load(b, self.spilled[array], index, part.type)
        half = self.halves[number].get(array)
        if half is None:  # it is made elsewhere
            length = count_of(array.type) // 2
            taken = metal.take(range(number * length, (number + 1) * length), array)
            half = Builder.before_op(loop)(taken)
        return b(Slice(half, index, result=part.type), part.name)

    def _replace(self, op: Take, number: int) -> None:
        """Replace the half of an array that is taken."""
        half = self.halves[number].get(op.x)
        if half is not None:
            op.result.replace_by(half)
        for read in list(op.result.users):
            b = Builder.before_op(read)
            _, index = read.operands
            (part,) = read.results
            part.replace_by(self._load(b, self.spilled[op.x], index, part.type))
            read.erase()
        op.erase()

    def _pieces(
        self, b: Builder, place: _Place, index: Value, part: Type
    ) -> Iterator[tuple[Value, Value]]:
        """The memory and the offset of each piece of a part: neighbours there are of neighbouring
        threads."""
        (memory, own), count = self.memory[place], count_of(part)
        first = b(math.Mul(index, b(Constant(count * place.threads, i32))))
        for start in range(0, count, place.piece):
            here = b(math.Add(first, b(Constant(start * place.threads, i32)))) if start else first
            yield memory, b(math.Add(here, own))

    def _store(self, b: Builder, place: _Place, index: Value, part: Value) -> None:
        for number, (memory, offset) in enumerate(self._pieces(b, place, index, part.type)):
            piece = part
            if place.piece < count_of(part.type):
                start = number * place.piece
                piece = b(metal.take(range(start, start + place.piece), part))
            b.insert(metal.Store(memory, offset, piece))

    def _load(self, b: Builder, place: _Place, index: Value, part: Type) -> Value:
        type_ = metal.registers(place.piece, place.element)
        pieces = [
            b(metal.Load(memory, offset, result=type_))
            for memory, offset in self._pieces(b, place, index, part)
        ]
        return pieces[0] if len(pieces) == 1 else b(metal.join(pieces))
