"""Colours for text on a terminal: IR, Metal, and diffs of them."""

from __future__ import annotations

import os
import re
import sys

# Colours of a terminal's own palette, so that they suit its background.
_GREY, _GREEN, _BLUE, _MAGENTA, _CYAN, _YELLOW, _RED = "90", "32", "34", "35", "36", "33", "31"

_WORDS = {
    "iris": (
        (_GREY, r"\#[^\n]*"),
        (_GREEN, r'"(?:[^"\\\n]|\\.)*"'),
        (_CYAN, r"%\w+"),
        (_YELLOW, r"@\w+"),
        (
            _MAGENTA,
            r"\b(?:tile|ptr|tensor|regs|staged|threadgroup|linear)(?=<)|\b(?:bool|[iuf]\d+|bf16)\b",
        ),
        (_BLUE, r"(?<== )[a-z]\w*(?:\.\w+)?|^ *(?:[a-z]\w*\.\w+|func|return|yield|for|if|while)\b"),
    ),
    "metal": (
        (_GREY, r"//[^\n]*|^\#[^\n]*"),
        (_GREEN, r'"(?:[^"\\\n]|\\.)*"'),
        (_YELLOW, r"\[\[.*?\]\]"),
        (
            _MAGENTA,
            r"\b(?:void|bool|(?:char|uchar|short|ushort|int|uint|long|ulong|half|float|bfloat)[234]?"
            r"|simdgroup_\w+8x8)\b",
        ),
        (
            _BLUE,
            r"\b(?:kernel|device|constant|threadgroup|const|thread|inline|using|namespace|struct"
            r"|for|if|else|while|return|alignas)\b",
        ),
    ),
    "diff": (
        (_GREY, r"^(?:---|\+\+\+)[^\n]*"),
        (_CYAN, r"^@@[^\n]*"),
        (_RED, r"^-[^\n]*"),
        (_GREEN, r"^\+[^\n]*"),
    ),
}


def coloured(text: str, language: str) -> str:
    """A text in a language, `iris`, `metal` or `diff`, with the codes of a terminal's colours."""
    words = _WORDS[language]
    pattern = re.compile("|".join(f"({word})" for _, word in words), re.MULTILINE)

    def paint(match: re.Match[str]) -> str:
        return f"\x1b[{words[(match.lastindex or 1) - 1][0]}m{match[0]}\x1b[0m"

    return pattern.sub(paint, text)


def reversed_colours(words: str) -> str:
    """Words that stand out on a terminal, within a colour or without."""
    return f"\x1b[7m{words}\x1b[27m"


def are_wanted() -> bool:
    """Whether standard output is a terminal that wants colours."""
    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return wanted and os.environ.get("TERM") != "dumb"


def show(text: str, language: str) -> None:
    """Write a text to standard output, in colours if they are wanted there."""
    sys.stdout.write(coloured(text, language) if are_wanted() else text)
