"""Choose which tensors are written to memory, and so which kernels there are (`fuse`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, reduce
from heapq import heappop, heappush
from itertools import combinations, islice
from typing import NamedTuple, TypeAlias

from iris.ir import graph
from iris.ir.axis_schedule import WrittenSchedule
from iris.ir.control import Func
from iris.ir.core import Op, Value
from iris.ir.math import Elementwise, element_type
from iris.passes.graph.tiling.choose_schedule import cheapest_schedule
from iris.passes.graph.tiling.element_graph import ElementGraph
from iris.passes.graph.tiling.element_ref import CannotFuse, DoesNotFit
from iris.passes.graph.tiling.element_rules import SCATTER_READ
from iris.passes.graph.tiling.kernel_cost import Cost, cost_of, tensor_bytes
from iris.passes.graph.tiling.kernel_regions import Candidate
from iris.passes.graph.tiling.kernel_registers import vectors_held
from iris.passes.graph.tiling.kernel_schedule import SUM_ORDERS_DIFFER, KernelSchedule
from iris.passes.graph.tiling.materialization import (
    copies_before_scatter,
    live_ops,
    max_arrays,
    may_materialize,
    results_of,
    split_concats,
)
from iris.passes.graph.tiling.refine_schedule import refined
from iris.passes.graph.tiling.side_by_side import Lowered, SideBySide, side_by_side
from iris.passes.graph.tiling.tile_limits import MAX_TILE_BYTES
from iris.passes.graph.tiling.tile_program import Part, build_tile_func
from iris.targets import Target

_Ends: TypeAlias = tuple[tuple[Value, ...], tuple[Value, ...]]  # outputs, inputs

# From how many values on they are inlined together.
MANY = 16
# The most ops of a kernel that is planned again for one value to be stored or not.
MOST_OPS = 128


class _Planned(NamedTuple):
    """The plan of a kernel, which all kernels that are equal to it share."""

    schedule: WrittenSchedule
    cost: Cost
    rounded_sums: tuple[int, ...]  # by their numbers


def _structure(
    outputs: Sequence[Value], read: Sequence[Value], ops: Sequence[Op]
) -> tuple[Hashable, dict[Value, int]]:
    """What equal kernels have in common, in terms of the numbers of their values; and these."""
    numbers = {value: n for n, value in enumerate(read)}
    lines: list[Hashable] = [value.type for value in read]
    for op in ops:
        operands = tuple([numbers[v] for v in op.operands])
        lines.append((type(op), operands, op.attributes, tuple([v.type for v in op.results])))
        for result in op.results:
            numbers[result] = len(numbers)
    return (tuple(lines), tuple([numbers[v] for v in outputs])), numbers


@dataclass(frozen=True)
class Boundary:
    """A tensor that one kernel writes and others read, with the reason."""

    value: Value
    reason: str

    def __str__(self) -> str:
        return f"{_name(self.value)}: {self.value.type} is written to memory: {self.reason}"


@dataclass(frozen=True)
class Apart:
    """Two kernels that hand no tensor on to each other, and why they are not one; or two that one
    launch runs side by side, and why no program does the work of both."""

    one: Candidate
    other: Candidate
    reason: str
    side_by_side: bool = False

    def __str__(self) -> str:
        one, other = _name(self.one.outputs[0]), _name(self.other.outputs[0])
        how = "side by side in one kernel" if self.side_by_side else "by two kernels"
        return f"{one} and {other} are made {how}: {self.reason}"


def _name(value: Value) -> str:
    """What an error or an explanation calls a value."""
    if value.name:
        return f"%{value.name}"
    op = value.op
    what = "a value" if op is None else op.name
    return what if op is None or not op.location else f"{what} at {op.location}"


class _Flow:
    """Which kernels read from which."""

    def __init__(self, kernels: Mapping[Value, Candidate]):
        self.kernels = kernels
        self.readers: dict[Value, list[Candidate]] = {}
        for kernel in dict.fromkeys(kernels.values()):
            for read in kernel.inputs:
                self.readers.setdefault(read, []).append(kernel)

    def in_order(self) -> Iterator[Candidate]:
        """Yield the kernels, each after those that it reads from."""
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

    def readers_of(self, kernel: Candidate) -> dict[Candidate, None]:
        """The kernels that read what a kernel writes."""
        return dict.fromkeys([k for v in kernel.outputs for k in self.readers.get(v, ())])

    @cached_property
    def bits(self) -> dict[Candidate, int]:
        """A bit for each kernel."""
        return {kernel: 1 << n for n, kernel in enumerate(self.in_order())}

    @cached_property
    def needing(self) -> dict[Candidate, int]:
        """By each kernel the bits of those that read from it, directly or through others."""
        needing: dict[Candidate, int] = {}
        for kernel in reversed(self.bits):
            needing[kernel] = 0
            for reader in self.readers_of(kernel):
                needing[kernel] |= self.bits[reader] | needing[reader]
        return needing


class _Kernels(dict[Value, Candidate]):
    """The kernel that writes each stored value."""

    def __init__(self) -> None:
        super().__init__()
        self._flow: _Flow | None = None  # until a kernel changes

    def __setitem__(self, value: Value, kernel: Candidate) -> None:
        super().__setitem__(value, kernel)
        self._flow = None

    def __delitem__(self, value: Value) -> None:
        super().__delitem__(value)
        self._flow = None

    @property
    def flow(self) -> _Flow:
        if self._flow is None:
            self._flow = _Flow(self)
        return self._flow

    def readers(self, value: Value) -> Sequence[Candidate]:
        """The kernels that read a value."""
        return self.flow.readers.get(value, ())


class Fusion:
    """Divides a function into kernels."""

    def __init__(self, function: Func, target: Target):
        self.function = function
        self.target = target
        self.max_arrays = max_arrays(target)
        self.candidates: dict[
            tuple[tuple[Value, ...], tuple[Value, ...]], Candidate | CannotFuse
        ] = {}
        # Plan equal kernels once, such as the kernels of equal layers.
        self.planned: dict[Hashable, _Planned | CannotFuse] = {}
        self.refined: dict[Hashable, WrittenSchedule] = {}
        self.lowered: dict[Candidate, Lowered] = {}
        arguments = function.body.arguments
        # A thread may hold a vector of each tensor, to choose one by its index.
        most = max(2, min(self.max_arrays // 2, vectors_held(target)))
        partial_concats = split_concats(function, most)
        self.results = results_of(function)
        kept = {*self.results, *partial_concats, *copies_before_scatter(function)}
        self.position = {op: n for n, op in enumerate(function.body)}
        computed = [v for op in live_ops(function) for v in op.results]
        self.storable = [
            v for v in computed if v in kept or (v.op is not None and may_materialize(v.op))
        ]
        self.inputs = set(arguments)
        self._decide()
        while not self._all_lower():
            self._decide()
        self.launches = side_by_side(self._alone(kernel) for kernel in self.kernels.flow.in_order())
        for launch in self.launches:
            launch.schedule()

    def _decide(self) -> None:
        """Choose the tensors to write to memory, and the kernels that write them."""
        self.reasons: dict[Value, str] = {}
        self.stored = dict.fromkeys(self.storable)
        self.kernels = _Kernels()
        for value in list(self.stored):
            self._add_kernel(value)
        self._inline()
        while self._store_later():
            self._inline()
        self._merge_kernels()
        self._sum_once()
        self._read_beside()

    def _all_lower(self) -> bool:
        """Whether every kernel can be lowered; remember the reasons for those that cannot."""
        lowered = True
        for kernel in dict.fromkeys(self.kernels.values()):
            self._refine(kernel)
            try:
                self._lowered(kernel)
            except CannotFuse as error:
                self.candidates[kernel.outputs, kernel.inputs] = error
                lowered = False
        return lowered

    def _refine(self, kernel: Candidate) -> None:
        known = self.refined.get(kernel.structure)
        if known is None:
            kernel.reschedule(refined(kernel.schedule, MAX_TILE_BYTES, self.target))
            self.refined[kernel.structure] = kernel.schedule.written
        elif kernel.schedule.written != known:
            kernel.reschedule(known)

    def _lowered(self, kernel: Candidate) -> Lowered:
        """A kernel with the tile program of the schedule that it has now."""
        lowered = self.lowered.get(kernel)
        if lowered is None or lowered.schedule is not kernel.schedule:
            part = Part(kernel.schedule.plan(), kernel.outputs)
            program = build_tile_func([part], kernel.inputs, self.function)
            lowered = Lowered(kernel, kernel.schedule, program, self.target)
            self.lowered[kernel] = lowered
        return lowered

    def _alone(self, kernel: Candidate) -> SideBySide:
        """A launch of one kernel."""
        return SideBySide([self._lowered(kernel)], self.target)

    def _add_kernel(self, value: Value) -> None:
        """Add a kernel that writes a value; store parts first if it would read too many arrays."""
        while True:
            try:
                self.kernels[value] = self._candidate((value,))
                return
            except CannotFuse:
                part = self._part_to_store(value)
                if part is None:
                    raise
                self.stored = dict.fromkeys((*self.stored, part))
                self._add_kernel(part)

    def _part_to_store(self, value: Value) -> Value | None:
        """An operand of a value, near or far, to store first: the first that depends on half as
        many arrays as a kernel can bind, else the last."""
        ops, read = self._ops_between((value,), self.inputs | self.stored.keys())
        made_of: dict[Value, set[Value]] = {v: {v} for v in read}
        last = None
        for op in sorted(ops, key=self.position.__getitem__):
            (result,) = op.results
            made_of[result] = set().union(*(made_of.get(v, set()) for v in op.operands))
            if result is not value and made_of[result]:
                last = result
                if len(made_of[result]) >= self.max_arrays // 2:
                    break
        return last

    # Candidates.

    def _candidate(self, outputs: tuple[Value, ...], inlined: Iterable[Value] = ()) -> Candidate:
        """A kernel that writes some values and recomputes `inlined` instead of reading them."""
        ops, read = self._needed(outputs, inlined)
        key = outputs, read
        if key not in self.candidates:
            try:
                self.candidates[key] = self._plan_candidate(outputs, read, ops)
            except CannotFuse as error:
                self.candidates[key] = error.again()
        candidate = self.candidates[key]
        if isinstance(candidate, CannotFuse):
            raise candidate.again()
        return candidate

    def _needed(
        self, outputs: tuple[Value, ...], inlined: Iterable[Value] = ()
    ) -> tuple[set[Op], tuple[Value, ...]]:
        """The ops of such a kernel, and what it reads."""
        inputs = (self.inputs | self.stored.keys()).difference(outputs, inlined)
        return self._ops_between(outputs, inputs)

    def _plan_candidate(
        self, outputs: tuple[Value, ...], read: tuple[Value, ...], ops: Iterable[Op]
    ) -> Candidate:
        if len(read) + len(outputs) > self.max_arrays:
            raise DoesNotFit(
                f"a kernel takes {self.max_arrays} arrays, not {len(read) + len(outputs)}"
            )
        order = sorted(ops, key=self.position.__getitem__)
        # Not even for results of no elements, which no rule of elements sees.
        if any(isinstance(op, graph.Scatter) and op.result not in outputs for op in order):
            raise CannotFuse(SCATTER_READ)
        structure, numbers = _structure(outputs, read, order)
        if structure not in self.planned:
            try:
                schedule = cheapest_schedule(
                    ElementGraph.of(outputs, read), MAX_TILE_BYTES, self.target
                )
                self.planned[structure] = self._plan_of(schedule, numbers)
            except CannotFuse as error:
                self.planned[structure] = error.again()
        planned = self.planned[structure]
        if isinstance(planned, CannotFuse):
            raise planned.again()
        values = list(numbers)
        rounded_sums = tuple([values[n] for n in planned.rounded_sums])
        return Candidate(
            outputs, read, tuple(order), structure, planned.schedule, planned.cost, rounded_sums
        )

    def _plan_of(self, schedule: KernelSchedule, numbers: Mapping[Value, int]) -> _Planned:
        cost = cost_of(schedule, self.target)
        if cost.spilled:
            raise DoesNotFit(
                f"a thread would hold {cost.spilled} values of 32 bits more than fit its registers"
            )
        aggregates = schedule.elements.aggregates
        rounded = [numbers[r.value] for r, expr in aggregates.items() if expr.is_rounded]
        return _Planned(schedule.written, cost, tuple(dict.fromkeys(rounded)))

    def _ops_between(
        self, outputs: Sequence[Value], inputs: Collection[Value]
    ) -> tuple[set[Op], tuple[Value, ...]]:
        """The ops that compute some values from inputs, and the inputs that they read."""
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

    # Decisions.

    def _inline(self) -> None:
        """Stop storing values that are cheaper to recompute in their consumers."""
        for kernel in reversed(list(dict.fromkeys(self.kernels.values()))):
            grown: Candidate | None = kernel
            while grown is not None and self.kernels.get(grown.outputs[0]) is grown:
                grown = self._inline_many(grown)
        changed = True
        while changed:
            changed = False
            for value in reversed(list(self.stored)):
                if value not in self.results and self._try_inline(value):
                    changed = True

    def _inline_many(self, kernel: Candidate) -> Candidate | None:
        """Compute in a kernel values that no other one needs: one, or two, four, eight and so on at
        once, where that takes less even without the launches it saves, and as many programs do it.

        To plan the kernel again for each of them would take time that is quadratic in them.  A few
        are left to be tried one by one.
        """
        needed = self._needed_by_one(kernel)
        own = list(islice(needed, MANY))
        if len(own) < MANY:
            return None
        grown, inlined, count = None, 0, 1
        while count < 2 * len(own):
            replaced = [kernel, *[self.kernels[v] for v in own[:count]]]
            try:
                new = self._candidate(kernel.outputs, own[:count])
            except DoesNotFit:  # with more of them it may
                pass
            except CannotFuse:
                break
            else:
                # With more of them it may take less, in as many programs.
                running = sum(k.cost.running_microseconds for k in replaced)
                if new.cost.running_microseconds <= running and new.cost.programs >= max(
                    k.cost.programs for k in replaced
                ):
                    grown, inlined = new, count
            count *= 2
            own += islice(needed, max(0, count - len(own)))
        if grown is not None:
            for value in own[:inlined]:
                del self.stored[value], self.kernels[value]
            self._adopt([grown])
        return grown

    def _needed_by_one(self, kernel: Candidate) -> Iterator[Value]:
        """Yield the stored values that only one kernel needs, directly or for others of them; each
        comes after those that need it."""
        inside = {kernel}
        waiting: list[tuple[int, Value]] = []  # the last first

        def wait_for(values: Iterable[Value]) -> None:
            for value in values:
                if value in self.kernels:
                    heappush(waiting, (-self._position(value), value))

        wait_for(kernel.inputs)
        while waiting:
            _, value = heappop(waiting)
            maker = self.kernels[value]
            if maker in inside or maker.outputs != (value,) or value in self.results:
                continue
            if inside.issuperset(self.kernels.readers(value)):
                inside.add(maker)
                wait_for(maker.inputs)
                yield value

    def _try_inline(self, value: Value) -> bool:
        readers, own = self.kernels.readers(value), self.kernels[value]
        if any(len(k.ops) + len(own.ops) > MOST_OPS for k in readers):
            self.reasons[value] = f"with it a consumer would have over {MOST_OPS} ops"
            return False
        before = own.cost.microseconds + sum(k.cost.microseconds for k in readers)
        try:
            new = [self._candidate(k.outputs, [value]) for k in readers]
        except CannotFuse as error:
            self.reasons[value] = str(error)
            return False
        after = sum(k.cost.microseconds for k in new)
        if after >= before:
            self.reasons[value] = (
                f"recomputing it in its consumers would take {after:.1f} us, not {before:.1f}, "
                + _what_grows(own, readers, new)
            )
            return False
        del self.stored[value], self.kernels[value]
        self._adopt(new)
        return True

    def _store_later(self) -> bool:
        """Store an elementwise function of a value instead of the value, where readers need only
        that, so that the function is not recomputed for each block of the readers."""
        changed = False
        for value in list(self.stored):
            readers = self.kernels.readers(value)
            if value in self.results or not readers or any(len(k.ops) > MOST_OPS for k in readers):
                continue
            first, *others = [_elementwise_chain(value, reader) for reader in readers]
            recomputed = any(reader.recomputes for reader in readers)
            for later in reversed(first):
                # If no reader recomputes the value, storing fewer bytes is the only gain.
                if not recomputed and tensor_bytes(later) >= tensor_bytes(value):
                    continue
                if all(later in other for other in others) and self._try_store_later(value, later):
                    changed = True
                    break
        return changed

    def _try_store_later(self, value: Value, later: Value) -> bool:
        stored = self.stored
        if later in stored:
            return False
        moved = sorted((*(v for v in stored if v is not value), later), key=self._position)
        self.stored = dict.fromkeys(moved)
        try:
            new = self._stored_later(value, later)
        except CannotFuse:
            self.stored = stored
            return False
        if value in self.reasons:
            self.reasons[later] = self.reasons[value]
        del self.kernels[value]
        self._adopt(new)
        return True

    def _stored_later(self, value: Value, later: Value) -> list[Candidate]:
        """The kernel that stores a function of a value instead, and those that read it; raises
        `CannotFuse` if there are none, or they cost more."""
        readers, own = self.kernels.readers(value), self.kernels[value]
        dispatch = self.target.dispatch_microseconds
        most = own.cost.microseconds + sum(k.cost.microseconds for k in readers)
        _, read = self._needed((later,))
        awaited = [self.kernels[v] for v in read if v in self.kernels and v not in own.inputs]
        outputs = [(later,), *[k.outputs for k in readers]]
        new: list[Candidate] = []
        # No kernel takes less than its dispatch: mostly, that tells before they are planned.
        times = [dispatch for _ in outputs]
        while sum(times) + bool(awaited) * dispatch <= most:
            if len(new) == len(outputs):
                # What waits for other kernels is merged neither with them nor with what does not.
                apart = [k for k in awaited if not self._takes_in(new[0], k)]
                if sum(times) + max([self._saved(own, k) for k in apart], default=0) > most:
                    break
                return new
            new.append(self._candidate(outputs[len(new)]))
            times[len(new) - 1] = new[-1].cost.microseconds
        raise CannotFuse("it costs more to store it later")

    def _takes_in(self, kernel: Candidate, other: Candidate) -> bool:
        """Whether a kernel costs less that computes what another one writes for it."""
        try:
            together = self._candidate(kernel.outputs, other.outputs).cost.microseconds
        except CannotFuse:
            return False
        return together < kernel.cost.microseconds + other.cost.microseconds

    def _saved(self, one: Candidate, other: Candidate) -> float:
        """The microseconds that one kernel instead of two saves; at least a launch, as it may be
        merged with another one."""
        launch = self.target.dispatch_microseconds
        try:
            together = self._merged(one, other).cost.microseconds
        except CannotFuse:
            return launch
        return max(launch, one.cost.microseconds + other.cost.microseconds - together)

    def _adopt(self, kernels: Iterable[Candidate]) -> None:
        for kernel in kernels:
            for value in kernel.outputs:
                self.kernels[value] = kernel

    def _merge_kernels(self) -> None:
        """Merge kernels that read the same tensors, or one of them another's output."""
        by_shape: dict[tuple[int, ...], list[Candidate]] = {}
        for kernel in dict.fromkeys(self.kernels.values()):
            by_shape.setdefault(_shape(kernel.outputs[0]), []).append(kernel)
        for kernels in by_shape.values():
            while kernels:
                one = kernels.pop(0)
                for other in kernels:
                    with suppress(CannotFuse):
                        merged = self._merged(one, other)
                        for value in (*one.outputs, *other.outputs):
                            if value not in merged.outputs:
                                del self.stored[value], self.kernels[value]
                        self._adopt([merged])
                        kernels[kernels.index(other)] = merged
                        break

    def _merged(self, one: Candidate, other: Candidate) -> Candidate:
        """One kernel instead of two, which does not store what only it needs; raises `CannotFuse`
        if there is none, or it costs more."""
        shapes = _shape(one.outputs[0]), _shape(other.outputs[0])
        if shapes[0] != shapes[1]:
            raise CannotFuse(f"results of a kernel have one shape, not {shapes[0]} and {shapes[1]}")
        shared = {*one.inputs} & {*other.inputs}
        follows = {*one.outputs} & {*other.inputs} or {*other.outputs} & {*one.inputs}
        if not (shared or follows):
            raise CannotFuse("they read no tensor that both need")
        if self._between(one, other) or self._between(other, one):
            raise CannotFuse("one needs the result of a third kernel that needs the other's")
        both = sorted((*one.outputs, *other.outputs), key=self._position)
        outputs = [
            value
            for value in both
            if value in self.results or not {one, other}.issuperset(self.kernels.readers(value))
        ]
        merged = self._candidate(tuple(outputs), [v for v in both if v not in outputs])
        if not {*merged.inputs} <= {*one.inputs, *other.inputs}:
            raise CannotFuse(
                "together they would wait for a result that one of them computes itself"
            )
        apart, together = one.cost.microseconds + other.cost.microseconds, merged.cost.microseconds
        if together >= apart:
            raise CannotFuse(f"together they would take {together:.1f} us, not {apart:.1f}")
        return merged

    def _sum_once(self) -> None:
        """Store sums that several kernels would compute, as each could round differently."""
        kernels = dict.fromkeys(self.kernels.values())
        counts = Counter(value for kernel in kernels for value in kernel.rounded_sums)
        again = [v for v, n in counts.items() if n > 1 and v not in self.stored]
        for value in again:
            readers = [k for k in dict.fromkeys(self.kernels.values()) if value in k.rounded_sums]
            self.stored[value] = None
            self.reasons[value] = SUM_ORDERS_DIFFER
            for output in (value, *[v for k in readers for v in k.outputs]):
                self._add_kernel(output)
        if again:
            self._merge_kernels()

    def _read_beside(self) -> None:
        """Recompute results in kernels that would read them, where these then run side by side with
        the kernels that store the results, and that pays.  A product that both need is stored."""
        merge = False
        for value in self.results:
            for reader in self.kernels.readers(value):
                own = self.kernels[value]
                parts = self._made_of(own)
                if not self._try_beside(own, reader, ()) and parts:
                    merge |= self._try_beside(own, reader, parts)
        if merge:
            self._merge_kernels()

    def _try_beside(self, own: Candidate, reader: Candidate, parts: Sequence[Value]) -> bool:
        """Recompute the results of a kernel in a reader of them; both read some parts of these."""
        stored = self.stored
        self.stored = dict.fromkeys(sorted((*stored, *parts), key=self._position))
        try:
            new = self._beside(own, reader, parts)
        except CannotFuse:
            self.stored = stored
            return False
        self.reasons.update(dict.fromkeys(parts, "kernels side by side read it"))
        self._adopt(new)
        return True

    def _beside(self, own: Candidate, reader: Candidate, parts: Sequence[Value]) -> list[Candidate]:
        """Kernels that compute the parts, and the results with each of two; raises `CannotFuse` if
        that does not pay."""
        if len(own.ops) + len(reader.ops) > MOST_OPS or self._between(own, reader):
            raise CannotFuse("the reader has to wait for it")
        before = [self._candidate((part,)) for part in parts]
        # What they recompute already they do not read again.
        storing = self._candidate(own.outputs, self._recomputed(own))
        recomputed = (*own.outputs, *self._recomputed(own), *self._recomputed(reader))
        new = self._candidate(reader.outputs, recomputed)
        sums = [value for kernel in (*before, storing, new) for value in kernel.rounded_sums]
        if len({*sums}) < len(sums):
            raise CannotFuse(SUM_ORDERS_DIFFER)
        alone = [self._alone(kernel) for kernel in before]
        first = [reduce(SideBySide.joined, alone)] if alone else []
        both = self._alone(storing).joined(self._alone(new))
        after = sum([launch.microseconds for launch in (*first, both)])
        if after >= self._alone(own).microseconds + self._alone(reader).microseconds:
            raise CannotFuse("to recompute it takes longer than a launch")
        return [*before, storing, new]

    def _recomputed(self, kernel: Candidate) -> list[Value]:
        """The results that a kernel computes and another one stores."""
        return [v for v in self.results if v.op in kernel.ops and v not in kernel.outputs]

    def _made_of(self, kernel: Candidate) -> list[Value]:
        """The products that the results are made of; what follows these is computed again."""
        inside = {*kernel.ops}
        found: dict[Value, None] = {}
        waiting = [v for output in kernel.outputs for v in output.producer.operands]
        while waiting:
            value = waiting.pop()
            if value.op not in inside:
                continue
            is_stored = value in self.storable and value not in kernel.outputs
            if is_stored and isinstance(value.op, graph.Matmul):
                found[value] = None
            else:
                waiting += value.producer.operands
        return sorted(found, key=self._position)

    def _between(self, first: Candidate, last: Candidate) -> bool:
        """Whether a third kernel reads from `first` and writes for `last`."""
        flow = self.kernels.flow
        bit = flow.bits[last]
        return any(flow.needing[k] & bit for k in flow.readers_of(first) if k is not last)

    def _position(self, value: Value) -> int:
        return -1 if value.op is None else self.position[value.op]

    @property
    def why(self) -> list[Boundary | Apart]:
        """The tensors that one kernel writes and others read, with reasons; then, for each two
        launches between which there is none, and for each two kernels of a launch, why they are
        two."""
        stored = [
            Boundary(v, self.reasons[v])
            for v in self.stored
            if v in self.reasons and self.kernels.readers(v)
        ]
        apart = [
            Apart(one.kernels[0], other.kernels[0], self._why_two_launches(one, other))
            for one, other in combinations(self.launches, 2)
            if not one.writes_for(other)
        ]
        beside = [
            Apart(one, other, self._why_two_kernels(one, other), side_by_side=True)
            for launch in self.launches
            for one, other in combinations(launch.kernels, 2)
        ]
        return [*stored, *apart, *beside]

    def _why_two_launches(self, one: SideBySide, other: SideBySide) -> str:
        if any(self._between(k, n) for k in one.kernels for n in other.kernels):
            return "one needs the result of a third kernel that needs the other's"
        try:
            one.joined(other)
        except CannotFuse as error:
            return str(error)
        return "one of them was joined with a third kernel before"

    def _why_two_kernels(self, one: Candidate, other: Candidate) -> str:
        try:
            self._merged(one, other)
        except CannotFuse as error:
            return str(error)
        return "one of them was merged with a third kernel before"


