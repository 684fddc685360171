"""What an op touches, and what may be moved past what.

An op declares its effects on its operands and results (`operand(POINTER, access=READ)`) or, for
what is no value, by overriding `Op.effects`.  The generic passes consult only what is here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iris.ir.core import Effect, Op, Resource, Value
from iris.ir.declare import Access
from iris.ir.types import Ptr, Threadgroup

#: An op that asks what other programs did shows them, and is shown, all of device memory.
ACQUIRES = Effect(Access.UPDATE, Resource.DEVICE)
#: An op that nobody asks for an answer only shows other programs what is in device memory.
RELEASES = Effect(Access.READ, Resource.DEVICE)
#: A volatile load may give something else each time.
VOLATILE = Effect(Access.WRITE, Resource.OTHERS)
_NO_MEMORY = (Resource.REPORT, Resource.OTHERS)


def may_alias(a: Value | Resource, b: Value | Resource) -> bool:
    """Whether touching `a` may touch `b`: yes, unless something declared says no."""
    if a is b:
        return True
    if isinstance(a, Resource) or isinstance(b, Resource):
        return _resources_may_alias(a, b)
    if isinstance(a.type, Threadgroup) != isinstance(b.type, Threadgroup):
        return False  # by whatever name: these are memories apart
    if _allocated(a) or _allocated(b):
        # A fresh allocation overlaps only itself, seen under whatever other name: a name that
        # is neither an allocation nor a function's argument may be that other name.
        return not (_is_root(a) and _is_root(b))
    if _is_root(a) and _is_root(b):
        return not (_noalias(a) or _noalias(b))
    return True


def _resources_may_alias(a: Value | Resource, b: Value | Resource) -> bool:
    """`may_alias` where one of the two, or both, is no value."""
    if a in _NO_MEMORY or b in _NO_MEMORY:
        return False
    other = b if a is Resource.DEVICE else a if b is Resource.DEVICE else None
    return other is None or isinstance(other, Resource) or isinstance(other.type, Ptr)


def _allocated(value: Value) -> bool:
    op = value.op
    if op is None or op.touches_nothing:
        return False
    return any(e.resource is value and e.access is Access.ALLOCATE for e in op.effects())


def _is_root(value: Value) -> bool:
    """Whether this is where its memory is first named: an argument of a function, or an
    allocation.  The argument of a loop, say, is another name for something else."""
    region = value.region
    if region is None:
        return _allocated(value)
    return region.owner is None or region.owner.isolated


def _noalias(value: Value) -> bool:
    return isinstance(value.type, Ptr) and value.type.noalias


def effects_within(op: Op) -> list[Effect]:
    """The effects of an op and of everything in its regions."""
    if not op.regions:
        return [] if op.touches_nothing else list(op.effects())
    return [e for inner in op.walk() if not inner.touches_nothing for e in inner.effects()]


def writes(effects: Iterable[Effect]) -> list[Value | Resource]:
    return [e.resource for e in effects if e.access.writes]


def reads(effects: Iterable[Effect]) -> list[Value | Resource]:
    return [e.resource for e in effects if e.access.reads]


def conflict(ours: Sequence[Effect], theirs: Sequence[Effect]) -> bool:
    """Whether some of our effects may write what theirs touch, or the reverse."""
    return bool(ours and theirs) and any(
        may_alias(x, y)
        for wrote, touched in ((ours, theirs), (theirs, ours))
        for x in writes(wrote)
        for y in (*reads(touched), *writes(touched))
    )


def has_side_effects(op: Op) -> bool:
    """Whether removing an op and the ops inside it can be noticed other than by its results."""
    return any(must_run(inner) for inner in op.walk())


def must_run(op: Op) -> bool:
    """Whether removing an op can be noticed other than by its results: it writes, or may not end.

    The ops inside it do not count.
    """
    return not op.only_computes and (not op.ends() or bool(writes(op.effects())))


def asks_others(op: Op) -> bool:
    """Whether an op gives what other programs have written: a volatile load, or an atomic op
    whose result is used."""
    return not op.touches_nothing and ACQUIRES in op.effects()


def may_speculate(op: Op) -> bool:
    """Whether an op and the ops inside it may run where the program would not run them."""
    return all(inner.may_speculate() for inner in op.walk()) if op.regions else op.may_speculate()


def is_convergent(op: Op) -> bool:
    """Whether an op, or one in it, must stay under the control flow it is under."""
    return op.convergent or (bool(op.regions) and any(inner.convergent for inner in op.walk()))
