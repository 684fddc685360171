"""Printing a module again and again, while passes change a part of it.

The text of an op is kept, with gaps where names go.  A new text is made of those that are kept, and
of the names that the values have now.
"""

from __future__ import annotations

from collections.abc import Sequence
from gc import get_referents

from iris.ir.core import Location, Module, Op, Region, Value
from iris.ir.text.printer import Printer


class Reprinter:
    """Prints as `to_text` does with locations, fast where little has changed since last time."""

    def __init__(self) -> None:
        self._printed: dict[Op, tuple[_State, str]] = {}  # by function
        # The lines of ops without regions, each after what it depends on.
        self._known: dict[Op, tuple[object, Location | None, int, object, str]] = {}
        # Lines without their locations, by what else they depend on; and the texts of locations.
        self._texts: dict[tuple[object, ...], str] = {}
        self._locations: dict[Location | None, str] = {}
        self._usual: dict[Value, str | None] = {}  # by result, its name if it has no hint
        # The same of ops with regions: their lines, and which values go into the gaps.
        self._around: dict[Op, tuple[object, list[tuple[str, list[int]]]]] = {}
        self._gaps = _Gaps()

    def text(self, module: Module) -> str:
        self._printed = {function: self._function(function) for function in module}
        return "\n\n".join([text for _, text in self._printed.values()]) + "\n"

    def _function(self, function: Op) -> tuple[_State, str]:
        printed = self._printed.get(function)
        if printed is not None and printed[0].is_now():
            return printed
        self._text: list[str] = []
        self._values: list[Value] = []  # one for each gap
        self._defined: list[Value] = []
        self._objects: list[object] = []  # all that the text is made of, but for values
        self._op(function, "")
        printer = Printer(locations=True)
        printer.define(self._defined, self._usual)
        names = list(map(printer.names.get, self._values))
        if None in names:  # broken IR, which uses values that nothing defines
            names = list(map(printer.name, self._values))
        return _State([*self._objects, *self._defined]), "\n".join(self._text) % tuple(names)

    def _region(self, region: Region, indent: str) -> None:
        self._defined += region.arguments
        self._objects += region, region.arguments  # a list that changes in place
        objects, text, values = self._objects, self._text, self._values
        defined, ops = self._defined, self._known
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
                objects.append(op)
                text.append(indent + known[4])
                values += results
                values += operands
                defined += results
            op = op.next

    def _line(self, op: Op, types: object) -> tuple[object, Location | None, int, object, str]:
        depends = op.attributes, op.location, len(op.operands), types
        key = type(op), depends[0], depends[2], types
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = self._gaps.line(op)
        self._suggest(op)
        return *depends, text + self._location(op)

    def _location(self, op: Op) -> str:
        """Where an op comes from, as a line shows it."""
        text = self._locations.get(op.location)
        if text is None:
            text = self._locations[op.location] = self._gaps.place(op).replace("%", "%%")
        return text

    def _suggest(self, op: Op) -> None:
        """Keep the names that an op gives to results without hints."""
        name = op.result_name()
        for value in op.results:
            if self._usual.get(value) != name:
                self._usual[value] = name

    def _op(self, op: Op, indent: str) -> None:
        """Print an op with regions."""
        self._objects.append(op)
        self._defined += op.results
        arguments = [v for region in op.regions for v in region.arguments]
        values = [*op.results, *op.operands, *arguments]
        types = [v.type for v in (*op.results, *arguments)]
        depends = op.attributes, op.location, len(op.operands), types
        known = self._around.get(op)
        if known is None or known[0] != depends:
            self._suggest(op)
            known = self._around[op] = depends, self._gaps.around(op, values)
        for (line, order), region in zip(known[1], op.regions, strict=False):
            self._text.append(indent + line)
            self._values += [values[i] for i in order]
            self._region(region, indent + "  ")
        self._text.append(indent + known[1][-1][0])


class _State:
    """What the slots of objects hold.

    The collector reads the slots of all of them in one call, and compares them in another; a loop
    that looked at the few that are printed would take five times as long.
    """

    def __init__(self, objects: Sequence[object]):
        self._objects = objects
        self._held = get_referents(*objects)

    def is_now(self) -> bool:
        """Whether they still hold the same."""
        return self._held == get_referents(*self._objects)


class _Gaps(Printer):
    """Prints single ops, with gaps where names go."""

    def __init__(self) -> None:
        super().__init__(locations=True)

    def line(self, op: Op) -> str:
        """The line of an op without regions: its results, then its operands go into the gaps."""
        self.names = dict.fromkeys((*op.results, *op.operands), "\0")
        return self.head(op).replace("%", "%%").replace("\0", "%s")

    def around(self, op: Op, values: Sequence[Value]) -> list[tuple[str, list[int]]]:
        """The lines around the regions of an op, and which of the values go into the gaps."""
        self.names = {value: f"\0{i}\0" for i, value in enumerate(values)}
        lines = [*self.heads(op), "}" + self.place(op)]
        parts = [line.replace("%", "%%").split("\0") for line in lines]
        return [("%s".join(part[::2]), [*map(int, part[1::2])]) for part in parts]
