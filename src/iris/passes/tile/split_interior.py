"""Splitting off the accesses that need no masks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from iris.analysis.affine import Sum, Sums, is_nonnegative, materialise, plus
from iris.analysis.axis import VECTOR_BYTES, Axes, order, vector
from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import For, If, Yield
from iris.ir.core import Module, Op, Region, Value
from iris.ir.math import Constant, Predicate, element_type
from iris.ir.types import DType, Tile
from iris.passes.pipeline import Pass

# A block along one axis: it is inside if this sum is not negative.
Slack = Sum
# What has all of a tile at once.  A stretch of a program ends there: all else goes element by
# element, and is made twice at no cost but the text's.
COMBINES = (
    tile.Dot,
    tile.Flip,
    tile.Gather,
    tile.Pick,
    tile.Reduce,
    tile.Scan,
    tile.Stage,
    tile.Unstage,
)


@dataclass(frozen=True)
class SplitInterior(Pass):
    """Access blocks that are all inside their arrays without a check of each element.

        for %c0, %k, %c32 (%i: i32, %a: tile<32xf32> = %zero) {
          %x: tile<32xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%n]
          ...
        }

    becomes

        for %c0, %k, %c32 (%i: i32, %a: tile<32xf32> = %zero) {
          %last: i32 = add %n, %cm32               // where the last block inside starts
          %inside: bool = compare le %i, %last     // and that %n is no less, unless that is known
          %x: tile<32xf32> = if %inside {
            %end: i32 = add %i, %c32
            %y: tile<32xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%end]
            yield %y
          } else {
            %z: tile<32xf32> = tile.load_tile %X, offsets=[%i], strides=[%c1], bounds=[%n]
            yield %z
          }
          ...
        }

    One condition serves a stretch of a region: from the first access of a block to the last,
    with what goes element by element between them, but not with what combines the elements of a
    tile.  In a loop this leaves out the checks of all rounds but few; outside, where it is once
    that something is checked, it is done only for what can then access more elements at once.

    Where blocks divide what a loop goes over, no round of it is at the edge, and none checks.
    """

    name = "split-interior"
    level = tile.TileOp.level

    def run(self, module: Module) -> dict[str, int]:
        loops = stretches = 0
        for function in module:
            for op in function.walk():
                if isinstance(op, For):
                    loops += _relax_loop(op)
            stretches += _visit(function.regions[0], in_loop=False)
        return {"loops": loops, "stretches": stretches}


def _relax_loop(loop: For) -> bool:
    """Leave out checks in a loop that has no round at the edge."""
    sums, axes = Sums(), Axes()
    lower, upper = sums.scalar(loop.lower), sums.scalar(loop.upper)
    step = loop.step.op
    if not isinstance(step, Constant) or step.value <= 0 or lower is None or upper is None:
        return False
    if not is_nonnegative(lower):  # the distance to the end might not fit its type
        return False
    if any(axes.of(v).everywhere % int(step.value) for v in (loop.lower, loop.upper)):
        return False
    slack = plus(upper, {(loop.body.arguments[0],): 1, (): int(step.value)}, -1)
    if not any(
        _is_implied(r, [slack]) and not _is_implied(r, []) for r in _slacks(loop.body, sums)
    ):
        return False
    _relax(loop.body, [slack], sums)
    return True


def _visit(region: Region, *, in_loop: bool) -> int:
    """Split off the interior of what is in a region; gives of how many stretches."""
    found = 0
    for op in region:
        for inner in op.regions:
            found += _visit(inner, in_loop=in_loop or op.loops)
    runs = [
        ops
        for ops in _elementwise_runs(region)
        if any(isinstance(op, tile.TileAccess) for op in ops)
    ]
    return found + sum(_Stretch(ops, in_loop=in_loop).split() for ops in runs)


def _elementwise_runs(region: Region) -> list[list[Op]]:
    """The ops of a region, in runs of such as go element by element."""
    runs: list[list[Op]] = [[]]
    for op in region:
        if op.regions or op.terminator or isinstance(op, COMBINES):
            runs.append([])
        else:
            runs[-1].append(op)
    return runs


class _Stretch:
    """What lies in a run of ops from the first access of a block to the last."""

    def __init__(self, run: Sequence[Op], *, in_loop: bool):
        self.in_loop = in_loop
        self.sums, self.axes = Sums(), Axes()
        accesses = [op for op in run if isinstance(op, tile.TileAccess)]
        start = run.index(accesses[0])
        self.early = _hoistable(run, start)  # what is computed between them, and can be before
        self.late = {op for op in run[start:] if op not in self.early}
        self.wanted = {op: found for op in accesses if (found := self._unchecked_axes(op))}
        inside = [n for n, op in enumerate(run) if op in self.wanted]
        self.ops = run[inside[0] : inside[-1] + 1] if inside else []

    def _unchecked_axes(self, op: tile.TileAccess) -> list[int]:
        """Along which axes a block may leave its array, as can be told before the stretch."""
        axes = []
        for axis, size in enumerate(op.block.shape):
            if not self.in_loop and _is_wide(op, axis, self.axes):
                continue
            slack = _slack(op.offsets[axis], size, op.bounds[axis], self.sums)
            if slack is None or _is_implied(slack, []):
                continue
            is_early = all(v.op not in self.late for product in slack for v in product)
            if is_early and not is_nonnegative(plus({(): -1}, slack, -1)):  # it never has room
                axes.append(axis)
        return axes if self.in_loop else [a for a in axes if _would_widen(op, a, self.axes)]

    def split(self) -> bool:
        """Put the stretch under a condition."""
        if not self.ops:
            return False
        first = self.ops[0]
        region = first.enclosing
        for op in [op for op in self.ops if op in self.early]:
            op.detach()
            first.insert_before(op)
        self.ops = [op for op in self.ops if op not in self.early]
        slacks: list[Slack] = []
        # Constants are of no line.
        location = next((op.location for op in self.ops if op.location is not None), None)
        inside = self._inside(Builder(region, first, location), slacks)
        given = [v for op in self.ops for v in op.results if not self._contains(v.users)]
        # Masks that are made before are made again, for there they may be known to be true.
        then = _copied_region([*self._masks(), *self.ops], given)
        otherwise = _copied_region(self.ops, given)
        branch = If.create((inside,), (), [v.type for v in given], (then, otherwise))
        branch.location = location
        first.insert_before(branch)
        for old, new in zip(given, branch.results, strict=True):
            new.name = old.name
            old.replace_by(new)
        for op in reversed(self.ops):
            op.erase()
        _relax(then, slacks, Sums())
        return True

    def _contains(self, users: Iterable[Op]) -> bool:
        """Whether all of some ops are of the stretch."""
        return set(self.ops).issuperset(users)

    def _inside(self, b: Builder, slacks: list[Slack]) -> Value:
        """Whether the blocks are all inside."""
        holds: list[Value] = []
        for op, axes in self.wanted.items():
            for axis in axes:
                offset, bound, size = op.offsets[axis], op.bounds[axis], op.block.shape[axis]
                slack = _slack(offset, size, bound, self.sums)
                if slack is None or slack in slacks:
                    continue
                slacks.append(slack)
                holds += self._fits(b, offset, bound, size)
        inside = holds[0]
        for also in holds[1:]:
            inside = b(math.And(inside, also))
        inside.name = "inside"
        return inside

    def _fits(self, b: Builder, offset: Value, bound: Value, size: int) -> Iterator[Value]:
        """The conditions under which there is room for a block."""
        start, end = self.sums.scalar(offset), self.sums.scalar(bound)
        type_ = offset.type.element
        assert start is not None and end is not None, "there is room where a sum is not known"
        if start.keys() <= {()}:
            behind, ends = plus(start, {(): size}), materialise(end, type_, b)
            yield b(math.Compare(Predicate.GE, ends, materialise(behind, type_, b)))
            return
        last = materialise(plus(end, {(): -size}), type_, b)
        last.name = "last"
        if not is_nonnegative(end):  # a bound far below 0 has no number so much lower
            yield b(math.Compare(Predicate.LT, last, materialise(end, type_, b)))
        yield b(math.Compare(Predicate.LE, materialise(start, type_, b), last))

    def _masks(self) -> list[Op]:
        """What is made before the stretch, in its region, of integers and comparisons of them."""
        found: dict[Op, None] = {}
        region = self.ops[0].parent

        def visit(op: Op) -> None:
            for value in op.operands:
                source = value.op
                if (
                    source is not None
                    and source.parent is region
                    and source not in found
                    and not self._contains((source,))
                    and source.touches_nothing
                    and not source.regions
                    and not isinstance(source, COMBINES)
                    and isinstance(value.type, Tile)
                    and not value.type.element.is_float
                ):
                    visit(source)
                    found[source] = None

        for op in self.ops:
            visit(op)
        return list(found)


def _copied_region(ops: Sequence[Op], given: Sequence[Value]) -> Region:
    """A region that does as some ops do, and gives what they give."""
    region = Region()
    mapping: dict[Value, Value] = {}
    for op in ops:
        region.append(op.clone(mapping))
    region.append(Yield([mapping[v] for v in given], location=ops[-1].location))
    return region


def _hoistable(run: Sequence[Op], start: int) -> dict[Op, None]:
    """What comes after a start and may as well come before it: scalars made of such."""
    early: dict[Op, None] = {}
    late = {run[start]}
    for op in run[start + 1 :]:
        is_scalar = op.touches_nothing and all(isinstance(v.type, DType) for v in op.results)
        if is_scalar and late.isdisjoint([v.op for v in op.operands]):
            early[op] = None
        else:
            late.add(op)
    return early


def _blocks(region: Region) -> Iterator[tile.TileAccess]:
    for op in region.walk():
        if isinstance(op, tile.TileAccess):
            yield op


def _slack(offset: Value, size: int, bound: Value, sums: Sums) -> Slack | None:
    """What is left of an axis behind a block."""
    start, end = sums.scalar(offset), sums.scalar(bound)
    return None if start is None or end is None else plus(plus(end, start, -1), {(): -size})


def _slacks(region: Region, sums: Sums) -> Iterator[Slack]:
    for op in _blocks(region):
        for offset, size, bound in zip(op.offsets, op.block.shape, op.bounds, strict=True):
            slack = _slack(offset, size, bound, sums)
            if slack is not None:
                yield slack


def _is_implied(slack: Slack, facts: list[Slack]) -> bool:
    """Whether a sum is known not to be negative, given some that are not."""
    left = [plus(slack, fact, -1) for fact in ({}, *facts)]
    return any(rest.keys() <= {()} and rest.get((), 0) >= 0 for rest in left)


def _is_wide(op: tile.TileAccess, axis: int, axes: Axes) -> bool:
    """Whether no more of a block could be accessed at once along an axis."""
    if order(op, axes)[0] != axis:
        return True
    most = min(op.block.shape[axis], VECTOR_BYTES // op.block.element.bytes)
    return vector(op, axis, axes) >= most


def _would_widen(op: tile.TileAccess, axis: int, axes: Axes) -> bool:
    """Whether more of a block could be accessed at once if it were known to be inside along an
    axis."""
    now = vector(op, axis, axes)
    bounds = tuple(op.offsets[a] if a == axis else v for a, v in enumerate(op.bounds))
    relaxed = op.clone({})
    relaxed.set_operands((*op.operands[: -len(bounds)], *bounds))
    wider = vector(relaxed, axis, axes) > now
    relaxed.erase()
    return wider


def _relax(region: Region, facts: list[Slack], sums: Sums) -> None:
    """Leave out what is known: bounds become the blocks' own ends, comparisons true."""
    for op in region.walk():
        if isinstance(op, tile.TileAccess):
            _relax_block(op, facts, sums)
        elif isinstance(op, math.Compare) and op.predicate is Predicate.LT:
            _relax_comparison(op, facts, sums)


