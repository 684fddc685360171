"""Tokens of IR text, and a cursor that reads them with errors that point at them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from string import ascii_letters, digits
from typing import NoReturn, TypeVar

from iris.errors import LayoutError, ParseError, SourceSpot, TypeMistake
from iris.ir import literal
from iris.ir.types import DType, Kind

T = TypeVar("T")

# A token, and what stands between it and the next one.  Most tokens are of the first kinds.  The
# kinds follow from how tokens start: a group for each takes twice the time.  A location is one
# token if it is as the printer mostly writes it, for each op has one.
_TOKEN = re.compile(
    r"""( [{}()\[\]<>,:=]
      | %(?:[A-Za-z_]\w*|\d+)             # a value
      | at\ "[^"\\\x00-\x1f]*":\d{1,9}(?![\w.])  # a location
      | [A-Za-z_][\w.\-]*                 # a word
      | "(?:[^"\\\n]|\\.)*"
      | \d+(?:x\d+)*x[A-Za-z]\w*          # a shape and a dtype
      | \d+(?:x\d+)+                      # sizes
      | -?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?
      | -[A-Za-z_][\w.\-]*
      | @[A-Za-z_]\w*                     # a symbol
      | [^\s\#]
      ) \s*
    | \s+ | \#[^\n]*
    """,
    re.VERBOSE | re.ASCII,
)
_MARKS = "{}()[]<>,:="
_KINDS = {
    "%": "value",
    "@": "symbol",
    '"': "string",
    **dict.fromkeys(f"{ascii_letters}_", "word"),
    **dict.fromkeys(_MARKS, "mark"),
}
_WHOLE = frozenset(f"{_MARKS}{ascii_letters}{digits}_")  # the tokens of one character
_INTEGER = re.compile(r"^-?\d+")
LONGEST_NUMBER = 64
END = "end of text"


def token_at(line: str, start: int) -> str:
    """The rest of the token at a place in a line; a space where there is none."""
    token = _TOKEN.match(line, start)
    return (token and token[1]) or " "


class Cursor:
    """The token under it is `text`, of a `kind` (value, symbol, string, shaped, number, word,
    location, mark or end), at `offset` in the source."""

    __slots__ = (
        "_counted",
        "_kinds",
        "_offsets",
        "_read",
        "_starts",
        "_texts",
        "file",
        "kind",
        "mark",
        "source",
        "text",
    )

    def __init__(self, source: str, file: str):
        self.source = source  # which errors show; it may be replaced by one as long
        self._read = source
        self.file = file
        self._texts: list[str] = list(filter(None, _TOKEN.findall(source)))
        self._offsets: list[int] = []  # of the first tokens, as far as any was asked for
        self._starts = (match.start() for match in _TOKEN.finditer(source) if match[1])
        self.mark = 0  # where the cursor is, for `offset_at` and `first_difference`
        self._counted = (0, 1)  # an offset, and the line it is on
        kinds: dict[str, str] = {}  # of each text, for most stand there many times
        for text in set(self._texts):
            if len(text) == 1 and text not in _WHOLE:
                self._refuse()
            kinds[text] = _KINDS.get(text[0]) or _kind_of_number(text)
            if text.startswith("at "):
                kinds[text] = "location"
        self._kinds = [kinds[text] for text in self._texts]
        self._texts.append(END)
        self._kinds.append("end")
        self.text = self._texts[0]
        self.kind = self._kinds[0]

    def _refuse(self) -> NoReturn:
        """Raise an error at the first token that is none."""
        for mark, text in enumerate(self._texts):
            if len(text) == 1 and text not in _WHOLE:
                why = f"no token starts with {text!r}"
                if text == '"':
                    why = "the string does not end on its line"
                elif text in "%@":
                    why = f"{text!r} starts a name, of ASCII letters, digits and _"
                raise self.error_at(self.offset_at(mark), why)
        raise AssertionError

    # Errors.

    def error(self, message: str) -> ParseError:
        """An error at the token under the cursor."""
        return self.error_at(self.offset, message)

    def error_at(self, offset: int, message: str) -> ParseError:
        return ParseError(message, SourceSpot.at(self.source, offset, self.file))

    def fail(self, expected: str, words: Iterable[str] = ()) -> NoReturn:
        """Raise that something else was expected, such as one of some words.

        `ptrf32` and `tile.lod` are wrong from `f32` and `lod` on: the error points there.
        """
        known = 0
        for word in words:
            room, dot, _ = word.partition(".")
            for start in (room, room + dot, word):
                if len(start) > 2 and self.text.startswith(start):  # `less` is not `le` and `ss`
                    known = max(known, len(start))
        found = self.text if self.kind == "end" else repr(self.text)
        raise self.error_at(self.offset + known, f"expected {expected}, found {found}")

    def build(self, make: Callable[[], T], mark: int, within: int = 0) -> T:
        """What `make` gives; a rule it finds broken becomes an error at a mark, or so far into the
        token there."""
        try:
            return make()
        except (TypeMistake, LayoutError) as error:
            raise self.error_at(self.offset_at(mark) + within, str(error)) from None

    # Moving.

    @property
    def offset(self) -> int:
        return self.offset_at(self.mark)

    @property
    def line(self) -> int:
        # From the line asked for last, for a text has many; the cursor never goes back.
        start, line = self._counted
        line += self.source.count("\n", start, self.offset)
        self._counted = self.offset, line
        return line

    @property
    def starts_line(self) -> bool:
        """Whether nothing but space stands before the token on its line."""
        start = self.source.rfind("\n", 0, self.offset) + 1
        return not self.source[start : self.offset].strip()

    def advance(self) -> str:
        """Step over the token and return it."""
        text = self.text
        if text is not END:
            mark = self.mark = self.mark + 1
            self.text = self._texts[mark]
            self.kind = self._kinds[mark]
        return text

    def following(self, distance: int = 1) -> str:
        """The token after the one under the cursor, or further on."""
        return self._texts[min(self.mark + distance, len(self._texts) - 1)]

    def ahead(self, count: int) -> tuple[str, ...]:
        """Some tokens from the cursor on, or all that are left."""
        return tuple(self._texts[self.mark : self.mark + count])

    def skip(self, count: int) -> None:
        """Step over some tokens, which must be there."""
        mark = self.mark = self.mark + count
        self.text = self._texts[mark]
        self.kind = self._kinds[mark]

    def offset_at(self, mark: int) -> int:
        offsets = self._offsets
        if mark >= len(offsets):
            offsets += islice(self._starts, mark + 1 - len(offsets))
        return offsets[mark] if mark < len(offsets) else len(self._read.rstrip())

    def first_difference(self, mark: int, expected: str) -> int:
        """The offset at which the text from `mark` on first differs from another."""
        for token in Cursor(expected, self.file)._texts[:-1]:
            have, offset = self._texts[mark], self.offset_at(mark)
            if have != token:
                # Of `64x32xf16` and `64x8xf16`, the 32.
                for part, other in zip(have.split("x"), token.split("x"), strict=False):
                    if part != other:
                        break
                    offset += len(part) + 1
                return offset
            mark += 1
        return self.offset_at(mark)

    def at(self, text: str) -> bool:
        return self.text == text

    def accept(self, text: str) -> bool:
        if self.text != text:
            return False
        self.advance()
        return True

    def expect(self, text: str) -> None:
        if self.text != text:
            self.fail(f"'{text}'")
        self.advance()

    # Reading.

    def take(self, kind: str, what: str) -> str:
        """The token, which must be of a kind."""
        if self.kind != kind:
            self.fail(what)
        return self.advance()

    def one_of(self, table: Mapping[str, T], what: str) -> T:
        if self.kind != "word" or self.text not in table:
            self.fail(what, table)
        return table[self.advance()]

    def listed(self, opening: str, closing: str, item: Callable[[], T]) -> list[T]:
        """Items between brackets, separated by commas."""
        self.expect(opening)
        items: list[T] = []
        while not self.at(closing):
            if items:
                self.expect(",")
            items.append(item())
        self.advance()
        return items

    def integer(self, least: int, most: int, what: str = "an integer") -> int:
        if self.kind != "number" or not self.text.lstrip("-").isdigit():
            self.fail(what, _INTEGER.findall(self.text))
        if len(self.text) > LONGEST_NUMBER or not least <= int(self.text) <= most:
            raise self.error(f"the number is out of range: {least} to {most}")
        return int(self.advance())

    def string(self) -> str:
        if self.kind != "string":
            self.fail("a string in double quotes")
        try:
            text = json.loads(self.text)
        except json.JSONDecodeError as error:
            raise self.error(f"the string has a bad escape: {error.msg}") from None
        self.advance()
        return str(text)

    def symbol(self) -> str:
        return self.take("symbol", "a function's name, such as @softmax")[1:]

    def number(self, dtype: DType) -> int:
        """The bits of a number of a dtype."""
        if dtype.kind is Kind.BOOL:
            return self.one_of({"true": 1, "false": 0}, "true or false")
        if dtype.kind is not Kind.FLOAT:
            value: literal.Number = self.integer(dtype.low, dtype.high, f"an integer of {dtype}")
            return literal.encode(value, dtype)
        if self.kind == "word" and self.text in ("inf", "-inf", "nan"):
            word = self.advance()
            if word == "nan" and self.accept("("):
                return self._nan_bits(dtype)
            return literal.encode(float(word), dtype)
        if self.kind != "number" or self.text.lstrip("-").isdigit():
            self.fail(f"a float of {dtype}, such as 1.0, inf or nan")
        value = float(self.text) if len(self.text) <= LONGEST_NUMBER else math.inf
        if math.isinf(value):
            raise self.error(f"the number does not fit {dtype}")
        try:
            bits = literal.encode(value, dtype)
        except OverflowError as error:
            raise self.error(str(error)) from None
        self.advance()
        return bits

    def _nan_bits(self, dtype: DType) -> int:
        offset = self.offset
        bits = self.integer(0, (1 << dtype.bits) - 1, "the bits of a nan")
        if not math.isnan(literal.decode(bits, dtype)):
            raise self.error_at(offset, f"{bits} are not the bits of a nan of {dtype}")
        self.expect(")")
        return bits


def _kind_of_number(text: str) -> str:
    """The kind of a token that starts with a digit or a minus."""
    if text[0] == "-" and not text[1].isdigit():
        return "word"
    if "x" not in text:
        return "number"
    return "sizes" if all(map(str.isdigit, text.split("x"))) else "shaped"
