"""Carry masks through control flow, for `follow-masks`.

A mask that leaves a region is carried with its value: one bool for each set of axes that its
factors depend on.
"""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import For, If, Loop, While, leading
from iris.ir.core import Location, Op, Value
from iris.ir.rewriter import with_results
from iris.ir.types import ElementType
from iris.ir.updates import ELEMENTWISE, made_of
from iris.passes.tile.masks import (
    Axes,
    Mask,
    MaskFactor,
    Masks,
    Values,
    difference,
    shape_of,
    tile_or_scalar,
)

MaskSlots = dict[tuple[int, Axes], Location | None]  # by the number of a value, and axes


def _mask_slots(carried: Sequence[Mask]) -> MaskSlots:
    return {(i, f.axes): f.origin for i, mask in enumerate(carried) for f in mask}


def _slot_types(slots: MaskSlots, values: Sequence[Value]) -> list[ElementType]:
    return [tile_or_scalar(tuple(shape_of(values[i])[a] for a in axes)) for i, axes in slots]


def _slot_values(
    slots: MaskSlots, carried: Sequence[Mask], values: Sequence[Value], masks: Masks
) -> Values:
    """The bools to carry for values with these masks."""
    return tuple(
        masks.holds(tuple(f for f in carried[i] if f.axes == axes), axes, type_.shape)
        for (i, axes), type_ in zip(slots, _slot_types(slots, values), strict=True)
    )


def _mask_of_slots(slots: MaskSlots, index: int, bools: Sequence[Value]) -> Mask:
    """The mask of a value, from carried bools."""
    return tuple(
        MaskFactor(value, axes, origin)
        for ((i, axes), origin), value in zip(slots.items(), bools, strict=True)
        if i == index
    )


def follow_if(op: If, masks: Masks) -> None:
    """Take a masked condition as false; mask a result where the yielded value is masked."""
    if masks[op.condition]:
        op.set_operands((_restricted_condition(op.condition, masks[op.condition], masks),))
    for region in op.regions:
        masks.follow_region(region)
    yielded = [[masks[v] for v in region.end.operands] for region in op.regions]
    both = [tuple(f for f in one if f in other) for one, other in zip(*yielded, strict=True)]
    rest = [[difference(m, b) for m, b in zip(ms, both, strict=True)] for ms in yielded]
    slots = _mask_slots(rest[0]) | _mask_slots(rest[1])
    results: Sequence[Value] = op.results
    if slots:
        for region, carried in zip(op.regions, rest, strict=True):
            with masks.at_end(region) as end:
                bools = _slot_values(slots, carried, op.results, masks)
                end.set_operands((*end.operands, *bools))
        types = _slot_types(slots, op.results)
        results = with_results(op, op.operands, op.results, types).results
    count = len(both)
    for index, mask in enumerate(both):
        masks[results[index]] = (*mask, *_mask_of_slots(slots, index, results[count:]))


def follow_for(op: For, masks: Masks) -> None:
    """Skip a loop whose bounds are masked."""
    mask = masks.all_of(op.operands[:3])
    if mask:
        upper, step = masks.select(mask, op.upper, op.lower), masks.select(mask, op.step, 1)
        op.set_operands((op.lower, upper, step, *op.initial))
    follow_loop(op, masks)


def follow_loop(op: Loop, masks: Masks) -> None:
    """Carry the masks of carried values.

    A value keeps its elements where the new ones are masked, if the new ones are an elementwise
    function of them.  Otherwise its mask is carried, too.  The axes of a carried mask are known
    only after the body, so the loop is visited again, on a fresh copy, until the assumptions hold.
    """
    has_masks = any(
        isinstance(inner, (tile.MaskedLoad, tile.Update))
        or not masks.of.keys().isdisjoint(inner.operands)
        for inner in op.walk()
    )
    if not has_masks:
        return
    assumptions = _Assumptions(op, masks)
    keeps, starts = assumptions.keeps, assumptions.starts

    def slots_of(carried: Sequence[Mask]) -> MaskSlots:
        return _mask_slots([() if keep else m for keep, m in zip(keeps, carried, strict=True)])

    slots = slots_of(starts)
    while True:
        masks.insert_before(op)
        copy = _with_masks(op, assumptions, slots, masks)
        news = [masks[v] for v in copy.body.end.operands[: len(keeps)]]
        right = assumptions.check(news, masks)
        more = slots_of(starts) | slots_of(news)
        if right and more.keys() <= slots.keys():
            break
        slots = slots | more
        copy.erase()
    after: dict[int, Mask] = {}
    with masks.at_end(copy.body) as end:
        values = list(end.operands)
        olds = copy.carried_arguments
        for index, keep in enumerate(keeps):
            if keep:
                lost = difference(news[index], starts[index])
                asked = isinstance(copy, While) and bool(copy.condition.arguments[index].users)
                if not asked and _is_private(olds[index], end, index):
                    after[index] = tuple(f for f in lost if not f.value.is_inside(copy))
                    lost = difference(lost, after[index])
                values[index] = masks.update(lost, values[index], olds[index])
        end.set_operands((*values, *_slot_values(slots, news, op.results, masks)))
    if isinstance(copy, While):
        with masks.at_end(copy.condition) as end:
            (holds,) = end.operands
            if masks[holds]:
                end.set_operands((_restricted_condition(holds, masks[holds], masks),))
    masks.insert_before(op)
    results = list(copy.results)
    for index, mask in after.items():
        results[index] = masks.select(mask, results[index], copy.initial[index])
    _set_carried(results, keeps, starts, slots, masks)
    for old, new in zip(op.results, results, strict=False):
        old.replace_by(new)
    op.erase()


