"""The verifier: every rule that IR keeps before and after each pass.

Values are defined before they are used and seen from where they are used; types, attributes and
regions are as declared; each op's own rules hold.  `verify_op` is the part that looks at one op
alone, which the parser shares so that an error is found where it stands in the text.
"""

from __future__ import annotations

import linecache
from operator import attrgetter
from typing import Any

from iris.errors import TypeMistake, VerifyError
from iris.ir.control import Func
from iris.ir.core import Level, Module, Op, Region, Value
from iris.ir.declare import OperandField
from iris.ir.level_types import verify_placed_arguments, verify_placed_results
from iris.ir.text.printer import Printer
from iris.ir.types import Type
from iris.ir.uniformity import Uniformity, diverging, needed, uniformity

NEIGHBOURS = 5  # lines of IR shown before and after the op at fault
DEEPEST = 48  # regions within regions
_TYPE = attrgetter("type")
MOST_KNOWN = 4096  # combinations of types and attributes that are kept, of an op


def verify(module: Module) -> None:
    """Raise `VerifyError`, showing the op in its surroundings, if a rule is broken."""
    symbols: set[str] = set()
    previous: Op | None = None
    function = module.body.first
    while function is not None:
        verifier = _Verifier(function)
        try:
            verifier.links(function, module.body, previous)
            verifier.function(symbols)
        except VerifyError as error:
            raise _in_context(error, verifier.op, function) from None
        previous, function = function, function.next


class _Verifier:
    """Walks one function; `op` is the one it is at."""

    def __init__(self, function: Op):
        self.op = function
        self.root: Any = None  # the same, once that is known to be a function
        self.placed: set[Type] = set()  # types of results that are right here
        self.level: Level | None = None
        self.visible: set[Value] = set()
        self.depth = 0
        self.regions: set[Region] = set()
        self.guarded: list[Op] = []  # the convergent ops under control flow

    def function(self, symbols: set[str]) -> None:
        function = self.op
        if not isinstance(function, Func):
            raise function.invalid("a module holds functions only")
        verify_op(function)
        symbol = function.symbol
        if symbol in symbols:
            raise function.invalid(f"two functions are called @{symbol}", at="symbol")
        symbols.add(symbol)
        self.level = function.function_level
        verify_placed_arguments(function, 0, function)
        self.root = function
        self.region(function, function.body)
        if self.guarded and self.level is Level.METAL:
            self.convergence(function)

    def links(self, op: Op, region: Region, previous: Op | None) -> None:
        """Check that an op knows where it is.  A loop of ops is found here: one of them does
        not know the op that the walk comes from."""
        if op.parent is not region:
            raise op.invalid("the op does not know the region it is in; use Region.insert")
        if op.previous is not previous:
            raise op.invalid("the op does not know the one before it; use Region.insert")

    def region(self, owner: Op, region: Region) -> None:
        """Check a region of an op; `visible` is left as it was."""
        self.op = owner
        if region.owner is not owner:
            raise owner.invalid("a region does not know the op it belongs to")
        if region in self.regions:
            raise owner.invalid("a region stands in two places; clone the op that has it")
        self.regions.add(region)
        if self.depth == DEEPEST:
            raise owner.invalid(f"regions nest at most {DEEPEST} deep")
        visible, level = self.visible, self.level
        here: list[Value] = []
        for index, argument in enumerate(region.arguments):
            if argument.region is not region or argument.op or argument.index != index:
                raise owner.invalid(f"argument {index} of a region does not know its place")
            here.append(argument)
        visible.update(here)
        self.depth += 1
        previous: Op | None = None
        op = region.first
        while op is not None:
            self.op = op
            if op.parent is not region or op.previous is not previous:
                self.links(op, region, previous)
            for value in op.operands:
                if value not in visible:
                    raise self.out_of_reach(op, value)
                if op not in value.users:
                    raise op.invalid(f"{value!r} does not know this user; use set_operands")
            if op.level is not None and op.level is not level:
                where = level.value if level else "no"
                raise op.invalid(f"an op of the {op.level.value} level in a {where} function")
            verify_header(op)
            for value in op.results:
                if value.type not in self.placed:
                    verify_placed_results(op, self.root)
                    self.placed.add(value.type)
            if op.convergent and self.depth > 1:
                self.guarded.append(op)
            if op.regions or op.spec.regions:
                if op.isolated:
                    raise op.invalid("a function cannot stand within another op")
                _verify_regions(op)
                for position, inner in enumerate(op.regions):
                    verify_placed_arguments(op, position, self.root)
                    self.region(op, inner)
            for index, value in enumerate(op.results):
                if value.op is not op or value.index != index:
                    raise op.invalid(f"result {index} does not know its place")
                visible.add(value)
                here.append(value)
            previous, op = op, op.next
        self.op = owner
        if region.last is not previous:
            raise owner.invalid("the region does not know its last op; use Region.append")
        self.depth -= 1
        visible.difference_update(here)

    def convergence(self, function: Op) -> None:
        """Check that the threads which must run a convergent op together all come to it."""
        levels = uniformity(function)
        for op in self.guarded:
            over = needed(op)
            for guard, value in diverging(op, over, levels):
                self.op = op
                group = "threadgroup" if over is Uniformity.THREADGROUP else "simdgroup"
                place = f" at {guard.location}" if guard.location is not None else ""
                raise op.invalid(
                    f"all threads of a {group} must run it together, but it stands in the "
                    f"{guard.name}{place}, whose {value!r} may differ between them"
                )

    def out_of_reach(self, op: Op, value: Value) -> VerifyError:
        position = op.operands.index(value)
        field, index = op.spec.operand_field(position, len(op.operands))
        home = value.home
        if home is None:
            why = "its op is in no region"
        elif home is op.parent:
            why = "it is defined only further down"
        else:
            why = "it is defined in a region that does not enclose this op"
        return op.invalid(f"{value!r} is not defined here: {why}", at=field.name, index=index)


