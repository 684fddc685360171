"""Pipelines as text, and what runs them."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from iris.errors import DeclarationError, PassError, PipelineError, VerifyError
from iris.ir import Level, Module, parse, verify
from iris.passes import PASSES, Pass, Pipeline, run
from iris.passes.instruments import Check, Snapshots, Timing
from iris.targets import DEFAULT
from iris.targets.apple import M4

TEXT = """\
func tile @f(%x: f32, %X: ptr<f32>, %n: i32) {
  %a: f32 = mul %x, %x
  %b: f32 = mul %x, %x
  %c: f32 = add %a, %b
  tile.store %X, %n, %c
  return
}
"""


class Order(Enum):
    ROWS = "rows"
    SERPENTINE = "serpentine"


@pytest.fixture(autouse=True)
def own_passes() -> Iterator[None]:
    """Passes that a test defines are forgotten after it."""
    known = dict(PASSES)
    yield
    PASSES.clear()
    PASSES.update(known)


def define_options() -> type[Pass]:
    @dataclass(frozen=True)
    class Tune(Pass):
        """Do nothing, in many ways."""

        name = "tune-it"
        num_simdgroups: int = 4
        ratio: float = 0.5
        fast: bool = False
        order: Order = Order.ROWS

        def run(self, module: Module) -> None:
            pass

    return Tune


def test_a_pipeline_parses_and_prints() -> None:
    tune = define_options()
    text = "cse,tune-it{num-simdgroups=8,fast=true,order=serpentine},dce"
    pipeline = Pipeline.parse(text)
    assert str(pipeline) == text
    assert pipeline.passes[1] == tune(num_simdgroups=8, fast=True, order=Order.SERPENTINE)  # type: ignore[call-arg]
    spaced = " cse , tune-it{ num-simdgroups = 8, fast=true ,order=serpentine} ,dce "
    assert Pipeline.parse(spaced) == pipeline
    assert str(Pipeline.parse("tune-it{num-simdgroups=4}")) == "tune-it"
    assert Pipeline.parse(str(Pipeline.parse("tune-it{ratio=0.25}"))).passes[0].ratio == 0.25  # type: ignore[attr-defined]
    assert Pipeline.parse("").passes == ()
    assert Pipeline.parse(" ").passes == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cs", "no pass is called 'cs'; there are allocate-threadgroup, "),
        ("cse,", "expected a pass"),
        (",cse", "expected a pass"),
        ("cse dce", "expected a pass"),
        ("cse{", "expected a pass"),
        ("cse{a=1}", "cse has no option 'a'; it has none"),
        ("tune-it{fast}", "'fast' needs a value"),
        ("tune-it{fast=true,fast=true}", "'fast' is given twice"),
        ("tune-it{fast=1}", "fast is one of true, false, not '1'"),
        ("tune-it{num-simdgroups=x}", "num-simdgroups is of type int, not 'x'"),
        ("tune-it{order=up}", "order is one of rows, serpentine, not 'up'"),
        ("tune-it{num_simdgroups=2}", "it has num-simdgroups, ratio, fast, order"),
    ],
)
def test_mistakes_in_a_pipeline(text: str, message: str) -> None:
    define_options()
    with pytest.raises(PipelineError, match=re.escape(message)):
        Pipeline.parse(text)


def test_a_pipeline_names_its_target() -> None:
    pipeline = Pipeline.parse("cse,check-resources,allocate-threadgroup{budget=64}")
    assert str(pipeline.on(DEFAULT)) == str(pipeline)
    text = "cse,check-resources{target=apple-m4},allocate-threadgroup{target=apple-m4,budget=64}"
    assert str(pipeline.on(M4)) == text
    assert Pipeline.parse(text) == pipeline.on(M4)
    with pytest.raises(PipelineError, match=r"target is one of apple-m1, .*, not 'm4'"):
        Pipeline.parse("check-resources{target=m4}")


def test_a_pass_defined_again_takes_the_place_of_the_first() -> None:
    first = define_options()
    second = define_options()
    assert PASSES["tune-it"] is second is not first
    with pytest.raises(DeclarationError, match="two passes are called 'cse'"):
        type("Mine", (Pass,), {"name": "cse"})
    with pytest.raises(DeclarationError, match="lower-case"):
        type("Mine", (Pass,), {"name": "My Pass"})


def test_the_module_given_is_left_alone() -> None:
    module = parse(TEXT)
    result = run(module, "cse,dce")
    assert str(module) == TEXT
    assert str(result).count("mul") == 1


def test_a_pass_of_another_level_is_refused() -> None:
    @dataclass(frozen=True)
    class OnlyMetal(Pass):
        name = "only-metal"
        level = Level.METAL

        def run(self, module: Module) -> None:
            raise AssertionError("it must not run")

    with pytest.raises(PipelineError, match="only-metal works on the metal level, but @f is at"):
        run(parse(TEXT), "cse,only-metal")


class Crash(RuntimeError):
    pass


def define_crash() -> None:
    @dataclass(frozen=True)
    class Crashes(Pass):
        name = "crashes"

        def run(self, module: Module) -> None:
            raise Crash("of all things")


def test_a_crash_leaves_one_file_that_replays_it(tmp_path: Path) -> None:
    define_crash()
    with pytest.raises(PassError) as caught:
        run(parse(TEXT), "cse,crashes,dce", reproducers=tmp_path)
    assert isinstance(caught.value.__cause__, Crash)
    (file,) = tmp_path.iterdir()
    command = f'iris opt --verify-each --passes "crashes,dce" {file}'
    assert "the pass crashes failed: Crash: of all things" in str(caught.value)
    assert command in str(caught.value)
    text = file.read_text()
    assert text.startswith(f"# {command}\n")
    assert parse(text) == run(parse(TEXT), "cse")


def test_a_crash_is_told_even_where_no_file_can_be_written(tmp_path: Path) -> None:
    define_crash()
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(PassError, match="no file to replay it could be written"):
        run(parse(TEXT), "crashes", reproducers=blocked)


def test_verify_each_names_the_pass_that_broke_the_ir(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Breaks(Pass):
        name = "breaks"

        def run(self, module: Module) -> None:
            for function in module:
                function.regions[0].end.detach()

    with pytest.raises(PassError, match="the pass breaks failed") as caught:
        run(parse(TEXT), "cse,breaks,dce", [Check(verify)], reproducers=tmp_path)
    assert isinstance(caught.value.__cause__, VerifyError)
    replay = next(tmp_path.iterdir()).read_text()
    assert '--passes "breaks,dce"' in replay


def test_snapshots_and_timing() -> None:
    snapshots, timing = Snapshots(), Timing()
    run(parse(TEXT), "licm,cse,dce", [snapshots, timing])
    assert [(s.name, s.changed) for s in snapshots.stages] == [
        ("input", True),
        ("licm", False),
        ("cse", True),
        ("dce", False),
    ]
    assert str(snapshots.stages[0].module) == TEXT
    assert "%b: f32 = mul" not in str(snapshots.stages[2].module)
    assert [done.name for done, _, _ in timing.rows] == ["licm", "cse", "dce"]
    assert timing.rows[1][2] == {"merged": 1}
    assert "cse" in str(timing)
    assert str(timing).splitlines()[-1].startswith("total")


def define_collector_watch(failing: bool) -> list[bool]:
    """A pass that lists whether the collector of cycles is on while it runs."""
    seen: list[bool] = []

    @dataclass(frozen=True)
    class Watch(Pass):
        """Say whether cycles are collected."""

        name = "watch-collector"

        def run(self, module: Module) -> None:
            seen.append(gc.isenabled())
            if failing:
                raise PipelineError("no more")

    return seen


def test_cycles_are_collected_after_the_passes_only() -> None:
    seen = define_collector_watch(failing=False)
    run(parse(TEXT), "watch-collector,watch-collector")
    assert seen == [False, False]
    assert gc.isenabled()


def test_cycles_are_collected_after_a_pass_that_fails() -> None:
    seen = define_collector_watch(failing=True)
    with pytest.raises(PipelineError, match="no more"):
        run(parse(TEXT), "watch-collector")
    assert seen == [False]
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    define_collector_watch(failing=False)
    gc.disable()
    try:
        run(parse(TEXT), "watch-collector")
        assert not gc.isenabled()
    finally:
        gc.enable()
