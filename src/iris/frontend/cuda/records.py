"""Structs of CUDA C: their fields, constructors and methods."""

from __future__ import annotations

import ast
from collections.abc import Callable

from iris.frontend.cuda.clang import Node, inner
from iris.frontend.cuda.translation import (
    Translation,
    call,
    name,
    unknown,
    zero,
)
from iris.frontend.cuda.types import CType, type_of

THIS = "this"  # the parameter of methods


def fields_of(record: Node) -> list[Node]:
    """The fields, in order."""
    return [one for one in inner(record) if one["kind"] == "FieldDecl"]


def check_record(record: Node, node: Node) -> None:
    """Refuse what structs are not translated with."""
    if record.get("bases") or record.get("tagUsed") == "union":
        what = "a union" if record.get("tagUsed") == "union" else "a struct with a base"
        raise unknown(node, f"{what} is not translated")
    for one in fields_of(record):
        if one.get("isBitfield"):
            raise unknown(one, "a bit-field is not translated")


def empty(self: Translation, record: Node, node: Node) -> ast.expr:
    """A struct of zeros, but for what its declaration says."""
    check_record(record, node)
    names, values = [], []
    for one in fields_of(record):
        given = inner(one) if one.get("hasInClassInitializer") else []
        names.append(one["name"])
        values.append(self.expression(given[-1]) if given else _zero_of(self, one))
    return call("structure", " ".join(names), *values)


def _zero_of(self: Translation, node: Node) -> ast.expr:
    type_ = type_of(node)
    record = self.record(type_)
    if record is not None and not type_.is_pointer and type_.shape is None:
        return empty(self, record, node)
    if not type_.is_known or type_.is_pointer or type_.is_reference:
        raise unknown(node, f"a field of type {node['type']['qualType']} is not translated")
    if type_.shape is None:
        return zero(type_)
    if type_.size < 2 or type_.word not in _SCALARS:
        raise unknown(node, "a field that is an array has 2 elements or more, which are scalars")
    return call("array", type_.size, type_.word)


_SCALARS = {
    *("bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong"),
    *("half", "bfloat", "float"),
}


def listed(self: Translation, record: Node, node: Node) -> ast.expr:
    """A struct that is set by a list."""
    check_record(record, node)
    made = self.keep(empty(self, record, node), "made")
    values = node["array_filler"] if "array_filler" in node else inner(node)
    for one, value in zip(fields_of(record), values, strict=False):
        if value["kind"] in ("ImplicitValueInitExpr", "CXXDefaultInitExpr"):
            continue
        type_ = type_of(one)
        if type_.shape is not None:
            raise unknown(value, "an array within a struct is set element by element")
        self.emit(ast.Expr(call("set_field", made, one["name"], self.expression(value))))
    return made


def copy_of(self: Translation, node: Node) -> ast.expr:
    """A struct of its own, with what one holds that an expression is."""
    bare = node
    while bare["kind"] in _SAME or bare.get("castKind") in ("NoOp", "LValueToRValue"):
        bare = inner(bare)[0]
    if bare["kind"] == "ConditionalOperator":
        return self.expression(bare)
    return call("copied", self.object(node))


_SAME = ("ParenExpr", "MaterializeTemporaryExpr", "ExprWithCleanups")


def chosen(self: Translation, record: Node, node: Node) -> ast.expr:
    """A copy of one of two structs."""
    condition, *sides = inner(node)
    test, made = self.expression(condition), self.keep(empty(self, record, node), "chosen")
    branches: list[list[ast.stmt]] = []
    for side in sides:
        with self.block() as branch:
            self.emit(ast.Expr(call("fill", made, copy_of(self, side))))
        branches.append(branch)
    self.emit(ast.If(test, *branches))
    return made


OfFile = Callable[[Translation, Node, Node, list[Node], ast.expr | None], ast.expr]


def constructed(self: Translation, record: Node, node: Node, of_file: OfFile) -> ast.expr:
    """What a constructor makes; `of_file` calls one of the file's functions."""
    check_record(record, node)
    said, arguments = node["ctorType"]["qualType"], inner(node)
    constructors = [one for one in inner(record) if one["kind"] == "CXXConstructorDecl"]
    found = next((one for one in constructors if one["type"]["qualType"] == said), None)
    if found is None:
        raise unknown(node, f"this constructor of {record['name']} is not translated")
    is_default = found.get("isImplicit") or "explicitlyDefaulted" in found
    if is_default and arguments:
        return copy_of(self, arguments[0])
    made = self.keep(empty(self, record, node), "made")
    if not is_default:
        self.emit(ast.Expr(of_file(self, node, found, arguments, made)))
    return made


def method_of(self: Translation, node: Node) -> Node | None:
    """The method that a call of a member calls, if it is one of the file's."""
    member = inner(node)[0]
    return self.globals.get(member.get("referencedMemberDecl", ""))


def is_static(function: Node) -> bool:
    return bool(function.get("storageClass") == "static")


def is_method(function: Node) -> bool:
    """Whether a function has an object that it is called of."""
    kinds = ("CXXMethodDecl", "CXXConstructorDecl", "CXXConversionDecl")
    return function["kind"] in kinds and not is_static(function)


def initialised(self: Translation, function: Node) -> None:
    """Set the fields that a constructor sets before its body."""
    for one in inner(function):
        if one["kind"] != "CXXCtorInitializer":
            continue
        if "anyInit" not in one:
            raise unknown(function, "this constructor is not translated")
        field = one["anyInit"]["name"]
        (value,) = inner(one)
        if type_of(one["anyInit"]).shape is not None:
            raise unknown(function, "an array within a struct is set element by element")
        if value["kind"] != "CXXDefaultInitExpr":
            set_ = call("set_field", name(THIS), field, self.expression(value))
            self.emit(ast.Expr(set_))


def argument(self: Translation, type_: CType, given: Node) -> ast.expr | None:
    """The argument for a parameter that is a struct, or leads to one; None for others."""
    if self.record(type_) is None or type_.shape is not None:
        return None
    if type_.is_pointer:
        return self.pointer_to_struct(given)
    if type_.is_reference:
        return self.object(given)
    return copy_of(self, given)
