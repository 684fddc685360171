"""What must hold of programs, and of passes over them.  A failure shows the program."""

from __future__ import annotations

from collections.abc import Sequence

from iris.ir import Module, parse, to_text, verify
from iris.passes import Pass, Pipeline
from iris.testing.faults import Judge, doing, stage_options
from iris.testing.levels import Expected
from iris.testing.outcomes import Outcome
from iris.testing.reduce import SECONDS
from iris.testing.report import check
from iris.tools.replay import Program


def preserves(
    passes: Pass | Pipeline | str,
    program: Program,
    *,
    rounding: bool = False,
    seconds: float = SECONDS,
) -> None:
    """Asserts that passes keep what a program does.

        preserves(MyPass(), program)
        preserves("fold,my-pass{most=4},dce", program)

    The IR must be valid, and equal to what is read back from its text, before and after; the
    interpreter must end with the same bits in every array, return the same bits (one nan is like
    another), and print the same.  An exception of any kind is a failure, too.  The error names the
    first pass after which something is wrong and shows what it changed, for the smallest program
    found in some `seconds`, and how to run that.

    With `rounding`, a pass of tile programs may round otherwise where a GPU may, too, and arrays
    must end within the bounds of `iris.testing.bounds`: reductions, scans and dots take any order,
    functions such as `exp` are as exact as Metal's, and with `fast_math` every sum and product
    takes any order.
    """
    __tracebackhide__ = True
    oracle = within_bounds if rounding else same_bits
    check(program, [pipeline_of(passes)], oracle, seconds=seconds)


def all_preserve(
    several: Sequence[Pass | Pipeline | str], program: Program, *, seconds: float = SECONDS
) -> None:
    """Asserts that each of several passes or pipelines, alone, keeps what a program does.

        all_preserve(["cse", "dce"], program)

    As `preserves` does of one, but the program is checked and run once for all of them.
    """
    __tracebackhide__ = True
    check(program, [pipeline_of(passes) for passes in several], same_bits, seconds=seconds)


def same_bits(program: Program) -> Judge:
    """The oracle of `preserves`: what passes make of a program must do the very same."""
    roundtrips(program)
    expected = Outcome.of(program)

    def judge(made: Program, rest: Pipeline) -> None:
        if made.module == program.module:
            return
        with doing("made IR that is not read back as it was"):
            _read_back(made.module, to_text(made.module, locations=True))
        with doing("made a program that fails"):
            found = Outcome.of(made, **stage_options(made, rest))
        with doing("changed what the program does"):
            expected.compare(found)

    return judge


def within_bounds(program: Program) -> Judge:
    """The oracle of `preserves` where passes may round otherwise."""
    roundtrips(program)
    expected = Expected.of(program, exact_math=False)

    def judge(made: Program, rest: Pipeline) -> None:
        if made.module == program.module:
            return
        with doing("made IR that is not read back as it was"):
            _read_back(made.module, to_text(made.module, locations=True))
        arguments = made.make_arguments()
        with doing("made a program that fails"):
            made.run(arguments, output=lambda line: None, **stage_options(made, rest))
        with doing("changed what the program does"):
            expected.compare(arguments)

    return judge


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
    text_roundtrips(module, to_text(module, locations=True))


def text_roundtrips(module: Module, shown: str) -> None:
    """Asserts that valid IR, shown as a text, is the same once that is read, or copied."""
    again = _read_back(module, shown)
    # A copy of what was read back, so that one print shows both.
    if to_text(again.clone(), locations=True) != shown:
        assert to_text(again, locations=True) == shown, f"printed otherwise once read:\n{shown}"
        raise AssertionError(f"a copy is printed otherwise:\n{shown}")


def _read_back(module: Module, shown: str) -> Module:
    """What is read from the text of a module: the same."""
    again = parse(shown)  # which verifies it
    assert again == module, f"not equal once read back:\n{shown}"
    return again
