"""Folding: each rule case by case, and all of them exact on random expressions."""

from __future__ import annotations

from collections import Counter

import pytest

from expressions import body_after, first_difference, random_expressions
from graph_rules import becomes, graph
from iris.errors import VerifyError
from iris.ir import Module, math, parse
from iris.ir.control import For
from iris.ir.core import OPS, Op
from iris.ir.rewriter import Rewriter, Rules
from iris.ir.types import DTYPES
from iris.passes import run
from iris.passes.generic import fold
from iris.passes.generic.fold import Fold
from support import counts

ARGUMENTS = (
    "%x: i32, %y: i32, %u: u8, %w: i64, %f: f32, %g: f32, %h: f16, %p: bool, %q: bool, "
    "%t: tile<4xi32>, %m: tile<4xbool>"
)

CASES = {
    "evaluate": [
        ("%r: i32 = add %c2, %c3", "%r: i32 = constant 5"),
        ("%r: u8 = sub %u2, %u3", "%r: u8 = constant 255"),
        ("%r: i32 = floordiv %cm1, %c2", "%r: i32 = constant -1"),
        ("%r: f32 = div %f1, %f3", "%r: f32 = constant 0.33333334"),
        ("%r: f32 = div %f0, %f0", "%r: f32 = constant nan"),
        ("%r: f32 = sqrt %fm1", "%r: f32 = constant nan"),
        ("%r: bool = compare lt %c2, %c3", "%r: bool = constant true"),
        ("%r: i64 = cast %cm1", "%r: i64 = constant -1"),
        ("%r: u32 = bitcast %cm1", "%r: u32 = constant 4294967295"),
        ("%r: i32 = select %true, %c2, %c3", "%r: i32 = constant 2"),
        ("%r: f32 = fma %f3, %f3, %fm1", "%r: f32 = constant 8.0"),
        ("%r: tile<4xi32> = mul %t2, %t2", "%r: tile<4xi32> = constant 4"),
    ],
    "beside_a_number": [
        ("%r: i32 = add %x, %c0", "%x"),
        ("%r: i32 = add %c0, %x", "%x"),
        ("%r: f32 = add %f, %fm0", "%f"),
        ("%r: f32 = add %fm0, %f", "%f"),
        ("%r: tile<4xi32> = add %t0, %t", "%t"),
        ("%r: f32 = add %f, %f0", None),  # -0.0 + 0.0 is 0.0
        ("%r: i32 = sub %x, %c0", "%x"),
        ("%r: f32 = sub %f, %f0", "%f"),
        ("%r: f32 = sub %f, %fm0", None),  # -0.0 - -0.0 is 0.0
        ("%r: f32 = sub %f0, %f", None),
        ("%r: i32 = mul %x, %c1", "%x"),
        ("%r: f32 = mul %f1, %f", "%f"),
        ("%r: i32 = mul %x, %cm1", None),
        ("%r: i32 = mul %x, %c0", "%r: i32 = constant 0"),
        ("%r: i32 = and %c0, %x", "%r: i32 = constant 0"),
        ("%r: bool = and %p, %false", "%r: bool = constant false"),
        ("%r: f32 = mul %f, %f0", None),  # -0.0, or nan
        ("%r: f32 = div %f, %f1", "%f"),
        ("%r: i32 = floordiv %x, %c1", "%x"),
        ("%r: f32 = pow %f, %f1", "%f"),
        ("%r: f32 = floordiv %f, %f1", None),
        ("%r: f32 = div %f1, %f", None),
        ("%r: i32 = floordiv %x, %x", None),  # an error if it is zero
        ("%r: i32 = floordiv %c0, %x", None),
        ("%r: i32 = or %x, %c0", "%x"),
        ("%r: i32 = xor %c0, %x", "%x"),
        ("%r: bool = or %p, %false", "%p"),
        ("%r: bool = xor %p, %true", None),
        ("%r: i32 = and %x, %cm1", "%x"),
        ("%r: u8 = and %u255, %u", "%u"),
        ("%r: i32 = or %cm1, %x", "%r: i32 = constant -1"),
        ("%r: bool = and %p, %true", "%p"),
        ("%r: bool = or %p, %true", "%r: bool = constant true"),
        ("%r: i32 = and %x, %c1", None),
        ("%r: i32 = shl %x, %c0", "%x"),
        ("%r: i32 = shr %x, %c0", "%x"),
        ("%r: i32 = shl %c0, %x", None),  # an error if it is too far
    ],
    "cancel": [
        ("%r: i32 = sub %x, %x", "%r: i32 = constant 0"),
        ("%r: i32 = xor %x, %x", "%r: i32 = constant 0"),
        ("%r: bool = xor %p, %p", "%r: bool = constant false"),
        ("%r: f32 = sub %f, %f", None),  # nan, if infinite
        ("%r: i32 = sub %x, %y", None),
    ],
    "reshape": [
        ("%r: tile<4xi32> = tile.broadcast %c0", "%r: tile<4xi32> = constant 0"),
        ("%r: tile<4x1xi32> = tile.expand_dims 1 %t0", "%r: tile<4x1xi32> = constant 0"),
        ("%r: tile<4xi32> = tile.broadcast %x", None),
    ],
    "modulo_one": [
        ("%r: i32 = mod %x, %c1", "%r: i32 = constant 0"),
        ("%r: f32 = mod %f, %f1", None),
        ("%r: i32 = mod %x, %x", None),
    ],
    "same_operands": [
        ("%r: i32 = and %x, %x", "%x"),
        ("%r: bool = or %p, %p", "%p"),
        ("%r: f32 = maximum %f, %f", "%f"),
        ("%r: f32 = minnum %f, %f", "%f"),
        ("%r: i32 = add %x, %x", None),
    ],
    "undo": [
        ("%a: i32 = neg %x\n%r: i32 = neg %a", "%x"),
        ("%a: f32 = neg %f\n%r: f32 = neg %a", "%f"),
        ("%a: bool = not %p\n%r: bool = not %a", "%p"),
        ("%a: i32 = neg %x\n%r: i32 = not %a", None),
        ("%a: i32 = abs %x\n%r: i32 = abs %a", None),
    ],
    "compare_with_itself": [
        ("%r: bool = compare eq %x, %x", "%r: bool = constant true"),
        ("%r: bool = compare le %x, %x", "%r: bool = constant true"),
        ("%r: bool = compare ge %p, %p", "%r: bool = constant true"),
        ("%r: bool = compare ne %x, %x", "%r: bool = constant false"),
        ("%r: bool = compare lt %x, %x", "%r: bool = constant false"),
        ("%r: tile<4xbool> = compare gt %t, %t", "%r: tile<4xbool> = constant false"),
        ("%r: bool = compare eq %f, %f", None),  # whether it is no nan
    ],
    "choose": [
        ("%r: i32 = select %true, %x, %y", "%x"),
        ("%r: i32 = select %false, %x, %y", "%y"),
        ("%r: f32 = select %p, %f, %f", "%f"),
        ("%r: tile<4xi32> = select %mtrue, %t, %t0", "%t"),
    ],
    "convert_to_itself": [
        ("%r: i32 = cast %x", "%x"),
        ("%r: f32 = bitcast %f", "%f"),
        ("%r: i64 = cast %x", None),
    ],
    "bitcast_twice": [
        ("%a: u32 = bitcast %f\n%r: i32 = bitcast %a", "%r: i32 = bitcast %f"),
        ("%a: i32 = bitcast %f\n%r: f32 = bitcast %a", "%f"),
        ("%a: u32 = cast %f\n%r: i32 = bitcast %a", None),
    ],
    "take_branch": [
        ("%r: i32 = if %true {\n  yield %x\n} else {\n  yield %y\n}", "%x"),
        (
            "%r: i32 = if %false {\n  yield %x\n} else {\n"
            "  %a: i32 = add %x, %y\n  yield %a\n}",
            "%a: i32 = add %x, %y",
        ),
        ("%r: i32 = if %p {\n  yield %x\n} else {\n  yield %y\n}", None),
    ],
    "skip_loop": [
        ("%r: i32 = for %c2, %c2, %c1 (%i: i32, %a: i32 = %x) {\n  yield %i\n}", "%x"),
        ("%r: i32 = for %c2, %c3, %cm1 (%i: i32, %a: i32 = %x) {\n  yield %i\n}", "%x"),
        ("%r: i32 = for %c0, %c3, %c0 (%i: i32, %a: i32 = %x) {\n  yield %i\n}", None),
        ("%r: i32 = for %c0, %y, %c1 (%i: i32, %a: i32 = %x) {\n  yield %i\n}", None),
    ],
    "skip_while": [
        ("%r: i32 = while (%a: i32 = %x) {\n  yield %false\n} do (%b: i32) {\n  yield %y\n}", "%x"),
        ("%r: i32 = while (%a: i32 = %x) {\n  yield %p\n} do (%b: i32) {\n  yield %y\n}", None),
        ("%r: i32 = while (%a: i32 = %x) {\n  yield %true\n} do (%b: i32) {\n  yield %y\n}", None),
    ],
}  # fmt: skip

