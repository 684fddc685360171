"""The verifier: every rule that IR keeps before and after each pass.

Values are defined before they are used and seen from where they are used; types, attributes and
regions are as declared; each op's own rules hold.  `verify_op` is the part that looks at one op
alone, which the parser shares so that an error is found where it stands in the text.
"""

from __future__ import annotations

import linecache

from iris.errors import VerifyError
from iris.ir.core import Level, Module, Op, Region, Value
from iris.ir.text.printer import to_text

NEIGHBOURS = 5  # lines of IR shown before and after the op at fault
DEEPEST = 48  # regions within regions


def verify(module: Module) -> None:
    """Raise `VerifyError`, showing the op in its surroundings, if a rule is broken."""
    symbols: set[str] = set()
    for function in module:
        _verify_function(function, symbols)


def _verify_function(function: Op, symbols: set[str]) -> None:
    try:
        if not function.isolated:
            raise function.invalid("a module holds functions only")
        symbol = function.symbol  # type: ignore[attr-defined]
        if symbol in symbols:
            raise function.invalid(f"two functions are called @{symbol}", at="symbol")
        symbols.add(symbol)
        verify_op(function)
        visible: set[Value] = set()
        level = function.function_level  # type: ignore[attr-defined]
        _verify_region(function.regions[0], level, visible)
    except VerifyError as error:
        raise _in_context(error, function, function) from None


def _verify_region(region: Region, level: Level, visible: set[Value]) -> None:
    """Check a region whose op sees the values in `visible`, which is left as it was."""
    here: list[Value] = list(region.arguments)
    visible.update(here)
    op = region.first
    if op is None:
        raise _in_context(VerifyError("the region is empty: it needs a terminator"), region.owner)
    while op is not None:
        try:
            for position, value in enumerate(op.operands):
                if value not in visible:
                    field, index = op.spec.operand_field(position, len(op.operands))
                    raise op.invalid("a value is used where it is not defined", at=field.name, index=index)
            if op.level is not None and op.level is not level:
                raise op.invalid(f"an op of the {op.level.value} level in a {level.value} function")
            if op.parent is not region:
                raise op.invalid("the op does not know the region it is in")
            verify_op(op)
        except VerifyError as error:
            raise _in_context(error, op) from None
        for inner in op.regions:
            _verify_region(inner, level, visible)
        if op.results:
            visible.update(op.results)
            here.extend(op.results)
        op = op.next
    visible.difference_update(here)


def verify_op(op: Op) -> None:
    """Check one op: counts, types and attributes as declared, and its own rules.  Its regions
    are looked at only for their arguments and how they end."""
    verify_header(op)
    if op.regions or op.spec.regions:
        _verify_region_arguments(op)
        for region in op.regions:
            verify_end(op, region)


def verify_end(op: Op, region: Region) -> None:
    """Check that a region ends with its terminator, and has no other."""
    last = region.last
    if last is None or not last.terminator:
        raise op.invalid("a region does not end with a terminator")


def verify_header(op: Op) -> None:
    """Check one op but for what is in its regions."""
    spec = op.spec
    operands = op.operands
    count = len(operands)
    if spec.optionals or spec.variadics:
        spec.group(count)
        fields = [spec.operand_field(i, count) for i in range(count)]
        for (field, index), value in zip(fields, operands, strict=True):
            if value.type not in field.constraint:
                raise _wrong_operand(op, field.name, index, field.constraint.what, value)
    else:
        if count != len(spec.fixed):
            raise op.invalid(f"takes {len(spec.fixed)} operands, not {count}")
        for field, value in zip(spec.fixed, operands, strict=True):
            if value.type not in field.constraint:
                raise _wrong_operand(op, field.name, 0, field.constraint.what, value)
    if op.attributes or spec.attributes:
        _verify_attributes(op)
    _verify_results(op)
    if op.terminator and op.next is not None:
        raise op.invalid("a terminator must come last in its region")
    op.check()


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
        expected = op.infer()  # type: ignore[attr-defined]
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
                f"has {len(expected)} results, not {len(results)}", at="results", index=len(expected)
            )
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
        raise op.invalid(f"has {len(op.regions)} regions; it is declared with {len(op.spec.regions)}")
    for position in range(len(op.regions)):
        verify_arguments(op, position)


def verify_arguments(op: Op, position: int) -> None:
    """Check the arguments of one of an op's regions."""
    if op.isolated:
        return  # what a function takes is its own business
    have = op.regions[position].arguments
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


def _in_context(error: VerifyError, op: Op | None, root: Op | None = None) -> VerifyError:
    """The error, with the op among its neighbours and the user's line that made it."""
    if error.context or op is None:
        return error
    root = root or _function_of(op)
    lines = to_text(root, locations=True).splitlines()
    at = _line_of(op, root)
    first, last = max(0, at - NEIGHBOURS), at + NEIGHBOURS + 1
    shown = [
        f"{'>' if i == at else ' '} {line}" for i, line in enumerate(lines) if first <= i < last
    ]
    context = ["in this IR:", *shown]
    if op.location is not None:
        source = linecache.getline(op.location.file, op.location.line).rstrip()
        context.append(f"which comes from {op.location}" + (f"\n    {source}" if source else ""))
    return VerifyError(
        error.message, field=error.field, index=error.index, context="\n".join(context)
    )


def _function_of(op: Op) -> Op:
    while op.parent_op is not None:
        op = op.parent_op
    return op


def _line_of(op: Op, root: Op) -> int:
    """The line of an op in the text of the function it is in."""
    line = 0

    def visit(node: Op) -> bool:
        nonlocal line
        if node is op:
            return True
        line += 1
        for i, region in enumerate(node.regions):
            if i:
                line += 1
            for inner in region:
                if visit(inner):
                    return True
        line += bool(node.regions)
        return False

    visit(root)
    return line
