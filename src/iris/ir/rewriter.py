"""Changing IR by small rules, run to a fixed point.

rules = Rules()

@rules(Neg)
def double_negation(op: Neg, rewriter: Rewriter) -> None:
    inner = op.x.op
    if isinstance(inner, Neg):
        rewriter.replace(op, inner.x)

counts = rules.apply(module)        # how often each rule changed something, by its name
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial, wraps
from typing import TypeAlias, TypeVar

from iris.errors import RewriteError
from iris.ir.control import Loop, leading
from iris.ir.core import AnyOp, Module, Op, Region, Value
from iris.ir.types import Type

F = TypeVar("F", bound=Callable[..., None])
MOST_CHANGES = 64  # per op of the module: more means that two rules undo each other


class Rewriter:
    """The changes a rule may make.  It keeps track of the ops to visit again."""

    __slots__ = ("changed", "worklist")

    def __init__(self) -> None:
        self.worklist: dict[Op, None] = {}  # an ordered set, the last looked at first
        self.changed = False

    def insert(self, op: Op, before: Op) -> Op:
        """Put a new op before another, from whose line it comes unless it says otherwise."""
        if op.location is None:
            op.location = before.location
        before.insert_before(op)
        self.worklist[op] = None
        self.changed = True
        return op

    def replace(self, op: Op, by: Op | Value | Sequence[Value]) -> None:
        """Replace an op by values, or by a new op that is put in its place."""
        if isinstance(by, Op):
            self.insert(by, op)
            values: Sequence[Value] = by.results
        else:
            values = (by,) if isinstance(by, Value) else by
        if len(values) != len(op.results):
            raise RewriteError(f"{op.name} has {len(op.results)} results, not {len(values)}")
        for old, new in zip(op.results, values, strict=True):
            self.replace_value(old, new)
        self.erase(op)

    def replace_value(self, old: Value, new: Value) -> None:
        """Make the users of a value use another, of the same type."""
        if old.type is not new.type:
            raise RewriteError(f"{old!r} cannot be replaced by {new!r}: the types differ")
        for user in old.users:
            self.worklist[user] = None
        if new.name is None:
            new.name = old.name
        old.replace_by(new)
        self.changed = True

    def erase(self, op: Op) -> None:
        """Remove an op whose results are unused."""
        for value in op.operands:
            if value.op is not None:
                self.worklist[value.op] = None
        op.erase()
        for gone in op.walk():
            self.worklist.pop(gone, None)
        self.changed = True

    def set_operands(self, op: Op, operands: tuple[Value, ...]) -> None:
        for value in op.operands:
            if value.op is not None:
                self.worklist[value.op] = None
        op.set_operands(operands)
        self.worklist[op] = None
        self.changed = True

    def inline(self, region: Region, arguments: Sequence[Value], before: Op) -> list[Value]:
        """Move the ops of a region before an op, its arguments replaced by values; give what
        its terminator carried."""
        for argument, value in zip(region.arguments, arguments, strict=True):
            self.replace_value(argument, value)
        end = region.end
        carried = list(end.operands)
        for op in region:
            if op is end:
                self.erase(end)
            else:
                op.detach()
                before.insert_before(op)
                self.worklist[op] = None
        self.changed = True
        return carried


def drop_carried(op: Op, dead: Collection[int]) -> Op:
    """Put in place of an op with regions one that carries fewer values, which nothing uses but
    what the op carries them with."""
    for region in op.regions:
        if op.forwards(region):
            end = region.end
            end.set_operands(tuple([v for i, v in enumerate(end.operands) if i not in dead]))
        if region.arguments:
            first = leading(op, region)
            region.arguments = [a for a in region.arguments if a.index - first not in dead]
            for index, argument in enumerate(region.arguments):
                argument.index = index
    if isinstance(op, Loop):
        numbers = [i for i in range(len(op.results)) if i not in dead]
        op.set_attribute("in_place", tuple([i for i, n in enumerate(numbers) if n in op.in_place]))
    fixed = len(op.spec.fixed)
    operands = op.operands
    if op.spec.feeds:
        kept = [v for i, v in enumerate(operands[fixed:]) if i not in dead]
        operands = (*operands[:fixed], *kept)
    return with_results(op, operands, [v for v in op.results if v.index not in dead])


def with_results(
    op: AnyOp, operands: tuple[Value, ...], kept: Sequence[Value], more: Sequence[Type] = ()
) -> AnyOp:
    """Put in place of an op one with its regions, the results of it that are kept, and more."""
    regions = op.regions
    op.set_regions(())
    types = [*[v.type for v in kept], *more]
    new = type(op).create(operands, op.attributes, types, regions, op.location)
    op.insert_before(new)
    for value, replacement in zip(kept, new.results, strict=False):
        replacement.name = value.name
        value.replace_by(replacement)
    op.erase()
    return new


class _Found(dict[type[Op], tuple[Callable[..., None], ...]]):
    """The rules of each class and its bases, in the order in which they were registered; found when
    first asked for."""

    def __init__(self, rules: list[tuple[type[Op], Callable[..., None]]]):
        super().__init__()
        self._rules = rules

    def __missing__(self, cls: type[Op]) -> tuple[Callable[..., None], ...]:
        found = tuple([rule for base, rule in self._rules if issubclass(cls, base)])
        self[cls] = found
        return found


#: What runs a rule on an op, in order to watch what it does.
Watcher: TypeAlias = Callable[[Callable[..., None], Op, Rewriter], None]
#: The last one runs all rules.
WATCHERS: list[Watcher] = []


class _Watched(dict[type[Op], tuple[Callable[..., None], ...]]):
    """The rules of each class, run by a watcher."""

    def __init__(self, found: _Found, watcher: Watcher):
        super().__init__()
        self._rules = found
        self._watcher = watcher

    def __missing__(self, cls: type[Op]) -> tuple[Callable[..., None], ...]:
        # Rules are counted by their names.
        made = [wraps(rule)(partial(self._watcher, rule)) for rule in self._rules[cls]]
        watched = self[cls] = tuple(made)
        return watched


class Rules:
    """Rewrite rules, by the class of op each looks at."""

    def __init__(self) -> None:
        self._rules: list[tuple[type[Op], Callable[..., None]]] = []
        self._found = _Found(self._rules)

    def __call__(self, *classes: type[Op]) -> Callable[[F], F]:
        """Register a rule for op classes and their subclasses."""

        def register(rule: F) -> F:
            self._rules += [(cls, rule) for cls in classes]
            self._found.clear()
            return rule

        return register

    def of(self, cls: type[Op]) -> tuple[Callable[..., None], ...]:
        return self._found[cls]

    def apply(self, module: Module) -> Counter[str]:
        """Run the rules until none changes anything; gives how often each did."""
        rewriter = Rewriter()
        worklist = rewriter.worklist
        counts: Counter[str] = Counter()
        rules_of = _Watched(self._found, WATCHERS[-1]) if WATCHERS else self._found
        ops = module.walk()
        left = MOST_CHANGES * (len(ops) + 1)
        # What changes is looked at again, but a rule may look further than an op and its
        # operands: so all is swept that was not looked at since the last change.
        settled: list[Op] = []
        while ops:
            worklist.update(dict.fromkeys([op for op in reversed(ops) if rules_of[type(op)]]))
            changed = False
            while worklist:
                op, _ = worklist.popitem()
                settled.append(op)
                for rule in rules_of[type(op)]:
                    rule(op, rewriter)
                    if not rewriter.changed:
                        continue
                    rewriter.changed = False
                    changed = True
                    settled.clear()
                    counts[rule.__name__] += 1
                    left -= 1
                    if left < 0:
                        raise _endless(counts)
                    if op.parent is None:
                        break
            seen = set(settled)
            ops = [op for op in module.walk() if op not in seen] if changed else []
        return counts


def _endless(counts: Counter[str]) -> RewriteError:
    busiest = ", ".join(name for name, _ in counts.most_common(3))
    return RewriteError(f"the rules do not come to an end; the busiest are {busiest}")
