"""Let copies from device memory to that of the threadgroup go on by themselves."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iris.ir import metal
from iris.ir.builder import Builder
from iris.ir.control import For, Func, If, While, Yield
from iris.ir.core import Module, Op, Region, Value
from iris.ir.declare import Access
from iris.ir.effects import effects_within, is_convergent, may_alias, writes
from iris.ir.math import And, Constant, constant_bits, element_type
from iris.ir.types import Ptr, Threadgroup
from iris.passes.pipeline import TargetPass

COPIED_BYTES = (4, 8, 16)


@dataclass(frozen=True)
class AsyncCopies(TargetPass):
    """Copy elements that are loaded only to be stored in threadgroup memory, if the target can do
    that while a thread does other things.

        %a: regs<16xf16> = if %more {
          %b: regs<16xf16> = metal.foreach 2 (%i: i32) {
            %at: i32 = mul %i, %c512
            %x: regs<8xf16> = metal.load %X, %at
            yield %x
          }
          yield %b
        } else {
          yield %zeros
        }
        metal.foreach 2 (%i: i32) {
          %to: i32 = mul %i, %c256
          %x: regs<8xf16> = metal.slice %a, %i
          metal.store %shared, %to, %x
          yield
        }

    becomes

        metal.foreach 2 (%i: i32) {
          %at: i32 = mul %i, %c512
          %to: i32 = mul %i, %c256
          metal.copy 8 %shared, %to, %X, %at, mask=%more
          yield
        }

    Until the next round of a loop nobody may write an array that is copied from.  `wait-for-copies`
    adds what waits.
    """

    name = "async-copies"
    level = metal.MetalOp.level

    def run(self, module: Module) -> dict[str, int]:
        if not self.target.copies:
            return {"copies": 0}
        return {"copies": sum(_visit(f.body) for f in module if isinstance(f, Func))}


def _visit(region: Region) -> int:
    """Make copies in a region, and in those inside; gives how many."""
    copies = 0
    waiting = deque(region)
    while waiting:
        op = waiting.popleft()
        stores = _stores_of(op)
        if not (stores and _brought_together(op, stores)):
            continue
        if isinstance(op, If):
            waiting.extendleft(reversed(_load_masked(op)))
        else:
            (store,) = stores
            _copy(op, store)
            copies += 1
    return copies + sum([_visit(r) for op in list(region) for r in op.regions])


def _stores_of(op: Op) -> list[_Stored]:
    """How all that an op loads is stored; nothing if some of it is not, or not to be copied."""
    if not isinstance(op, (If, metal.Foreach, metal.Load)) or not op.results:
        return []
    stores = [_stored(value) for value in op.results]
    found = [s for s in stores if s is not None and _is_copied(s.value, s)]
    return found if len(found) == len(stores) and _may_be_late(op, found) else []


def _may_be_late(op: Op, stores: Sequence[_Stored]) -> bool:
    """Whether an op does nothing but load what nobody writes until a copy is waited for: at the
    next round of a loop around it at the latest, or before the next loop after what is stored."""
    around = op.parent_op
    top = op
    while around is not None and not (_repeats(around) or around.isolated):
        top, around = around, around.parent_op
    is_repeated = around is not None and _repeats(around)
    later = [around] if around is not None and is_repeated else [top, *_until_wait(top, stores)]
    written = [w for other in later for w in writes(effects_within(other))]
    return not any(is_convergent(inner) for inner in op.walk()) and all(
        access is Access.READ and not any(may_alias(resource, w) for w in written)
        for access, resource in effects_within(op)
    )


def _until_wait(op: Op, stores: Sequence[_Stored]) -> Iterator[Op]:
    """What comes after an op, as far as the first loop after the stores beside it."""
    left = {s.op for s in stores if s.op.parent is op.parent}
    following = op.next
    while following is not None and (left or not _repeats(following)):
        left.discard(following)
        yield following
        following = following.next


def _repeats(op: Op) -> bool:
    """Whether an op is a loop, which waits for copies in each of its rounds."""
    return isinstance(op, (For, While))


def _is_copied(value: Value, store: _Stored) -> bool:
    """Whether to store a value is to copy what was loaded, or zeros."""
    op = value.op
    if isinstance(op, If):
        given = op.then.end.operands[value.index]
        own = len(given.users) == 1 and given.home is op.then
        return own and _may_mask(op) and _is_copied(given, store)
    if isinstance(op, metal.Foreach):
        loads = [inner for inner in op.body if not inner.touches_nothing]
        return (
            op.count == store.count
            and len(loads) == 1
            and not any(inner.regions for inner in op.body)
            and op.body.end.operands == loads[0].results
            and _may_copy(loads[0])
        )
    return store.count is None and op is not None and _may_copy(op)


def _may_copy(load: Op) -> bool:
    """Whether a copy brings what an op loads."""
    return (
        isinstance(load, metal.Load)
        and isinstance(load.base.type, Ptr)
        and load.base.type.aligned
        and not load.volatile
        and (load.other is None or _is_zero(load.other))
        and metal.count_of(load.result.type) * load.base.type.element.bytes in COPIED_BYTES
    )


@dataclass(frozen=True)
class _Stored:
    """A value, and what stores it in threadgroup memory: one store, or one for each part."""

    value: Value
    op: Op
    store: metal.Store
    count: int | None = None  # of parts


def _stored(value: Value) -> _Stored | None:
    """What stores a value, as nothing else does anything with it."""
    if len(value.users) != 1:
        return None
    (user,) = value.users
    found: _Stored | None = None
    if isinstance(user, metal.Store) and user.value is value:
        found = _Stored(value, user, user)
    elif isinstance(user, metal.Slice) and isinstance(user.parent_op, metal.Foreach):
        loop = user.parent_op
        first, *more = [op for op in loop.body if not op.touches_nothing] or [loop.body.end]
        is_plain = user.index is loop.body.arguments[0] and not (loop.results or more)
        if is_plain and isinstance(first, metal.Store) and list(user.result.users) == [first]:
            found = _Stored(value, loop, first, loop.count)
    if found is None or found.op.parent is not value.home:
        return None
    is_shared = isinstance(found.store.base.type, Threadgroup) and found.store.mask is None
    return found if is_shared else None


def _brought_together(op: Op, stores: Sequence[_Stored]) -> bool:
    """Move an op right before the first of its stores, and all of these together, if nothing that
    lies between the stores is in the way."""
    ours = {s.op for s in stores}
    order = [other for other in op.enclosing if other in ours]
    between: list[Op] = []
    following = order[0].next
    while following is not None and following is not order[-1] and len(order) > 1:
        if following not in ours:
            between.append(following)
        following = following.next
    if any(_is_in_the_way(other) for other in between):
        return False
    op.detach()
    order[0].insert_before(op)
    for other in between:
        other.detach()
        op.insert_before(other)
    return True


def _is_in_the_way(op: Op) -> bool:
    """Whether stores cannot be done before an op, which needs nothing of them, as they are."""
    return is_convergent(op) or any(e.access is not Access.ALLOCATE for e in effects_within(op))


def _may_mask(op: If) -> bool:
    """Whether a branch does no more than load, and where it is not taken there are zeros."""
    then, otherwise = op.regions
    return all(_is_zero(v) for v in otherwise.end.operands) and all(
        _may_mask(inner)
        if isinstance(inner, If)
        else all(_may_mask_load(x) or x.regions or x.may_speculate() for x in inner.walk())
        for inner in then
        if inner is not then.end
    )


def _may_mask_load(op: Op) -> bool:
    if not isinstance(op, metal.Load) or op.volatile:
        return False
    return op.other is None or _is_zero(op.other)


def _is_zero(value: Value) -> bool:
    """Whether a value is zero, or a part of an array of zeros."""
    if isinstance(value.op, metal.Slice):
        value = value.op.x
    return constant_bits(value) == 0


def _load_masked(op: If) -> list[Op]:
    """Do what a branch does in its place, and load only where it would be taken; gives the ops."""
    then, _ = op.regions
    before = op.previous
    for inner in list(then):
        if inner is not then.end:
            inner.detach()
            op.insert_before(inner)
            for load in [x for x in inner.walk() if isinstance(x, metal.Load)]:
                _mask(load, op.condition)
    for result, value in zip(op.results, then.end.operands, strict=True):
        result.replace_by(value)
    done: list[Op] = []
    following = op.enclosing.first if before is None else before.next
    while following is not None and following is not op:
        done.append(following)
        following = following.next
    op.erase()
    return done


def _mask(load: metal.Load, condition: Value) -> None:
    """Let a load have zeros where a condition does not hold."""
    b = Builder.before_op(load)
    mask = condition if load.mask is None else b(And(load.mask, condition))
    zeros = load.other or b(Constant.of_bits(0, element_type(load.result.type)))
    masked = b(metal.Load(load.base, load.offset, mask, zeros, result=load.result.type))
    load.result.replace_by(masked)
    load.erase()


def _copy(op: Op, stored: _Stored) -> None:
    """Copy what an op loads and another one stores."""
    if isinstance(op, metal.Load):
        stored.op.insert_before(_copying(op, stored.store, {}))
        stored.op.erase()
        op.erase()
        return
    loop = stored.op
    assert isinstance(op, metal.Foreach) and isinstance(loop, metal.Foreach), "of the same count"
    new = metal.Foreach(op.count, [], location=loop.location)
    loop.insert_before(new)
    mapping: dict[Value, Value] = {}
    for body in (op.body, loop.body):
        mapping[body.arguments[0]] = new.body.arguments[0]
    (load,) = (inner for inner in op.body if not inner.touches_nothing)
    assert isinstance(load, metal.Load), "one load is all"
    left_out = {load, stored.store, *stored.value.users, op.body.end, loop.body.end}
    for inner in (*op.body, *loop.body):
        if inner not in left_out:
            new.body.append(inner.clone(mapping))
    new.body.append(_copying(load, stored.store, mapping))
    new.body.append(Yield([]))
    loop.erase()
    op.erase()


def _copying(load: metal.Load, store: metal.Store, mapping: dict[Value, Value]) -> metal.Copy:
    values = store.base, store.offset, load.base, load.offset, load.mask
    named = [None if v is None else mapping.get(v, v) for v in values]
    return metal.Copy(metal.count_of(load.result.type), *named, location=store.location)
