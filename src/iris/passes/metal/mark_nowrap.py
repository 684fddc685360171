"""Saying which arithmetic of integers need not wrap."""

from __future__ import annotations

from dataclasses import dataclass

from iris.analysis.ranges import Ranges, ends_inside
from iris.ir import math
from iris.ir.control import For, Func
from iris.ir.core import Facet, Level, Module
from iris.ir.math import Nowrap, makes_addresses
from iris.passes.pipeline import Pass

#: Says in an attribute of an op what bounds show, and gives whether they show anything.
mark = Facet("mark of what does not wrap")


@dataclass(frozen=True)
class MarkNowrap(Pass):
    """Say which arithmetic of integers need not wrap, and why not.

        %lane: i32 = metal.lane
        %first: i32 = mul %row, %n
        %at: i32 = add %first, %lane
        %x: i32 = metal.load %X, %at
        %y: i32 = add %x, %lane
        %half: i32 = floordiv %lane, %c3
        %next: i32 = sub %half, %c4

    becomes

        %lane: i32 = metal.lane
        %first: i32 = mul %row, %n, nowrap=address
        %at: i32 = add %first, %lane, nowrap=address
        %x: i32 = metal.load %X, %at
        %y: i32 = add %x, %lane
        %half: i32 = floordiv %lane, %c3, natural=true
        %next: i32 = sub %half, %c4, nowrap=fits

    Integers wrap in the IR, but overflow of signed ones is undefined in C++, MSL included.  So the
    text of arithmetic goes through unsigned, unless

    - the bounds of the operands show that the result fits; or
    - all that is made of it is addresses.  There a result that does not fit is the program's error,
      and an intermediate one does no harm: a compiler may compute it wider, which leaves the final
      address what it is.  A sum that is cast must wrap before: that may be what makes it fit.

    Run it last: what changes arithmetic knows nothing of the marks.
    """

    name = "mark-nowrap"
    level = Level.METAL

    def run(self, module: Module) -> dict[str, int]:
        return {"ops": sum(_mark(f) for f in module if isinstance(f, Func))}


def _mark(function: Func) -> int:
    """Mark the ops of a function; give how many do not wrap."""
    ops = function.body.walk()
    ranges = Ranges(ops, function.simdgroups)
    count = 0
    # Backwards: what makes addresses of a value comes after it.
    for op in reversed(ops):
        rule = mark.get(type(op))
        if rule is not None:
            count += rule(ranges, op)
    return count


@mark(math.Wrapping)
def _mark_arithmetic(ranges: Ranges, op: math.Wrapping) -> bool:
    reason = _reason(ranges, op)
    op.attributes = (reason,)
    return reason is not Nowrap.NONE


def _reason(ranges: Ranges, op: math.Wrapping) -> Nowrap:
    """Why the op need not wrap."""
    if not op.results[0].type.element.is_integer:
        return Nowrap.NONE
    if ranges.fits(op):
        return Nowrap.NATURAL if ranges.is_natural(*op.operands) else Nowrap.FITS
    return Nowrap.ADDRESS if op.modular and makes_addresses(op) else Nowrap.NONE


@mark(math.Abs)
def _mark_magnitude(ranges: Ranges, op: math.Abs) -> bool:
    least, _ = ranges.of(op.x)
    op.attributes = (Nowrap.FITS if least > op.x.type.element.low else Nowrap.NONE,)
    return not op.may_wrap


@mark(math.Division)
def _mark_division(ranges: Ranges, op: math.Division) -> bool:
    is_natural = op.results[0].type.element.is_integer and ranges.is_natural(*op.operands)
    op.set_attribute("natural", is_natural)
    return is_natural


@mark(For)
def _mark_loop(ranges: Ranges, op: For) -> bool:
    is_inside = ends_inside(ranges, op)
    op.set_attribute("nowrap", is_inside)
    return is_inside
