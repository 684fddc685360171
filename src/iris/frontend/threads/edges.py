"""What the threads beyond the edge of a grid do: they come to barriers, and do nothing else.

The last threadgroup of an axis has its full shape, though the grid may end within it, and the last
simdgroup of a threadgroup has its 32 lanes.  Barriers and exchanges of lanes need all of these
threads; what is in memory concerns only those that `exist`:

    %x: f32 = metal.load %A, %i             %x: f32 = if %exists {
    metal.store %shared, %i, %x               %0: f32 = metal.load %A, %i
    metal.barrier threadgroup                 metal.store %shared, %i, %0
    %y: f32 = metal.load %shared, %j          yield %0
    metal.store %B, %i, %y                  } else {
                                              yield %zero
                                            }
                                            metal.barrier threadgroup
                                            if %exists {
                                              ...

Arithmetic is for all threads, and so is a load that all threads of the threadgroup make from one
place: by these, conditions and bounds around a barrier stay the same for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iris.errors import LanguageError
from iris.frontend.specs import Threads
from iris.frontend.tracing import error_at
from iris.ir import metal
from iris.ir.builder import Builder
from iris.ir.control import Func, If, Yield
from iris.ir.core import Op, Region, Value
from iris.ir.declare import Access
from iris.ir.effects import is_convergent
from iris.ir.math import Constant, element_type
from iris.ir.types import Type
from iris.ir.uniformity import THREADGROUP, Uniformity, diverging, needed, uniformity


def leave_out(function: Func, exists: Value, threads: Threads) -> None:
    """Let a function touch memory only in the threads for which a value is true."""
    ops = [*function.body]
    body = ops[ops.index(exists.producer) + 1 : -1]
    edges = _Edges(exists, uniformity(function))
    if not any(map(is_convergent, body)):
        edges.put_under(dict.fromkeys(body))
        return
    edges.cover(body)
    levels = uniformity(function)
    for op in function.walk():
        if op.convergent:
            _check_arrival(op, levels, threads)


def _check_arrival(op: Op, levels: Mapping[Value, Uniformity], threads: Threads) -> None:
    """Refuse what threads do together under a condition that those beyond the edge do not know."""
    for around, _ in diverging(op, needed(op), levels):
        where, place = op.location, around.location
        assert where is not None and place is not None
        raise error_at(
            LanguageError,
            f"what threads do together needs all of them, but the condition at line {place.line} "
            f"may not be the same for all, and {lacking(threads)}",
            where.file,
            where.line,
        )


def lacking(threads: Threads) -> str:
    """Which threads there are not, and what to do."""
    size = "x".join(map(str, threads.size))
    if threads.edges:
        axes = " and ".join(["xyz"[axis] for axis in threads.edges])
        return (
            f"the grid is no whole number of threadgroups of {size} along {axes}; launch whole "
            "threadgroups, by grid= and threadgroup=, and compare indices with sizes in the kernel"
        )
    return (
        f"a threadgroup of {size} threads does not fill {threads.simdgroups} simdgroups; launch "
        "threadgroups of 32, 64, 128, 256, 512 or 1024 threads"
    )


class _Edges:
    """Puts ops under the condition that a thread exists."""

    def __init__(self, exists: Value, levels: Mapping[Value, Uniformity]):
        self.exists = exists
        self.levels = levels

    def cover(self, ops: Iterable[Op]) -> None:
        """Put ops that only existing threads run under the condition: neighbours under one."""
        waiting: dict[Op, None] = {}
        for op in ops:
            is_for_all = self._is_for_all(op)
            if not is_for_all and not self._must_be_met(op):
                waiting[op] = None
            elif self._is_plain(op):
                # Move it ahead of the waiting ops, unless it uses one of their results.
                if any(value.op in waiting for value in op.operands):
                    waiting[op] = None
                elif waiting:
                    op.detach()
                    next(iter(waiting)).insert_before(op)
            else:
                self.put_under(waiting)
                waiting = {}
                for region in () if is_for_all else op.regions:
                    self.cover([*region][:-1])
        self.put_under(waiting)

    def _is_plain(self, op: Op) -> bool:
        """Whether an op is arithmetic, and does not choose what missing threads exchange."""
        is_alone = op.touches_nothing and not op.regions and not op.convergent
        return is_alone and self.exists not in op.operands

    def _is_for_all(self, op: Op) -> bool:
        """Whether threads may run an op that do not exist."""
        for inner in op.walk() if op.regions else (op,):
            if not (inner.may_speculate() or inner.convergent or self._is_same(inner)):
                return False
        return True

    def _is_same(self, op: Op) -> bool:
        """Whether all threads of the threadgroup do what an op does, and it writes nothing."""
        for effect in op.effects():
            if effect.access is not Access.READ and effect.access is not Access.ALLOCATE:
                return False
        if any(diverging(op, THREADGROUP, self.levels)):
            return False
        return all(self.levels[value] is THREADGROUP for value in op.results)

    def _must_be_met(self, op: Op) -> bool:
        """Whether all threads must enter an op, though some of its region is for existing ones."""
        return is_convergent(op) or (
            bool(op.regions) and any(self.levels[value] is THREADGROUP for value in op.results)
        )

    def put_under(self, ops: Mapping[Op, None]) -> None:
        """Put ops into a branch, which gives zeros to threads that do not exist."""
        if not ops:
            return
        first, *_, last = (*ops, *ops)
        builder = Builder(first.enclosing, last.next, first.location)
        results = {value: self._outside(value, ops) for op in ops for value in op.results}
        used = {value: users for value, users in results.items() if users}
        then, otherwise = Region(), Region()
        branch = If.create((self.exists,), (), [value.type for value in used], (then, otherwise))
        for (value, users), result in zip(used.items(), branch.results, strict=True):
            result.name = value.name
            for user in users:
                swapped = [result if v is value else v for v in user.operands]
                user.set_operands(tuple(swapped))
        for op in ops:
            op.detach()
            then.append(op)
        then.append(Yield([*used]))
        with builder.inside(otherwise):
            builder.insert(Yield([_zero(builder, value.type) for value in used]))
        builder.insert(branch)

    @staticmethod
    def _outside(value: Value, ops: Mapping[Op, None]) -> list[Op]:
        """The users of a value that are not within some ops."""
        return [user for user in value.users if not _is_within(user, ops)]


def _is_within(op: Op, others: Mapping[Op, None]) -> bool:
    """Whether an op is one of others, or in one."""
    around: Op | None = op
    while around is not None and around not in others:
        around = around.parent_op
    return around is not None


def _zero(builder: Builder, type_: Type) -> Value:
    zero = builder(Constant(0, result=element_type(type_).element))
    return builder(metal.Splat(zero, type_)) if element_type(type_).shape else zero
