"""Control flow: Python's statements, traced where they depend on traced values.

`rewrite` changes the text of a function in one pass over its AST.  Each statement stays where it
is, and asks an object of `traced_control.py` what to do:

    for i in range(n):                  loop = iris_.For(range(n), ("s",), locals())
        s = s + i                       for i in loop:
                                            if loop.traced: (s,) = loop.start()
                                            s = s + i
                                            if loop.traced: loop.finish(locals())
                                        if loop.traced: (s,) = loop.results()

So where the iterable is an ordinary one, the statement is an ordinary one, too, `break` and all.
`while` and `if` are alike; `and`, `or`, `not`, ternaries and chained comparisons become calls.
"""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from iris.frontend.returns import RESULT, RETURNED, LastIf, ReturningIf, join_returns

RUNTIME = "iris_"  # the name by which rewritten code reaches traced_control.py


def rewrite(function: ast.FunctionDef | ast.Lambda) -> None:
    """Rewrite a function in place, with the functions defined in it."""
    if isinstance(function, ast.Lambda):
        _Rewriter().visit_Lambda(function)
    else:
        _Rewriter().visit_body(function)
    _place_new(function)


def assigned_names(nodes: Sequence[ast.AST]) -> tuple[str, ...]:
    """The variables that statements assign, in order, without variables of inner functions."""
    return _names_bound([inner for node in nodes for inner in _walk_scope(node)])


def _names_bound(inside: Sequence[ast.AST]) -> tuple[str, ...]:
    """The variables that pieces of syntax assign by themselves, in order."""
    names = [_BINDERS[type(inner)](inner) for inner in inside if type(inner) in _BINDERS]
    return tuple(dict.fromkeys([n for n in names if n and not n.startswith(RUNTIME)]))


