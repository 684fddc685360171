"""The first value that a pass changed: where to look when a program comes out wrong.

    changed_value(fault)    # "the first value that differs is %y: f32 = sub %c8, %x: ..."

A pass works on its module in place, so a value that it keeps is the same object before and after.
Both programs run with all such values returned, and these are compared.
"""

from __future__ import annotations

import numpy as np

from iris.ir.core import Value
from iris.ir.math import element_type
from iris.ir.text.printer import Printer
from iris.ir.types import ElementType
from iris.passes import Pipeline
from iris.testing.elements import around
from iris.testing.faults import Fault, Wrong, copied, doing, stage_options
from iris.tools.replay import Program, Values
from iris.tools.run import bits_of


def changed_value(fault: Fault) -> str | None:
    """The first value outside loops and branches that the guilty pass kept, and that has other
    bits after it; None if there is none, or either program fails."""
    step = fault.step
    # A pass that failed on its way may have left a function beside the one that it makes of it.
    if step is None or len(list(step.before)) != len(list(step.after)):
        return None
    before, after = (fault.program.with_module(m) for m in (step.before, step.after))
    pairs = _kept(before, after, step.kept)
    rest = fault.pipeline.after(step.position + 1)
    try:
        with doing("failed"):
            olds = _values(before, [old for old, _ in pairs], rest)
            news = _values(after, [new for _, new in pairs], rest)
    except Wrong:
        return None
    for (_, value), was, now in zip(pairs, olds, news, strict=True):
        dtype = element_type(value.type).element
        was, now = (bits_of(dtype, x) for x in (was, now))
        what = None
        if was.size != now.size:  # the interpreter leaves out what a slice has beyond the end
            what = f"it has {now.size} elements and not {was.size}"
        elif (different := np.flatnonzero(was != now)).size:
            what = around(dtype, was, now, int(different[0]))
        if what is not None:
            return f"the first value that differs is {_line(after, value)}: {what}"
    return None


def _kept(before: Program, after: Program, kept: dict[Value, Value]) -> list[tuple[Value, Value]]:
    """The values before and after a pass, in order, of those that it kept."""
    body = before.function.body
    return [
        (kept[value], value)
        for op in after.function.body
        for value in op.results
        if isinstance(value.type, ElementType)
        and value in kept
        and kept[value].home is body
        and kept[value].type is value.type
    ]


def _values(program: Program, values: list[Value], rest: Pipeline) -> list[Values]:
    """What some values are when a program runs."""
    module, copies = copied(program.module)
    watched = program.with_module(module)
    function = watched.function
    function.body.end.set_operands(tuple([copies[v] for v in values]))
    function.set_returns(tuple([v.type for v in values]))
    options = stage_options(watched, rest)
    return watched.run(watched.make_arguments(), output=lambda line: None, **options)


def _line(program: Program, value: Value) -> str:
    """The first line of the op that gives a value."""
    printer = Printer(locations=False)
    printer.op(program.function, "")
    name = printer.names[value]
    return next(line.strip() for line in printer.lines if f"{name}: " in line)
