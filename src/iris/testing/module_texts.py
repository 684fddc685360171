"""What the text of IR keeps, and what the rules of IR refuse.

    @given(module_texts.modules())
    def test_text(module):
        module.check()

A random program becomes one of three functions of a module, whose values have names that get in
each other's way, with places of lines, pointers of all kinds, and numbers of any bits.  Its text
must be read back as the same module, places included, and a function must be printed as it is
alone.  Then one rule of the IR is broken: a name stands twice, is used after its region, belongs to
two functions; an operand with a name stands twice, or another needs it that is left out; an
attribute asks for other types; not all threads come to a barrier.  That must be refused, for this
reason.  Operands and results of other types must be refused, too.  Of texts with some other token
too few or too many, what is accepted must be printed as it stands there.  And a number halfway
between two of a dtype, or beside that, must be read as the nearest, ties to even; an integer beyond
its dtype is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from hypothesis import strategies as st

from iris.errors import IrisError, ParseError, VerifyError
from iris.ir import Level, Module, literal, parse, to_text, verify
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.core import Location, Op, Region
from iris.ir.math import Constant
from iris.ir.types import DTYPES, DType, Ptr
from iris.testing import programs
from iris.testing.choices import Choices
from iris.testing.text_edits import TOGETHER, edits, is_refused_or_printed
from iris.testing.type_edits import check_types
from iris.tools.replay import Program

BYTES = 96
# Hints of values: they are equal, or what a printer makes of another that is taken.
# Some are none that a text can have as they are.
_NAMES = ("x", "x_1", "x_2", "y", "x_1_1", "c0", "n", None, "1x", "größe", "0", "_1x", "a b")
_PARAMETERS = ("q_{}", "q_{}", "P{}", "y_1_{}", "c{}_1")  # names as values get them
_PLACES = (None, *[Location(file, line) for file in ("a.py", 'b "c".py') for line in (3, 4, 30)])
_ELEMENTS = tuple(DTYPES.values())
_FLOATS = tuple([dtype for dtype in _ELEMENTS if dtype.is_float])
_INTEGERS = tuple([dtype for dtype in _ELEMENTS if dtype.is_integer])
_SYMBOLS = ("g", "f_1", "h", "f_2")
EDITS = 8  # of a text
TYPES = 40  # of operands and results that are exchanged


def modules() -> st.SearchStrategy[ModuleText]:
    """Modules of all levels."""
    tiles = programs.tile(max_ops=12), programs.tile(masked=True, max_ops=12)
    several = [*tiles, programs.graph(max_ops=8), programs.metal()]
    return st.builds(ModuleText, st.one_of(several), st.binary(min_size=BYTES, max_size=BYTES))


@dataclass(frozen=True)
class ModuleText:
    """A program, and bytes that choose what becomes of it."""

    program: Program
    data: bytes

    def __repr__(self) -> str:
        return to_text(_decorated(self.program, Choices(self.data)), locations=True)

    def check(self) -> None:
        """Assert that the text keeps the module, and that what breaks a rule is refused."""
        choices = Choices(self.data)
        module = _decorated(self.program, choices)
        verify(module)
        text = to_text(module, locations=True)
        _keeps(module, text)
        for breaks in (_name_twice, _after_its_region, _symbol_twice, _named, _attribute, _apart):
            for broken, because in breaks(text, choices):
                _is_refused(broken, because)
        for edited in edits(text, choices, EDITS):
            is_refused_or_printed(edited)
        check_types(self.program.function.clone({}), choices, TYPES)
        for _ in range(4):
            _is_nearest(choices)
            _is_in_range(choices)


# What the text keeps.


def _decorated(program: Program, choices: Choices) -> Module:
    """A module of the program's function, and of two short ones, in any order."""
    first = program.function.clone({})
    assert isinstance(first, Func)
    others = [symbol for symbol in _SYMBOLS if symbol != first.symbol]
    functions = [first]
    for at in range(2):
        short = Func(others.pop(choices.below(len(others))), first.function_level)
        short.body.append(Return([]))
        functions.insert(choices.below(at + 2), short)
    for function in functions:
        _decorate(function, choices)
    return Module(functions)


def _decorate(function: Func, choices: Choices) -> None:
    if function.function_level is not Level.GRAPH:
        for number in range(choices.below(4)):
            facts = choices.flag(), choices.flag()
            name = choices.of(_PARAMETERS).format(number) if number else "q"
            function.body.add_argument(Ptr(choices.of(_ELEMENTS), *facts), name)
    b = Builder(function.body, function.body.first)
    for _ in range(choices.below(3)):
        dtype = choices.of(_FLOATS)
        b.insert(Constant.of_bits(_special(dtype, choices), dtype))
    hostile = choices.flag()
    for op in function.walk():
        op.location = choices.of(_PLACES)
        inner = [a for region in op.regions for a in region.arguments if op is not function]
        for value in (*op.results, *inner) if hostile else ():
            value.name = choices.of(_NAMES)


