"""Builders of expressions: what gives a value, and what points somewhere."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

import numpy as np

from iris.frontend.cuda import records
from iris.frontend.cuda.calls import called, has_body, member_called, of_file
from iris.frontend.cuda.clang import Node, inner, written
from iris.frontend.cuda.references import position, reference
from iris.frontend.cuda.translation import (
    PLACES,
    Pointer,
    Translation,
    assign,
    call,
    expression,
    is_pure,
    moved,
    name,
    pointer,
    statement,
    truth,
    unknown,
    zero,
)
from iris.frontend.cuda.types import PARTS, CType, is_group, type_of

_NO_DOUBLE = "Apple's GPUs have no double: write 0.5f, sqrtf(x) and the like"

# Literals, and what stands for another expression.


@expression("ParenExpr", "ConstantExpr", "ExprWithCleanups", "MaterializeTemporaryExpr")
def _same(self: Translation, node: Node) -> ast.expr:
    return self.expression(inner(node)[0])


@expression("SubstNonTypeTemplateParmExpr")
def _(self: Translation, node: Node) -> ast.expr:
    return self.expression(inner(node)[-1])


@expression("IntegerLiteral", "CharacterLiteral", "CXXBoolLiteralExpr", "FloatingLiteral")
def _literal(self: Translation, node: Node) -> ast.expr:
    type_, value = type_of(node), node["value"]
    if type_.word == "double":
        raise unknown(node, _NO_DOUBLE)
    if node["kind"] == "FloatingLiteral":
        return call("number", type_.word, float(value))
    return call("number", type_.word, value if isinstance(value, bool) else int(value))


@expression("ImplicitValueInitExpr", "CXXScalarValueInitExpr")
def _(self: Translation, node: Node) -> ast.expr:
    return zero(_value_type(node))


@expression("UnaryExprOrTypeTraitExpr")
def _(self: Translation, node: Node) -> ast.expr:
    given = type_of(node, "argType") if "argType" in node else type_of(inner(node)[0])
    if node.get("name") != "sizeof" or not given.bytes:
        raise unknown(node, "only sizeof of numbers, vectors and arrays is translated")
    return call("number", type_of(node).word, given.bytes)


def _value_type(node: Node) -> CType:
    type_ = type_of(node)
    if not type_.is_value or type_.word == "void":
        said = node["type"]["qualType"]
        raise unknown(node, _NO_DOUBLE if type_.word == "double" else f"{said} is not translated")
    return type_


# Conversions.

_CONVERSIONS = {"IntegralCast", "FloatingCast", "IntegralToFloating", "FloatingToIntegral"}
_TO_TRUTH = {"IntegralToBoolean", "FloatingToBoolean"}
_SAME = {"NoOp", "ConstructorConversion", "UserDefinedConversion", "LValueToRValue", "ToVoid"}
_CASTS = (
    *("ImplicitCastExpr", "CStyleCastExpr", "CXXStaticCastExpr", "CXXFunctionalCastExpr"),
    *("CXXReinterpretCastExpr", "CXXConstCastExpr"),
)


@expression(*_CASTS)
def _cast(self: Translation, node: Node) -> ast.expr:
    kind, (source,) = node["castKind"], inner(node)
    if kind in _SAME:
        return self.expression(source)
    if kind == "PointerToBoolean":  # arrays are there always
        return truth(True)
    if kind in _TO_TRUTH:
        value = self.expression(source)
        return _compare(ast.NotEq(), value, zero(_value_type(source)))
    if kind not in _CONVERSIONS:
        said = node["type"]["qualType"]
        raise unknown(node, f"the conversion of {written(source)} to {said} is not translated")
    type_ = _value_type(node)
    if type_of(source).word == "double":  # of a literal, which has its value before
        number = _double(source)
        if number is not None:
            return call("number", type_.word, number if kind == "FloatingCast" else int(number))
        rounded = _rounded_once(self, source) if type_.word == "float" else None
        if rounded is None:
            raise unknown(node, _NO_DOUBLE)
        return rounded
    return call("convert", type_.word, self.expression(source))


_FOLDED: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def _double(node: Node) -> float | None:
    """The value of an expression of literals."""
    kind, parts = node["kind"], inner(node)
    if kind in ("FloatingLiteral", "IntegerLiteral"):
        return float(node["value"])
    is_same = node.get("castKind") in ("IntegralToFloating", "FloatingCast")
    if is_same or kind in ("ParenExpr", "ConstantExpr"):
        return _double(parts[0])
    if type_of(node).word != "double":  # integers are divided otherwise
        return None
    values = [_double(part) for part in parts]
    if None in values:
        return None
    if kind == "UnaryOperator" and node["opcode"] == "-":
        return -values[0]  # type: ignore[operator]
    if kind == "BinaryOperator" and node["opcode"] in _FOLDED and values[1]:
        return _FOLDED[node["opcode"]](values[0], values[1])  # type: ignore[arg-type]
    return None


# One operation on floats that is computed with double's digits and rounded to float is what float's
# own operation gives: double has more than twice as many digits.


def _float_in_double(self: Translation, node: Node) -> ast.expr | None:
    """A float that C takes as a double."""
    number = _double(node)
    if number is not None:
        return call("number", "float", number) if number == float(np.float32(number)) else None
    kind = node["kind"]
    if kind == "ParenExpr":
        return _float_in_double(self, inner(node)[0])
    is_widened = node.get("castKind") == "FloatingCast" and type_of(inner(node)[0]).word == "float"
    return self.expression(inner(node)[0]) if is_widened else None


def _rounded_once(self: Translation, node: Node) -> ast.expr | None:
    """What a double rounded to float is, where one operation on floats makes it."""
    if node["kind"] == "ParenExpr":
        return _rounded_once(self, inner(node)[0])
    if node["kind"] != "BinaryOperator" or node["opcode"] not in _FOLDED:
        return _float_in_double(self, node)
    operands = _floats_in_double(self, inner(node))
    return None if operands is None else _binary(node["opcode"], *operands)


def _floats_in_double(self: Translation, nodes: list[Node]) -> list[ast.expr] | None:
    operands = [_float_in_double(self, one) for one in nodes]
    found = [one for one in operands if one is not None]
    return found if len(found) == len(nodes) else None


# Variables and their parts.


@expression("CXXThisExpr")
def _(self: Translation, node: Node) -> ast.expr:
    return self.object(node)


@expression("DeclRefExpr")
def _(self: Translation, node: Node) -> ast.expr:
    said = position(self, node)
    if said is not None:
        return call("vector", "packed_uint3", *[call("position", said, axis) for axis in range(3)])
    variable = self.variable(node)
    if variable.value is not None:
        return variable.value
    return self.target(node).load()


@expression("ArraySubscriptExpr")
def _(self: Translation, node: Node) -> ast.expr:
    return self.object(node) if self.is_object(node) else self.target(node).load()


@expression("MemberExpr")
def _(self: Translation, node: Node) -> ast.expr:
    (whole,) = inner(node)
    axis = "xyzw".find(node["name"])
    named = position(self, whole)
    if named is not None:
        return call("position", named, axis)
    made = _bare(whole)
    if made["kind"] == "CXXMemberCallExpr" and is_group(inner(inner(made)[0])[0]):
        return member_called(self, made, axis)
    there = self.globals.get(node.get("referencedMemberDecl", ""))
    if there is not None and there["kind"] == "VarDecl":  # of the struct's type, not of each
        return self.expression(inner(there)[0])
    if self.is_object(whole):
        return self.target(node).load()
    if type_of(whole).word not in PARTS:
        raise unknown(node, f"{whole['type']['qualType']} is not translated")
    vector = self.element(self.pointer(whole)).load() if node["isArrow"] else self.expression(whole)
    return call("part", vector, axis)


def _bare(node: Node) -> Node:
    """An expression without what clang wraps it in."""
    while node["kind"] in ("MaterializeTemporaryExpr", "ImplicitCastExpr"):
        (node,) = inner(node)
    return node


# Operators.

_ARITHMETIC: dict[str, Callable[[], ast.operator]] = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "&": ast.BitAnd,
    "|": ast.BitOr,
    "^": ast.BitXor,
}
_WORDS = {"/": "divided", "%": "remainder", "<<": "shifted_left", ">>": "shifted_right"}
_COMPARISONS: dict[str, Callable[[], ast.cmpop]] = {
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "==": ast.Eq,
    "!=": ast.NotEq,
}


def _compare(op: ast.cmpop, x: ast.expr, y: ast.expr) -> ast.expr:
    return ast.Compare(x, [op], [y])


def _binary(opcode: str, x: ast.expr, y: ast.expr) -> ast.expr:
    if opcode in _WORDS:
        return call(_WORDS[opcode], x, y)
    return ast.BinOp(x, _ARITHMETIC[opcode](), y)


@expression("BinaryOperator")
def _(self: Translation, node: Node) -> ast.expr:
    opcode, (left, right) = node["opcode"], inner(node)
    if opcode == "=":
        return _assigned(self, node)
    if opcode == ",":
        self.statement(left)
        return self.expression(right)
    if opcode in ("&&", "||"):
        return _shortened(self, node)
    if opcode in ("==", "!=") and (_is_null(left) or _is_null(right)):
        return truth(opcode == "!=" or (_is_null(left) and _is_null(right)))
    if type_of(left).is_pointer and type_of(right).is_pointer:
        if opcode not in (*_COMPARISONS, "-"):
            raise unknown(node, f"{opcode} of pointers is not translated")
        x = call("distance", self.pointer(left).whole, self.pointer(right).whole)
        y = call("number", "long", 0)
    elif opcode in _COMPARISONS and type_of(left).word == "double":
        operands = _floats_in_double(self, [left, right])
        if operands is None:
            raise unknown(node, _NO_DOUBLE)
        x, y = operands
    else:
        x, before = self.expression(left), len(self.body)
        y = self.expression(right)
        if opcode in ("<<", ">>") and len(self.body) > before:  # the left one is computed first
            text = self.fresh("before")
            self.body.insert(before, assign(text, x))
            x = name(text)
    if opcode in _COMPARISONS:
        return _compare(_COMPARISONS[opcode](), x, y)
    _value_type(node)
    return _binary(opcode, x, y)


def _is_null(node: Node) -> bool:
    return bool(node.get("castKind") == "NullToPointer")


def _shortened(self: Translation, node: Node) -> ast.expr:
    """`&&` and `||`: the right side is computed only where it counts."""
    left, right = inner(node)
    first = self.expression(left)
    with self.block() as before:
        second = self.expression(right)
    is_and = node["opcode"] == "&&"
    if not before and is_pure(second):
        return ast.BinOp(first, ast.BitAnd() if is_and else ast.BitOr(), second)
    text = self.fresh("holds")
    self.emit(assign(text, first))
    test = name(text) if is_and else call("negated", name(text))
    self.emit(ast.If(test, [*before, assign(text, second)], []))
    return name(text)


@expression("ConditionalOperator")
def _(self: Translation, node: Node) -> ast.expr:
    condition, yes, no = inner(node)
    record = self.record(type_of(node))
    if record is not None and self.is_object(node):
        return records.chosen(self, record, node)
    _value_type(node)
    test = self.expression(condition)
    with self.block() as then:
        x = self.expression(yes)
    with self.block() as otherwise:
        y = self.expression(no)
    if not then and not otherwise and is_pure(x) and is_pure(y):
        return call("select", test, x, y)
    text = self.fresh("chosen")
    self.emit(ast.If(test, [*then, assign(text, x)], [*otherwise, assign(text, y)]))
    return name(text)


@expression("UnaryOperator")
def _(self: Translation, node: Node) -> ast.expr:
    opcode, (operand,) = node["opcode"], inner(node)
    if opcode in ("++", "--"):
        return _stepped(self, node)
    if opcode == "*":
        return self.object(node) if self.is_object(node) else self.target(node).load()
    if opcode in ("+", "__extension__"):
        return self.expression(operand)
    if opcode == "!":
        return call("negated", self.expression(operand))
    if opcode not in ("-", "~"):
        raise unknown(node, f"the operator {opcode} is not translated here")
    _value_type(node)
    return ast.UnaryOp(ast.USub() if opcode == "-" else ast.Invert(), self.expression(operand))


# Assignments.


def _assigned(self: Translation, node: Node) -> ast.expr:
    left, right = inner(node)
    if type_of(left).is_pointer:
        return _point(self, left, self.pointer(right))
    value = self.hold(self.expression(right))
    self.store(left, value)
    return value


@expression("CompoundAssignOperator")
def _(self: Translation, node: Node) -> ast.expr:
    left, right = inner(node)
    opcode = node["opcode"].removesuffix("=")
    wide = type_of(node, "computeLHSType")
    if wide.word == "double":
        narrow = _float_in_double(self, right) if type_of(left).word == "float" else None
        if narrow is None or opcode not in _FOLDED:
            raise unknown(node, _NO_DOUBLE)
        by, wide = narrow, type_of(left)
    else:
        by = self.expression(right)
    if type_of(left).is_pointer:
        return _point(self, left, moved(self.pointer(left), _signed(opcode, by)))
    target = self.target(left)
    result = _binary(opcode, call("convert", wide.word, target.load()), by)
    value = self.hold(call("convert", type_of(left).word, result))
    self.emit(*target.store(value))
    return value


def _signed(opcode: str, by: ast.expr) -> ast.expr:
    by = call("convert", "long", by)
    return by if opcode == "+" else ast.UnaryOp(ast.USub(), by)


def _stepped(self: Translation, node: Node) -> ast.expr:
    (operand,) = inner(node)
    type_, opcode = type_of(operand), node["opcode"][0]
    if type_.is_pointer:
        one = _signed(opcode, call("number", "int", 1))
        return _point(self, operand, moved(self.pointer(operand), one))
    target = self.target(operand)
    text = self.fresh("before")
    self.emit(assign(text, target.load()))
    value = _binary(opcode, name(text), call("convert", _value_type(operand).word, 1))
    self.emit(*target.store(value))
    return name(text) if node["isPostfix"] else target.load()


def _point(self: Translation, node: Node, to: Pointer) -> ast.expr:
    """Let a variable point elsewhere."""
    while node["kind"] in ("ParenExpr", "ImplicitCastExpr"):
        node = inner(node)[0]
    variable = self.variable(node) if node["kind"] == "DeclRefExpr" else None
    if variable is not None and variable.is_late:
        self.emit(assign(variable.name, to.whole))
        return name(variable.name)
    if variable is None or variable.offset is None:
        raise unknown(node, "a pointer that changes is a variable")
    offset = to.offset
    if not _is_name(to.base, variable.name):
        self.emit(assign(variable.name, to.whole))
        offset = None
    offset = offset or call("number", "int", 0)
    self.emit(assign(variable.offset, call("convert", "long", offset)))
    return name(variable.name)


def _is_name(node: ast.expr, text: str) -> bool:
    return isinstance(node, ast.Name) and node.id == text


@statement("BinaryOperator", "CompoundAssignOperator", "UnaryOperator")
def _(self: Translation, node: Node) -> None:
    self.expression(node)


# Vectors and calls.


@expression("CXXConstructExpr", "CXXTemporaryObjectExpr", "InitListExpr")
def _(self: Translation, node: Node) -> ast.expr:
    record = self.record(type_of(node))
    if record is not None and node["kind"] == "InitListExpr":
        return records.listed(self, record, node)
    if record is not None:
        return records.constructed(self, record, node, of_file)
    type_, parts = _value_type(node), inner(node)
    if not parts:
        return zero(type_)
    if len(parts) == 1 and type_of(parts[0]).word == type_.word:
        return self.expression(parts[0])
    if type_.word not in PARTS or len(parts) != PARTS[type_.word][1]:
        raise unknown(node, f"this {node['type']['qualType']} is not translated")
    one = call("number", "uint", 1)  # what dim3 has where nothing is given
    given = [one if x["kind"] == "CXXDefaultArgExpr" else self.expression(x) for x in parts]
    return call("vector", type_.word, *given)


@expression("CallExpr")
def _(self: Translation, node: Node) -> ast.expr:
    return called(self, node)


@expression("CXXOperatorCallExpr")
def _(self: Translation, node: Node) -> ast.expr:
    callee, *operands = inner(node)
    said = inner(callee)[0]["referencedDecl"]
    if said["name"] == "operator=" and not has_body(self.globals.get(said["id"], {})):
        value = self.hold(self.expression(operands[1]))
        self.store(operands[0], value)
        return value
    return called(self, node)


@expression("CXXMemberCallExpr")
def _(self: Translation, node: Node) -> ast.expr:
    return called(self, node)


@pointer("CallExpr", "CXXMemberCallExpr", "CXXOperatorCallExpr")
def _(self: Translation, node: Node) -> Pointer:
    return Pointer(self.hold(PLACES[node["kind"]](self, node)), None, type_of(node))


@pointer("CXXThisExpr")
def _(self: Translation, node: Node) -> Pointer:
    return Pointer(self.object(node), None, type_of(node))


@pointer("MemberExpr")
def _(self: Translation, node: Node) -> Pointer:
    if not self.is_object(inner(node)[0]):
        raise unknown(node, "a pointer to a part of a vector is not translated")
    return Pointer(self.object(node), None, type_of(node))


# Pointers.


@pointer("ParenExpr", "ExprWithCleanups", "ConstantExpr")
def _(self: Translation, node: Node) -> Pointer:
    return self.pointer(inner(node)[0])


@pointer(*_CASTS)
def _(self: Translation, node: Node) -> Pointer:
    kind, (source,) = node["castKind"], inner(node)
    type_ = type_of(node)
    if kind in ("LValueToRValue", "NoOp", "ArrayToPointerDecay", "UserDefinedConversion"):
        found = self.pointer(source)
        is_volatile = found.type.is_volatile or (type_.is_pointer and type_.is_volatile)
        return found._replace(type=found.type._replace(is_volatile=is_volatile))
    record = self.record(type_)
    if kind == "BitCast" and record is not None:
        return Pointer(self.as_records(self.pointer(source).whole, record), None, type_)
    if kind != "BitCast" or not type_.is_known:
        said = node["type"]["qualType"]
        raise unknown(node, f"the conversion of {written(source)} to {said} is not translated")
    return Pointer(call("reinterpreted", self.pointer(source).whole, type_.word), None, type_)


@pointer("DeclRefExpr")
def _(self: Translation, node: Node) -> Pointer:
    variable = self.variable(node)
    if variable.place is not None:
        return variable.place
    if variable.key is not None:
        return Pointer(self.memory(variable), None, variable.type)
    offset = None if variable.offset is None else name(variable.offset)
    return Pointer(name(variable.name), offset, variable.type)


@pointer("ArraySubscriptExpr")
def _(self: Translation, node: Node) -> Pointer:
    return self.place(node)


@pointer("BinaryOperator")
def _(self: Translation, node: Node) -> Pointer:
    left, right = inner(node)
    opcode = node["opcode"]
    if opcode not in ("+", "-"):
        raise unknown(node, f"a pointer made by {opcode} is not translated")
    if not (type_of(left).is_pointer or type_of(left).shape is not None):
        left, right = right, left
    base, by = self.pointer(left), self.expression(right)
    if base.type.shape and len(base.type.shape) > 1:
        raise unknown(node, "a row of an array is x[i], not x + i")
    return moved(base, by if opcode == "+" else ast.UnaryOp(ast.USub(), call("index", by)))


@pointer("UnaryOperator")
def _(self: Translation, node: Node) -> Pointer:
    opcode, (operand,) = node["opcode"], inner(node)
    while operand["kind"] == "ParenExpr":
        operand = inner(operand)[0]
    if opcode in ("++", "--"):
        before = self.pointer(operand)
        if before.offset is not None:
            before = before._replace(offset=self.keep(before.offset))
        _stepped(self, node)
        return before if node["isPostfix"] else self.pointer(operand)
    if opcode == "&":
        if operand["kind"] == "ArraySubscriptExpr":
            return self.place(operand)
        if operand["kind"] == "DeclRefExpr":
            variable = self.variable(operand)
            if variable.key is not None or variable.is_cell or variable.type.shape is not None:
                return self.pointer(operand)
        if operand["kind"] == "MemberExpr" and type_of(operand).shape is not None:
            return self.pointer(operand)
        if operand["kind"] == "UnaryOperator" and operand["opcode"] == "*":
            return self.pointer(inner(operand)[0])
        return Pointer(reference(self, operand), None, type_of(operand))
    raise unknown(node, f"a pointer made by {opcode} is not translated")


@pointer("ConditionalOperator")
def _(self: Translation, node: Node) -> Pointer:
    condition, yes, no = inner(node)
    while condition.get("castKind") == "NoOp" or condition["kind"] == "ParenExpr":
        condition = inner(condition)[0]
    if condition.get("castKind") == "PointerToBoolean":  # arrays are there always
        return self.pointer(yes)
    test = self.expression(condition)
    there, other = self.pointer(yes), self.pointer(no)
    return Pointer(call("either", test, there.whole, other.whole), None, type_of(node))


@pointer("CompoundAssignOperator")
def _(self: Translation, node: Node) -> Pointer:
    self.expression(node)
    return self.pointer(inner(node)[0])
