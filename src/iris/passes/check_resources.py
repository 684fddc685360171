"""Checking that a kernel fits the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from iris.errors import OutOfResources, SourceSpot
from iris.ir import metal
from iris.ir.control import Func
from iris.ir.core import Level, Module, Op, Region, Value
from iris.ir.math import Constant
from iris.ir.types import DType, ElementType, Ptr, Threadgroup, i32
from iris.passes.allocate_threadgroup import aligned
from iris.passes.pipeline import Pass
from iris.target import AppleGPU

# Live values above what a thread can have spill to memory, which is slow but works.  A kernel of
# this many times as many would do little else, if the Metal compiler took it.
MOST_SPILLS = 4
NAMED = 3  # of what takes most
_REPORTS = (metal.Assert, metal.Print)


@dataclass(frozen=True)
class CheckResources(Pass):
    """Refuse a kernel that needs more than the GPU has for one, and say what to reduce.

        func metal @f simdgroups=4(%X: ptr<f32>) {
          %a: threadgroup<6144xf32> = metal.alloc
          %b: threadgroup<4096xf32> = metal.alloc
          ...

    is refused with

        @f needs 40960 bytes of threadgroup memory, 8192 more than there are; use smaller tiles.
        The most take
          a, threadgroup<6144xf32>: 24576 (gemm.py:12)
          b, threadgroup<4096xf32>: 16384 (gemm.py:13)

    It changes nothing.
    """

    name = "check-resources"
    level = Level.METAL

    def run(self, module: Module) -> dict[str, int]:
        needs = [check(f, AppleGPU()) for f in module if isinstance(f, Func)]
        return {
            "threadgroup bytes": max((n.memory for n in needs), default=0),
            "registers": max((n.registers for n in needs), default=0),
        }


@dataclass(frozen=True)
class Needs:
    """Bytes of threadgroup memory; registers of 32 bits of a thread, by an estimate."""

    memory: int
    registers: int


def check(function: Func, target: AppleGPU) -> Needs:
    """What a kernel needs; raises `OutOfResources` if a target does not have it."""
    ops = list(function.walk())
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
    pressure = Pressure(function)
    registers, most = -(-pressure.most // 2), MOST_SPILLS * target.thread_registers
    if registers > most:
        raise _out_of(
            f"a thread of @{function.symbol} holds about {registers} values of 32 bits at once, "
            f"{registers - most} more than are bearable where {target.thread_registers} fit in "
            "registers; use smaller tiles or more simdgroups",
            {v: -(-size(v) // 2) for v in pressure.peak},
        )
    return Needs(memory, registers)


def allocated(ops: Iterable[Op]) -> dict[Value, int]:
    """The arrays in threadgroup memory that there are among some ops, with their bytes."""
    return {op.result: _bytes(op) for op in ops if isinstance(op, metal.Alloc)}


def _check_threads(function: Func, target: AppleGPU) -> None:
    threads = function.simdgroups * target.simdgroup_width
    if threads > target.max_threads:
        raise _out_of(
            f"@{function.symbol} runs {threads} threads, {threads - target.max_threads} more than "
            f"a threadgroup has; use {target.max_threads // target.simdgroup_width} simdgroups"
        )


def _check_buffers(function: Func, ops: Sequence[Op], target: AppleGPU) -> None:
    arrays = sum(isinstance(v.type, Ptr) for v in function.body.arguments)
    reports = any(isinstance(op, _REPORTS) for op in ops)
    room = target.buffer_bindings - 1 - reports
    if arrays > room:
        others = "the scalars and the report" if reports else "the scalars"
        raise _out_of(
            f"@{function.symbol} takes {arrays} arrays, {arrays - room} more than fit beside "
            f"{others}; pass several as one"
        )


def _check_scalars(function: Func, ops: Sequence[Op], target: AppleGPU) -> None:
    """Numbers, and the sizes of arrays that are asked for, are the fields of one struct."""
    types = [v.type for v in function.body.arguments if isinstance(v.type, DType)]
    types += [i32 for _ in {(op.base, op.axis) for op in ops if isinstance(op, metal.Extent)}]
    end = 0
    for type_ in types:
        size = max(1, type_.bits // 8)
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
                assert isinstance(user.result.type, Threadgroup)
                yield user.result, user.result.type.bytes


def _bytes(op: metal.Alloc) -> int:
    type_ = op.result.type
    assert isinstance(type_, Threadgroup)
    return aligned(type_.bytes)


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


def size(value: Value) -> int:
    """How many registers of 16 bits a value takes.  What is the same for all threads from the
    start, and constants, are kept elsewhere."""
    type_, region = value.type, value.region
    if not isinstance(type_, ElementType) or isinstance(value.op, Constant):
        return 0
    if region is not None and region.owner is not None and region.owner.isolated:
        return 0
    return metal.count_of(type_) * max(1, type_.element.bits // 16)


class Pressure:
    """The most registers of 16 bits that are live at one point, and the values in them there; or
    what else `size` says that a value takes."""

    def __init__(self, function: Func, size: Callable[[Value], int] = size):
        self.size = size
        self.live: set[Value] = set()
        self.sizes: dict[Value, int] = {}
        self.now = self.most = 0
        self.peak: Sequence[Value] = ()
        self._region(function.body)

    def _region(self, region: Region) -> None:
        """Walk a region from its end, after which `live` is needed, to its start."""
        for op in reversed(region):
            self._add(op.results)
            if self.now > self.most:
                self.most, self.peak = self.now, tuple(self.live)
            if op.regions:
                self._nested(op)
            self._drop(op.results)
            self._add(op.operands)
        self._add(region.arguments)
        if self.now > self.most:
            self.most, self.peak = self.now, tuple(self.live)
        self._drop(region.arguments)

    def _nested(self, op: Op) -> None:
        # A `foreach` fills its results part by part; other results are where the carried values
        # have been.
        if not isinstance(op, metal.Foreach):
            self._drop(op.results)
        if op.loops:
            self._add(_from_outside(op))
        after = self.live
        needed = set(after)
        for region in reversed(op.regions):
            self.live = set(after)
            self.now = sum(map(self._size, after))
            if not op.forwards(region):
                self._add(region.arguments)
            self._region(region)
            needed |= self.live
        self.live = needed
        self.now = sum(map(self._size, needed))

    def _size(self, value: Value) -> int:
        known = self.sizes.get(value)
        if known is None:
            known = self.sizes[value] = self.size(value)
        return known

    def _add(self, values: Iterable[Value]) -> None:
        live = self.live
        for value in values:
            if value not in live:
                live.add(value)
                self.now += self._size(value)

    def _drop(self, values: Iterable[Value]) -> None:
        live = self.live
        for value in values:
            if value in live:
                live.remove(value)
                self.now -= self.sizes[value]


def _from_outside(op: Op) -> Iterable[Value]:
    """What the regions of an op use that is defined outside of it."""
    inside: set[Value] = set()
    used: dict[Value, None] = {}
    for inner in op.walk():
        inside.update(inner.results, *[r.arguments for r in inner.regions])
        if inner is not op:
            used.update(dict.fromkeys(inner.operands))
    return [v for v in used if v not in inside]
