"""Say which lines of the compiler have run: each statement of a function marks its own line.

A mark is one store into a list.  A tracer, which is called for every line, takes more time than
the compiler does.  Only modules that are imported after this one are marked.
"""

from __future__ import annotations

import ast
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

ROOMS = ("iris.analysis.", "iris.passes.", "iris.codegen.")
#: By file: for each of its lines, whether it has run.
MARKS: dict[str, list[bool]] = {}
_NAME = "__marks__"


def forget() -> None:
    """Take it that no line has run yet."""
    for lines in MARKS.values():
        lines[:] = [False] * len(lines)


def marked() -> dict[str, list[int]]:
    """By file, the lines that have run."""
    return {
        name: [i for i, has_run in enumerate(lines) if has_run] for name, lines in MARKS.items()
    }


class _Marker(ast.NodeTransformer):
    """Puts a mark before every statement of a function."""

    def __init__(self) -> None:
        self.depth = 0  # of functions

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        is_inside = self.depth > 0
        self.depth += isinstance(node, ast.FunctionDef)
        self.generic_visit(node)
        self.depth -= isinstance(node, ast.FunctionDef)
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_inside or not isinstance(node, ast.stmt) or is_docstring:
            return node
        (mark,) = ast.parse(f"{_NAME}[{node.lineno}] = True").body
        return [mark, node]


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        tree = ast.fix_missing_locations(_Marker().visit(ast.parse(source)))
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        lines = self.get_data(self.path).count(b"\n")
        vars(module)[_NAME] = MARKS[self.path] = [False] * (lines + 2)
        super().exec_module(module)


class _Finder:
    """Finds the modules of the rooms as Python does, for a loader that marks their lines."""

    @staticmethod
    def find_spec(name: str, path: list[str] | None, target: object = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name.startswith(ROOMS) else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


sys.meta_path.insert(0, _Finder)
