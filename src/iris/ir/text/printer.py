"""Printing IR.  One form for every op, from its declared fields:

    results = name attributes operands, field=value... (arguments) { ops }

Required attributes stand before the operands; what may be left out is printed as `name=value`
where it is not; a region's arguments show the values they start with.  Names come from the hints
on values, made unique within a function.
"""

from __future__ import annotations

import json
import re

from iris.ir.attributes import Symbol, legal_name
from iris.ir.core import Module, Op, Region, Value
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


class Printer:
    def __init__(self, locations: bool):
        self.locations = locations
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {}

    def name(self, value: Value) -> str:
        """The name of a value, which it gets when first met."""
        known = self.names.get(value)
        if known is not None:
            return known
        hint = self.hint(value)
        name = legal_name(hint) if hint else self._numbered("")
        if name in self.taken:
            name = self._numbered(_SUFFIX.sub("", name) + "_")
        self.taken.add(name)
        text = self.names[value] = "%" + name
        return text

    def hint(self, value: Value) -> str | None:
        """What the value would be called if nothing else were."""
        if value.name is None and value.op is not None:
            return value.op.result_name()
        return value.name

    def _numbered(self, stem: str) -> str:
        count = self.counts.get(stem, 1 if stem else 0)
        while f"{stem}{count}" in self.taken:
            count += 1
        self.counts[stem] = count + 1
        return f"{stem}{count}"

    def op(self, op: Op, indent: str) -> None:
        if op.isolated:
            self.names, self.taken, self.counts = {}, set(), {}
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
        if not self.locations or op.location is None:
            return ""
        return f" at {json.dumps(op.location.file)}:{op.location.line}"

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
