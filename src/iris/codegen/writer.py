"""The state of one walk: what has been written, what each value is called or can be put for it.

A value that is used once, where it is made, waits as an expression until its user takes it; any
other becomes a variable.  An expression that reads memory waits no longer than until the next op
that may write, and one whose lanes must come together is never put where only some would get.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from iris.codegen.expression import INDEX, LANES, Expression, Precedence, Touch, is_number
from iris.codegen.forms import Forms
from iris.codegen.language import Language
from iris.codegen.liveness import dead_values, is_unused
from iris.codegen.names import Names
from iris.codegen.ranges import Ranges
from iris.codegen.source import Site
from iris.codegen.usual_names import usual_name
from iris.errors import VerifyError
from iris.ir.control import Func, While
from iris.ir.core import Facet, Location, Op, Region, Resource, Value
from iris.ir.effects import effects_within, writes
from iris.ir.math import element_type
from iris.ir.types import DType, ElementType, Ptr

COLUMNS = 100
LONGEST = 56  # an expression of more characters gets a name of its own
MARGIN = 16  # what an assignment has besides an expression
STEP = "    "
_PAIR = 2  # what a lane holds of a matrix

#: Ops of which an operand is all that is assigned somewhere.
ASSIGNS: set[type[Op]] = set()
#: What an op is in the text: an expression, or None where the rule has written statements.
emit = Facet("emission")


class Line(NamedTuple):
    """A line of the body, and the user's line that it comes from."""

    text: str
    location: Location | None


