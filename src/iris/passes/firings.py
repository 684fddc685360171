"""Watching rewrite rules: the text of an op before a rule fired, and the text that replaced it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from iris.ir.core import Op, Region
from iris.ir.rewriter import WATCHERS, Rewriter
from iris.ir.text.printer import Printer

MOST = 8  # firings of one rule that are kept, in a pass


class Firing(NamedTuple):
    """What a rule did.  Values without names have numbers of their own."""

    rule: str
    before: str
    after: tuple[str, ...]


class Firings:
    """Keeps what rules did since it was last asked."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._kept: list[Firing] = []
        self._counts: Counter[str] = Counter()
        self._printer = Printer(locations=False)

    def take(self) -> list[Firing]:
        """Give what was kept, and begin anew."""
        kept = self._kept
        self._start()
        return kept

    def watch(self, rule: Callable[..., None], op: Op, rewriter: Rewriter) -> None:
        """Run a rule on an op."""
        before, region = self._printer.head(op), op.parent
        above, below = op.previous, op.next
        rule(op, rewriter)
        if not rewriter.changed:
            return
        self._counts[rule.__name__] += 1
        if self._counts[rule.__name__] <= MOST:
            after = [self._printer.head(new) for new in _between(above, below, region)]
            names = self._printer.name
            after += [
                f"{names(old)} = {names(old.became)}"
                for old in op.results
                if old.became is not None and op.parent is None
            ]
            self._kept.append(Firing(rule.__name__, before, tuple(after)))


def _between(above: Op | None, below: Op | None, region: Region | None) -> Iterator[Op]:
    """The ops that stand between two of a region, the one above if it is still there."""
    op = above.next if above is not None and above.parent is region else None
    if above is None and region is not None:
        op = region.first
    while op is not None and op is not below:
        yield op
        op = op.next


@contextmanager
def watched() -> Iterator[Firings]:
    """Keep what rules do within the `with`."""
    firings = Firings()
    WATCHERS.append(firings.watch)
    try:
        yield firings
    finally:
        WATCHERS.remove(firings.watch)
