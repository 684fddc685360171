"""Texts and types that must be refused are found where a parser or an op accepts them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from iris.ir import parse, verify
from iris.ir.core import OPS
from iris.ir.text.cursor import Cursor
from iris.ir.tile import Reshape
from iris.testing.choices import Choices
from iris.testing.text_edits import edits, is_refused_or_printed
from iris.testing.type_edits import FREE, check_types

TEXT = """\
func tile @f(%X: ptr<f32, noalias, aligned>) {
  %at: tile<8xi32> = tile.arange 0
  %m: tile<8xbool> = compare lt %at, %at
  %c: tile<8xf32> = constant nan(2143289345)
  %x: tile<8xf32> = tile.load %X, %at, mask=%m, other=%c at "a \\".py":3
  %y: tile<2x4xf32> = tile.reshape %x
  %t: tile<4x2xf32> = tile.transpose [1, 0] %y
  return
}
"""


BYTES = 1 << 16


def _edit() -> None:
    for text in edits(TEXT, Choices(Random(1).randbytes(BYTES)), 2000):
        is_refused_or_printed(text)


def _retype() -> None:
    (function,) = parse(TEXT)
    check_types(function, Choices(Random(1).randbytes(BYTES)), 600)


def test_what_is_right_passes_and_stays() -> None:
    _edit()
    module = parse(TEXT)
    (function,) = module
    check_types(function, Choices(Random(1).randbytes(BYTES)), 600)
    assert module == parse(TEXT)
    verify(module)


def test_the_table_names_fields_of_ops() -> None:
    for (op, field), free in FREE.items():
        spec = OPS[op].spec
        assert field in ("result", *[f.name for f in spec.operands]), (op, field)
        assert free <= {"bits", "kind", "sizes", "rank", "facts", "lanes"}


def _listed(self: Cursor, opening: str, closing: str, item: Callable[[], Any]) -> list[Any]:
    self.expect(opening)
    items = []
    while not self.accept(closing):
        self.accept(",")
        items.append(item())
    return items


def _close(self: Cursor, text: str) -> None:
    if not self.accept(text) and text != ">":
        self.fail(text)


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "check", "error"),
    [
        (Cursor, "listed", _listed, _edit, "is taken for"),
        (Cursor, "expect", _close, _edit, "is taken for"),
        (Reshape, "check", lambda op: None, _retype, "may be"),
        (sys.modules[verify.__module__], "_verify_types", lambda op: None, _retype, "may be"),
    ],
)
def test_mistakes_are_found(
    owner: Any,
    name: str,
    wrong: Any,
    check: Callable[[], None],
    error: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    for op in OPS.values():  # what was accepted before would not be looked at again
        monkeypatch.setattr(op.spec, "valid", set())
    with pytest.raises(AssertionError, match=error):
        check()
