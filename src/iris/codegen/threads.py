"""Where a thread is, and what the threads of a simdgroup or threadgroup do together."""

from __future__ import annotations

from iris.codegen.expression import Expression, Precedence, Touch
from iris.codegen.operators import call, dtype_of
from iris.codegen.writer import Writer, emit
from iris.ir import metal
from iris.ir.types import bf16, bool_


@emit(metal.Lane, metal.Simdgroup)
def _position(w: Writer, op: metal.Lane | metal.Simdgroup) -> None:
    # Shorter than int, it becomes one in any arithmetic.
    usual = "lane" if isinstance(op, metal.Lane) else "simdgroup"
    type_ = w.language.positions[usual].type
    w.expressions[op.result] = Expression(w.position(usual), Precedence.POSTFIX, type_)


@emit(metal.ThreadgroupId)
def _threadgroup_id(w: Writer, op: metal.ThreadgroupId) -> Expression:
    return _component(w, "tid", op.axis)


@emit(metal.NumThreadgroups)
def _num_threadgroups(w: Writer, op: metal.NumThreadgroups) -> Expression:
    return _component(w, "grid", op.axis)


def _component(w: Writer, usual: str, axis: int) -> Expression:
    type_ = w.language.positions[usual].type
    text = f"{w.position(usual)}.{'xyz'[axis]}"
    return Expression(text, Precedence.POSTFIX, type_, wraps=True)


@emit(metal.Extent)
def _extent(w: Writer, op: metal.Extent) -> None:
    field = w.extent(op.base, op.axis)
    w.expressions[op.result] = Expression(field, Precedence.POSTFIX, "int")


@emit(metal.Barrier)
def _barrier(w: Writer, op: metal.Barrier) -> None:
    w.flush()
    w.line(f"{w.language.barriers[op.scope]};")


@emit(metal.Fence)
def _fence(w: Writer, op: metal.Fence) -> None:
    w.flush()
    w.version = max(w.version, w.language.fence_version)
    w.line(f"{w.language.fence};")


@emit(metal.ShuffleXor)
def _shuffle_xor(w: Writer, op: metal.ShuffleXor) -> Expression:
    return _exchange(w, op, "simd_shuffle_xor", str(op.mask))


@emit(metal.Shuffle)
def _shuffle(w: Writer, op: metal.Shuffle) -> Expression:
    lane = w.number(op.lane)
    found = _exchange(w, op, "simd_shuffle", lane.text)
    return found._replace(touches=found.touches | lane.touches)


@emit(metal.Broadcast)
def _broadcast(w: Writer, op: metal.Broadcast) -> Expression:
    return _exchange(w, op, "simd_broadcast", str(op.lane))


def _exchange(
    w: Writer, op: metal.ShuffleXor | metal.Shuffle | metal.Broadcast, function: str, lane: str
) -> Expression:
    dtype = dtype_of(op.x)
    if dtype in (bool_, bf16) or dtype.bits > 32:
        raise w.unsupported(op, f"lanes do not exchange {dtype}")
    x = w.typed(op.x)
    which = Expression(lane, Precedence.POSTFIX, "ushort")
    found = call(function, x, which, type_=x.type)
    return found._replace(touches=found.touches | Touch.CONVERGENT)
