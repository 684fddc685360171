"""Which op grows in number as a pass runs on and on, or again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from iris.ir import Module

LAST = 4  # stages that are shown


def growth(stages: Sequence[Module]) -> str:
    """The op that the last stages have the most new ones of, and how many it had in each.

    growth([before, after])    # "; add: 3, then 90210"
    """
    counts = [Counter(op.name for op in module.walk()) for module in stages[-LAST:]]
    new = counts[-1] - counts[0]
    if not new:
        return ""
    ((name, _),) = new.most_common(1)
    numbers = [str(count[name]) for count in counts]
    return f"; {name}: {', '.join(numbers[:-1])}, then {numbers[-1]}"
