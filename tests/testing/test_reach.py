"""Random programs reach the whole compiler: they call every function of the passes that lower Tile
IR, and of codegen, or the table here says why they cannot.

The test prints the lines that no program reached of each function that is called.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from support import ROOT, counts

SOURCE = ROOT / "src" / "iris"
# What is not called to lower and print tile programs at all.
OTHERS = (
    "codegen/languages/cuda.py",
    "codegen/source.py",
    "passes/__init__.py",
    "passes/firings.py",
    "passes/graph/",
    "passes/instruments.py",
    "passes/manager.py",
    "passes/pipeline.py",
    "passes/tile/lowering/check_replicas.py",
)
WHEN_IMPORTED = "called when its module is imported"
EXPANDED = "expand-math leaves none of it"
OF_THREADS = "kernels by thread alone have metal.insert"
# Why no random program that is right, and was written without layouts, gets there.
CANNOT = {
    "codegen.elementwise._erf": EXPANDED,
    "codegen.elementwise._sigmoid": EXPANDED,
    "codegen.languages.msl._both": WHEN_IMPORTED,
    "codegen.languages.msl._precise": WHEN_IMPORTED,
    "codegen.language.versions": "is said by devices",
    "codegen.shapes._misfit_of_computed": "choose-register-shapes computes with no words",
    "codegen.shapes._refused": "choose-register-shapes finds shapes that fit",
    "codegen.writer.unsupported": "check-target refuses it before",
    "analysis.ranges._insert": OF_THREADS,
    "codegen.registers._insert": OF_THREADS,
    "codegen.shapes._misfit_of_insert": OF_THREADS,
    "passes.metal.choose_register_shapes._alike_of_insert": OF_THREADS,
    "passes.metal.choose_register_shapes._wish_of_insert": OF_THREADS,
    "analysis.axis.along_each": WHEN_IMPORTED,
    "analysis.number_kinds._comparison": WHEN_IMPORTED,
    "analysis.axis.divisibility": "shows what is known; passes ask axis by axis",
    "passes.generic.fold.reduce": "is of graphs",
    "passes.tile.lowering.lower_reduce._combine_by": WHEN_IMPORTED,
    "passes.tile.lowering.lower_reduce._combine_extremes": WHEN_IMPORTED,
    "passes.tile.lowering.lower_to_metal._line_of": "is of programs with lines",
    "passes.tile.lowering.staging.lower_unstage": "no pass makes tile.unstage",
    "analysis.ordering.conflicts": "tells readers what barriers are for",
    "analysis.ordering.pairs": "tells readers what barriers are for",
    "analysis.ordering._orders": "is of programs that have barriers already",
    "passes.metal.uniform_conditions.run": "lowering does what the pass does",
}
# What only some of thousands of programs get to, as `IRIS_CAMPAIGN=1` draws them.
RARE = {
    "codegen.control._computed",
    "analysis.ranges._literal",
    "analysis.zero_signs._quotient",  # of a maximum
    "codegen.registers._literal",
    "codegen.shapes._needed_users",  # of constants that are held as words
    "analysis.axis.negate",
    "passes.tile.fast_math._times_log2_e",
    "passes.tile.follow_masks._bound_by_mask",
    "passes.tile.follow_masks.follow_assert",
    "passes.tile.follow_masks.follow_load_tile",
    "passes.tile.follow_masks.follow_shift",
    "passes.tile.layouts.staged_layouts.swizzled",
    "passes.tile.lowering.staging._swizzled_addresses",
    "passes.tile.lowering.staging.address",
    "passes.tile.lowering.staging.images",
    "passes.tile.masks.either",
    "passes.tile.pipeline_loads.next_value",
    "passes.metal.canonicalize_registers.of_literal",
    "passes.tile.split_interior._relax_comparison",
    # Of copies that a branch begins, which its product waits for.
    "passes.metal.async_copies._is_in_the_way",
    "passes.metal.async_copies._load_masked",
    "passes.metal.async_copies._mask",
}


def functions(path: Path) -> Iterator[tuple[str, list[int]]]:
    """The functions of a module, each with the lines of its statements that raise nothing."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef):
            continue
        lines: list[int] = []
        pending: list[ast.AST] = [*node.body]
        while pending:
            statement = pending.pop()
            if isinstance(statement, ast.FunctionDef | ast.Raise):
                continue
            is_docstring = isinstance(statement, ast.Expr) and isinstance(
                statement.value, ast.Constant
            )
            if isinstance(statement, ast.stmt) and not is_docstring:
                lines.append(statement.lineno)
            pending += [x for x in ast.iter_child_nodes(statement) if isinstance(x, ast.stmt)]
        if lines:
            yield node.name, sorted(lines)


def test_every_function_is_called_for_some_program() -> None:
    # In a process of its own: here, other tests have filled the caches of the compiler.
    done = subprocess.run(
        [sys.executable, "-m", "reached"],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines_of: dict[str, list[int]] = json.loads(done.stdout)
    never: set[str] = set()
    for name, found in sorted(lines_of.items()):
        path = Path(name)
        module = path.relative_to(SOURCE).as_posix()
        if module.startswith(OTHERS):
            continue
        reached = set(found)
        for function, lines in functions(path):
            missing = [line for line in lines if line not in reached]
            where = f"{module[:-3].replace('/', '.')}.{function}"
            if len(missing) == len(lines):
                never.add(where)
            elif missing:
                print(f"{where}: {', '.join(map(str, missing))}")
    unreached = never - set(CANNOT) - counts(RARE, set())
    assert not unreached, f"never called: {sorted(unreached)}"
    assert set(CANNOT) <= never, f"called, after all: {sorted(set(CANNOT) - never)}"