def verify_op(op: Op) -> None:
    """Check one op: counts, types and attributes as declared, and its own rules.  Its regions
    are looked at only for their arguments and how they end."""
    verify_header(op)
    _verify_regions(op)


def _verify_regions(op: Op) -> None:
    _verify_region_arguments(op)
    for region in op.regions:
        verify_end(op, region)


def verify_end(op: Op, region: Region) -> None:
    """Check that a region ends with its terminator, and has no other."""
    last = region.last
    if last is None or not last.terminator:
        raise op.invalid("a region does not end with a terminator")


def verify_header(op: Op) -> None:
    """Check one op, but not its regions."""
    attributes = op.attributes
    spec = op.spec
    if (attributes or spec.attributes) and spec.accepted.get(id(attributes)) is not attributes:
        _verify_attributes(op)
        if len(spec.accepted) == MOST_KNOWN:
            spec.accepted.clear()
        spec.accepted[id(attributes)] = attributes
    try:
        key = (attributes, *map(_TYPE, op.operands), None, *map(_TYPE, op.results))
        known = key in spec.valid
    except TypeError:  # what has no hash is no type, which is said below
        _verify_types(op)
    else:
        if not known:
            _verify_types(op)
            if len(spec.valid) == MOST_KNOWN:
                spec.valid.clear()
            spec.valid.add(key)
    if op.terminator and op.next is not None:
        raise op.invalid("a terminator must come last in its region")
    op.check()


def _verify_types(op: Op) -> None:
    """Check the operands and results, of which only the types count."""
    spec = op.spec
    operands = op.operands
    count = len(operands)
    if spec.optionals or spec.variadics:
        spec.group(count)
        fields = [spec.operand_field(i, count) for i in range(count)]
        for (field, index), value in zip(fields, operands, strict=True):
            if value.type not in field.constraint:
                message = operand_mistake(op.name, field, value.type)
                raise VerifyError(message, field=field.name, index=index)
    else:
        if count != len(spec.fixed):
            raise op.invalid(f"takes {len(spec.fixed)} operands, not {count}")
        for field, value in zip(spec.fixed, operands, strict=True):
            if value.type not in field.constraint:
                raise VerifyError(operand_mistake(op.name, field, value.type), field=field.name)
    _verify_results(op)


def operand_mistake(op_name: str, field: OperandField, type_: Type) -> str:
    return f"{op_name}: {field.name} must be {field.constraint.what}, not {type_}"


def _verify_attributes(op: Op) -> None:
    fields = op.spec.attributes
    if len(op.attributes) != len(fields):
        raise op.invalid(f"has {len(op.attributes)} attributes; it is declared with {len(fields)}")
    for field, value in zip(fields, op.attributes, strict=True):
        if not field.kind.accepts(value):
            raise op.invalid(
                f"{field.name} must be {field.kind.what}, not {value!r}", at=field.name
            )


def _verify_results(op: Op) -> None:
    spec = op.spec
    results = op.results
    if spec.inferred:
        try:
            expected = op.infer()  # type: ignore[attr-defined]
        except TypeMistake as error:
            raise op.invalid(f"the result would be no type: {error}") from None
        for index, (value, type_) in enumerate(zip(results, expected, strict=False)):
            if value.type is not type_:
                raise op.invalid(
                    f"the result is {type_}, not {value.type}",
                    at="results",
                    index=index,
                    expected=type_,
                )
        if len(results) != len(expected):
            raise op.invalid(
                f"has {len(expected)} results, not {len(results)}",
                at="results",
                index=len(expected),
            )
    elif any(not isinstance(v.type, Type) for v in results):
        raise op.invalid("a result's type is no type", at="results")
    elif not spec.results_vary and len(results) != len(spec.results):
        raise op.invalid(
            f"has {len(spec.results)} results, not {len(results)}",
            at="results",
            index=len(spec.results),
        )
    for field, value in zip(spec.results, results, strict=False):
        if value.type not in field.constraint:
            raise op.invalid(
                f"{field.name} must be {field.constraint.what}, not {value.type}", at=field.name
            )


