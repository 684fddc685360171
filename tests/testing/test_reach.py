"""Random programs reach the whole compiler: they call every function of the passes that lower Tile
IR, and of codegen, or the table here says why they cannot.

The test prints the lines that no program reached of each function that is called.
"""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Iterator
from pathlib import Path

import coverage
from hypothesis import Phase, given, settings
from hypothesis.strategies import SearchStrategy

from iris.codegen import emit
from iris.compiler.compilation import METAL_PIPELINE
from iris.errors import OutOfResources
from iris.ir import math, tile
from iris.ir.control import For
from iris.passes import run as run_passes
from iris.testing import programs
from iris.testing.levels import with_simdgroups
from iris.tools.replay import Program
from support import ROOT, counts

SOURCE = ROOT / "src" / "iris"
ROOMS = ("analysis", "passes", "codegen")
SIMDGROUPS = (0, 1, 2, 4, 8)  # 0: as many as the pass chooses
BLOCKS = [For, math.Add, math.FloorDiv, math.Select, tile.Load, tile.Dot, tile.Reduce, tile.Store]
# What is not called to lower and print tile programs at all.
OTHERS = (
    "codegen/languages/cuda.py",
    "passes/__init__.py",
    "passes/graph/expand_scatter.py",
    "passes/graph/fuse.py",
    "passes/graph/graph_to_tile.py",
    "passes/instruments.py",
    "passes/manager.py",
    "passes/pipeline.py",
    "passes/graph/simplify/",
    "passes/graph/tiling/",
)
WHEN_IMPORTED = "called when its module is imported"
EXPANDED = "expand-math leaves none of it"
# Why no random program that is right, and was written without layouts, gets there.
CANNOT = {
    "codegen.elementwise._erf": EXPANDED,
    "codegen.elementwise._sigmoid": EXPANDED,
    "codegen.languages.msl._both": WHEN_IMPORTED,
    "codegen.languages.msl._precise": WHEN_IMPORTED,
    "codegen.language.versions": "is said by devices",
    "codegen.shapes._refused": "choose-register-shapes finds shapes that fit",
    "codegen.writer.unsupported": "check-target refuses it before",
    "analysis.axis.along_each": WHEN_IMPORTED,
    "analysis.axis.divisibility": "shows what is known; passes ask axis by axis",
    "passes.generic.fold.reduce": "is of graphs",
    "passes.tile.lowering.lower_reduce._combine_extremes": WHEN_IMPORTED,
    "passes.tile.lowering.lower_to_metal._line_of": "is of programs with lines",
    "passes.tile.lowering.staging.lower_unstage": "no pass makes tile.unstage",
    "analysis.ordering._orders": "is of programs that have barriers already",
    "passes.metal.uniform_conditions.run": "lowering does what the pass does",
}
# What only some of thousands of programs get to, as `make campaign` draws them.
RARE = {
    "codegen.control._computed",
    "analysis.ranges._literal",
    "codegen.registers._literal",
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


def compile_all(strategy: SearchStrategy[Program], number: int) -> None:
    drawn: list[Program] = []

    @settings(max_examples=number, phases=[Phase.generate])
    @given(strategy)
    def draw(program: Program) -> None:
        drawn.append(program)

    draw()
    for index, program in enumerate(drawn):
        pipeline = with_simdgroups(METAL_PIPELINE, SIMDGROUPS[index % len(SIMDGROUPS)])
        try:
            (function,) = run_passes(program.module, pipeline)
        except OutOfResources:
            continue
        emit(function)


def forget() -> None:
    """Empties the caches of the compiler: what other tests have filled would not be called."""
    for found in gc.get_objects():
        if isinstance(found, functools._lru_cache_wrapper) and found.__module__.startswith(
            tuple(f"iris.{room}." for room in ROOMS)
        ):
            found.cache_clear()


def test_every_function_is_called_for_some_program() -> None:
    forget()
    rooms = [f"{SOURCE}/{room}/*" for room in ROOMS]
    watch = coverage.Coverage(data_file=None, config_file=False, include=rooms)
    watch.start()
    try:
        compile_all(programs.tile(masked=True, max_ops=20), counts(260, 2500))
        compile_all(programs.tile(fast_math=True), counts(30, 1000))
        compile_all(programs.tile(ops=BLOCKS, masked=True), counts(50, 1000))
    finally:
        watch.stop()
    data = watch.get_data()
    never: set[str] = set()
    for name in sorted(data.measured_files()):
        path = Path(name)
        module = path.relative_to(SOURCE).as_posix()
        if module.startswith(OTHERS):
            continue
        reached = set(data.lines(name) or ())
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
