"""A function of CUDA C as one of Python, which is a kernel by thread, at the lines of its file.

Builders are tables by the kinds of clang's nodes: `expressions` and `statements` register theirs.
What has a side effect within an expression becomes a statement before it.
"""

from __future__ import annotations

import ast
import copy
import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from iris.errors import LanguageError, SourceSpot
from iris.frontend.cuda.clang import Node, inner, place_of, walk, written
from iris.frontend.cuda.types import BYTES, PARTS, CType, alignment, type_of

WORDS = "iris_cuda"  # what translated functions call the words by
DYNAMIC_BYTES = "dynamic_shared"  # the parameter of kernels with the bytes of a launch


_LAMBDA = re.compile(r"\(lambda at .*?\)")  # as clang calls a type


def unknown(node: Node, what: str) -> LanguageError:
    """An error at the line of a node."""
    place, what = place_of(node), _LAMBDA.sub("a lambda", what)
    if place is None:
        return LanguageError(what)
    return LanguageError(what, SourceSpot.of_line(place.file, place.line, place.column - 1))


@dataclass(eq=False)
class Variable:
    """A variable of C."""

    name: str  # in Python
    type: CType
    key: str | None = None  # of memory that all threads of the block, or of all, have
    offset: str | None = None  # of a pointer that moves: the variable that says how far it is
    value: ast.expr | None = None  # of a constant
    is_cell: bool = False  # something may point to it
    is_late: bool = False  # a pointer that is set once, after its declaration
    place: Pointer | None = None  # of a reference: what it stands for


class Pointer(NamedTuple):
    """Where an expression points: to an element of some memory."""

    base: ast.expr
    offset: ast.expr | None
    type: CType  # of what is there: an array, if it is one

    @property
    def whole(self) -> ast.expr:
        """As a value of its own."""
        return self.base if self.offset is None else call("at", self.base, self.offset)


class Target(NamedTuple):
    """What can be assigned."""

    load: Callable[[], ast.expr]
    store: Callable[[ast.expr], list[ast.stmt]]


@dataclass
class Loop:
    """A loop or switch that is being translated."""

    skip: str  # the variable that says that the rest of an iteration is skipped
    broke: str  # that the loop ends
    is_switch: bool = False  # which `continue` leaves, too


Expression = Callable[["Translation", Node], ast.expr]
Statement = Callable[["Translation", Node], None]
EXPRESSIONS: dict[str, Expression] = {}
STATEMENTS: dict[str, Statement] = {}
PLACES: dict[str, Expression] = {}  # of calls that give a reference


def expression(*kinds: str) -> Callable[[Expression], Expression]:
    """Registers the builder of some kinds of expressions."""

    def register(builder: Expression) -> Expression:
        EXPRESSIONS.update(dict.fromkeys(kinds, builder))
        return builder

    return register


def statement(*kinds: str) -> Callable[[Statement], Statement]:
    """Registers the builder of some kinds of statements."""

    def register(builder: Statement) -> Statement:
        STATEMENTS.update(dict.fromkeys(kinds, builder))
        return builder

    return register


# Python's syntax.


def name(text: str) -> ast.expr:
    return ast.Name(text, ast.Load())


def call(word: str, *arguments: Any) -> ast.expr:
    """A call of a word; an argument that is no syntax becomes a constant."""
    given = [x if isinstance(x, ast.expr) else ast.Constant(x) for x in arguments]
    return ast.Call(ast.Attribute(name(WORDS), word, ast.Load()), given, [])


def assign(target: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(target, ast.Store())], value)


def zero(type_: CType) -> ast.expr:
    return call("convert", type_.word, 0)


def truth(value: bool) -> ast.expr:
    return call("number", "bool", value)


# Words that may fail, or tell something else, where a condition before them does not hold.
_GUARDED = {"divided", "remainder", "atomic", "compare_exchange", "shuffle", "volatile"}


def is_pure(node: ast.expr) -> bool:
    """Whether an expression may be computed where C would not."""
    for one in ast.walk(node):
        if isinstance(one, ast.Subscript):
            return False
        if isinstance(one, ast.Call):
            word = one.func
            if not isinstance(word, ast.Attribute) or word.attr in _GUARDED:
                return False
    return True


_SYMBOLS = ("CUDAConstantAttr", "CUDADeviceAttr")


