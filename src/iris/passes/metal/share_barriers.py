"""Let exchanges through threadgroup memory share a barrier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

from iris.ir import metal
from iris.ir.control import Func
from iris.ir.core import Effect, Level, Module, Op, Region, Value
from iris.ir.declare import Access
from iris.ir.effects import conflict, effects_within, reads, writes
from iris.ir.types import Ptr, Threadgroup
from iris.passes.metal.allocate_threadgroup import sharing_pays
from iris.passes.pipeline import TargetPass


@dataclass(frozen=True)
class ShareBarriers(TargetPass):
    """Write to threadgroup memory before an earlier wait, so that `insert-barriers` needs one
    barrier for both exchanges.

        metal.store %a, %simdgroup, %x
        %xs: regs<4xf32> = metal.load %a, %c0
        %b: threadgroup<4xf32> = metal.alloc
        metal.store %b, %simdgroup, %y
        %ys: regs<4xf32> = metal.load %b, %c0

    becomes

        metal.store %a, %simdgroup, %x
        %b: threadgroup<4xf32> = metal.alloc
        metal.store %b, %simdgroup, %y
        %xs: regs<4xf32> = metal.load %a, %c0
        %ys: regs<4xf32> = metal.load %b, %c0

    A store moves with the ops that it needs, if none of them needs what comes after the wait.  Its
    memory then lives longer: a function whose allocations should share memory stays as it is.
    """

    name = "share-barriers"
    level = Level.METAL

    def run(self, module: Module) -> dict[str, int]:
        moved = 0
        for function in module:
            if isinstance(function, Func):
                # Asked only where there is a store to move: few functions have one.
                shares = cache(partial(sharing_pays, function, self.target))
                moved += _visit(function.body, shares)
        return {"stores": moved}


def _visit(region: Region, shares: Callable[[], bool]) -> int:
    """Move the stores of a region and of the regions inside it, unless the function `shares`
    memory; give how many moved."""
    moved = 0
    touched: set[Value] = set()
    unordered: set[Value] = set()  # written since the last wait
    op = region.first
    while op is not None:
        if op.touches_nothing and not op.regions:
            op = op.next
            continue
        effects = effects_within(op)
        touched.update(_memories(effects))
        waits = not unordered.isdisjoint(reads(effects))
        if waits and _is_plain(op):
            moved += _move_stores(op, touched, shares)
        elif not _is_plain(op):
            moved += sum([_visit(inner, shares) for inner in op.regions])
        if waits or not _is_plain(op):
            unordered.clear()
        unordered.update(_memories(e for e in effects if e.access.writes))
        op = op.next
    return moved


def _move_stores(wait: Op, touched: set[Value], shares: Callable[[], bool]) -> int:
    """Move later stores before an op, with the ops that they need; give how many moved."""
    movable: list[Op] = []
    stores: set[Op] = set()
    # The values and effects of the ops that stay, and the memories touched up to here.
    fixed = set(wait.results)
    passed = dict.fromkeys(effects_within(wait))
    touched = set(touched)
    op = wait.next
    while op is not None:
        effects = effects_within(op)
        is_store = _starts_exchange(op, effects, touched)
        stays = (
            not _is_plain(op)
            or not (is_store or _only_reads(effects))
            or not fixed.isdisjoint(_operands(op))
            or conflict(list(passed), effects)
        )
        touched.update(_memories(effects))
        if stays:
            fixed.update(op.results)
            passed.update(dict.fromkeys(effects))
        else:
            movable.append(op)
            if is_store:
                stores.add(op)
        op = op.next
    if not stores or shares():
        return 0
    needed: set[Value] = set()
    moving: list[Op] = []
    for op in reversed(movable):
        if op in stores or not needed.isdisjoint(op.results):
            needed.update(_operands(op))
            moving.append(op)
    for op in reversed(moving):
        op.detach()
        wait.insert_before(op)
    return len(stores)


def _is_plain(op: Op) -> bool:
    """Whether an op runs all that is in it once for each register, or has nothing in it."""
    return not op.terminator and (not op.regions or isinstance(op, metal.Foreach))


def _starts_exchange(op: Op, effects: Sequence[Effect], touched: set[Value]) -> bool:
    """Whether an op is the first to touch the memory that it writes, allocated beside it, and
    otherwise only reads."""
    written = writes(effects)
    others = [e for e in effects if not e.access.writes]
    return (
        bool(written)
        and _only_reads(others)
        and all(
            isinstance(memory, Value)
            and isinstance(memory.op, metal.Alloc)
            and memory.op.parent is op.parent
            and memory not in touched
            and all(isinstance(user, (metal.Load, metal.Store)) for user in memory.users)
            for memory in written
        )
    )


def _only_reads(effects: Sequence[Effect]) -> bool:
    """Whether effects are only reads of device memory and allocations."""
    return all(
        e.access is Access.ALLOCATE
        or (
            e.access is Access.READ
            and isinstance(e.resource, Value)
            and isinstance(e.resource.type, Ptr)
        )
        for e in effects
    )


def _memories(effects: Iterable[Effect]) -> Iterator[Value]:
    """The memories of the threadgroup that are read or written."""
    for access, resource in effects:
        if access is Access.ALLOCATE or not isinstance(resource, Value):
            continue
        if isinstance(resource.type, Threadgroup):
            yield resource


def _operands(op: Op) -> Iterator[Value]:
    """The operands of an op and of the ops in it."""
    for inner in op.walk():
        yield from inner.operands
