"""Programs store where they have stored, so that wrong passes over stores and loads are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis.strategies import SearchStrategy

from iris.ir import Module, Value, metal, tile
from iris.ir.control import If
from iris.ir.core import Effect, Op, Region, Resource
from iris.ir.effects import effects_within, may_alias, reads, writes
from iris.ir.math import Select
from iris.passes import Pass
from iris.testing import all_preserve, overwrites, preserves, programs
from iris.testing.properties import PROPERTIES
from iris.tools.replay import Program

ACCESSES = (metal.Load, metal.Store, metal.Atomic)
LOADS = (tile.Load, tile.LoadTile)
STORES = (tile.Store, tile.StoreTile)
ATOMICS = (tile.Atomic, tile.AtomicCas)


@dataclass(frozen=True)
class OfMemory(Pass):
    """A pass over loads and stores that is right but for one thing, which it overlooks."""

    overlooks: str = ""

    def run(self, module: Module) -> None:
        for function in module:
            self.block(function.regions[0], {})

    def block(self, region: Region, known: dict[object, Op]) -> None:
        raise NotImplementedError

    def place(self, op: Any) -> object:
        """What accesses of the same elements have in common."""
        if isinstance(op, tile.TileAccess):
            return op.base, op.limit, op.offsets, op.strides, op.bounds, op.block
        type_ = op.value.type if isinstance(op, STORES) else op.result.type
        offset = None if self.overlooks == "offsets" else op.offset
        return op.base, offset, None if self.overlooks == "masks" else op.mask, type_

    def effects(self, op: Op) -> Sequence[Effect]:
        overlooked = {
            "atomics": isinstance(op, ATOMICS),
            "blocks": isinstance(op, tile.TileAccess),
            "regions": bool(op.regions),
        }
        return [] if overlooked.get(self.overlooks) else effects_within(op)

    def forget(self, known: dict[object, Any], touched: Sequence[Value | Resource]) -> None:
        meet = (lambda a, b: a is b) if self.overlooks == "aliases" else may_alias
        for place, store in [*known.items()]:
            if any(meet(store.base, other) for other in touched):
                del known[place]


@dataclass(frozen=True)
class Forward(OfMemory):
    """Give a load what was stored where it loads."""

    name = "test-forward"

    def block(self, region: Region, known: dict[object, Op]) -> None:
        for op in region:
            for inner in op.regions:
                self.block(inner, dict(known) if self.overlooks == "loops" else {})
            if isinstance(op, LOADS) and self._forward(op, known):
                continue
            self.forget(known, writes(self.effects(op)))
            # What lies beyond the bounds of a block reads 0, whatever was stored.
            if isinstance(op, STORES if self.overlooks == "bounds" else tile.Store):
                known[self.place(op)] = op

    def _forward(self, op: Any, known: dict[object, Any]) -> bool:
        store = known.get(self.place(op))
        if store is None or (isinstance(op, tile.Load) and op.volatile):
            return False
        value = store.value
        if isinstance(op, tile.Load) and op.mask is not None and self.overlooks != "other":
            chosen = Select(op.mask, value, op.other)
            op.insert_before(chosen)
            value = chosen.result
        op.result.replace_by(value)
        op.erase()
        return True


@dataclass(frozen=True)
class DropStores(OfMemory):
    """Drop a store that a later one hides."""

    name = "test-drop-stores"

    def block(self, region: Region, known: dict[object, Op]) -> None:
        for op in region:
            for inner in op.regions:
                self.block(inner, {})
            is_store, effects = isinstance(op, STORES), self.effects(op)
            is_overlooked = self.overlooks == "reads" and isinstance(op, LOADS)
            touched = [] if is_overlooked else reads(effects)
            self.forget(known, touched if is_store else [*touched, *writes(effects)])
            if is_store:
                before = known.pop(self.place(op), None)
                if before is not None:
                    before.erase()
                known[self.place(op)] = op


WRONG = [
    *[Forward(x) for x in ("aliases", "masks", "other", "blocks", "bounds", "regions")],
    Forward("loops"),
    *[DropStores(x) for x in ("aliases", "masks", "reads", "atomics", "offsets")],
]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_wrong_pass_over_stores_is_found(wrong: OfMemory) -> None:
    is_found(wrong, overwrites.programs(), 400)


@pytest.mark.parametrize("make", [Forward, DropStores])
@pytest.mark.parametrize("overlooked", ["masks", "aliases", "regions"])
def test_longer_programs_find_wrong_passes(make: type[OfMemory], overlooked: str) -> None:
    is_found(make(overlooked), programs.tile(ops=(tile.Load, tile.Store)), 1000)


@pytest.mark.parametrize("overlooked", ["blocks", "bounds"])
def test_fuzzing_draws_programs_that_find_wrong_passes(overlooked: str) -> None:
    is_found(Forward(overlooked), PROPERTIES["passes"].draw(), 1200)


def is_found(wrong: OfMemory, drawn: SearchStrategy[Program], examples: int) -> None:
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

    with pytest.raises(AssertionError, match="what the program does"):
        test()


@settings(max_examples=15, deadline=None)
@given(overwrites.programs())
def test_right_passes_over_stores_are_right(program: Program) -> None:
    all_preserve([Forward(), DropStores()], program)


def test_branches_write_where_threads_come_back_to() -> None:
    found = 0

    @settings(max_examples=60, phases=[Phase.generate], database=None, deadline=None)
    @given(programs.metal(ops=(metal.Load, metal.Store)))
    def count(program) -> None:  # type: ignore[no-untyped-def]
        nonlocal found
        for op in program.module.walk():
            if isinstance(op, If):
                inner = {access.offset for access in op.walk() if isinstance(access, ACCESSES)}
                around = [access.offset for access in op.parent if isinstance(access, ACCESSES)]
                found += any(around.count(offset) > 1 for offset in inner)

    count()
    assert found > 2, found
