"""How each register array is held: as vectors, or element by element.

Vectors suit what is loaded and computed four at a time.  What is only ever made and used one
element at a time, in a loop over its elements, is a plain array.  Values that meet elementwise, or
that a loop or branch carries from one to the other, are held alike.
"""

from __future__ import annotations

from functools import lru_cache

from iris.codegen.expression import Form, form_of
from iris.ir import metal
from iris.ir.control import For, If, While
from iris.ir.core import Op, Region, Value
from iris.ir.math import element_type
from iris.ir.metal import count_of
from iris.ir.types import Registers, Type

_LANES = 4
_CARRY = (For, While, If)
_ACCESSES = (metal.Load, metal.Store)
_APART = (metal.Take, metal.Join, metal.Print)


class Forms:
    def __init__(self, body: Region):
        self._parents: dict[Value, Value] = {}
        self._by_element: set[Value] = set()
        self._by_vector: set[Value] = set()
        self._region(body)
        vectors = {self._root(v) for v in self._by_vector}
        self._plain = {self._root(v) for v in self._by_element} - vectors

    def of(self, value: Value) -> Form:
        found = form_of(element_type(value.type))
        if found.parts > 1 and self._plain and self._root(value) in self._plain:
            return Form(1, count_of(value.type))
        return found

    def _root(self, value: Value) -> Value:
        parent = self._parents.get(value)
        while parent is not None:
            value, parent = parent, self._parents.get(parent)
        return value

    def _alike(self, values: list[Value]) -> None:
        first = self._root(values[0])
        for value in values[1:]:
            other = self._root(value)
            if other is not first:
                self._parents[other] = first

    def _region(self, region: Region) -> None:
        for op in region:
            for inner in op.regions:
                self._region(inner)
            self._op(op)

    def _op(self, op: Op) -> None:
        kind = type(op)
        if kind in _CARRY:
            self._carry(op)
        elif isinstance(op, metal.Foreach):
            for result, value in zip(op.results, op.body.end.operands, strict=True):
                self._part(result, value)
        elif isinstance(op, metal.Slice):
            self._part(op.x, op.result)
        elif kind in _ACCESSES:
            self._by_vector.update(_arrays([*op.operands, *op.results]))
        elif kind not in _APART and op.results:
            arrays = _arrays([*op.operands, *op.results])
            if len(arrays) > 1:
                self._alike(arrays)

    def _carry(self, op: Op) -> None:
        groups = [list(op.results)]
        if isinstance(op, (For, While)):
            groups.append(list(op.initial))
        for region in op.regions:
            arguments = region.arguments[1:] if isinstance(op, For) else region.arguments
            if arguments:
                groups.append(list(arguments))
            if op.forwards(region):
                groups.append(list(region.end.operands))
        for values in zip(*groups, strict=True):
            if _arrays([values[0]]):
                self._alike(list(values))

    def _part(self, whole: Value, part: Value) -> None:
        if not _arrays([whole]):
            return
        if _arrays([part]):
            self._alike([whole, part])
        elif count_of(part.type) < _LANES:
            self._by_element.add(whole)
        else:
            self._by_vector.add(whole)


def _arrays(values: list[Value]) -> list[Value]:
    """Those that are held as several vectors, unless something speaks for less."""
    return [v for v in values if _is_array(v.type)]


@lru_cache(maxsize=1024)
def _is_array(type_: Type) -> bool:
    if not isinstance(type_, Registers):
        return False
    (count,) = type_.shape
    return count > _LANES and count % _LANES == 0
