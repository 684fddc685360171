"""Reading the text that the printer writes, from the same declarations.

Every op is verified as it is read, so that an error points at the token at fault: the parser
keeps, for the op in hand, where in the text each of its fields stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NoReturn

from iris.errors import ParseError, VerifyError
from iris.ir.control import Func
from iris.ir.core import OPS, Level, Location, Module, Op, Region, Value
from iris.ir.declare import AttributeField, OperandField, OptionalField, Spec, VariadicField
from iris.ir.level_types import verify_placed_arguments, verify_placed_results
from iris.ir.text.cursor import Cursor
from iris.ir.text.printer import Hints
from iris.ir.text.types import at_type, read_type
from iris.ir.types import Type
from iris.ir.verify import DEEPEST, operand_mistake, verify_arguments, verify_header

_AN_OP = "an op or a result, such as %x: f32 = ..."


def parse(text: str, file: str | None = None) -> Module:
    """The module that a text says.

    Ops without a location of their own get the line they stand on, if `file` is given.
    """
    return _Parser(Cursor(text, file or "<text>"), file).module()


@dataclass
class _Places:
    """Where the parts of the op in hand stand: marks of the cursor."""

    name: int
    end: int = 0
    # Of operands and attributes; of the types of results and of region arguments.
    fields: dict[tuple[str, int], int] = field(default_factory=dict)


class _Parser:
    def __init__(self, cursor: Cursor, file: str | None):
        self.cursor = cursor
        self.file = file
        self.values: dict[str, Value] = {}
        self.gone: set[str] = set()  # names of regions that have ended
        self.hints = Hints()
        self.locations: dict[str, Location] = {}  # by the token, for many ops share one
        self.level: Level | None = None
        self.function: Any = None  # the one in hand
        self.placed: set[Type] = set()  # types of results that are right in it
        self.depth = 0

    def module(self) -> Module:
        cursor = self.cursor
        module = Module()
        symbols: set[str] = set()
        while cursor.kind != "end":
            self.values, self.gone, self.hints = {}, set(), Hints()
            start = cursor.mark
            if not cursor.at(Func.name):
                cursor.fail(f"'{Func.name}'", (Func.name,))
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

    def op(self, region: Region) -> Op:
        """Read one op to the end of a region."""
        cursor = self.cursor
        line = cursor.line if self.file is not None else 0
        places = _Places(cursor.mark)
        names, types = self._results(places)
        for name in names:
            self.hints.add(name[1:])
        places.name = cursor.mark
        cls = self._op_class(bool(names))
        spec = cls.spec
        of = types[0] if types else None
        attributes = self._positional_attributes(spec, of, places)
        operands, named = self._operands(spec, of, places)
        if named:
            attributes += [named.get(f.name, f.default) for f in spec.named_attributes]
        else:
            attributes += spec.defaults
        if cls.isolated:
            self.level = attributes[0]
        regions = tuple([Region() for _ in spec.regions]) if spec.regions else ()
        arguments: dict[str, Value] = {}
        if regions:
            arguments, initial = self._opening(spec, 0, regions[0], places)
            operands += initial
        places.end = cursor.mark
        op = cls.create(tuple(operands), tuple(attributes), types, regions)
        for value, name in zip(op.results, names, strict=True):
            value.name = self._hint(name, op.result_name())
        region.append(op)
        if isinstance(op, Func):
            self.function, self.placed = op, set()
        try:
            verify_header(op)
            for value in op.results:
                if value.type not in self.placed:
                    verify_placed_results(op, self.function)
                    self.placed.add(value.type)
        except VerifyError as error:
            raise self._pointed(error, op, places) from None
        for position, inner in enumerate(regions):
            if position:
                arguments, _ = self._opening(spec, position, inner, places)
                places.end = cursor.mark
            try:
                verify_arguments(op, position)
                verify_placed_arguments(op, position, self.function)
            except VerifyError as error:
                raise self._pointed(error, op, places) from None
            self._region(op, inner, arguments)
        op.location = self._location(line)
        for name, value in zip(names, op.results, strict=True):
            if name in self.values:
                mark = places.fields["results", value.index] - 2
                raise cursor.error_at(cursor.offset_at(mark), f"{name} is defined twice")
            self.values[name] = value
        return op

    def _results(self, places: _Places) -> tuple[list[str], list[Type]]:
        """`%a: f32, %b: i32 =`"""
        cursor = self.cursor
        names: list[str] = []
        types: list[Type] = []
        if cursor.kind != "value":
            return names, types
        if not self._at_result():
            cursor.fail(_AN_OP)
        while True:
            names.append(cursor.take("value", "a result, such as %x: f32"))
            cursor.expect(":")
            places.fields["results", len(types)] = cursor.mark
            types.append(read_type(cursor))
            if not cursor.accept(","):
                break
        cursor.expect("=")
        return names, types

    def _at_result(self) -> bool:
        """Whether the value under the cursor may be a result, for all that `:` is missing; if
        not, it is what stands before it that is missing."""
        following = self.cursor.following
        return following() == ":" or at_type(following()) or at_type(following(2))

    def _op_class(self, has_results: bool) -> type[Op]:
        """The class of the op whose name is read."""
        cursor = self.cursor
        cls = OPS.get(cursor.text) if cursor.kind == "word" else None
        if cls is None:
            cursor.fail("an op" if has_results else _AN_OP, OPS)
        if cls.isolated is not (self.depth == 0):
            raise cursor.error(f"{cls.name} cannot stand here")
        if cls.level is not None and cls.level is not self.level:
            where = self.level.value if self.level else "no"
            raise cursor.error(f"{cls.name} is no op of the {where} level")
        if not cls.spec.results_vary and has_results is not bool(cls.spec.results):
            rule = "gives no result" if has_results else "gives a result: write %x: type = ..."
            raise cursor.error(f"{cls.name} {rule}")
        cursor.advance()
        return cls

    def _positional_attributes(self, spec: Spec, of: Type | None, places: _Places) -> list[Any]:
        cursor = self.cursor
        values = []
        for declared in spec.positional_attributes:
            places.fields[declared.name, 0] = cursor.mark
            values.append(declared.kind.parse(cursor, of))
        return values

    def _operands(
        self, spec: Spec, of: Type | None, places: _Places
    ) -> tuple[list[Value], dict[str, Any]]:
        """The operands before the regions, and the values of attributes that have a name."""
        cursor = self.cursor
        fixed = spec.fixed
        repeated = spec.variadics[0] if len(spec.variadics) == 1 and not spec.feeds else None
        operands: list[Value] = []
        named: dict[str, Any] = {}
        for declared in fixed:
            if operands and not cursor.accept(","):
                break
            operands.append(self._operand(spec, declared, 0, places))
        first = not fixed
        while first or cursor.accept(","):
            if repeated is not None and cursor.kind == "value":
                if first and self._at_result() and cursor.starts_line:
                    break  # it is the next op's
                index = len(operands) - len(fixed)
                operands.append(self._operand(spec, repeated, index, places))
            elif not first or any(f.name == cursor.text for f in spec.named):
                self._named(spec, of, places, named)
            else:
                break
            first = False
        if len(operands) < len(fixed):
            if not cursor.starts_line:
                cursor.expect(",")
            names = ", ".join(f.name for f in fixed)
            takes = f"{spec.op_name} takes {len(fixed)} operands: {names}"
            raise cursor.error_at(cursor.offset_at(places.name), takes)
        if named and spec.optionals:
            for before, declared in pairwise(spec.optionals):
                if declared.name in named and before.name not in named:
                    mark = places.fields[declared.name, 0] - 2
                    raise cursor.error_at(
                        cursor.offset_at(mark), f"{declared.name} needs {before.name} as well"
                    )
            operands += [named[f.name] for f in spec.optionals if f.name in named]
        if len(spec.variadics) > 1:
            operands += self._groups(spec, places, named)
        return operands, named

    def _groups(self, spec: Spec, places: _Places, named: dict[str, Any]) -> list[Value]:
        """The operands of several variadic fields, which must be the same number in each."""
        cursor = self.cursor
        operands: list[Value] = []
        first = spec.variadics[0].name
        for group in spec.variadics:
            if group.name not in named:
                cursor.fail(f"{group.name}=[...]")
            if len(named[group.name]) != len(named[first]):
                offset = cursor.offset_at(places.fields[group.name, -1])
                raise cursor.error_at(offset, f"{group.name} and {first} differ in number")
            operands += named[group.name]
        return operands

    def _named(self, spec: Spec, of: Type | None, places: _Places, named: dict[str, Any]) -> None:
        """Read `name=value` into `named`."""
        cursor = self.cursor
        name = cursor.text
        declared = next((f for f in spec.named if f.name == name), None)
        if declared is None:
            names = [f.name for f in spec.named]
            what = " or ".join(f"{n}=" for n in names if n not in named)
            cursor.fail(what or f"no more operands of {spec.op_name}", names)
        if name in named:
            raise cursor.error(f"{name} stands twice")
        cursor.advance()
        cursor.expect("=")
        if isinstance(declared, AttributeField):
            places.fields[name, 0] = cursor.mark
            named[name] = declared.kind.parse(cursor, of)
        elif isinstance(declared, OptionalField):
            named[name] = self._operand(spec, declared, 0, places)
        elif isinstance(declared, VariadicField):
            group: list[Value] = []
            named[name] = group
            places.fields[name, -1] = cursor.mark

            def member() -> None:
                group.append(self._operand(spec, declared, len(group), places))

            cursor.listed("[", "]", member)

    def _operand(self, spec: Spec, declared: OperandField, index: int, places: _Places) -> Value:
        """An operand of a field.  Its type is checked right here, for what follows may be wrong
        only because of it."""
        cursor = self.cursor
        mark = places.fields[declared.name, index] = cursor.mark
        value = self.values.get(cursor.text)
        if value is None:
            self._refuse_operand()
        cursor.advance()
        if value.type not in declared.constraint:
            offset = cursor.offset_at(mark)
            raise cursor.error_at(offset, operand_mistake(spec.op_name, declared, value.type))
        return value

    def _refuse_operand(self) -> NoReturn:
        """Raise that what is under the cursor stands for no value here."""
        cursor = self.cursor
        name = cursor.text
        if cursor.kind != "value":
            cursor.fail("a value, such as %x")
        if name in self.gone:
            raise cursor.error(f"{name} was defined in a region that has ended")
        raise cursor.error(f"{name} is not defined")

    def _hint(self, name: str, usual: str | None = None) -> str | None:
        """The name hint that a name in the text stands for; a number is no name."""
        return None if name[1:].isdigit() else self.hints.of(name[1:], usual)

    # Regions.

    def _opening(
        self, spec: Spec, position: int, region: Region, places: _Places
    ) -> tuple[dict[str, Value], list[Value]]:
        """`do (%i: i32, %s: f32 = %zero)`, what stands before the brace of a region: its named
        arguments, and what they start with."""
        cursor = self.cursor
        keyword = spec.regions[position].keyword
        if keyword is not None:
            cursor.expect(keyword)
        feeds = spec.feeds and position == 0
        named: dict[str, Value] = {}
        initial: list[Value] = []
        is_function = OPS[spec.op_name].isolated

        def argument() -> None:
            name = cursor.text
            if name in self.values or name in named:
                raise cursor.error(f"{name} is defined twice")
            cursor.take("value", "an argument, such as %i: i32")
            cursor.expect(":")
            places.fields["arguments", len(named)] = cursor.mark
            hint = self._hint(name)
            if is_function and hint is not None:
                hint = name[1:]  # whoever launches it calls its arguments so
            self.hints.add(name[1:], parameter=is_function)
            named[name] = region.add_argument(read_type(cursor), hint)
            if feeds and cursor.accept("="):
                initial.append(self._operand(spec, spec.variadics[0], len(initial), places))
            elif initial:
                cursor.fail("'=' and what the argument starts with")

        if cursor.at("("):
            cursor.listed("(", ")", argument)
        if not cursor.at("{"):
            cursor.fail("'{'", [f.name for f in spec.named])
        return named, initial

    def _region(self, op: Op, region: Region, arguments: dict[str, Value]) -> None:
        cursor = self.cursor
        if self.depth == DEEPEST:
            raise cursor.error(f"regions nest at most {DEEPEST} deep")
        cursor.expect("{")
        outside = dict(self.values)
        self.values.update(arguments)
        self.depth += 1
        last: Op | None = None
        while last is None or not last.terminator:
            if cursor.text == "}":
                end = "return" if op.isolated else "yield"
                raise cursor.error(f"expected '{end}' before the end of the region")
            last = self.op(region)
        if not cursor.at("}"):
            cursor.fail(f"'}}' after {last.name}")
        cursor.advance()
        self.depth -= 1
        self.gone.update(self.values.keys() - outside.keys())
        self.values = outside

    # Where things come from.

    def _location(self, line: int) -> Location | None:
        cursor = self.cursor
        if cursor.kind == "location":
            text = cursor.advance()
            known = self.locations.get(text)
            if known is None:
                _, file, number = text.split('"')
                known = self.locations[text] = Location(file, int(number[1:]))
            return known
        if not cursor.accept("at"):
            return Location(self.file, line) if self.file is not None else None
        file = cursor.string()
        cursor.expect(":")
        return Location(file, cursor.integer(0, 2**31 - 1, "a line number"))

    def _pointed(self, error: VerifyError, op: Op, places: _Places) -> ParseError:
        """A rule broken, as an error at the token that breaks it."""
        cursor = self.cursor
        name, index = error.field, error.index
        for position, declared in enumerate(op.spec.results):
            if declared.name == name:
                name, index = "results", position
        if name == "results" and self._initial_is_odd(op, index):
            name = op.spec.variadics[0].name
        if name is None:
            mark = places.name
        else:
            missing = places.name if name == "results" else places.end
            mark = places.fields.get((name, index), missing)
        offset = cursor.offset_at(mark)
        if error.expected is not None and name in ("results", "arguments"):
            offset = cursor.first_difference(mark, str(error.expected))
        return cursor.error_at(offset, error.message)

    def _initial_is_odd(self, op: Op, index: int) -> bool:
        """Whether a result differs in type from what it starts with, and the region's argument
        sides with the result."""
        if not op.spec.feeds or index >= len(op.results):
            return False
        arguments = op.regions[0].arguments
        position = len(arguments) - len(op.results) + index
        return position >= 0 and arguments[position].type is op.results[index].type
