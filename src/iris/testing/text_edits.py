"""Texts of IR with a few tokens too few or too many, or in another's place, or with other numbers.

    for edited in edits(text, choices, 10):
        is_refused_or_printed(edited)

What is accepted must be printed as just these tokens: what a parser skips or overlooks is lost from
there.  Not compared is what a text may say in several ways: how values are called, the order of
what has a name, defaults that are written out, and the digits of floats.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from iris.errors import ParseError, VerifyError
from iris.ir import parse, to_text, verify
from iris.ir.control import Func
from iris.ir.core import OPS
from iris.testing.choices import Choices

# Numbers at the limits of integers, and beyond them.
_LIMITS = tuple(
    [
        sign * (1 << bits) + beyond
        for bits in (31, 32, 7, 8, 15, 16, 31, 63, 64)
        for sign in (1, -1)
        for beyond in (0, -1)
    ]
)
_LENGTHS = (1, 1, 1, 2, 3, 4)  # how many tokens are dropped or doubled at once
TOGETHER = "must run it together"

_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|[%@]\w+|nan\(\d+\)|-?\d[\w.]*(?:[+-]\d+)?|-?\w[\w.\-]*|\S'
)
_WHOLE = re.compile(r"-?\d+")
_FLOAT = re.compile(r"-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf)|nan(?:\(\d+\))?")
_NAMED = re.compile(r",?\s+(\w+)=(\[[^\]]*\]|%\w+|[\w.\-]+)")
_EMPTY = re.compile(r"\(\s*\)")  # parameters of a function without any
_FACTS = re.compile(r"aligned,\s*noalias")


class _Token(NamedTuple):
    start: int
    end: int
    text: str


def edits(text: str, choices: Choices, count: int) -> Iterator[str]:
    """Some texts that differ in a few tokens.

    Where a token stands as few do, between numbers in brackets, say, it is chosen as often as where
    most stand.
    """
    tokens = [_Token(m.start(), m.end(), m[0]) for m in _TOKEN.finditer(text)]
    kinds = ["", *[_kind(token.text) for token in tokens], ""]
    alike: dict[str, list[int]] = {}
    placed: dict[tuple[str, ...], list[int]] = {}
    for at, token in enumerate(tokens):
        # Not where values are defined: a text is hard to compare if two values have one name.
        if token.text[0] != "%" or not text.startswith(":", token.end):
            alike.setdefault(kinds[at + 1], []).append(at)
            placed.setdefault(tuple(kinds[at : at + 3]), []).append(at)
    places = list(placed.values())
    for _ in range(count):
        at = choices.wide(choices.wide(places))
        one = tokens[at]
        last = tokens[min(at + choices.of(_LENGTHS), len(tokens)) - 1]
        other = tokens[choices.wide(choices.of((alike[kinds[at + 1]], choices.wide(places))))]
        match choices.below(6):
            case 5:
                whole = [n for n in alike.get("number", ()) if _WHOLE.fullmatch(tokens[n].text)]
                one = tokens[choices.wide(whole)] if whole else one
                yield f"{text[: one.start]}{choices.of(_LIMITS)}{text[one.end :]}"
            case 0 | 1:
                yield f"{text[: one.start]} {text[last.end :]}"
            case 2:
                yield f"{text[: last.end]} {text[one.start :]}"
            case 3:
                yield text[: one.start] + other.text + text[one.end :]
            case _:
                low, high = sorted((one, other))
                if low is not high:
                    between = text[low.end : high.start]
                    start, end = text[: low.start], text[high.end :]
                    yield f"{start}{high.text}{between}{low.text}{end}"


def _kind(token: str) -> str:
    """What tokens are of one kind with another: a mark is of its own."""
    if token[0] in '%@"':
        return token[0]
    if token[0].isdigit() or token[0] == "-":
        return "number"
    return "word" if token[0].isalpha() else token


def is_refused_or_printed(text: str) -> None:
    """Assert that a text, if it is accepted, is all that the module has."""
    try:
        module = parse(text)
    except ParseError:
        return
    try:
        verify(module)
    except VerifyError as error:  # said of the whole function, unlike all other rules
        assert TOGETHER in str(error), f"only verify says that {error}"
    printed = to_text(module, locations=True)
    assert _tokens(printed) == _tokens(text), f"this text:\n{text}\nis taken for:\n{printed}"
    assert parse(printed) == module, f"not equal once read back:\n{printed}"


def _tokens(text: str) -> list[str]:
    """What a text says, however it says that."""
    text = _EMPTY.sub("", _FACTS.sub("noalias, aligned", text))
    ops = [found.start() for found in _TOKEN.finditer(text) if found[0] in OPS]
    tokens: list[str] = []
    numbers: dict[str, int] = {}
    for start, end in pairwise([*ops, len(text)]):
        for token in _TOKEN.findall(_ordered(text[start:end])):
            if token == Func.name:
                numbers = {}
            if token[0] == "%":
                token = f"%{numbers.setdefault(token, len(numbers))}"
            tokens.append("1.0" if _FLOAT.fullmatch(token) else token)
    return tokens


def _ordered(text: str) -> str:
    """An op up to the next one, with what has a name at the end, in order, without defaults."""
    op = text.split(maxsplit=1)[0]
    defaults = {f.name: f.kind.text(f.default, None) for f in OPS[op].spec.named_attributes}
    named = [(n, v) for n, v in _NAMED.findall(text) if defaults.get(n) != v]
    return f"{_NAMED.sub('', text)} {' '.join(f'{n}={v}' for n, v in sorted(named))}"
