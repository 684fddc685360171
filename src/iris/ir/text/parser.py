"""Reading the text that the printer writes, from the same declarations.

Every op is verified as it is read, so that an error points at the token at fault: the parser
keeps, for the op in hand, where in the text each of its fields stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from iris.errors import ParseError, VerifyError
from iris.ir import metal, tile  # noqa: F401  (they register their ops)
from iris.ir.core import OPS, Level, Location, Module, Op, Region, Value
from iris.ir.control import Func
from iris.ir.declare import Spec
from iris.ir.text.cursor import Cursor
from iris.ir.types import Type
from iris.ir.verify import verify_arguments, verify_header

DEEPEST = 48  # regions within regions


def parse(text: str, file: str | None = None) -> Module:
    """The module that a text says.

    Ops without a location of their own get the line they stand on, if `file` is given.
    """
    return _Parser(Cursor(text, file or "<text>"), file).module()


@dataclass
class _Places:
    """Where the parts of the op in hand stand: marks of the cursor."""

    name: int
    results: list[int] = field(default_factory=list)  # of their types
    fields: dict[tuple[str, int], int] = field(default_factory=dict)
    arguments: list[int] = field(default_factory=list)  # of their types
    end: int = 0


class _Parser:
    def __init__(self, cursor: Cursor, file: str | None):
        self.cursor = cursor
        self.file = file
        self.values: dict[str, Value] = {}
        self.gone: set[str] = set()  # names of regions that have ended
        self.level: Level | None = None
        self.depth = 0

    def module(self) -> Module:
        cursor = self.cursor
        module = Module()
        symbols: set[str] = set()
        while cursor.kind != "end":
            self.values, self.gone = {}, set()
            start = cursor.mark
            if not cursor.at(Func.name):
                cursor.fail(f"'{Func.name}'")
            self.op(module.body)
            function = module.body.last
            if isinstance(function, Func):
                if function.symbol in symbols:
                    raise cursor.error_at(
                        cursor.offset_at(start + 2), f"two functions are called @{function.symbol}"
                    )
                symbols.add(function.symbol)
        return module

    # One op.

    def op(self, region: Region) -> None:
        """Read one op to the end of a region."""
        cursor = self.cursor
        line = cursor.line if self.file is not None else 0
        places = _Places(cursor.mark)
        names, types = self._results(places)
        places.name = cursor.mark
        cls = OPS.get(cursor.text) if cursor.kind == "word" else None
        if cls is None:
            cursor.fail("an op" if names else "an op or a result, such as %x: f32 = ...")
        if cls.isolated is not (self.depth == 0):
            raise cursor.error(f"{cls.name} cannot stand here")
        if cls.level is not None and cls.level is not self.level:
            where = self.level.value if self.level else "no"
            raise cursor.error(f"{cls.name} is no op of the {where} level")
        cursor.advance()
        spec = cls.spec
        attributes = self._positional_attributes(spec, types, places)
        operands, named = self._operands(spec, types, places)
        attributes += [named.get(f.name, f.default) for f in spec.named_attributes]
        if cls.isolated:
            self.level = attributes[0]
        regions = tuple([Region() for _ in spec.regions])
        places.end = cursor.mark
        opened: list[tuple[str, Value]] = []
        if regions:
            self._keyword(spec, 0)
            opened, initial = self._arguments(regions[0], spec.feeds, places)
            operands += initial
            places.end = cursor.mark
        op = cls.create(tuple(operands), tuple(attributes), types, regions)
        for value, name in zip(op.results, names, strict=True):
            value.name = _hint(name)
        region.append(op)
        self._verified(op, places, lambda: verify_header(op))
        for position, inner in enumerate(regions):
            if position:
                self._keyword(spec, position)
                opened, _ = self._arguments(inner, False, places)
            self._verified(op, places, lambda: verify_arguments(op, position))  # noqa: B023
            self._region(op, inner, opened)
        op.location = self._location(line)
        for name, value, mark in zip(names, op.results, places.results, strict=True):
            self._define(name, value, mark - 2)

    def _results(self, places: _Places) -> tuple[list[str], list[Type]]:
        """`%a: f32, %b: i32 =`"""
        cursor = self.cursor
        names: list[str] = []
        types: list[Type] = []
        if cursor.kind != "value":
            return names, types
        while True:
            names.append(cursor.take("value", "a result, such as %x: f32"))
            cursor.expect(":")
            places.results.append(cursor.mark)
            types.append(cursor.type())
            if not cursor.accept(","):
                break
        cursor.expect("=")
        return names, types

    def _positional_attributes(self, spec: Spec, types: list[Type], places: _Places) -> list[Any]:
        cursor = self.cursor
        values = []
        for declared in spec.positional_attributes:
            places.fields[declared.name, 0] = cursor.mark
            values.append(declared.kind.parse(cursor, types[0] if types else None))
        return values

    def _operands(
        self, spec: Spec, types: list[Type], places: _Places
    ) -> tuple[list[Value], dict[str, Any]]:
        """The operands before the regions, and the values of `name=value` attributes."""
        cursor = self.cursor
        operands: list[Value] = []
        for i, declared in enumerate(spec.fixed):
            if i:
                cursor.expect(",")
            places.fields[declared.name, 0] = cursor.mark
            operands.append(self._use())
        more = self._more(bool(operands))
        if len(spec.variadics) == 1 and not spec.feeds:
            (group,) = spec.variadics
            index = 0
            while more and cursor.kind == "value" and cursor.following() != ":":
                places.fields[group.name, index] = cursor.mark
                operands.append(self._use())
                index += 1
                more = self._more(True)
        named: dict[str, Any] = {}
        readers = {f.name: lambda kind=f.kind: kind.parse(cursor, types[0] if types else None)
                   for f in spec.named_attributes}
        readers |= {f.name: self._use for f in spec.optionals}
        if len(spec.variadics) > 1:
            readers |= {f.name: self._group for f in spec.variadics}
        first = not operands
        while more and (not first or (cursor.text in readers and cursor.following() == "=")):
            first = False
            name = cursor.text
            if name not in readers:
                cursor.fail(f"one of {', '.join(readers)}" if readers else "no more operands")
            if name in named:
                raise cursor.error(f"{name} stands twice")
            cursor.advance()
            cursor.expect("=")
            places.fields[name, 0] = cursor.mark
            named[name] = readers[name]()
            more = self._more(True)
        absent = None
        for declared in spec.optionals:
            if declared.name not in named:
                absent = declared.name
            elif absent:
                mark = places.fields[declared.name, 0]
                raise cursor.error_at(
                    cursor.offset_at(mark - 2), f"{declared.name} needs {absent} as well"
                )
            else:
                operands.append(named[declared.name])
        if len(spec.variadics) > 1:
            for declared in spec.variadics:
                if declared.name not in named:
                    cursor.fail(f"{declared.name}=[...]")
                operands += named[declared.name]
        return operands, named

    def _more(self, any_yet: bool) -> bool:
        """Whether another operand or field may follow, its comma read."""
        return self.cursor.accept(",") if any_yet else True

    def _group(self) -> list[Value]:
        return self.cursor.listed("[", "]", self._use)

    def _use(self) -> Value:
        cursor = self.cursor
        name = cursor.text
        value = self.values.get(name)
        if value is None:
            if cursor.kind != "value":
                cursor.fail("a value, such as %x")
            why = "was defined in a region that has ended" if name in self.gone else "is not defined"
            raise cursor.error(f"{name} {why}")
        cursor.advance()
        return value

    def _define(self, name: str, value: Value, mark: int) -> None:
        if name in self.values:
            raise self.cursor.error_at(self.cursor.offset_at(mark), f"{name} is defined twice")
        self.values[name] = value

    # Regions.

    def _keyword(self, spec: Spec, position: int) -> None:
        keyword = spec.regions[position].keyword
        if keyword is not None:
            self.cursor.expect(keyword)

    def _arguments(
        self, region: Region, feeds: bool, places: _Places
    ) -> tuple[list[tuple[str, Value]], list[Value]]:
        """`(%i: i32, %s: f32 = %zero)`: the named arguments, and what they start with."""
        cursor = self.cursor
        places.arguments = []
        named: list[tuple[str, Value]] = []
        initial: list[Value] = []

        def argument() -> None:
            mark = cursor.mark
            name = cursor.take("value", "an argument, such as %i: i32")
            if name in self.values or any(name == other for other, _ in named):
                raise cursor.error_at(cursor.offset_at(mark), f"{name} is defined twice")
            cursor.expect(":")
            places.arguments.append(cursor.mark)
            named.append((name, region.add_argument(cursor.type(), _hint(name))))
            if feeds and cursor.at("="):
                cursor.advance()
                places.fields["initial", len(initial)] = cursor.mark
                initial.append(self._use())
            elif initial:
                cursor.fail("'=' and what the argument starts with")

        if cursor.at("("):
            cursor.listed("(", ")", argument)
        return named, initial

    def _region(self, op: Op, region: Region, arguments: list[tuple[str, Value]]) -> None:
        cursor = self.cursor
        if self.depth == DEEPEST:
            raise cursor.error(f"regions nest at most {DEEPEST} deep")
        cursor.expect("{")
        outside = dict(self.values)
        self.values.update(arguments)
        self.depth += 1
        while region.last is None or not region.last.terminator:
            if cursor.at("}"):
                end = "return" if op.isolated else "yield"
                raise cursor.error(f"expected '{end}' before the end of the region")
            self.op(region)
        if not cursor.at("}"):
            cursor.fail(f"'}}' after {region.last.name}")
        cursor.advance()
        self.depth -= 1
        self.gone.update(self.values.keys() - outside.keys())
        self.values = outside

    # Where things come from.

    def _location(self, line: int) -> Location | None:
        cursor = self.cursor
        if cursor.accept("at"):
            file = cursor.string()
            cursor.expect(":")
            return Location(file, cursor.integer(1, 2**31 - 1, "a line number"))
        return Location(self.file, line) if self.file is not None else None

    def _verified(self, op: Op, places: _Places, check: Any) -> None:
        try:
            check()
        except VerifyError as error:
            raise self._pointed(error, op, places) from None

    def _pointed(self, error: VerifyError, op: Op, places: _Places) -> ParseError:
        """A rule broken, as an error at the token that breaks it."""
        cursor = self.cursor
        name, index = error.field, error.index
        mark = places.fields.get((name or "", index))
        types: list[int] = []
        if name == "results":
            types = places.results
            blamed = self._initial_at_fault(op, index, places)
            if blamed is not None:
                mark, types, name = blamed, [], "initial"
        elif name == "arguments":
            types = places.arguments
        elif any(f.name == name for f in op.spec.results):
            types = places.results
        if types or name in ("results", "arguments"):
            mark = types[index] if index < len(types) else mark
            if mark is not None and error.expected is not None:
                offset = cursor.first_difference(mark, str(error.expected))
                return cursor.error_at(offset, error.message)
        if mark is None:
            mark = places.end if name is not None and name not in ("results", "arguments") else None
        return cursor.error_at(cursor.offset_at(places.name if mark is None else mark), error.message)

    def _initial_at_fault(self, op: Op, index: int, places: _Places) -> int | None:
        """Where a result and what it starts with differ in type: the latter's mark, if the
        region's argument sides with the result."""
        if not op.spec.feeds or index >= len(op.results):
            return None
        arguments = op.regions[0].arguments
        argument = arguments[index - len(op.results)] if len(arguments) >= len(op.results) else None
        if argument is None or argument.type is not op.results[index].type:
            return None
        return places.fields.get(("initial", index))


def _hint(name: str) -> str | None:
    """The name hint that a name in the text stands for; a number is no name."""
    return None if name[1:].isdigit() else name[1:]
