"""What a kernel says: any text, and nothing that is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import ArgumentError, ParseError, ProgramError, VerifyError
from iris.ir import tile, verify
from iris.ir.text.parser import parse

TEXTS = ["plain", "é 😀 \u2028", 'q"\\\n\t\x7f', "nul\0", "{0} %d %s", "\ufeff", ""]
#: Halves of pairs, also two that are a character only to who writes UTF-16.
HALVES = ["a\ud800b", "\udfff", "\ud83d\ude00", "\udc80"]


@iris.kernel
def shows(X, message: iris.constexpr):
    iris.device_print(message, iris.load(X))


@iris.kernel
def asserts(X, message: iris.constexpr):
    iris.device_assert(iris.load(X) > 0, message)


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_any_text_is_said(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.zeros(1, np.float32)
    for text in TEXTS:
        module = parse(shows.lower(x, text, grid=1).tile)
        (op,) = [op for op in module.walk() if isinstance(op, tile.Print)]
        assert op.prefix == text
        shows[1](x, text, device=device)
        assert capsys.readouterr().out.startswith(text)
        with pytest.raises(ProgramError) as raised:
            asserts[1](x, text, device=device)
        assert text in str(raised.value)


@pytest.mark.parametrize("kernel", [shows, asserts])
def test_what_is_no_text_is_refused_at_the_line(kernel: Any) -> None:
    x = np.zeros(1, np.float32)
    for half in HALVES:
        with pytest.raises(ArgumentError, match="half of a pair of surrogates") as raised:
            kernel[1](x, half)
        assert raised.value.spot is not None
        assert raised.value.spot.source.strip().startswith("iris.device_")
        str(raised.value).encode()
    with pytest.raises(ArgumentError, match="takes a string, not"):
        kernel[1](x, 3)


def test_no_string_of_ir_has_them() -> None:
    text = shows.lower(np.zeros(1, np.float32), "here", grid=1).tile
    for half in HALVES:
        escaped = "".join([f"\\u{ord(letter):04x}" for letter in half])
        if half != "\ud83d\ude00":  # which in this text is a character
            with pytest.raises(ParseError, match="prefix must be a string"):
                parse(text.replace("here", escaped))
        module = parse(text)
        (op,) = [op for op in module.walk() if isinstance(op, tile.Print)]
        op.set_attribute("prefix", half)
        with pytest.raises(VerifyError, match="prefix must be a string"):
            verify(module)
