"""The context of lowering rules: the builder, the lowered values, and which thread holds what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod

from iris.analysis.affine import Sums
from iris.analysis.axis import Axes
from iris.errors import PipelineError
from iris.ir import math, metal
from iris.ir.builder import Builder
from iris.ir.control import Func, Yield
from iris.ir.core import Facet, Op, Region, Value
from iris.ir.layout.linear import LANE, REGISTER, SIMDGROUP, LinearLayout
from iris.ir.metal import SIMDGROUP_WIDTH, Foreach, Slice, Splat, count_of, registers
from iris.ir.types import DType, Tile, Type, i32
from iris.ir.waiting import shares_memory
from iris.passes.metal.index_arithmetic import IndexArithmetic, Number
from iris.targets import Target

lower = Facet("lowering")


class Lowering(IndexArithmetic):
    """The lowering of one function.

    `self[v]` is the lowered form of a value of the tile function; `self.b` inserts ops at the
    current point.
    """

    def __init__(
        self,
        source: Func,
        lowered: Func,
        target: Target,
        check: Callable[[Lowering, Value, Value], None] | None = None,
    ):
        """`check` is called with every value and its lowered form."""
        self.source = source
        self.target = target
        self.check = check
        self.simdgroups = source.simdgroups
        self.shares_memory = shares_memory(source)
        self.values: dict[Value, Value] = {}
        self.spares: dict[Value, Value] = {}  # of carried staged tiles, the other memory of each
        self.axes = Axes()
        self.sums = Sums()
        super().__init__(Builder(lowered.body))
        for old in source.body.arguments:
            old.became = self.values[old] = lowered.body.add_argument(old.type, old.name)
        self.lane = self.b(metal.Lane(), "lane")
        self.simdgroup = self.b(metal.Simdgroup(), "simdgroup")
        # Offsets of a thread are computed once, before this op.
        self._mark = self.b.insert(metal.Lane())
        self._entry = self.b.ahead(self._mark)
        self._forms: dict[object, Number] = {}

    def run(self) -> None:
        self.region(self.source.body)
        self._mark.erase()

    def region(self, region: Region) -> None:
        """Lower the ops of a region to where the builder is."""
        around = self.b.location
        for op in region:
            self.b.location = op.location or around
            for old, new in zip(op.results, lower[type(op)](self, op), strict=True):
                if new.name is None:
                    new.name = old.name
                old.became = self.values[old] = new
                if self.check is not None:
                    self.check(self, old, new)
        self.b.location = around

    def __getitem__(self, value: Value) -> Value:
        return self.values[value]

    def type(self, type_: Type) -> Type:
        """The type of one thread's part of a value."""
        if not isinstance(type_, Tile):
            return type_
        if type_.layout is None:
            raise PipelineError(f"a {type_} has no layout; run assign-layouts before")
        return registers(type_.layout.size(REGISTER), type_.element)

    def both(self, a: Value | None, b: Value | None) -> Value | None:
        """The conjunction of two conditions; None is true."""
        if a is None or b is None:
            return b if a is None else a
        return self.binary(math.And, a, b)

    def thread_part(self, lane: Sequence[int], simdgroup: Sequence[int]) -> Number:
        """What the lane and the simdgroup contribute to an offset."""
        key = tuple(lane), tuple(simdgroup)
        if key not in self._forms:
            saved, self.b = self.b, self._entry
            parts = self.linear_form(self.lane, lane), self.linear_form(self.simdgroup, simdgroup)
            self._forms[key] = self.xor_forms(*parts, lane, simdgroup)
            self.b = saved
        return self._forms[key]

    def holder(self, layout: LinearLayout | None, owner: int = 0) -> Value | None:
        """Whether this thread acts for all that hold the same elements; None if no other does.

        No layout stands for a scalar, which every thread holds.  `owner` has the bits of the
        simdgroup that acts for others.
        """
        if layout is None:
            free = {LANE: SIMDGROUP_WIDTH - 1, SIMDGROUP: self.simdgroups - 1}
        else:
            free = layout.free_bits()
        found: Value | None = None
        for dim, number, own in ((LANE, self.lane, 0), (SIMDGROUP, self.simdgroup, owner)):
            mask = free[dim]
            if not mask:
                continue
            size = SIMDGROUP_WIDTH if dim == LANE else self.simdgroups
            part: Value = number
            if mask != size - 1:
                part = self.binary(math.And, number, self.constant(mask))
            found = self.both(found, self.compare(math.Predicate.EQ, part, own))
        return found

    def fence(self) -> None:
        """Order memory operations for other programs, if the function shares memory with them."""
        if self.shares_memory:
            self.b.insert(metal.Fence())

    # Register arrays.

    def each(
        self, count: int, width: int, body: Callable[[Number], Sequence[Value]]
    ) -> Sequence[Value]:
        """Run a body for each part of `width` of `count` registers, and join what it yields."""
        parts = count // width
        if parts == 1:
            return body(0)
        region = Region(None, [i32])
        (index,) = region.arguments
        index.name = "i"
        with self.b.inside(region):
            yielded = body(index)
            self.b.insert(Yield(yielded))
        types = [registers(count_of(v.type) * parts, v.type.element) for v in yielded]
        loop: Op = self.b.insert(Foreach.create((), (parts, ()), types, (region,)))
        return loop.results

    def part(self, x: Value, index: Number, width: int) -> Value:
        """A part of `width` elements of a register array."""
        count = count_of(x.type)
        if count == width:
            return x
        if isinstance(index, int):
            return self.take(x, range(index * width, (index + 1) * width))
        return self.b(Slice(x, index, registers(width, x.type.element)))

    def take(self, x: Value, indices: Sequence[int]) -> Value:
        """Elements of a register array, or of a scalar as one."""
        if list(indices) == list(range(count_of(x.type))):
            return x
        if isinstance(x.type, DType):
            return self.splat(x, len(indices))
        return self.b(metal.take(indices, x))

    def splat(self, x: Value, count: int) -> Value:
        if count == 1:
            return x
        return self.b(Splat(x, registers(count, x.type.element)))


def tile_layout(value: Value) -> LinearLayout:
    """The layout of a tile."""
    type_ = value.type
    if not isinstance(type_, Tile) or type_.layout is None:
        raise PipelineError(f"{value!r} has no layout; run assign-layouts before")
    return type_.layout


@lru_cache(maxsize=4096)
def axis_images(layout: LinearLayout, dim: str, axis: int) -> tuple[int, ...]:
    """The contribution of each bit of a dimension to the coordinate along an axis."""
    below, mask = prod(layout.shape[axis + 1 :]), layout.shape[axis] - 1
    return tuple([column // below & mask for column in layout.columns_of(dim)])
