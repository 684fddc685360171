"""How each register array is held: as vectors, by twos, element by element, or as matrices.

Vectors suit what is loaded and computed four at a time.  What is only ever made and used one
element or two at a time, in a loop, is an array of these.  Values that meet elementwise, or that a
loop or branch carries from one to the other, are held alike.

What is loaded and stored 16 bytes at a time, more than four elements, and meets nothing else, is
held as memory moves it: a vector of words, whatever the elements are.

A fragment of a matrix is two elements of each lane.  What is multiplied is held as an array of the
language's matrices, and so is all that loops and branches carry it from and to; what meets it
elementwise is held by twos.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from iris.analysis.liveness import is_unused
from iris.codegen.expression import LANES, Form, form_of
from iris.ir import metal
from iris.ir.control import For, If, Loop, While
from iris.ir.core import Op, Region, Value
from iris.ir.math import Constant, element_type
from iris.ir.metal import count_of
from iris.ir.types import Ptr, Registers, Threadgroup, Type, bool_

_PAIR = 2
_CARRY = (For, While, If)
_APART = (metal.Take, metal.Join, metal.Print)


class _Classes:
    """Values in classes that become one when they are joined.  Constants, which have any form, are
    in none."""

    def __init__(self) -> None:
        self._parents: dict[Value, Value] = {}

    def of(self, value: Value) -> Value:
        """What stands for the class of a value."""
        parent = self._parents.get(value)
        while parent is not None:
            value, parent = parent, self._parents.get(parent)
        return value

    def join(self, values: list[Value]) -> None:
        first: Value | None = None
        for value in values:
            if isinstance(value.op, Constant):
                continue
            other = self.of(value)
            if first is None:
                first = other
            elif other is not first:
                self._parents[other] = first


class Forms:
    def __init__(self, body: Region, dead: frozenset[Value]):
        """How what is in a body is held, but for what is made in vain."""
        self._dead = dead
        self._alike = _Classes()
        self._carried = _Classes()
        self._by_element: set[Value] = set()
        self._by_pair: set[Value] = set()
        self._by_vector: set[Value] = set()
        self._moved: list[tuple[Value, int]] = []  # by accesses of so many elements
        self._long: list[tuple[Value, int]] = []  # parts of several vectors
        self._computed: set[Value] = set()  # what meets anything but such accesses
        self._multiplied: list[Value] = []
        self._parts: list[metal.Slice] = []
        self._region(body)
        self._matrices = self._find_matrices()
        vectors = {self._alike.of(v) for v in self._by_vector}
        elements = {self._alike.of(v) for v in self._by_element} - vectors
        pairs = {self._alike.of(v) for v in self._by_pair} - elements
        self._halves = {self._alike.of(v) for v in self._multiplied}
        self._lanes = {
            **dict.fromkeys(elements, 1),
            **dict.fromkeys(pairs, _PAIR),
            **dict.fromkeys(self._halves, _PAIR),
            **self._words(),
        }

    def of(self, value: Value) -> Form:
        found = form_of(element_type(value.type))
        if self._lanes and (found.parts > 1 or (self._halves and found.lanes == LANES)):
            lanes = self._lanes.get(self._alike.of(value))
            if lanes is not None:
                return Form(lanes, count_of(value.type) // lanes)
        return found

    def is_matrix(self, value: Value) -> bool:
        """Whether a value is held as matrices, when it is held at all."""
        return bool(self._matrices) and self._carried.of(value) in self._matrices

    def _words(self) -> dict[Value, int]:
        """The classes of what is only moved, and how many elements at a time."""
        counts: dict[Value, int] = {}
        computed = {self._alike.of(v) for v in self._computed} | self._halves
        for value, count in self._moved:
            here = self._alike.of(value)
            is_bool = element_type(value.type).element is bool_  # its bytes may be any number
            if is_bool or isinstance(value.op, Constant) or counts.setdefault(here, count) != count:
                computed.add(here)
        for part, count in self._long:
            here = self._alike.of(part)
            if count % counts.get(here, 1):
                computed.add(here)
        return {here: count for here, count in counts.items() if here not in computed}

    def _find_matrices(self) -> set[Value]:
        for part in reversed(self._parts):
            # Of what is held as matrices, the parts that are multiplied are there already.
            found = {self._carried.of(v) for v in self._multiplied}
            if self._carried.of(part.result) in found:
                self._multiplied.append(part.x)
        return {self._carried.of(v) for v in self._multiplied}

    def _region(self, region: Region) -> None:
        for op in region:
            for inner in op.regions:
                self._region(inner)
            self._op(op)

    def _op(self, op: Op) -> None:
        kind = type(op)
        if op.results and not op.regions and is_unused(op, self._dead):
            return
        if kind in _CARRY:
            self._carry(op)
        elif isinstance(op, metal.Foreach):
            for result, value in zip(op.results, op.body.end.operands, strict=True):
                self._part(result, value)
        elif isinstance(op, metal.Slice):
            self._part(op.x, op.result)
            self._parts.append(op)
        elif isinstance(op, metal.Mma):
            self._multiplied += [*op.operands, op.result]
            self._alike.join([op.acc, op.result])
        elif isinstance(op, metal.Load | metal.Store):
            self._access(op)
            if isinstance(op, metal.Load) and op.other is not None:
                self._alike.join(_arrays([op.result, op.other]))
        elif not op.terminator:
            arrays = _arrays([*op.operands, *op.results])
            self._computed.update(arrays)
            if kind not in _APART and op.results and len(arrays) > 1:
                self._alike.join(arrays)

    def _access(self, op: metal.Load | metal.Store) -> None:
        moved = op.value if isinstance(op, metal.Store) else op.result
        for value in _arrays([*op.operands, *op.results]):
            self._by_vector.add(value)
            if value is moved and moves_words(op.base, value):
                self._moved.append((value, count_of(value.type)))
            else:
                self._computed.add(value)

    def _carry(self, op: Op) -> None:
        groups: Iterable[Sequence[Value]]
        if isinstance(op, Loop):
            groups = [(c.result, c.initial, *c.arguments, c.yielded) for c in op.carried()]
        else:
            groups = zip(op.results, *[r.end.operands for r in op.regions], strict=True)
        for values in groups:
            if isinstance(values[0].type, Registers):
                self._alike.join(list(values))
                self._carried.join(list(values))
                self._meets_constants(values)

    def _part(self, whole: Value, part: Value) -> None:
        if whole.type is part.type:  # of a loop of one turn
            self._alike.join(_arrays([whole, part]))
            return
        if not _is_long(whole.type):
            return
        count = count_of(part.type)
        if _is_long(part.type):
            self._alike.join([whole, part])
            self._meets_constants((whole, part))
            self._long.append((part, count))
            return
        self._computed.add(whole)
        if count == _PAIR:
            self._by_pair.add(whole)
        elif count < LANES:
            self._by_element.add(whole)
        else:
            self._by_vector.add(whole)

    def _meets_constants(self, values: Sequence[Value]) -> None:
        if any(isinstance(v.op, Constant) for v in values):
            self._computed.update(values)


def moves_words(base: Value, value: Value) -> bool:
    """Whether an access moves elements that only words, of 32 bits, make a vector of."""
    memory = base.type
    is_aligned = isinstance(memory, Threadgroup) or (isinstance(memory, Ptr) and memory.aligned)
    return is_aligned and count_of(value.type) > LANES


def _arrays(values: list[Value]) -> list[Value]:
    """Those that are held as vectors, unless something speaks for less."""
    return [v for v in values if _is_array(v.type)]


@lru_cache(maxsize=1024)
def _is_array(type_: Type) -> bool:
    if not isinstance(type_, Registers):
        return False
    (count,) = type_.shape
    return count % LANES == 0


def _is_long(type_: Type) -> bool:
    """Whether it takes several vectors."""
    return _is_array(type_) and count_of(type_) > LANES
