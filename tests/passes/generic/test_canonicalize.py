"""Canonicalization: each rule case by case, and all of them exact on random expressions."""

from __future__ import annotations

from collections import Counter

import pytest

from expressions import body_after, first_difference, random_expressions
from iris.errors import VerifyError
from iris.ir import Module, math, parse, verify
from iris.ir.control import For, If, While
from iris.ir.core import OPS, Op
from iris.ir.rewriter import Rewriter, Rules
from iris.ir.types import DTYPES
from iris.passes.generic import canonicalize
from iris.passes.generic.canonicalize import Canonicalize
from iris.passes.generic.fold import Fold
from support import counts

ARGUMENTS = (
    "%x: i32, %y: i32, %n: i32, %u: u8, %f: f32, %g: f32, %p: bool, %q: bool, %m: tile<4xi32>"
)

CASES: dict[str, list[tuple[str, str | None]]] = {
    "constant_to_the_right": [
        (
            "%c: i32 = constant 2\n%r: i32 = add %c, %x",
            "%c: i32 = constant 2\n%r: i32 = add %x, %c",
        ),
        (
            "%c: f32 = constant 2.0\n%r: f32 = mul %c, %f",
            "%c: f32 = constant 2.0\n%r: f32 = mul %f, %c",
        ),
        ("%c: i32 = constant 2\n%r: i32 = sub %c, %x", None),
        ("%c: i32 = constant 2\n%d: i32 = constant 3\n%r: i32 = add %c, %d", None),
    ],
    "compare_with_constant": [
        (
            "%c: i32 = constant 2\n%r: bool = compare lt %c, %x",
            "%c: i32 = constant 2\n%r: bool = compare gt %x, %c",
        ),
        (
            "%c: f32 = constant 2.0\n%r: bool = compare ge %c, %f",
            "%c: f32 = constant 2.0\n%r: bool = compare le %f, %c",
        ),
        (
            "%c: i32 = constant 2\n%r: bool = compare eq %c, %x",
            "%c: i32 = constant 2\n%r: bool = compare eq %x, %c",
        ),
    ],
    "add_the_negative": [
        (
            "%c: i32 = constant 2\n%r: i32 = sub %x, %c",
            "%cm2: i32 = constant -2\n%r: i32 = add %x, %cm2",
        ),
        (
            "%c: u8 = constant 1\n%r: u8 = sub %u, %c",
            "%c255: u8 = constant 255\n%r: u8 = add %u, %c255",
        ),
        (
            "%c: i32 = constant -2147483648\n%r: i32 = sub %x, %c",
            "%cm2147483648: i32 = constant -2147483648\n%r: i32 = add %x, %cm2147483648",
        ),
        ("%c: f32 = constant 2.0\n%r: f32 = sub %f, %c", None),
    ],
    "gather_constants": [
        (
            "%c: i32 = constant 1\n%d: i32 = constant 2\n"
            "%a: i32 = add %x, %c\n%r: i32 = add %a, %d",
            "%c3: i32 = constant 3\n%r: i32 = add %x, %c3",
        ),
        (
            "%c: tile<4xi32> = constant 3\n"
            "%a: tile<4xi32> = mul %m, %c\n%r: tile<4xi32> = mul %c, %a",
            "%c9: tile<4xi32> = constant 9\n%r: tile<4xi32> = mul %m, %c9",
        ),
        (
            "%c: f32 = constant 1.0\n%a: f32 = add %f, %c\n%r: f32 = add %a, %c",
            None,
        ),
        ("%c: i32 = constant 1\n%a: i32 = add %x, %c\n%r: i32 = mul %a, %c", None),
        ("%c: i32 = constant 1\n%a: i32 = add %x, %c\n%r: i32 = add %a, %y", None),
    ],
    "no_nan_in_integers": [
        ("%r: i32 = maxnum %x, %y", "%r: i32 = maximum %x, %y"),
        ("%r: u8 = minnum %u, %u", "%r: u8 = minimum %u, %u"),
        ("%r: f32 = maxnum %f, %g", None),
    ],
    "negate_comparison": [
        ("%a: bool = compare lt %x, %y\n%r: bool = not %a", "%r: bool = compare ge %x, %y"),
        ("%a: bool = compare ne %x, %y\n%r: bool = not %a", "%r: bool = compare eq %x, %y"),
        ("%a: bool = compare eq %f, %g\n%r: bool = not %a", "%r: bool = compare ne %f, %g"),
        ("%a: bool = compare lt %f, %g\n%r: bool = not %a", None),
    ],
    "select_by_the_positive": [
        ("%a: bool = not %p\n%r: i32 = select %a, %x, %y", "%r: i32 = select %p, %y, %x"),
        ("%a: bool = not %p\n%r: bool = select %q, %a, %p", None),
    ],
    "select_of_truths": [
        (
            "%t: bool = constant true\n%f0: bool = constant false\n%r: bool = select %p, %t, %f0",
            "%p",
        ),
        (
            "%t: bool = constant true\n%f0: bool = constant false\n%r: bool = select %p, %f0, %t",
            "%r: bool = not %p",
        ),
        (
            "%t: tile<4xbool> = constant true\n%f0: tile<4xbool> = constant false\n"
            "%r: tile<4xbool> = select %p, %t, %f0",
            None,  # the condition is a scalar
        ),
    ],
    "assume_once": [
        (
            "%a: i32 = assume_divisible 16 %x\n%r: i32 = assume_divisible 24 %a",
            "%r: i32 = assume_divisible 48 %x",
        ),
        (
            # 135 would be over the range.
            "%b: i8 = cast %x\n%a: i8 = assume_divisible 27 %b\n%r: i8 = assume_divisible 5 %a",
            None,
        ),
    ],
    "cast_there_and_back": [
        ("%a: i64 = cast %x\n%r: i32 = cast %a", "%x"),
        ("%a: u8 = cast %p\n%r: bool = cast %a", "%p"),
        ("%a: f32 = cast %p\n%r: bool = cast %a", "%p"),
        ("%a: u8 = cast %x\n%r: i32 = cast %a", None),
        ("%a: f32 = cast %x\n%r: i32 = cast %a", None),
        ("%a: bool = cast %x\n%r: i32 = cast %a", None),
        ("%a: i64 = cast %u\n%r: i32 = cast %a", None),
    ],
    "branch_on_the_positive": [
        (
            "%a: bool = not %p\n%r: i32 = if %a {\n  yield %x\n} else {\n  yield %y\n}",
            "%r: i32 = if %p {\n  yield %y\n} else {\n  yield %x\n}",
        ),
    ],
    "same_from_both_branches": [
        ("%r: i32 = if %p {\n  yield %x\n} else {\n  yield %x\n}", "%x"),
        (
            # What is made inside is never the same in both.
            "%r: i32 = if %p {\n  %a: i32 = neg %x\n  yield %a\n} else {\n"
            "  %b: i32 = neg %x\n  yield %b\n}",
            None,
        ),
    ],
    "not_carried": [
        ("%c: i32 = constant 0\n%d: i32 = constant 1\n"
         "%r: i32 = for %c, %n, %d (%i: i32, %a: i32 = %x) {\n  yield %a\n}", "%x"),
        ("%c: i32 = constant 0\n%d: i32 = constant 1\n"
         "%r: i32 = for %c, %n, %d (%i: i32, %a: i32 = %x) {\n  yield %x\n}", "%x"),
        # The loop stays: it may never end.
        ("%r: i32 = while (%a: i32 = %x) {\n  yield %p\n} do (%b: i32) {\n  yield %b\n}",
         "while {\n  yield %p\n} do {\n  yield\n}\nreturn %x"),
        (
            # Something else from the second round on.
            "%c: i32 = constant 0\n%d: i32 = constant 1\n"
            "%r: i32 = for %c, %n, %d (%i: i32, %a: i32 = %x) {\n  yield %y\n}",
            None,
        ),
        (
            "%c: i32 = constant 0\n%d: i32 = constant 1\n"
            "%r: i32 = for %c, %n, %d (%i: i32, %a: i32 = %x) {\n  yield %i\n}",
            None,
        ),
        (
            # Two values that change places.
            "%c: i32 = constant 0\n%d: i32 = constant 1\n"
            "%r: i32, %s: i32 = for %c, %n, %d (%i: i32, %a: i32 = %x, %b: i32 = %y) {\n"
            "  yield %b, %a\n}",
            None,
        ),
    ],
    "single_round": [
        (
            "%c: i32 = constant 3\n%d: i32 = constant 4\n%e: i32 = constant 1\n"
            "%r: i32 = for %c, %d, %e (%i: i32, %a: i32 = %x) {\n"
            "  %b: i32 = sub %i, %a\n  yield %b\n}",
            "%c: i32 = constant 3\n%b: i32 = sub %c, %x\nreturn %b",
        ),
        (
            "%c: i32 = constant 3\n%d: i32 = constant 5\n%e: i32 = constant 1\n"
            "%r: i32 = for %c, %d, %e (%i: i32, %a: i32 = %x) {\n"
            "  %b: i32 = sub %i, %a\n  yield %b\n}",
            None,
        ),
    ],
}  # fmt: skip