class Translation:
    """One function on its way."""

    def __init__(
        self,
        node: Node,
        globals_: dict[str, Node],
        records: dict[str, Node],
        functions: Callable[[Node], str],
    ):
        self.node = node
        self.globals = globals_  # declarations of the file, by id
        self.records = records  # its structs, by name
        self.function_name = functions  # of a declaration that is called
        self.variables: dict[str, Variable] = {}
        self.names = {DYNAMIC_BYTES}
        self.body: list[ast.stmt] = []
        self.loops: list[Loop] = []
        self.shared: dict[str, CType] = {}
        self.symbols: dict[str, CType] = {}
        self.returned: str | None = None  # where a loop returns: whether it did
        self.result: str | None = None
        self.type = _result_type(node)
        self.assigned = {
            (one.get("inner") or [{}])[0].get("referencedDecl", {}).get("id")
            for one in walk(node)
            if _changes(one)
        }
        self.pointed = {_variable_of(place) for one in walk(node) for place in self._referred(one)}

    # Names.

    def fresh(self, wanted: str) -> str:
        """A name that nothing else has."""
        taken = keyword.iskeyword(wanted) or wanted == "locals" or wanted.startswith("iris_")
        text = wanted = f"{wanted}_" if taken else wanted
        number = 1
        while text in self.names:
            number += 1
            text = f"{wanted}_{number}"
        self.names.add(text)
        return text

    def declare(self, node: Node, type_: CType, **more: Any) -> Variable:
        is_cell = node["id"] in self.pointed and type_.is_value
        more = {"is_cell": True, **more} if is_cell else more
        made = Variable(self.fresh(node.get("name", "unnamed")), type_, **more)
        self.variables[node["id"]] = made
        return made

    def record(self, type_: CType) -> Node | None:
        """The struct that a type is or leads to."""
        return None if type_.is_known else self.records.get(type_.word)

    def _referred(self, node: Node) -> list[Node]:
        """What a node itself takes the address of, or has a reference to."""
        kind, parts = node.get("kind"), inner(node)
        if kind == "UnaryOperator":
            return parts if node["opcode"] == "&" else []
        if kind == "VarDecl":
            return parts[:1] if type_of(node).is_reference else []
        is_struct = kind in _CONSTRUCTIONS and self.record(type_of(node)) is not None
        given = parts if is_struct else parts[1:] if kind in _CALLS else []
        return [one for one in given if one.get("valueCategory") == "lvalue"]

    def is_object(self, node: Node) -> bool:
        """Whether an expression is a struct, or points to one."""
        type_ = type_of(node)
        return type_.shape is None and self.record(type_) is not None

    def object(self, node: Node) -> ast.expr:
        """A struct that an expression is or points to, itself."""
        kind, parts = node["kind"], inner(node)
        if kind == "CXXThisExpr":
            return name("this")
        if kind == "UnaryOperator" and node["opcode"] == "&":
            return self.object(parts[0])
        is_element = kind == "ArraySubscriptExpr" or node.get("opcode") == "*"
        is_pointer = type_of(node).is_pointer
        if is_pointer and parts and parts[0]["kind"] in ("CXXThisExpr", "UnaryOperator"):
            return self.object(parts[0])
        if is_element or is_pointer:
            found = self.place(node) if is_element else self.pointer(node)
            at = call("number", "int", 0) if found.offset is None else found.offset
            return call("record", found.base, at)
        if kind == "DeclRefExpr":
            variable = self.variable(node)
            if variable.key is not None:
                return call("record", self.memory(variable), call("number", "int", 0))
            return name(variable.name)
        if kind == "MemberExpr":
            return call("field", self.object(parts[0]), node["name"])
        is_same = kind in ("ParenExpr", "MaterializeTemporaryExpr", "ExprWithCleanups")
        if is_same or node.get("castKind") in ("NoOp", "LValueToRValue"):
            return self.object(parts[0])
        if kind == "ConditionalOperator" and node.get("valueCategory") != "prvalue":
            raise unknown(node, "a struct by ?: is copied only: give it a variable of its own")
        return self.hold(self.expression(node), "made")

    def pointer_to_struct(self, node: Node) -> ast.expr:
        """A pointer to structs in memory, or a struct of the thread's own."""
        while node.get("castKind") in ("NoOp", "LValueToRValue") or node["kind"] == "ParenExpr":
            node = inner(node)[0]
        is_own = node["kind"] == "CXXThisExpr" or node.get("opcode") == "&"
        if is_own and inner(node)[:1] and inner(node)[0]["kind"] == "ArraySubscriptExpr":
            return self.place(inner(node)[0]).whole
        return self.object(node) if is_own else self.pointer(node).whole

    def memory(self, variable: Variable) -> ast.expr:
        """Where a variable is that all threads of the block, or of all, have."""
        record = self.record(variable.type)
        if record is None:
            return call("variable", variable.key, variable.type.word)
        return self.as_records(call("variable", variable.key, word_of(self, record)), record)

    def as_records(self, pointer: ast.expr, record: Node) -> ast.expr:
        """A pointer to some words as one to structs."""
        layout, size, _ = layout_of(self, record)
        return call("as_records", pointer, layout, size)

    def variable(self, node: Node) -> Variable:
        """What a name refers to."""
        said = node["referencedDecl"]
        found = self.variables.get(said["id"])
        if found is not None:
            return found
        there = self.globals.get(said["id"])
        type_ = type_of(said)
        values = [] if there is None else inner(there)
        is_constant = "const" in said.get("type", {}).get("qualType", "").split()
        if there is not None and "enum_value" in there:
            held = type_of(node)
            word = held.word if held.is_known else "int"
            value = call("number", word, there["enum_value"])
            return Variable(said["name"], type_, value=value)
        if values and is_constant and type_.is_value:
            return Variable(said["name"], type_, value=self.expression(values[0]))
        return self._symbol(node, there)

    def _symbol(self, node: Node, there: Node | None) -> Variable:
        """A `__constant__` or `__device__` variable, which a launch passes."""
        kinds = {n.get("kind") for n in (there or {}).get("inner", ())}
        if there is None or kinds.isdisjoint(_SYMBOLS):
            raise unknown(node, f"{node['referencedDecl'].get('name')} is no variable of the GPU")
        type_ = type_of(there)
        record = self.record(type_)
        if (not type_.is_known and record is None) or type_.is_pointer:
            said = there["type"]["qualType"]
            raise unknown(node, f"a variable of the file of type {said} is not translated")
        key = f"{there['name']} {there['id']}"
        is_const = "CUDAConstantAttr" in kinds
        word = type_.word if record is None else word_of(self, record)
        self.symbols[key] = type_._replace(is_const=is_const, word=word)
        self.names.add(there["name"])
        made = self.variables[there["id"]] = Variable(there["name"], type_, key=key)
        return made

    # Building.

    def emit(self, *made: ast.stmt) -> None:
        self.body.extend(made)

    @contextmanager
    def block(self) -> Iterator[list[ast.stmt]]:
        """Collect statements apart."""
        outer, self.body = self.body, []
        try:
            yield self.body
        finally:
            self.body = outer

    def hold(self, value: ast.expr, wanted: str = "value") -> ast.expr:
        """A value in a variable, to be used more than once."""
        return value if isinstance(value, (ast.Name, ast.Constant)) else self.keep(value, wanted)

    def keep(self, value: ast.expr, wanted: str = "before") -> ast.expr:
        """A value as it is now."""
        text = self.fresh(wanted)
        self.emit(assign(text, value))
        return name(text)

    def expression(self, node: Node) -> ast.expr:
        builder = EXPRESSIONS.get(node["kind"])
        if builder is None:
            raise unknown(node, f"{written(node)} is not translated")
        body, before = self.body, len(self.body)
        made = builder(self, node)
        for one in (*body[before:], made):
            located(one, node)
        return made

    def statement(self, node: Node) -> None:
        """Add what a statement, or an expression that stands as one, does."""
        before = len(self.body)
        builder = STATEMENTS.get(node["kind"])
        if builder is not None:
            builder(self, node)
        else:
            found = self.expression(node)
            if not is_pure(found) or isinstance(found, ast.Call):
                self.emit(ast.Expr(found))
        for one in self.body[before:]:
            located(one, node)

    def statements(self, nodes: Sequence[Node]) -> None:
        """Statements one after the other; after one that may leave an iteration the others are
        conditional."""
        for number, node in enumerate(nodes):
            self.statement(node)
            rest = nodes[number + 1 :]
            if self.loops and rest and may_jump(node):
                with self.block() as after:
                    self.statements(rest)
                go_on = call("negated", name(self.loops[-1].skip))
                others = ast.If(go_on, after or [ast.Pass()], [])
                located(others, rest[0])
                self.emit(others)
                return

    def nested(self, node: Node | None) -> list[ast.stmt]:
        """The statements of a branch or a body."""
        with self.block() as made:
            if node:
                self.statement(node)
        return made

    def store(self, node: Node, value: ast.expr) -> None:
        self.emit(*self.target(node).store(value))

    # Where values are.

    def pointer(self, node: Node) -> Pointer:
        """Where an expression of a pointer's or an array's type points."""
        return POINTERS[node["kind"]](self, node) if node["kind"] in POINTERS else _no_pointer(node)

    def target(self, node: Node) -> Target:
        """What an expression that can be assigned stands for."""
        kind = node["kind"]
        if kind == "ParenExpr" or (kind == "ImplicitCastExpr" and node["castKind"] == "NoOp"):
            return self.target(inner(node)[0])
        if self.is_object(node) and not type_of(node).is_pointer:
            struct = self.object(node)
            return Target(lambda: struct, lambda value: [ast.Expr(call("fill", struct, value))])
        if kind == "DeclRefExpr":
            return self._target_of_variable(node)
        if kind == "MemberExpr":
            return self._target_of_member(node)
        if kind in _CALLS and node.get("valueCategory") == "lvalue":
            made = self.keep(PLACES[kind](self, node), "place")
            return self.element(Pointer(made, None, type_of(node)))
        if kind == "ArraySubscriptExpr" or (kind == "UnaryOperator" and node["opcode"] == "*"):
            return self.element(self.place(node))
        raise unknown(node, f"{kind} cannot be assigned")

    def place(self, node: Node) -> Pointer:
        """Where `x[i]` or `*x` is."""
        if node["kind"] == "ParenExpr" or node.get("castKind") == "NoOp":
            return self.place(inner(node)[0])
        operands = inner(node)
        base = self.pointer(operands[0])
        by = self.expression(operands[1]) if len(operands) > 1 else None
        return moved(base, by, part=True)

    def element(self, pointer: Pointer) -> Target:
        at = call("number", "int", 0) if pointer.offset is None else call("index", pointer.offset)
        at = self.hold(at, "at") if not is_pure(at) else at

        def item(context: ast.expr_context) -> ast.expr:
            return ast.Subscript(pointer.base, at, context)

        def load() -> ast.expr:
            if pointer.type.is_volatile:
                return call("volatile", pointer.base, at)
            return item(ast.Load())

        return Target(load, lambda value: [ast.Assign([item(ast.Store())], value)])

    def _target_of_variable(self, node: Node) -> Target:
        variable = self.variable(node)
        if variable.key is not None:
            return self.element(Pointer(self.memory(variable), None, variable.type))
        text = variable.name
        if variable.place is not None:
            return self.element(variable.place)
        if self.record(variable.type) is not None:
            return Target(
                lambda: name(text), lambda value: [ast.Expr(call("fill", name(text), value))]
            )
        if not variable.type.is_value:
            raise unknown(node, f"{variable.name} is no value")
        if variable.is_cell:
            return self.element(Pointer(name(text), None, variable.type))
        return Target(lambda: name(text), lambda value: [assign(text, value)])

    def _target_of_member(self, node: Node) -> Target:
        if self.is_object(inner(node)[0]):
            struct, field = self.object(inner(node)[0]), node["name"]
            return Target(
                lambda: call("field", struct, field),
                lambda value: [ast.Expr(call("set_field", struct, field, value))],
            )
        (of,) = inner(node)
        whole = self.element(self.pointer(of)) if node["isArrow"] else self.target(of)
        number = "xyzw".find(node["name"])
        return Target(
            lambda: call("part", whole.load(), number),
            lambda value: whole.store(call("with_part", whole.load(), number, value)),
        )


