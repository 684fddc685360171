"""What a reference is to: a place, as pointers lead to, which the function that has it reads and
writes itself."""

from __future__ import annotations

import ast
from collections.abc import Callable

from iris.frontend.cuda.clang import PRELUDE, Node, inner, place_of
from iris.frontend.cuda.prelude import POSITIONS
from iris.frontend.cuda.translation import (
    PLACES,
    Translation,
    call,
    name,
    unknown,
)
from iris.frontend.cuda.types import PARTS, type_of

Reference = Callable[[Translation, Node], ast.expr]


def reference(self: Translation, node: Node) -> ast.expr:
    """A pointer to what an expression stands for; to a copy, where it is a value alone."""
    if node["kind"] in ("ParenExpr", "ExprWithCleanups") or node.get("castKind") == "NoOp":
        return reference(self, inner(node)[0])
    if node["kind"] == "MaterializeTemporaryExpr" or node.get("valueCategory") == "prvalue":
        return _of_copy(self, node)
    builder = _REFERENCES.get(node["kind"])
    if builder is None:
        raise unknown(node, "a reference to this is not translated: give it a variable of its own")
    return builder(self, node)


def _of_copy(self: Translation, node: Node) -> ast.expr:
    return call("cell", self.expression(node))


def position(self: Translation, node: Node) -> str | None:
    """Which position of the thread an expression names; the file may have variables so called."""
    said = node.get("referencedDecl", {})
    place = place_of(self.globals.get(said.get("id", ""), {}))
    is_ours = place is not None and place.file.endswith(PRELUDE)
    return said["name"] if is_ours and said["name"] in POSITIONS else None


def _of_variable(self: Translation, node: Node) -> ast.expr:
    if position(self, node) is not None:
        return _of_copy(self, node)
    variable = self.variable(node)
    if variable.value is not None:  # nobody changes it
        return _of_copy(self, node)
    if variable.place is not None:
        return variable.place.whole
    if variable.key is not None:
        return self.memory(variable)
    if not variable.is_cell:
        raise unknown(node, f"a reference to {variable.name} is not translated here")
    return name(variable.name)


def _of_element(self: Translation, node: Node) -> ast.expr:
    if node.get("opcode", "*") != "*":
        raise unknown(node, "a reference to what an operator leaves is not translated")
    return self.place(node).whole


def _of_member(self: Translation, node: Node) -> ast.expr:
    (of,) = inner(node)
    there = self.globals.get(node.get("referencedMemberDecl", ""))
    if position(self, of) is not None or (there is not None and there["kind"] == "VarDecl"):
        return _of_copy(self, node)
    if self.is_object(of):
        return call("field_place", self.object(of), node["name"])
    if type_of(of).word not in PARTS:
        return _of_copy(self, node)
    whole = self.pointer(of).whole if node["isArrow"] else reference(self, of)
    return call("part_place", whole, "xyzw".find(node["name"]))


def _of_call(self: Translation, node: Node) -> ast.expr:
    return PLACES[node["kind"]](self, node)


_REFERENCES: dict[str, Reference] = {
    "DeclRefExpr": _of_variable,
    "ArraySubscriptExpr": _of_element,
    "UnaryOperator": _of_element,
    "MemberExpr": _of_member,
    "CallExpr": _of_call,
    "CXXMemberCallExpr": _of_call,
    "CXXOperatorCallExpr": _of_call,
}