def _relax_block(op: tile.TileAccess, facts: list[Slack], sums: Sums) -> None:
    b = Builder.before_op(op)
    bounds = list(op.bounds)
    for axis, size in enumerate(op.block.shape):
        slack = _slack(op.offsets[axis], size, bounds[axis], sums)
        if slack is not None and _is_implied(slack, facts) and not _is_implied(slack, []):
            offset = op.offsets[axis]
            bounds[axis] = b(math.Add(offset, b(Constant(size, offset.type.element))))
    op.set_operands((*op.operands[: -len(bounds)], *bounds))


def _relax_comparison(op: math.Compare, facts: list[Slack], sums: Sums) -> None:
    """`start + arange < end` holds everywhere if there is room."""
    index, end = sums.of(op.lhs), sums.scalar(op.rhs)
    if index is None or end is None:
        return
    moving = [axis for axis in index if axis is not None]
    if len(moving) != 1 or index[moving[0]] != {(): 1}:
        return
    (axis,) = moving
    shape = element_type(op.lhs.type).shape
    start = index.get(None, {})
    if _is_implied(plus(plus(end, start, -1), {(): -shape[axis]}), facts):
        true = Constant.of_bits(1, element_type(op.result.type))
        true.location = op.location
        op.insert_before(true)
        op.result.replace_by(true.result)
        op.erase()
