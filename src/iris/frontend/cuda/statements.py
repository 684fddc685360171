"""Builders of statements."""

from __future__ import annotations

import ast
from typing import Any

from iris.frontend.cuda import records
from iris.frontend.cuda.clang import Node, inner, walk, written
from iris.frontend.cuda.enums import constants_of
from iris.frontend.cuda.references import reference
from iris.frontend.cuda.translation import (
    Loop,
    Translation,
    Variable,
    assign,
    call,
    is_pure,
    layout_of,
    may_jump,
    name,
    statement,
    truth,
    unknown,
    word_of,
    zero,
)
from iris.frontend.cuda.types import BYTES, CType, is_group, type_of
from iris.frontend.cuda.words import DYNAMIC


@statement("CompoundStmt")
def _(self: Translation, node: Node) -> None:
    self.statements(inner(node))


@statement("NullStmt")
def _(self: Translation, node: Node) -> None:
    pass


@statement("AttributedStmt")  # such as #pragma unroll
def _(self: Translation, node: Node) -> None:
    self.statement(inner(node)[-1])


@statement("ExprWithCleanups", "ParenExpr")
def _(self: Translation, node: Node) -> None:
    self.statement(inner(node)[0])


# Declarations.

_NO_VARIABLES = ("TypedefDecl", "TypeAliasDecl", "UsingDecl", "UsingDirectiveDecl", "EmptyDecl")


@statement("DeclStmt")
def _(self: Translation, node: Node) -> None:
    for one in inner(node):
        if one["kind"] in (*_NO_VARIABLES, "NamespaceAliasDecl", "StaticAssertDecl"):
            continue
        if one["kind"] == "EnumDecl":
            self.globals.update(constants_of(one))
            continue
        if one["kind"] != "VarDecl":
            raise unknown(one, f"{written(one)} is not translated")
        _declare(self, one)


def _declare(self: Translation, node: Node) -> None:
    kinds = {n.get("kind") for n in node.get("inner", ())}
    type_, values = type_of(node), inner(node)
    if is_group(node):
        return
    if "CUDASharedAttr" in kinds:
        _declare_shared(self, node, type_)
    elif node.get("storageClass") == "static" and not type_.is_const:
        raise unknown(node, "a static variable is not translated")
    elif self.record(type_) is not None and type_.shape is None:
        _declare_struct(self, node, type_, values)
    elif type_.is_reference:
        _declare_reference(self, node, type_, values)
    elif type_.is_pointer:
        _declare_pointer(self, node, type_, values)
    elif type_.shape is not None:
        _declare_array(self, node, type_, values)
    elif not type_.is_known:
        double = type_.word == "double"
        said = node["type"]["qualType"]
        raise unknown(
            node, "Apple's GPUs have no double" if double else f"{said} is not translated"
        )
    else:
        # What is not set is zero, for the branches that may set it.
        value = self.expression(values[0]) if values else zero(type_)
        type_ = type_._replace(is_volatile=False)  # it changes as the thread says
        variable = self.declare(node, type_)
        self.emit(assign(variable.name, call("cell", value) if variable.is_cell else value))


def _declare_struct(self: Translation, node: Node, type_: CType, values: list[Node]) -> None:
    """A struct of its own, or another name of one."""
    if type_.is_reference or type_.is_pointer:
        if not values or node["id"] in self.assigned:
            raise unknown(node, "a pointer to a struct leads to one from the start, and stays")
        is_pointer = type_.is_pointer
        value = self.pointer_to_struct(values[0]) if is_pointer else self.object(values[0])
    elif values:
        value = self.expression(values[0])
    else:
        value = records.empty(self, self.records[type_.word], node)
    variable = self.declare(node, type_)
    self.emit(assign(variable.name, value))


def _declare_reference(self: Translation, node: Node, type_: CType, values: list[Node]) -> None:
    """Another name of a variable, an element or a part of one; of a copy, if it is none."""
    (value,) = values
    while value["kind"] == "ParenExpr" or value.get("castKind") == "NoOp":
        value = inner(value)[0]
    if value["kind"] == "DeclRefExpr":
        self.variables[node["id"]] = self.variable(value)
    elif value["kind"] == "ArraySubscriptExpr" or value.get("opcode") == "*":
        place = self.place(value)
        if place.offset is not None:
            # The pointer that it is written with may lead elsewhere afterwards.
            base, offset = self.keep(place.base, "of"), self.keep(place.offset, "at")
            place = place._replace(base=base, offset=offset)
        variable = self.declare(node, place.type)
        variable.place = place
    elif not type_.is_known:
        raise unknown(node, "this reference is not translated: use the variable itself")
    else:
        to = reference(self, value)
        self.emit(assign(self.declare(node, type_, is_cell=True).name, to))