def canonical(body: str) -> str:
    return body_after("canonicalize", ARGUMENTS, body)


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [(rule, *case) for rule, cases in CASES.items() for case in cases],
)
def test_rule(rule: str, before: str, after: str | None) -> None:
    """`after` is None if nothing happens, and an argument if the result is that."""
    expected = before if after is None else after
    if "return" not in expected:
        expected = f"{expected}\nreturn %r" if " = " in expected else f"return {expected}"
    assert canonical(before) == expected


def test_every_rule_has_a_case() -> None:
    rules = [rule for cls in OPS.values() for rule in canonicalize.rules.of(cls)]
    # Those of register arrays are in a module of their own, and so are their tests.
    names = {rule.__name__ for rule in rules if rule.__module__ == canonicalize.__name__}
    assert names == set(CASES)


def test_it_does_what_its_docstring_shows() -> None:
    before = """
        %c1: i32 = constant 1
        %a: i32 = sub %x, %c1
        %b: bool = compare gt %c1, %a
"""
    after = """
        %c1: i32 = constant 1
        %cm1: i32 = constant -1
        %a: i32 = add %x, %cm1
        %b: bool = compare lt %a, %c1
"""
    lines = [line.strip() for line in after.strip().splitlines()]
    assert canonical(before) == "\n".join([*lines, "return %b"])
    assert before in (Canonicalize.__doc__ or "")
    assert after in (Canonicalize.__doc__ or "")


