"""What a run came to, to the bit, and where another came to something else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from iris.ir.control import Func
from iris.ir.literal import text
from iris.ir.math import element_type
from iris.ir.types import DType, Ptr
from iris.testing.elements import around
from iris.tools.replay import Program, Values
from iris.tools.run import bits_of


class Outcome(NamedTuple):
    """What a run came to: arrays, each by what it is called, as bits, and lines.

    Outcome.of(program).compare(Outcome.of(other))
    """

    arrays: list[tuple[str, DType, Values]]
    lines: list[str]

    @staticmethod
    def of(program: Program, **options: Any) -> Outcome:
        """What the interpreter makes of a program, given options."""
        arguments = program.make_arguments()
        lines: list[str] = []
        returned = program.run(arguments, output=lines.append, **options)
        return Outcome.gathered(program.function, arguments, returned, lines)

    @staticmethod
    def gathered(
        function: Func, arguments: Sequence[Any], returned: Sequence[Values], lines: Sequence[str]
    ) -> Outcome:
        """What a function has written to its arguments, returned and printed."""
        arrays = [
            (f"%{v.name}", v.type.element, arguments[v.index])
            for v in function.body.arguments
            if isinstance(v.type, Ptr)
        ]
        for index, (type_, values) in enumerate(zip(function.returns, returned, strict=True)):
            arrays.append((f"returned[{index}]", element_type(type_).element, values))
        # Which bits a nan has is not defined; `nan(...)` shows them, and so lines break elsewhere.
        printed = re.sub(r"nan\(\d+\)", "nan", "\n".join(lines))
        printed = re.sub(r",\n +", ", ", printed)
        return Outcome(
            [(name, dtype, bits_of(dtype, values)) for name, dtype, values in arrays],
            printed.splitlines(),
        )

    def compare(self, found: Outcome) -> None:
        """Raises `AssertionError` for the first element, or line, that is another."""
        for (name, dtype, before), (_, _, after) in zip(self.arrays, found.arrays, strict=True):
            wrong = np.flatnonzero(before != after)
            if wrong.size:
                at = int(wrong[0])
                was, now = (text(int(x[at]), dtype) for x in (before, after))
                raise AssertionError(
                    f"{name}[{at}] was {was} and is {now} "
                    f"({wrong.size} of {before.size} elements differ); "
                    f"{around(dtype, before, after, at)}"
                )
        for number, (was, now) in enumerate(zip(self.lines, found.lines, strict=False)):
            assert was == now, f"line {number} that it prints was {was!r} and is {now!r}"
        assert len(self.lines) == len(found.lines), (
            f"it printed {len(self.lines)} lines and prints {len(found.lines)}"
        )