def _declare_shared(self: Translation, node: Node, type_: CType) -> None:
    is_dynamic = node.get("storageClass") == "extern"
    record = self.record(type_)
    if is_dynamic and type_.is_pointer:  # of bytes, by whatever type
        type_ = CType("uint", shape=())
    if (not type_.is_known and record is None) or type_.is_pointer:
        raise unknown(node, f"shared memory of {node['type']['qualType']} is not translated")
    key = DYNAMIC if is_dynamic else f"{node['name']} {node['id']}"
    self.shared[key] = type_
    if record is not None:  # as words
        word = word_of(self, record)
        shape = (max(type_.size, 1) * layout_of(self, record)[1] // BYTES[word],)
        self.shared[key] = type_._replace(word=word, is_known=True, shape=shape)
    # Its size is known where the kernel is launched.
    type_ = type_._replace(shape=None, is_pointer=True) if is_dynamic else type_
    self.declare(node, type_, key=key)


def _declare_pointer(self: Translation, node: Node, type_: CType, values: list[Node]) -> None:
    if not type_.is_known:
        raise unknown(node, f"{node['type']['qualType']} is not translated")
    if not values:
        if sum([_assigns(one, node) for one in walk(self.node)]) > 1:
            raise unknown(node, "a pointer that is set twice points somewhere from the start")
        self.declare(node, type_).is_late = True
        return
    to = self.pointer(values[0])
    moves = node["id"] in self.assigned
    offset = to.offset
    variable = self.declare(node, type_)
    self.emit(assign(variable.name, to.base if moves else to.whole))
    if moves:
        start(self, variable, offset)


def _assigns(node: Node, variable: Node) -> bool:
    is_change = "opcode" in node and node["kind"] != "BinaryOperator"
    is_change = is_change or node.get("opcode") == "="
    return is_change and _is(inner(node)[0], variable)


def start(self: Translation, variable: Variable, offset: ast.expr | None) -> None:
    """Let a pointer that moves begin somewhere."""
    variable.offset = self.fresh(f"{variable.name}_offset")
    self.emit(assign(variable.offset, call("convert", "long", offset or ast.Constant(0))))


def _declare_array(self: Translation, node: Node, type_: CType, values: list[Node]) -> None:
    """An array of the thread's own; what is not set is zero."""
    if not type_.size or not type_.is_known:
        raise unknown(node, f"an array of {node['type']['qualType']} is not translated")
    variable = self.declare(node, type_)
    self.emit(assign(variable.name, call("array", type_.size, type_.word)))
    for number, value in enumerate(_elements(values[0]) if values else ()):
        item = ast.Subscript(name(variable.name), ast.Constant(number), ast.Store())
        if value["kind"] != "ImplicitValueInitExpr":
            self.emit(ast.Assign([item], self.expression(value)))


def _elements(node: Node) -> list[Node]:
    """What an array begins with, in order."""
    if node["kind"] == "CXXConstructExpr" and not inner(node):  # of vectors
        return []
    if node["kind"] != "InitListExpr":
        raise unknown(node, "an array is set by a list")
    if "array_filler" in node:  # what is not listed is zero
        return [n for n in node["array_filler"] if n.get("kind") != "ImplicitValueInitExpr"]
    parts: list[Node] = []
    for one in inner(node):
        if "array_filler" in one:
            raise unknown(one, "every element of a row is listed, or none")
        parts += _elements(one) if one["kind"] == "InitListExpr" else [one]
    return parts


# Branches.


@statement("IfStmt")
def _(self: Translation, node: Node) -> None:
    if node.get("hasInit") or node.get("hasVar"):
        raise unknown(node, "declare the variable before the if")
    condition, *branches = inner(node)
    if node.get("isConstexpr"):
        taken = condition.get("value") not in ("false", "0", False)
        chosen = branches[:1] if taken else branches[1:]
        for one in chosen:
            self.statement(one)
        return
    test = self.expression(condition)
    then = self.nested(branches[0])
    otherwise = self.nested(branches[1]) if len(branches) > 1 else []
    self.emit(ast.If(test, then or [ast.Pass()], otherwise))


@statement("SwitchStmt")
def _(self: Translation, node: Node) -> None:
    """From the first label that is met, all statements run, until one leaves the switch."""
    condition, body = inner(node)[-2:]
    value = self.hold(self.expression(condition), "met")
    entered, left = self.fresh("entered"), self.fresh("left")
    self.emit(assign(entered, truth(False)), assign(left, truth(False)))
    _may_return(self, body)
    groups = _labelled(body)
    tests = [[_is_met(self, value, one) for one in labels] for labels, _ in groups]
    known = [test for group in tests for test in group if test is not None]
    for group, (_, statements) in zip(tests, groups, strict=True):
        other = call("negated", _any([truth(False), *known]))
        met = [other if test is None else test for test in group]
        self.emit(assign(entered, _any([name(entered), *met])))
        self.loops.append(Loop(left, left, is_switch=True))
        with self.block() as inside:
            self.statements(statements)
        self.loops.pop()
        test = ast.BinOp(name(entered), ast.BitAnd(), call("negated", name(left)))
        self.emit(ast.If(test, inside or [ast.Pass()], []))
    _leave(self)


def _labelled(body: Node) -> list[tuple[list[Node], list[Node]]]:
    """The statements of a switch, after the labels that lead to them."""
    groups: list[tuple[list[Node], list[Node]]] = []
    for one in inner(body) if body["kind"] == "CompoundStmt" else [body]:
        labels = []
        while one["kind"] in ("CaseStmt", "DefaultStmt"):
            labels.append(one)
            one = inner(one)[-1]
        if labels:
            groups.append((labels, []))
        if not groups:
            raise unknown(one, "a switch begins with a label")
        groups[-1][1].append(one)
    return groups


def _is_met(self: Translation, value: ast.expr, label: Node) -> ast.expr | None:
    """Whether a value is that of a label; None for the default."""
    if label["kind"] == "DefaultStmt":
        return None
    known, *others = inner(label)
    if len(others) > 1:
        raise unknown(label, "a range of cases is not translated")
    return ast.Compare(value, [ast.Eq()], [self.expression(known)])


def _any(tests: list[ast.expr]) -> ast.expr:
    found = tests[0]
    for test in tests[1:]:
        found = ast.BinOp(found, ast.BitOr(), test)
    return found


@statement("ReturnStmt")
def _(self: Translation, node: Node) -> None:
    values = inner(node)
    value = _result(self, values[0]) if values else None
    if not self.loops:
        self.emit(ast.Return(value))
        return
    if value is not None and not (self.type.is_value and not self.type.is_reference):
        raise unknown(node, "only values are returned from loops")
    assert self.returned is not None and self.result is not None
    self.emit(assign(self.returned, truth(True)))
    if value is not None:
        self.emit(assign(self.result, value))
    for loop in self.loops:
        self.emit(assign(loop.skip, truth(True)), assign(loop.broke, truth(True)))


def _result(self: Translation, node: Node) -> ast.expr:
    """What a function gives: a value, a struct, a pointer, or the place of a reference."""
    type_ = self.type
    if self.record(type_) is not None:
        is_same = type_.is_reference or type_.is_pointer
        return self.object(node) if is_same else records.copy_of(self, node)
    if type_.is_pointer:
        return self.pointer(node).whole
    if not type_.is_reference:
        return self.expression(node)
    return reference(self, node)


@statement("ContinueStmt")
def _(self: Translation, node: Node) -> None:
    for loop in reversed(self.loops):
        self.emit(assign(loop.skip, truth(True)))
        if not loop.is_switch:
            break


@statement("BreakStmt")
def _(self: Translation, node: Node) -> None:
    loop = self.loops[-1]
    self.emit(assign(loop.skip, truth(True)), assign(loop.broke, truth(True)))


# Loops.


@statement("WhileStmt")
def _(self: Translation, node: Node) -> None:
    condition, body = node["inner"][-2:]
    _loop(self, node, condition, body, None)


@statement("DoStmt")
def _(self: Translation, node: Node) -> None:
    body, condition = inner(node)
    _loop(self, node, condition, body, None, at_least_once=True)


@statement("ForStmt")
def _(self: Translation, node: Node) -> None:
    begin, variable, condition, step, body = node["inner"]
    if variable:
        raise unknown(node, "a variable in the condition of a for is not translated")
    if _counts(self, node):
        return
    if begin:
        self.statement(begin)
    _loop(self, node, condition or None, body, step or None)


def _loop(
    self: Translation,
    node: Node,
    condition: Node | None,
    body: Node,
    step: Node | None,
    *,
    at_least_once: bool = False,
) -> None:
    """A loop whose condition is computed before the first iteration, and after each that has not
    left it."""
    go = self.fresh("go")
    first = truth(True) if at_least_once or condition is None else self.expression(condition)
    self.emit(assign(go, first))
    inside, loop = _body(self, node, body)
    with self.block() as on:
        if step is not None:
            self.statement(step)
        if condition is not None:
            self.emit(assign(go, self.expression(condition)))
    if loop is not None:
        off = [assign(go, truth(False))]
        inside.append(ast.If(call("negated", name(loop.broke)), on or [ast.Pass()], off))
    else:
        inside += on
    self.emit(ast.While(name(go), inside, []))
    _leave(self)


def _body(self: Translation, node: Node, body: Node) -> tuple[list[ast.stmt], Loop | None]:
    """The statements of an iteration; and the loop, if something may leave it."""
    if not any(may_jump(one) for one in inner(body)) and not may_jump(body):
        self.loops.append(Loop("", ""))
        made = self.nested(body)
        self.loops.pop()
        return made, None
    loop = Loop(self.fresh("skip"), self.fresh("broke"))
    _may_return(self, body)
    self.emit(assign(loop.broke, truth(False)))
    self.loops.append(loop)
    made = [assign(loop.skip, truth(False)), *self.nested(body)]
    self.loops.pop()
    return made, loop


def _may_return(self: Translation, body: Node) -> None:
    """Have variables for a result, if something within returns."""
    if any(one.get("kind") == "ReturnStmt" for one in walk(body)) and self.returned is None:
        self.returned, self.result = self.fresh("returned"), self.fresh("result")
        self.emit(assign(self.returned, truth(False)))
        if self.type.word != "void":
            self.emit(assign(self.result, zero(self.type)))


def _leave(self: Translation) -> None:
    """After the outermost loop, return if it did."""
    if self.returned is None or self.loops:
        return
    value = None if self.type.word == "void" else name(self.result or "")
    self.emit(ast.If(name(self.returned), [ast.Return(value)], []))
    self.returned = self.result = None


_ASCENDING, _DESCENDING = {"<": 0, "<=": 1}, {">": 0, ">=": -1}


def _counts(self: Translation, node: Node) -> bool:
    """Translate a loop that counts as one over a range: its bound and step stay, and nothing ends
    it early."""
    begin, _, condition, step, body = node["inner"]
    declared = inner(begin) if begin and begin["kind"] == "DeclStmt" else []
    if len(declared) != 1 or not condition or not step or condition["kind"] != "BinaryOperator":
        return False
    (counter,) = declared
    left, bound = inner(condition)
    changed = {n["referencedDecl"]["id"] for n in _changed_in(body)}
    ends_early = any(n.get("kind") in ("BreakStmt", "ReturnStmt") for n in walk(body))
    if not _is(left, counter) or counter["id"] in changed or ends_early:
        return False
    by = _step_of(step, counter)
    type_ = type_of(counter)
    opcode = condition["opcode"]
    is_up = by is not None and by != "down"
    past = (_ASCENDING if is_up else _DESCENDING).get(opcode)
    if by is None or past is None or (not is_up and type_.word != "int") or type_.is_pointer:
        return False
    if type_.word not in ("int", "uint", "long", "ulong") or not inner(counter):
        return False
    used = {n["referencedDecl"]["id"] for n in walk(bound) if "referencedDecl" in n}
    if isinstance(by, dict):
        used |= {n["referencedDecl"]["id"] for n in walk(by) if "referencedDecl" in n}
    if used & {*changed, counter["id"]} or type_of(bound).word != type_.word:
        return False
    with self.block() as before:
        end = self.expression(bound)
        each = call("number", "int", -1) if by == "down" else self.expression(by)
    if before or not is_pure(end) or not is_pure(each):
        return False
    low = self.expression(inner(counter)[0])
    variable = self.declare(counter, type_)
    if past:
        end = ast.BinOp(end, ast.Add(), call("number", type_.word, past))
    numbers = call("loop_range", low, end, call("convert", type_.word, each))
    inside, _ = _body(self, node, body)
    target = ast.Name(variable.name, ast.Store())
    self.emit(ast.For(target, numbers, inside or [ast.Pass()], []))
    return True


def _is(node: Node, declaration: Node) -> bool:
    while node["kind"] in ("ImplicitCastExpr", "ParenExpr"):
        node = inner(node)[0]
    return bool(node.get("referencedDecl", {}).get("id") == declaration["id"])


def _changed_in(node: Node) -> list[Node]:
    """The names that statements may change: all that are not read alone."""
    read = {id(inner(n)[0]) for n in walk(node) if n.get("castKind") == "LValueToRValue"}
    return [n for n in walk(node) if n.get("kind") == "DeclRefExpr" and id(n) not in read]


def _step_of(step: Node, counter: Node) -> Any:
    """What is added to a counter each time: an expression, `down` for -1, or None."""
    parts = inner(step)
    if not parts or not _is(parts[0], counter):
        return None
    if step["kind"] == "UnaryOperator":
        one = {"kind": "IntegerLiteral", "type": {"qualType": "int"}, "value": "1"}
        return {"++": one, "--": "down"}.get(step["opcode"])
    is_sum = step["kind"] == "CompoundAssignOperator" and step["opcode"] == "+="
    return parts[1] if is_sum else None