def _elementwise_chain(value: Value, reader: Candidate) -> list[Value]:
    """The elementwise functions of a value in a kernel that are the only way to its outputs."""
    inside = {*reader.ops}

    def uses(v: Value) -> int:
        return sum(user in inside for user in v.users)

    left = {value: uses(value)}  # how many users are still to come
    chain = []
    for op in reader.ops:
        read = [v for v in dict.fromkeys(op.operands) if v in left]
        if not read:
            continue
        if not isinstance(op, (Elementwise, graph.Reshape, graph.Transpose)):
            break
        (result,) = op.results
        for v in read:
            left[v] -= 1
        left[result] = uses(result)
        if isinstance(op, Elementwise) and [v for v, n in left.items() if n] == [result]:
            chain.append(result)
    return chain


def _shape(value: Value) -> tuple[int, ...]:
    return element_type(value.type).shape


def _what_grows(own: Candidate, readers: Sequence[Candidate], new: Sequence[Candidate]) -> str:
    """Say what increases if a value is not written to memory."""
    before, after = [own, *readers], new
    computed = _growth([k.cost.operations for k in before], [k.cost.operations for k in after])
    loaded = _growth([k.cost.traffic for k in before], [k.cost.traffic for k in after])
    more = max(computed, loaded)
    if more <= 1:
        return "as fewer programs would do it"
    return f"as {more:.1f} times as much is {'computed' if more == computed else 'loaded'}"


def _growth(before: Sequence[float], after: Sequence[float]) -> float:
    """How many times as much there is after as before."""
    return sum(after) / sum(before) if any(before) else 1