def test_a_long_sum_is_gathered_in_one_go() -> None:
    lines = ["%c: i32 = constant 3", "%v0: i32 = add %x, %c"]
    lines += [f"%v{n}: i32 = {'add' if n % 2 else 'sub'} %v{n - 1}, %c" for n in range(1, 401)]
    text = canonical("\n".join(lines))
    assert text == "%c3: i32 = constant 3\n%v400: i32 = add %x, %c3\nreturn %v400"


def test_a_loop_found_to_carry_nothing_feeds_back() -> None:
    """Found inside the body, it makes a constant of what the body adds to others."""
    text = canonical("""
%c0: i32 = constant 0
%c1: i32 = constant 1
%c2: i32 = constant 2
%r: i32, %s: i32 = for %c0, %n, %c1 (%i: i32, %a: i32 = %y, %b: i32 = %c2) {
  %k: i32 = add %x, %b
  %v: i32 = add %k, %c1
  %w: i32 = if %p {
    yield %b
  } else {
    yield %b
  }
  %z: i32 = mul %v, %a
  yield %z, %w
}
""")
    assert (
        text
        == """\
%c0: i32 = constant 0
%c1: i32 = constant 1
%r: i32 = for %c0, %n, %c1 (%i: i32, %a: i32 = %y) {
  %c3: i32 = constant 3
  %v: i32 = add %x, %c3
  %z: i32 = mul %v, %a
  yield %z
}
return %r"""
    )


@pytest.mark.parametrize(
    "body",
    [
        # Constants that could be moved, swapped or gathered for ever.
        "%c: i32 = constant 1\n%a: i32 = add %c, %c\n%b: i32 = sub %a, %c\n%r: i32 = add %c, %b",
        "%c: i32 = constant 0\n%a: i32 = sub %c, %c\n%r: i32 = sub %a, %a",
        "%t: bool = constant true\n%a: bool = not %t\n%r: bool = select %a, %a, %t",
        "%a: bool = not %p\n%b: bool = not %a\n%d: bool = not %b\n%r: bool = select %d, %b, %d",
        "%c: bool = constant true\n%a: bool = compare lt %c, %p\n%r: bool = not %a",
        "%c: i32 = constant 1\n%d: i32 = constant 2\n"
        "%a: bool = compare lt %c, %d\n%r: bool = not %a",
        "%a: bool = not %p\n%r: i32 = if %a {\n  yield %x\n} else {\n  yield %x\n}",
        "%c: i32 = constant 0\n%d: i32 = constant 1\n"
        "%r: i32 = for %c, %d, %d (%i: i32, %a: i32 = %d) {\n"
        "  %s: i32 = for %i, %a, %a (%j: i32, %b: i32 = %a) {\n"
        "    yield %b\n  }\n  yield %s\n}",
    ],
)  # fmt: skip
def test_it_ends_and_has_nothing_left_to_do(body: str) -> None:
    last = [line for line in body.splitlines() if line.startswith("%")][-1]
    inner = body.replace("\n", "\n  ")
    type_ = last.partition(" = ")[0].partition(": ")[2]
    module = parse(f"func tile @f returns=[{type_}]({ARGUMENTS}) {{\n  {inner}\n  return %r\n}}\n")
    settle(module)


def settle(module: Module) -> Counter[str]:
    """Run both passes until neither changes anything, each alone doing all it can."""
    seen: Counter[str] = Counter()
    for _ in range(6):
        changed = False
        for rewrite in (Canonicalize(), Fold()):
            counted = rewrite.run(module)
            changed |= bool(counted)
            seen += counted
            verify(module)
            once = module.clone()
            assert not rewrite.run(module), "the first run left something to do"
            assert module == once
        if not changed:
            return seen
    pytest.fail("the two passes do not come to an end")


