"""Functions with one op in them, for each shared op and dtype."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from iris.ir.metal import VECTOR_BYTES
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
        """Metal IR that loads the operands, does the op, and stores its result."""
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
            width = _width(count, dtype)
            type_ = _type(dtype, width)
            if width == count:
                lines.append(f"  {value}: {type_} = metal.load %X{i}, %lane")
            else:
                lines += [
                    f"  {value}: {_type(dtype, count)} = metal.foreach {count // width} "
                    f"(%i{i}: i32) {{",
                    f"    %1{i}: {type_} = metal.load %X{i}, %i{i}",
                    f"    yield %1{i}",
                    "  }",
                ]
            values.append(value)
        result = _type(self.result, count)
        lines.append(f"  %20: {result} = {self.op} {', '.join(values)}")
        width = _width(count, self.result)
        if width == count:
            lines.append("  metal.store %Out, %lane, %20")
        else:
            lines += [
                f"  metal.foreach {count // width} (%k: i32) {{",
                f"    %21: {_type(self.result, width)} = metal.slice %20, %k",
                "    metal.store %Out, %k, %21",
                "    yield",
                "  }",
            ]
        return "\n".join([*lines, "  return", "}", ""])


def tile_function(ops: Sequence[OneOp], count: int) -> str:
    """Tile IR that loads operands, does ops that all take them, and stores each result."""
    operands = ops[0].operands
    parameters = [f"%X{i}: ptr<{dtype}>" for i, dtype in enumerate(operands)]
    parameters += [f"%{one.name}: ptr<{one.result}>" for one in ops]
    lines = [
        f"func tile @{ops[0].name}({', '.join(parameters)}) {{",
        f"  %at: tile<{count}xi32> = tile.arange 0",
    ]
    values = [f"%x{i}" for i in range(len(operands))]
    for value, dtype in zip(values, operands, strict=True):
        lines.append(f"  {value}: tile<{count}x{dtype}> = tile.load {value.upper()}, %at")
    for i, one in enumerate(ops):
        lines.append(f"  %y{i}: tile<{count}x{one.result}> = {one.op} {', '.join(values)}")
        lines.append(f"  tile.store %{one.name}, %at, %y{i}")
    return "\n".join([*lines, "  return", "}", ""])


def _type(dtype: str, count: int) -> str:
    return dtype if count == 1 else f"regs<{count}x{dtype}>"


def _width(count: int, dtype: str) -> int:
    """How many of so many elements one access moves."""
    size = DTYPES[dtype].bytes
    return 1 if count % 2 else min(count, VECTOR_BYTES // size)


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
