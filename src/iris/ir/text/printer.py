"""Printing IR.  One form for every op, from its declared fields:

    results = name attributes operands, field=value... (arguments) { ops }

Required attributes stand before the operands; what may be left out is printed as `name=value`
where it is not; a region's arguments show the values they start with.  Names come from the hints
on values, made unique within a function.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from iris.ir.attributes import Symbol, legal_name
from iris.ir.core import Location, Module, Op, Region, Value
from iris.ir.declare import Spec

_SUFFIX = re.compile(r"_\d+$")


def to_text(node: Module | Op, *, locations: bool = False) -> str:
    """The text of a module, or of one op and the ops inside it."""
    printer = Printer(locations)
    if isinstance(node, Module):
        for i, op in enumerate(node):
            if i:
                printer.lines.append("")
            printer.op(op, "")
    else:
        printer.op(node, "")
    return "\n".join(printer.lines) + "\n"


def text_state(module: Module) -> list[object]:
    """All that the text of a module depends on: as long as this is equal, so is the text."""
    state: list[object] = []
    for op in module.walk():
        state += op, op.parent, op.operands, op.attributes, op.location
        for value in op.results:
            state += value.type, value.name
        for region in op.regions:
            for value in region.arguments:
                state += value.type, value.name
    return state


class Hints:
    """The name hints that the names in a text stand for.

    Values that share a hint have names with numbers, which are no part of it: `%x_1` after `%x`, or
    after the parameter `%x_2`, is one more x.
    """

    def __init__(self) -> None:
        self._first: dict[str, str] = {}  # by what it is called without a number

    def add(self, name: str, *, parameter: bool = False) -> None:
        """Take note of a name; a parameter is called by its whole name by who launches it."""
        stem = _unnumbered(name)
        if parameter or name == stem:
            self._first.setdefault(stem, name)

    def of(self, name: str, usual: str | None) -> str | None:
        """The hint; none if it says no more than what a result without a name is usually called."""
        stem = _unnumbered(name)
        if usual is not None and stem == _unnumbered(usual):
            return None
        return name if name == stem else self._first.get(stem, name)


def _is_parameter(value: Value) -> bool:
    return value.region is not None and value.owner is not None and value.owner.isolated


@lru_cache(1 << 10)
def _place(location: Location) -> str:
    return f" at {json.dumps(location.file)}:{location.line}"


def _unnumbered(name: str) -> str:
    return _SUFFIX.sub("", name) if name[-1:].isdigit() else name


class Printer:
    def __init__(self, locations: bool):
        self.locations = locations
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.hints = Hints()
        self.counts: dict[str, int] = {}
        self.unnamed = 0

    def name(self, value: Value) -> str:
        """The name of a value, which it gets when first met."""
        known = self.names.get(value)
        if known is not None:
            return known
        name = self.hint(value)
        if not name:  # a number is no hint: none else has it
            text = self.names[value] = f"%{self.unnamed}"
            self.unnamed += 1
            return text
        if name in self.taken:
            name = self._numbered(_unnumbered(name) + "_")
        self.taken.add(name)
        self.hints.add(name, parameter=_is_parameter(value))
        text = self.names[value] = "%" + name
        return text

    def hint(self, value: Value) -> str | None:
        """What the value would be called if nothing else were."""
        usual = self.usual(value)
        if not value.name:
            return usual
        name = legal_name(value.name)
        return name if _is_parameter(value) else self.hints.of(name, usual) or usual

    def usual(self, value: Value) -> str | None:
        """What the value is called if it has no name."""
        return None if value.op is None else value.op.result_name()

    def _numbered(self, stem: str) -> str:
        count = self.counts.get(stem, 1)
        while f"{stem}{count}" in self.taken:
            count += 1
        self.counts[stem] = count + 1
        return f"{stem}{count}"

    def op(self, op: Op, indent: str) -> None:
        if op.isolated:
            self.names, self.taken, self.counts, self.hints = {}, set(), {}, Hints()
            self.unnamed = 0
        line = indent + self.head(op)
        if not op.regions:
            self.lines.append(line + self.place(op))
            return
        spec = op.spec
        initial = op.operands[len(spec.fixed) :] if spec.feeds else ()
        last = spec.positional_attributes[-1:]
        hugs = any(isinstance(f.kind, Symbol) for f in last) and not line[-1:].isspace()
        for field, region in zip(spec.regions, op.regions, strict=True):
            if field.keyword is not None:
                line += f" {field.keyword}"
            line += self._arguments(region, initial, always=op.isolated, hugs=hugs)
            self.lines.append(line + " {")
            for inner in region:
                self.op(inner, indent + "  ")
            line = indent + "}"
            initial = ()
        self.lines.append(line + self.place(op))

    def head(self, op: Op) -> str:
        """The text of an op without its regions."""
        # The operands are named first: where they are defined outside what is printed, they
        # get their names before the results do.
        body = self._body(op, op.spec)
        if not op.results:
            return op.name + body
        results = ", ".join([f"{self.name(v)}: {v.type}" for v in op.results])
        return f"{results} = {op.name}{body}"

    def place(self, op: Op) -> str:
        """Where the op comes from, if that is to be shown."""
        return _place(op.location) if self.locations and op.location is not None else ""

    def _body(self, op: Op, spec: Spec) -> str:
        of = op.results[0].type if op.results else None
        attributes, operands = op.attributes, op.operands
        text = ""
        for field, value in zip(spec.positional_attributes, attributes, strict=False):
            text += " " + field.kind.text(value, of)
        fixed = len(spec.fixed)
        name = self.name
        items = [name(v) for v in operands[:fixed]]
        rest = operands[fixed:]
        if spec.optionals:
            given = rest[: spec.singles(len(operands)) - fixed]
            items += [f"{f.name}={name(v)}" for f, v in zip(spec.optionals, given, strict=False)]
            rest = rest[len(given) :]
        if len(spec.variadics) == 1 and not spec.feeds:
            items += [name(v) for v in rest]
        elif len(spec.variadics) > 1:
            size = spec.group(len(operands))
            for i, group in enumerate(spec.variadics):
                values = ", ".join(map(name, rest[i * size : (i + 1) * size]))
                items.append(f"{group.name}=[{values}]")
        if spec.named_attributes:
            given = attributes[len(spec.positional_attributes) :]
            for field, value in zip(spec.named_attributes, given, strict=True):
                if value != field.default:
                    items.append(f"{field.name}={field.kind.text(value, of)}")
        if items:
            text += " " + ", ".join(items)
        return text

    def _arguments(
        self, region: Region, initial: tuple[Value, ...], *, always: bool, hugs: bool
    ) -> str:
        arguments = region.arguments
        if not arguments and not always:
            return ""
        plain = len(arguments) - len(initial)
        items = [f"{self.name(a)}: {a.type}" for a in arguments[:plain]]
        for argument, value in zip(arguments[plain:], initial, strict=True):
            start = self.name(value)
            items.append(f"{self.name(argument)}: {argument.type} = {start}")
        return f"{'' if hugs else ' '}({', '.join(items)})"
