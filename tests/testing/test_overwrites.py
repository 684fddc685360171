"""Programs store where they have stored, so that wrong passes over stores and loads are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import Phase, given, settings

from iris.ir import Module, Value, metal, tile
from iris.ir.control import If
from iris.ir.core import Op, Region, Resource
from iris.ir.effects import effects_within, may_alias, reads, writes
from iris.passes import Pass
from iris.testing import preserves, programs

OPS = (tile.Load, tile.Store)
ACCESSES = (metal.Load, metal.Store, metal.Atomic)
Place = tuple[Value, Value]


def regions(module: Module) -> Iterator[Region]:
    return (region for op in module.walk() for region in op.regions)


def apart(place: Place, touched: Sequence[Value | Resource], bug: str) -> bool:
    """Whether what an op touches is surely not this place; a wrong pass goes by names."""
    if bug == "alias":
        return place[0] not in touched
    return not any(may_alias(place[0], other) for other in touched)


@dataclass(frozen=True)
class Forward(Pass):
    """Give a load what was stored where it loads."""

    name = "test-forward"
    bug: str = ""

    def run(self, module: Module) -> None:
        for region in regions(module):
            known: dict[Place, Value] = {}
            for op in region:
                if isinstance(op, tile.Load) and not op.volatile and op.mask is None:
                    value = known.get((op.base, op.offset))
                    if value is not None and value.type is op.result.type:
                        op.result.replace_by(value)
                        op.erase()
                elif not (op.regions and self.bug == "nested"):
                    touched = writes(effects_within(op))
                    known = {k: v for k, v in known.items() if apart(k, touched, self.bug)}
                if isinstance(op, tile.Store) and (op.mask is None or self.bug == "mask"):
                    known[op.base, op.offset] = op.value


@dataclass(frozen=True)
class DropStores(Pass):
    """Drop a store that a later one hides."""

    name = "test-drop-stores"
    bug: str = ""

    def run(self, module: Module) -> None:
        for region in regions(module):
            hidden: dict[Place, Op] = {}
            for op in region:
                place = (op.base, op.offset) if isinstance(op, tile.Store) else None
                if place is None and not (op.regions and self.bug == "nested"):
                    effects = effects_within(op)
                    touched = [*reads(effects), *writes(effects)]
                    hidden = {k: v for k, v in hidden.items() if apart(k, touched, self.bug)}
                if place is None:
                    continue
                before = hidden.pop(place, None)
                covers = len(op.operands) == 3 or self.bug == "mask"
                if before is not None and covers and before.operands[2].type is op.operands[2].type:
                    before.erase()
                hidden[place] = op


@pytest.mark.parametrize("make", [Forward, DropStores])
@pytest.mark.parametrize("bug", ["", "mask", "alias", "nested"])
def test_only_wrong_passes_over_stores_are_found(make: Callable[[str], Pass], bug: str) -> None:
    right, candidate = make(""), make(bug)

    examples = 1000 if bug else 40

    @settings(max_examples=examples, phases=[Phase.generate], database=None, deadline=None)
    @given(programs.tile(ops=OPS))
    def test(program) -> None:  # type: ignore[no-untyped-def]
        made = [program.module.clone() for _ in range(2)]
        right.run(made[0])
        candidate.run(made[1])
        if not bug or made[0] != made[1]:  # else it is right here
            preserves(candidate, program, seconds=0)

    if bug:
        with pytest.raises(AssertionError, match="changed what the program does"):
            test()
    else:
        test()


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
