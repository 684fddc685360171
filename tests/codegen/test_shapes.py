"""Register arrays in shapes that no text can have, which are refused."""

from __future__ import annotations

import pytest

from iris.codegen import emit
from iris.errors import VerifyError
from iris.ir import parse, verify
from iris.ir.control import Func

HEAD = "%X: ptr<f16, aligned>, %U: ptr<f16>, %B: ptr<bool, aligned>, %F: ptr<f32>, %i: i32, %h: f16"
LOAD = '%x: regs<1x8xf16> = metal.load %X, %i at "k.py":7\n'


def kernel(body: str) -> Func:
    module = parse(f"func metal @f simdgroups=1({HEAD}) {{\n{body}\nreturn\n}}\n")
    verify(module)
    (function,) = module
    assert isinstance(function, Func)
    return function


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            LOAD + '%y: regs<1x8xf16> = neg %x at "k.py":8\nmetal.store %X, %i, %y',
            "neg: .* is held as words, which are only moved at k.py:8",
        ),
        (LOAD + "%y: f16 = metal.take [3] %x\nmetal.store %X, %i, %y", "take: .* words"),
        (LOAD + "%y: f16 = metal.slice %x, %i\nmetal.store %X, %i, %y", "slice: .* words"),
        (
            LOAD + "%y: regs<2x4xf16> = metal.slice %x, %i\nmetal.store %X, %i, %y",
            "slice: .* is all of %x: regs<1x8xf16>, and is held otherwise",
        ),
        (LOAD + "metal.store %U, %i, %x", "store: .* words"),
        ("%b: regs<1x8xbool> = metal.load %B, %i\nmetal.store %B, %i, %b", "load: .* words"),
        (LOAD + "%y: regs<1x8xf16> = neg %x", None),
        (
            "%x: regs<1x8xf16> = constant 1.0\nmetal.store %X, %i, %x",
            "constant: .* words",
        ),
        ("%x: regs<1x8xf16> = metal.splat %h\nmetal.store %X, %i, %x", "splat: .* words"),
        (
            "%x: regs<4x1xf32> = metal.load %F, %i\nmetal.store %F, %i, %x",
            "load: .* is held by element, and is moved as a vector",
        ),
        (
            "%x: regs<4xf32> = metal.load %F, %i\n"
            "%y: regs<8xf32> = metal.join %x, %x\n"
            "%z: regs<8xf32> = metal.mma %x, %x, %y\n"
            "%one: f32 = metal.take [0] %z\n"
            "metal.store %F, %i, %one",
            "mma: %x: regs<4xf32> is not held by twos, as a matrix is",
        ),
        (
            "%x: regs<2x2xf32> = metal.foreach 1 (%j: i32) {\n"
            "%e: regs<1x4xf32> = metal.load %F, %i\nyield %e\n}\n"
            "metal.store %F, %i, %x",
            "foreach: .* is all of %x: regs<2x2xf32>",
        ),
    ],
)
def test_refused(body: str, message: str | None) -> None:
    function = kernel(body)
    if message is None:  # nobody needs it
        emit(function)
        return
    with pytest.raises(VerifyError, match=f"{message}.*; choose-register-shapes finds"):
        emit(function)


def test_words_are_moved_where_a_mask_is_true() -> None:
    text = emit(
        kernel(
            "%zero: regs<1x8xf16> = constant 0.0\n%inside: bool = compare ge %i, %i\n"
            "%x: regs<1x8xf16> = metal.load %X, %i, mask=%inside, other=%zero\n"
            "metal.store %X, %i, %x"
        )
    ).text
    assert "uint4(0)" in text
    assert "half4" not in text


def test_arrays_of_no_chosen_shape_are_held_as_is_usual() -> None:
    text = emit(
        kernel(
            "%x: regs<8xf16> = metal.load %X, %i\n%y: regs<8xf16> = neg %x\n"
            "%z: regs<8xf16> = exp %y\nmetal.store %X, %i, %z\nmetal.store %X, %i, %y"
        )
    ).text
    assert "half4 x[2]" in text
