"""Fusion: which tensors are written to memory, and so which kernels there are (`fuse`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from iris.ir import graph
from iris.ir.control import Func
from iris.ir.core import Op, Value
from iris.ir.math import Elementwise, element_type
from iris.passes.graph.graph_to_tile import ROOM
from iris.passes.graph.tiling.cost import cost_of, cut
from iris.passes.graph.tiling.demand import Unfit
from iris.passes.graph.tiling.demands import Demands
from iris.passes.graph.tiling.program import written
from iris.passes.graph.tiling.regions import Candidate
from iris.passes.graph.tiling.schedule import ORDERS
from iris.passes.graph.tiling.storing import (
    copied,
    is_work,
    most_arrays,
    needed,
    parted,
    results_of,
)
from iris.targets import Target


@dataclass(frozen=True)
class Boundary:
    """A tensor that one kernel writes and others read, and why that is."""

    value: Value
    reason: str

    def __str__(self) -> str:
        value, op = self.value, self.value.op
        what = f"%{value.name}" if value.name else "a value" if op is None else op.name
        where = f" at {op.location}" if op is not None and op.location and not value.name else ""
        return f"{what}{where}: {value.type} is written to memory: {self.reason}"


class Fusion:
    """The kernels of a function."""

    def __init__(self, function: Func, target: Target):
        self.function = function
        self.target = target
        self.most_arrays = most_arrays(target)
        self.known: dict[tuple[tuple[Value, ...], tuple[Value, ...]], Candidate | str] = {}
        arguments = function.body.arguments
        parts = parted(function, self.most_arrays)
        self.results = results_of(function)
        kept = {*self.results, *parts, *copied(function)}
        self.position = {op: n for n, op in enumerate(function.body)}
        made = [v for op in needed(function) for v in op.results]
        self.work = [v for v in made if v in kept or (v.op is not None and is_work(v.op))]
        self.inputs = set(arguments)
        self._decide()
        while not self._are_programs():
            self._decide()

    def _decide(self) -> None:
        """Which values are written to memory, and what writes them."""
        self.reasons: dict[Value, str] = {}
        self.stored = dict.fromkeys(self.work)
        self.kernels: dict[Value, Candidate] = {}
        for value in list(self.stored):
            self._store(value)
        self._inline()
        while self._move_on():
            self._inline()
        self._join()
        self._sum_once()

    def _are_programs(self) -> bool:
        """Whether there is a program of each kernel; of which there is none is known then."""
        found = True
        for kernel in dict.fromkeys(self.kernels.values()):
            try:
                written(kernel.cut.plan(), kernel.inputs, kernel.outputs, self.function)
            except Unfit as error:
                self.known[kernel.outputs, kernel.inputs] = str(error)
                found = False
        return found

    def _store(self, value: Value) -> None:
        """Have a kernel for a value; of what takes too many arrays, parts are stored first."""
        while True:
            try:
                self.kernels[value] = self._candidate((value,))
                return
            except Unfit:
                part = self._part(value)
                if part is None:
                    raise
                self.stored = dict.fromkeys((*self.stored, part))
                self._store(part)

    def _part(self, value: Value) -> Value | None:
        """The first value on the way to another that is made of half as many arrays as one kernel
        takes; else the last that it is made of."""
        ops, read = self._gather((value,), self.inputs | self.stored.keys())
        made_of: dict[Value, set[Value]] = {v: {v} for v in read}
        last = None
        for op in sorted(ops, key=self.position.__getitem__):
            (result,) = op.results
            made_of[result] = set().union(*(made_of.get(v, set()) for v in op.operands))
            if result is not value and made_of[result]:
                last = result
                if len(made_of[result]) >= self.most_arrays // 2:
                    break
        return last

    # Candidates.

    def _candidate(self, outputs: tuple[Value, ...], inlined: Value | None = None) -> Candidate:
        """What writes some values, with one that is made where it is needed."""
        inputs = (self.inputs | self.stored.keys()).difference(outputs, [inlined])
        ops, read = self._gather(outputs, inputs)
        key = outputs, read
        if key not in self.known:
            try:
                self.known[key] = self._planned(outputs, read, ops)
            except Unfit as error:
                self.known[key] = str(error)
        known = self.known[key]
        if isinstance(known, str):
            raise Unfit(known)
        return known

    def _planned(
        self, outputs: tuple[Value, ...], read: tuple[Value, ...], ops: Iterable[Op]
    ) -> Candidate:
        if len(read) + len(outputs) > self.most_arrays:
            raise Unfit(f"a kernel takes {self.most_arrays} arrays, not {len(read) + len(outputs)}")
        order = sorted(ops, key=self.position.__getitem__)
        made = cut(Demands.of(outputs, read), ROOM, self.target)
        sums = [d.value for d, recipe in made.combining.items() if recipe.is_rounded]
        return Candidate(
            outputs, read, tuple(order), made, cost_of(made, self.target), frozenset(sums)
        )

    def _gather(
        self, outputs: Sequence[Value], inputs: Collection[Value]
    ) -> tuple[set[Op], tuple[Value, ...]]:
        """The ops that make some values of inputs, and which inputs those are."""
        ops: set[Op] = set()
        read: dict[Value, None] = {}
        waiting = list(outputs)[::-1]
        while waiting:
            value = waiting.pop()
            op = value.op
            if op is None or (value in inputs and value not in outputs):
                read[value] = None
            elif op not in ops:
                ops.add(op)
                waiting += op.operands[::-1]
        return ops, tuple(read)

    def _readers(self, value: Value) -> list[Candidate]:
        return [k for k in dict.fromkeys(self.kernels.values()) if value in k.inputs]

    # Decisions.

    def _inline(self) -> None:
        """Make elements where they are needed as long as that is cheaper."""
        changed = True
        while changed:
            changed = False
            for value in reversed(list(self.stored)):
                if value not in self.results and self._try_inline(value):
                    changed = True

    def _try_inline(self, value: Value) -> bool:
        readers, own = self._readers(value), self.kernels[value]
        before = own.cost.microseconds + sum(k.cost.microseconds for k in readers)
        try:
            new = [self._candidate(k.outputs, value) for k in readers]
        except Unfit as error:
            self.reasons[value] = str(error)
            return False
        after = sum(k.cost.microseconds for k in new)
        if after >= before:
            self.reasons[value] = (
                f"recomputing it in its consumers would take {after:.1f} us, not {before:.1f}, "
                + _why(own, readers, new)
            )
            return False
        del self.stored[value], self.kernels[value]
        self._use(new)
        return True

    def _move_on(self) -> bool:
        """Write what is elementwise made of a value, and of which its readers need nothing else,
        in place of the value, so that it is not made again for each block of the readers."""
        changed = False
        for value in list(self.stored):
            readers = self._readers(value)
            if value in self.results or not readers:
                continue
            first, *others = [_later(value, reader) for reader in readers]
            for later in reversed(first):
                if all(later in other for other in others) and self._try_move(value, later):
                    changed = True
                    break
        return changed

    def _try_move(self, value: Value, later: Value) -> bool:
        readers, own, stored = self._readers(value), self.kernels[value], self.stored
        if later in stored:
            return False
        moved = sorted((*(v for v in stored if v is not value), later), key=self._place)
        self.stored = dict.fromkeys(moved)
        try:
            new = [self._candidate((later,)), *[self._candidate(k.outputs) for k in readers]]
        except Unfit:
            self.stored = stored
            return False
        before = own.cost.microseconds + sum(k.cost.microseconds for k in readers)
        if sum(k.cost.microseconds for k in new) > before:
            self.stored = stored
            return False
        if value in self.reasons:
            self.reasons[later] = self.reasons[value]
        del self.kernels[value]
        self._use(new)
        return True

    def _use(self, kernels: Iterable[Candidate]) -> None:
        for kernel in kernels:
            for value in kernel.outputs:
                self.kernels[value] = kernel

    def _join(self) -> None:
        """Put kernels together that read the same, or one of which reads the other's result."""
        kernels = list(dict.fromkeys(self.kernels.values()))
        while kernels:
            one = kernels.pop(0)
            for other in kernels:
                joined = self._joined(one, other)
                if joined is not None:
                    self._use([joined])
                    kernels[kernels.index(other)] = joined
                    break

    def _joined(self, one: Candidate, other: Candidate) -> Candidate | None:
        if _shape(one.outputs[0]) != _shape(other.outputs[0]):
            return None
        shared = {*one.inputs} & {*other.inputs}
        follows = {*one.outputs} & {*other.inputs} or {*other.outputs} & {*one.inputs}
        if not (shared or follows) or self._between(one, other) or self._between(other, one):
            return None
        outputs = sorted((*one.outputs, *other.outputs), key=self._place)
        try:
            joined = self._candidate(tuple(outputs))
        except Unfit:
            return None
        apart = one.cost.microseconds + other.cost.microseconds
        return joined if joined.cost.microseconds < apart else None

    def _sum_once(self) -> None:
        """Write what more than one kernel sums, lest it be another number in each."""
        kernels = dict.fromkeys(self.kernels.values())
        counts = Counter(value for kernel in kernels for value in kernel.sums)
        again = [v for v, n in counts.items() if n > 1 and v not in self.stored]
        for value in again:
            readers = [k for k in dict.fromkeys(self.kernels.values()) if value in k.sums]
            self.stored[value] = None
            self.reasons[value] = ORDERS
            for output in (value, *[v for k in readers for v in k.outputs]):
                self._store(output)
        if again:
            self._join()

    def _between(self, first: Candidate, last: Candidate) -> bool:
        """Whether a third kernel needs what one writes for what the other reads."""
        seen: set[Candidate] = set()
        open_ = [k for v in first.outputs for k in self._readers(v) if k is not last]
        while open_:
            kernel = open_.pop()
            if kernel is last:
                return True
            if kernel not in seen:
                seen.add(kernel)
                open_ += [k for v in kernel.outputs for k in self._readers(v)]
        return False

    def _place(self, value: Value) -> int:
        return -1 if value.op is None else self.position[value.op]

    def in_order(self) -> Iterator[Candidate]:
        """The kernels, each after those whose results it reads."""
        done: set[Candidate] = set()

        def visit(kernel: Candidate) -> Iterator[Candidate]:
            if kernel in done:
                return
            done.add(kernel)
            for value in kernel.inputs:
                if value in self.kernels:
                    yield from visit(self.kernels[value])
            yield kernel

        for kernel in self.kernels.values():
            yield from visit(kernel)

    @property
    def boundaries(self) -> list[Boundary]:
        """Why each tensor that is written to memory, and is no result, is."""
        return [
            Boundary(v, self.reasons[v])
            for v in self.stored
            if v in self.reasons and self._readers(v)
        ]


