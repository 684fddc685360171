"""Loading in one round of a loop what the next round stages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from iris.analysis.affine import Sums, is_nonnegative
from iris.analysis.backward_slice import makers, operands_within
from iris.cost.occupancy import OTHER_REGISTERS, second_buffer_pays, usual_depth
from iris.cost.resources import aligned
from iris.errors import PipelineError
from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import For, Func, If, Yield
from iris.ir.core import Module, Op, Region, Resource, Value
from iris.ir.declare import Access
from iris.ir.effects import effects_within, is_convergent, may_alias, may_speculate, writes
from iris.ir.math import Constant, Predicate, element_type
from iris.ir.metal import SIMDGROUP_WIDTH
from iris.ir.rewriter import with_results
from iris.ir.types import Ptr, Staged, Tile
from iris.passes.pipeline import TargetPass
from iris.targets import Target


@dataclass(frozen=True)
class PipelineLoads(TargetPass):
    """Load the tiles that a loop stages one iteration ahead, and stage them at its end, into
    memory that the iteration does not read.

        %c: tile<64x64xf32> = for %c0, %n, %c32 (%k: i32, %x: tile<64x64xf32> = %zero) {
          %a: tile<64x32xf16> = tile.load_tile %A, offsets=[%i, %k], ...
          %sa: staged<64x32xf16, ...> = tile.stage %a
          %y: tile<64x64xf32> = tile.dot %sa, %b, acc=%x
          yield %y
        }

    becomes, with a load before the loop if that has any round,

        %sa: staged<64x32xf16, ...> = tile.stage %a
        %last: i32 = sub %n, %c32                       // from there on, no round comes after
        %c: tile<64x64xf32>, %0: staged<64x32xf16, ...> = for %c0, %n, %c32 (%k: i32,
            %x: tile<64x64xf32> = %zero, %sa_1: staged<64x32xf16, ...> = %sa) {
          %more: bool = compare lt %k, %last
          %next: i32 = add %k, %c32
          %a_1: tile<64x32xf16> = if %more {
            %a_2: tile<64x32xf16> = tile.load_tile %A, offsets=[%i, %next], ...
            yield %a_2
          } else {
            yield %nothing                              // zeros, which nobody reads
          }
          %y: tile<64x64xf32> = tile.dot %sa_1, %b, acc=%x
          %sa_2: staged<64x32xf16, ...> = tile.stage %a_1
          yield %y, %sa_2
        }

    So a load has the time of a round, and there is one barrier in each: a tile staged in it is
    read after the next one, and was read before.

    Ops between a load and its stage, such as a cast, move to the stage.  A
    load moves only if the loop writes nothing that it may read, and nothing else needs its
    result.  A loop stays as it is if there is no threadgroup memory for twice what it stages, and,
    but for `always`, if a core would then hold fewer simdgroups than keep it busy: those hide
    loads and barriers as well.

    `depth` is how many iterations have their tiles in memory at a time: 1 leaves all loops as they
    are, and with 3 an iteration loads for the one after the next.  What does not fit that often is
    there as often as it fits.  The cost model counts the memory that this takes, and no time of a
    load that it saves.  So a launch may ask for more than is usual, `num_stages=3`, and the clock
    of a device judges.

    Where copies go on by themselves, a tile that is staged as it is loaded is staged at once, for
    the copy to have the time of the round; and usual are 3 iterations, elsewhere 2.
    """

    name = "pipeline-loads"
    level = tile.TileOp.level
    always: bool = False
    depth: int | None = None

    def run(self, module: Module) -> dict[str, int]:
        if self.depth is not None and self.depth < 1:
            raise PipelineError(f"pipeline-loads: depth is at least 1, not {self.depth}")
        functions = [f for f in module if isinstance(f, Func)]
        return {"pipelined": sum(map(self._visit, functions))}

    def _visit(self, function: Func) -> int:
        """Outer loops first: what comes before an inner one is then staged for that alone."""
        ops = function.walk()
        used = _bytes(op for op in ops if isinstance(op, tile.Stage))
        pipelined = 0
        depth = self.depth or usual_depth(self.target)
        for op in ops:
            if not isinstance(op, For):
                continue
            loop = op
            stages = [s for s in loop.body if isinstance(s, tile.Stage) and not _is_carried(s)]
            # What is done one iteration ahead is done one more ahead in the same way.
            for _ in range(1, depth):
                ahead = _find_loads_ahead(loop, stages)
                if ahead is None:
                    break
                more = used + _bytes(ahead.stages)
                if not self._has_room(used, more, loop, function):
                    break
                used = more
                pipelined += len(ahead.stages)
                loop, stages = ahead.apply(self.target)
        return pipelined

    def _has_room(self, used: int, more: int, loop: For, function: Func) -> bool:
        """Whether there is so much more threadgroup memory, and it is worth it."""
        if more > self.target.threadgroup_bytes:
            return False
        count = function.simdgroups or 1
        registers = _carried_registers(loop, count) + OTHER_REGISTERS
        return self.always or second_buffer_pays(used, more, count, self.target, registers)


def _carried_registers(loop: For, simdgroups: int) -> int:
    """How many registers of a thread hold the tiles that a loop carries."""
    tiles = [v.type for v in loop.carried_arguments if isinstance(v.type, Tile)]
    threads = simdgroups * SIMDGROUP_WIDTH
    return sum([prod(t.shape) * t.element.bytes // (4 * threads) for t in tiles])


def _is_carried(stage: tile.Stage) -> bool:
    """Whether a loop carries a staged tile already, which then has two memories."""
    return any(user.terminator or user.regions for user in stage.result.users)


def _bytes(stages: Iterable[tile.Stage]) -> int:
    total = 0
    for op in stages:
        type_ = op.result.type_as(Staged)
        total += aligned(type_.layout.cosize * type_.element.bytes)
    return total


def _find_loads_ahead(loop: For, stages: Iterable[tile.Stage]) -> _LoadsAhead | None:
    """What of some tiles that a loop stages can be done a round ahead."""
    step = loop.step.op
    if not isinstance(step, Constant) or step.value <= 0:
        return None
    body = _LoopBody(loop)
    stages = [op for op in stages if body.can_load_ahead(op)]
    while stages:
        ahead = _LoadsAhead(body, stages)
        alone = [op for op in stages if not ahead.is_needed_elsewhere(op)]
        if alone == stages:
            return ahead
        stages = alone
    return None


class _LoopBody:
    """What the ops of a loop's body need."""

    def __init__(self, loop: For):
        self.loop = loop
        self.region = loop.body
        self.order = {op: n for n, op in enumerate(loop.body)}
        self.written = writes(effects_within(loop))

    def definitions(self, values: Iterable[Value], done: Collection[Op] = ()) -> list[Op]:
        """The ops of the body that values are made by, in order, but for those that are done."""
        found = makers(values, self.region, done)
        return sorted(found, key=self.order.__getitem__)

    def arguments(self, ops: Iterable[Op]) -> list[Value]:
        """What of a loop's arguments ops need."""
        needed = (v for op in ops for v in operands_within(op) if v.region is self.region)
        return list(dict.fromkeys(needed))

    def next_value(self, argument: Value) -> Value:
        """What a carried value is in the next round."""
        return self.region.end.operands[argument.index - 1]

    def can_load_ahead(self, stage: tile.Stage) -> bool:
        """Whether the next round's tile can be loaded, and made, in this one."""
        ops = self.definitions([stage.x])
        loads = [op for op in ops if effects_within(op)]
        after = self.definitions([stage.x], loads)
        return (
            bool(loads)
            and all(map(self._may_move, ops))
            and all(map(may_speculate, after))
            and all(map(self._has_known_next_value, self.arguments(ops)))
        )

    def _may_move(self, op: Op) -> bool:
        return not is_convergent(op) and all(
            e.access is Access.READ and not self._is_written(e.resource) for e in effects_within(op)
        )

    def _is_written(self, resource: Value | Resource) -> bool:
        return any(may_alias(resource, written) for written in self.written)

    def _has_known_next_value(self, argument: Value) -> bool:
        """Whether what an argument is in the next round can be told at the start of this one."""
        if argument.index == 0:
            return True
        ops = self.definitions([self.next_value(argument)])
        return not any(effects_within(op) or is_convergent(op) for op in ops)


