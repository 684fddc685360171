"""Corrupted text: nothing but a `ParseError` or `VerifyError` comes of it, soon, and where one
token was changed the error points at it."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import pytest

from iris.errors import ParseError, VerifyError
from iris.ir import parse, to_text, verify
from iris.ir.verify import DEEPEST
from random_ir import random_module
from support import counts
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


def offset(error: ParseError, text: str) -> int:
    """Where in a text an error points."""
    lines = text.split("\n")
    assert error.spot.source == lines[error.spot.line - 1]
    return sum(len(line) + 1 for line in lines[: error.spot.line - 1]) + error.spot.column - 1


def random_texts() -> list[str]:
    return [to_text(random_module(seed), locations=seed % 4 == 0) for seed in range(12)]


# Robustness.


def check(text: str) -> bool:
    """Parse a text, which may fail only as it should, and soon; say whether it parsed."""
    start = time.process_time()
    try:
        module = parse(text)
    except (ParseError, VerifyError) as error:
        assert str(error)
        return False
    finally:
        assert time.process_time() - start < 1.0
    verify(module)
    assert parse(to_text(module)) == module
    return True


@lru_cache(256)  # enough for the texts that are garbled time and again
def spans(cut: str, text: str) -> list[tuple[int, int]]:
    """Where the tokens of a text start and end."""
    return [token.span() for token in TOKENS[cut].finditer(text)] or [(0, 0)]


def garbled(rng: random.Random, text: str) -> str:
    """A text with a few tokens or characters changed, in any way."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        start, end = rng.choice(spans(rng.choice(list(TOKENS)), text))
        at = rng.randrange(len(text) + 1)
        match rng.randrange(8):
            case 0:
                text = text[:at]
            case 1:
                text = text[at:]
            case 2:
                flipped = chr(ord(text[at - 1]) ^ 1 << rng.randrange(8)) if text else "x"
                text = text[: at - 1] + flipped + text[at:]
            case 3:
                text = text[:at] + rng.choice(STRANGE) + text[at:]
            case 4:
                text = text[:start] + rng.choice(STRANGE) + text[end:]
            case 5:
                text = text[:start] + text[end:]
            case 6:
                first, last = sorted((at, rng.randrange(len(text) + 1)))
                text = text[:first] + text[last:]
            case 7:
                first, last = sorted((at, rng.randrange(len(text) + 1)))
                text = text[:last] + text[first:last] + text[last:]
    return text


STRANGE = (
    *("\0", "\ud800", "é", "%", "@", '"', "#", "\\", "\r", "\u2028", "\x1b[0m", "-", "x", "_"),
    *("%x", "@f", '"s"', "{", "}", "(", ")", "<", ">", "[", "]", ",", ":", "=", "at", "else"),
    *(
        "f64",
        "tile",
        "tile<0xf32>",
        "tile<3xf32>",
        "tile<2x2x2x2xf32>",
        "tile<8xi32x4>",
        "regs<0xi8>",
        "regs<2x3xi8>",
        "regs<2x2x2xi8>",
    ),
    *(
        "tensor<>",
        "tensor<2147483648xf32>",
        "staged<8xf32, 4:1>",
        "staged<8xf32, ():()>",
        "ptr<ptr<f32>>",
    ),
    *(
        "tile<8xf32, linear<8>>",
        "tile<8xf32, linear<8, lane=[9]>>",
        "linear<0, lane=[]>",
        "swizzle<9,0,1>",
    ),
    *("9" * 5000, "-" + "9" * 30, "1e999", "-1e-999", "0x10", "1.", "nan", "nan(0)", "inf", "true"),
    *(
        "func",
        "func tile @f() {",
        "return",
        "yield",
        "tile.frob",
        "mask=",
        "other=%x",
        "returns=[]",
    ),
)


def test_garbled_texts_are_turned_down() -> None:
    rng = random.Random(20)
    texts = [*TEXTS.values(), *random_texts()]
    parsed = 0
    total = counts(2500, 50000)
    for n in range(total):
        parsed += check(garbled(rng, texts[n % len(texts)]))
    assert 0 < parsed < total / 2


@pytest.mark.parametrize("name", TEXTS)
def test_every_truncation_is_turned_down(name: str) -> None:
    text = TEXTS[name].rstrip()
    for end in range(0, len(text), counts(7, 1)):
        check(text[:end])


def within(body: str) -> str:
    return f"func tile @f(%x: f32, %c: bool, %n: i32) {{\n{body}\n  return\n}}\n"


