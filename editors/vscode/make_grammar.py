"""Writes syntaxes/iris.tmLanguage.json, the grammar of IR text, from the declarations of all ops.

python editors/vscode/make_grammar.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from iris.ir import control
from iris.ir.attributes import OneOf
from iris.ir.axis_schedule import PLACES
from iris.ir.core import OPS
from iris.ir.text.types import POINTER_FACTS, READERS
from iris.ir.types import DTYPES

FILE = Path(__file__).parent / "syntaxes/iris.tmLanguage.json"
LAYOUT_WORDS = ("linear", "swizzle")


def _any(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words)))


def _rule(scope: str, match: str) -> dict[str, Any]:
    """The first group has the scope; where there is none, the whole."""
    if re.search(r"\((?!\?)", match):
        return {"match": match, "captures": {"1": {"name": f"{scope}.iris"}}}
    return {"match": match, "name": f"{scope}.iris"}


def grammar() -> str:
    """The whole file.  A word is an op where one may stand; elsewhere it is of an attribute."""
    ops = [op for op in OPS.values() if op.__module__.startswith("iris.")]
    in_control = {op.name for op in ops if op.__module__ == control.__name__}
    regions = {f.keyword for op in ops for f in op.spec.regions if f.keyword is not None}
    kinds = [f.kind for op in ops for f in op.spec.attributes]
    words = {word for kind in kinds if isinstance(kind, OneOf) for word in kind.members}
    words |= {*POINTER_FACTS, *PLACES, "true", "false"}
    starts, ends = r"(?:^\s*|(?<== ))", r"(?![\w.\-])"
    alone = r"(?<![\w.%@\-])"
    patterns = [
        _rule("comment.line.number-sign", "#.*$"),
        _rule("string.quoted.double", r'"(?:[^"\\]|\\.)*"'),
        _rule("variable.other", r"%(?:[A-Za-z_]\w*|\d+)"),
        _rule("entity.name.function", r"@[A-Za-z_]\w*"),
        _rule("keyword.control", rf"{starts}({_any(in_control)}){ends}"),
        _rule("keyword.control", rf"(?<=\}} )({_any(regions)}){ends}"),
        _rule("support.function", f"{starts}({_any({op.name for op in ops} - in_control)}){ends}"),
        _rule("storage.type", rf"{alone}(?:{_any([*READERS, *LAYOUT_WORDS])})(?=<)"),
        _rule("storage.type", rf"{alone}(?:{_any(DTYPES)}){ends}"),
        {
            "match": rf"{alone}(\d+(?:x\d+)*)x({_any(DTYPES)}){ends}",
            "captures": {
                "1": {"name": "constant.numeric.iris"},
                "2": {"name": "storage.type.iris"},
            },
        },
        _rule("variable.parameter", rf"{alone}[A-Za-z_][\w\-]*(?=[=:])"),
        _rule("constant.numeric", rf"{alone}-?(?:inf|nan){ends}"),
        _rule(
            "constant.language",
            rf"{alone}(?:{_any(words)}){ends}",
        ),
        _rule("keyword.other", rf'{alone}(?:at(?= ")|of(?= \d))'),
        _rule("constant.numeric", r"-?\d+(?:x\d+)*(?:\.\d*)?(?:[eE][+\-]?\d+)?"),
    ]
    whole = {"name": "Iris IR", "scopeName": "source.iris", "patterns": patterns}
    return json.dumps(whole, indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(grammar(), encoding="utf-8")
