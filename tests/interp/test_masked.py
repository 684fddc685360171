"""What masked elements come to, op by op, in the interpreter and in what `follow-masks` makes."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from iris.interp import tile as interp
from iris.interp.operands import Masked, with_axes
from iris.ir import Module, math, parse, tile, verify
from iris.ir.control import Func
from iris.ir.core import Op
from iris.passes import Pass
from iris.passes import run as run_passes
from iris.testing import bounds, preserves, programs
from iris.testing.bounds.frame import BoundedFrame
from iris.testing.levels import Disagreement, agree
from iris.tools.replay import Program
from support import counts

INF, NAN = np.inf, np.nan
UNTOUCHED = 99.0
HEAD = """
%i: tile<4xi32> = tile.arange 0
%c4: tile<4xi32> = constant 4
%iy: tile<4xi32> = add %i, %c4
%there: tile<4xbool> = tile.load %There, %i
%also: tile<4xbool> = tile.load %There, %iy
%x: tile<4xf32> = tile.masked_load %X, %i, %there
%y: tile<4xf32> = tile.masked_load %X, %iy, %also
%full: tile<4xf32> = tile.load %X, %iy
"""


def text_of(body: str) -> str:
    lines = indent(f"{HEAD.strip()}\n{body.strip()}\nreturn", "  ")
    return f"func tile @f(%X: ptr<f32>, %There: ptr<bool>, %Out: ptr<f32>) {{\n{lines}\n}}\n"


def outcomes(body: str, there: str, x: Any = (3, 1, 4, 2), y: Any = (5, 6, 7, 8)) -> list[Any]:
    """What `%Out` holds, by the interpreter and by it after `follow-masks`; `there` says of %x and
    of %y which elements count."""
    found = []
    for passes in ("", "follow-masks"):
        module = run_passes(parse(text_of(body)), passes)
        verify(module)
        (function,) = module
        assert isinstance(function, Func)
        counts = np.array([c == "x" for c in there.replace(" ", "")])
        out = np.full(16, UNTOUCHED, np.float32)
        interp.run(function, (1, 1, 1), [np.array([*x, *y], np.float32), counts, out])
        found.append(out)
    np.testing.assert_array_equal(*found)
    stored = [None if v == UNTOUCHED else float(v) for v in found[0]]
    while stored and stored[-1] is None:
        stored.pop()
    return stored


def of(expression: str, there: str, *values: Any) -> list[Any]:
    """What is stored of an expression of four elements."""
    return outcomes(f"%r: tile<4xf32> = {expression}\ntile.store %Out, %i, %r", there, *values)


def number(expression: str, there: str, *values: Any) -> list[Any]:
    """What is stored of an expression of one."""
    body = f"%c0: i32 = constant 0\n%r: f32 = {expression}\ntile.store %Out, %c0, %r"
    return outcomes(body, there, *values)


def test_what_is_made_of_elements_counts_where_all_of_them_do() -> None:
    assert of("add %x, %y", "xx.. x.x.") == [8]
    assert of("add %x, %full", ".x.x ....") == [None, 7, None, 10]
    assert of("div %full, %x", "xx.. xxxx", (1, 2, 0, 0)) == [5, 3]


def test_of_a_choice_counts_what_is_chosen() -> None:
    choice = "%g: tile<4xbool> = compare {} {}, %full\n%r: tile<4xf32> = select %g, %x, %y\n"
    store = "tile.store %Out, %i, %r"
    high = (1, 9, 1, 9)
    body = choice.format("gt", "%full") + store  # nowhere
    assert outcomes(body, "xx.. x.x.", high) == [5, None, 7]
    body = choice.format("le", "%full") + store  # everywhere
    assert outcomes(body, "xx.. x.x.", high) == [1, 9]
    body = choice.format("lt", "%x") + store  # where the condition itself counts
    assert outcomes(body, "xx.. xxxx", high) == [1, 6]


def test_an_update_keeps_what_counted() -> None:
    assert of("tile.update %full, %x", ".x.x ....") == [5, 1, 7, 2]
    assert of("tile.update %x, %y", "xx.. x.x.") == [5, 1, 7]


@pytest.mark.parametrize(
    ("kind", "there", "values", "expected"),
    [
        ("sum", "x.x. ....", (3, 100, 4, 100), [7]),
        ("sum", ".... ....", (3, 1, 4, 1), []),
        ("prod", ".xx. ....", (0, 3, 4, INF), [12]),
        ("maxnum", "xx.. ....", (-3, -1, 0, 0), [-1]),
        ("maximum", "x.x. ....", (-3, NAN, -4, 0), [-3]),
        ("minnum", ".... ....", (1, 1, 1, 1), []),
    ],
)
def test_a_reduction_leaves_out_what_does_not_count(
    kind: str, there: str, values: Any, expected: list[float]
) -> None:
    assert number(f"tile.reduce {kind} 0 %x", there, values) == expected


def test_a_sum_of_minus_zeros_is_one() -> None:
    (found,) = number("tile.reduce sum 0 %x", "x.x. ....", (-0.0, 1, -0.0, 1))
    assert np.signbit(found)


@pytest.mark.parametrize(
    ("kind", "there", "values", "place"),
    [
        ("argmax", ".xxx ....", (9, 1, 4, 4), [2]),
        ("argmax", ".x.x ....", (0, -INF, 0, -INF), [1]),
        ("argmin", "..x. ....", (0, 0, INF, 0), [2]),
        ("argmax", ".... ....", (0, 0, 0, 0), []),
    ],
)
def test_the_place_of_an_extremum_counts(
    kind: str, there: str, values: Any, place: list[float]
) -> None:
    body = f"%p: i32 = tile.reduce {kind} 0 %x\n%r: f32 = cast %p\n"
    assert (
        outcomes(f"{body}%c0: i32 = constant 0\ntile.store %Out, %c0, %r", there, values) == place
    )


def test_a_scan_goes_on_over_what_does_not_count() -> None:
    assert of("tile.scan sum 0 %x", "x.xx ....", (1, 100, 2, 3)) == [1, None, 3, 6]
    assert of("tile.scan maximum 0 %x", ".x.x ....", (9, 1, 9, 0)) == [None, 1, None, 1]


DOT = """
%xl: tile<1x4xf32> = tile.expand_dims 0 %x
%yc: tile<4x1xf32> = tile.expand_dims 1 %y
%p: tile<1x1xf32> = tile.dot %xl, %yc
%r: f32 = tile.reduce sum 0 %q
%c0: i32 = constant 0
tile.store %Out, %c0, %r
""".replace(
    "%r: f32 = tile.reduce sum 0 %q",
    "%q: tile<1xf32> = tile.reduce sum 0 %p\n%r: f32 = tile.reduce sum 0 %q",
)


@pytest.mark.parametrize(
    ("there", "x", "y", "expected"),
    [
        ("xx.. xxxx", (1, 2, NAN, INF), (3, 4, 5, 6), [11]),
        ("xxxx xx..", (1, 2, 3, 4), (3, 4, INF, NAN), [11]),
        ("xx.. xxxx", (1, 2, 3, 4), (3, 4, INF, NAN), [11]),  # 0 times infinity is no number
        (".... xxxx", (1, 2, 3, 4), (3, 4, 5, 6), []),
        ("xxxx ....", (1, 2, 3, 4), (3, 4, 5, 6), []),
        ("xx.. ..xx", (1, 2, 3, 4), (3, 4, 5, 6), [0]),
    ],
)
def test_a_dot_leaves_out_what_does_not_count(there: str, x: Any, y: Any, expected: Any) -> None:
    assert outcomes(DOT, there, x, y) == expected


def test_accesses_take_place_where_all_they_need_counts() -> None:
    gather = "%at: tile<4xi32> = cast %x\n%r: tile<4xf32> = tile.load %X, %at\n"
    assert outcomes(f"{gather}tile.store %Out, %i, %r", ".x.. ....", (99, 4, 99, 99)) == [None, 5]
    scatter = "%at: tile<4xi32> = cast %x\ntile.store %Out, %at, %full"
    assert outcomes(scatter, "x..x ....", (2, 99, 99, 0)) == [8, None, 5]
    added = "%at: tile<4xi32> = cast %x\n%r: tile<4xf32> = tile.atomic add %Out, %at, %y"
    assert outcomes(added, "xx.x x.xx", (2, 1, 99, 0)) == [107, None, 104]


def test_a_load_with_a_mask_of_its_own_counts_where_what_it_says_instead_does() -> None:
    body = "%at: tile<4xi32> = cast %x\n%r: tile<4xf32> = tile.load %X, %at, mask=%also, other=%y\n"
    store = "tile.store %Out, %i, %r"
    assert outcomes(body + store, "xx.. x.x.", (4, 5, 6, 7)) == [5]
    body = "%r: tile<4xf32> = tile.load %X, %i, mask=%also, other=%x\n"
    assert outcomes(body + store, ".xxx x..x", (1, 2, 3, 4)) == [1, 2, 3, 4]


LOOP = """
%c0: i32 = constant 0
%c1: i32 = constant 1
%c2: i32 = constant 2
%s: tile<4xf32> = for %c0, %c2, %c1 (%k: i32, %old: tile<4xf32> = %full) {
  %new: tile<4xf32> = VALUE
  yield %new
}
tile.store %Out, %i, %s
"""


def test_what_a_loop_makes_of_itself_keeps_what_counted() -> None:
    assert outcomes(LOOP.replace("VALUE", "add %old, %x"), "x..x ....") == [11, 6, 7, 12]
    assert outcomes(LOOP.replace("VALUE", "add %full, %x"), "x..x ....") == [8, None, None, 10]


BRANCH = """
%m: f32 = tile.reduce maxnum 0 %x
%c0_0: f32 = constant 0.0
%g: bool = compare ge %m, %c0_0
%r: tile<4xf32> = if %g {
  yield %x
} else {
  yield %full
}
tile.store %Out, %i, %r
"""


def test_a_condition_that_does_not_count_does_not_hold() -> None:
    assert outcomes(BRANCH, "xx.. ....") == [3, 1]
    assert outcomes(BRANCH, ".... ....") == [5, 6, 7, 8]


def errors(body: str, there: str, x: Any = (1, 2, 3, 4)) -> list[float]:
    """How far what is stored in `%Out` may be off on a device, where `exp` is not exact."""
    (function,) = parse(text_of(body))
    assert isinstance(function, Func)
    counts = np.array([c == "x" for c in f"{there}...."])
    arguments = [np.array([*x, 5, 6, 7, 8], np.float32), counts, np.zeros(4, np.float32)]
    return list(bounds.run(function, (1, 1, 1), arguments)[2])


EXP = "%r: tile<4xf32> = exp %x\n"


def test_an_element_that_does_not_count_has_no_error() -> None:
    first, none, third, last = errors(f"{EXP}tile.store %Out, %i, %r", "x.xx")
    assert none == 0 < first < third < last < 1e-4


def test_the_error_of_a_reduction_is_that_of_what_counts() -> None:
    total = EXP + "%c0: i32 = constant 0\n%s: f32 = tile.reduce {} 0 %r\ntile.store %Out, %c0, %s"
    one, two = (errors(total.format("sum"), there)[0] for there in ("x...", "x..x"))
    assert 0 < one < two < 1e-4
    assert errors(total.format("sum"), "x..x", (1, INF, NAN, 4))[0] == two
    assert errors(total.format("sum"), "....") == [0, 0, 0, 0]
    few, many = (errors(total.format("maximum"), there)[0] for there in ("xx..", ".xx."))
    assert 0 < few < many


def test_a_place_is_determined_by_what_counts() -> None:
    place = EXP + (
        "%p: i32 = tile.reduce argmax 0 %r\n%f: f32 = cast %p\n"
        "%c0: i32 = constant 0\ntile.store %Out, %c0, %f"
    )
    assert errors(place, "xx.x", (1, 2, 2, -1))[0] == 0
    assert errors(place, "xxxx", (1, 2, 2, -1))[0] == INF
    assert errors(place, ".x..", (1, 2, 2, -1))[0] == 0


def test_an_update_has_the_error_of_what_it_keeps() -> None:
    update = EXP + "%u: tile<4xf32> = tile.update %full, %r\ntile.store %Out, %i, %u"
    assert [e > 0 for e in errors(update, "x..x")] == [True, False, False, True]


FAR = """
%far: tile<4xi32> = constant 2147483647
%on: tile<4xi32> = add %i, %far
%at: tile<4xi32> = sub %on, %far
%r: tile<4xf32> = tile.masked_load %X, %at, %there
tile.store %Out, %at, %r
"""


def test_addresses_may_pass_what_i32_holds_where_elements_do_not_count() -> None:
    assert outcomes(FAR, "x..x ....") == [3, None, None, 2]


def test_a_loop_keeps_the_error_of_what_it_keeps() -> None:
    body = LOOP.replace("VALUE", "add %old, %r")
    assert [e > 0 for e in errors(EXP + body, "x..x")] == [True, False, False, True]


def test_nothing_is_determined_if_what_counts_is_not() -> None:
    body = (
        f"{EXP}%g: tile<4xbool> = compare le %r, %r\n"
        "%z: tile<4xf32> = tile.masked_load %X, %i, %g\ntile.store %Out, %i, %z"
    )
    assert errors(body, "xxxx") == [INF, INF, INF, INF]


def test_a_choice_need_not_be_determined_if_both_count() -> None:
    body = (
        f"{EXP}%g: tile<4xbool> = compare lt %r, %r\n"
        "%s: tile<4xf32> = select %g, %x, {}\ntile.store %Out, %i, %s"
    )
    assert errors(body.format("%full"), "xx..") == [4, 4, 0, 0]
    assert errors(body.format("%y"), "xx..") == [INF, INF, INF, INF]


def has_masked_loads(program: Program) -> bool:
    return any(isinstance(op, tile.MaskedLoad) for op in program.module.walk())


@dataclass(frozen=True)
class Forgetting(Pass):
    """Reads what does not count as 0, and lets it count."""

    name = "forget-masks"
    level = tile.TileOp.level

    def run(self, module: Module) -> None:
        for op in module.walk():
            if isinstance(op, tile.MaskedLoad):
                zero = math.Constant(0, op.result.type)  # type: ignore[arg-type]
                load = tile.Load(op.base, op.offset, op.mask, zero.result)
                op.insert_before(zero)
                op.insert_before(load)
                op.result.replace_by(load.result)
                op.erase()


MASKED = """
# grid: 1
# argument %X: f32[8] seed=1 range=[-4.0, -1.0]
# argument %Y: f32[1]

