"""Makes arrays anew of what an observer is told of an interpreter's run.

They are what the interpreter made only if each value that it stores is shown, with its thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from iris.interp import metal as metal_interpreter
from iris.interp import tile as tile_interpreter
from iris.interp.observer import Observer
from iris.ir import Level, metal, tile
from iris.ir.control import Func
from iris.ir.core import Op, Value
from iris.ir.kinds import AtomicKind
from iris.ir.metal import count_of

UPDATES = {AtomicKind.ADD: np.add, AtomicKind.MAX: np.fmax, AtomicKind.MIN: np.fmin}


class Stores(Observer):
    """Makes the arrays anew of what is stored, program by program."""

    def __init__(self, arrays: dict[Value, npt.NDArray[Any]], programs: int):
        self.arrays = arrays
        self.programs = programs
        self.count = 0

    def before(self, frame: Any, op: Op) -> None:
        if not isinstance(op, tile.Store | tile.StoreTile | tile.Atomic):
            return
        for program in range(self.programs):
            if not frame.runs(program, 0):
                continue

            def part(value: Any, program: int = program) -> Any:
                return frame.part(value, frame[value], program, 0)

            if isinstance(op, tile.Store | tile.Atomic):
                at, inside = part(op.offset), True if op.mask is None else part(op.mask)
            else:
                at, inside = self.block(op, part)
            at, x = np.broadcast_arrays(at, part(op.value), subok=True)
            inside = np.broadcast_to(inside, at.shape) & ~np.ma.getmaskarray(x)
            array = self.arrays[op.base].reshape(-1)
            if isinstance(op, tile.Atomic):
                update = UPDATES[op.kind]
                update.at(array, np.asarray(at[inside]), np.asarray(x[inside]))
            else:
                array[at[inside]] = x[inside]
            self.count += np.count_nonzero(inside)

    def block(self, op: tile.StoreTile, part: Callable[[Any], Any]) -> tuple[Any, Any]:
        """Where the elements of a block go, and which of them are there."""
        at, inside = np.int64(0), np.bool_(True)
        for axis, along in enumerate(np.indices(part(op.value).shape)):
            index = int(part(op.offsets[axis])) + along
            at = at + index * int(part(op.strides[axis]))
            inside = inside & (index >= 0) & (index < int(part(op.bounds[axis])))
        return at, inside if op.limit is None else inside & (at < int(part(op.limit)))


class ThreadStores(Stores):
    """The same of Metal IR, thread by thread."""

    def before(self, frame: Any, op: Op) -> None:
        if isinstance(op, metal.Store):
            self.follow(frame, op, op.mask)

    def after(self, frame: Any, op: Op, results: Sequence[Any]) -> None:
        if isinstance(op, metal.Atomic):
            self.follow(frame, op, None)
        elif isinstance(op, metal.CompareExchange):
            self.follow(frame, op, op.done, results[1])

    def follow(self, frame: Any, op: Any, mask: Value | None, mask_now: Any = None) -> None:
        """Do to an array what an op does where a mask is true, thread after thread."""
        if op.base not in self.arrays:
            return
        array = self.arrays[op.base].reshape(-1)
        there = np.ones((len(frame.rows), len(frame.threads)), np.bool_)
        if frame.active is not None:
            there &= frame.active
        row, column = np.argwhere(there)[-1]
        last = int(frame.rows[row]) + frame.chunk.start, int(frame.threads[column])
        assert frame.runs(*last)

        def parts(value: Value, now: Any = None) -> Any:
            """What each thread has: a row for each of the iterations that run at once."""
            now = frame[value] if now is None else now
            x = np.broadcast_to(now, frame.full(value))[there]
            np.testing.assert_array_equal(x[-1], frame.part(value, now, *last))
            return x.reshape(-1, count_of(value.type))

        at = parts(op.offset) + np.arange(count_of(op.value.type))
        inside = np.broadcast_to(True if mask is None else parts(mask, mask_now), at.shape)
        x = parts(op.value)
        if isinstance(op, metal.Atomic):
            UPDATES[op.kind].at(array, at[inside], x[inside])
        else:
            array[at[inside]] = x[inside]
        self.count += np.count_nonzero(inside)


class Remade:
    """How many elements were stored in arrays that were made anew."""

    count = 0


@contextmanager
def remaking_arrays() -> Iterator[Remade]:
    """Look on at the first run of each kernel, at each level, and compare the arrays."""
    remade = Remade()
    with pytest.MonkeyPatch.context() as patch:
        for interpreter in (tile_interpreter, metal_interpreter):
            patch.setattr(interpreter, "run", _watched(interpreter.run, remade))
        yield remade


def _watched(run: Callable[..., Any], remade: Remade) -> Callable[..., Any]:
    seen = set()

    def watched(
        entry: Func, grid: tuple[int, ...], arguments: Sequence[Any], **options: Any
    ) -> Any:
        if entry in seen:
            return run(entry, grid, arguments, **options)
        seen.add(entry)
        named = zip(entry.body.arguments, arguments, strict=True)
        arrays = {v: x for v, x in named if isinstance(x, np.ndarray)}
        copies = {v: x.copy() for v, x in arrays.items()}
        stores = Stores if entry.function_level is Level.TILE else ThreadStores
        observer = stores(copies, int(np.prod(grid)))
        found = run(entry, grid, arguments, **options, observer=observer)
        for v, array in arrays.items():
            np.testing.assert_array_equal(array, copies[v], f"{entry.symbol}: {v.name}")
        remade.count += observer.count
        return found

    return watched
