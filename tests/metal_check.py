"""Clang's opinion of Metal text, against declarations of Metal's standard library."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from clang.cindex import Diagnostic, Index, TranslationUnit

_INCLUDE = Path(__file__).parent / "codegen" / "include"
# C++ for OpenCL, without OpenCL's own headers.
_FLAGS = [
    "-xclcpp",
    "-cl-std=clc++2021",
    "-cl-no-stdinc",
    "-target",
    "x86_64-unknown-linux-gnu",
    "-fsyntax-only",
    "-ferror-limit=0",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Wno-unused-parameter",
    "-Wno-tautological-compare",
    "-isystem",
    str(_INCLUDE),
]
# What Metal has and clang, for this target, has not: attributes of the language, its pragma; and
# what is meant as it stands.
_EXPECTED = re.compile(
    r"unknown attribute '(buffer|threadgroup_position_in_grid|threadgroups_per_grid"
    r"|thread_index_in_simdgroup|simdgroup_index_in_threadgroup|thread_index_in_threadgroup"
    r"|max_total_threads_per_threadgroup)' ignored"
    r"|unknown pragma ignored"
)
_EXPECTED_OPTIONS = {"-Wsign-conversion", "-Wimplicit-int-conversion", "-Wshorten-64-to-32"}


def complaints(text: str) -> list[str]:
    """Every error and warning, but those that Metal's own compiler would not give."""
    unit = Index.create().parse(
        "kernel.metal",
        _FLAGS,
        unsaved_files=[
            ("kernel.metal", _as_cpp(text)),
            (str(_INCLUDE / "swizzles.h"), _swizzles()),
        ],
        options=TranslationUnit.PARSE_NONE,
    )
    return [
        str(d)
        for d in unit.diagnostics
        if d.severity >= Diagnostic.Warning
        and not _EXPECTED.fullmatch(d.spelling)
        and d.option not in _EXPECTED_OPTIONS
    ]


def complaints_of_all(texts: Sequence[str]) -> list[str]:
    """Those of many texts at once, which is faster; each gets a namespace."""
    whole = "#include <metal_stdlib>\nusing namespace metal;\n"
    for number, text in enumerate(texts):
        lines = [x for x in text.splitlines() if not x.startswith(("#", "using "))]
        # Of kernels, which are C's, a name is one whatever the namespace.
        body = re.sub(r"(?m)^(kernel void \w+)", rf"\1_{number}", "\n".join(lines))
        whole += f"namespace kernel_{number} {{\n{body}\n}}\n"
    return complaints(whole)


def _as_cpp(text: str) -> str:
    """The text without what classes and C++ literals cannot do, and C++ has no word for."""
    text = text.replace("coherent(device) ", "")
    text = re.sub(r"(?<![\w.])(\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+)h\b", r"half(\1f)", text)
    # What an arm of a ternary names or constructs is somewhere in memory, what it computes is not:
    # built-in vectors do not mind.
    text = re.sub(r"\? (\*?\(+(?:device|threadgroup) const)", r"? +\1", text)
    text = re.sub(r"(?<=\s): (uint[24]\(as_type)", r": +\1", text)
    text = re.sub(rf"\? ({_NAMED})(?=\s+:)", r"? value(\1)", text)
    return re.sub(rf"(?<=\s): ({_NAMED})(?=[;,)}}])", r": value(\1)", text)


_NAMED = r"\w+(?:\[[^\]]*\]|\.\w+)*"


@cache
def _swizzles() -> str:
    lines = []
    for count in (2, 3, 4):
        for letters in itertools.product("xyzw", repeat=count):
            name = "".join(letters)
            lines.append(f"static const device vec<T, {count}> {name};")
    lines += [f"static const device T {letter};" for letter in "xyzw"]
    return "\n".join(lines)
