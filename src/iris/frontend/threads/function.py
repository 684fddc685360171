"""A Python function as a kernel by thread: its declarations, its trace."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from math import prod
from types import FunctionType
from typing import Any

from iris.errors import ArgumentError
from iris.frontend.function import TileFunction, check_scopes
from iris.frontend.specs import ArraySpec, ScalarSpec, Threads
from iris.frontend.threads.edges import leave_out
from iris.frontend.threads.memory import Elements
from iris.frontend.threads.positions import thread_id, thread_in_threadgroup, threads_here
from iris.frontend.threads.types import Declaration, as_type, declaration
from iris.frontend.tracing import current, trace_into
from iris.frontend.values import Pointer, Traced
from iris.ir.attributes import legal_name
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.core import Level, Module, Region, Value
from iris.ir.metal import SIMDGROUP_WIDTH
from iris.ir.types import i32


class ThreadFunction(TileFunction):
    """A function that says what a thread does, parsed once."""

    def __init__(self, function: FunctionType, types: Mapping[str, object]):
        super().__init__(function)
        for name in types:
            if name not in self.variables:
                message = f"has no parameter {name!r}, but param_types gives its type"
                raise self.error(ArgumentError, message)
        said = {**function.__annotations__, **types}
        self.declared: dict[str, Declaration] = {
            name: declaration(name, said[name]) for name in self.variables if name in said
        }

    def trace_threads(
        self, arguments: Mapping[str, Any], threads: Threads, *, fast_math: bool = False
    ) -> Module:
        """The Metal IR for arguments: an `ArraySpec`, a `ScalarSpec`, or what a constexpr is; after
        these, how many threads there are along each axis where that is an argument."""
        types = [(name, arguments[name].type) for name in self.traced_variables(arguments)]
        counts = [(name, i32) for name in threads.counts]
        func = Func(
            legal_name(self.name),
            Level.METAL,
            [*types, *counts],
            simdgroups=threads.simdgroups,
            fast_math=fast_math,
            location=self.location,
        )
        own = func.body.arguments[: len(types)]
        given = func.body.arguments[len(types) :]
        with trace_into(func.body, self.vocabulary, Level.METAL) as tracer:
            tracer.threads = threads
            tracer.counts = dict(zip(threads.edges, given, strict=True))
            tracer.exists = _threads_that_exist()
            self.trace_body(tracer, arguments, own)
            tracer.builder.insert(Return([], location=self.location))
        _put_first(tracer.start, func.body)
        check_scopes(func.body, set())
        if tracer.exists is not None:
            leave_out(func, tracer.exists.value, threads)
        return Module([func])

    def wrap(
        self, value: Value, name: str, spec: ArraySpec | ScalarSpec, start: Builder
    ) -> Traced | Pointer:
        if not isinstance(spec, ArraySpec):
            return super().wrap(value, name, spec, start)
        said = self.declared.get(name)
        if said is None:
            return Elements(value, name, as_type(spec.dtype))
        return Elements(value, name, said.type, is_const=said.is_const)


def _put_first(start: Region, body: Region) -> None:
    """Move ops to the start of a region, which is not empty."""
    first = body.first
    for op in start:
        op.detach()
        body.insert(op, first)


def _threads_that_exist() -> Traced | None:
    """Whether a thread is one of the grid: the last threadgroup may reach beyond it, and the last
    simdgroup beyond the threadgroup. None where all are."""
    tracer = current()
    threads = threads_here()
    conditions = []
    if prod(threads.size) != threads.simdgroups * SIMDGROUP_WIDTH:
        conditions.append(thread_in_threadgroup() < prod(threads.size))
    conditions += [thread_id(axis) < Traced(tracer.counts[axis]) for axis in threads.edges]
    return functools.reduce(operator.and_, conditions) if conditions else None
