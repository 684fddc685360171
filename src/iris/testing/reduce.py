"""Makes a program that shows a failure as small as it gets, whatever drew or wrote it.

    small = reduce(program, lambda p: fails(p))

The program is changed as IR: ops are left out or replaced by an operand or a number, regions are
run once, and the grid, sizes, numbers and arrays shrink.  An edit of ops is kept only if it lowers
the `load` of the program, so that no two edits undo each other for ever.  Where none does, an edit
that lowers nothing is kept if others after it do.  This takes seconds, and minutes if hypothesis
shrinks the choices that the program was drawn from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice

from iris.errors import IrisError
from iris.ir import Op, to_text, verify
from iris.ir.effects import has_side_effects
from iris.testing.edits import (
    Edit,
    drop,
    inline,
    load,
    of_arrays,
    of_constant,
    of_launch,
    of_op,
    of_threads,
    of_uses,
    ops_of,
    sideways,
)
from iris.testing.memory_edits import of_allocations, of_memory
from iris.testing.schedule_edits import fit_schedules, of_yields
from iris.testing.shape_edits import of_shapes
from iris.tools.replay import Program

SECONDS = 15.0


def reduce(
    program: Program,
    fails: Callable[[Program], bool],
    *,
    seconds: float = SECONDS,
    kept: Callable[[Program], object] = lambda program: None,
) -> Program:
    """The smallest program found in some seconds that still `fails`.

        reduce(program, lambda p: "race" in outcome(p), seconds=5)

    Only valid IR is tried.  `kept` is called with each smaller program, so that an interrupted
    run leaves the last one.
    """
    search = _Search(program, fails, time.monotonic() + seconds, kept)
    with suppress(_TimeOver):
        while search.round() or search.detour():
            pass
    return search.best


class _TimeOver(Exception):
    """Ends the search: to make edits takes time, too, even if none is tried."""


class _Search:
    """The best program so far, and what is tried of it."""

    def __init__(
        self,
        program: Program,
        fails: Callable[[Program], bool],
        end: float,
        kept: Callable[[Program], object],
    ):
        self.best = program
        self.fails = fails
        self.end = end
        self.kept = kept
        self.tried: set[object] = set()

    def round(self) -> bool:
        """Tries every edit; whether one was good."""
        # Loops go first, for what leaves out a part of one may run for ever.
        steps = (
            partial(self._drop_windows, _effects),
            partial(self._edit_launch, of_threads),
            partial(self._edit_ops, inline),
            partial(self._drop_windows, _all),
            self._drop_with_users,
            partial(self._edit_launch, of_launch),
            partial(self._edit_launch, of_shapes),
            partial(self._edit_ops, of_op),
            partial(self._edit_ops, of_yields),
            partial(self._edit_ops, of_uses),
            partial(self._edit_ops, of_memory),
            partial(self._edit_ops, of_constant),
            partial(self._edit_launch, of_allocations),
            partial(self._edit_launch, of_arrays),
        )
        return sum(step() for step in steps) > 0

    def detour(self) -> bool:
        """Tries edits that need not make the program lighter, each with one round after it."""
        for position in reversed(range(len(ops_of(self.best)))):
            for edit in sideways(ops_of(self.best)[position], position):
                if self._leads_below(edit):
                    return True
        return False

    def _leads_below(self, edit: Edit) -> bool:
        """Whether an edit, and others after it, make a lighter program that fails."""
        inner = _Search(self.best, self.fails, self.end, lambda program: None)
        inner.tried = self.tried
        if not inner._attempt(edit):
            return False
        inner.round()
        if not load(inner.best) < load(self.best):
            return False
        self.best = inner.best
        self.kept(self.best)
        return True

    def _drop_windows(self, chosen: Callable[[Sequence[Op]], Sequence[int]]) -> bool:
        """Leaves out, of the ops at chosen positions, some that follow each other: first many, in
        the end each one."""
        better = False
        size = len(chosen(ops_of(self.best)))
        while size:
            end = len(chosen(ops_of(self.best)))
            while end > 0:
                window = chosen(ops_of(self.best))[max(0, end - size) : end]
                better |= self._attempt(drop(window), lighter=True)
                end = min(end - size, len(chosen(ops_of(self.best))))
            size //= 2
        return better

    def _drop_with_users(self) -> bool:
        """Leaves out an op and all that is made of it, such as an allocation and its accesses."""
        better = False
        position = len(ops_of(self.best)) - 1
        while position >= 0:
            ops = ops_of(self.best)
            if position < len(ops):
                gone = _with_users(ops, position)
                better |= len(gone) > 1 and self._attempt(drop(gone), lighter=True)
            position -= 1
        return better

    def _edit_launch(self, edits: Callable[[Program], Iterator[Edit]]) -> bool:
        """Tries edits of how the program is launched, one at a time."""
        better = False
        number = 0
        while (edit := next(islice(edits(self.best), number, None), None)) is not None:
            if self._attempt(edit):
                better = True  # what is now at its place is next
            else:
                number += 1
        return better

    def _edit_ops(self, edits: Callable[[Op, int], Iterator[Edit]]) -> bool:
        """Tries edits of each op, from the last to the first."""
        attempt = partial(self._attempt, lighter=True)
        better = False
        position = len(ops_of(self.best)) - 1
        while position >= 0:
            ops = ops_of(self.best)
            if position < len(ops) and any(map(attempt, edits(ops[position], position))):
                better = True
            else:
                position -= 1
        return better

    def _attempt(self, edit: Edit, *, lighter: bool = False) -> bool:
        """Whether an edit makes a program that still fails, which then is the best.  It must be
        `lighter` where another edit could turn it back."""
        if time.monotonic() > self.end:
            raise _TimeOver
        candidate = edit(self.best)
        if candidate is None or (lighter and not load(candidate) < load(self.best)):
            return False
        if not _is_valid(candidate):
            return False
        fit_schedules(candidate.module)
        identity = to_text(candidate.module), candidate.grid, candidate.arguments
        if identity in self.tried:
            return False
        self.tried.add(identity)
        if not self.fails(candidate):
            return False
        self.best = candidate
        self.kept(candidate)
        return True


def _all(ops: Sequence[Op]) -> Sequence[int]:
    return range(len(ops))


def _effects(ops: Sequence[Op]) -> Sequence[int]:
    """The positions of what writes and the like: with it goes all that is made for it."""
    return [i for i, op in enumerate(ops) if not op.regions and has_side_effects(op)]


def _with_users(ops: Sequence[Op], position: int) -> list[int]:
    """The positions of an op and of all that uses its results, directly or not."""
    gone = {ops[position]}
    found = [position]
    for later in range(position + 1, len(ops)):
        op = ops[later]
        if not op.terminator and any(v.op in gone for v in op.operands):
            gone.add(op)
            found.append(later)
    return found


def _is_valid(program: Program) -> bool:
    try:
        verify(program.module)
    except IrisError:
        return False
    return True
