"""Printing a module again and again, while passes change a part of it.

The text of an op is kept, with gaps where names go.  A new text is made of those that are kept, and
of the names that the values have now.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from iris.ir.core import Location, Module, Op, Region, Value
from iris.ir.text.printer import Printer

_GAP = re.compile("\0(\\d+) ")


class Reprinter:
    """Prints as `to_text` does with locations, fast where little has changed since last time."""

    def __init__(self) -> None:
        self._printed: dict[Op, tuple[object, str]] = {}  # by function: its state and text
        # The lines of ops without regions, each after what it depends on.
        self._known: dict[Op, tuple[object, Location | None, int, object, str]] = {}
        self._lines: dict[tuple[object, ...], str] = {}
        # The same of ops with regions: their lines, and which values go into the gaps.
        self._around: dict[Op, tuple[object, list[tuple[str, list[int]]]]] = {}
        self._gaps = _Gaps()

    def text(self, module: Module) -> str:
        self._printed = {function: self._function(function) for function in module}
        return "\n\n".join([text for _, text in self._printed.values()]) + "\n"

    def _function(self, function: Op) -> tuple[object, str]:
        self._text: list[str] = []
        self._values: list[Value] = []  # one for each gap
        self._defined: list[Value] = []
        self._op(function, "")
        state = self._text, self._values, [v.name for v in self._defined]
        printed = self._printed.get(function)
        if printed is not None and printed[0] == state:
            return printed
        printer = Printer(locations=True)
        for value in self._defined:
            printer.name(value)
        names = [printer.names.get(v) or printer.name(v) for v in self._values]
        return state, "\n".join(self._text) % tuple(names)

    def _region(self, region: Region, indent: str) -> None:
        self._defined += region.arguments
        text, values, defined, ops = self._text, self._values, self._defined, self._known
        op = region.first
        while op is not None:
            if op.regions:
                self._op(op, indent)
            else:
                results, operands = op.results, op.operands
                types = results[0].type if len(results) == 1 else tuple([v.type for v in results])
                known = ops.get(op)
                if (
                    known is None
                    or known[0] is not op.attributes
                    or known[1] is not op.location
                    or known[2] != len(operands)
                    or known[3] != types
                ):
                    known = ops[op] = self._line(op, types)
                text.append(indent + known[4])
                values += results
                values += operands
                defined += results
            op = op.next

    def _line(self, op: Op, types: object) -> tuple[object, Location | None, int, object, str]:
        depends = op.attributes, op.location, len(op.operands), types
        key = op.name, *depends
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = self._gaps.line(op)
        return *depends, line

    def _op(self, op: Op, indent: str) -> None:
        """Print an op with regions."""
        self._defined += op.results
        arguments = [v for region in op.regions for v in region.arguments]
        values = [*op.results, *op.operands, *arguments]
        types = [v.type for v in (*op.results, *arguments)]
        depends = op.attributes, op.location, len(op.operands), types
        known = self._around.get(op)
        if known is None or known[0] != depends:
            known = self._around[op] = depends, self._gaps.around(op, values)
        for (line, order), region in zip(known[1], op.regions, strict=False):
            self._text.append(indent + line)
            self._values += [values[i] for i in order]
            self._region(region, indent + "  ")
        self._text.append(indent + known[1][-1][0])


class _Gaps(Printer):
    """Prints single ops, with gaps where names go."""

    def __init__(self) -> None:
        super().__init__(locations=True)
        self._positions: dict[Value, int] = {}

    def line(self, op: Op) -> str:
        """The line of an op without regions: its results, then its operands go into the gaps."""
        self._positions = dict.fromkeys((*op.results, *op.operands), 0)
        text = self.head(op) + self.place(op)
        return _GAP.sub("%s", text.replace("%", "%%"))

    def around(self, op: Op, values: Sequence[Value]) -> list[tuple[str, list[int]]]:
        """The lines around the regions of an op, and which of the values go into the gaps."""
        self._positions = {value: i for i, value in enumerate(values)}
        lines = [*self.heads(op), "}" + self.place(op)]
        return [
            (
                _GAP.sub("%s", line.replace("%", "%%")),
                [int(i) for i in _GAP.findall(line)],
            )
            for line in lines
        ]

    def name(self, value: Value) -> str:
        return f"\0{self._positions[value]} "