CONSTANTS = {
    **{f"%c{n}": f"i32 = constant {n}" for n in (0, 1, 2, 3)},
    **{f"%u{n}": f"u8 = constant {n}" for n in (2, 3, 255)},
    **{f"%f{n}": f"f32 = constant {n}.0" for n in (0, 1, 3)},
    **{f"%fm{n}": f"f32 = constant -{n}.0" for n in (0, 1)},
    **{f"%t{n}": f"tile<4xi32> = constant {n}" for n in (0, 2)},
    "%cm1": "i32 = constant -1",
    "%true": "bool = constant true",
    "%false": "bool = constant false",
    "%mtrue": "tile<4xbool> = constant true",
}


def with_constants(body: str) -> str:
    """The body, after the constants it names."""
    words = body.replace(",", " ").replace("(", " ").split()
    used = [name for name in CONSTANTS if name in words]
    return "\n".join([*(f"{name}: {CONSTANTS[name]}" for name in used), body])


def folded(body: str) -> str:
    return body_after("fold", ARGUMENTS, body)


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [(rule, *case) for rule, cases in CASES.items() for case in cases],
)
def test_rule(rule: str, before: str, after: str | None) -> None:
    body = with_constants(before)
    if after is None:  # as it was
        expected = f"{body}\nreturn %r"
    elif " = " in after:
        expected = f"{after}\nreturn {after.partition(':')[0]}"
    else:
        expected = f"return {after}"
    assert folded(body) == expected


