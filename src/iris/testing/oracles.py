"""What must hold of programs, and of passes over them.  A failure shows the program."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import Module, parse, to_text, verify
from iris.passes import Pass, Pipeline
from iris.passes import run as run_passes
from iris.passes.instruments import Check
from iris.testing.outcomes import Outcome
from iris.testing.report import Report
from iris.tools.replay import Program


def preserves(passes: Pass | Pipeline | str, program: Program) -> None:
    """Asserts that passes keep what a program does.

        preserves(MyPass(), program)
        preserves("fold,my-pass{most=4},dce", program)

    The IR must be valid, and equal to what is read back from its text, before and after; the
    interpreter must end with the same bits in every array, return the same bits (one nan is like
    another), and print the same.  An exception of any kind is a failure, too.  The error shows the
    program, what the passes made of it, and how to run both.
    """
    all_preserve([passes], program)


def all_preserve(several: Sequence[Pass | Pipeline | str], program: Program) -> None:
    """Asserts that each of several passes or pipelines, alone, keeps what a program does.

    all_preserve(["cse", "dce"], program)

    As `preserves` does of one, but the program is checked and run once for all of them.
    """
    pipelines = [pipeline_of(passes) for passes in several]
    with Report(program, pipelines[0]) as report:
        report.doing = "the program is not valid before"
        verify(program.module)
        before = _comes_back(program.module)
        expected = Outcome.of(program)
    for pipeline in pipelines:
        with Report(program, pipeline) as report:
            after = run_passes(program.module, pipeline, [Check(verify)])
            report.after = after
            report.doing = "made IR that is not read back as it was"
            if _comes_back(after) == before:
                continue
            report.doing = "made a program that fails"
            found = Outcome.of(program.with_module(after))
            report.doing = "changed what the program does"
            expected.compare(found)


def pipeline_of(passes: Pass | Pipeline | str) -> Pipeline:
    """A pass, or the text of some, as a pipeline."""
    if isinstance(passes, Pass):
        return Pipeline((passes,))
    return Pipeline.parse(passes) if isinstance(passes, str) else passes


def roundtrips(program: Program | Module) -> None:
    """Asserts that IR is valid and the same once printed and read, or copied.

    @given(programs.tile())
    def test_text(program):
        roundtrips(program)
    """
    module = program.module if isinstance(program, Program) else program
    verify(module)
    _comes_back(module)


def _comes_back(module: Module) -> str:
    """Asserts that valid IR is the same once printed and read, and once copied; its text."""
    shown = to_text(module, locations=True)
    again = parse(shown)  # which verifies it
    assert again == module, f"not equal once read back:\n{shown}"
    # A copy of what was read back, so that one print shows both.
    if to_text(again.clone(), locations=True) != shown:
        assert to_text(again, locations=True) == shown, f"printed otherwise once read:\n{shown}"
        raise AssertionError(f"a copy is printed otherwise:\n{shown}")
    return shown
