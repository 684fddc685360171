"""Functions with their control flow rewritten: a kernel, and every function that its text calls.

A rewritten function keeps its globals, closure and defaults.  Where Python cannot give the source
of a function that a kernel calls, it may run as it is if it changes no variable of its own.
"""

from __future__ import annotations

import ast
import copy
import dis
import functools
import inspect
import itertools
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from iris.errors import SourceError
from iris.frontend import control_flow
from iris.frontend.objects import is_of_users
from iris.frontend.tracing import error_at, error_here

_Function = ast.FunctionDef | ast.Lambda
#: Of functions that are translated from another language: their syntax, at the lines of that text.
TRANSLATED: dict[CodeType, ast.FunctionDef] = {}
_DEEPEST = 20_000  # calls within calls: several for each level of syntax
_TRIED = (
    8  # ends of a definition: decorators and what is between brackets may have lines of their own
)
_recurring = threading.Lock()  # the limit is that of all threads


def rewritten(function: FunctionType, runtime: ModuleType) -> FunctionType:
    """A function whose control flow asks the functions of a module what to do."""
    old = function.__code__
    if control_flow.RUNTIME in old.co_freevars:  # defined in a function that is rewritten
        return function
    # From 3.11 on, code has a path of its own: that of a function may be of one that it wraps.
    path = getattr(old, "co_qualname", function.__qualname__)
    code = _rewritten(old, old.co_filename, _class_around(path))
    known = dict(zip(old.co_freevars, function.__closure__ or (), strict=True))
    known[control_flow.RUNTIME] = _cell(runtime)
    closure = tuple([known[name] for name in code.co_freevars])
    defaults = function.__defaults__
    made = FunctionType(code, function.__globals__, function.__name__, defaults, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made


def rewritten_callable(called: Any, runtime: ModuleType) -> Any:
    """A callable with its function rewritten, if that is the user's own."""
    if isinstance(called, FunctionType):
        return _of_users_rewritten(called, runtime)
    if isinstance(called, MethodType):
        function, holder = called.__func__, called.__self__
    else:
        function, holder = inspect.getattr_static(type(called), "__call__", None), called
    if isinstance(function, FunctionType):
        made = _of_users_rewritten(function, runtime)
        return called if made is function else MethodType(made, holder)
    if isinstance(called, functools.partial):
        inner = rewritten_callable(called.func, runtime)
        return functools.partial(inner, *called.args, **called.keywords)
    return called


def _of_users_rewritten(function: FunctionType, runtime: ModuleType) -> FunctionType:
    if not is_of_users(function.__module__ or ""):
        return function
    try:
        return rewritten(function, runtime)
    except SourceError as error:
        if _changes_variables(function.__code__):
            raise error_here(SourceError, error.message) from None
        return function


@functools.lru_cache(maxsize=1024)
def _rewritten(old: CodeType, file: str, class_around: str | None) -> CodeType:
    """The rewritten code of some code; equal code may be of two files, or of two classes."""
    try:
        with _deep_syntax():
            return _compiled_anew(old, file, class_around)
    except RecursionError:
        raise error_at(
            SourceError,
            f"{old.co_name}: an expression is nested too deeply; divide it into statements",
            file,
            old.co_firstlineno,
        ) from None


@contextmanager
def _deep_syntax() -> Iterator[None]:
    """Let functions recur over syntax as deep as Python compiles, as of a sum of 1000 terms."""
    with _recurring:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _DEEPEST))
        try:
            yield
        finally:
            sys.setrecursionlimit(limit)


def _compiled_anew(old: CodeType, file: str, class_around: str | None) -> CodeType:
    head = _syntax(old, class_around)
    if head is None:
        raise SourceError(
            f"{old.co_name}: Python cannot give the source of this function, which a kernel "
            "needs; write it with def, in a file or a notebook cell, not in exec() or at a prompt"
        )
    names = [control_flow.RUNTIME, *old.co_freevars]
    control_flow.rewrite(head)
    return _compiled(head, names, file, class_around)


def _syntax(code: CodeType, class_around: str | None) -> _Function | None:
    """The definition of a function, at the lines and columns that it has in its file."""
    if code in TRANSLATED:
        return copy.deepcopy(TRANSLATED[code])
    try:
        if code.co_name == "<lambda>":
            return _lambda_of(code, class_around)
        lines, above = inspect.findsource(code)
    except (OSError, TypeError):
        return None
    tree = _first_definition(lines, above)
    head = tree.body[0]
    if isinstance(head, ast.If):
        head = head.body[0]
    if not isinstance(head, ast.FunctionDef):
        return None
    head.decorator_list = []
    return head


