"""Planting a bug: the package with some code of one function exchanged."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from planted import Bug, Misplanted
from support import ROOT, copy_package

PACKAGE = ROOT / "src" / "iris"


class Place(NamedTuple):
    """Code of a statement: some statements of a block, or one expression of a node."""

    block: list[ast.stmt] | ast.AST
    at: int | str  # the number of the first statement, or the field of the expression
    item: int | None = None  # of a field that is a list, which

    def put(self, new: Sequence[ast.stmt], count: int) -> None:
        """Exchange so many statements, or the expression."""
        if isinstance(self.block, list):
            self.block[self.at : self.at + count] = new  # type: ignore[operator]
            return
        (statement,) = new
        assert isinstance(statement, ast.Expr) and isinstance(self.at, str)
        if self.item is None:
            setattr(self.block, self.at, statement.value)
        else:
            getattr(self.block, self.at)[self.item] = statement.value


class Statement(NamedTuple):
    """A statement of a module's own, by its lines."""

    path: Path
    start: int
    end: int


class Garden:
    """The package, as it is: which code each name stands for."""

    def __init__(self, package: Path = PACKAGE):
        self.package = package
        self.modules = {  # the lines of each
            path: path.read_text(encoding="utf-8").splitlines(keepends=True)
            for path in package.rglob("*.py")
        }
        self.names = _statements_by_name(self.modules)

    def plant(self, bug: Bug) -> tuple[Path, str]:
        """The module that has the place of a bug, and its text with the bug."""
        before, after = (_statements(bug, code) for code in (bug.before, bug.after))
        found = self.names.get(bug.place, ())
        if not found:
            raise Misplanted(f"{bug}: nothing is called {bug.place}")
        places = []
        for statement in found:
            (node,) = ast.parse(self._text(statement)).body
            for name, scope in _named(node):
                if name == bug.place:
                    places += [(statement, node, place) for place in _places(scope, before, after)]
        if len(places) != 1:
            here = ", ".join(sorted({str(s.path.relative_to(self.package)) for s in found}))
            raise Misplanted(
                f"{bug}: in {bug.place} ({here}) this occurs {len(places)} times:\n{bug.before}"
            )
        ((statement, node, place),) = places
        place.put(after, len(before))
        lines = self.modules[statement.path]
        return statement.path, "".join(
            [*lines[: statement.start], ast.unparse(node), "\n", *lines[statement.end :]]
        )

    def _text(self, statement: Statement) -> str:
        return "".join(self.modules[statement.path][statement.start : statement.end])

    @contextmanager
    def planted(self, bug: Bug) -> Iterator[Path]:
        """A folder with a copy of the package that has a bug, for `PYTHONPATH`."""
        path, text = self.plant(bug)
        with TemporaryDirectory(prefix="planted-") as folder:
            copy = copy_package(self.package, Path(folder))
            (copy / path.relative_to(self.package)).write_text(text, encoding="utf-8")
            yield Path(folder)


def _statements_by_name(modules: Mapping[Path, Sequence[str]]) -> dict[str, list[Statement]]:
    """The statements that have something of a name."""
    found: dict[str, list[Statement]] = {}
    for path, lines in modules.items():
        for node in ast.parse("".join(lines)).body:
            assert node.end_lineno is not None
            first = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", ())]])
            statement = Statement(path, first - 1, node.end_lineno)
            for name in {name for name, _ in _named(node)}:
                found.setdefault(name, []).append(statement)
    return found


def _named(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """Functions, methods and tables of a statement, by the names that a list calls them."""
    if isinstance(node, ast.FunctionDef):
        yield node.name, node
    elif isinstance(node, ast.ClassDef):
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef):
                yield f"{node.name}.{inner.name}", inner
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, node


def _statements(bug: Bug, code: str) -> list[ast.stmt]:
    try:
        return ast.parse(code).body
    except SyntaxError as error:
        raise Misplanted(f"{bug}: {error}:\n{code}") from None


def _places(
    scope: ast.AST, before: Sequence[ast.stmt], after: Sequence[ast.stmt]
) -> Iterator[Place]:
    """Where in some code others may stand in place of statements, or of an expression."""
    if all(len(x) == 1 and isinstance(x[0], ast.Expr) for x in (before, after)):
        return _expressions(scope, before)
    return _blocks(scope, before)


def _expressions(scope: ast.AST, wanted: Sequence[ast.stmt]) -> Iterator[Place]:
    """Where an expression is in some code."""
    (statement,) = wanted
    assert isinstance(statement, ast.Expr)
    for parent in ast.walk(scope):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, list):
                for item, node in enumerate(value):
                    if _alike(node, statement.value):
                        yield Place(parent, field, item)
            elif _alike(value, statement.value):
                yield Place(parent, field)


def _blocks(scope: ast.AST, wanted: Sequence[ast.stmt]) -> Iterator[Place]:
    """Where statements, one after the other, are in some code."""
    for parent in ast.walk(scope):
        for _, block in ast.iter_fields(parent):
            if isinstance(block, list):
                for at in range(len(block) - len(wanted) + 1):
                    if all(map(_alike, block[at:], wanted)):
                        yield Place(block, at)


def _alike(one: object, other: object) -> bool:
    """Whether two pieces of code say the same; whether a name in one is read or set is left out."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_alike, one, other))  # type: ignore[arg-type]
    if not isinstance(one, ast.AST):
        return one == other
    fields = (field for field in one._fields if field != "ctx")
    return all(_alike(getattr(one, f, None), getattr(other, f, None)) for f in fields)
