"""Which barrier a random thread program needs before an access to memory that threads share.

A `Draft` asks before it places an access, and reports the access once it is placed.  Nothing here
uses the passes.  Of addresses it knows only whether an access has a `Pattern`: then no two threads
access the same element.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import NamedTuple

from iris.ir.core import Value
from iris.ir.kinds import AtomicKind
from iris.ir.metal import SIMDGROUP_WIDTH, Scope
from iris.ir.types import DType, Ptr


class Pattern(NamedTuple):
    """Thread `t` accesses the `width` elements from `width * f(t)` on.  `f(t)` is
    `(t ^ flip) + shift`, modulo the number of threads; so each element belongs to one thread."""

    flip: int = 0
    shift: int = 0
    width: int = 1

    @property
    def is_of_simdgroups(self) -> bool:
        """Whether the elements of a simdgroup are the same for all such patterns of a width."""
        return self.shift == 0 and self.flip < SIMDGROUP_WIDTH


class Use(Enum):
    """How threads use memory."""

    READ = auto()
    WRITE = auto()


class Touch(NamedTuple):
    """An access to memory by all threads."""

    use: Use | AtomicKind  # atomic ops of one kind may come in any order
    pattern: Pattern | None  # None: any thread may have any element
    view: tuple[int, DType] | None = None  # from which byte of the root on, as elements of what
    met: bool = False  # whether each simdgroup has met since


# An access of which nothing is known.
ANY = Touch(Use.WRITE, None)

Roots = frozenset[Value]
_STRENGTH = {None: 0, Scope.SIMDGROUP: 1, Scope.THREADGROUP: 2, Scope.DEVICE: 3}


class Hazards:
    """The accesses that no barrier orders with what comes next, for each allocation and array."""

    def __init__(self, simdgroups: int):
        self.alone = simdgroups == 1
        self.touches: dict[Value, frozenset[Touch]] = {}

    def copy(self) -> Hazards:
        """The same accesses, to go on from on another path."""
        other = Hazards(1 if self.alone else 2)
        other.touches = dict(self.touches)
        return other

    def join(self, other: Hazards) -> None:
        """Go on from where two paths meet."""
        for root, touches in other.touches.items():
            self.touches[root] = self.touches.get(root, frozenset()) | touches

    def forget(self) -> None:
        """Assume any access to everything: another turn of a loop may have made it."""
        self.touches = {root: frozenset((ANY,)) for root in self.touches}

    def needed(self, roots: Roots, touch: Touch) -> Scope | None:
        """The barrier that must stand before an access."""
        scopes = [
            self._between(earlier, touch, isinstance(root.type, Ptr))
            for root in roots
            for earlier in self.touches.get(root, ())
        ]
        return max(scopes, key=_STRENGTH.__getitem__, default=None)

    def know(self, roots: Roots) -> None:
        """There is some memory, which nothing may have accessed yet."""
        for root in roots:
            self.touches.setdefault(root, frozenset())

    def note(self, roots: Roots, touch: Touch) -> None:
        """An access has been placed."""
        for root in roots:
            self.touches[root] = self.touches.get(root, frozenset()) | {touch}

    def pass_barrier(self, scope: Scope) -> None:
        """A barrier has been placed."""
        for root, touches in self.touches.items():
            if isinstance(root.type, Ptr):
                kept: Iterable[Touch] = () if scope is Scope.DEVICE else touches
            elif self.alone or scope is not Scope.SIMDGROUP:
                kept = ()
            else:
                kept = [touch._replace(met=True) for touch in touches]
            self.touches[root] = frozenset(kept)

    def latch(self, most: Scope) -> Scope | None:
        """The barrier at the end of a loop's body that orders each turn with the next, as far as
        one of a scope at `most` can."""
        # What simdgroups have met about may be for others to touch in the next turn.
        unordered = [
            isinstance(root.type, Ptr) for root, touches in self.touches.items() if touches
        ]
        if not unordered:
            return None
        wanted = Scope.DEVICE if any(unordered) else Scope.THREADGROUP
        return min(wanted, most, key=_STRENGTH.__getitem__)

    def _between(self, earlier: Touch, later: Touch, device: bool) -> Scope | None:
        uses = {earlier.use, later.use}
        if uses == {Use.READ} or (len(uses) == 1 and Use.WRITE not in uses):
            return None
        one, other = earlier.pattern, later.pattern
        alike = earlier.view == later.view
        if one is not None and one == other and alike:
            return None
        if device:
            return Scope.DEVICE
        if self.alone:
            return Scope.SIMDGROUP
        if one is None or other is None or one.width != other.width or not alike:
            return Scope.THREADGROUP
        if not (one.is_of_simdgroups and other.is_of_simdgroups):
            return Scope.THREADGROUP
        return None if earlier.met else Scope.SIMDGROUP


def permits(most: Scope | None, scope: Scope | None) -> bool:
    """Whether a barrier may stand where one of at most some scope may."""
    return _STRENGTH[scope] <= _STRENGTH[most]
