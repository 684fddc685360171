"""Allocating threadgroup memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iris.analysis.carried_memory import accesses
from iris.cost.occupancy import busy, simdgroups_per_core
from iris.cost.resources import aligned
from iris.ir import metal
from iris.ir.control import Func
from iris.ir.core import Level, Module, Op, Value
from iris.ir.types import Threadgroup, u8
from iris.passes.pipeline import TargetPass
from iris.targets import Target


@dataclass(frozen=True)
class AllocateThreadgroup(TargetPass):
    """Let allocations with disjoint lifetimes share memory, if a core then holds more programs.

        %a: threadgroup<4096xf32> = metal.alloc
        metal.store %a, %i, %x
        %y: f32 = metal.load %a, %j
        %b: threadgroup<8192xf16> = metal.alloc
        metal.store %b, %i, %z
        %w: f16 = metal.load %b, %j

    becomes

        %arena: threadgroup<16384xu8> = metal.alloc
        %a: threadgroup<4096xf32> = metal.view 0 %arena
        metal.store %a, %i, %x
        %y: f32 = metal.load %a, %j
        %b: threadgroup<8192xf16> = metal.view 0 %arena
        metal.store %b, %i, %z
        %w: f16 = metal.load %b, %j

    An allocation is in use from its first access to its last; if those are in a loop that the
    allocation is not in, from the loop's first op to its last, for what a round leaves there the
    next may find.  An access by the name under which a loop carries it is one.

    To share costs barriers: what one allocation holds must have been read before the other is
    written.  So memory used in one iteration is shared only if all take more than `budget`
    bytes together, which by default leaves a core room for two threadgroups: one works while the
    other waits at a barrier.  Other allocations are shared where a core then holds more.
    """

    name = "allocate-threadgroup"
    level = Level.METAL
    budget: int | None = None

    def run(self, module: Module) -> dict[str, int]:
        target, budget = self.target, self.budget
        if budget is None:
            budget = _default_budget(target)
        functions = [f for f in module if isinstance(f, Func)]
        return {"shared": sum(_allocate(f, budget, target) for f in functions)}


@dataclass
class _Block:
    """An allocation: when it is in use, as the numbers of ops, and where it gets to be."""

    op: metal.Alloc
    first: int
    last: int
    start: int = 0

    @property
    def end(self) -> int:
        return self.start + aligned(self.op.result.type_as(Threadgroup).bytes)

    def is_in_rounds_of(self, other: _Block) -> bool:
        """Whether both allocations stand in one loop."""
        here = self.op.parent_op
        while here is not None and not (here.loops and other.op.is_inside(here)):
            here = here.parent_op
        return here is not None


def sharing_pays(function: Func, target: Target) -> bool:
    """Whether allocations should share memory."""
    return _is_better_placed(function, _blocks(function), _default_budget(target), target)


def _default_budget(target: Target) -> int:
    return min(target.threadgroup_bytes, target.core_threadgroup_bytes // 2)


def _is_better_placed(
    function: Func, blocks: Sequence[_Block], budget: int, target: Target
) -> bool:
    """Place blocks, which start at 0; whether they take less than is there, or keep more busy."""
    total = sum(block.end for block in blocks)
    _place(blocks, in_rounds=total > budget)
    least = max((block.end for block in blocks), default=0)
    now, then = (
        busy(simdgroups_per_core(n, function.simdgroups or 1, target), target)
        for n in (total, least)
    )
    return total > budget or then > now


def _allocate(function: Func, budget: int, target: Target) -> int:
    blocks = _blocks(function)
    if not _is_better_placed(function, blocks, budget, target):
        return 0
    shared = 0
    for group in _groups(blocks):
        if len(group) > 1:
            _share(function, group)
            shared += len(group)
    return shared


def _blocks(function: Func) -> list[_Block]:
    ops = function.walk()
    allocations = [op for op in ops if type(op) is metal.Alloc]
    if not allocations:
        return []
    numbers = dict(zip(ops, range(len(ops)), strict=True))
    found = []
    for op in allocations:
        used = lifetime(op.result, numbers)
        if used is not None:
            found.append(_Block(op, *used))
    return found


def lifetime(memory: Value, numbers: Mapping[Op, int]) -> tuple[int, int] | None:
    """The numbers of the first and the last op for which memory, an allocation or a view of one, is
    in use; None if it is never accessed."""
    home = memory.producer.parent_op
    spans = [_span(use, home, numbers) for use in accesses(memory)]
    if not spans:
        return None
    return min([first for first, _ in spans]), max([last for _, last in spans])


def _span(use: Op, home: Op | None, numbers: Mapping[Op, int]) -> tuple[int, int]:
    """The numbers of the first and the last op of the outermost loop around a use, within the op
    in which the allocation stands; of the use itself if there is none."""
    widest = use
    around = use.parent_op
    while around is not None and around is not home:
        if around.loops:
            widest = around
        around = around.parent_op
    last = widest
    while last.regions:
        last = last.regions[-1].end
    return numbers[widest], numbers[last]


def _place(blocks: Sequence[_Block], *, in_rounds: bool) -> None:
    """Put each block, large ones first, at the lowest offset that no block live with it uses.

    Blocks of the same iterations of a loop count as live together, unless `in_rounds`.
    """
    placed: list[_Block] = []
    for block in sorted(blocks, key=lambda b: (-b.end, b.first)):
        together = [
            b
            for b in placed
            if (b.first <= block.last and block.first <= b.last)
            or (block.is_in_rounds_of(b) and not in_rounds)
        ]
        for other in sorted(together, key=lambda b: b.start):
            if block.end <= other.start:
                break
            block.start = max(block.start, other.end)
        placed.append(block)


def _groups(blocks: Sequence[_Block]) -> Iterator[list[_Block]]:
    """The blocks in groups that have no byte in common."""
    group: list[_Block] = []
    end = 0
    for block in sorted(blocks, key=lambda b: b.start):
        if group and block.start >= end:
            yield group
            group = []
        group.append(block)
        end = max(end, block.end)
    yield group


def _share(function: Func, group: Sequence[_Block]) -> None:
    """Make the blocks of a group views of one allocation."""
    low, high = group[0].start, max(b.end for b in group)
    arena = metal.Alloc(Threadgroup(high - low, u8), location=group[0].op.location)
    arena.result.name = "arena"
    function.body.insert(arena, function.body.first)
    for block in group:
        old = block.op
        view = metal.View(block.start - low, arena.result, old.result.type, location=old.location)
        view.result.name = old.result.name
        old.insert_before(view)
        old.result.replace_by(view.result)
        old.erase()
