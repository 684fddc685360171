"""The rooms and modules of src/iris, and the direction in which they may know each other.

Modules are parsed, never imported. An import counts wherever it stands: at the top, inside a
function, or under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Container, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from support import ROOT

# What each room may import besides itself. A room is a module or a folder directly under iris;
# "iris" is the package's own __init__, the public API.
DATA = {"errors", "targets"}
MIDDLE = DATA | {"ir"}
OF_PASSES = MIDDLE | {"analysis", "cost"}
BELOW_COMPILER = OF_PASSES | {
    "knobs",
    "frontend",
    "passes",
    "codegen",
    "interp",
    "runtime",
    "viewer",
}
PUBLIC = {"iris", "nn", "api", "cuda", "metal", "ops"}
ALL = BELOW_COMPILER | PUBLIC | {"version", "compiler", "softmetal", "testing", "tools"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    "knobs": {"errors"},
    "cache_folder": {"errors", "knobs"},
    "targets": {"errors"},
    "ir": DATA,
    "frontend": {"errors", "ir"},
    "analysis": MIDDLE,
    "cost": MIDDLE | {"analysis"},
    "passes": OF_PASSES,
    "codegen": MIDDLE | {"analysis"},
    "interp": MIDDLE,
    "softmetal": {"errors", "knobs", "cache_folder"},
    "runtime": MIDDLE | {"knobs", "cache_folder", "codegen", "interp", "softmetal"},
    "nn": {"errors", "frontend", "ir"},
    "viewer": OF_PASSES | {"passes", "codegen", "version"},
    "compiler": BELOW_COMPILER | {"version"},
    "api": {"compiler", "runtime"},
    "cuda": {"compiler"},
    "metal": {"compiler", "frontend"},
    "ops": {"compiler", "errors", "frontend", "nn", "runtime"},
    "triton": {"errors", "frontend", "compiler"},
    "testing": ALL,
    "tools": ALL,
    "iris": ALL - {"testing", "tools"},
}
# Imports that close a circle of modules: which module imports which.
MAY_CLOSE_A_CIRCLE = {
    # The text of a module is `str(module)`, and printing it is built on the core.
    ("iris.ir.core", "iris.ir.text.printer"),
}
THIRD_PARTY = {
    "testing": {"numpy", "hypothesis", "z3"},
    "runtime": {"numpy", "ml_dtypes", "cuda"},
    "tools": {"numpy", "rich", "textual"},
}
# The reporter, which writes a reproducer and raises again; a call of the user's grid function; what
# looks for failures, whatever they are.
MAY_CATCH_ALL = {
    "passes/manager.py": 1,
    "compiler/grids.py": 1,
    "testing/hunt.py": 4,
    "testing/texts.py": 1,
}


def room_of(module: tuple[str, ...]) -> str:
    """The room of ("iris", room, ...); of ("iris",), the package itself."""
    return module[1] if len(module) > 1 else "iris"


def modules_of(source: Path) -> dict[tuple[str, ...], Path]:
    """The modules of the tree whose folder `iris` is in `source`, by name."""
    modules = {}
    for path in sorted((source / "iris").rglob("*.py")):
        name = path.relative_to(source).with_suffix("").parts
        modules[name[:-1] if name[-1] == "__init__" else name] = path
    return modules


@cache
def imports_and_handlers(path: Path) -> list[ast.AST]:
    """The parts of a module that the rules are about."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    kinds = (ast.Import, ast.ImportFrom, ast.ExceptHandler)
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def imported_modules(
    path: Path, source: Path, modules: Container[tuple[str, ...]]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and dotted name of every import in a module."""
    package = path.relative_to(source).parent.parts
    for node in imports_and_handlers(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            of = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                of = package[: len(package) - node.level + 1] + of
            # `from iris import x` is the module x, or a name of the public API.
            names = [(*of, alias.name) for alias in node.names]
            for name in dict.fromkeys(n if n in modules else of for n in names):
                yield node.lineno, name


def catches_all(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(c, ast.Name) and c.id in {"Exception", "BaseException"} for c in caught)


def violations(source: Path) -> list[str]:
    """Every breach of the rules in the tree whose folder `iris` is in `source`."""
    found = []
    modules = modules_of(source)
    for module, path in modules.items():
        room = room_of(module)
        where = "/".join(path.relative_to(source / "iris").parts)
        if room not in MAY_IMPORT:
            found.append(f"{where}: the room '{room}' is not in the table")
            continue
        for line, name in imported_modules(path, source, modules):
            if name[0] == "iris":
                allowed = room_of(name) in {room, *MAY_IMPORT[room]}
            else:
                third_party = THIRD_PARTY.get(room, {"numpy"})
                allowed = name[0] in sys.stdlib_module_names or name[0] in third_party
            if not allowed:
                found.append(f"{where}:{line}: '{room}' may not import '{'.'.join(name)}'")
        handlers = [
            n
            for n in imports_and_handlers(path)
            if isinstance(n, ast.ExceptHandler) and catches_all(n)
        ]
        for handler in handlers[MAY_CATCH_ALL.get(where, 0) :]:
            found.append(f"{where}:{handler.lineno}: catches every exception")
    return found


def imports(source: Path) -> dict[str, set[str]]:
    """For each module of the tree, the others that it imports."""
    found = {}
    modules = modules_of(source)
    for module, path in modules.items():
        names = {name for _, name in imported_modules(path, source, modules)}
        found[".".join(module)] = {".".join(n) for n in names & modules.keys() if n != module}
    return found


def circle(imported: dict[str, set[str]]) -> list[str]:
    """Modules each of which imports the next, the last one being the first again; or none."""
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_dependencies_point_one_way() -> None:
    assert violations(ROOT / "src") == []


@pytest.mark.parametrize(
    ("where", "text", "expected"),
    [
        (
            "ir/core.py",
            "import iris.passes.generic.cse",
            "'ir' may not import 'iris.passes.generic.cse'",
        ),
        ("ir/core.py", "from iris import passes", "'ir' may not import 'iris.passes'"),
        ("ir/core.py", "from iris import kernel", "'ir' may not import 'iris'"),
        ("ir/core.py", "from ..passes import cse", "'ir' may not import 'iris.passes'"),
        ("ir/core.py", "from .. import passes", "'ir' may not import 'iris.passes'"),
        ("ir/layout/a.py", "from ...passes import cse", "'ir' may not import 'iris.passes'"),
        ("ir/__init__.py", "from ..passes import cse", "'ir' may not import 'iris.passes'"),
        ("ir/core.py", "def f():\n    import iris.tools", "'ir' may not import 'iris.tools'"),
        ("ir/core.py", "if TYPE_CHECKING:\n    import iris.tools", "may not import 'iris.tools'"),
        ("runtime/metal.py", "import iris.frontend", "may not import 'iris.frontend'"),
        ("targets/apple.py", "import iris.ir", "'targets' may not import 'iris.ir'"),
        ("analysis/axis.py", "import iris.passes", "'analysis' may not import 'iris.passes'"),
        ("__init__.py", "import iris.testing", "'iris' may not import 'iris.testing'"),
        ("ir/core.py", "import torch", "'ir' may not import 'torch'"),
        ("ir/core.py", "import hypothesis", "'ir' may not import 'hypothesis'"),
        ("attic/core.py", "", "the room 'attic' is not in the table"),
        ("ir/core.py", "try: f()\nexcept: pass", "catches every exception"),
        ("ir/core.py", "try: f()\nexcept (KeyError, Exception): pass", "catches every exception"),
        (
            "passes/manager.py",
            "try: f()\nexcept Exception: raise\ntry: f()\nexcept Exception: raise",
            "passes/manager.py:4: catches every exception",
        ),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, where: str, text: str, expected: str) -> None:
    plant(tmp_path, where, text)
    (message,) = violations(tmp_path)
    assert expected in message


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("ir/core.py", "import ast\nimport numpy as np\nfrom iris.errors import IrisError"),
        ("ir/core.py", "from .types import Type\nfrom . import text\nfrom .. import errors"),
        ("ir/layout/banks.py", "from iris.targets.apple import M1"),
        ("testing/programs.py", "import hypothesis\nfrom iris import kernel, passes"),
        ("__init__.py", "from .frontend import kernel\nfrom iris.compiler import lower"),
        ("passes/manager.py", "try: f()\nexcept Exception: raise"),
    ],
)
def test_what_is_allowed_passes(tmp_path: Path, where: str, text: str) -> None:
    plant(tmp_path, where, text)
    assert violations(tmp_path) == []


def test_no_module_imports_itself_in_a_circle() -> None:
    imported = imports(ROOT / "src")
    for module, closes in MAY_CLOSE_A_CIRCLE:
        imported[module].remove(closes)
    assert circle(imported) == []


@pytest.mark.parametrize(
    "texts",
    [
        {"ir/a.py": "import iris.ir.b", "ir/b.py": "from iris.ir.a import A"},
        {"ir/a.py": "from iris.ir import b", "ir/b.py": "from . import a"},
        {"ir/a.py": "import iris.ir.b", "ir/b.py": "if TYPE_CHECKING:\n    import iris.ir.a"},
        {"ir/a.py": "import iris.ir.b", "ir/b.py": "def f():\n    import iris.ir.a"},
        {"ir/__init__.py": "from iris.ir.a import A", "ir/a.py": "from iris.ir import A"},
        {
            "ir/a.py": "import iris.ir.b",
            "ir/b.py": "from ..passes import c",
            "passes/c.py": "from iris.ir.a import A",
        },
    ],
)
def test_a_planted_circle_is_found(tmp_path: Path, texts: dict[str, str]) -> None:
    for where, text in texts.items():
        plant(tmp_path, where, text)
    found = circle(imports(tmp_path))
    assert len(set(found)) == len(texts) and found[0] == found[-1]


def test_what_makes_no_circle_passes(tmp_path: Path) -> None:
    plant(tmp_path, "ir/a.py", "from iris.ir import b\nfrom iris.ir.text import c")
    plant(tmp_path, "ir/b.py", "from iris.ir.text.c import C")
    plant(tmp_path, "ir/text/c.py", "import iris.errors")
    plant(tmp_path, "ir/__init__.py", "from iris.ir import a")
    assert circle(imports(tmp_path)) == []


def plant(source: Path, where: str, text: str) -> None:
    """Write one module into a small tree that has the rooms its imports may name."""
    for name in ("errors.py", "passes/__init__.py", where):
        path = source / "iris" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if name == where else "")
