"""Calls of Buffers, of other libraries' arrays and of Python's numbers: told from earlier ones at a
glance.

`call` sorts out any launch.  A launch in a loop is like the one before, so this one asks no more
than what tells the two apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from iris.compiler.arguments import HasParameters, array_spec, number_spec
from iris.frontend.specs import exact_key
from iris.ir.types import DType
from iris.runtime.borrowing import Borrowing
from iris.runtime.buffer import Buffer
from iris.runtime.device import ArrayArgument, Device, Grid
from iris.runtime.devices import select

_NUMBERS = frozenset({int, float, bool})


class PlainCall(NamedTuple):
    """A launch: of those with the same key `call` finds the same facts, constants and options."""

    key: Hashable
    device: Device
    grid: Grid
    told: list[Any]  # what a device is told, as in a `Call`
    specs: list[Any]  # kept: the key has their ids


class _Form(NamedTuple):
    """Where the arguments are in launches with as many positional ones and the same names."""

    options: tuple[tuple[int, str], ...]  # numbers of arguments, with names
    constants: tuple[int, ...]
    variables: tuple[tuple[int, str, DType | None], ...]  # with the dtype that is declared
    defaults: tuple[Any, ...]  # after those that are given


class PlainCalls:
    """The launches of a kernel, as far as they are plain."""

    def __init__(
        self,
        function: HasParameters,
        options: frozenset[str],
        declared: Mapping[str, DType] | None = None,
    ):
        self._function = function
        self._options = options
        self._declared = declared or {}  # the dtypes of numbers
        self._forms: dict[tuple[Any, ...], _Form] = {}

    def plain(
        self,
        grid: Grid,
        positional: Sequence[Any],
        named: Mapping[str, Any],
        device: str | Device | None,
        how: tuple[Hashable, ...] = (),
        counts: Sequence[int] = (),
    ) -> PlainCall | None:
        """A launch on a device, or where its Buffers are; `how` it is compiled is of the key, and
        `counts` come after its arguments.  None if `call` must sort it out: its arguments are
        others, share memory or are not where it runs; or they are wrong."""
        shape = (len(positional), *named)
        form = self._forms.get(shape)
        if form is None:
            form = self._new_form(len(positional), tuple(named))
            if form is None:
                return None
            self._forms[shape] = form
        options, constants, variables, defaults = form
        values = (*positional, *named.values(), *defaults)
        key: list[Hashable] = [*how]
        for i, name in options:
            key += name, exact_key(values[i])
        divisors: tuple[int, ...] = ()
        for i in constants:
            value = values[i]
            if type(value) is int:
                if value > 1:
                    divisors += (value,)
            elif isinstance(value, np.generic):  # which is one of Python's, then
                return None
            key.append(exact_key(value))
        told: list[Any] = []
        specs: list[Any] = []
        arrays: list[ArrayArgument] = []
        on: Device | None = None
        borrowing: Borrowing | None = None
        may_overlap = False
        for i, name, dtype in variables:
            value = values[i]
            kind = type(value)
            if kind is Buffer:
                spec, argument = value.spec, value._argument
                lent, where = value.lent, value.device
                if spec is None or argument is None:
                    return None
            elif kind in _NUMBERS:
                spec, value = number_spec(name, value, divisors, dtype)
                told.append(value)
                specs.append(spec)
                continue
            else:
                borrowing = borrowing or Borrowing()
                borrowed = borrowing.read(value)
                if borrowed is None:
                    return None
                where, argument, lent = borrowed
                spec = array_spec(argument.dtype, argument.shape, True, lent.is_aligned)
            if lent is not None:
                if lent.is_read_only:
                    return None
                may_overlap = True
            if where is not on:
                if on is not None:
                    return None
                on = where
            arrays.append(argument)
            told.append(argument)
            specs.append(spec)
        if on is None or len({id(array.memory) for array in arrays}) < len(arrays):
            return None
        if may_overlap:
            for one, other in combinations(arrays, 2):
                if on.overlap(one, other):
                    return None
        if device is not None and select(device) is not on:
            return None
        told += counts
        return PlainCall((*key, on, *map(id, specs)), on, grid, told, specs)

    def _new_form(self, count: int, names: tuple[str, ...]) -> _Form | None:
        """None for one that no launch has, or in which a name may mean two things."""
        function, options = self._function, self._options
        given = [*function.names[:count], *names]
        are_parameters = {*names}.isdisjoint(function.names[:count]) and {*names}.issubset(
            options ^ {*function.names}
        )
        if count > len(function.names) or not are_parameters:
            return None
        at = {name: i for i, name in enumerate(given)}
        left = [p for p in function.parameters if p.name not in at]
        if not all(p.has_default for p in left):
            return None
        at |= {p.name: i for i, p in enumerate(left, len(given))}
        return _Form(
            tuple([(at[name], name) for name in names if name in options]),
            tuple([at[name] for name in function.constants]),
            tuple([(at[name], name, self._declared.get(name)) for name in function.variables]),
            tuple([p.default for p in left]),
        )
