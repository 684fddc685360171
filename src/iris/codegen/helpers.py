"""Functions that the text defines for itself, when it uses them."""

from __future__ import annotations

from iris.codegen.expression import Expression
from iris.codegen.language import Helper
from iris.codegen.operators import call
from iris.codegen.statements import COLUMNS, STEP
from iris.codegen.tree import Call, Name, Tree, listed
from iris.codegen.writer import Writer
from iris.ir import math
from iris.ir.types import DType


def helper(ctx: Writer, key: str, dtype: DType, *arguments: Expression) -> Expression:
    """A call of a function of the language's table, for a dtype."""
    name = define(ctx, key, dtype, arguments[0].lanes)
    return call(name, *arguments, type_=dtype)


def define(ctx: Writer, key: str, dtype: DType, lanes: int = 1) -> str:
    """Put a function into the text, once; its name."""
    language = ctx.language
    type_ = language.types[dtype]
    found = language.helpers[key]
    if f"{key} {type_}" not in ctx.helpers:
        exp = language.intrinsics[math.Exp]
        ctx.helpers[f"{key} {type_}"] = found.text.format(
            T=type_,
            U=language.types[dtype.unsigned],
            both=language.combined_bits("&", dtype),
            either=language.combined_bits("|", dtype),
            narrowing=language.narrowing.get(dtype, type_),
            exp=exp.fast if ctx.fast else exp.name,
            fmod=language.fmod,
            inline=language.inline,
        )
    if lanes > 1:
        vector = language.vector_of(dtype, lanes)
        if f"{key} {vector}" not in ctx.helpers:
            ctx.helpers[f"{key} {vector}"] = _by_lane(ctx, found, vector, lanes)
    return found.name


def _by_lane(ctx: Writer, function: Helper, type_: str, lanes: int) -> str:
    """The function of vectors, lane by lane."""
    name, letters = function.name, "xyz"[: function.parameters]
    declared = ", ".join([f"{type_} {p}" for p in letters])
    calls: list[Tree] = [
        Call(name, *[ctx.language.lanes(Name(p), [lane]) for p in letters]) for lane in range(lanes)
    ]
    body = f"return {Call(type_, *calls)};"
    if len(STEP + body) > COLUMNS:
        body = f"return {type_}({listed(calls[:2])},\n{' ' * 12}{listed(calls[2:])});"
    head = f"{ctx.language.inline} {type_} {name}({declared})"
    return f"{head} {{\n{STEP}{body}\n}}\n"
