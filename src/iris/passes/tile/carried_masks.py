"""How `follow-masks` follows masks through control flow.

Where a mask has to leave a region, it is carried along with its value: a bool for each set of
axes that its factors lie along.
"""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import math, tile
from iris.ir.builder import Builder
from iris.ir.control import For, If, While
from iris.ir.core import Location, Op, Value
from iris.ir.types import ElementType
from iris.ir.updates import ELEMENTWISE, made_of
from iris.passes.tile.masks import (
    Axes,
    Factor,
    Mask,
    Masks,
    Values,
    of_shape,
    shape_of,
    without,
)

Ways = dict[tuple[int, Axes], Location | None]  # which values' masks are carried, and how they lie


def _ways(carried: Sequence[Mask]) -> Ways:
    return {(i, f.axes): f.origin for i, mask in enumerate(carried) for f in mask}


def _types(ways: Ways, values: Sequence[Value]) -> list[ElementType]:
    return [of_shape(tuple(shape_of(values[i])[a] for a in axes)) for i, axes in ways]


def _bools(ways: Ways, carried: Sequence[Mask], values: Sequence[Value], masks: Masks) -> Values:
    """What is carried for values of these masks."""
    return tuple(
        masks.holds(tuple(f for f in carried[i] if f.axes == axes), axes, type_.shape)
        for (i, axes), type_ in zip(ways, _types(ways, values), strict=True)
    )


def _factors(ways: Ways, index: int, bools: Sequence[Value]) -> Mask:
    """The mask of a value that the bools were carried with."""
    return tuple(
        Factor(value, axes, origin)
        for ((i, axes), origin), value in zip(ways.items(), bools, strict=True)
        if i == index
    )


def branch(op: If, masks: Masks) -> None:
    """A masked condition does not hold.  A result is masked where what is yielded is."""
    if masks[op.condition]:
        op.set_operands((_and(op.condition, masks[op.condition], masks),))
    for region in op.regions:
        masks.follow_region(region)
    yielded = [[masks[v] for v in region.end.operands] for region in op.regions]
    both = [tuple(f for f in one if f in other) for one, other in zip(*yielded, strict=True)]
    rest = [[without(m, b) for m, b in zip(ms, both, strict=True)] for ms in yielded]
    ways = _ways(rest[0]) | _ways(rest[1])
    results: Sequence[Value] = op.results
    if ways:
        for region, carried in zip(op.regions, rest, strict=True):
            with masks.at_end(region) as end:
                bools = _bools(ways, carried, op.results, masks)
                end.set_operands((*end.operands, *bools))
        types = [v.type for v in op.results] + _types(ways, op.results)
        regions, op.regions = op.regions, ()
        new = If.create(op.operands, (), types, regions, op.location)
        masks.build(new)
        results = new.results
        for old, value in zip(op.results, results, strict=False):
            value.name = old.name
            old.replace_by(value)
        op.erase()
    count = len(both)
    for index, mask in enumerate(both):
        masks[results[index]] = (*mask, *_factors(ways, index, results[count:]))


def bounded_loop(op: For, masks: Masks) -> None:
    """A loop of masked bounds does not run."""
    mask = masks.all_of(op.operands[:3])
    if mask:
        upper, step = masks.select(mask, op.upper, op.lower), masks.select(mask, op.step, 1)
        op.set_operands((op.lower, upper, step, *op.initial))
    loop(op, masks)


def loop(op: For | While, masks: Masks) -> None:
    """A carried value keeps its elements where the new ones are masked, if those are made of
    them one by one; otherwise its mask is carried, too.

    How a carried mask lies is known only when the body has been followed, so that this is done
    again, on a fresh copy, until what was assumed is true.
    """
    concerned = any(
        isinstance(inner, tile.MaskedLoad | tile.Update)
        or any(v in masks.of for v in inner.operands)
        for inner in op.walk()
    )
    if not concerned:
        return
    assumed = _Assumed(op, masks)
    keeps, starts = assumed.keeps, assumed.starts
    ways = _ways([() if keep else mask for keep, mask in zip(keeps, starts, strict=True)])
    while True:
        masks.go_to(op)
        copy = _with_masks(op, assumed, ways, masks)
        news = [masks[v] for v in copy.body.end.operands[: len(keeps)]]
        right = assumed.holds(news, masks)
        more = _ways([() if keep else mask for keep, mask in zip(keeps, news, strict=True)])
        if right and more.keys() <= ways.keys():
            break
        ways = ways | more
        copy.erase()
    after: dict[int, Mask] = {}
    with masks.at_end(copy.body) as end:
        values = list(end.operands)
        olds = copy.body.arguments[-len(copy.results) :] if copy.results else []
        for index, keep in enumerate(keeps):
            if keep:
                lost = without(news[index], starts[index])
                asked = isinstance(copy, While) and bool(copy.condition.arguments[index].users)
                if not asked and _is_private(olds[index], end, index):
                    after[index] = tuple(f for f in lost if not _is_within(f.value, copy))
                    lost = without(lost, after[index])
                values[index] = masks.update(lost, values[index], olds[index])
        end.set_operands((*values, *_bools(ways, news, op.results, masks)))
    if isinstance(copy, While):
        with masks.at_end(copy.condition) as end:
            (holds,) = end.operands
            if masks[holds]:
                end.set_operands((_and(holds, masks[holds], masks),))
    masks.go_to(op)
    results = list(copy.results)
    for index, mask in after.items():
        results[index] = masks.select(mask, results[index], copy.initial[index])
    _set_carried(results, keeps, starts, ways, masks)
    for old, new in zip(op.results, results, strict=False):
        old.replace_by(new)
    op.erase()