def test_every_rule_has_a_case() -> None:
    names = {rule.__name__ for cls in OPS.values() for rule in fold.rules.of(cls)}
    assert names == {*CASES, *(rule for rule, _, _ in GRAPH_CASES)}


def test_it_does_what_its_docstring_shows() -> None:
    before = """
        %a: i32 = constant 2
        %b: i32 = constant 3
        %c: i32 = add %a, %b
        %d: i32 = sub %x, %x
        %e: i32 = add %c, %d
    """
    assert folded(before) == "%e: i32 = constant 5\nreturn %e"
    assert before.rstrip() in (Fold.__doc__ or "")


@pytest.mark.parametrize(
    "body",
    [
        "%r: i32 = floordiv %c1, %c0",
        "%r: i32 = mod %c0, %c0",
        "%a: i32 = constant 32\n%r: i32 = shl %c1, %a",
        "%r: i32 = shr %c1, %cm1",
        "%a: f32 = constant 3000000000.0\n%r: i32 = cast %a",
        "%a: f32 = constant nan\n%r: u8 = cast %a",
        "%r: u8 = cast %fm1",
    ],
)
def test_an_error_stays_to_be_reported(body: str) -> None:
    body = with_constants(body)
    assert folded(body) == f"{body}\nreturn %r"


def test_a_nan_that_is_made_is_the_usual_one_and_one_that_is_moved_keeps_its_bits() -> None:
    odd = "%a: u32 = constant 4290772993\n%b: f32 = bitcast %a\n"
    assert folded(odd + "%r: f32 = add %b, %b") == "%r: f32 = constant nan\nreturn %r"
    assert folded(odd + "%r: u32 = bitcast %b") == "%r: u32 = constant 4290772993\nreturn %r"
    chosen = "%n: f32 = constant nan\n%r: f32 = select %true, %b, %n"
    text = folded(with_constants(odd + chosen))
    assert text == "%r: f32 = constant nan(4290772993)\nreturn %r"


