"""Functions that the text defines for itself, when it uses them."""

from __future__ import annotations

from iris.codegen.expression import Expression
from iris.codegen.operators import call
from iris.codegen.writer import COLUMNS, STEP, Writer
from iris.ir import math
from iris.ir.types import DType


def helper(w: Writer, key: str, dtype: DType, *arguments: Expression) -> Expression:
    """A call of a function of the language's table, for a dtype."""
    lanes = arguments[0].lanes
    define(w, key, dtype, lanes)
    name = w.language.helpers[key].name
    return call(name, *arguments, type_=w.language.types[dtype])


def define(w: Writer, key: str, dtype: DType, lanes: int = 1) -> None:
    """Put a function into the text, once."""
    type_ = w.language.types[dtype]
    found = w.language.helpers[key]
    if f"{key} {type_}" not in w.helpers:
        exp = w.language.intrinsics[math.Exp]
        # The bits of a float as an integer, of which there is nothing shorter than int.
        bits = "as_type<int>(x) {op} as_type<int>(y)"
        if dtype.bits < 32:
            bits = "short(as_type<short>(x) {op} as_type<short>(y))"
        w.helpers[f"{key} {type_}"] = found.text.format(
            T=type_,
            U=w.language.unsigned.get(type_, type_),
            both=bits.format(op="&"),
            either=bits.format(op="|"),
            exp=exp.fast if w.fast else exp.name,
        )
    if lanes > 1 and f"{key} {type_}{lanes}" not in w.helpers:
        vector = f"{type_}{lanes}"
        w.helpers[f"{key} {vector}"] = _by_lane(found.name, vector, lanes, found.parameters)


def _by_lane(name: str, type_: str, lanes: int, parameters: int) -> str:
    """The function of vectors, lane by lane."""
    letters = "xyz"[:parameters]
    declared = ", ".join([f"{type_} {p}" for p in letters])
    calls = [f"{name}({', '.join([f'{p}.{lane}' for p in letters])})" for lane in "xyzw"[:lanes]]
    body = f"return {type_}({', '.join(calls)});"
    if len(STEP + body) > COLUMNS:
        body = f"return {type_}({', '.join(calls[:2])},\n{' ' * 12}{', '.join(calls[2:])});"
    return f"inline {type_} {name}({declared}) {{\n{STEP}{body}\n}}\n"
