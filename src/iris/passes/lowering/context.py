"""What all lowering rules share: where ops go, what has become of values, who holds what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import TypeAlias

from iris.errors import PipelineError
from iris.ir import math, metal
from iris.ir.builder import Builder
from iris.ir.control import Func, Yield
from iris.ir.core import Facet, Region, Value
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.ir.math import Constant, element_type
from iris.ir.metal import SIMDGROUP_WIDTH, Foreach, Slice, Splat, Take, count_of, registers
from iris.ir.types import DType, ElementType, Tile, Type, i32
from iris.passes.affine import Sums
from iris.passes.axis import Axes

# An integer known while compiling, or a scalar of the program.
Number: TypeAlias = "int | Value"

lower = Facet("lowering")


class Lowering:
    """The lowering of one function.

    `self[v]` is what has become of a value of the tile function, and `self.b` puts ops where the
    walk has come to.
    """

    def __init__(self, source: Func, target: Func):
        self.source = source
        self.simdgroups = source.simdgroups
        self.values: dict[Value, Value] = {}
        self.axes = Axes()
        self.sums = Sums()
        self.b = Builder(target.body)
        for old in source.body.arguments:
            self.values[old] = target.body.add_argument(old.type, old.name)
        self.lane = self.b(metal.Lane(), "lane")
        self.simdgroup = self.b(metal.Simdgroup(), "simdgroup")
        # Before this go, computed once, the places of a thread.
        self._mark = self.b.insert(metal.Lane())
        self._entry = Builder(target.body, self._mark)
        self._forms: dict[object, Number] = {}

    def run(self) -> None:
        self.region(self.source.body)
        self._mark.erase()

    def region(self, region: Region) -> None:
        """Lower the ops of a region to where the builder is."""
        for op in region:
            self.b.location = op.location
            for old, new in zip(op.results, lower[type(op)](self, op), strict=True):
                if new.name is None:
                    new.name = old.name
                self.values[old] = new

    def __getitem__(self, value: Value) -> Value:
        return self.values[value]

    def type(self, type_: Type) -> Type:
        """What a thread has of a value of a type."""
        if not isinstance(type_, Tile):
            return type_
        if type_.layout is None:
            raise PipelineError(f"a {type_} has no layout; run assign-layouts before")
        return registers(type_.layout.size(REGISTER), type_.element)

    # Arithmetic on numbers, of which the part that is known is done here.

    def constant(self, number: int, type_: ElementType = i32) -> Value:
        bits = number & ((1 << type_.element.bits) - 1)
        return self.b.insert(Constant.of_bits(bits, type_)).result

    def value(self, number: Number, type_: DType = i32) -> Value:
        """A number as a value of a dtype."""
        if isinstance(number, int):
            return self.constant(number, type_)
        return number if number.type is type_ else self.b(math.Cast(number, type_))

    def add(self, a: Number, b: Number, type_: DType = i32) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.b(math.Add(self.value(a, type_), self.value(b, type_)))

    def times(self, a: Number, b: Number, type_: DType = i32) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.b(math.Mul(self.value(a, type_), self.value(b, type_)))

    def xor(self, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return a ^ b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.b(math.Xor(self.value(a), self.value(b)))

    def mask(self, a: Number, bits: int) -> Number:
        """Some of the bits of a number."""
        return a & bits if isinstance(a, int) else self.b(math.And(a, self.constant(bits)))

    def compare(self, predicate: math.Predicate, a: Number, b: Number) -> Value:
        type_ = next((v.type for v in (a, b) if isinstance(v, Value)), i32)
        assert isinstance(type_, DType)
        return self.b(math.Compare(predicate, self.value(a, type_), self.value(b, type_)))

    def both(self, a: Value | None, b: Value | None) -> Value | None:
        """Where two conditions hold; None holds everywhere."""
        if a is None or b is None:
            return b if a is None else a
        return self.b(math.And(a, b))

    # Places: linear maps over F2, from the bits of a number.

    def form(self, x: Number, images: Sequence[int]) -> Number:
        """The xor of the images of the bits of a number, of which there are so many.

        Neighbouring bits that stay neighbours are moved together: `(x >> 2 & 3) * 8`.
        """
        if isinstance(x, int):
            return reduce(lambda a, b: a ^ b, (im for i, im in enumerate(images) if x >> i & 1), 0)
        total: Number = 0
        used = 0
        start = 0
        while start < len(images):
            image, end = images[start], start + 1
            while end < len(images) and images[end] == image << (end - start):
                end += 1
            if image:
                part: Number = x
                if start:
                    part = self.b(math.Shr(x, self.constant(start)))
                if end < len(images):
                    part = self.b(math.And(self.value(part), self.constant((1 << end - start) - 1)))
                bits = reduce(or_, images[start:end])
                join = self.xor if used & bits else self.add
                total = join(total, self.times(part, image))
                used |= bits
            start = end if image else start + 1
        return total

    def thread_part(self, lane: Sequence[int], simdgroup: Sequence[int]) -> Number:
        """What the lane and the simdgroup contribute to a place."""
        key = tuple(lane), tuple(simdgroup)
        if key not in self._forms:
            saved, self.b = self.b, self._entry
            parts = self.form(self.lane, lane), self.form(self.simdgroup, simdgroup)
            self._forms[key] = self.join(*parts, lane, simdgroup)
            self.b = saved
        return self._forms[key]

    def join(self, a: Number, b: Number, ours: Sequence[int], theirs: Sequence[int]) -> Number:
        """The xor of two numbers made of bits with these images."""
        if reduce(or_, ours, 0) & reduce(or_, theirs, 0):
            return self.xor(a, b)
        return self.add(a, b)

    def holder(self, layout: LinearLayout | None) -> Value | None:
        """Whether this is the thread of several with the same elements that acts for all; None if
        there is but one.  Without a layout: of a scalar, which every thread has."""
        if layout is None:
            free = {LANE: SIMDGROUP_WIDTH - 1, SIMDGROUP: self.simdgroups - 1}
        else:
            free = layout.free_bits()
        found: Value | None = None
        for dim, number in ((LANE, self.lane), (SIMDGROUP, self.simdgroup)):
            mask = free[dim]
            if not mask:
                continue
            size = SIMDGROUP_WIDTH if dim == LANE else self.simdgroups
            part: Value = number
            if mask != size - 1:
                part = self.b(math.And(number, self.constant(mask)))
            found = self.both(found, self.compare(math.Predicate.EQ, part, 0))
        return found

    # Register arrays.

    def each(
        self, count: int, width: int, body: Callable[[Number], Sequence[Value]]
    ) -> Sequence[Value]:
        """What a body yields for each part of `width` of `count` registers, joined."""
        parts = count // width
        if parts == 1:
            return body(0)
        region = Region(None, [i32])
        (index,) = region.arguments
        index.name = "i"
        with self.b.inside(region):
            yielded = body(index)
            self.b.insert(Yield(yielded))
        types = [registers(count_of(v.type) * parts, element_type(v.type).element) for v in yielded]
        return self.b.insert(Foreach.create((), (parts,), types, (region,))).results

    def part(self, x: Value, index: Number, width: int) -> Value:
        """A part of `width` elements of a register array."""
        count = count_of(x.type)
        if count == width:
            return x
        if isinstance(index, int):
            return self.take(x, range(index * width, (index + 1) * width))
        return self.b(Slice(x, index, registers(width, element_type(x.type).element)))

    def take(self, x: Value, indices: Sequence[int]) -> Value:
        """Elements of a register array, or of a scalar as one."""
        if list(indices) == list(range(count_of(x.type))):
            return x
        if isinstance(x.type, DType):
            return self.splat(x, len(indices))
        return self.b(Take(tuple(indices), x))

    def splat(self, x: Value, count: int) -> Value:
        if count == 1:
            return x
        assert isinstance(x.type, DType)
        return self.b(Splat(x, registers(count, x.type)))


def tile_layout(value: Value) -> LinearLayout:
    """The layout of a tile."""
    type_ = value.type
    if not isinstance(type_, Tile) or type_.layout is None:
        raise PipelineError(f"{value!r} has no layout; run assign-layouts before")
    return type_.layout


def axis_images(layout: LinearLayout, dim: str, axis: int) -> list[int]:
    """What the bits of a dimension contribute to the coordinate along an axis."""
    return [image[axis] for image in dict(layout.bases)[dim]]