def word_of(self: Translation, record: Node) -> str:
    """What a struct in memory is made of: words no longer than any of its fields."""
    return _WORDS_OF[_shortest(layout_of(self, record)[0])]


_WORDS_OF = {1: "uchar", 2: "ushort", 4: "uint", 8: "uint"}


def _shortest(layout: Any) -> int:
    return min(
        [
            BYTES[PARTS.get(word, (word, 1))[0]] if isinstance(word, str) else _shortest(word)
            for _, _, word, _ in layout
        ]
    )


def layout_of(self: Translation, record: Node) -> tuple[Any, int, int]:
    """Of a struct the layout of its fields, its size and its alignment."""
    fields: list[Any] = []
    size, most = 0, 1
    for one in inner(record):
        if one["kind"] != "FieldDecl":
            continue
        type_ = type_of(one)
        within = self.record(type_)
        if within is not None and not type_.is_pointer and type_.shape is None:
            word, bytes_, aligned = layout_of(self, within)
        elif type_.is_pointer or not type_.is_known or type_.is_reference or type_.is_volatile:
            said = one["type"]["qualType"]
            raise unknown(one, f"a field of type {said} is not translated in memory")
        else:
            word, bytes_ = type_.word, type_.bytes
            aligned = alignment(type_)
            if type_.shape is not None and type_.word in PARTS:
                raise unknown(one, "arrays of vectors are not translated in structs in memory")
        size += -size % aligned
        fields.append((one["name"], size, word, type_.size if type_.shape is not None else 0))
        size, most = size + bytes_, max(most, aligned)
    for one in record.get("inner", ()):
        if one.get("kind") == "AlignedAttr":
            most = max(most, int(inner(one)[0].get("value", 1)) if inner(one) else most)
    size += -size % most
    if not fields or record.get("bases") or record.get("tagUsed") == "union":
        raise unknown(record, "in memory a struct has fields, and no base")
    return tuple(fields), size, most