LARGE = 100_000
LARGE_TEXTS = {
    "regions": within("if %c {\n" * LARGE),
    "closed regions": within("if %c {\n" * 99 + "yield } else { yield }\n" * 99),
    "functions": "func tile @f() {\n" * LARGE,
    "braces": "{" * LARGE,
    "parentheses": within("%y: staged<8xf32, " + "(" * LARGE),
    "layout": within(f"%y: staged<8xf32, {'(' * 999}8{')' * 999}:1> = tile.stage %x"),
    "types": within("%y: " + "ptr<" * LARGE),
    "sizes": within(f"%y: tensor<{'x'.join('1' * LARGE)}xf32> = constant 1.0").replace(
        "func tile", "func graph"
    ),
    "linear sizes": within(
        f"%y: tile<8xf32, linear<{'x'.join('2' * 999)}, lane=[]>> = constant 1.0"
    ),
    "size": within(f"%y: tile<{'9' * LARGE}xf32> = constant 1.0"),
    "integer": within("%y: i32 = constant " + "9" * LARGE),
    "float": within("%y: f32 = constant " + "9" * LARGE + ".0"),
    "exponent": within("%y: f32 = constant 1e" + "9" * LARGE),
    "nan": within("%y: f32 = constant nan(" + "9" * LARGE + ")"),
    "axis": within("%y: i32 = tile.program_id " + "9" * LARGE),
    "stride": within("%y: staged<8xf32, 8:" + "9" * LARGE),
    "line": within('%y: f32 = exp %x at "f":' + "9" * LARGE),
    "name": within(f"%{'y' * LARGE}: f32 = exp %x"),
    "op": within(f"%y: f32 = {'exp' * LARGE} %x"),
    "symbol": f"func tile @{'f' * LARGE}() {{ return }}",
    "string": within(f'%y: f32 = exp %x at "{"é" * LARGE}":1'),
    "open string": within('%y: f32 = exp %x at "' + "\\" * LARGE),
    "surrogate": within('%y: f32 = exp %x at "\ud800":1'),
    "operands": within("return " + "%x, " * LARGE),
    "results": within("%y: f32, " * LARGE),
    "arguments": within(f"while ({'%y: f32 = %x, ' * LARGE}"),
    "spaces": " " * LARGE + "\n" * LARGE,
    "comments": "# func\n" * LARGE,
    "nothing": "",
}


@pytest.mark.parametrize("name", LARGE_TEXTS)
def test_large_and_deep_texts(name: str) -> None:
    fine = {"sizes", "name", "symbol", "string", "surrogate", "spaces", "comments", "nothing"}
    assert check(LARGE_TEXTS[name]) is (name in fine)


def nested(depth: int) -> str:
    return within(
        "if %c {\n" * depth
        + "yield\n} else {\nyield\n}\n"
        + "yield } else { yield }\n" * (depth - 1)
    )


def test_regions_nest_only_so_deep() -> None:
    assert check(nested(DEEPEST - 1))
    with pytest.raises(ParseError, match=f"regions nest at most {DEEPEST} deep"):
        parse(nested(DEEPEST))


# Where the error points.


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize(
    ("corpus", "total"),
    # Random texts are long, and so each takes its time.
    [("random", counts(1200, 12000)), ("rich", counts(2400, 12000))],
    ids=["random", "rich"],
)
def test_errors_point_at_the_token_that_was_changed(corpus: str, total: int, tokens: str) -> None:
    rng = random.Random(7)
    texts = random_texts() if corpus == "random" else list(TEXTS.values())
    hits: Counter[str] = Counter()
    misses: Counter[str] = Counter()
    for text in texts:
        for mutation in islice(mutations(text, TOKENS[tokens], rng), total // len(texts)):
            try:
                parse(mutation.text)
            except ParseError as error:
                hit = mutation.start <= offset(error, mutation.text) < mutation.end
                (hits if hit else misses)[mutation.kind] += 1
    rates = {kind: hits[kind] / (hits[kind] + misses[kind]) for kind in KINDS}
    rates["all"] = hits.total() / (hits.total() + misses.total())
    print(f"{corpus:7} {tokens:7}", *(f"{kind} {rate:.1%}  " for kind, rate in rates.items()))
    assert hits.total() + misses.total() > 0.9 * total
    assert rates.pop("all") > 0.94
    assert min(rates.values()) > 0.86
