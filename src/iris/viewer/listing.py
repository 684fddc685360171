"""The text of a module by lines, each with the op that it shows and the values that it names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from iris.ir.core import Module, Op, Value
from iris.ir.text.printer import Printer


@dataclass(frozen=True)
class Listing:
    """The text of a module; `ops` has an op for each line at which one starts."""

    lines: list[str]
    ops: list[Op | None]
    names: dict[Value, str]

    @cached_property
    def line_of(self) -> dict[Op, int]:
        return {op: number for number, op in enumerate(self.ops) if op is not None}

    def definition(self, value: Value) -> int | None:
        """The line that defines a value."""
        owner = value.owner
        return None if owner is None else self.line_of.get(owner)

    def last_line(self, op: Op) -> int:
        """The last line of an op with regions: that of the brace that closes it."""
        inside = [self.line_of[inner] for inner in op.walk()]
        return max(inside) + bool(op.regions)


class _Recorder(Printer):
    """A printer that keeps which op each line is of, and all names."""

    def __init__(self) -> None:
        super().__init__(locations=False)
        self.starts: dict[int, Op] = {}
        self.all_names: dict[Value, str] = {}

    def name(self, value: Value) -> str:
        name = self.all_names[value] = super().name(value)
        return name

    def op(self, op: Op, indent: str) -> None:
        self.starts[len(self.lines)] = op
        super().op(op, indent)


def listing(module: Module) -> Listing:
    """The text of a module, as `to_text` prints it."""
    recorder = _Recorder()
    for number, op in enumerate(module):
        if number:
            recorder.lines.append("")
        recorder.op(op, "")
    ops = [recorder.starts.get(n) for n in range(len(recorder.lines))]
    return Listing(recorder.lines, ops, recorder.all_names)
