"""The layout algebra: operations on layouts, each stated by the equation that it satisfies.

An operation either returns a layout for which its equation holds at every index, or raises
LayoutError. Its docstring states for which arguments it answers.

`composition` carries the rest. Write A, coalesced, as A(x) = sum_j jump_j * (x // radix_j), where
radix_j is the product of the first j sizes. Adding x and y changes that sum exactly by the jumps of
the radices at which x + y carries, so A is additive over a set of steps as long as the jumps of
each carry cancel; nearly always that means that nothing carries at all. Checking divisibility
instead, as is usual, both accepts wrong answers and refuses right ones.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TypeAlias, overload

from iris.errors import LayoutError
from iris.ir.layout.cute import Layout, from_flat, join
from iris.ir.layout.swizzle import Swizzled

#: What composition, divide and product take on the right: a layout (an integer n stands for n:1),
#: or a tuple of tilers, one for each leading mode of the left operand.
Tiler: TypeAlias = Layout | int | tuple["Tiler", ...]
_Operation: TypeAlias = Callable[[Layout, Tiler], Layout]


def coalesce(a: Layout) -> Layout:
    """R(i) = A(i) with the fewest modes; always answers.

    Two layouts are the same function exactly when they coalesce to equal layouts.

    >>> str(coalesce(Layout((2, (1, 6)), (1, (7, 2)))))
    '12:1'
    """
    modes: list[tuple[int, int]] = []
    for size, stride in a.flat:
        if size == 1:
            continue
        if modes and stride == modes[-1][0] * modes[-1][1]:
            modes[-1] = (modes[-1][0] * size, modes[-1][1])
        else:
            modes.append((size, stride))
    return from_flat(modes)


@overload
def composition(a: Layout, b: Tiler) -> Layout: ...
@overload
def composition(a: Swizzled, b: Tiler) -> Swizzled: ...
def composition(a: Layout | Swizzled, b: Tiler) -> Layout | Swizzled:
    """R(i) = A(B(i)), with B's shape: a size of B stays or becomes a tuple with that product.

    Answers exactly when B's offsets lie in A's domain and any such layout exists. With a tuple,
    composes mode by mode.

    >>> str(composition(Layout((4, 2), (1, 100)), Layout((8, 1))))
    '((4,2),1):((1,100),0)'
    """
    if isinstance(a, Swizzled):
        return Swizzled(a.swizzle, composition(a.layout, b))
    if isinstance(b, tuple):
        return _by_mode(composition, a, b)
    b = _layout(b)
    if b.cosize > a.size:
        raise LayoutError(f"composition: {b} reaches {b.cosize - 1}, outside the domain of {a}")
    carries = _Carries.of(a)
    steps: list[tuple[int, int]] = []

    def compose(mode: Layout) -> Layout:
        if isinstance(mode.shape, tuple):
            return join(*map(compose, mode.modes))
        split = carries.split(*mode.flat[0])
        if split is None:
            raise LayoutError(f"composition: {a} along the mode {mode} of {b} is not a layout")
        steps.extend(split)
        return from_flat((count, a(step)) for count, step in split)

    result = compose(b)
    if not carries.cancel(steps):
        raise LayoutError(f"composition: the modes of {b} carry into each other in {a}")
    return result


def complement(a: Layout, n: int) -> Layout:
    """The ordered layout R for which A's offsets, shifted by R's, cover [0, N) once each.

    That is: R increases, each integer of [0, N) is v + R(j) for exactly one offset v of A and one
    j, and N is the least such number that is at least n. Answers exactly when A's set of offsets
    tiles an interval at all (offsets that A repeats count once).

    >>> str(complement(Layout(4, 2), 24)), str(complement(Layout(4, 2), 20))
    ('(2,3):(1,8)', '(2,3):(1,8)')
    """
    if n < 1:
        raise LayoutError(f"complement: cannot cover {n} integers")
    modes = []
    # A's offsets so far, sorted by stride, end in a run {0, step, …, period - step}.
    step, period = 1, 1
    for stride, size in sorted((stride, size) for size, stride in a.flat if stride and size > 1):
        if stride <= period and stride % step == 0:
            period += stride * (size - 1)  # lengthens the run, perhaps overlapping it
        elif stride % period == 0:
            modes.append((stride // period, period))
            step, period = stride, stride * size
        else:
            raise LayoutError(f"complement: the offsets of {a} do not tile any interval")
    modes.append((-(-n // period), period))
    return coalesce(from_flat(modes))


def right_inverse(a: Layout) -> Layout:
    """A(R(i)) = i, on the longest prefix that single steps along A's modes can reach.

    Always answers. If A is one-to-one but for modes of stride 0, that is the longest prefix of
    integers among A's offsets: no longer inverse exists.

    >>> str(right_inverse(Layout((4, 8), (8, 1)))), str(right_inverse(Layout((4, 2), (1, 3))))
    ('(8,4):(4,1)', '(3,2):(1,4)')
    """
    # A chain of modes counts from 0: it repeats each mode up to the stride of the next.
    chains = [[(1, 1, 0)]]
    for stride, size, step in sorted((stride, size, step) for size, stride, step in _steps(a)):
        for chain in chains:
            last, repeats, _ = chain[-1]
            if stride and stride % last == 0 and stride <= last * repeats:
                chains.append([*chain, (stride, size, step)])
                break
    longest = max(chains, key=lambda chain: chain[-1][0] * chain[-1][1])
    ends = [stride for stride, _, _ in longest[1:]] + [longest[-1][0] * longest[-1][1]]
    return coalesce(
        from_flat(
            (end // stride, step) for (stride, _, step), end in zip(longest, ends, strict=True)
        )
    )


def left_inverse(a: Layout) -> Layout:
    """L(A(i)) = i for every i of A's domain, with L defined on all of [0, cosize of A).

    Answers exactly when A's strides nest: A's coalesced modes, sorted by stride, have strides above
    0 of which each divides the next, and each mode ends before the next begins (size x stride is at
    most the next stride). So padding is fine; what L says of offsets in the padding means nothing.

    >>> str(left_inverse(Layout((64, 32), (1, 65))))
    '(65,32):(1,64)'
    """
    modes = []
    below, end, index_step = 1, 1, 0
    for stride, size, step in sorted((stride, size, step) for size, stride, step in _steps(a)):
        if size == 1:
            continue
        if stride < end or stride % below:
            raise LayoutError(f"left_inverse: the strides of {a} do not nest")
        modes.append((stride // below, index_step))
        below, end, index_step = stride, stride * size, step
    modes.append((end // below, index_step))
    return coalesce(from_flat(modes))


def logical_divide(a: Layout, b: Tiler) -> Layout:
    """A o (B, B*), where B* = complement(B, size of A): the tile B of A, and the rest.

    Answers exactly when B* tiles all of A's domain and `composition` answers. With a tuple, divides
    mode by mode: ((tile0, rest0), (tile1, rest1), ...).

    >>> str(logical_divide(Layout((8, 6), (6, 1)), (4, 3)))
    '((4,2),(3,2)):((6,24),(1,3))'
    """
    if isinstance(b, tuple):
        return _by_mode(logical_divide, a, b)
    b = _layout(b)
    return composition(a, join(b, complement(b, a.size)))


def logical_product(a: Layout, b: Tiler) -> Layout:
    """(A, A* o B), where A* = complement(A, size of A x cosize of B): A, repeated as B says.

    Answers exactly when A* exists and `composition` of it with B answers. With a tuple, multiplies
    mode by mode: ((tile0, copies0), (tile1, copies1), ...).

    >>> str(logical_product(Layout((2, 2), (4, 1)), Layout(6)))
    '((2,2),(2,3)):((4,1),(2,8))'
    """
    if isinstance(b, tuple):
        return _by_mode(logical_product, a, b)
    b = _layout(b)
    return join(a, composition(complement(a, a.size * b.cosize), b))


@dataclass(frozen=True, slots=True)
class _Carries:
    """Where a layout breaks linearity: (radix, jump) of each mode of its coalesced form but one."""

    radices: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, a: Layout) -> _Carries:
        modes = coalesce(a).flat
        radix, radices = 1, []
        for (size, stride), (_, above) in pairwise(modes):
            radix *= size
            radices.append((radix, above - size * stride))
        return cls(tuple(radices))

    def split(self, size: int, stride: int) -> list[tuple[int, int]] | None:
        """(count, step) modes of product `size` along whose steps the layout is linear.

        Greedy, and exact: a layout's first coalesced mode ends where it first is not linear, so if
        that is no divisor of the size, no layout will do.
        """
        modes = []
        while size > 1:
            count = self._linear(size, stride)
            if size % count:
                return None
            modes.append((count, stride))
            size, stride = size // count, stride * count
        return modes

    def _linear(self, size: int, stride: int) -> int:
        """The least c < size with A(c * stride) != c * A(stride), or size."""
        live = self._live([(size, stride)])
        if not live:
            return size
        # All repeats once the radices do. Between carries there is nothing to see.
        period = live[-1][0] // math.gcd(live[-1][0], stride)
        c = 0
        while True:
            c = min(-(-(c * (stride % p) // p + 1) * p // (stride % p)) for p, _ in live)
            if c >= min(size, period + 1):
                return size
            if sum(jump for p, jump in live if c * stride % p < stride % p):
                return c

    def cancel(self, modes: list[tuple[int, int]]) -> bool:
        """Whether A(sum of c * step) = sum of c * A(step) for all c < count of all modes."""
        live = self._live(modes)
        ends = [sum((count - 1) * (step % p) for count, step in modes) // p for p, _ in live]
        if sum(jump * end for (_, jump), end in zip(live, ends, strict=True)):
            return False
        if not live:
            return True
        # Every radix divides the last, so where we are modulo that says what carries next.
        period = live[-1][0]
        reached = {0}
        for count, step in modes:
            front = set(reached)
            for _ in range(count - 1):
                for x in front:
                    if sum(jump for p, jump in live if x % p + step % p >= p):
                        return False
                front = {(x + step) % period for x in front} - reached
                if not front:
                    break
                reached |= front
        return True

    def _live(self, modes: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The radices at which some sum of these steps carries."""
        return [
            (p, jump)
            for p, jump in self.radices
            if sum((count - 1) * (step % p) for count, step in modes) >= p
        ]


def _steps(a: Layout) -> list[tuple[int, int, int]]:
    """(size, stride, step) of each coalesced mode, where one step of the index moves by stride."""
    modes = coalesce(a).flat
    steps = accumulate((size for size, _ in modes), operator.mul, initial=1)
    return [(size, stride, step) for (size, stride), step in zip(modes, steps, strict=False)]


def _layout(tiler: Layout | int) -> Layout:
    return Layout(tiler) if isinstance(tiler, int) else tiler


def _leading_modes(a: Layout, tiler: tuple[Tiler, ...]) -> tuple[Layout, ...]:
    if not 0 < len(tiler) <= a.rank:
        raise LayoutError(f"a tiler of {len(tiler)} modes does not fit {a}, of rank {a.rank}")
    return a.modes[: len(tiler)]


def _by_mode(op: _Operation, a: Layout, tiler: tuple[Tiler, ...]) -> Layout:
    """op on each leading mode and its tiler; the other modes as they are."""
    done = map(op, _leading_modes(a, tiler), tiler)
    return join(*done, *a.modes[len(tiler) :])
