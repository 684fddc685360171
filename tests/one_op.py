"""Metal IR with one op in it, for each shared op, dtype and number of elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from iris.ir.types import DTYPES

FLOATS = ("f16", "bf16", "f32")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = INTEGERS + FLOATS
#: A scalar, one vector, several, and what is no number of vectors.
COUNTS = (1, 2, 4, 8, 7)

_FLOAT_UNARY = (
    "exp",
    "exp2",
    "log",
    "log2",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tanh",
    "erf",
    "floor",
    "ceil",
    "round",
    "sigmoid",
)
_FLOAT_BINARY = ("div", "pow")
_BINARY = ("add", "sub", "mul", "floordiv", "mod", "maxnum", "minnum", "maximum", "minimum")
_BITS = ("and", "or", "xor")
_SHIFTS = ("shl", "shr")
_PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge")


class OneOp(NamedTuple):
    """An op with its attributes, the dtypes of its operands, and that of its result."""

    op: str
    operands: tuple[str, ...]
    result: str

    @property
    def name(self) -> str:
        return "_".join([self.op.replace(" ", "_"), *self.operands, self.result])

    def function(self, count: int) -> str:
        """A kernel that loads the operands, does the op, and stores its result."""
        arguments = [f"%X{i}: ptr<{t}, aligned>" for i, t in enumerate(self.operands)]
        arguments.append(f"%Out: ptr<{self.result}, aligned>")
        lines = [
            f"func metal @{self.name}_{count} simdgroups=1({', '.join(arguments)}) {{",
            "  %lane: i32 = metal.lane",
        ]
        values = []
        for i, dtype in enumerate(self.operands):
            # One of two has a name, and so a variable of its own.
            value = f"%x{i}" if i % 2 == 0 else f"%{i}"
            load = f"{dtype} = metal.load %X{i}"
            if count == 7:
                lines += [
                    f"  {value}: regs<7x{dtype}> = metal.foreach 7 (%i{i}: i32) {{",
                    f"    %1{i}: {load}, %i{i}",
                    f"    yield %1{i}",
                    "  }",
                ]
            else:
                lines.append(f"  {value}: {_type(dtype, count)} = metal.load %X{i}, %lane")
            values.append(value)
        result = _type(self.result, count)
        lines.append(f"  %20: {result} = {self.op} {', '.join(values)}")
        if count == 7:
            lines += [
                "  metal.foreach 7 (%k: i32) {",
                f"    %21: {self.result} = metal.slice %20, %k",
                "    metal.store %Out, %k, %21",
                "    yield",
                "  }",
            ]
        else:
            lines.append("  metal.store %Out, %lane, %20")
        return "\n".join([*lines, "  return", "}", ""])


def _type(dtype: str, count: int) -> str:
    return dtype if count == 1 else f"regs<{count}x{dtype}>"


def every_op() -> Iterator[OneOp]:
    for t in NUMBERS:
        for op in ("neg", "abs"):
            yield OneOp(op, (t,), t)
        for op in _BINARY:
            yield OneOp(op, (t, t), t)
    for t in FLOATS:
        for op in _FLOAT_UNARY:
            yield OneOp(op, (t,), t)
        for op in _FLOAT_BINARY:
            yield OneOp(op, (t, t), t)
        yield OneOp("fma", (t, t, t), t)
    for t in (*INTEGERS, "bool"):
        yield OneOp("not", (t,), t)
        for op in _BITS:
            yield OneOp(op, (t, t), t)
    for t in INTEGERS:
        for op in _SHIFTS:
            yield OneOp(op, (t, t), t)
    for t in (*NUMBERS, "bool"):
        for predicate in _PREDICATES:
            yield OneOp(f"compare {predicate}", (t, t), "bool")
        yield OneOp("select", ("bool", t, t), t)
        for u in (*NUMBERS, "bool"):
            yield OneOp("cast", (t,), u)
            if DTYPES[t].bits == DTYPES[u].bits:
                yield OneOp("bitcast", (t,), u)