def both(module: Module) -> None:
    Canonicalize().run(module)
    Fold().run(module)
    Canonicalize().run(module)


def test_values_stay_exact_on_random_expressions() -> None:
    seen: Counter[str] = Counter()
    for dtype in DTYPES.values():
        for seed in range(counts(40, 400)):
            seen += Canonicalize().run(random_expressions(seed, dtype))
    assert set(seen) == set(CASES), "some rule was never tried"
    assert first_difference(Canonicalize().run, counts(40, 400)) is None


def test_with_folding_it_settles_and_values_stay_exact() -> None:
    for dtype in DTYPES.values():
        for seed in range(counts(20, 400)):
            module = random_expressions(seed, dtype)
            settle(module)
            assert parse(str(module)) == module
    assert first_difference(both, counts(40, 400)) is None


# Rules that look right and are not.


def swap_any(op: math.Binary, rewriter: Rewriter) -> None:
    if math.constant_bits(op.lhs) is not None and math.constant_bits(op.rhs) is None:
        rewriter.set_operands(op, (op.rhs, op.lhs))


def compare_swapped_but_not_its_predicate(op: math.Compare, rewriter: Rewriter) -> None:
    if math.constant_bits(op.lhs) is not None and math.constant_bits(op.rhs) is None:
        rewriter.set_operands(op, (op.rhs, op.lhs))


def compare_negated_for_swapped(op: math.Compare, rewriter: Rewriter) -> None:
    if math.constant_bits(op.lhs) is not None and math.constant_bits(op.rhs) is None:
        rewriter.replace(op, math.Compare(op.predicate.negated, op.rhs, op.lhs))


def gather_any(op: math.Binary, rewriter: Rewriter) -> None:
    inner = op.lhs.op
    if type(inner) is type(op) and math.constant_bits(op.rhs) is not None:
        assert isinstance(inner, math.Binary)
        if math.constant_bits(inner.rhs) is not None:
            total = rewriter.insert(type(op)(inner.rhs, op.rhs), op)
            rewriter.replace(op, type(op)(inner.lhs, total.results[0]))


def negate_any_comparison(op: math.Not, rewriter: Rewriter) -> None:
    inner = op.x.op
    if isinstance(inner, math.Compare):
        rewriter.replace(op, math.Compare(inner.predicate.negated, inner.lhs, inner.rhs))


def plain_maximum_of_floats(op: math.MaxNum, rewriter: Rewriter) -> None:
    rewriter.replace(op, math.Maximum(op.lhs, op.rhs))


def any_cast_there_and_back(op: math.Cast, rewriter: Rewriter) -> None:
    inner = op.x.op
    if isinstance(inner, math.Cast) and inner.x.type is op.results[0].type:
        rewriter.replace(op, inner.x)


def branches_not_swapped(op: If, rewriter: Rewriter) -> None:
    if isinstance(op.condition.op, math.Not):
        rewriter.set_operands(op, (op.condition.op.x,))


def what_one_branch_yields(op: If, rewriter: Rewriter) -> None:
    for result, value in zip(op.results, op.then.end.operands, strict=True):
        if result.users and value.home is not op.then:
            rewriter.replace_value(result, value)


def swapped_is_unchanged(op: For | While, rewriter: Rewriter) -> None:
    arguments = op.body.arguments
    for result, start, end in zip(op.results, op.initial, op.body.end.operands, strict=True):
        if end in arguments and result.users and end.type is result.type:
            rewriter.replace_value(result, start)


def yielded_from_outside(op: For | While, rewriter: Rewriter) -> None:
    """True of all rounds but the first."""
    for result, end in zip(op.results, op.body.end.operands, strict=True):
        if end.home is op.parent and result.users:
            rewriter.replace_value(result, end)


@pytest.mark.parametrize(
    ("classes", "rule"),
    [
        ((math.Binary,), swap_any),
        ((math.Compare,), compare_swapped_but_not_its_predicate),
        ((math.Compare,), compare_negated_for_swapped),
        ((math.Sub,), gather_any),
        ((math.Add,), gather_any),
        ((math.Not,), negate_any_comparison),
        ((math.MaxNum,), plain_maximum_of_floats),
        ((math.Cast,), any_cast_there_and_back),
        ((If,), branches_not_swapped),
        ((If,), what_one_branch_yields),
        ((For, While), swapped_is_unchanged),
        ((For, While), yielded_from_outside),
    ],
)
def test_a_wrong_rule_is_found(classes: tuple[type[Op], ...], rule: object) -> None:
    wrong = Rules()
    wrong(*classes)(rule)  # type: ignore[type-var]

    def rewrite(module: Module) -> None:
        wrong.apply(module)

    try:
        found = first_difference(rewrite, 100)
    except VerifyError:
        return
    assert found is not None
