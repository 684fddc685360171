"""Thread programs come back to places in memory, so that wrong passes over accesses are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis.strategies import SearchStrategy

from iris.ir import Module, Value, math, metal
from iris.ir.builder import Builder
from iris.ir.control import For
from iris.ir.core import Effect, Op, Region, Resource
from iris.ir.effects import effects_within, may_alias, reads, writes
from iris.ir.math import element_type
from iris.passes import Pass
from iris.testing import all_preserve, interleaves, preserves, revisits
from iris.testing.properties import PROPERTIES
from iris.tools.replay import Program
from support import counts

ATOMICS = (metal.Atomic, metal.AtomicLoad, metal.CompareExchange)


@dataclass(frozen=True)
class Wrong(Pass):
    """What a pass overlooks; nothing: then it is right."""

    overlooks: str = ""


@dataclass(frozen=True)
class OfMemory(Wrong):
    """A pass that remembers accesses as long as nothing comes in between."""

    def run(self, module: Module) -> None:
        for function in module:
            self.block(function.regions[0], {})

    def block(self, region: Region, known: dict[object, Any]) -> None:
        for op in region:
            for inner in op.regions:
                self.block(inner, dict(known) if self.overlooks == "loops" else {})
            self.visit(op, known)

    def visit(self, op: Op, known: dict[object, Any]) -> None:
        raise NotImplementedError

    def place(self, op: Any) -> object:
        """What accesses of the same elements have in common."""
        type_ = element_type((op.value if isinstance(op, metal.Store) else op.result).type)
        width = None if self.overlooks == "widths" else type_
        offset = None if self.overlooks == "offsets" else op.offset
        return op.base, offset, None if self.overlooks == "masks" else op.mask, width

    def effects(self, op: Op) -> Sequence[Effect]:
        overlooked = {
            "atomics": isinstance(op, ATOMICS),
            "barriers": isinstance(op, metal.Barrier),
            "copies": isinstance(op, metal.Copy | metal.WaitCopies),
            "regions": bool(op.regions),
        }
        return [] if overlooked.get(self.overlooks) else effects_within(op)

    def forget(self, known: dict[object, Any], op: Op, touched: Sequence[Value | Resource]) -> None:
        for place, access in [*known.items()]:
            if access.parent is None or any(self._meet(access, op, x) for x in touched):
                del known[place]

    def _meet(self, access: Any, op: Op, other: Value | Resource) -> bool:
        if self.overlooks == "aliases":
            return access.base is other or isinstance(other, Resource)
        by_offset = self.overlooks in ("overlaps", "barriers")
        if by_offset and isinstance(op, metal.Load | metal.Store) and op.base is access.base:
            return op.offset is access.offset
        return may_alias(access.base, other)


@dataclass(frozen=True)
class ForwardStores(OfMemory):
    """Give a load what was stored where it loads."""

    name = "test-forward-stores"

    def visit(self, op: Op, known: dict[object, Any]) -> None:
        if isinstance(op, metal.Load) and self._forward(op, known.get(self.place(op))):
            return
        self.forget(known, op, writes(self.effects(op)))
        if isinstance(op, metal.Store):
            known[self.place(op)] = op

    def _forward(self, op: metal.Load, store: metal.Store | None) -> bool:
        if store is None or op.volatile or store.value.type is not op.result.type:
            return False
        value = store.value
        if op.mask is not None and self.overlooks != "other":
            value = Builder(op.parent, op)(math.Select(op.mask, value, op.other))
        op.result.replace_by(value)
        op.erase()
        return True


@dataclass(frozen=True)
class DropStores(OfMemory):
    """Drop a store that a later one hides."""

    name = "test-drop-stores"

    def visit(self, op: Op, known: dict[object, Any]) -> None:
        is_store, effects = isinstance(op, metal.Store), self.effects(op)
        touched = reads(effects)
        if self.overlooks == "reads" and isinstance(op, metal.Load):
            touched = []
        if not is_store or self.overlooks == "overlaps":
            touched = [*touched, *writes(effects)]
        self.forget(known, op, touched)
        if is_store:
            before = known.pop(self.place(op), None)
            if before is not None:
                before.erase()
            known[self.place(op)] = op


@dataclass(frozen=True)
class MergeLoads(OfMemory):
    """Load once what is there twice."""

    name = "test-merge-loads"

    def visit(self, op: Op, known: dict[object, Any]) -> None:
        if isinstance(op, metal.Load) and not op.volatile:
            other = None if self.overlooks == "other" else op.other
            before = known.setdefault((self.place(op), other), op)
            if before is not op and before.result.type is op.result.type:
                op.result.replace_by(before.result)
                op.erase()
            return
        if not (self.overlooks == "stores" and isinstance(op, metal.Store)):
            self.forget(known, op, writes(self.effects(op)))


@dataclass(frozen=True)
class HoistLoads(OfMemory):
    """Load before a loop what nothing in it writes."""

    name = "test-hoist-loads"

    def visit(self, op: Op, known: dict[object, Any]) -> None:
        if not isinstance(op, For):
            return
        written = [
            (inner, place)
            for inner in op.walk()
            if not inner.regions
            and not (self.overlooks == "stores" and isinstance(inner, metal.Store))
            for place in writes(self.effects(inner))
        ]
        for load in [load for load in op.body if isinstance(load, metal.Load)]:
            may_move = not load.volatile and op.surely_runs(op.body)
            is_steady = not any(v.is_inside(op) for v in load.operands)
            is_written = any(self._meet(load, at, place) for at, place in written)
            if may_move and is_steady and not is_written:
                load.detach()
                op.insert_before(load)


@dataclass(frozen=True)
class ChangeBarriers(Wrong):
    """Drop barriers, let them order less, or move stores over them; and waits for copies."""

    name = "test-change-barriers"

    def run(self, module: Module) -> None:
        for op in module.walk():
            before = op.previous
            if self.overlooks == "copies" and isinstance(op, metal.WaitCopies):
                op.erase()
            elif not isinstance(op, metal.Barrier):
                continue
            elif self.overlooks == "turns" and op.parent_op.loops:
                op.erase()
            elif self.overlooks == "device" and op.scope is metal.Scope.DEVICE:
                op.attributes = (metal.Scope.THREADGROUP,)
            elif self.overlooks == "threadgroup" and op.scope is metal.Scope.THREADGROUP:
                op.attributes = (metal.Scope.SIMDGROUP,)
            elif self.overlooks == "stores" and isinstance(before, metal.Store):
                op.detach()
                before.insert_before(op)


WRONG: list[Wrong] = [
    *[ForwardStores(x) for x in ("masks", "other", "aliases", "barriers", "atomics", "regions")],
    *[ForwardStores(x) for x in ("loops", "overlaps", "offsets", "copies")],
    *[DropStores(x) for x in ("masks", "widths", "aliases", "barriers", "atomics", "regions")],
    *[DropStores(x) for x in ("loops", "reads", "offsets")],
    *[MergeLoads(x) for x in ("masks", "other", "aliases", "barriers", "atomics", "regions")],
    *[MergeLoads(x) for x in ("loops", "overlaps", "stores")],
    *[HoistLoads(x) for x in ("aliases", "barriers", "stores", "atomics", "overlaps")],
    *[ChangeBarriers(x) for x in ("turns", "device", "threadgroup", "stores", "copies")],
]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_wrong_pass_is_found(wrong: Wrong) -> None:
    is_found(wrong, revisits.programs(), 600)


def test_fuzzing_draws_them() -> None:
    is_found(ForwardStores("loops"), PROPERTIES["thread-passes"].draw(), 300)


def is_found(wrong: Wrong, drawn: SearchStrategy[Program], examples: int) -> None:
    """Programs show that a pass is wrong."""
    right = type(wrong)()

    @settings(max_examples=examples, phases=[Phase.generate], database=None, deadline=None)
    @given(drawn)
    def test(program: Program) -> None:
        made = [program.module.clone() for _ in range(2)]
        right.run(made[0])
        wrong.run(made[1])
        if made[0] != made[1]:  # else it is right here
            preserves(wrong, program, seconds=0)

    with pytest.raises(AssertionError, match=f"{wrong.name}.* (changed what|made a program that)"):
        test()


@settings(max_examples=counts(15, 500), deadline=None)
@given(revisits.programs())
def test_right_passes_are_not_accused(program: Program) -> None:
    all_preserve([ForwardStores(), DropStores(), MergeLoads(), HoistLoads()], program)


@settings(max_examples=counts(25, 1000), deadline=None)
@given(revisits.programs())
def test_simdgroups_may_come_in_any_order(program: Program) -> None:
    interleaves(program)