# The variable that a piece of syntax gives a value or takes it away, by its kind.
_BINDERS: dict[type[ast.AST], Callable[[Any], str | None]] = {
    ast.Name: lambda node: None if _loads(node) else node.id,
    ast.alias: lambda node: node.asname or node.name.split(".")[0],
    ast.MatchMapping: lambda node: node.rest,
    **dict.fromkeys(
        (
            *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
            *(ast.ExceptHandler, ast.MatchAs, ast.MatchStar),
        ),
        operator.attrgetter("name"),
    ),
}

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _walk_scope(node: ast.AST) -> Iterator[ast.AST]:
    """A piece of syntax and what is in it, in order, but not what functions within hold."""
    left = [node]
    while left:
        node = left.pop()
        yield node
        if isinstance(node, _COMPREHENSIONS):  # of these, only `:=` assigns outside
            yield from [n.target for n in ast.walk(node) if isinstance(n, ast.NamedExpr)]
        elif not isinstance(node, _SCOPES):
            left += reversed(_parts_of(node))


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """The fields of a kind of syntax that may have syntax in them, but for what has no parts."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        named = () if kind is ast.Constant else kind._fields
        fields = self[kind] = tuple([name for name in named if name not in _WITHOUT_PARTS])
        return fields


_WITHOUT_PARTS = {"ctx", "op", "id", "attr", "type_comment"}
_fields = _Fields()


def _parts_of(node: ast.AST) -> list[Any]:
    """The syntax right within a piece, as of `ast.iter_child_nodes`, in a fifth of the time."""
    parts: list[Any] = []
    for name in _fields[type(node)]:
        value = getattr(node, name, None)
        if type(value) is list:
            parts += [part for part in value if isinstance(part, ast.AST)]
        elif isinstance(value, ast.AST):
            parts.append(value)
    return parts


class _Transformer:
    """An `ast.NodeTransformer` that removes nothing, in half of the time."""

    def generic_visit(self, node: Any) -> Any:
        for name in _fields[type(node)]:
            value = getattr(node, name, None)
            if type(value) is list:
                changed: list[Any] = []
                for part in value:
                    new = self.visit(part) if isinstance(part, ast.AST) else part
                    if type(new) is list:
                        changed += new
                    else:
                        changed.append(new)
                value[:] = changed
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        return node

    def visit(self, node: Any) -> Any:
        raise NotImplementedError


class _Rewriter(_Transformer):
    _methods: ClassVar[dict[type[ast.AST], str]] = {}  # by kind of syntax, as they are asked for

    def __init__(self) -> None:
        self.count = 0
        self.regions: list[str] = []  # the objects of the statements we are in, outermost first
        self.loops: list[str] = []
        self.globals: set[str] = set()  # what the function declares to be of the module
        self.bound: dict[str, None] = {}  # by `:=` in parts of expressions, which become functions
        self.in_part = False

    def visit(self, node: Any) -> Any:
        kind = type(node)
        name = self._methods.get(kind)
        if name is None:
            own = f"visit_{kind.__name__}"
            name = self._methods[kind] = own if hasattr(self, own) else "generic_visit"
        return getattr(self, name)(node)

    def visit_body(self, function: ast.FunctionDef) -> None:
        inside = [node for statement in function.body for node in _walk_scope(statement)]
        for node in inside:
            if isinstance(node, ast.Global):
                self.globals.update(node.names)
        if not any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in inside):
            join_returns(function)
        every = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        changed = _names_bound(inside)
        held = [_number_in(a.arg) for a in every if a.arg in changed]
        body = [*held, *self._statements(function.body)]
        # They stay variables of the function, though no statement is left that assigns them.
        declared: list[ast.stmt] = [_assign_one(n, ast.Constant(value=None)) for n in self.bound]
        if declared:
            never = ast.If(test=ast.Constant(value=False), body=declared, orelse=[])
            body = [*_at(function.body[0], [never]), *body]
        function.body = body

    def _assigned(self, nodes: Sequence[ast.AST]) -> list[str]:
        """The function's own variables that statements assign."""
        return [n for n in assigned_names(nodes) if n not in self.globals]

    def _statements(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in body:
            new = self.visit(statement)
            result.extend(new if isinstance(new, list) else [new])
        return result

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        _Rewriter().visit_body(node)
        return node

    def _new(self, kind: str) -> str:
        self.count += 1
        return f"{RUNTIME}{kind}{self.count}"

    # Statements.

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        self.generic_visit(node)
        return self._naming(node, node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        self.generic_visit(node)
        return self._naming(node, [node.target] if node.value is not None else [])

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return self._in_place(node, node.target)
        start, end = self._changing(_name(node.target.id))
        return [*_at(node, [start]), *self._naming(node, [node.target]), *_at(node, [end])]

    def _changing(self, held: ast.expr) -> tuple[ast.stmt, ast.stmt]:
        """What stands around an operator that may change the object that it is given."""
        reach = self._new("reach")
        start = _assign_one(reach, _runtime("reached", [held]))
        return start, _do(_runtime("changed", [_name(reach)]))

    def _naming(self, node: ast.stmt, targets: Sequence[ast.expr]) -> list[ast.stmt]:
        """A statement, and what its variables hold after it, given what they held before."""
        names = self._assigned(targets)
        storing = self._store_places(node, targets) or _noting(node)
        if not names:
            return _at(node, [node, *storing])
        before = self._new("before")
        held = _runtime("values_of", [_strings(names), _call("locals", [])])
        values = ast.Tuple(elts=[_name(n) for n in names], ctx=ast.Load())
        after = _runtime("assign", [_strings(names), _name(before), values])
        return _at(node, [_assign_one(before, held), node, *_assign(names, after), *storing])

    def _store_places(self, node: ast.stmt, targets: Sequence[ast.expr]) -> list[ast.stmt]:
        """Let a statement assign variables in the place of items and attributes; what then puts
        these into their places, given what they held."""
        storing: list[ast.stmt] = []
        places = _places(targets)
        for target in places:
            value = self._new("value")
            place, steps = self._found(target)
            updated = _runtime("updated_at", [_lambda(_read(place)), _name(value)])
            storing += [*steps, ast.Assign(targets=[place], value=updated)]
            _replace(node, target, ast.Name(id=value, ctx=ast.Store()))
        return [*storing, _do(_runtime("noted", []))] if places else storing

    def _found(self, place: ast.Attribute | ast.Subscript) -> tuple[ast.expr, list[ast.stmt]]:
        """An item or attribute of variables of our own, and what gives these their values: it may
        be looked at twice, and nothing is called for it again."""
        holder = self._new("holder")
        steps = [_assign_one(holder, place.value)]
        if isinstance(place, ast.Attribute):
            return ast.Attribute(value=_name(holder), attr=place.attr, ctx=ast.Store()), steps
        key = self._new("key")
        steps.append(_assign_one(key, _key(place.slice)))
        return ast.Subscript(value=_name(holder), slice=_name(key), ctx=ast.Store()), steps

    def _in_place(
        self, node: ast.AugAssign, target: ast.Attribute | ast.Subscript
    ) -> list[ast.stmt]:
        """An update of an item or an attribute, given what that held before."""
        before, after = self._new("before"), self._new("after")
        place, found = self._found(target)
        known = _runtime("as_variable", [_read(place)])
        update = ast.AugAssign(
            target=ast.Name(id=after, ctx=ast.Store()), op=node.op, value=node.value
        )
        kept = ast.Assign(targets=[place], value=_runtime("updated", [_name(before), _name(after)]))
        start, end = self._changing(_name(before))
        steps = [_assign_one(before, known), _assign_one(after, _name(before)), start, update, end]
        return _at(node, [*found, *steps, kept, *_noting(node)])

    def visit_Expr(self, node: ast.Expr) -> list[ast.stmt]:
        self.generic_visit(node)
        return _at(node, [node, *_noting(node)])

    def visit_Delete(self, node: ast.Delete) -> list[ast.stmt]:
        self.generic_visit(node)
        return _at(node, [node, *_noting(node)])

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        name = self._new("loop")
        targets = self._assigned([node.target])
        carried = [n for n in self._assigned(node.body) if n not in targets]
        is_range = isinstance(node.iter, ast.Call) and _is_name(node.iter.func, "range")
        iterable = self.visit(node.iter)
        if is_range:
            iterable.func = _runtime("range_of", [_name("range")])
        made = _runtime("ForLoop", [iterable, _strings(carried), _call("locals", [])])
        node.iter = _located(node.iter, _name(name))
        body = [
            *_when_traced(name, _assign(carried, _method(name, "start"))),
            *[_do(_runtime("named", [ast.Constant(value=n), _name(n)])) for n in targets],
            *self._inside(name, node.body, loop=True),
            *_when_traced(name, [_do(_method(name, "finish", [_call("locals", [])]))]),
        ]
        node.body = _at(node, body)
        every = [*carried, *targets]
        results = _when_traced(name, _assign(every, _method(name, "results", [_strings(every)])))
        # A traced loop has no break, so its else runs, after the loop.
        node.orelse = _at(node, [*results, *self._statements(node.orelse)])
        return _at(node, [_assign_one(name, made), node])

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        name = self._new("loop")
        condition = self._assigned([node.test])
        carried = self._assigned([*node.body, node.test])
        made = _runtime("WhileLoop", [_strings(carried), _strings(condition), _call("locals", [])])
        decided = self._new("go")
        test = self.visit(_condition(node.test))
        body = self._inside(name, node.body, loop=True)
        start = _when_traced(name, _assign(carried, _method(name, "start")))
        look = _do(_method(name, "look", [_call("locals", [])]))
        decide = _assign_one(decided, _method(name, "decide", [test]))
        again = ast.If(
            test=_compare_name(decided, ast.IsNot(), "go"), body=[ast.Continue()], orelse=[]
        )
        results = _when_traced(
            name, _assign(carried, _method(name, "results", [_strings(carried)]))
        )
        enter = _when_traced(name, _assign(carried, _method(name, "enter")))
        finish = _when_traced(name, [_do(_method(name, "finish", [_call("locals", [])]))])
        # An else is outside of the loop: a break or continue in it is of the loop around.
        loop = ast.While(
            test=_compare_name(decided, ast.IsNot(), "leave"),
            body=[*start, look, decide, again, *enter, *body, *finish],
            orelse=[*results, *self._statements(node.orelse)],
        )
        first = _assign_one(decided, _verdict("again"))
        return _at(node, [_assign_one(name, made), first, loop])

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        names = self._assigned([*node.body, *node.orelse])
        return self._if(node, "IfStatement", names, names)

    def visit_ReturningIf(self, node: ReturningIf) -> list[ast.stmt]:
        names = [*self._assigned([*node.body, *node.orelse]), RESULT, RETURNED]
        return self._if(node, "IfStatement", names, names)

    def visit_LastIf(self, node: LastIf) -> list[ast.stmt]:
        names = [*self._assigned([*node.body, *node.orelse]), RESULT, RETURNED]
        return self._if(node, "LastIf", names, [RESULT])

    def _if(
        self, node: ast.If, kind: str, carried: Sequence[str], needed: Sequence[str]
    ) -> list[ast.stmt]:
        """An `if` that changes some variables, of which some are needed after it."""
        name = self._new("branch")
        made = _runtime(
            kind, [self.visit(_condition(node.test)), _strings(carried), _call("locals", [])]
        )
        body = self._inside(name, node.body)
        orelse = self._inside(name, node.orelse)
        leave = _when_traced(name, [_do(_method(name, "finish", [_call("locals", [])]))])
        back = _when_traced(name, _assign(carried, _method(name, "start")))
        then = ast.If(test=_method(name, "then"), body=[*body, *leave], orelse=[])
        other = ast.If(
            test=_method(name, "otherwise"),
            body=[*back, *(orelse or [ast.Pass()]), *leave],
            orelse=[],
        )
        after = _when_traced(name, _assign(needed, _method(name, "results", [_strings(needed)])))
        return _at(node, [_assign_one(name, made), then, other, *after])

    def _inside(self, name: str, body: Sequence[ast.stmt], *, loop: bool = False) -> list[ast.stmt]:
        self.regions.append(name)
        if loop:
            self.loops.append(name)
        result = self._statements(body)
        if loop:
            self.loops.pop()
        self.regions.pop()
        return result

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        text = ast.Constant(value=ast.unparse(node.test))
        node.test = _condition(node.test)
        self.generic_visit(node)
        message = _lambda(copy.deepcopy(node.msg) or text)
        node.test = _located(node.test, _runtime("asserted", [node.test, message]))
        return node

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        return self._leaving(node, "break")

    def visit_Continue(self, node: ast.Continue) -> list[ast.stmt]:
        return self._leaving(node, "continue")

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        self.generic_visit(node)
        return self._leaving(node, "return")

    def _leaving(self, node: ast.stmt, word: str) -> list[ast.stmt]:
        """A statement that leaves regions, which none that is traced may be left by."""
        first = 0
        if word != "return" and self.loops:
            first = self.regions.index(self.loops[-1])
        left = [_name(n) for n in self.regions[first:]]
        if not left:
            return [node]
        check = _do(_runtime("leaving", [ast.Constant(value=word), *left]))
        return _at(node, [check, node])

    # Expressions.

    def _parts(self, node: ast.expr) -> None:
        """Rewrite what is in an expression of which parts become functions."""
        outer, self.in_part = self.in_part, True
        self.generic_visit(node)
        self.in_part = outer

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.func = _located(node.func, _runtime("called", [node.func]))
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        self.generic_visit(node)
        if node.target.id in self.globals:
            return node
        return _located(node, self._binding(node.target.id, node.value))

    def _binding(self, name: str, value: ast.expr) -> ast.expr:
        """`name := value`, by a function that knows the variable."""
        self.bound[name] = None
        return _runtime("bind", [_lambda(_name(name)), value])

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        return self._joined(node, "all_of", "any_of")

    def visit_Condition(self, node: Condition) -> ast.expr:
        return self._joined(node, "all_hold", "any_holds")

    def _joined(self, node: ast.BoolOp, of_and: str, of_or: str) -> ast.expr:
        self._parts(node)
        kind = of_and if isinstance(node.op, ast.And) else of_or
        return _located(node, _runtime(kind, [_lambda(v) for v in node.values]))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            node.operand = _condition(node.operand)
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return _located(node, _runtime("negation", [node.operand]))

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test = _condition(node.test)
        self._parts(node)
        branches = [_lambda(node.body), _lambda(node.orelse)]
        return _located(node, _runtime("choice", [node.test, *branches]))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) == 1:
            self.generic_visit(node)
            return _known_compared(node)
        self._parts(node)
        # a < f() < b calls f once: chained(a, lambda x: (y := f(), x < y), lambda x: ...).
        links: list[ast.expr] = []
        for op, right in zip(node.ops, node.comparators, strict=True):
            left, name = self._new("left"), self._new("right")
            taken = ast.NamedExpr(target=ast.Name(id=name, ctx=ast.Store()), value=right)
            holds = _known_compared(ast.Compare(_name(left), [op], [_name(name)]))
            both = ast.Tuple(elts=[taken, holds], ctx=ast.Load())
            links.append(_located(right, _lambda(both, left)))
        return _located(node, _runtime("chained", [node.left, *links]))

    def visit_Match(self, node: ast.Match) -> ast.Match:
        self.generic_visit(node)
        node.subject = _known(node.subject)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        outer, self.in_part = self.in_part, False
        self.generic_visit(node)
        self.in_part = outer
        return node


# Making syntax.


class Condition(ast.BoolOp):
    """`and` or `or` whose truth alone is asked, not which operand it is."""


def _condition(test: ast.expr) -> ast.expr:
    """An expression whose truth alone is asked."""
    if not isinstance(test, ast.BoolOp):
        return test
    return _located(test, Condition(test.op, [_condition(value) for value in test.values]))


def _noting(node: ast.stmt) -> list[ast.stmt]:
    """What follows a statement that may change objects."""
    left: list[ast.AST] = [node]
    for inner in left:  # which grows
        left += _parts_of(inner)
        changes = isinstance(inner, (ast.Subscript, ast.Attribute)) and not _loads(inner)
        if changes or isinstance(inner, (ast.Call, ast.AugAssign)):
            return [_do(_runtime("noted", []))]
    return []


def _known_compared(node: ast.Compare) -> ast.Compare:
    """A comparison, of which `is` does not ask the operands whether they are known."""
    if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        node.left = _known(node.left)
        node.comparators = [_known(x) for x in node.comparators]
    return node


def _known(x: ast.expr) -> ast.expr:
    return x if isinstance(x, ast.Constant) else _located(x, _runtime("known", [x]))


def _places(targets: Sequence[ast.expr]) -> list[ast.Attribute | ast.Subscript]:
    """The items and attributes that a statement assigns, in order."""
    inside = [node for target in targets for node in _walk_scope(target)]
    return [n for n in inside if isinstance(n, (ast.Attribute, ast.Subscript)) and not _loads(n)]


class _Replacing(_Transformer):
    def __init__(self, old: ast.expr, new: ast.expr):
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else self.generic_visit(node)


def _replace(node: ast.stmt, old: ast.expr, new: ast.expr) -> None:
    """Put an expression in the place of one in a statement."""
    ast.copy_location(new, old)
    _Replacing(old, new).visit(node)


def _read(place: ast.expr) -> ast.expr:
    """An expression that is assigned, to be read."""
    read = copy.deepcopy(place)
    read.ctx = ast.Load()  # type: ignore[attr-defined]
    return read


def _key(key: ast.expr) -> ast.expr:
    """What is between brackets, as an expression that may stand anywhere."""
    if isinstance(key, ast.Slice):
        parts = [part or ast.Constant(value=None) for part in (key.lower, key.upper, key.step)]
        return ast.copy_location(_runtime("slice", parts), key)
    if isinstance(key, ast.Tuple):
        return ast.copy_location(ast.Tuple(elts=[_key(k) for k in key.elts], ctx=ast.Load()), key)
    return key


def _loads(node: ast.Name | ast.Subscript | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _name(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _call(function: str, arguments: list[ast.expr]) -> ast.expr:
    return ast.Call(func=_name(function), args=arguments, keywords=[])


def _runtime(function: str, arguments: Sequence[ast.expr]) -> ast.Call:
    attribute = ast.Attribute(value=_name(RUNTIME), attr=function, ctx=ast.Load())
    return ast.Call(func=attribute, args=list(arguments), keywords=[])


def _method(name: str, method: str, arguments: Sequence[ast.expr] = ()) -> ast.Call:
    attribute = ast.Attribute(value=_name(name), attr=method, ctx=ast.Load())
    return ast.Call(func=attribute, args=list(arguments), keywords=[])


def _verdict(verdict: str) -> ast.expr:
    return ast.Attribute(value=_name(RUNTIME), attr=verdict.upper(), ctx=ast.Load())


def _compare_name(name: str, operator: ast.cmpop, verdict: str) -> ast.expr:
    return ast.Compare(left=_name(name), ops=[operator], comparators=[_verdict(verdict)])


def _strings(names: Sequence[str]) -> ast.expr:
    return ast.Tuple(elts=[ast.Constant(value=n) for n in names], ctx=ast.Load())


def _arguments(taken: list[ast.arg]) -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=taken, kwonlyargs=[], kw_defaults=[], defaults=[])


def _lambda(body: ast.expr, *names: str) -> ast.Lambda:
    return ast.Lambda(args=_arguments([ast.arg(arg=n) for n in names]), body=body)


def _do(expression: ast.expr) -> ast.stmt:
    return ast.Expr(value=expression)


def _assign_one(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=value)


def _assign(names: Sequence[str], value: ast.expr) -> list[ast.stmt]:
    if not names:
        return [_do(value)]
    target = ast.Tuple(elts=[ast.Name(id=n, ctx=ast.Store()) for n in names], ctx=ast.Store())
    return [ast.Assign(targets=[target], value=value)]


def _number_in(name: str) -> ast.stmt:
    """Let a parameter that is assigned hold a number that is known again."""
    return _assign_one(name, _runtime("as_variable", [_name(name)]))


def _when_traced(name: str, body: list[ast.stmt]) -> list[ast.stmt]:
    test = ast.Attribute(value=_name(name), attr="traced", ctx=ast.Load())
    return [ast.If(test=test, body=body, orelse=[])]


def _located(node: ast.AST, new: ast.expr) -> ast.expr:
    return ast.copy_location(new, node)


def _at(node: ast.stmt, statements: list[ast.stmt]) -> list[ast.stmt]:
    """Give new statements the place of the one they stand for (its first line, not its body's)."""
    head = getattr(node, "test", None) or getattr(node, "iter", None) or node
    for statement in statements:
        if not hasattr(statement, "lineno"):
            ast.copy_location(statement, head)
    return statements


def _place_new(function: ast.AST) -> None:
    """Give what has no place in the text that of the syntax around it."""
    left: list[tuple[Any, Any]] = [(function, _PLACE(function))]
    while left:
        node, place = left.pop()
        for part in _parts_of(node):
            around = place
            if hasattr(part, "lineno"):
                around = _PLACE(part)
            elif part._attributes:
                part.lineno, part.col_offset, part.end_lineno, part.end_col_offset = place
            left.append((part, around))


_PLACE = operator.attrgetter("lineno", "col_offset", "end_lineno", "end_col_offset")
