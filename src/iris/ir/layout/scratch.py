"""Where in threadgroup memory to put elements that are written in one layout and read in another,
so that neither meets a bank twice more often than it must.

An address is linear over F2 in the element's number. Elements that differ by a vector of its
*kernel* lie in one bank; so the kernel must have no vector in common with what the lanes of one
access differ by, on either side. Two spaces of one dimension always have a common complement: with
x_i and y_i what completes a basis of their intersection to bases of each, the x_i ^ y_i and what is
in neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from iris.ir.layout.linear import LANE, REGISTER, LinearLayout, Span
from iris.targets import Target

WIDEST = 16  # bytes of one access


@dataclass(frozen=True, slots=True)
class Scratch:
    """`columns[b]` is what bit b of an element's number contributes to its address, in elements;
    one access moves no more than `widest` of them."""

    columns: tuple[int, ...]
    widest: int

    def address(self, element: int) -> int:
        """Where an element is, by its row-major number."""
        found = 0
        for bit, column in enumerate(self.columns):
            if element >> bit & 1:
                found ^= column
        return found

    def vector(self, layout: LinearLayout) -> list[int]:
        """The register columns of a layout whose addresses are 1, 2, 4, ..., bits that nothing
        else changes: what one access of a thread can move at once."""
        at = {self.address(c): c for c in layout.columns_of(REGISTER)}
        addresses = [self.address(c) for c in layout.columns]
        found: list[int] = []
        step = 1
        while 2 * step <= self.widest and sum(a & step != 0 for a in addresses) == 1 and step in at:
            found.append(at[step])
            step *= 2
        return found


def row_major(layout: LinearLayout, element_bytes: int) -> Scratch:
    """Addresses that are the elements' numbers."""
    bits = layout.num_elements.bit_length() - 1
    return Scratch(tuple(1 << b for b in range(bits)), WIDEST // element_bytes)


@lru_cache(maxsize=4096)
def scratch(source: LinearLayout, target: LinearLayout, element_bytes: int, gpu: Target) -> Scratch:
    """Addresses for what `source` writes and `target` reads."""
    bits = source.num_elements.bit_length() - 1
    widest = WIDEST // element_bytes
    chosen = _common_vector(source, target, widest)
    # So many accesses of this width go to different banks at once.
    row = (gpu.banks * gpu.bank_bytes // (element_bytes << len(chosen))).bit_length() - 1
    ours = _independent(source.columns_of(LANE), chosen)[:row]
    theirs = _independent(target.columns_of(LANE), chosen)[:row]
    # All but the vector: with it they come to everything, and no address of theirs has its bits.
    every = [*target.columns_of(REGISTER), *source.columns, *target.columns]
    spare = [c for c in every if c not in chosen]
    size = max(len(ours), len(theirs))
    ours = _completed(ours, chosen, [*theirs, *spare], size)
    theirs = _completed(theirs, chosen, [*ours, *spare], size)
    kernel = _common_complement(ours, theirs, chosen, spare)
    basis = [*chosen, *ours, *kernel]
    # The address of a basis vector is its bit; of the rest, what it is a sum of.
    span = Span(basis)
    columns = tuple(span.combination(1 << b) or 0 for b in range(bits))
    return Scratch(columns, widest)


def _common_vector(source: LinearLayout, target: LinearLayout, widest: int) -> list[int]:
    """Register columns of both layouts, so many as one access may move, that are independent of
    all other columns: so the low bits of an address can be theirs alone."""
    chosen: list[int] = []
    reads = target.columns_of(REGISTER)
    columns = [*source.columns, *target.columns]
    for column in source.columns_of(REGISTER):
        if 2 << len(chosen) > widest or column not in reads or columns.count(column) > 2:
            continue
        more = [*chosen, column]
        span = Span(c for c in columns if c not in more)
        if all(span.add(c) for c in more):
            chosen = more
    return chosen


def _independent(vectors: Iterable[int], modulo: Iterable[int]) -> list[int]:
    span = Span(modulo)
    return [v for v in vectors if span.add(v)]


def _completed(vectors: list[int], modulo: list[int], by: Iterable[int], size: int) -> list[int]:
    """The vectors and enough others for so many to be independent, if there are."""
    span = Span([*modulo, *vectors])
    done = list(vectors)
    for other in by:
        if len(done) < size and span.add(other):
            done.append(other)
    return done


def _common_complement(
    ours: list[int], theirs: list[int], modulo: list[int], spare: list[int]
) -> list[int]:
    """A basis of what completes either of two spaces, modulo a third, to everything."""
    both = _intersection(ours, theirs, modulo)
    x = _independent(ours, [*modulo, *both])
    y = _independent(theirs, [*modulo, *both])
    pairs = [a ^ b for a, b in zip(x, y, strict=True)]
    return pairs + _independent(spare, [*modulo, *ours, *theirs])


def _intersection(ours: list[int], theirs: list[int], modulo: list[int]) -> list[int]:
    """Vectors of the first space that are in the second, modulo a third."""
    span = Span([*ours, *theirs, *modulo])
    found = []
    for relation in span.relations:
        vector = 0
        for i, v in enumerate(ours):
            if relation >> i & 1:
                vector ^= v
        if vector:
            found.append(vector)
    return found
