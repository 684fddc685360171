"""Programs that once went wrong, or easily do, through every oracle of their level."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from iris.compiler.pipelines import GRAPH_PIPELINE, TILE_PIPELINE
from iris.ir import Level
from iris.testing import (
    agree,
    all_preserve,
    cheaper,
    fuses,
    interleaves,
    matches_numpy,
    preserves,
    roundtrips,
    runs_alike,
)
from iris.tools.replay import Program
from on_metal import METAL
from support import ROOT

GENERIC = ("canonicalize", "cse", "dce", "fold", "licm")
FILES = sorted((ROOT / "tests/programs").glob("*.iris"))


def check_tile(program: Program) -> None:
    all_preserve(GENERIC, program)
    preserves(TILE_PIPELINE, program, rounding=True)
    agree(program)


def check_graph(program: Program) -> None:
    all_preserve(GENERIC, program)
    cheaper("cse,dce", program)
    matches_numpy(program, GRAPH_PIPELINE)
    fuses(program)


def check_metal(program: Program) -> None:
    all_preserve([*GENERIC, "fuse-register-loops", "insert-barriers"], program)
    interleaves(program)


CHECKS: dict[Level, Callable[[Program], None]] = {
    Level.TILE: check_tile,
    Level.GRAPH: check_graph,
    Level.METAL: check_metal,
}


def read(file: Path) -> Program:
    return Program.parse(file.read_text(), str(file))


def level(program: Program) -> Level:
    return program.function.function_level


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_interpreters_and_passes_agree(file: Path) -> None:
    program = read(file)
    roundtrips(program)
    CHECKS[level(program)](program)


@pytest.mark.metal
@pytest.mark.parametrize("simdgroups", [1, 4])
def test_the_texts_do_the_same(simdgroups: int) -> None:
    programs = [read(file) for file in FILES]
    texts = [program for program in programs if level(program) is not Level.GRAPH]
    runs_alike(texts, METAL, simdgroups=simdgroups)


@pytest.mark.metal
@pytest.mark.parametrize(
    "file", [file for file in FILES if level(read(file)) is Level.GRAPH], ids=lambda file: file.stem
)
def test_the_kernels_of_graphs_do_the_same(file: Path) -> None:
    fuses(read(file), METAL)


def test_each_file_says_what_it_is_for() -> None:
    assert len(FILES) >= 40
    for file in FILES:
        assert file.read_text().startswith("# "), file
