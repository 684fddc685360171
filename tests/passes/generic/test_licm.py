"""Loop-invariant code motion, case by case."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from iris.ir import parse, verify
from iris.passes import run

HEAD = "%X: ptr<f32>, %Y: ptr<f32>, %Z: ptr<f32, noalias>, %n: i32, %d: i32, %a: f32, %c: bool"
START = "%z: i32 = constant 0\n%four: i32 = constant 4\n%one: i32 = constant 1\n"


def before_and_in_loop(body: str, level: str = "tile") -> tuple[str, str]:
    """After the pass: what stands before the (only outermost) loop, and the rest."""
    body = indent(START + dedent(body).strip(), "  ")
    module = run(parse(f"func {level} @f({HEAD}) {{\n{body}\n  return\n}}\n"), "licm")
    verify(module)
    text = str(module)
    loop = min(text.find(word) for word in ("for %", "while ") if word in text)
    return text[:loop], text[loop:]


def runtime_loop(op: str) -> str:
    return f"for %z, %n, %one (%k: i32) {{\n  {op}\n  yield\n}}"


def sure_loop(op: str) -> str:
    return f"for %z, %four, %one (%k: i32) {{\n  {op}\n  yield\n}}"


@pytest.mark.parametrize(
    "op",
    [
        "%p: f32 = tile.load %X, %d",
        "%p: i32 = floordiv %n, %d",
        "%p: i32 = mod %n, %d",
        "%p: i32 = shl %n, %d",
        "%p: i32 = cast %a",
    ],
)
def test_what_may_not_be_speculated_leaves_only_a_loop_that_is_sure_to_run(op: str) -> None:
    word = op.split()[3]
    before, loop = before_and_in_loop(runtime_loop(op))
    assert word not in before
    assert word in loop
    before, loop = before_and_in_loop(sure_loop(op))
    assert word in before
    assert word not in loop


@pytest.mark.parametrize("op", ["%p: i32 = floordiv %n, %four", "%p: i32 = shl %n, %one"])
def test_what_cannot_fail_may_be_speculated(op: str) -> None:
    assert op.split()[3] in before_and_in_loop(runtime_loop(op))[0]


def test_a_whole_branch_may_leave() -> None:
    body = "%r: f32 = if %c {\n %p: f32 = mul %a, %a\n yield %p\n} else {\n yield %a\n}"
    before, _ = before_and_in_loop(runtime_loop(body))
    assert "if %c" in before


def test_loads_stay_if_the_loop_may_write_what_they_read() -> None:
    for pointer, leaves in (("%X", False), ("%Y", False), ("%Z", True)):
        op = f"%p: f32 = tile.load %X, %d\n  tile.store {pointer}, %k, %a"
        before, _ = before_and_in_loop(sure_loop(op))
        assert ("tile.load" in before) is leaves


def test_stores_and_convergent_ops_stay() -> None:
    before, _ = before_and_in_loop(sure_loop("tile.store %X, %d, %a"))
    assert "store" not in before
    for op in ("%p: f32 = metal.shuffle_xor 1 %a", "metal.barrier threadgroup"):
        before, loop = before_and_in_loop(sure_loop(op), "metal")
        assert "metal" not in before.split("{", 1)[1]
        assert "metal" in loop


def test_a_branch_with_a_convergent_op_stays() -> None:
    body = "if %c {\n %p: f32 = metal.shuffle_xor 1 %a\n yield\n} else {\n yield\n}"
    before, _ = before_and_in_loop(sure_loop(body), "metal")
    assert "shuffle" not in before


def test_the_condition_of_a_while_runs_at_least_once_its_body_may_not() -> None:
    before, loop = before_and_in_loop(
        """
        %r: i32 = while (%s: i32 = %n) {
          %p: i32 = floordiv %n, %d
          %more: bool = compare lt %s, %p
          yield %more
        } do (%t: i32) {
          %q: i32 = mod %n, %d
          %u: i32 = add %t, %q
          yield %u
        }
        """
    )
    assert "floordiv" in before
    assert "mod" in loop
