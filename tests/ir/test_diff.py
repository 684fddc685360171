"""Diffs of IR text: what is shown is what changed, not what is called otherwise."""

from __future__ import annotations

from iris.ir import parse
from iris.ir.text.diff import diff
from iris.passes import run

TEXT = """\
func tile @f(%X: ptr<f32>, %a: f32, %b: f32, %i: i32) {
  %0: f32 = mul %a, %b
  %1: f32 = mul %a, %b
  %2: f32 = sub %0, %1
  %y: f32 = add %2, %a
  %y_1: f32 = sub %y, %2
  tile.store %X, %i, %y_1
  return
}
"""


def lines(before: str, after: str) -> list[str]:
    """What a diff takes away and adds."""
    return [line for line in diff(before, after).splitlines()[2:] if line[0] in "+-"]


def test_values_numbered_anew_are_no_change() -> None:
    other = TEXT.replace("%0", "%7").replace("%2", "%0").replace("%y_1", "%y_5")
    assert lines(TEXT, other) == []
    assert diff(TEXT, TEXT, "one", "two") == "--- one\n+++ two\n"


def test_an_op_less_and_what_used_it() -> None:
    text = str(run(parse(TEXT), "cse"))
    assert lines(TEXT, text) == [
        "-  %0: f32 = mul %a, %b",
        "-  %2: f32 = sub %0, %1",
        "+  %1: f32 = sub %0, %0",
    ]


def test_operands_that_change_places() -> None:
    swapped = TEXT.replace("sub %0, %1", "sub %1, %0").replace("add %2, %a", "add %2, %b")
    assert lines(TEXT, swapped) == [
        "-  %2: f32 = sub %0, %1",
        "-  %y: f32 = add %2, %a",
        "+  %2: f32 = sub %1, %0",
        "+  %y: f32 = add %2, %b",
    ]


def test_a_diff_has_line_numbers_and_what_is_around() -> None:
    assert diff(TEXT, TEXT.replace("add", "mul"), "traced", "odd") == (
        "--- traced\n+++ odd\n@@ -2,7 +2,7 @@\n"
        "   %0: f32 = mul %a, %b\n"
        "   %1: f32 = mul %a, %b\n"
        "   %2: f32 = sub %0, %1\n"
        "-  %y: f32 = add %2, %a\n"
        "+  %y: f32 = mul %2, %a\n"
        "   %y_1: f32 = sub %y, %2\n"
        "   tile.store %X, %i, %y_1\n"
        "   return\n"
    )