def _later(value: Value, reader: Candidate) -> list[Value]:
    """The values in a kernel that are elementwise made of one, and through which alone it goes
    into what the kernel writes."""
    inside = {*reader.ops}

    def uses(v: Value) -> int:
        return sum(user in inside for user in v.users)

    left = {value: uses(value)}  # how many users are still to come
    found = []
    for op in reader.ops:
        used = [v for v in dict.fromkeys(op.operands) if v in left]
        if not used:
            continue
        if not isinstance(op, Elementwise | graph.Reshape | graph.Transpose):
            break
        (result,) = op.results
        for v in used:
            left[v] -= 1
        left[result] = uses(result)
        if isinstance(op, Elementwise) and [v for v, n in left.items() if n] == [result]:
            found.append(result)
    return found


def _shape(value: Value) -> tuple[int, ...]:
    return element_type(value.type).shape


def _why(own: Candidate, readers: Sequence[Candidate], new: Sequence[Candidate]) -> str:
    """What is more if a value is not written to memory."""
    before, after = [own, *readers], new
    computed = sum(k.cost.operations for k in after) / sum(k.cost.operations for k in before)
    loaded = sum(k.cost.traffic for k in after) / sum(k.cost.traffic for k in before)
    more = max(computed, loaded)
    if more <= 1:
        return "as fewer programs would do it"
    return f"as {more:.1f} times as much is {'computed' if more == computed else 'loaded'}"
