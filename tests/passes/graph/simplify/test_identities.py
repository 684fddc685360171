"""Arithmetic that comes to the same."""

from __future__ import annotations

import pytest

from graph_rules import becomes, names
from iris.passes.graph.simplify import Simplify, identities
from iris.passes.graph.simplify.rule_helpers import rules

ARGUMENTS = (
    "%x: tensor<9xf32>, %y: tensor<9xf32>, %h: tensor<9xf16>, %b: tensor<9xbf16>, "
    "%i: tensor<9xi32>, %j: tensor<9xi32>, %u: tensor<9xu8>, %s: tensor<9xi8>, %p: tensor<9xbool>, "
    "%q: tensor<9xbool>, %w: tensor<9xi64>"
)
F, H, N, U = "tensor<9xf32>", "tensor<9xf16>", "tensor<9xi32>", "tensor<9xu8>"


def divided(
    number: str, inverse: str | None, type_: str = F, x: str = "%x"
) -> tuple[str, str | None]:
    before = f"%c: {type_} = constant {number}\n%r: {type_} = div {x}, %c"
    after = f"%c: {type_} = constant {inverse}\n%r: {type_} = mul {x}, %c"
    return before, after if inverse else None


def cast_twice(x: str, middle: str, target: str, once: bool) -> tuple[str, str | None]:
    before = f"%a: tensor<9x{middle}> = cast {x}\n%r: tensor<9x{target}> = cast %a"
    return before, f"%r: tensor<9x{target}> = cast {x}" if once else None


CASES: dict[str, list[tuple[str, str | None]]] = {
    "add_negative": [
        (f"%a: {F} = neg %y\n%r: {F} = add %x, %a", f"%r: {F} = sub %x, %y"),
        (f"%a: {F} = neg %y\n%r: {F} = add %a, %x", f"%r: {F} = sub %x, %y"),
        (f"%a: {U} = neg %u\n%r: {U} = add %u, %a", f"%r: {U} = sub %u, %u"),
    ],
    "subtract_negative": [
        (f"%a: {F} = neg %y\n%r: {F} = sub %x, %a", f"%r: {F} = add %x, %y"),
        (f"%a: {F} = neg %y\n%r: {F} = sub %a, %x", None),
    ],
    "subtract_from_zero": [
        (f"%c: {N} = constant 0\n%r: {N} = sub %c, %i", f"%r: {N} = neg %i"),
        (f"%c: {F} = constant -0.0\n%r: {F} = sub %c, %x", f"%r: {F} = neg %x"),
        (f"%c: {F} = constant 0.0\n%r: {F} = sub %c, %x", None),  # 0.0 - 0.0 is 0.0
    ],
    "negate_difference": [
        (f"%a: {N} = sub %i, %j\n%r: {N} = neg %a", f"%r: {N} = sub %j, %i"),
        (f"%a: {F} = sub %x, %y\n%r: {F} = neg %a", None),  # -(1.0 - 1.0) is -0.0
    ],
    "multiply_by_minus_one": [
        (f"%c: {F} = constant -1.0\n%r: {F} = mul %x, %c", f"%r: {F} = neg %x"),
        (f"%c: {N} = constant -1\n%r: {N} = mul %c, %i", f"%r: {N} = neg %i"),
        (f"%c: {U} = constant 255\n%r: {U} = mul %u, %c", None),
    ],
    "ratio_or_product_of_negatives": [
        (
            f"%a: {F} = neg %x\n%b1: {F} = neg %y\n%r: {F} = mul %a, %b1",
            f"%r: {F} = mul %x, %y",
        ),
        (
            f"%a: {F} = neg %x\n%b1: {F} = neg %y\n%r: {F} = div %a, %b1",
            f"%r: {F} = div %x, %y",
        ),
        (f"%a: {F} = neg %x\n%r: {F} = mul %a, %y", None),
    ],
    "abs_of_sign": [
        (f"%a: {F} = neg %x\n%r: {F} = abs %a", f"%r: {F} = abs %x"),
        (f"%a: {N} = neg %i\n%r: {N} = abs %a", f"%r: {N} = abs %i"),
        (f"%a: {U} = neg %u\n%r: {U} = abs %a", f"%r: {U} = neg %u"),
        (f"%r: {N} = abs %i", None),
    ],
    "abs_or_rounding_again": [
        (f"%a: {F} = abs %x\n%r: {F} = abs %a", f"%r: {F} = abs %x"),
        (f"%a: {F} = floor %x\n%r: {F} = round %a", f"%r: {F} = floor %x"),
        (f"%a: {F} = abs %x\n%r: {F} = floor %a", None),
    ],
    "divide_by_power_of_two": [
        divided("8.0", "0.125"),
        divided("-0.5", "-2.0"),
        divided("8.507059e+37", "1.1754944e-38"),
        divided("1.1754944e-38", "8.507059e+37"),
        divided("16384.0", "0.00006103515625", H, "%h"),
        # The inverse is no number of the dtype, or subnormal.
        divided("3.0", None),
        divided("1.7014118e+38", None),
        divided("32768.0", None, H, "%h"),
        divided("0.0", None),
        divided("inf", None),
        divided("nan", None),
    ],
    "pow_of_small_exponent": [
        (f"%c: {F} = constant 2.0\n%r: {F} = pow %x, %c", f"%r: {F} = mul %x, %x"),
        (f"%c: {F} = constant 0.0\n%r: {F} = pow %x, %c", f"%r: {F} = constant 1.0"),
        (f"%c: {F} = constant -0.0\n%r: {F} = pow %x, %c", f"%r: {F} = constant 1.0"),
        (f"%c: {F} = constant 0.5\n%r: {F} = pow %x, %c", None),
    ],
    "select_of_select": [
        (
            f"%a: {F} = select %p, %x, %y\n%c: {F} = exp %x\n%r: {F} = select %p, %a, %c",
            f"%c: {F} = exp %x\n%r: {F} = select %p, %x, %c",
        ),
        (
            f"%a: {F} = select %p, %x, %y\n%c: {F} = exp %x\n%r: {F} = select %p, %c, %a",
            f"%c: {F} = exp %x\n%r: {F} = select %p, %c, %y",
        ),
        (f"%a: {F} = select %p, %x, %y\n%r: {F} = select %q, %a, %x", None),
    ],
    "cast_of_cast": [
        cast_twice("%s", "i32", "f32", True),
        cast_twice("%s", "i32", "u8", True),
        cast_twice("%u", "i16", "i8", True),
        cast_twice("%u", "f16", "f32", True),
        cast_twice("%h", "f32", "bf16", True),
        cast_twice("%b", "f32", "f16", True),
        cast_twice("%p", "i8", "f32", True),
        cast_twice("%i", "i64", "bool", True),
        cast_twice("%i", "i16", "i64", False),
        cast_twice("%i", "f32", "bf16", False),
        cast_twice("%i", "u64", "f32", False),
        cast_twice("%x", "f16", "f32", False),
        cast_twice("%h", "bf16", "f32", False),
        cast_twice("%b", "f16", "f32", False),
        cast_twice("%i", "bool", "f32", False),
        cast_twice("%u", "f32", "i8", False),  # is an error for 200
    ],
}


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [(rule, *case) for rule, cases in CASES.items() for case in cases],
)
def test_identities(rule: str, before: str, after: str | None) -> None:
    becomes(Simplify(), rule, ARGUMENTS, before, after)


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == names(rules, identities)