def test_what_becomes_known_inside_reaches_what_is_around_it() -> None:
    """A condition found false, a branch and a loop that thereby go."""
    text = folded(
        with_constants(
            """
%y1: i32 = while (%a: i32 = %x) {
  %c: bool = compare lt %c1, %c0
  yield %c
} do (%b: i32) {
  yield %y
}
%n: i32 = sub %y1, %x
%s: i32 = for %c0, %n, %c1 (%i: i32, %k: i32 = %y) {
  yield %i
}
%r: i32 = add %s, %n
"""
        )
    )
    assert text == "return %y"


def test_branches_in_branches_and_values_from_them() -> None:
    text = folded(
        with_constants(
            """
%a: i32, %b: i32 = if %true {
  %c: i32, %d: i32 = if %false {
    yield %x, %x
  } else {
    %e: i32 = mul %x, %y
    yield %e, %y
  }
  yield %d, %c
} else {
  yield %x, %y
}
%r: i32 = sub %a, %b
"""
        )
    )
    assert text == "%e: i32 = mul %x, %y\n%r: i32 = sub %y, %e\nreturn %r"


def test_a_condition_with_effects_is_asked_all_the_same() -> None:
    module = parse("""
        func tile @f returns=[i32](%X: ptr<i32>, %x: i32) {
          %r: i32 = while (%a: i32 = %x) {
            %zero: i32 = constant 0
            tile.store %X, %zero, %x
            %no: bool = constant false
            yield %no
          } do (%b: i32) {
            yield %b
          }
          return %r
        }
    """)
    before = module.clone()
    assert not Fold().run(module)
    assert module == before


def test_a_long_chain_folds_in_one_go() -> None:
    lines = ["%v0: i32 = constant 1"]
    lines += [f"%v{n}: i32 = add %v{n - 1}, %v{n - 1}" for n in range(1, 500)]
    assert folded("\n".join(lines)) == "%v499: i32 = constant 0\nreturn %v499"


def test_values_stay_exact_on_random_expressions() -> None:
    seen: Counter[str] = Counter()
    for dtype in DTYPES.values():
        for seed in range(counts(40, 400)):
            module = random_expressions(seed, dtype)
            seen += Fold().run(module)
            once = module.clone()
            assert parse(str(module)) == module
            assert not Fold().run(module), "the first run left something to do"
            assert module == once
    assert first_difference(Fold().run, counts(40, 400)) is None
    assert set(seen) == set(CASES) - {"reshape"}, "some rule was never tried"


# Rules that look right and are not.


def x_plus_zero(op: math.Add, rewriter: Rewriter) -> None:
    if math.constant_bits(op.rhs) == 0:
        rewriter.replace(op, op.lhs)


def x_minus_minus_zero(op: math.Sub, rewriter: Rewriter) -> None:
    if isinstance(op.rhs.op, math.Constant) and op.rhs.op.value == 0:
        rewriter.replace(op, op.lhs)


def x_times_zero(op: math.Mul, rewriter: Rewriter) -> None:
    if math.constant_bits(op.rhs) == 0:
        rewriter.replace(op, op.rhs)


def x_minus_x(op: math.Sub, rewriter: Rewriter) -> None:
    if op.lhs is op.rhs:
        rewriter.replace(op, math.Constant(0, math.element_type(op.lhs.type)))


def x_equals_x(op: math.Compare, rewriter: Rewriter) -> None:
    if op.lhs is op.rhs and op.predicate is math.Predicate.EQ:
        rewriter.replace(op, math.Constant(True, math.element_type(op.results[0].type)))


def x_floordiv_one(op: math.FloorDiv, rewriter: Rewriter) -> None:
    if isinstance(op.rhs.op, math.Constant) and op.rhs.op.value == 1:
        rewriter.replace(op, op.lhs)


def abs_of_abs_without_it(op: math.Abs, rewriter: Rewriter) -> None:
    if isinstance(op.x.op, math.Neg):
        rewriter.replace(op, op.x.op.x)


def last_value_of_any_loop(op: For, rewriter: Rewriter) -> None:
    if op.results:
        rewriter.replace(op, op.initial)


def carried_by_position_of_another(op: For, rewriter: Rewriter) -> None:
    """Takes swapped values for unchanged ones."""
    for result, start, end in zip(op.results, op.initial, op.body.end.operands, strict=True):
        if end in op.carried_arguments and result.users:
            rewriter.replace_value(result, start)