class _Assumed:
    """What is assumed of the values that a loop carries, until it turns out to be wrong."""

    def __init__(self, op: For | While, masks: Masks):
        end = op.body.end
        olds = op.body.arguments[-len(op.results) :] if op.results else []
        self.starts = [masks[v] for v in op.initial]
        # Which keep their old elements at the end of the body.
        self.keeps = [_is_made_of(n, o) for n, o in zip(end.operands, olds, strict=True)]
        # The updates in the body that may as well be one at its end, for they lose the same lanes;
        # of several, that has to turn out first.
        chains = [_chain(end, i, old) for i, old in enumerate(olds)]
        self.chains = [chain if len(chain) == 1 else [] for chain in chains]
        self.candidates = {i: chain for i, chain in enumerate(chains) if len(chain) > 1}
        self.results: dict[int, list[Value]] = {}  # of the candidates, in the copy
        self.updated: set[int] = set()  # which are updated by an op at the end of the body

    def copied(self, op: For | While) -> For | While:
        """A copy of a loop with the updates that are assumed."""
        mapping: dict[Value, Value] = {}
        copy = op.clone(mapping)
        assert isinstance(copy, For | While)
        for chain in self.chains:
            for update in chain:
                _put_off(mapping[update.result])
        self.results = {i: [mapping[u.result] for u in c] for i, c in self.candidates.items()}
        end = copy.body.end
        values = list(end.operands)
        for index in self.updated:
            old = copy.body.arguments[index - len(copy.results)]
            values[index] = Builder(copy.body, end, end.location)(tile.Update(old, values[index]))
        end.set_operands(tuple(values))
        return copy

    def holds(self, news: Sequence[Mask], masks: Masks) -> bool:
        """Whether all is right for these masks of the new values; what is not is given up."""
        right = True
        for index, (keep, start) in enumerate(zip(self.keeps, self.starts, strict=True)):
            # What is masked at first, and not any more, no longer keeps what it was.
            if keep and without(start, news[index]):
                right, self.keeps[index], self.chains[index] = False, False, []
                self.updated.add(index)
                self.candidates.pop(index, None)
        for index, results in self.results.items():
            chain = self.candidates.pop(index, [])
            if chain and len({masks.lost[v] for v in results}) == 1:
                right, self.chains[index] = False, chain
        return right


def _chain(end: Op, index: int, old: Value) -> list[tile.Update]:
    """The updates of a carried value from the start of a body to its end, where nothing else uses
    what they give."""
    chain: list[tile.Update] = []
    value = end.operands[index]
    while isinstance(value.op, tile.Update) and _is_made_of(value.op.new, value.op.old):
        chain.append(value.op)
        value = value.op.old
    if value is not old or not chain:
        return []
    only = list(chain[0].result.users) == [end] and end.operands.count(chain[0].result) == 1
    if not (len(chain) == 1 and only) and not _is_private(old, end, index):
        return []
    return chain[::-1]


def _put_off(result: Value) -> None:
    """Take an update away."""
    update = result.op
    assert isinstance(update, tile.Update)
    result.replace_by(update.new)
    update.erase()


def _with_masks(op: For | While, assumed: _Assumed, ways: Ways, masks: Masks) -> For | While:
    """Put before a loop a copy that carries these masks, too, all but yields them, and follow
    what is in it."""
    plain, keeps, starts = assumed.copied(op), assumed.keeps, assumed.starts
    operands = (*op.operands, *_bools(ways, starts, op.results, masks))
    types = _types(ways, op.results)
    for region in plain.regions:
        for type_ in types:
            region.add_argument(type_)
    regions, plain.regions = plain.regions, ()
    plain.erase()
    copy = type(op).create(
        operands, op.attributes, [v.type for v in op.results] + types, regions, op.location
    )
    for old, new in zip(op.results, copy.results, strict=False):
        new.name = old.name
    masks.build(copy)
    for region in copy.regions:
        if copy.results:
            _set_carried(region.arguments[-len(copy.results) :], keeps, starts, ways, masks)
        masks.follow_region(region)
    return copy


def _set_carried(
    values: Sequence[Value],
    keeps: Sequence[bool],
    starts: Sequence[Mask],
    ways: Ways,
    masks: Masks,
) -> None:
    for index, keep in enumerate(keeps):
        mask = starts[index] if keep else _factors(ways, index, values[len(keeps) :])
        masks[values[index]] = mask


def _is_made_of(new: Value, old: Value) -> bool:
    return made_of(new, lambda value: value is old)


def _is_private(old: Value, end: Op, index: int) -> bool:
    """Whether a carried value is used only to make the next one of it, element by element: then
    what its masked elements are in between does not matter."""
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


def _is_within(value: Value, op: Op) -> bool:
    """Whether a value is made in the regions of an op."""
    owner = value.home.owner if value.home is not None else None
    return owner is not None and owner.is_inside(op)


def _and(condition: Value, mask: Mask, masks: Masks) -> Value:
    return masks.make(math.And(condition, masks.holds(mask, (), ())))