def _special(dtype: DType, choices: Choices) -> int:
    """The bits of a nan, or of an infinity."""
    exponent = literal.encode(float("inf"), dtype)
    least = exponent & -exponent
    payload = choices.of((0, 1, least >> 1, least >> 1 | 1, least - 1, least >> 2))
    return exponent | payload | (choices.below(2) << dtype.bits - 1)


def _keeps(module: Module, text: str) -> None:
    """Assert that the text is read back as the module, and says of a function what it does where
    that is alone."""
    again = parse(text)
    assert again == module, f"not equal once read back:\n{text}"
    names, others = ([[a.name for a in f.body.arguments] for f in x] for x in (module, again))  # type: ignore[attr-defined]
    assert names == others, f"parameters are called {others} once read back:\n{text}"
    for one, other in zip(module.walk(), again.walk(), strict=True):
        assert one.location == other.location, (
            f"{one!r} is read back from {other.location}:\n{text}"
        )
    alone = [to_text(Module([f.clone({})]), locations=True) for f in module]
    assert text == "\n".join(alone), f"functions beside others are printed otherwise:\n{text}"


# What is refused.

Broken = Iterator[tuple[str, str]]  # texts that break a rule, and what an error must say


def _is_refused(text: str, because: str) -> None:
    """Assert that a text is refused where it is read, for its place to be shown; only of threads
    that must be together is said later whether they are."""
    try:
        module = parse(text)
        if because == TOGETHER:
            verify(module)
    except (ParseError, VerifyError) as error:
        assert re.search(because, str(error)), f"{error}\n\nis not about {because!r}:\n{text}"
        return
    raise AssertionError(f"nothing is said of {because!r}:\n{text}")


class _Named(NamedTuple):
    """A name where it stands in a text, and the names that can be seen there."""

    name: str
    start: int
    end: int
    visible: Sequence[str]


_NAME = re.compile(r'%\w+|"(?:[^"\\]|\\.)*"')


class _Scopes:
    """Where names are defined and used, as the braces of a text say."""

    def __init__(self, text: str):
        self.defined: list[_Named] = []
        self.used: list[_Named] = []
        self.used_late: list[tuple[_Named, Sequence[str]]] = []  # with names of ended regions
        open_: list[list[str]] = [[]]
        ended: list[str] = []
        pending: list[list[str]] = []  # results of ops with regions, seen after these
        start = 0
        for line in text.splitlines(keepends=True):
            closes, opens = line.lstrip().startswith("}"), line.rstrip().endswith("{")
            if closes:
                ended += open_.pop()
            if line.startswith("func"):
                open_, ended, pending = [[]], [], []
            results = line.partition(" = ")[0] if re.match(r"\s*%", line) else ""
            here: list[str] = []
            after: list[str] = []
            for found in _NAME.finditer(line):
                if found[0][0] == '"':
                    continue
                visible = [name for names in open_ for name in names]
                one = _Named(found[0], start + found.start(), start + found.end(), visible)
                if line[found.end() : found.end() + 1] != ":":
                    self.used.append(one)
                    self.used_late.append((one, list(ended)))
                    continue
                self.defined.append(one)
                (after if found.end() <= len(results) else here).append(found[0])
            if opens:
                pending.append(after if not closes else pending.pop())
                open_.append(here)
            elif closes:
                open_[-1] += pending.pop() if pending else []
            else:
                open_[-1] += after
            start += len(line)


def _put(text: str, one: _Named, name: str) -> str:
    return text[: one.start] + name + text[one.end :]


def _name_twice(text: str, choices: Choices) -> Broken:
    """A value is called as one that can be seen where it is defined."""
    there = [one for one in _Scopes(text).defined if one.visible]
    for _ in range(2 if there else 0):
        one = choices.wide(there)
        name = choices.wide(one.visible)
        yield _put(text, one, name), f"{name} is defined twice"


def _after_its_region(text: str, choices: Choices) -> Broken:
    """A value is used after the region that defines it."""
    there = [
        (one, gone)
        for one, ended in _Scopes(text).used_late
        if (gone := [name for name in ended if name not in one.visible])
    ]
    if there:
        one, gone = choices.wide(there)
        name = choices.wide(gone)
        yield _put(text, one, name), f"{name} was defined in a region that has ended"


def _symbol_twice(text: str, choices: Choices) -> Broken:
    """Two functions have one name: where they are read, and where they are made."""
    functions = [function for function in parse(text) if isinstance(function, Func)]
    first = functions.pop(choices.below(len(functions)))
    second = choices.of(functions)
    because = f"two functions are called @{first.symbol}"
    yield re.sub(rf"@{second.symbol}\b", f"@{first.symbol}", text), because
    level, _, *attributes = second.attributes
    second.attributes = (level, first.symbol, *attributes)
    assert second.parent is not None
    try:
        verify(_module_of(second.parent))
    except VerifyError as error:
        assert because in str(error)
    else:
        raise AssertionError(f"verify does not say that {because}")


