"""Random programs of Metal IR: what they are made of, and that passes and orders do not matter."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import Phase, given, seed, settings

from iris.ir import metal
from iris.ir.control import For, If, While
from iris.ir.metal import Scope
from iris.ir.types import Ptr, f32
from iris.ir.uniformity import SIMDGROUP, VARYING, Uniformity, guards, uniformity
from iris.testing import all_preserve, interleaves, orders, programs
from iris.testing.choices import Choices
from iris.testing.hazards import Use
from iris.testing.metal_memory_makers import turned_place
from iris.testing.metals import MetalDraft
from iris.tools.replay import Program

ORDERED = "allocate-threadgroup{budget=0},insert-barriers"
FUSED = "fuse-register-loops,fold,canonicalize,cse,licm,dce"


@settings(max_examples=60)
@given(programs.metal())
def test_passes_preserve_programs(program: Program) -> None:
    all_preserve([*programs.GENERIC, FUSED], program)


@settings(max_examples=60)
@given(programs.metal())
def test_it_does_not_matter_which_simdgroup_goes_on(program: Program) -> None:
    interleaves(program)


@settings(max_examples=60)
@given(programs.metal(divergent=False))
def test_barriers_are_placed_where_programs_need_them(program: Program) -> None:
    orders("insert-barriers", program)
    orders(ORDERED, program)


@settings(max_examples=60)
@given(programs.metal(divergent=False, ops=[For, While, If], max_ops=2))
def test_barriers_are_placed_where_short_programs_need_them(program: Program) -> None:
    orders(ORDERED, program)


@settings(max_examples=60)
@given(programs.metal(divergent=False, ops=[For, While, If], max_ops=2))
def test_threads_are_made_to_agree(program: Program) -> None:
    orders("uniform-conditions,insert-barriers", program, hidden=True)


@seed(2)  # one of these had a branch whose sides raced
@settings(max_examples=300, phases=[Phase.generate])
@given(programs.metal(ops=[If, metal.Load, metal.Store, metal.Alloc], max_ops=12))
def test_threads_on_both_sides_of_a_branch_keep_apart(program: Program) -> None:
    interleaves(program, seconds=0)


def drawn(number: int) -> list[Program]:
    found: list[Program] = []

    @settings(max_examples=number, phases=[Phase.generate])
    @given(programs.metal())
    def draw(program: Program) -> None:
        found.append(program)

    draw()
    return found


def kinds_of(program: Program) -> set[object]:
    """What there is in a program of what programs are to have often enough."""
    levels = uniformity(program.function)
    kinds: set[object] = {program.function.simdgroups}
    for op in program.module.walk():
        if op.convergent and not isinstance(op, metal.Barrier):
            kinds.add("exchange")
        if isinstance(op, metal.Barrier):
            kinds.add(op.scope)
            if op.parent_op is not None and op.parent_op.loops:
                kinds.add("barrier in a loop")
        if isinstance(op, For | While | If):
            kinds.add("loop" if op.loops else "branch")
            if any(levels[guard] is VARYING for guard in guards[type(op)](op)):
                kinds.add("divergence")
        if isinstance(op, metal.Load | metal.Store):
            moved = op.value if isinstance(op, metal.Store) else op.result
            kinds |= {"mask"} if op.mask is not None else set()
            if isinstance(op.base.type, Ptr) and metal.count_of(moved.type) > 1:
                kinds.add(("vector", op.base.type.aligned))
        if isinstance(op, metal.Atomic):
            kinds.add(("atomic", isinstance(op.base.type, Ptr)))
    return kinds


def test_programs_vary() -> None:
    number = 100
    found = Counter(kind for program in drawn(number) for kind in kinds_of(program))
    wanted = {
        **dict.fromkeys((1, 2, 4, 8, *Scope), 10),
        **dict.fromkeys(("loop", "branch", "exchange", "mask", "divergence"), 30),
        **dict.fromkeys([("vector", aligned) for aligned in (False, True)], 30),
        **dict.fromkeys([("atomic", device) for device in (False, True)], 5),
        "barrier in a loop": 10,
    }
    print({kind: found[kind] for kind in wanted})
    assert not [kind for kind, least in wanted.items() if found[kind] < least]


@pytest.mark.parametrize("flow", [SIMDGROUP, VARYING])
def test_threads_that_parted_ways_write_nowhere_by_turns(flow: Uniformity) -> None:
    together, apart = (MetalDraft([], Choices(b""), [f32]) for _ in range(2))
    apart.flow = flow
    places = [
        turned_place(draft, draft.exchanged(f32), Use.WRITE, 1, Choices(b""))
        for draft in (together, apart)
    ]
    assert places[0] is not None
    assert places[1] is None
