"""Attributes that let an op overwrite what is read again, which are refused."""

from __future__ import annotations

import pytest

from iris.codegen import emit
from iris.errors import ParseError, VerifyError
from iris.ir import parse, verify
from iris.ir.control import Func
from iris.testing.texts import shaped

HEAD = "%X: ptr<f32>, %n: i32, %c0: i32, %c1: i32"
LOADS = """
%a: regs<1x2xf32> = metal.load %X, %c0
%x: regs<2x2xf32> = metal.load %X, %c1
"""


def kernel(body: str) -> Func:
    module = parse(f"func metal @f simdgroups=1({HEAD}) {{\n{LOADS}{body}\nreturn\n}}\n")
    verify(module)
    (function,) = module
    assert isinstance(function, Func)
    return function


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "%y: regs<1x2xf32> = metal.mma %a, %a, %a, in_place=true\nmetal.store %X, %c0, %y",
            "mma: %a: regs<1x2xf32> is not free",
        ),
        (
            "for %c0, %n, %c1 (%k: i32) {\n"
            "%b: regs<1x2xf32> = metal.load %X, %k\n"
            "%l: regs<2x2xf32> = metal.join %b, %b\n"
            "%y: regs<2x2xf32> = metal.mma %l, %b, %x, in_place=true\n"
            "metal.store %X, %k, %y\nyield\n}",
            "mma: %x: regs<2x2xf32> is not free",
        ),
        (
            "%y: regs<2x2xf32> = for %c0, %n, %c1, in_place=[0] "
            "(%k: i32, %s: regs<2x2xf32> = %x) {\nyield %s\n}\n"
            "metal.store %X, %c0, %y\nmetal.store %X, %c0, %x",
            "for: %x: regs<2x2xf32> is not free",
        ),
        (
            "%y: regs<2x2xf32> = metal.foreach 2 in_place=[0] (%i: i32) {\n"
            "%j: i32 = sub %c1, %i\n%p: regs<1x2xf32> = metal.slice %x, %j\nyield %p\n}\n"
            "metal.store %X, %c0, %y",
            "foreach: %x: regs<2x2xf32> is not free",
        ),
        (
            "%y: regs<2x2xf32> = metal.foreach 2 in_place=[1] (%i: i32) {\n"
            "%p: regs<1x2xf32> = metal.slice %x, %i\nyield %p\n}\n"
            "metal.store %X, %c0, %y",
            "foreach: no array of its own has the number 1",
        ),
    ],
)
def test_what_is_read_again_is_not_overwritten(body: str, message: str) -> None:
    function = kernel(body)
    with pytest.raises(VerifyError, match=message):
        emit(function)
    assert emit(shaped(function)).text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "for %c0, %n, %c1, in_place=[0] (%k: i32) {\nyield\n}",
            "for: no carried value has the number 0",
        ),
        (
            "%y: regs<2x2xf32> = metal.foreach 2 in_place=[0, 0] (%i: i32) {\n"
            "%p: regs<1x2xf32> = metal.slice %x, %i\nyield %p\n}",
            "foreach: 2 numbers for 1 results",
        ),
    ],
)
def test_numbers_of_nothing_are_invalid(body: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        kernel(body)
