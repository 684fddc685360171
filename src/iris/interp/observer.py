"""Who looks on while an interpreter runs: told of each op, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iris.ir.core import Op


class Observer:
    """Told of each op that some programs or threads run together.

    They are those of a frame: `frame.runs(program, thread)` says whether one is among them, `value
    in frame` whether they have a value now, `frame[value]` is that of all of them, and
    `frame.part(value, x, program, thread)` what one of them has of such an x.  An error raised
    here ends the run.
    """

    def before(self, frame: Any, op: Op) -> None:
        """Called before an op runs."""

    def after(self, frame: Any, op: Op, results: Sequence[Any]) -> None:
        """Called with what an op gives, also one with regions."""