class Writer:
    def __init__(self, function: Func, language: Language):
        self.function = function
        self.language = language
        self.fast = function.fast_math
        self.names = Names(language.keywords | language.functions)
        self.fields = Names(language.keywords)  # of the constant struct
        self.ranges = Ranges(function.body, function.simdgroups)
        self._dead = dead_values(function.body)
        forms = Forms(function.body, self._dead)
        self.form = forms.of
        self.is_matrix = forms.is_matrix
        self.meets_matrices = forms.meets_matrices
        self.lines: list[Line] = []
        self.location: Location | None = None  # of the op that writes
        self.indent = STEP
        self.expressions: dict[Value, Expression] = {}
        self.waiting: dict[Value, Expression] = {}  # those that an effect would spoil
        self.variables: dict[Value, str] = {}  # of those that have one
        # In each block that is open: what its variables are called instead of, to be put back.
        self._hidden: list[list[tuple[Value, Expression, str | None]]] = []
        self.carried: set[str] = set()  # the variables that loops carry
        self.awaited: dict[Value, str] = {}  # in which variable a value is wanted where it is made
        self.opening: list[str] = []  # statements at the top
        self.positions: dict[str, str] = {}  # of a thread: the name of each that is used
        self.helpers: dict[str, str] = {}
        self.shared: list[str] = []  # the declarations of the threadgroup's memory
        self.shared_bytes = 0
        self.written: set[Value] = set()
        touched = writes(effects_within(function))
        self.shared_arrays = touched if Resource.DEVICE in touched else []
        self.version = language.version
        self.extents: dict[tuple[Value, int], str] = {}
        self.sites: list[Site] = []
        self.report: str | None = None  # the name of the report buffer, once something reports
        self.program: str | None = None  # the name of the program's number, for that

    # The walk.

    def region(self, region: Region) -> None:
        """Every op but the terminator."""
        end = region.last
        op = region.first
        while op is not end and op is not None:
            self.op(op)
            op = op.next

    def op(self, op: Op) -> None:
        results = op.results
        if results and not op.regions and is_unused(op, self._dead):
            return
        self.ranges.learn(op)
        self.location = op.location
        expression = emit[type(op)](self, op)
        if expression is not None:
            self.give(results[0], expression)
        for value in results:
            if value.name is not None:
                self.names.see(value.name)

    def give(self, value: Value, expression: Expression) -> None:
        """Say what a value is in the text."""
        users = value.users
        op = value.op
        if len(users) == 1 and op is not None:
            (user,) = users
            # What ends a region assigns it to a variable that has a name.
            # A name for what is named already, or a part of that, says nothing.
            is_plain = expression.precedence == Precedence.POSTFIX and not expression.wraps
            room = LONGEST
            if user.terminator or type(user) in ASSIGNS:
                room = COLUMNS - MARGIN - len(self.indent)
            if (
                user.parent is op.parent
                and (
                    value.name is None
                    or user.terminator
                    or (is_plain and self._is_part(expression))
                )
                and len(expression.text) <= room
                and (len(user.operands) == 1 or user.operands.count(value) == 1)
            ):
                self.expressions[value] = expression
                if expression.touches:
                    self.waiting[value] = expression
                return
        self.declare(value, expression)

    def flush(self) -> None:
        """Give names to what waits and must not be evaluated after what comes now."""
        for value, expression in list(self.waiting.items()):
            self.declare(value, expression)
        self.waiting.clear()

    def drop(self) -> None:
        """At the end of a region: what still waits has no user but one that nobody misses."""
        self.waiting.clear()

    # Statements.

    def line(self, text: str) -> None:
        line = self.indent + text
        while len(line) > COLUMNS:
            at = _break(line, len(self.indent) + 2 * len(STEP))
            if at is None:
                break
            self.add(line[:at].rstrip())
            line = self.indent + 2 * STEP + line[at:].lstrip()
        self.add(line)

    def add(self, text: str) -> None:
        """A line as it is."""
        self.lines.append(Line(text, self.location))

    def open(self, head: str) -> int:
        """Begin a block; `close` wants what this returns."""
        self.line(head + " {")
        self.indent += STEP
        self.names.enter()
        self._hidden.append([])
        return len(self.lines)

    def close(self, start: int) -> None:
        """End a block; around one statement it needs no braces."""
        self._leave()
        if len(self.lines) == start + 1:
            head, (inner, location) = self.lines[start - 1].text[:-2], self.lines[start]
            body = inner.lstrip()
            is_plain = (
                not head.lstrip().startswith("}")
                and body.endswith(";")
                and not body.startswith(("for ", "if ", "while "))
            )
            if is_plain and len(head) + 1 + len(body) <= COLUMNS:
                self.lines[start - 1 :] = [Line(f"{head} {body}", location)]
                return
        self.line("}")

    def reopen(self, head: str) -> int:
        """End a block and begin the next of the same statement."""
        self._leave()
        return self.open("} " + head)

    def _leave(self) -> None:
        """Forget the variables of a block: an outer value is what it was before."""
        self.names.leave()
        self.indent = self.indent[: -len(STEP)]
        for value, expression, variable in reversed(self._hidden.pop()):
            self.expressions[value] = expression
            if variable is None:
                del self.variables[value]
            else:
                self.variables[value] = variable

    def loop(self, count: int, *, unrolled: bool = False) -> tuple[str, int]:
        """Begin a loop over the numbers below a count: its variable, and what `close` wants."""
        self.names.enter()
        name = self.names.index()
        self.names.leave()
        if unrolled:
            self.line(self.language.unroll)
        start = self.open(f"for (int {name} = 0; {name} < {count}; ++{name})")
        return self.names.new(name), start

    # Variables.

    def type_name(self, dtype: DType, lanes: int) -> str:
        name = self.language.types[dtype]
        if lanes > LANES:
            return f"{self.language.word}{lanes * max(8, dtype.bits) // 32}"
        return f"{name}{lanes}" if lanes > 1 else name

    def qualifier(self, memory: Value) -> str:
        """What a pointer to memory says of where that is."""
        if not isinstance(memory.type, Ptr):
            return self.language.shared
        is_seen = memory in self.shared_arrays
        return self.language.coherent if is_seen else self.language.device

    def held_as(self, value: Value) -> str:
        """The type of a variable that has a value, or of each of an array of them."""
        dtype = element_of(value).element
        if self.is_matrix(value):
            return self.language.matrix.format(type=self.language.types[dtype])
        return self.type_name(dtype, self.form(value).lanes)

    def place(self, value: Value, name: str) -> str:
        """What a variable that has a value is, vector by vector."""
        text = f"{name}[{INDEX}]" if self.form(value).parts > 1 else name
        return self.language.pair.format(matrix=text) if self.is_matrix(value) else text

    def name_of(self, value: Value) -> str:
        """A new name for a value."""
        return self.names.new(value.name or usual_name(value))

    def declare(self, value: Value, expression: Expression) -> Expression:
        """Make a variable of a value."""
        self.waiting.pop(value, None)
        if value in self.awaited:
            self.assign(value, self.awaited[value], expression)
            return self.call(value, self.awaited[value])
        return self.define(value, self.name_of(value), expression)

    def define(self, value: Value, name: str, expression: Expression) -> Expression:
        """Declare a variable with a first content, and let a value be called by it."""
        type_ = element_of(value)
        shape = self.form(value)
        head = f"{self.held_as(value)} {name}"
        if self.is_matrix(value):
            whole = self._whole(expression, type_.element) if shape.parts == 1 else None
            if whole is None:
                self.reserve(value, name)
                self.assign(value, name, expression)
            else:
                self.line(f"{head} = {whole};")
        elif shape.parts == 1:
            self.line(f"{head} = {self.content(expression, type_.element, shape.lanes)};")
        elif expression.text in _ZEROS:
            self.line(f"{head}[{shape.parts}] = {{}};")
        else:
            self.line(f"{head}[{shape.parts}];")
            self.assign(value, name, expression)
        return self.call(value, name)

    def room(self, value: Value) -> Expression:
        """A variable that is to have a value, without a content: the one where it is wanted, or
        a new one."""
        if value in self.awaited:
            return self.call(value, self.awaited[value])
        return self.reserve(value, self.name_of(value))

    def reserve(self, value: Value, name: str) -> Expression:
        """Declare a variable without a content, and let a value be called by it."""
        parts = self.form(value).parts
        suffix = f"[{parts}]" if parts > 1 else ""
        self.line(f"{self.held_as(value)} {name}{suffix};")
        return self.call(value, name)

    def call(self, value: Value, name: str) -> Expression:
        """Let a value be called by the name of a variable."""
        type_ = element_of(value)
        text = self.place(value, name)
        scalar = self.language.types[type_.element]
        expression = Expression(text, Precedence.POSTFIX, scalar, self.form(value).lanes)
        if self._hidden and value in self.expressions:
            self._hidden[-1].append((value, self.expressions[value], self.variables.get(value)))
        self.expressions[value] = expression
        self.variables[value] = name
        return expression

    def assign(self, value: Value, name: str, expression: Expression) -> None:
        """Assign what a value is to a variable that is to have it, vector by vector."""
        dtype = element_of(value).element
        lanes, parts = self.form(value)
        target = self.place(value, name)
        if self.is_matrix(value):
            target, expression = self._matrices(value, name, expression)
        if parts == 1:
            self.line(assignment(target, expression, self.content(expression, dtype, lanes)))
            return
        i, start = self.loop(parts, unrolled=self.meets_matrices(value))
        if expression.sides is not None:
            left, operator, right = (s.replace(INDEX, i) for s in expression.sides)
            expression = expression.at(i)._replace(sides=(left, operator, right))
        else:
            expression = expression.at(i)
        target = target.replace(INDEX, i)
        self.line(assignment(target, expression, self.content(expression, dtype, lanes)))
        self.close(start)

    def _matrices(self, value: Value, name: str, x: Expression) -> tuple[str, Expression]:
        """The sides of an assignment to matrices: as wholes, where that can be said."""
        dtype = element_of(value).element
        whole = self._whole(x, dtype)
        place = self.place(value, name)
        if whole is None:
            return place, x
        before, after = self.language.pair.split("{matrix}")
        place = place.removeprefix(before).removesuffix(after)
        return place, Expression(whole, Precedence.POSTFIX, self.language.types[dtype], _PAIR)

    def _whole(self, x: Expression, dtype: DType) -> str | None:
        """The matrix that an expression is, or is an array of."""
        if not is_number(x.text):
            return self.matrix_of(x)
        type_ = self.language.types[dtype]
        return self.language.filled.format(type=type_, number=self.content(x, dtype, 1))

    def matrix_of(self, x: Expression) -> str | None:
        """The matrix, or the array of them, of which an expression has all pairs."""
        before, after = self.language.pair.split("{matrix}")
        if not (x.text.startswith(before) and x.text.endswith(after)):
            return None
        inner = x.text[len(before) : -len(after)]
        return None if "(" in inner or ")" in inner else inner

    def _is_part(self, x: Expression) -> bool:
        """Whether it is a variable or a part of one: no call, and nothing from memory."""
        return not x.touches and ("(" not in x.text or self.matrix_of(x) is not None)

    def is_spent(self, op: Op, value: Value) -> bool:
        """Whether a value has a variable that nobody will read again after this op."""
        is_only_user = len(value.users) == 1 and op.operands.count(value) == 1
        return is_only_user and self.is_of(op.parent, value)

    def is_of(self, region: Region | None, value: Value) -> bool:
        """Whether a value has a variable that is of no interest when the region has ended."""
        if value not in self.variables or value.home is not region:
            return False
        # What the condition of a loop is given, the body is given again.
        owner = None if value.region is None else value.region.owner
        return not (isinstance(owner, While) and value.region is owner.condition)

    def is_used(self, value: Value) -> bool:
        """Whether somebody misses a value that is not made."""
        return bool(value.users) and value not in self._dead

    # What can be put for a value.

    def value(self, value: Value) -> Expression:
        """The expression of a value; if it waited, it is taken."""
        self.waiting.pop(value, None)
        try:
            return self.expressions[value]
        except KeyError:
            raise VerifyError(f"{value!r} is used before it is emitted") from None

    def number(self, value: Value) -> Expression:
        """The expression, equal to the value as a number."""
        expression = self.value(value)
        return self.cast(expression, element_of(value).element) if expression.wraps else expression

    def typed(self, value: Value, lanes: int = 1) -> Expression:
        """The expression, of the value's own type, and of at least some number of lanes."""
        expression = self.value(value)
        dtype = element_of(value).element
        if expression.type == self.language.types[dtype] and expression.lanes >= lanes:
            return expression
        return self.cast(expression, dtype, max(lanes, expression.lanes))

    def together(self, *values: Value) -> list[Expression]:
        """The expressions of operands of one function: of one type, and of as many lanes."""
        lanes = max([self.value(v).lanes for v in values])
        return [self.typed(v, lanes) for v in values]

    def arm(self, value: Value, lanes: int = 1) -> Expression:
        """The expression where it may not be evaluated."""
        if self.value(value).touches & Touch.CONVERGENT:
            self.declare(value, self.expressions[value])
        return self.typed(value, lanes)

    def simple(self, value: Value) -> Expression:
        """The expression where it is evaluated several times: a name, a number, a part of one."""
        expression = self.value(value)
        is_short = expression.precedence >= Precedence.PREFIX and len(expression.text) <= 24
        if is_short and self._is_part(expression):
            return expression
        return self.declare(value, expression)

    def cast(self, expression: Expression, dtype: DType, lanes: int = 0) -> Expression:
        lanes = lanes or expression.lanes
        scalar = self.language.types[dtype]
        text = f"{self.type_name(dtype, lanes)}({expression.text})"
        return Expression(text, Precedence.POSTFIX, scalar, lanes, touches=expression.touches)

    def content(self, expression: Expression, dtype: DType, lanes: int) -> str:
        """The text where a variable or memory takes it: scalars convert themselves there."""
        same = expression.type == self.language.types[dtype]
        if expression.lanes == lanes and (
            same or lanes == 1 or expression.type.startswith("packed")
        ):
            return expression.text
        return self.cast(expression, dtype, lanes).text

    # What the text needs besides.

    def position(self, usual: str) -> str:
        """The name of a position of the thread."""
        name = self.positions.get(usual)
        if name is None:
            name = self.positions[usual] = self.names.new(usual, everywhere=True)
        return name

    def extent(self, array: Value, axis: int) -> str:
        """The size of an argument along an axis."""
        key = (array, axis)
        if key not in self.extents:
            self.extents[key] = self.fields.new(f"{self.expressions[array].text}_extent_{axis}")
        return f"{self.language.constants_name}.{self.extents[key]}"

    def unsupported(self, op: Op, message: str) -> VerifyError:
        return op.invalid(f"{message} in {self.language.name}")