class _Assumptions:
    """Assumptions about the values that a loop carries, dropped when they fail."""

    def __init__(self, op: Loop, masks: Masks):
        end = op.body.end
        olds = op.carried_arguments
        self.starts = [masks[v] for v in op.initial]
        # Which values keep old elements at the end of the body.
        self.keeps = [_is_elementwise_of(n, o) for n, o in zip(end.operands, olds, strict=True)]
        # Updates in the body that one update at its end can replace, as they lose the same lanes.
        # A chain of several is first a candidate.
        chains = [_update_chain(end, i, old) for i, old in enumerate(olds)]
        self.chains = [chain if len(chain) == 1 else [] for chain in chains]
        self.candidates = {i: chain for i, chain in enumerate(chains) if len(chain) > 1}
        self.results: dict[int, list[Value]] = {}  # of the candidates, in the copy
        self.updated: set[int] = set()  # which are updated by an op at the end of the body

    def copy_of(self, op: Loop) -> Loop:
        """Copy a loop with the assumed updates."""
        mapping: dict[Value, Value] = {}
        copy = op.clone(mapping)
        for chain in self.chains:
            for update in chain:
                _erase_update(mapping[update.result])
        self.results = {i: [mapping[u.result] for u in c] for i, c in self.candidates.items()}
        end = copy.body.end
        values = list(end.operands)
        for index in self.updated:
            old = copy.carried_arguments[index]
            values[index] = Builder(copy.body, end, end.location)(tile.Update(old, values[index]))
        end.set_operands(tuple(values))
        return copy

    def check(self, news: Sequence[Mask], masks: Masks) -> bool:
        """Whether all assumptions hold for these masks; drop those that do not."""
        right = True
        for index, (keep, start) in enumerate(zip(self.keeps, self.starts, strict=True)):
            # A lane that is masked only at first has no old element to keep.
            if keep and difference(start, news[index]):
                right, self.keeps[index], self.chains[index] = False, False, []
                self.updated.add(index)
                self.candidates.pop(index, None)
        for index, results in self.results.items():
            chain = self.candidates.pop(index, [])
            if chain and len({masks.lost[v] for v in results}) == 1:
                right, self.chains[index] = False, chain
        return right


def _update_chain(end: Op, index: int, old: Value) -> list[tile.Update]:
    """The updates of a carried value through a body, if nothing else uses their results."""
    chain: list[tile.Update] = []
    value = end.operands[index]
    while isinstance(value.op, tile.Update) and _is_elementwise_of(value.op.new, value.op.old):
        chain.append(value.op)
        value = value.op.old
    if value is not old or not chain:
        return []
    only = list(chain[0].result.users) == [end] and end.operands.count(chain[0].result) == 1
    if not (len(chain) == 1 and only) and not _is_private(old, end, index):
        return []
    return chain[::-1]


def _erase_update(result: Value) -> None:
    """Erase an update."""
    update = result.op
    assert isinstance(update, tile.Update), f"no update makes {result!r}"
    result.replace_by(update.new)
    update.erase()


def _with_masks(op: Loop, assumptions: _Assumptions, slots: MaskSlots, masks: Masks) -> Loop:
    """Insert a copy of a loop that also carries masks, and visit its regions.

    The copy does not yield the masks yet.
    """
    plain, keeps, starts = assumptions.copy_of(op), assumptions.keeps, assumptions.starts
    operands = (*op.operands, *_slot_values(slots, starts, op.results, masks))
    types = _slot_types(slots, op.results)
    for region in plain.regions:
        for type_ in types:
            region.add_argument(type_)
    masks.insert(plain)
    copy = with_results(plain, operands, plain.results, types)
    for region in copy.regions:
        _set_carried(region.arguments[leading(copy, region) :], keeps, starts, slots, masks)
        masks.follow_region(region)
    return copy


def _set_carried(
    values: Sequence[Value],
    keeps: Sequence[bool],
    starts: Sequence[Mask],
    slots: MaskSlots,
    masks: Masks,
) -> None:
    for index, keep in enumerate(keeps):
        mask = starts[index] if keep else _mask_of_slots(slots, index, values[len(keeps) :])
        masks[values[index]] = mask


def _is_elementwise_of(new: Value, old: Value) -> bool:
    return made_of(new, lambda value: value is old)


def _is_private(old: Value, end: Op, index: int) -> bool:
    """Whether a carried value is used only for elementwise functions that give its next value.

    Then masked elements may have any value in between.
    """
    todo = [old]
    while todo:
        value = todo.pop()
        for user in value.users:
            if user is end:
                if [v for v in end.operands if v is value] != [end.operands[index]]:
                    return False
            elif isinstance(user, tile.Dot):
                if value in (user.a, user.b):
                    return False
            elif not isinstance(user, ELEMENTWISE) or not user.may_speculate():
                return False
            if user.parent is not end.parent:
                return False
            todo += user.results
    return True


def _restricted_condition(condition: Value, mask: Mask, masks: Masks) -> Value:
    return masks.make(math.And(condition, masks.holds(mask, (), ())))
