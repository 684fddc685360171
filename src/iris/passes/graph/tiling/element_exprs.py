"""Element expressions: how one op computes an element of its result from other elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from iris.ir.core import Op, Value
from iris.ir.kinds import ReduceKind, ScanKind, is_rounded
from iris.ir.math import And, Compare, Select
from iris.ir.types import DType
from iris.passes.graph.tiling.element_ref import ElementRef, Guard, Lookup, Within, axes_of
from iris.passes.graph.tiling.index_expr import Atom, Axis, IndexExpr


@dataclass(frozen=True)
class ElementExpr:
    """How an element is computed."""

    @property
    def refs(self) -> tuple[ElementRef, ...]:
        """The elements that it reads."""
        return ()

    @property
    def ops(self) -> tuple[type[Op], ...]:
        """The elementwise ops that compute it from these."""
        return ()

    def index_exprs(self) -> Iterator[IndexExpr]:
        """Yield the index expressions that it evaluates."""
        return iter(())

    def substituted(self, new: Substitution) -> ElementExpr:
        return self


@dataclass(frozen=True)
class LoadExpr(ElementExpr):
    """An element of an input, in row-major order."""

    value: Value
    offset: IndexExpr
    guard: Guard

    def index_exprs(self) -> Iterator[IndexExpr]:
        yield self.offset
        for condition in self.guard:
            yield condition.index

    def substituted(self, new: Substitution) -> LoadExpr:
        return LoadExpr(self.value, new.index(self.offset), new.guard(self.guard))


@dataclass(frozen=True)
class IndexValue(ElementExpr):
    """The value of an index."""

    index: IndexExpr

    def index_exprs(self) -> Iterator[IndexExpr]:
        yield self.index

    def substituted(self, new: Substitution) -> IndexValue:
        return IndexValue(new.index(self.index))


@dataclass(frozen=True)
class SplatExpr(ElementExpr):
    """A constant, as its bits."""

    bits: int


@dataclass(frozen=True)
class Alias(ElementExpr):
    """The same as another element."""

    ref: ElementRef

    @property
    def refs(self) -> tuple[ElementRef, ...]:
        return (self.ref,)

    def substituted(self, new: Substitution) -> Alias:
        return Alias(new.ref(self.ref))


@dataclass(frozen=True)
class Piecewise(ElementExpr):
    """The first case whose conditions hold; the last has none."""

    cases: tuple[tuple[tuple[Within, ...], ElementRef], ...]

    @property
    def refs(self) -> tuple[ElementRef, ...]:
        return tuple([ref for _, ref in self.cases])

    @property
    def ops(self) -> tuple[type[Op], ...]:
        """A choice for each case but the last, by what all comparisons of its conditions say."""
        compared = sum([condition.comparisons for condition in self.conditions])
        choices = len(self.cases) - 1
        return (Compare,) * compared + (And,) * (compared - choices) + (Select,) * choices

    @property
    def conditions(self) -> list[Within]:
        return [condition for conditions, _ in self.cases for condition in conditions]

    def index_exprs(self) -> Iterator[IndexExpr]:
        for condition in self.conditions:
            yield condition.index

    def substituted(self, new: Substitution) -> Piecewise:
        cases = [(tuple(map(new.within, cs)), new.ref(d)) for cs, d in self.cases]
        return Piecewise(tuple(cases))


@dataclass(frozen=True)
class Pointwise(ElementExpr):
    """An elementwise op on other elements."""

    op: Op
    operands: tuple[ElementRef, ...]

    @property
    def refs(self) -> tuple[ElementRef, ...]:
        return self.operands

    @property
    def ops(self) -> tuple[type[Op], ...]:
        return (type(self.op),)

    def substituted(self, new: Substitution) -> Pointwise:
        return Pointwise(self.op, tuple(map(new.ref, self.operands)))


@dataclass(frozen=True)
class Rescaling:
    """Rescales a sum in the loop of a maximum `base` that its terms depend on.

    When that grows from `m` to `m'`, the sum is multiplied by `function(m - m')`.  In the end it is
    multiplied, or divided, by elements that are known by then.
    """

    base: ElementRef
    function: type[Op]
    end: tuple[tuple[type[Op], ElementRef], ...]

    @property
    def refs(self) -> tuple[ElementRef, ...]:
        return (self.base, *[ref for _, ref in self.end])

    def substituted(self, new: Substitution) -> Rescaling:
        end = tuple([(op, new.ref(ref)) for op, ref in self.end])
        return Rescaling(new.ref(self.base), self.function, end)


@dataclass(frozen=True)
class Aggregate(ElementExpr):
    """A value that depends on all elements along some axes."""

    over: tuple[Axis, ...]
    rescaling: Rescaling | None = field(default=None, kw_only=True)
    operations: ClassVar[int] = 1  # that each element takes

    @property
    def operands(self) -> tuple[ElementRef, ...]:
        """The elements that it goes over."""
        raise NotImplementedError

    @property
    def refs(self) -> tuple[ElementRef, ...]:
        return self.operands if self.rescaling is None else (*self.operands, *self.rescaling.refs)

    @property
    def is_sum(self) -> bool:
        raise NotImplementedError

    @property
    def is_rounded(self) -> bool:
        """Whether its value may depend on the order of the elements."""
        raise NotImplementedError

    def _substituted_rescaling(self, new: Substitution) -> Rescaling | None:
        return None if self.rescaling is None else self.rescaling.substituted(new)


@dataclass(frozen=True)
class _TensorAggregate(Aggregate):
    """An aggregate of the elements of one tensor."""

    kind: ReduceKind | ScanKind
    ref: ElementRef

    @property
    def operands(self) -> tuple[ElementRef, ...]:
        return (self.ref,)

    @property
    def is_sum(self) -> bool:
        return self.kind is ReduceKind.SUM

    @property
    def is_rounded(self) -> bool:
        return is_rounded(self.kind, self.ref.element)

    def substituted(self, new: Substitution) -> _TensorAggregate:
        rescaling = self._substituted_rescaling(new)
        return type(self)(new.axes(self.over), self.kind, new.ref(self.ref), rescaling=rescaling)


@dataclass(frozen=True)
class ReduceExpr(_TensorAggregate):
    """One value for all elements along some axes."""

    kind: ReduceKind


@dataclass(frozen=True)
class DeviationsExpr(ReduceExpr):
    """The sum of `(x - mean(x))**2` along some axes, of elements `x` and the first of them."""

    first: ElementRef
    operations: ClassVar[int] = 6

    @property
    def is_sum(self) -> bool:
        return False  # of these elements

    @property
    def refs(self) -> tuple[ElementRef, ...]:
        return (self.ref, self.first)

    def substituted(self, new: Substitution) -> DeviationsExpr:
        over, ref, first = new.axes(self.over), new.ref(self.ref), new.ref(self.first)
        return DeviationsExpr(over, self.kind, ref, first)


@dataclass(frozen=True)
class ScanExpr(_TensorAggregate):
    """The reduction of all elements along some axes up to one, inclusive."""

    kind: ScanKind


@dataclass(frozen=True)
class Contraction(Aggregate):
    """The sum of products `a * b` along some axes; `b` is 0 unless the conditions `inside` hold."""

    a: ElementRef
    b: ElementRef
    element: DType
    inside: tuple[Within, ...] = ()

    @property
    def operands(self) -> tuple[ElementRef, ...]:
        return (self.a, self.b)

    @property
    def is_sum(self) -> bool:
        return True

    @property
    def is_rounded(self) -> bool:
        return is_rounded(ReduceKind.SUM, self.element)

    def index_exprs(self) -> Iterator[IndexExpr]:
        for condition in self.inside:
            yield condition.index

    def substituted(self, new: Substitution) -> Contraction:
        inside = tuple(map(new.within, self.inside))
        a, b = new.ref(self.a), new.ref(self.b)
        rescaling = self._substituted_rescaling(new)
        over = new.axes(self.over)
        return Contraction(over, a, b, self.element, inside, rescaling=rescaling)


class Substitution:
    """Replaces axes by index expressions of other axes."""

    def __init__(self, replacements: Mapping[Axis, IndexExpr]):
        self._replacements = replacements
        self._refs: dict[ElementRef, ElementRef] = {}
        self._indices: dict[IndexExpr, IndexExpr] = {}

    def ref(self, old: ElementRef) -> ElementRef:
        moved = self._refs.get(old)
        if moved is None:
            indices = tuple([self.index(i) for i in old.indices])
            moved = self._refs[old] = ElementRef(old.value, indices, self.guard(old.guard))
        return moved

    def index(self, old: IndexExpr) -> IndexExpr:
        moved = self._indices.get(old)
        if moved is None:
            moved = self._indices[old] = old.substitute(self._atom)
        return moved

    def within(self, old: Within) -> Within:
        return Within(self.index(old.index), old.low, old.high)

    def guard(self, old: Guard) -> Guard:
        return Guard(map(self.within, old)) if old else old

    def axes(self, old: Iterable[Axis]) -> tuple[Axis, ...]:
        return tuple(axes_of([self._replacements.get(axis) or IndexExpr.of(axis) for axis in old]))

    def _atom(self, atom: Atom) -> IndexExpr | None:
        if isinstance(atom, Lookup):
            return IndexExpr.of(Lookup(self.ref(atom.ref), atom.size))
        return self._replacements.get(atom) if isinstance(atom, Axis) else None