def _break(line: str, start: int) -> int | None:
    """Where to break a line that is too long: as far out of brackets as can be, then as late;
    after `=` if that is enough, or nothing else is there."""
    best, least, depth, assigned = None, 0, 0, None
    for at, letter in enumerate(line):
        if at >= COLUMNS and (best, assigned) != (None, None):
            break
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter != " " or at <= start:
            continue
        elif line[at - 2 : at] == " =":
            assigned = at
        elif (line[at - 1] == "," or line[at + 1 : at + 3] in _BREAKS) and (
            best is None or depth <= least
        ):
            best, least = at, depth
    if assigned is not None and (best is None or len(line) - assigned + start <= COLUMNS):
        return assigned
    return best


_BREAKS = frozenset({"? ", ": ", "+ ", "&&", "||", "| "})
_ZEROS = frozenset({"0", "0u", "0l", "0ul", "0.0f", "0.0h", "bfloat(0.0f)", "false"})


_COMPOUND = frozenset({"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"})


def assignment(target: str, expression: Expression, content: str) -> str:
    """`x = x + y` is `x += y`."""
    sides = expression.sides
    if (
        sides is not None
        and sides[0] == target
        and sides[1] in _COMPOUND
        and content is expression.text
    ):
        return f"{target} {sides[1]}= {sides[2]};"
    return f"{target} = {content};"


def element_of(value: Value) -> ElementType:
    return element_type(value.type)


def merge_touches(expressions: Sequence[Expression]) -> int:
    touches = 0
    for expression in expressions:
        touches |= expression.touches
    return touches
