"""Enums of CUDA C: what their constants are, and which integers hold them."""

from __future__ import annotations

from iris.frontend.cuda.clang import Node, inner


def constants_of(enum: Node) -> dict[str, Node]:
    """An enum's constants by their ids, with their values noted as far as clang says them."""
    constants = inner(enum)
    value: int | None = -1
    for one in constants:
        said = inner(one)
        if said:
            value = _known(said[0])
        elif value is not None:
            value += 1
        if value is not None:
            one["enum_value"] = value
    return {one["id"]: one for one in constants}


def integers_of(enum: Node) -> str | None:
    """The type of the integers that hold an enum, as CUDA chooses it; None of one whose constants
    are not known, or have more than 32 bits."""
    fixed = enum.get("fixedUnderlyingType")
    if fixed is not None:
        text: str = fixed.get("desugaredQualType", fixed["qualType"])
        return text
    values = [one.get("enum_value") for one in constants_of(enum).values()]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    if min(known) >= 0:
        return "unsigned int" if max(known) < 2**32 else None
    return "int" if min(known) >= -(2**31) and max(known) < 2**31 else None


def _known(node: Node) -> int | None:
    while node["kind"] in ("ImplicitCastExpr", "ParenExpr"):
        node = inner(node)[0]
    is_known = node["kind"] in ("ConstantExpr", "IntegerLiteral") and "value" in node
    return int(node["value"]) if is_known else None