def _first_definition(lines: Sequence[str], above: int) -> ast.Module:
    """Parse the definition that starts after `above` lines; its syntax keeps its lines and columns.

    It ends before the first line that is indented no deeper and that ends no syntax begun before.
    `inspect` finds that by the tokens of the text, which takes three times as long.
    """
    margin = _margin(lines[above])
    # Under an `if` the text keeps its indentation, and so its columns.
    head = "\n" * (above - 1) + "if True:\n" if margin else "\n" * above
    ends = (n for n in range(above + 1, len(lines)) if _may_follow(lines[n], margin))
    for end in itertools.islice(itertools.chain(ends, [len(lines)]), _TRIED):
        try:
            return ast.parse(head + "".join(lines[above:end]))
        except SyntaxError:
            pass
    return ast.parse(head + "".join(inspect.getblock(lines[above:])))


def _margin(line: str) -> int:
    line = line.expandtabs()
    return len(line) - len(line.lstrip())


def _may_follow(line: str, margin: int) -> bool:
    """Whether a line may be the first after a definition of this margin."""
    text = line.lstrip()
    return bool(text) and text[0] != "#" and _margin(line) <= margin


def _lambda_of(code: CodeType, class_around: str | None) -> ast.Lambda | None:
    """The first lambda of a line that is compiled to this code; none that assigns variables."""
    for node in ast.walk(_parsed("".join(inspect.findsource(code)[0]))):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            if any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node)):
                continue
            made = _compiled(copy.deepcopy(node), code.co_freevars, code.co_filename, class_around)
            if _instructions(made) == _instructions(code):
                return copy.deepcopy(node)
    return None


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _instructions(code: CodeType) -> tuple[object, ...]:
    constants = [c for c in code.co_consts if not isinstance(c, CodeType)]
    return code.co_code, code.co_names, code.co_varnames, repr(constants)


def _compiled(
    head: _Function, names: Sequence[str], file: str, class_around: str | None
) -> CodeType:
    """The code of a function with free variables of some names, in a class or not."""
    arguments = head.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for argument in [*every, arguments.vararg, arguments.kwarg]:
        if argument is not None:
            argument.annotation = None
    # Names are free where a function around has them, and `__name` is of the class around.
    path = [_name_of(head)] if class_around is None else [class_around, _name_of(head)]
    around = [f"def outer({', '.join(names)}):"]
    if path[0].isidentifier() and path[0] not in names:
        # What the text calls by this name is not what is defined here.
        around.append(f" global {path[0]}")
    around.append(" pass" if class_around is None else f" class {class_around}: pass")
    module: Any = ast.parse("\n".join(around))
    body = module.body[0].body
    place = body if class_around is None else body[-1].body
    place[-1] = _statement(head)
    code = compile(module, file, "exec")
    for name in ("outer", *path):
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
    return code


def _statement(head: _Function) -> ast.stmt:
    if isinstance(head, ast.Lambda):
        return ast.copy_location(ast.Expr(value=head), head)
    head.returns = None
    return head


def _name_of(head: _Function) -> str:
    return "<lambda>" if isinstance(head, ast.Lambda) else head.name


def _class_around(path: str) -> str | None:
    """The class in the text of which a function is, given its qualified name."""
    rest = path.split(".")[:-1]
    while rest:
        name = rest.pop()
        if name == "<locals>":
            rest.pop()
        elif name.isidentifier():  # and no comprehension
            return name
    return None


def _changes_variables(code: CodeType) -> bool:
    """Whether code assigns a parameter, or a variable more than once."""
    assigned = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    for instruction in dis.get_instructions(code):
        # One instruction may be two: STORE_FAST_LOAD_FAST.
        acts = re.findall("(STORE|LOAD)_(?:FAST|DEREF)", instruction.opname)
        value = instruction.argval
        names = value if isinstance(value, tuple) else (value,)
        assigned += [n for act, n in zip(acts, names, strict=False) if act == "STORE"]
    return len(set(assigned)) < len(assigned)


def _cell(value: object) -> Any:
    return (lambda: value).__closure__[0]  # type: ignore[index]
