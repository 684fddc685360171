"""A device that tells whether the comparison of levels would notice what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pytest

from every_level import LOWERING, EveryLevel
from iris.errors import ProgramError
from iris.ir import math, metal, verify
from iris.ir.builder import Builder
from iris.ir.control import Func
from iris.ir.core import Module, Value
from iris.ir.math import element_type
from iris.ir.types import bool_, i32
from iris.passes import run as run_passes
from iris.runtime.device import ArrayArgument, Grid, Program
from iris.testing.levels import Disagreement, Expected, launch, with_simdgroups

Array = np.ndarray[Any, Any]


class Careless(EveryLevel):
    """Runs kernels at every level, rightly and wrongly: with one written element spoiled, which
    must be noticed, and with one thing in the lowered program changed, which might be."""

    name = "careless"
    tried: ClassVar[int] = 0
    noticed: ClassVar[int] = 0

    def compile(self, entry: Func, source: Any = None) -> Program:
        (function,) = run_passes(Module([entry.clone({})]), with_simdgroups(LOWERING, 2))
        assert isinstance(function, Func)
        return Program(entry, [function, *mutants(function)])

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        copies = [self._copies(arguments) for _ in program.code]
        views = [self._view(a) if isinstance(a, ArrayArgument) else a for a in arguments]
        expected = Expected(program.entry, grid, views, output=print)
        right, *wrong = program.code
        found = launch(right, grid, copies.pop())
        if not expected.compare(found).elements:
            return
        for position, errors in expected.errors.items():
            if np.isfinite(errors).any():
                with pytest.raises(Disagreement), spoiled(found[position], errors):
                    expected.compare(found)
        for function, copy in zip(wrong, copies, strict=True):
            Careless.tried += 1
            try:
                expected.compare(launch(function, grid, copy))
            except (Disagreement, ProgramError):
                Careless.noticed += 1


@contextmanager
def spoiled(array: Array, errors: Array) -> Iterator[None]:
    """Within this, one element is off: by its least bit, or if it has a bound by just more."""
    choices = np.argwhere(np.isfinite(errors))
    at = tuple(np.random.default_rng(array.size).choice(choices))
    before, bound = array[at], errors[at]
    if bound:
        array[at] = before + 2 * bound + np.spacing(before)
    else:
        bits = array.view(f"u{array.itemsize}")
        bits[at] ^= bits.dtype.type(1)
    yield
    array[at] = before


def mutants(function: Func) -> Iterator[Func]:
    """Copies of a lowered function, each with one thing in it that is wrong."""
    for number, op in enumerate(function.walk()):
        for edit in _EDITS.get(type(op), ()):
            copy = function.clone({})
            assert isinstance(copy, Func)
            edit(copy.walk()[number])
            verify(Module([copy]))
            yield copy


def _leave_out(op: metal.Store) -> None:
    """The first lane does not store what it has."""
    builder = Builder(op.parent, op)  # type: ignore[arg-type]
    mask = _elsewhere(builder)
    if op.mask is not None:
        mask = builder(math.And(mask, op.mask))
    op.insert_before(metal.Store(op.base, op.offset, op.value, mask))
    op.erase()


def _store_other(op: metal.Store) -> None:
    """The first lane stores what is off by one, or the opposite."""
    builder = Builder(op.parent, op)  # type: ignore[arg-type]
    type_ = element_type(op.value.type)
    if type_.element is bool_:
        other = builder(math.Not(op.value))
    else:
        other = builder(math.Add(op.value, builder(math.Constant(1, type_))))
    value = builder(math.Select(_elsewhere(builder), op.value, other))
    op.insert_before(metal.Store(op.base, op.offset, value, op.mask))
    op.erase()


def _elsewhere(builder: Builder) -> Value:
    """Whether this is not the first lane."""
    first = builder(math.Constant(0, i32))
    return builder(math.Compare(math.Predicate.NE, builder(metal.Lane()), first))


def _attribute(change: Callable[[Any], Any]) -> Callable[[Any], None]:
    """The first attribute is another one."""

    def edit(op: Any) -> None:
        op.attributes = (change(op.attributes[0]), *op.attributes[1:])

    return edit


_EDITS: dict[type[Any], Sequence[Callable[[Any], None]]] = {
    metal.Store: [_leave_out, _store_other],
    metal.ShuffleXor: [_attribute(lambda mask: mask % 31 + 1)],
    metal.Broadcast: [_attribute(lambda lane: (lane + 1) % 32)],
    metal.Literal: [_attribute(lambda values: values[::-1])],
    metal.Take: [_attribute(lambda indices: indices[::-1])],
}