def moved(pointer: Pointer, by: ast.expr | None, *, part: bool = False) -> Pointer:
    """A pointer to a later element; with `part`, to the row that an array of arrays has there."""
    type_ = pointer.type
    if part and type_.shape:
        type_ = type_._replace(shape=type_.shape[1:] or None)
    if by is None:
        return pointer._replace(type=type_)
    if part and type_.shape:  # an array again
        by = ast.BinOp(call("index", by), ast.Mult(), call("number", "int", type_.size))
    by = call("index", by)
    if pointer.offset is not None:
        by = ast.BinOp(call("index", pointer.offset), ast.Add(), by)
    return Pointer(pointer.base, by, type_)


def located(made: ast.AST, node: Node) -> None:
    """Put syntax at the line and column of a node, as far as it is at none yet."""
    place = place_of(node)
    if place is not None:
        for one in ast.walk(made):
            if "lineno" in one._attributes and not hasattr(one, "lineno"):
                one.lineno = one.end_lineno = place.line  # type: ignore[attr-defined]
                one.col_offset = place.column - 1  # type: ignore[attr-defined]
                one.end_col_offset = place.column  # type: ignore[attr-defined]


def unshared(node: ast.AST) -> ast.AST:
    """A copy in which each piece of syntax stands once, for those that change it in place."""
    made = copy.copy(node)
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            setattr(made, field, unshared(value))
        elif isinstance(value, list):
            setattr(made, field, [unshared(x) if isinstance(x, ast.AST) else x for x in value])
    return made