class _LoadsAhead:
    """The ops of a loop that are to be done a round ahead: `early` what loads, and the addresses
    for that; `late` what is made of it."""

    def __init__(self, body: _LoopBody, stages: Sequence[tile.Stage]):
        self.body = body
        self.stages = stages
        staged = [op.x for op in stages]
        self.ops = body.definitions(staged)
        loads = [op for op in self.ops if effects_within(op)]
        self.until_loads = body.definitions([v for op in loads for v in op.results])
        self.after_loads = body.definitions(staged, loads)
        used = {*staged, *[v for op in self.after_loads for v in operands_within(op)]}
        self.loaded = [v for op in loads for v in op.results if v in used]

    def is_needed_elsewhere(self, stage: tile.Stage) -> bool:
        """Whether what is loaded for a stage serves others, too, for whom it would be loaded
        again."""
        moved = {*self.ops, *self.stages}
        loaded: set[Op] = set()
        for op in self.body.definitions([stage.x]):
            if effects_within(op) or not loaded.isdisjoint([v.op for v in operands_within(op)]):
                loaded.add(op)
        return any(not moved.issuperset(v.users) for op in loaded for v in op.results)

    def apply(self, target: Target) -> tuple[For, list[tile.Stage]]:
        """Do it; gives the loop that there is then, and what it stages for later ones."""
        loop, body = self.body.loop, self.body.region
        step = loop.step
        b = Builder.before_op(loop)
        begins = None
        if not loop.surely_runs(body):
            begins = b(math.Compare(Predicate.LT, loop.lower, loop.upper), "begins")
        first = dict(zip(body.arguments, (loop.lower, *loop.initial), strict=True))
        self._load(b, first, begins)
        staged = self._stage(b, first)
        last = _last_index(b, loop)
        new = with_results(loop, (*loop.operands, *staged), loop.results, [v.type for v in staged])
        carried = [body.add_argument(op.result.type, op.result.name) for op in self.stages]
        at_once = target.copies and self._may_copy()
        later = self._load_and_stage_next(last, step, at_once=at_once)
        for op, argument in zip(self.stages, carried, strict=True):
            op.result.replace_by(argument)
            op.erase()
        for unused in reversed(self.ops):
            if not any(v.users for v in unused.results):
                unused.erase()
        return new, later

    def _may_copy(self) -> bool:
        """Whether tiles are staged as they are loaded, from where vectors may be."""
        loads = [inner for op in self.ops for inner in op.walk() if effects_within(inner)]
        return all(isinstance(op, tile.Reshape) for op in self.after_loads) and all(
            e.resource.type_as(Ptr).aligned
            for op in loads
            for e in op.effects()
            if isinstance(e.resource, Value)
        )

    def _load_and_stage_next(self, last: Value, step: Value, *, at_once: bool) -> list[tile.Stage]:
        """Load at the start of a round, and stage there or at its end, what the next one needs."""
        body, index = self.body.region, self.body.region.arguments[0]
        needed = [v for v in self.body.arguments(self.ops) if v is not index]
        next_values = {v: self.body.next_value(v) for v in needed}
        first = self.body.definitions(next_values.values())
        for op in first:
            op.detach()
        b = Builder(body, body.first, self.body.loop.location)
        for op in first:
            b.insert(op)
        more = b(math.Compare(Predicate.LT, index, last), "more")
        next_values[index] = b(math.Add(index, step), "next")
        self._load(b, next_values, more)
        if not at_once:
            b.before = body.end
        staged = self._stage(b, next_values)
        body.end.set_operands((*body.end.operands, *staged))
        return [v.op for v in staged if isinstance(v.op, tile.Stage)]

    def _load(self, b: Builder, mapping: dict[Value, Value], condition: Value | None) -> None:
        """Load under a condition, given what the arguments of the loop are; adds what is loaded
        to that."""
        if condition is None:
            for op in self.until_loads:
                b.insert(op.clone(mapping))
            return
        then, otherwise = Region(), Region()
        inside = dict(mapping)
        for op in self.until_loads:
            then.append(op.clone(inside))
        then.append(Yield([inside[v] for v in self.loaded]))
        nothing = [Constant.of_bits(0, element_type(v.type)) for v in self.loaded]
        for zero in nothing:
            otherwise.append(zero)
        otherwise.append(Yield([zero.result for zero in nothing]))
        types = [v.type for v in self.loaded]
        branch = b.insert(If.create((condition,), (), types, (then, otherwise)))
        for value, result in zip(self.loaded, branch.results, strict=True):
            result.name = value.name
            mapping[value] = result

    def _stage(self, b: Builder, mapping: dict[Value, Value]) -> list[Value]:
        for op in self.after_loads:
            b.insert(op.clone(mapping))
        for stage in self.stages:
            b.insert(stage.clone(mapping))
        return [mapping[stage.result] for stage in self.stages]


def _last_index(b: Builder, loop: For) -> Value:
    """The number from which on a round is the last one, which is not below those of its type."""
    type_, step, upper = loop.lower.type.element, loop.step.op, loop.upper
    assert isinstance(step, Constant), f"the step {loop.step!r} of a pipelined loop is not known"
    lower = Sums().scalar(loop.lower)
    if lower is None or not is_nonnegative(lower):
        least = b(Constant(type_.low + int(step.value), type_))
        upper = b(math.Maximum(upper, least))
    return b(math.Sub(upper, loop.step), "last")