func tile @f(%X: ptr<f32>, %Y: ptr<f32>) {
  %i: tile<16xi32> = tile.arange 0
  %c8: tile<16xi32> = constant 8
  %in: tile<16xbool> = compare lt %i, %c8
  %x: tile<16xf32> = tile.masked_load %X, %i, %in
  %m: f32 = tile.reduce maxnum 0 %x
  %c0: i32 = constant 0
  tile.store %Y, %c0, %m
  return
}
"""


def test_an_oracle_blames_the_pass_that_forgets_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program.parse(MASKED)
    preserves("follow-masks", program)
    with pytest.raises(AssertionError, match=r"\[0\] was -?\d.* and is 0.0"):
        preserves(Forgetting(), program)
    monkeypatch.setattr("iris.passes.tile.follow_masks.identity", lambda kind, dtype: 0.0)
    with pytest.raises(Disagreement, match=r"^follow-masks changed .* Y\[0\] is 0.0 where it must"):
        agree(program)


def spoilt(x: Any) -> Any:
    """A value of which what does not count is as bad as can be."""
    if not isinstance(x, Masked):
        return x
    kind = x.data.dtype.kind
    bad = ~x.data if kind == "b" else NAN if kind == "f" else np.iinfo(x.data.dtype).max
    return Masked(np.where(with_axes(x.counts, x.data), x.data, bad).astype(x.data.dtype), x.counts)


def bounded(program: Program) -> list[Any]:
    """What a program writes, and how far that may be off."""
    arguments = program.make_arguments()
    found = bounds.run(program.function, program.grid, arguments, output=lambda line: None)
    return [*arguments, *found.values()]


@settings(max_examples=counts(40, 5000))
@given(programs.tile(masked=True).filter(has_masked_loads))
def test_what_does_not_count_changes_nothing(program: Program) -> None:
    plain = BoundedFrame.results
    expected = bounded(program)

    def results(self: BoundedFrame, op: Op, rule: Any) -> Any:
        return [spoilt(x) for x in plain(self, op, rule)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BoundedFrame, "results", results)
        for x, y in zip(expected, bounded(program), strict=True):
            np.testing.assert_array_equal(x, y)
