"""The state of one walk: what has been written, what each value is called or can be put for it.

A value that is used once, where it is made, waits as an expression until its user takes it; any
other becomes a variable.  An expression that reads memory waits no longer than until the next op
that may write, and one whose lanes must come together is never put where only some would get.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from iris.analysis.liveness import dead_values, is_unused
from iris.analysis.matrices import multiplied
from iris.codegen.expression import Expression, Form, Touch, aligned, form_of, in_memory
from iris.codegen.language import Language, pointer_to
from iris.codegen.names import Names
from iris.codegen.shapes import check_shapes
from iris.codegen.source import Site
from iris.codegen.statements import COLUMNS, STEP, Assign, Block, Declare, For, Statement
from iris.codegen.tree import (
    PART,
    Call,
    Member,
    Name,
    Number,
    Precedence,
    Tree,
    binary,
    braces,
    element,
    is_zero,
    number,
)
from iris.codegen.usual_names import usual_name
from iris.errors import VerifyError
from iris.ir.control import Func
from iris.ir.core import Facet, Location, Op, Region, Resource, Value
from iris.ir.effects import effects_within, writes
from iris.ir.metal import FRAGMENT_LANES, VECTOR
from iris.ir.types import DType, Ptr, Threadgroup, Type, i32

LONGEST = 56  # an expression of more characters gets a name of its own
MARGIN = 16  # what an assignment has besides an expression
_SHORT = 24  # characters; longer expressions are not repeated

#: Ops of which an operand is all that is assigned somewhere.
ASSIGNS: set[type[Op]] = set()
#: What an op is in the text: an expression, or None where the rule has written statements.
emit = Facet("emission")


@dataclass(slots=True)
class Held:
    """How a variable holds a value: as vectors or matrices, several of which are an array."""

    type: str  # of a vector, a matrix or a pointer
    element: DType
    lanes: int
    parts: int
    is_matrix: bool


class Writer:
    def __init__(self, function: Func, language: Language):
        self.function = function
        self.language = language
        self.fast = function.fast_math
        self.names = Names(language.reserved)
        ops = function.body.walk()
        self._dead = dead_values(ops)
        check_shapes(ops, self._dead)
        self._multiplied = multiplied(ops, self._dead)
        self._held: dict[tuple[Type, bool], Held] = {}
        self.block: Block = []  # what is written now
        self.location: Location | None = None  # of the op that writes
        self.expressions: dict[Value, Expression] = {}
        self.waiting: dict[Value, Expression] = {}  # those that an effect would spoil
        self.variables: dict[Value, str] = {}  # of those that have one
        # In each block that is open: what its variables are called instead of, to be put back.
        self._hidden: list[list[tuple[Value, Expression, str | None]]] = []
        self.destinations: dict[Value, str] = {}  # the variable in which a value is wanted
        self.opening: Block = []  # at the top of the kernel
        self.positions: dict[str, str] = {}  # of a thread: the name of each that is used
        self.helpers: dict[str, str] = {}
        self.shared: Block = []  # the declarations of the threadgroup's memory
        self.shared_bytes = 0
        self.written: set[Value] = set()
        touched = writes(effects_within(function))
        self.shared_arrays = touched if Resource.DEVICE in touched else []
        self.version = language.version
        self.fields: list[str] = []  # of the constant struct
        self.fields_bytes = 0
        self._field_names = Names(language.keywords)
        self.extents: dict[tuple[Value, int], tuple[int, Tree]] = {}  # fields
        self.sites: list[Site] = []
        self.report: str | None = None  # the name of the report buffer, once something reports
        self.program: str | None = None  # the name of the program's number, for that

    # The walk.

    def region(self, region: Region) -> None:
        """Every op but the terminator."""
        location = self.location
        op, end = region.first, region.last
        while op is not end and op is not None:
            here, op = op, op.next
            results = here.results
            if results and not here.regions and is_unused(here, self._dead):
                continue
            self.location = here.location
            kind = type(here)
            rule = emit.get(kind) or emit[kind]  # which says what is missing
            expression = rule(self, here)
            if expression is not None:
                self.bind(results[0], expression)
            for value in results:
                if value.name is not None:
                    self.names.see(value.name)
        self.location = location

    def bind(self, value: Value, expression: Expression) -> None:
        """Say what a value is in the text: the expression where it is used, or a variable."""
        if self._is_put_where_used(value, expression):
            self.expressions[value] = expression
            if expression.touches:
                self.waiting[value] = expression
        else:
            self.declare(value, expression)

    def _is_put_where_used(self, value: Value, expression: Expression) -> bool:
        users, op = value.users, value.op
        if len(users) != 1 or op is None:
            return False
        (user,) = users
        if user.parent is not op.parent or user.operands.count(value) != 1:
            return False
        # What ends a region assigns it to a variable that has a name.
        # A name for what is named already, or a part of that, says nothing.
        if value.name is not None and not user.terminator:
            is_plain = expression.precedence == Precedence.POSTFIX and not expression.wraps
            if not is_plain or not self._is_part(expression):
                return False
        is_assigned = user.terminator or type(user) in ASSIGNS
        return len(expression.tree.text) <= (self.width if is_assigned else LONGEST)

    def flush(self) -> None:
        """Give names to what waits and must not be evaluated after what comes now."""
        for value, expression in list(self.waiting.items()):
            self.declare(value, expression)
        self.waiting.clear()

    def drop(self) -> None:
        """At the end of a region: what still waits has no user but one that nobody misses."""
        self.waiting.clear()

    # Statements.

    def put(self, statement: Statement) -> None:
        statement.location = self.location
        self.block.append(statement)

    @property
    def width(self) -> int:
        """How long what is assigned may be on one line."""
        return COLUMNS - MARGIN - len(STEP) * (len(self._hidden) + 1)

    @contextmanager
    def nest(self) -> Iterator[Block]:
        """A block, of names of its own; what is put meanwhile goes there."""
        outer, self.block = self.block, []
        self.names.enter()
        self._hidden.append([])
        yield self.block
        self.names.leave()
        for value, expression, variable in reversed(self._hidden.pop()):
            # An outer value is what it was before.
            self.expressions[value] = expression
            if variable is None:
                del self.variables[value]
            else:
                self.variables[value] = variable
        self.block = outer

    @contextmanager
    def loop(self, count: int, hint: str = "") -> Iterator[Tree]:
        """A loop over the numbers below a count, or no loop for the only one; its variable.

        It is unrolled: what it goes through is in registers, which have no numbers.
        """
        if count == 1:
            yield number(0)
            return
        with self.nest() as body:
            name = Name(self.names.new(hint) if hint else self.names.index())
            yield name
        type_, below = self.language.types[i32], binary("<", name, number(count))
        unroll = self.language.unroll
        self.put(For(body, type_, name.word, number(0), below, f"++{name}", unroll))

    # Variables.

    def form(self, value: Value) -> Form:
        return form_of(value.type)

    def held(self, value: Value) -> Held:
        """How a variable holds a value."""
        key = value.type, value in self._multiplied
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = self._hold(*key)
        return held

    def _hold(self, type_: Type, is_multiplied: bool) -> Held:
        if isinstance(type_, Threadgroup):  # as a pointer to its first element
            dtype = in_memory(type_.element)
            word = pointer_to(self.language.shared_pointer, self.language.types[dtype])
            return Held(word, dtype, 1, 1, False)
        dtype, (lanes, parts) = type_.element, form_of(type_)
        is_matrix = is_multiplied and lanes == FRAGMENT_LANES
        if is_matrix:
            word = self.language.matrix.format(type=self.language.types[dtype])
        else:
            word = self.type_name(dtype, lanes)
        return Held(word, dtype, lanes, parts, is_matrix)

    def type_name(self, dtype: DType, lanes: int) -> str:
        if lanes == 1:
            return self.language.types[dtype]
        if lanes > VECTOR:
            word = self.language.word
            dtype, lanes = word, lanes * dtype.bytes // word.bytes
        return self.language.vector_of(dtype, lanes)

    def qualifier(self, memory: Value) -> str:
        """What a pointer to memory says of where that is."""
        if not isinstance(memory.type, Ptr):
            return self.language.shared_pointer
        is_seen = memory in self.shared_arrays
        return self.language.coherent if is_seen else self.language.device

    def place(self, held: Held, name: str) -> Tree:
        """A variable as an expression, vector by vector."""
        place = self.variable(held, name)
        return Call(self.language.pair, place) if held.is_matrix else place

    def variable(self, held: Held, name: str) -> Tree:
        """A variable, or each vector or matrix of an array."""
        return element(Name(name), PART) if held.parts > 1 else Name(name)

    def name_of(self, value: Value) -> str:
        """A new name for a value."""
        return self.names.new(value.name or usual_name(value))

    def declare(self, value: Value, expression: Expression) -> Expression:
        """Make a variable of a value."""
        self.waiting.pop(value, None)
        if value in self.destinations:
            self.assign(self.held(value), self.destinations[value], expression)
            return self.bind_variable(value, self.destinations[value])
        return self.define(value, self.name_of(value), expression)

    def define(self, value: Value, name: str, expression: Expression) -> Expression:
        """Declare a variable with a first content, and let a value be called by it."""
        held = self.held(value)
        content: Tree | None = None
        if held.parts == 1 and held.is_matrix:
            content = self._whole(expression, held.element)
        elif held.parts == 1:
            content = self.content(expression, held.element, held.lanes)
        elif is_zero(expression.tree) and not held.is_matrix:
            content = braces()
        self._declare(held, name, content)
        if content is None:
            self.assign(held, name, expression)
        return self.bind_variable(value, name)

    def _declare(self, held: Held, name: str, content: Tree | None = None) -> None:
        self.put(Declare(held.type, name, content, held.parts if held.parts > 1 else None))

    def declare_empty(self, value: Value) -> Expression:
        """A variable that is to have a value, without a content: the one where it is wanted, or
        a new one."""
        if value in self.destinations:
            return self.bind_variable(value, self.destinations[value])
        return self.reserve(value, self.name_of(value))

    def reserve(self, value: Value, name: str) -> Expression:
        """Declare a variable without a content, and let a value be called by it."""
        self._declare(self.held(value), name)
        return self.bind_variable(value, name)

    def assemble(self, value: Value, vectors: Sequence[Tree]) -> None:
        """Make an array of a value that is given vector by vector."""
        held = self.held(value)
        if held.is_matrix or value in self.destinations:
            self.fill(value, vectors)
        else:
            name = self.name_of(value)
            self._declare(held, name, braces(vectors))
            self.bind_variable(value, name)

    def fill(self, value: Value, vectors: Sequence[Tree]) -> None:
        """The same, by assignments."""
        place = self.declare_empty(value).tree
        for i, vector in enumerate(vectors):
            self.put(Assign(place.at(number(i)), vector))

    def bind_variable(self, value: Value, name: str) -> Expression:
        """Let a value be called by the name of a variable."""
        held = self.held(value)
        expression = Expression(self.place(held, name), held.element, held.lanes)
        if self._hidden and value in self.expressions:
            self._hidden[-1].append((value, self.expressions[value], self.variables.get(value)))
        self.expressions[value] = expression
        self.variables[value] = name
        return expression

    def assign(self, held: Held, name: str, expression: Expression) -> None:
        """Assign what a value is to a variable that is to have it, vector by vector."""
        with self.loop(held.parts) as i:
            self.assign_part(held, name, expression, i)

    def assign_part(self, held: Held, name: str, expression: Expression, i: Tree) -> None:
        """Assign the vector of a number to a variable, or to that part of one."""
        content = self._whole(expression, held.element) if held.is_matrix else None
        if content is not None:
            target = self.variable(held, name)
        else:
            target = self.place(held, name)
            content = self.content(expression.at(i), held.element, held.lanes)
        self.put(Assign(target.at(i), content.at(i)))

    def _whole(self, x: Expression, dtype: DType) -> Tree | None:
        """The matrix that an expression is, or is an array of."""
        if not isinstance(x.tree, Number):
            return self.matrix_of(x)
        function = self.language.filled.format(type=self.language.types[dtype])
        return Call(function, self.content(x, dtype, 1))

    def matrix_of(self, x: Expression) -> Tree | None:
        """The matrix, or the array of them, of which an expression has all pairs."""
        is_pair = isinstance(x.tree, Call) and x.tree.word == self.language.pair
        return x.tree.operands[0] if is_pair else None

    def _is_part(self, x: Expression) -> bool:
        """Whether it is a variable or a part of one: no call, and nothing from memory."""
        return not x.touches and (not x.tree.calls or self.matrix_of(x) is not None)

    def overwritten(self, op: Op, value: Value, *, is_free: bool) -> str | None:
        """The variable in which an op computes in place of a value, if that has one."""
        if not is_free:
            message = f"{value!r} is not free to be overwritten; reuse-registers finds what is"
            raise op.invalid(message, at="in_place")
        return self.variables.get(value)

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
        return self.cast(expression, value.type.element) if expression.wraps else expression

    def typed(self, value: Value, lanes: int = 1) -> Expression:
        """The expression, of the value's own type, and of at least some number of lanes."""
        x = self.value(value)
        dtype = value.type.element
        if x.type is dtype and not x.is_packed and x.lanes >= lanes:
            return x
        return self.cast(x, dtype, max(lanes, x.lanes))

    def together(self, *values: Value) -> list[Expression]:
        """The expressions of operands of one function: of one type, and of as many lanes."""
        lanes = max([self.value(v).lanes for v in values])
        return [self.typed(v, lanes) for v in values]

    def branch_operand(self, value: Value, lanes: int = 1) -> Expression:
        """The expression where it may not be evaluated."""
        if self.value(value).touches & Touch.CONVERGENT:
            self.declare(value, self.expressions[value])
        return self.typed(value, lanes)

    def simple(self, value: Value) -> Expression:
        """The expression where it is evaluated several times: a name, a number, a part of one."""
        expression = self.value(value)
        is_short = (
            expression.precedence >= Precedence.PREFIX and len(expression.tree.text) <= _SHORT
        )
        if is_short and self._is_part(expression):
            return expression
        return self.declare(value, expression)

    def cast(self, x: Expression, dtype: DType, lanes: int = 0) -> Expression:
        lanes, made = lanes or x.lanes, self._narrowed(x, dtype)
        if made is x.tree or lanes > 1:
            made = Call(self.type_name(dtype, lanes), made)
        return Expression(made, dtype, lanes, touches=x.touches)

    def _narrowed(self, x: Expression, dtype: DType) -> Tree:
        """The tree, by way of a function if the language has one that makes integers the dtype."""
        function = self.language.narrowing.get(dtype)
        is_computed = x.type.is_integer and not isinstance(x.tree, Number)
        if function is None or x.lanes > 1 or x.type is dtype or not is_computed:
            return x.tree
        return Call(function, x.tree)

    def content(self, x: Expression, dtype: DType, lanes: int) -> Tree:
        """The tree where a variable or memory takes it: scalars convert themselves there."""
        if x.lanes == lanes and (x.type is dtype or lanes == 1 or x.is_packed):
            return self._narrowed(x, dtype) if x.wraps else x.tree
        return self.cast(x, dtype, lanes).tree

    # What the text needs besides.

    def position(self, usual: str) -> Name:
        """The name of a position of the thread."""
        name = self.positions.get(usual)
        if name is None:
            name = self.positions[usual] = self.names.new(usual, everywhere=True)
        return Name(name)

    def extent(self, array: Value, axis: int) -> Tree:
        """The size of an argument along an axis."""
        key = (array, axis)
        if key not in self.extents:
            self.extents[key] = self.field(f"{self.expressions[array].tree}_extent_{axis}", i32)
        return self.extents[key][1]

    def field(self, hint: str, dtype: DType) -> tuple[int, Tree]:
        """Add a field to the constant struct: at which byte it is, and what it is called."""
        name, start = self._field_names.new(hint), aligned(self.fields_bytes, dtype.bytes)
        self.fields_bytes = start + dtype.bytes
        self.fields.append(f"{self.language.types[dtype]} {name};")
        return start, Member(name, Name(self.language.constants_name))

    def unsupported(self, op: Op, message: str) -> VerifyError:
        return op.invalid(f"{message} in {self.language.name}")
