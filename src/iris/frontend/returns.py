"""Early returns: what follows an `if` that returns becomes its other branch.

`join_returns` changes a function so that it returns at its end only:

    if n == 0:              if n == 0:
        return x                result = x
    x = x + n               else:
    return x                    x = x + n
                                result = x
                            return result

Where a branch may return or go on, a variable says which:

    if a:                   returned = False
        if b:               if a:
            return              if b:
        f()                         result, returned = None, True
    g()                         else:
                                    f()
                            if returned: ...
                            else: g(); result = None
                            return result

Loops, `with` and `try` stay as they are: a return in one of these leaves the function at once.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

RESULT = "iris_result"  # what the function returns
RETURNED = "iris_returned"  # whether it has, where it may go on
PATHS = {RESULT: "the returned value", RETURNED: "has_returned"}  # what users read of these


class ReturningIf(ast.If):
    """An `if` that sets the result in a branch, and whether it did."""


class LastIf(ast.If):
    """An `if` that sets the result: after it a function returns that, and needs no variables."""


def join_returns(function: ast.FunctionDef) -> None:
    """Let a function return at its end only, if a branch of it returns."""
    if not any(map(_may_return, function.body)):
        return
    body = function.body
    if not _always_returns(body):
        body = [*body, ast.copy_location(ast.Return(), body[-1])]
    end = ast.Return(ast.Name(RESULT, ast.Load()))
    function.body = [*_joined(body, last=True), ast.copy_location(end, body[-1])]


def _may_return(statement: ast.stmt) -> bool:
    """Whether a statement is an `if` of which a branch returns."""
    if not isinstance(statement, ast.If):
        return False
    inside = [*statement.body, *statement.orelse]
    return any(isinstance(s, ast.Return) or _may_return(s) for s in inside)


def _always_returns(body: Sequence[ast.stmt]) -> bool:
    for s in body:
        branches = isinstance(s, ast.If) and _always_returns(s.body) and _always_returns(s.orelse)
        if branches or isinstance(s, ast.Return):
            return True
    return False


def _joined(body: Sequence[ast.stmt], *, last: bool) -> list[ast.stmt]:
    """A block that does not return, but goes on to its end; the last one of the function or not."""
    for at, statement in enumerate(body):
        before, after = list(body[:at]), body[at + 1 :]
        if isinstance(statement, ast.Return):
            return [*before, *_result(statement, last=last)]
        if _may_return(statement):
            return [*before, *_joined_if(statement, after, last=last)]  # type: ignore[arg-type]
    return list(body)


def _joined_if(node: ast.If, after: Sequence[ast.stmt], *, last: bool) -> list[ast.stmt]:
    """An `if` that may return, and what follows it."""
    sides = [_always_returns(node.body), _always_returns(node.orelse)]
    if any(sides):
        body = node.body if sides[0] else [*node.body, *after]
        orelse = node.orelse if sides[1] else [*node.orelse, *after]
        return _if(node, node.test, _joined(body, last=last), _joined(orelse, last=last), last=last)
    first = _if(
        node,
        node.test,
        _joined(node.body, last=False),
        _joined(node.orelse, last=False),
        last=False,
    )
    if not after:
        return first
    # The variable is the condition, and so is set in the branches, not before them.
    has_returned, goes_on = _set_returned(node, value=True), _set_returned(node, value=False)
    rest = [goes_on, *_joined(after, last=last)]
    test = ast.copy_location(ast.Name(RETURNED, ast.Load()), node.test)
    kind = LastIf if last else ReturningIf
    return [*first, ast.copy_location(kind(test, [has_returned], rest), node)]


def _if(
    node: ast.If,
    test: ast.expr,
    body: list[ast.stmt],
    orelse: list[ast.stmt],
    *,
    last: bool,
) -> list[ast.stmt]:
    kind = LastIf if last else ReturningIf
    made = ast.copy_location(kind(test, body, orelse), node)
    return [made] if last else [_set_returned(node, value=False), made]


def _result(node: ast.Return, *, last: bool) -> list[ast.stmt]:
    value = node.value or ast.copy_location(ast.Constant(None), node)
    made = ast.copy_location(ast.Assign([ast.Name(RESULT, ast.Store())], value), node)
    return [made] if last else [made, _set_returned(node, value=True)]


def _set_returned(node: ast.stmt, *, value: bool) -> ast.stmt:
    return ast.copy_location(
        ast.Assign([ast.Name(RETURNED, ast.Store())], ast.Constant(value)), node
    )
