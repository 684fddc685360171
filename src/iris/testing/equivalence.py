"""Two programs do the same: one that is trusted, and one that somebody wrote or generated."""

from __future__ import annotations

from dataclasses import replace

from iris.errors import ArgumentError
from iris.ir import Module, to_text, verify
from iris.ir.control import Func
from iris.ir.text.diff import diff
from iris.ir.types import Ptr
from iris.passes import Pipeline
from iris.testing.faults import LIMIT, Fault, Wrong, doing
from iris.testing.levels import Expected
from iris.testing.limit import limited
from iris.testing.outcomes import Outcome
from iris.testing.report import ReplayFile
from iris.tools.replay import Program


def equivalent(a: Program, b: Program | Module | Func, *, rounding: bool = False) -> None:
    """Asserts that two programs do the same with the arguments of the first.

        equivalent(program, rewritten_by_hand)

    They may be of different levels and have different grids; a module or function without a launch
    of its own is launched as `a` is.  Arrays, results and printed lines must have the same bits.
    With `rounding`, `a` is a tile program, and the arrays of `b` must be within its bounds, as for
    `preserves`.  The error shows the first element that differs, both programs, and commands that
    run them.
    """
    __tracebackhide__ = True
    other = _launched_like(a, b)
    compare = _compare_within_bounds if rounding else _compare_bits
    try:
        compare(a, other)
    except Wrong as wrong:
        raise AssertionError(_describe(wrong, a, other)) from wrong.error


def _launched_like(a: Program, b: Program | Module | Func) -> Program:
    """The second program, with the arguments of the first."""
    if isinstance(b, Func):
        b = Module([b.clone({})])
    if isinstance(b, Module):
        functions = [f for f in b if isinstance(f, Func)]
        named = [f for f in functions if f.symbol == a.entry] or functions
        if len(named) != 1:
            raise ArgumentError(f"the module has {len(named)} functions, none called @{a.entry}")
        b = replace(a, module=b, entry=named[0].symbol)
    one, other = (_signature(p.function) for p in (a, b))
    if one != other:
        raise ArgumentError(f"@{a.entry} and @{b.entry} differ in type: {one} and {other}")
    return replace(b, arguments=a.arguments)


def _signature(function: Func) -> str:
    """What a function takes and gives; what a compiler may know of a pointer does not matter."""
    types = [v.type for v in function.body.arguments]
    taken = [Ptr(t.element) if isinstance(t, Ptr) else t for t in types]
    given, returned = (", ".join(map(str, types)) for types in (taken, function.returns))
    return f"({given}) -> ({returned})"


def _compare_bits(a: Program, b: Program) -> None:
    with doing("the first program fails"), limited(LIMIT):
        verify(a.module)
        expected = Outcome.of(a)
    with doing("the second program fails"), limited(LIMIT):
        verify(b.module)
        found = Outcome.of(b)
    with doing("the second program does something else"):
        expected.compare(found)


def _compare_within_bounds(a: Program, b: Program) -> None:
    with doing("the first program fails"), limited(LIMIT):
        verify(a.module)
        expected = Expected.of(a, exact_math=False)
    arguments = b.make_arguments()
    with doing("the second program fails"), limited(LIMIT):
        verify(b.module)
        b.run(arguments, output=lambda line: None)
    with doing("the second program does something else"):
        expected.compare(arguments)


def _describe(wrong: Wrong, a: Program, b: Program) -> str:
    error = wrong.error
    what = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
    changes = diff(to_text(a.module), to_text(b.module), "the first program", "the second program")
    parts = [f"{wrong.doing}: {what}", str(a), changes]
    for program in (a, b):
        fault = Fault(program, Pipeline(), wrong)
        file = ReplayFile(fault)
        file.keep(fault)
        parts.append(str(file))
    return "\n\n".join(part.rstrip() for part in parts)
