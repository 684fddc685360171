"""Saying in the types how each register array is held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from iris.analysis.liveness import dead_values, is_unused
from iris.analysis.matrices import multiplied
from iris.ir import metal
from iris.ir.control import For, Func, If, Return, While, Yield, carried_together
from iris.ir.core import Facet, Level, Module, Op, Region, Value
from iris.ir.math import Constant
from iris.ir.metal import FRAGMENT_LANES, VECTOR, count_of, moves_words, usual_lanes
from iris.ir.types import Registers, Type, bool_
from iris.passes.pipeline import Pass

_PAIR = 2

#: The values of an op that must be held alike, in groups; without a rule, all its arrays.
alike = Facet("values held alike")
#: What an op wants of shapes; without a rule, vectors of elements.
wish = Facet("wish for register shapes")


@dataclass(frozen=True)
class ChooseRegisterShapes(Pass):
    """Say in the types how each register array is held: how many elements are in one variable.

        %x: regs<8xf16> = metal.load %X, %at
        metal.store %Y, %at, %x
        %sum: regs<4xf32> = metal.mma %a, %b, %acc
        %y: regs<16xf32> = exp %v

    becomes, where `%X` and `%Y` are aligned,

        %x: regs<1x8xf16> = metal.load %X, %at
        metal.store %Y, %at, %x
        %sum: regs<2x2xf32> = metal.mma %a, %b, %acc
        %y: regs<4x4xf32> = exp %v

    Vectors of 4 suit an array that is loaded and computed four elements at a time.  One made and
    used by one element or two, in a loop, is held so.  An operand of a product is held by twos,
    for a lane holds two elements of a fragment.  An array that is only moved, 16 bytes at a time,
    is one variable of words.

    Values that meet elementwise, or that a loop or branch carries from one to the other, are held
    alike.  A constant is cloned for each shape in which it is used.
    """

    name = "choose-register-shapes"
    level = Level.METAL

    def run(self, module: Module) -> dict[str, int]:
        return {"arrays": sum(_choose(f) for f in module if isinstance(f, Func))}


def _choose(function: Func) -> int:
    """Choose the shapes of one function; gives how many arrays it has."""
    copies = _split_constants(function.body)
    ops = function.walk()
    results = [v for op in ops for v in op.results]
    arguments = [v for op in ops for region in op.regions for v in region.arguments]
    arrays = [v for v in results + arguments if type(v.type) is Registers]
    if arrays:
        shapes = _Shapes(ops, arrays)
        lanes = shapes.chosen()
        for value in arrays:
            count = count_of(value.type)
            chosen = lanes.get(shapes.of(value)) or usual_lanes(count)
            value.type = Registers(count, value.type.element, chosen)
        function.set_returns(tuple([v.type for v in function.body.end.operands]))
    _merge(copies)
    return len(arrays)


def _split_constants(body: Region) -> list[list[Constant]]:
    """Give each use of a constant array one of its own, for it has any shape."""
    copies = []
    for op in body.walk():
        if type(op) is not Constant or type(op.results[0].type) is not Registers:
            continue
        uses = [(u, i) for u in op.result.users for i, v in enumerate(u.operands) if v is op.result]
        following, group = op.next, [op]
        assert following is not None, "a constant ends no region"
        for user, position in uses[1:]:
            copy = op.clone({})
            following.insert_before(copy)
            operands = list(user.operands)
            operands[position] = copy.result
            user.set_operands(tuple(operands))
            group.append(copy)
        copies.append(group)
    return copies


def _merge(copies: Iterable[Sequence[Constant]]) -> None:
    """Make one again of the copies of a constant that have come to be of one type."""
    for group in copies:
        kept: dict[Type, Constant] = {}
        for op in group:
            first = kept.setdefault(op.result.type, op)
            if first is not op:
                op.result.replace_by(first.result)
                op.erase()


class _Shapes:
    """What the ops of a function want, by classes of values that are held alike."""

    def __init__(self, ops: Sequence[Op], arrays: Sequence[Value]):
        self._parents: dict[Value, Value] = {}
        self.vectors: set[Value] = set()
        self.elements: set[Value] = set()
        self.pairs: set[Value] = set()
        self.computed: set[Value] = set()  # what more is done with than moving it
        self.moved: list[tuple[Value, int]] = []  # and how many elements one access moves
        self.long_parts: list[tuple[Value, int]] = []  # and how many elements each has
        dead = dead_values(ops)
        self.multiplied = multiplied(ops, dead)
        touching = {op for value in arrays for op in (value.op, *value.users)}
        for op in ops:
            if op not in touching and not op.regions:
                continue
            groups = alike.get(type(op))
            for group in [_arrays_of(op)] if groups is None else groups(op):
                self.join(group)
            if op.regions or not op.results or not is_unused(op, dead):
                (wish.get(type(op)) or _compute)(self, op)

    def of(self, value: Value) -> Value:
        """What stands for the class of a value."""
        parent = self._parents.get(value)
        while parent is not None:
            value, parent = parent, self._parents.get(parent)
        return value

    def join(self, values: Sequence[Value]) -> None:
        """Make one class of the classes of values."""
        for value in values[1:]:
            first, other = self.of(values[0]), self.of(value)
            if first is not other:
                self._parents[other] = first

    def chosen(self) -> dict[Value, int]:
        """How many elements a variable holds in each class that is not held as is usual."""
        vectors, elements = self._classes(self.vectors), self._classes(self.elements)
        pairs, fragments = self._classes(self.pairs), self._classes(self.multiplied)
        return {
            **dict.fromkeys(pairs, _PAIR),
            **dict.fromkeys(elements - vectors, 1),
            **dict.fromkeys(fragments, FRAGMENT_LANES),
            **self._words(fragments | self._classes(self.computed)),
        }

    def _classes(self, values: Iterable[Value]) -> set[Value]:
        return {self.of(value) for value in values}

    def _words(self, computed: set[Value]) -> dict[Value, int]:
        """The classes of values that are only loaded and stored, and how many elements at once."""
        counts: dict[Value, int] = {}
        for value, count in self.moved:
            if counts.setdefault(self.of(value), count) != count:
                computed.add(self.of(value))
        for part, count in self.long_parts:
            if count % counts.get(self.of(part), 1):
                computed.add(self.of(part))
        return {held: count for held, count in counts.items() if held not in computed}


def _arrays_of(op: Op) -> list[Value]:
    return [v for v in (*op.operands, *op.results) if type(v.type) is Registers]


# What is held alike.


@alike(For, While, If)
def _alike_carried(op: For | While | If) -> Iterator[Sequence[Value]]:
    return carried_together(op)


@alike(metal.Load)
def _alike_of_load(op: metal.Load) -> list[list[Value]]:
    return [] if op.other is None else [[op.result, op.other]]


@alike(metal.Mma, metal.MmaShared)
def _alike_of_mma(op: metal.Mma | metal.MmaShared) -> list[list[Value]]:
    return [[op.acc, op.result]]


@alike(metal.Insert)
def _alike_of_insert(op: metal.Insert) -> list[list[Value]]:
    return [[op.x, op.result]]


@alike(metal.Take, metal.Join, metal.Slice, metal.Foreach, metal.Print, Yield, Return)
def _apart(op: Op) -> list[list[Value]]:
    return []


# What is wanted.


def _compute(shapes: _Shapes, op: Op) -> None:
    shapes.computed.update(_arrays_of(op))


@wish(Constant, metal.LoadRows, metal.Mma, metal.MmaShared, Yield, Return)
def _wish_nothing(shapes: _Shapes, op: Op) -> None:
    pass


@wish(For, While, If)
def _wish_of_carried(shapes: _Shapes, op: For | While | If) -> None:
    for values in carried_together(op):
        _meet_constants(shapes, values)


@wish(metal.Load, metal.Store)
def _wish_of_access(shapes: _Shapes, op: metal.Load | metal.Store) -> None:
    moved = op.value if isinstance(op, metal.Store) else op.result
    for value in _arrays_of(op):
        if isinstance(value.op, Constant):
            continue
        shapes.vectors.add(value)
        # The bytes of a bool may be any numbers in memory.
        is_bool = value.type.element is bool_
        if value is moved and moves_words(op.base, value) and not is_bool:
            shapes.moved.append((value, count_of(value.type)))
        else:
            shapes.computed.add(value)


@wish(metal.Slice)
def _wish_of_slice(shapes: _Shapes, op: metal.Slice) -> None:
    _wish_for_part(shapes, op.x, op.result)


@wish(metal.Insert)
def _wish_of_insert(shapes: _Shapes, op: metal.Insert) -> None:
    _wish_for_part(shapes, op.result, op.element)


@wish(metal.Foreach)
def _wish_of_foreach(shapes: _Shapes, op: metal.Foreach) -> None:
    for whole, part in zip(op.results, op.body.end.operands, strict=True):
        _wish_for_part(shapes, whole, part)


def _wish_for_part(shapes: _Shapes, whole: Value, part: Value) -> None:
    count = count_of(part.type)
    if count == count_of(whole.type) and isinstance(whole.type, Registers):  # of a single turn
        shapes.join([whole, part])
        _meet_constants(shapes, (whole, part))
        return
    if not _is_long(whole.type):
        return
    if _is_long(part.type):
        shapes.join([whole, part])
        _meet_constants(shapes, (whole, part))
        shapes.long_parts.append((part, count))
        return
    shapes.computed.add(whole)
    if count == _PAIR:
        shapes.pairs.add(whole)
    elif count < VECTOR:
        shapes.elements.add(whole)
    else:
        shapes.vectors.add(whole)


def _meet_constants(shapes: _Shapes, values: Sequence[Value]) -> None:
    if any(isinstance(v.op, Constant) for v in values):
        shapes.computed.update(values)


def _is_long(type_: Type) -> bool:
    """Whether an array takes several vectors."""
    count = count_of(type_)
    return count > VECTOR and count % VECTOR == 0
