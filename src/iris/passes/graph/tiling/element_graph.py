"""The element graph of a kernel: an expression for each element that it computes.

An element of a result is an expression of elements of the operands, down to elements of the
kernel's inputs, which are loaded.  Views compute nothing: they only change indices.

    softmax[i, j]   exp(x[i, j] - max[i]) / sum[i]       max[i], sum[i]: over all of axis j
    matmul[i, j]    a[i, k] times b[k, j], over all of axis k

`element_rules` has the expression for each op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import gcd, prod
from typing import NamedTuple

from iris.ir import graph
from iris.ir.core import Facet, Value
from iris.ir.graph import ScatterKind
from iris.ir.math import element_type
from iris.ir.types import i32
from iris.passes.graph.tiling.element_exprs import (
    Aggregate,
    Alias,
    Contraction,
    DeviationsExpr,
    ElementExpr,
    LoadExpr,
    Piecewise,
    Pointwise,
    ScanExpr,
    SplatExpr,
    Substitution,
)
from iris.passes.graph.tiling.element_ref import (
    CannotFuse,
    ElementRef,
    Lookup,
    axes_of,
    indices_of,
    looked_up_indices,
    looked_up_refs,
    row_major_offset,
)
from iris.passes.graph.tiling.index_expr import Axis, IndexExpr

element_rules = Facet("element expression")

# Into how many parts an axis is cut, and how many neighbours a part has at least.
MAX_PARTS, MIN_NEIGHBOURS = 4, 32
# How many references to each tensor a program may have on average, and how many more in all.
# A chain of ops that each read two elements would double the program at each op.  With limits of
# 8 and 1024, networks of such ops take four times as long to compile, to hardly fewer kernels.
MAX_REFS_PER_TENSOR, EXTRA_REFS = 4, 256


class OutputStore(NamedTuple):
    """An element that a kernel writes, and the offset that it goes to."""

    ref: ElementRef
    offset: IndexExpr
    scatter: graph.Scatter | None = None  # the op, if the output is scattered

    def substituted(self, new: Substitution) -> OutputStore:
        return OutputStore(new.ref(self.ref), new.index(self.offset), self.scatter)

    @property
    def adds(self) -> bool:
        """Whether elements are added to those that are there."""
        return self.scatter is not None and self.scatter.kind is ScatterKind.ADD

    @property
    def bins(self) -> int:
        """How many elements there are, where a program adds up what it adds to each; else 0."""
        if self.scatter is None or not self.scatter.collected:
            return 0
        return prod(element_type(self.scatter.x.type).shape)


class Product(NamedTuple):
    """A matrix product, and the axes of the outputs that are its rows and its columns."""

    ref: ElementRef
    expr: Contraction
    rows: list[Axis]
    columns: list[Axis]


class ElementGraph:
    """The elements that a kernel needs, from its outputs down to its inputs."""

    def __init__(
        self, outputs: Sequence[OutputStore], inputs: Iterable[Value], axes: Sequence[Axis]
    ):
        self.inputs = set(inputs)
        self.output_axes = tuple(axes)
        # By the axes of the loops that enclose the reduction.
        self.reduction_axes: dict[frozenset[Axis], list[Axis]] = {}
        self.contraction_axes: dict[ElementRef, Axis] = {}  # by the rows of the product
        self.axis_counts: Counter[str] = Counter()  # by the letter of their names
        self.outputs = list(outputs)
        self.exprs: dict[ElementRef, ElementExpr] = {}
        self.reads: dict[ElementRef, list[ElementRef]] = {}  # by what reads them
        self.computed: set[Value] = set()
        for ref in self.roots():
            self._visit(ref)

    @staticmethod
    def of(values: Sequence[Value], inputs: Iterable[Value]) -> ElementGraph:
        """The element graph of a kernel that writes some values, all of one shape."""
        for value in values:
            if isinstance(value.op, graph.Scatter):
                return _scatter_elements(value.op, values, {*inputs})
        axes = _value_axes(values[0])
        if any(axis.size == 0 for axis in axes):
            return ElementGraph([], inputs, axes)
        inputs = {*inputs}
        whole = ElementGraph(_stores(values, [indices_of(axes)]), inputs, axes)
        for position, axis in enumerate(axes):
            size = whole.part_size(axis)
            if size < axis.size and size * prod(a.size for a in axes[position + 1 :]) >= (
                MIN_NEIGHBOURS
            ):
                parts = list(axes)
                parts[position] = Axis(axis.name, size)
                indices = [list(indices_of(parts)) for _ in range(axis.size // size)]
                for number, own in enumerate(indices):
                    own[position] += number * size
                return ElementGraph(_stores(values, map(tuple, indices)), inputs, parts)
        return whole

    def part_size(self, axis: Axis) -> int:
        """The size of the parts of an output axis such that no element is chosen by its index in
        one; the size of the axis if there are too many parts.

        A concatenation of two halves is stored half by half, and what both need is computed once.
        """
        size = axis.size
        if self.aggregates:  # whose axes this may be
            return size
        for expr in self.exprs.values():
            if isinstance(expr, Piecewise):
                for condition in expr.conditions:
                    if condition.index.terms == ((axis, 1),):
                        start = condition.index.constant
                        size = gcd(size, condition.low - start, condition.high - start)
        return size if axis.size <= MAX_PARTS * size else axis.size

    def _visit(self, ref: ElementRef) -> None:
        """Add the expressions of an element and of all that it needs, operands first."""
        opened: dict[ElementRef, ElementExpr] = {}
        pending = [ref]
        while pending:
            ref = pending[-1]
            if ref in self.exprs:
                pending.pop()
            elif ref in opened:
                self.exprs[ref] = opened[ref]
            else:
                expr = opened[ref] = self._define(ref)
                read = self.reads[ref] = refs_of(ref, expr)
                pending += read[::-1]

    def _define(self, ref: ElementRef) -> ElementExpr:
        op = ref.value.op
        if not prod(ref.shape):
            return SplatExpr(0)  # there is no such element, so that no guard of it ever holds
        if ref.value in self.inputs or op is None:
            offset = row_major_offset(ref)
            if offset.low < i32.low or offset.high > i32.high:
                raise CannotFuse("the index of an element that is not needed may not fit 32 bits")
            return LoadExpr(ref.value, offset, ref.guard)
        self.computed.add(ref.value)
        if len(self.exprs) > MAX_REFS_PER_TENSOR * len(self.computed) + EXTRA_REFS:
            raise CannotFuse("fusing would recompute too many elements")
        rule: Callable[..., ElementExpr] = element_rules[type(op)]
        return rule(op, ref, self)

    def reduction_axis(self, size: int, ref: ElementRef, others: Sequence[Axis]) -> Axis:
        """An axis for a reduction.

        An earlier reduction in the same loops shares its axis, so that both read the same elements.
        """
        taken = {*axes_of(ref.index_exprs()), *others}
        enclosing = frozenset(axes_of(ref.index_exprs())).difference(self.output_axes)
        shared = self.reduction_axes.setdefault(enclosing, [])
        for axis in shared:
            if axis.size == size and axis not in taken:
                return axis
        shared.append(self.new_axis("r", size))
        return shared[-1]

    def new_axis(self, letter: str, size: int) -> Axis:
        """An axis that no output has, called by a letter and a number."""
        self.axis_counts[letter] += 1
        return Axis(f"{letter}{self.axis_counts[letter] - 1}", size)

    def source(self, ref: ElementRef) -> ElementRef:
        """The element that one is only another name of."""
        while isinstance(expr := self.exprs[ref], Alias):
            ref = expr.ref
        return ref

    def defined(self, ref: ElementRef) -> ElementExpr:
        """How an element is computed, whatever its name."""
        return self.exprs[self.source(ref)]

    @cached_property
    def dependencies(self) -> dict[ElementRef, frozenset[Axis]]:
        """The axes along which each element differs."""
        found: dict[ElementRef, frozenset[Axis]] = {}
        for ref, expr in self.exprs.items():
            axes = frozenset[Axis]().union(*[found[operand] for operand in expr.refs])
            for index in expr.index_exprs():
                axes |= _axes_in(index, found)
            if isinstance(expr, ScanExpr):
                axes = axes.union(expr.over)
            elif isinstance(expr, Aggregate):
                axes = axes.difference(expr.over)
            found[ref] = axes
        return found

    @cached_property
    def loads(self) -> dict[ElementRef, LoadExpr]:
        """The elements that are loaded."""
        return {r: e for r, e in self.exprs.items() if isinstance(e, LoadExpr)}

    @cached_property
    def numbers(self) -> dict[ElementRef, int]:
        """The number of each element; the same as another one has the number of that."""
        numbers: dict[ElementRef, int] = {}
        for n, (ref, expr) in enumerate(self.exprs.items()):
            numbers[ref] = numbers[expr.ref] if isinstance(expr, Alias) else n
        return numbers

    @cached_property
    def operands(self) -> list[list[int]]:
        """By the place of each element among the expressions the numbers of those that it reads,
        each once.  One that is only another name reads none: its users read what it names."""
        numbers, reads = self.numbers, self.reads
        return [
            [] if isinstance(e, Alias) else list(dict.fromkeys([numbers[r] for r in reads[ref]]))
            for ref, e in self.exprs.items()
        ]

    @cached_property
    def computed_along(self) -> Counter[frozenset[Axis]]:
        """How many elements elementwise ops compute, by the axes along which they differ."""
        along = self.dependencies
        return Counter([along[r] for r, e in self.exprs.items() if isinstance(e, Pointwise)])

    @cached_property
    def aggregates(self) -> dict[ElementRef, Aggregate]:
        """The reductions, scans and products."""
        return {r: e for r, e in self.exprs.items() if isinstance(e, Aggregate)}

    @cached_property
    def bytes(self) -> list[int]:
        """By the place of each element how many bytes it has."""
        return [ref.element.bytes for ref in self.exprs]

    @cached_property
    def words(self) -> list[int]:
        """By the place of each element how many registers of 32 bits it takes."""
        sizes = zip(self.exprs.values(), self.bytes, strict=True)
        return [0 if isinstance(e, SplatExpr) else -(-size // 4) for e, size in sizes]

    @cached_property
    def rescaled(self) -> dict[ElementRef, list[ElementRef]]:
        """By each maximum, the sums that are made in one loop with it."""
        found: dict[ElementRef, list[ElementRef]] = {}
        for ref, expr in self.aggregates.items():
            if expr.rescaling is not None:
                found.setdefault(expr.rescaling.base, []).append(ref)
        return found

    def is_online(self, ref: ElementRef) -> bool:
        """Whether it is a maximum that sums are made in one loop with, or one of these."""
        return ref in self.rescaled or self.aggregates[ref].rescaling is not None

    @cached_property
    def online_axes(self) -> set[Axis]:
        """The axes that a loop goes along once, for sums that depend on others along them."""
        deviations = [r for r, e in self.aggregates.items() if isinstance(e, DeviationsExpr)]
        bases = (*self.rescaled, *deviations)
        return {axis for base in bases for axis in self.aggregates[base].over}

    @cached_property
    def long_output_axes(self) -> list[Axis]:
        """The axes of the outputs that have more than one element; none if there is none."""
        return [axis for axis in self.output_axes if axis.size > 1 and self.outputs]

    @cached_property
    def axes(self) -> list[Axis]:
        """All axes of more than one element, the output axes first."""
        over = [axis for e in self.aggregates.values() for axis in e.over if axis.size > 1]
        return list(dict.fromkeys([*self.long_output_axes, *over]))

    @cached_property
    def products(self) -> list[Product]:
        """The matrix products, which have rows and columns along axes of the outputs."""
        products = []
        for ref, expr in self.aggregates.items():
            if isinstance(expr, Contraction):
                a, b = (self.dependencies[r] for r in expr.operands)
                rows = [axis for axis in self.long_output_axes if axis in a - b]
                columns = [axis for axis in self.long_output_axes if axis in b - a]
                if rows and columns:
                    products.append(Product(ref, expr, rows, columns))
        return products

    @cached_property
    def products_of_online_sums(self) -> list[ElementRef]:
        """The matrix products that sums in a loop with a maximum need; raises `CannotFuse` if each
        block of another product would recompute one."""
        inner: set[ElementRef] = set()
        online: set[ElementRef] = set()
        found: list[ElementRef] = []
        if not any(isinstance(e, Contraction) for e in self.aggregates.values()):
            return found
        for ref, expr in reversed(self.exprs.items()):
            if isinstance(expr, Contraction):
                if ref in inner:
                    raise CannotFuse("a matrix product would be recomputed within another one")
                if ref in online:
                    found.append(ref)
                (inner if expr.rescaling is None else online).update(expr.refs)
            if ref in inner:
                inner.update(expr.refs)
            if ref in online:
                online.update(expr.refs)
        return found

    @cached_property
    def tiles(self) -> list[tuple[frozenset[Axis], tuple[Axis, ...]]]:
        """The axes of each tile that an element and its operands need, with the reduced axes; and
        of each tile that is stored, with the axes of the outputs."""
        along, tiles = self.dependencies, []
        for ref, expr in self.exprs.items():
            over = expr.over if isinstance(expr, Aggregate) else ()
            tiles.append((along[ref].union(over, *[along[r] for r in expr.refs]), over))
        tiles += [(along[o.ref].union(self.output_axes), self.output_axes) for o in self.outputs]
        return list(dict.fromkeys(tiles))

    def axes_in(self, indices: Iterable[IndexExpr]) -> set[Axis]:
        """The axes along which the values of index expressions differ."""
        return {axis for index in indices for axis in _axes_in(index, self.dependencies)}

    def substituted(self, replacements: Mapping[Axis, IndexExpr]) -> ElementGraph:
        """The same graph with axes replaced by index expressions of other axes."""
        substitution = Substitution(replacements)
        outputs = [output.substituted(substitution) for output in self.outputs]
        exprs: dict[ElementRef, ElementExpr] = {}
        for ref, expr in self.exprs.items():
            # Where elements became equal, the first expression comes after its operands.
            exprs.setdefault(substitution.ref(ref), expr.substituted(substitution))
        return self._changed(substitution.axes(self.output_axes), outputs, exprs)

    def with_exprs(self, exprs: dict[ElementRef, ElementExpr]) -> ElementGraph:
        """The same graph with other expressions for its elements."""
        return self._changed(self.output_axes, self.outputs, exprs)

    def _changed(
        self,
        axes: Sequence[Axis],
        outputs: Sequence[OutputStore],
        exprs: dict[ElementRef, ElementExpr],
    ) -> ElementGraph:
        """A graph of the same kernel, of the elements that are needed."""
        new = ElementGraph.__new__(ElementGraph)
        new.inputs = self.inputs
        new.output_axes = tuple(axes)
        new.outputs = list(outputs)
        new.reads = {}
        needed = {*new.roots()}
        for ref in reversed(exprs):
            if ref in needed:
                read = new.reads[ref] = refs_of(ref, exprs[ref])
                needed.update(read)
        new.exprs = {r: expr for r, expr in exprs.items() if r in needed}
        return new

    def roots(self) -> Iterator[ElementRef]:
        """Yield the elements that are stored, and those that their offsets look up."""
        for output in self.outputs:
            yield from looked_up_refs([output.offset])
            yield output.ref


def refs_of(ref: ElementRef, expr: ElementExpr) -> list[ElementRef]:
    """The elements that an expression reads, and those that the indices look up."""
    return [*looked_up_refs(ref.index_exprs()), *expr.refs]


def _stores(values: Sequence[Value], parts: Iterable[tuple[IndexExpr, ...]]) -> list[OutputStore]:
    """The elements of tensors that are written, all parts of one after the other."""
    indices = list(parts)
    refs = [ElementRef(value, part) for value in values for part in indices]
    return [OutputStore(ref, row_major_offset(ref)) for ref in refs]


def _value_axes(value: Value) -> list[Axis]:
    return [Axis(f"i{n}", size) for n, size in enumerate(element_type(value.type).shape)]


def _scatter_elements(
    op: graph.Scatter, values: Sequence[Value], inputs: set[Value]
) -> ElementGraph:
    """The element graph of a kernel that scatters to a tensor in memory."""
    if len(values) > 1 or op.x not in inputs:
        raise CannotFuse("the input of a scatter must be in memory")
    axes = _value_axes(op.updates)
    if any(axis.size == 0 for axis in axes):
        return ElementGraph([], inputs, axes)
    ref = ElementRef(op.updates, indices_of(axes))
    offset = row_major_offset(ElementRef(op.x, looked_up_indices(op, ref.indices)))
    return ElementGraph([OutputStore(ref, offset, op)], inputs, axes)


def _axes_in(index: IndexExpr, dependencies: Mapping[ElementRef, frozenset[Axis]]) -> set[Axis]:
    axes: set[Axis] = set()
    for atom in index.atoms():
        if isinstance(atom, Lookup):
            axes |= dependencies[atom.ref]
        elif isinstance(atom, Axis):
            axes.add(atom)
    return axes