def _verify_region_arguments(op: Op) -> None:
    if len(op.regions) != len(op.spec.regions):
        declared = len(op.spec.regions)
        raise op.invalid(f"has {len(op.regions)} regions; it is declared with {declared}")
    for position in range(len(op.regions)):
        verify_arguments(op, position)


def verify_arguments(op: Op, position: int) -> None:
    """Check the arguments of one of an op's regions."""
    have = op.regions[position].arguments
    if op.isolated:  # what a function takes is its own business
        for argument in have:
            if not isinstance(argument.type, Type):
                raise op.invalid(f"{argument.type!r} is no type", at="arguments")
        return
    expected = op.region_arguments()[position]
    for index, (argument, type_) in enumerate(zip(have, expected, strict=False)):
        if argument.type is not type_:
            raise op.invalid(
                f"argument {index} of the region must be {type_}, not {argument.type}",
                at="arguments",
                index=index,
                expected=type_,
            )
    if len(have) != len(expected):
        raise op.invalid(
            f"the region takes {len(expected)} arguments, not {len(have)}",
            at="arguments",
            index=len(expected),
        )


def _in_context(error: VerifyError, op: Op, function: Op) -> VerifyError:
    """The error, with the op among its neighbours and the user's line that made it."""
    context = ["in this IR:"]
    if _is_walkable(function, set()):
        printer = _Surroundings(op)
        printer.op(function, "")
        first, last = max(0, printer.at - NEIGHBOURS), printer.at + NEIGHBOURS + 1
        for number, line in enumerate(printer.lines[first:last], start=first):
            context.append(f"{'>' if number == printer.at else ' '} {line}")
    else:
        context.append(f"> {op!r}")
    if op.location is not None:
        source = linecache.getline(op.location.file, op.location.line).rstrip()
        context.append(f"which comes from {op.location}" + (f"\n    {source}" if source else ""))
    return VerifyError(
        error.message,
        field=error.field,
        index=error.index,
        expected=error.expected,
        context="\n".join(context),
        location=op.location,
    )


def _is_walkable(op: Op, seen: set[Region], depth: int = 0) -> bool:
    """Whether a walk over what is in the op comes to an end."""
    if depth > DEEPEST or not seen.isdisjoint(op.regions):
        return False
    seen.update(op.regions)
    for region in op.regions:
        previous: Op | None = None
        inner = region.first
        while inner is not None:
            if inner.previous is not previous or not _is_walkable(inner, seen, depth + 1):
                return False
            previous, inner = inner, inner.next
    return True


class _Surroundings(Printer):
    """Prints IR that may be broken anywhere, and notes the line of one op."""

    def __init__(self, wanted: Op):
        super().__init__(locations=True)
        self.wanted = wanted
        self.at = 0

    def op(self, op: Op, indent: str) -> None:
        if op is self.wanted:
            self.at = len(self.lines)
        if _fits(op):
            super().op(op, indent)
            return
        # What the declaration does not fit is shown as it is.
        results = ", ".join([f"{self.name(v)}: {v.type}" for v in op.results])
        operands = ", ".join(map(self.name, op.operands))
        line = f"{results} = {op.name}" if results else op.name
        self.lines.append(f"{indent}{line} {op.attributes} ({operands}){self.place(op)}")
        for region in op.regions:
            self.lines.append(indent + "{")
            for inner in region:
                self.op(inner, indent + "  ")
            self.lines.append(indent + "}")

    def usual(self, value: Value) -> str | None:
        # An op that is broken may fail to suggest a name.
        if value.op is not None:
            if not _fits(value.op):
                return None
            try:
                verify_header(value.op)
            except VerifyError:
                return None
        return super().usual(value)


def _fits(op: Op) -> bool:
    """Whether an op has the parts that its declaration says."""
    spec = op.spec
    try:
        spec.group(len(op.operands))
    except VerifyError:
        return False
    return (
        len(op.attributes) == len(spec.attributes)
        and all(f.kind.accepts(v) for f, v in zip(spec.attributes, op.attributes, strict=True))
        and len(op.regions) == len(spec.regions)
        and not (spec.feeds and len(op.regions[0].arguments) < len(op.operands) - len(spec.fixed))
    )
