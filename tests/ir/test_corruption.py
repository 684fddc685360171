"""Corrupted text: nothing but a `ParseError` or `VerifyError` comes of it, soon, and where one
token was changed the error points at it."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from iris.errors import ParseError
from iris.ir import parse, to_text
from random_ir import random_module
from texts import TEXTS

# Three notions of a token, none of them the parser's: they disagree on `tile.load`, `-1.5` and
# `64x32xf16`.
TOKENS = {
    "coarse": re.compile(r'"[^"]*"|[%@]\w+|-?\w[\w.+]*|\S'),
    "words": re.compile(r'"[^"]*"|[%@]?\w+|\S'),
    "fine": re.compile(r'"[^"]*"|[%@]\w+|(?<=\d)x|[A-Za-z_]\w*|\d+|\S'),
}
KINDS = ("delete", "duplicate", "replace", "replace alike", "swap")


class Mutation(NamedTuple):
    kind: str
    text: str
    start: int  # the caret belongs from here...
    end: int  # ...to here: the token and the next one


def sort_of(token: str) -> str:
    """Tokens of one sort may stand in for each other."""
    if token[0] in '%@"':
        return token[0]
    if token in ("lt", "le", "gt", "ge", "eq", "ne"):
        return "predicate"
    if re.fullmatch(r"bool|b?f\d+|[iu]\d+", token):
        return "dtype"
    return "word" if token[0].isalpha() else "number" if token[-1].isdigit() else "mark"


def mutations(text: str, tokens: re.Pattern[str], rng: random.Random) -> Iterator[Mutation]:
    """Mutations of one token each, for ever."""
    found = list(tokens.finditer(text))
    spans = [m.span() for m in found] + [(len(text), len(text) + 1)] * 2
    texts = [m.group() for m in found]
    alike: dict[str, list[str]] = {}
    for token in texts:
        alike.setdefault(sort_of(token), []).append(token)
    names = {
        i
        for i, token in enumerate(texts)
        if token[0] == "@" or (token[0] == "%" and texts[i + 1] == ":")
    }
    while True:
        i = rng.randrange(len(texts) - 1)
        kind = rng.choice(KINDS)
        token, (start, end) = texts[i], spans[i]
        last = i + 1
        if i in names or (kind == "swap" and i + 1 in names):
            continue
        if kind == "delete":
            new = ""
        elif kind == "duplicate":
            new = f"{token} {token}"
        elif kind == "swap":
            new = texts[i + 1] + text[end : spans[i + 1][0]] + token
            end, last = spans[i + 1][1], i + 2
        else:
            new = rng.choice(texts if kind == "replace" else alike[sort_of(token)])
        changed = text[:start] + new + text[end:]
        if changed != text:
            yield Mutation(kind, changed, start, spans[last][1] + len(changed) - len(text))


def caret(error: ParseError) -> int:
    """Where in the text an error points."""
    lines = error.spot
    return lines.line, lines.column  # type: ignore[return-value]


def position(text: str, error: ParseError) -> int:
    before = text.split("\n")[: error.spot.line - 1]
    return sum(len(line) + 1 for line in before) + error.spot.column - 1