_NAMED = re.compile(r", (\w+)=%\w+")


def _named(text: str, choices: Choices) -> Broken:
    """An operand that has a name stands twice, or is left out though the next one needs it."""
    there = list(_NAMED.finditer(text))
    if there:
        one = choices.wide(there)
        yield text[: one.end()] + text[one.start() :], f"{one[1]} stands twice"
        after = _NAMED.match(text, one.end())
        if after is not None:
            rest = text[: one.start()] + text[one.end() :]
            yield rest, f"{after[1]} needs {one[1]} as well"


def _module_of(body: Region) -> Module:
    module = Module()
    for function in list(body):
        function.detach()
        module.body.append(function)
    return module


def _attribute(text: str, choices: Choices) -> Broken:
    """Change an attribute so that the op infers other result types than the text says."""
    module = parse(text)
    ops = [op for op in module.walk() if op.spec.inferred and op.results and op.attributes]
    for _ in range(3 if ops else 0):
        op = choices.wide(ops)
        at = choices.below(len(op.attributes))
        before = op.attributes
        op.attributes = (*before[:at], _other(before[at], choices), *before[at + 1 :])
        if _is_wrong(op):
            yield to_text(module), ""
        op.attributes = before


def _other(value: Any, choices: Choices) -> Any:
    """A value of an attribute that is not far from another."""
    match value:
        case tuple() if len(value) > 1:
            turned = (*value[1:], value[0])
            return choices.of((turned, value[::-1], value[:-1], (*value, value[0])))
        case bool():
            return not value
        case int():
            return choices.of((value + 1, max(value - 1, 0), 0))
        case _:
            return value


def _is_wrong(op: Op) -> bool:
    """Whether the results of an op are not such as are inferred of it, by its own rule: of
    attributes that can be written."""
    fields = op.spec.attributes
    if not all(f.kind.accepts(v) for f, v in zip(fields, op.attributes, strict=True)):
        return False
    try:
        return tuple(op.infer()) != tuple([v.type for v in op.results])  # type: ignore[attr-defined]
    except IrisError:
        return True


_APART = """\
  %lane_of_mine: i32 = metal.lane
  %most_of_mine: i32 = constant {most}
  %some_of_mine: bool = compare lt %lane_of_mine, %most_of_mine
  if %some_of_mine {{
{barrier}
    yield
  }} else {{
    yield
  }}
"""


def _apart(text: str, choices: Choices) -> Broken:
    """Some threads do not come to a barrier."""
    if not text.startswith("func metal"):
        return
    barrier = "    metal.barrier " + choices.of(("threadgroup", "simdgroup", "device"))
    lines = _APART.format(most=1 + choices.below(31), barrier=barrier)
    head = text.index("{\n") + 2
    yield text[:head] + lines + text[head:], TOGETHER


# Numbers.


def _is_nearest(choices: Choices) -> None:
    """Assert that a decimal number near the middle between two of a dtype is read as the nearer
    one, of two as near the even one."""
    dtype = choices.of(_FLOATS)
    largest = literal.encode(float("inf"), dtype) - 1
    low = choices.wide(range(largest)) if choices.flag() else choices.below(256)
    if low >= largest:
        return
    below, above = (Fraction(float(literal.decode(bits, dtype))) for bits in (low, low + 1))
    middle = (below + above) / 2
    nudge = (above - below) * choices.of(
        (Fraction(0), Fraction(0), Fraction(1, 3), Fraction(-1, 2**20))
    )
    number = float(middle + nudge)  # whose digits are all written out
    expected = low + (low & 1)
    if Fraction(number) != middle:
        expected = low if Fraction(number) < middle else low + 1
    found = parse(f"func graph @f() {{\n  %x: {dtype} = constant {number!r}\n  return\n}}")
    (constant, _) = next(iter(found)).regions[0]
    assert isinstance(constant, Constant)
    assert constant.bits == expected, f"{number!r} is read as {constant.bits}, not {expected}"


def _is_in_range(choices: Choices) -> None:
    """Assert that an integer is read where its dtype has it, and refused just beyond."""
    dtype = choices.of(_INTEGERS)
    ends = (dtype.low, dtype.high, dtype.low - 1, dtype.high + 1)
    number = choices.of((*ends, choices.below(256) - 128))
    text = f"func graph @f() {{\n  %x: {dtype} = constant {number}\n  return\n}}"
    if not dtype.low <= number <= dtype.high:
        _is_refused(text, "out of range")
        return
    (constant, _) = next(iter(parse(text))).regions[0]
    assert isinstance(constant, Constant)
    assert constant.value == number, f"{number} of {dtype} is read as {constant.value}"
