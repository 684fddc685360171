"""Printing IR.  One form for every op, from its declared fields:

    results = name attributes operands, field=value... (arguments) { ops }

Required attributes stand before the operands; what may be left out is printed as `name=value`
where it is not; a region's arguments show the values they start with.  Names come from the hints
on values, made unique within a function.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from iris.ir.attributes import Symbol, legal_name
from iris.ir.core import Location, Module, Op, Region, Value
from iris.ir.declare import Spec
from iris.ir.types import Type, type_text

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


def _type_text(type_: object) -> str:
    """The text of a type; broken IR may have anything there."""
    return type_text(type_) if isinstance(type_, Type) else str(type_)


class Hints:
    """The name hints that the names in a text stand for.

    Values that share a hint have names with numbers, which are no part of it: `%x_1` after `%x`, or
    after the parameter `%x_2`, is one more x.
    """

    def __init__(self) -> None:
        self._first: dict[str, str] = {}  # by what it is called without a number

    def add(self, name: str, *, parameter: bool = False) -> None:
        """Take note of a name; a parameter is called by its whole name by who launches it."""
        self._first.setdefault(_unnumbered(name) if parameter else name, name)

    def stem(self, name: str) -> str:
        """What a number is added to, for one more value of a hint that is taken."""
        stem = _unnumbered(name)
        return stem if self._first.get(stem) == name else name

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


@lru_cache(1 << 12)
def _unnumbered(name: str) -> str:
    return _SUFFIX.sub("", name) if name[-1:].isdigit() else name


@lru_cache(1 << 12)
def _legal(hint: str) -> str:
    return legal_name(hint)


@lru_cache(1 << 12)
def _attribute_texts(spec: Spec, attributes: tuple[Any, ...], of: Type | None) -> tuple[str, str]:
    """What stands before the operands of an op, and what after them."""
    positional, named = spec.positional_attributes, spec.named_attributes
    before = [f.kind.text(v, of) for f, v in zip(positional, attributes, strict=False)]
    after = [
        f", {f.name}={f.kind.text(v, of)}"
        for f, v in zip(named, attributes[len(positional) :], strict=True)
        if v != f.default
    ]
    return "".join([f" {text}" for text in before]), "".join(after)


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
        return self._given(value, self.usual(value)) if known is None else known

    def define(self, values: Iterable[Value], usual: Mapping[Value, str | None]) -> None:
        """Name values in the order in which they are defined; `usual` has what results are called
        that have no hint."""
        names = self.names
        for value in values:
            name = usual.get(value)
            if name is None and value.name is None:
                names[value] = f"%{self.unnamed}"
                self.unnamed += 1
            else:
                self._given(value, name)

    def _given(self, value: Value, name: str | None) -> str:
        """The name for a value that has none yet, which is called `name` if it has no hint."""
        parameter, hint = False, value.name
        if hint:
            hint = _legal(hint)
            parameter = value.region is not None and _is_parameter(value)
            name = hint if parameter else self.hints.of(hint, name) or name
        if not name:  # a number is no hint: none else has it
            text = self.names[value] = f"%{self.unnamed}"
            self.unnamed += 1
            return text
        if name in self.taken:
            stem = self.hints.stem(name) if hint else _unnumbered(name)
            name = self._numbered(f"{stem}_")
        self.taken.add(name)
        self.hints.add(name, parameter=parameter)
        text = self.names[value] = "%" + name
        return text

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
        if not op.regions:
            self.lines.append(indent + self.head(op) + self.place(op))
            return
        for head, region in zip(self.heads(op), op.regions, strict=True):
            self.lines.append(indent + head)
            for inner in region:
                self.op(inner, indent + "  ")
        self.lines.append(f"{indent}}}{self.place(op)}")

    def heads(self, op: Op) -> Iterator[str]:
        """The line above each region of an op; its arguments get their names when it is asked
        for."""
        spec, line = op.spec, self.head(op)
        initial = op.operands[len(spec.fixed) :] if spec.feeds else ()
        last = spec.positional_attributes[-1:]
        hugs = any(isinstance(f.kind, Symbol) for f in last) and not line[-1:].isspace()
        for field, region in zip(spec.regions, op.regions, strict=True):
            if field.keyword is not None:
                line += f" {field.keyword}"
            line += self._arguments(region, initial, always=op.isolated, hugs=hugs)
            yield line + " {"
            line, initial = "}", ()

    def head(self, op: Op) -> str:
        """The text of an op without its regions."""
        # The operands are named first: where they are defined outside what is printed, they
        # get their names before the results do.
        spec, names, results = op.spec, self.names, op.results
        if spec.lists_operands:
            items = [names.get(v) or self.name(v) for v in op.operands]
        else:
            items = self._items(op.operands, spec)
        text = op.name
        after = ""
        if op.attributes:
            before, after = _attribute_texts(
                spec, op.attributes, results[0].type if results else None
            )
            text += before
        if items:
            text = f"{text} {', '.join(items)}{after}"
        elif after:
            text += after[1:]
        if not results:
            return text
        defined = [f"{names.get(v) or self.name(v)}: {_type_text(v.type)}" for v in results]
        return f"{', '.join(defined)} = {text}"

    def place(self, op: Op) -> str:
        """Where the op comes from, if that is to be shown."""
        return _place(op.location) if self.locations and op.location is not None else ""

    def _items(self, operands: tuple[Value, ...], spec: Spec) -> list[str]:
        """The operands of an op, those that may be left out and groups by their names."""
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
        return items

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
