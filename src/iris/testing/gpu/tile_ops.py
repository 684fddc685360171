"""Programs with one op by which the threads of a program work together."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from iris.ir.kinds import AtomicKind, ReduceKind, ScanKind
from iris.ir.types import DTYPES
from iris.tools.replay import Program

_DTYPES = ("f32", "f16", "i32")
_TRUTHS = (ReduceKind.ANY, ReduceKind.ALL)
_PLACES = (ReduceKind.ARGMAX, ReduceKind.ARGMIN)


def every_kind(rows: int, columns: int) -> Iterator[Program]:
    """Reductions and scans of every kind along both axes, and the others, of a tile."""
    for axis in range(2):
        for kind in ReduceKind:
            for dtype in ("bool",) if kind in _TRUTHS else _DTYPES:
                yield reduction(kind, axis, dtype, rows, columns)
        for scan in ScanKind:
            for dtype in _DTYPES:
                yield running(scan, axis, dtype, rows, columns)
    for dtype in (*_DTYPES, "bf16"):
        yield transposed(dtype, rows, columns)
        yield product(dtype, rows, columns)
    for atomic in AtomicKind:
        if atomic is not AtomicKind.EXCHANGE:  # what that leaves, the order decides
            yield counted(atomic, rows, columns)


def reduction(kind: ReduceKind, axis: int, dtype: str, rows: int, columns: int) -> Program:
    left = (columns, rows)[axis]
    result = f"{left}x{'i32' if kind in _PLACES else dtype}"
    op = f"%y: tile<{result}> = tile.reduce {kind.value} {axis} %x"
    return _storing(f"reduce_{kind.value}_{axis}", dtype, (rows, columns), result, op)


def running(kind: ScanKind, axis: int, dtype: str, rows: int, columns: int) -> Program:
    result = f"{rows}x{columns}x{dtype}"
    op = f"%y: tile<{result}> = tile.scan {kind.value} {axis} %x"
    return _storing(f"scan_{kind.value}_{axis}", dtype, (rows, columns), result, op)


def transposed(dtype: str, rows: int, columns: int) -> Program:
    result = f"{columns}x{rows}x{dtype}"
    op = f"%y: tile<{result}> = tile.transpose [1, 0] %x"
    return _storing("transpose", dtype, (rows, columns), result, op)


def product(dtype: str, rows: int, columns: int) -> Program:
    """Of a matrix and itself transposed."""
    result = f"{rows}x{rows}x{'f32' if DTYPES[dtype].is_float else 'i32'}"
    ops = (
        f"%t: tile<{columns}x{rows}x{dtype}> = tile.transpose [1, 0] %x",
        f"%y: tile<{result}> = tile.dot %x, %t",
    )
    return _storing("dot", dtype, (rows, columns), result, *ops)


def counted(kind: AtomicKind, rows: int, columns: int) -> Program:
    """All elements, in one of eight places each."""
    size = rows * columns
    ops = (
        f"%seven: tile<{size}xi32> = constant 7",
        f"%place: tile<{size}xi32> = and %at, %seven",
        f"%old: tile<{size}xi32> = tile.atomic {kind.value} %Out, %place, %flat",
    )
    return _program(f"atomic_{kind.value}", "i32", (rows, columns), "8xi32", *ops)


def _storing(name: str, dtype: str, shape: tuple[int, int], result: str, *ops: str) -> Program:
    """A launch of ops that make %y of %x."""
    count, element = _count(result)
    return _program(
        name,
        dtype,
        shape,
        result,
        *ops,
        f"%flat_y: tile<{count}x{element}> = tile.reshape %y",
        f"%to: tile<{count}xi32> = tile.arange 0",
        "tile.store %Out, %to, %flat_y",
    )


def _program(name: str, dtype: str, shape: tuple[int, int], result: str, *ops: str) -> Program:
    """A launch of ops that make %Out of %x, or of its elements in a row, %flat."""
    size = prod(shape)
    count, element = _count(result)
    body = "".join([f"  {op}\n" for op in ops])
    return Program.parse(f"""\
# grid: 1
# argument %X: {dtype}[{size}] seed=1
# argument %Out: {element}[{count}]

func tile @{name}_{dtype}(%X: ptr<{dtype}, noalias>, %Out: ptr<{element}, noalias>) {{
  %at: tile<{size}xi32> = tile.arange 0
  %flat: tile<{size}x{dtype}> = tile.load %X, %at
  %x: tile<{shape[0]}x{shape[1]}x{dtype}> = tile.reshape %flat
{body}  return
}}
""")


def _count(tile: str) -> tuple[int, str]:
    """How many elements a tile has, such as `32x64xf32`, and of what dtype."""
    *sizes, element = tile.split("x")
    return prod(map(int, sizes)), element
