"""What a kernel needs of a GPU: threads, buffers, threadgroup memory, registers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from iris.analysis.registers import Pressure, half_registers, most_half_registers
from iris.errors import OutOfResources, SourceSpot
from iris.ir import metal
from iris.ir.control import Func
from iris.ir.core import Op, Value
from iris.ir.types import DType, Ptr, Threadgroup, i32
from iris.targets import Target

ALIGNMENT = 16  # of arrays in threadgroup memory, in bytes, and of those that share one
# Live values above what a thread can have spill to memory, which is slow but works.  A kernel of
# this many times as many would do little else, if the Metal compiler took it.
MOST_SPILLS = 4
NAMED = 3  # values that an error lists, the largest first
_REPORTS: set[type[Op]] = {metal.Assert, metal.Print}


def aligned(size: int) -> int:
    """The bytes that an array takes in threadgroup memory."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Needs:
    """Bytes of threadgroup memory; registers of 32 bits of a thread, by an estimate."""

    def __init__(self, function: Func, memory: int):
        self.memory = memory
        self._function = function

    @cached_property
    def pressure(self) -> Pressure:
        return Pressure(self._function)

    @property
    def registers(self) -> int:
        return -(-self.pressure.most // 2)

    def exceed(self, registers: int) -> bool:
        """Whether a thread needs more registers than that.  Most kernels are so small that nobody
        has to find out how many."""
        return most_half_registers(self._function.body) > 2 * registers < self.pressure.most


def needs_of(function: Func, target: Target) -> Needs:
    """What a kernel needs; raises `OutOfResources` if a target does not have it."""
    ops = function.walk()
    _check_threads(function, target)
    _check_buffers(function, ops, target)
    _check_scalars(function, ops, target)
    arrays = allocated(ops)
    memory = sum(arrays.values())
    if memory > target.threadgroup_bytes:
        raise _out_of(
            f"@{function.symbol} needs {memory} bytes of threadgroup memory, "
            f"{memory - target.threadgroup_bytes} more than there are; use smaller tiles",
            dict(_named(arrays)),
        )
    needs, most = Needs(function, memory), MOST_SPILLS * target.thread_registers
    if needs.exceed(most):
        raise _out_of(
            f"a thread of @{function.symbol} holds about {needs.registers} values of 32 bits at "
            f"once, {needs.registers - most} more than are bearable where "
            f"{target.thread_registers} fit in registers; use smaller tiles or more simdgroups",
            {v: -(-half_registers(v) // 2) for v in _in_order(needs.pressure.peak, function)},
        )
    return needs


def _in_order(values: Sequence[Value], function: Func) -> list[Value]:
    """Values in the order of the program, so that of equal ones the same is named each time."""
    defined = [*function.body.arguments]
    for op in function.walk():
        defined += [*op.results, *[v for region in op.regions for v in region.arguments]]
    order = {value: n for n, value in enumerate(defined)}
    return sorted(values, key=order.__getitem__)


def allocated(ops: Iterable[Op]) -> dict[Value, int]:
    """The arrays in threadgroup memory that there are among some ops, with their bytes."""
    return {op.result: _bytes(op) for op in ops if type(op) is metal.Alloc}


def _check_threads(function: Func, target: Target) -> None:
    threads = function.simdgroups * target.simdgroup_width
    if threads > target.max_threads:
        raise _out_of(
            f"@{function.symbol} runs {threads} threads, {threads - target.max_threads} more than "
            f"a threadgroup has; use {target.max_threads // target.simdgroup_width} simdgroups"
        )


def _check_buffers(function: Func, ops: Sequence[Op], target: Target) -> None:
    arrays = sum(isinstance(v.type, Ptr) for v in function.body.arguments)
    reports = not _REPORTS.isdisjoint(map(type, ops))
    room = target.buffer_bindings - 1 - reports
    if arrays > room:
        others = "the scalars and the report" if reports else "the scalars"
        raise _out_of(
            f"@{function.symbol} takes {arrays} arrays, {arrays - room} more than fit beside "
            f"{others}; pass several as one"
        )


def _check_scalars(function: Func, ops: Sequence[Op], target: Target) -> None:
    """Numbers, and the sizes of arrays that are asked for, are the fields of one struct."""
    types = [v.type for v in function.body.arguments if isinstance(v.type, DType)]
    types += [i32 for _ in {(op.base, op.axis) for op in ops if type(op) is metal.Extent}]
    end = 0
    for type_ in types:
        size = type_.bytes
        end += -end % size + size
    if aligned(end) > target.constant_bytes:
        raise _out_of(
            f"@{function.symbol} takes {aligned(end)} bytes of numbers, "
            f"{aligned(end) - target.constant_bytes} more than are passed without an array; pass "
            "some in one"
        )


def _named(arrays: dict[Value, int]) -> Iterable[tuple[Value, int]]:
    """Arrays, and the parts of them that have names of their own: several may share one."""
    for array, size in arrays.items():
        yield array, size
        for user in array.users:
            if isinstance(user, metal.View):
                yield user.result, user.result.type_as(Threadgroup).bytes


def _bytes(op: metal.Alloc) -> int:
    return aligned(op.result.type_as(Threadgroup).bytes)


def _out_of(message: str, sizes: dict[Value, int] | None = None) -> OutOfResources:
    """The error, with what takes most, which it points at."""
    most = sorted((sizes or {}).items(), key=lambda item: -item[1])[:NAMED]
    if not most:
        return OutOfResources(message)
    lines = [f"{message}.", "The most take"]
    for value, amount in most:
        place = f" ({value.op.location})" if value.op is not None and value.op.location else ""
        lines.append(f"  {value.name or 'a value'}, {value.type}: {amount}{place}")
    op = most[0][0].op
    at = op.location if op is not None else None
    return OutOfResources(
        "\n".join(lines), SourceSpot.of_line(at.file, at.line) if at is not None else None
    )