def _changes(node: Node) -> bool:
    kind = node.get("kind")
    is_step = kind == "UnaryOperator" and node.get("opcode") in ("++", "--")
    is_assignment = kind == "BinaryOperator" and node.get("opcode") == "="
    return is_step or is_assignment or kind == "CompoundAssignOperator"


_LOOPS = ("ForStmt", "WhileStmt", "DoStmt")


_CALLS = ("CallExpr", "CXXMemberCallExpr", "CXXOperatorCallExpr")
_CONSTRUCTIONS = ("CXXConstructExpr", "CXXTemporaryObjectExpr")
_JUMPS = frozenset({"ContinueStmt", "BreakStmt", "ReturnStmt"})


def may_jump(node: Node, jumps: frozenset[str] = _JUMPS) -> bool:
    """Whether a statement may leave the iteration that it is part of."""
    kind = node.get("kind")
    if kind in jumps:
        return True
    if kind in _LOOPS:  # a loop of its own takes the others
        jumps = jumps - {"ContinueStmt", "BreakStmt"}
    elif kind == "SwitchStmt":
        jumps = jumps - {"BreakStmt"}
    return any(may_jump(one, jumps) for one in inner(node))


def _variable_of(node: Node) -> str:
    """The variable that a place is, or is a part of."""
    while node["kind"] in ("ParenExpr", "MemberExpr") or node.get("castKind") == "NoOp":
        node = inner(node)[0]
    found: str = node.get("referencedDecl", {}).get("id", "")
    return found


def _result_type(node: Node) -> CType:
    text = node["type"].get("desugaredQualType", node["type"]["qualType"])
    return type_of({"type": {"qualType": re.sub(r"\s*\(.*$", "", text)}})


def _no_pointer(node: Node) -> Pointer:
    raise unknown(node, f"a pointer made by {written(node)} is not translated")


PointerBuilder = Callable[[Translation, Node], Pointer]
POINTERS: dict[str, PointerBuilder] = {}


def pointer(*kinds: str) -> Callable[[PointerBuilder], PointerBuilder]:
    """Registers what makes a pointer of some kinds of expressions."""

    def register(builder: PointerBuilder) -> PointerBuilder:
        POINTERS.update(dict.fromkeys(kinds, builder))
        return builder

    return register