@pytest.mark.parametrize(
    ("cls", "rule"),
    [
        (math.Add, x_plus_zero),
        (math.Sub, x_minus_minus_zero),
        (math.Mul, x_times_zero),
        (math.Sub, x_minus_x),
        (math.Compare, x_equals_x),
        (math.FloorDiv, x_floordiv_one),
        (math.Abs, abs_of_abs_without_it),
        (For, last_value_of_any_loop),
        (For, carried_by_position_of_another),
    ],
)
def test_a_wrong_rule_is_found(cls: type[Op], rule: object) -> None:
    wrong = Rules()
    wrong(cls)(rule)  # type: ignore[type-var]

    def rewrite(module: Module) -> None:
        wrong.apply(module)

    try:
        found = first_difference(rewrite, 100)
    except VerifyError:
        return
    assert found is not None


GRAPH = "%x: tensor<3x5xf32>, %i: tensor<3x5xi32>, %s: tensor<i32>"
GRAPH_CASES: list[tuple[str, str, str | None]] = [
    (
        "reshape",
        "%c: tensor<1x5xf32> = constant 2.5\n%a: tensor<3x5xf32> = graph.broadcast %c\n"
        "%b: tensor<5x3xf32> = graph.transpose [1, 0] %a\n%d: tensor<15xf32> = graph.reshape %b\n"
        "%r: tensor<7xf32> = graph.slice [0] [2] %d",
        "%r: tensor<7xf32> = constant 2.5",
    ),
    (
        "reshape",
        "%c: tensor<3xi32> = constant 7\n%z: tensor<i32> = constant 7\n"
        "%a: tensor<5xi32> = graph.pad [1] %c, %z\n%r: tensor<8xi32> = graph.concat 0 %a, %c",
        "%r: tensor<8xi32> = constant 7",
    ),
    (
        "reshape",
        "%c: tensor<3xf32> = constant 0.0\n%z: tensor<f32> = constant -0.0\n"
        "%r: tensor<5xf32> = graph.pad [1] %c, %z",
        None,
    ),
    (
        "reduce",
        "%c: tensor<3x5xi32> = constant -7\n%r: tensor<3xi32> = graph.reduce sum [1] %c",
        "%r: tensor<3xi32> = constant -35",
    ),
    (
        "reduce",
        "%c: tensor<3x5xi8> = constant -3\n%r: tensor<3xi8> = graph.reduce prod [1] %c",
        "%r: tensor<3xi8> = constant 13",  # -243 + 256
    ),
    (
        "reduce",
        "%c: tensor<3x5xf32> = constant nan\n%r: tensor<f32> = graph.reduce maximum [0, 1] %c",
        "%r: tensor<f32> = constant nan",
    ),
    (
        "reduce",
        "%c: tensor<3x5xu8> = constant 9\n%r: tensor<5xi32> = graph.reduce argmax [0] %c",
        "%r: tensor<5xi32> = constant 0",
    ),
    (
        "reduce",
        "%c: tensor<3xbool> = constant true\n%r: tensor<bool> = graph.reduce any [0] %c",
        "%r: tensor<bool> = constant true",
    ),
    # Rounded at each step, in any order; of nothing.
    (
        "reduce",
        "%c: tensor<3x5xf32> = constant 0.1\n%r: tensor<f32> = graph.reduce sum [0, 1] %c",
        None,
    ),
    (
        "reduce",
        "%c: tensor<3x0xi32> = constant 5\n%r: tensor<3xi32> = graph.reduce sum [1] %c",
        None,
    ),
    (
        "evaluate",
        "%c: tensor<1000x1000x1000xi32> = constant 5\n%r: tensor<1000x1000x1000xi32> = mul %c, %c",
        "%r: tensor<1000x1000x1000xi32> = constant 25",
    ),
]


@pytest.mark.parametrize(("rule", "before", "after"), GRAPH_CASES)
def test_tensors(rule: str, before: str, after: str | None) -> None:
    if "1000x" in before:
        module = graph(GRAPH, before)
        assert run(module, "fold,dce") == graph(GRAPH, after or "")
    else:
        becomes(Fold(), rule, GRAPH, before, after)
