"""Tile programs whose tiles have any layouts, written op by op, and run at both levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from iris.interp import metal
from iris.interp import tile as tile_interpreter
from iris.ir import parse, verify
from iris.ir.control import Func
from iris.ir.core import Module
from iris.ir.layout.linear import LinearLayout
from iris.ir.scalar import storage
from iris.ir.types import DTYPES, DType, Kind, bf16
from iris.passes import run

Array = np.ndarray[Any, Any]

# As it is lowered, and as it is after the passes that follow.
PIPELINES = (
    "lower-to-metal,insert-barriers",
    "lower-to-metal,fold,canonicalize,cse,licm,dce,fuse-register-loops,fold,canonicalize,cse,"
    "licm,dce,allocate-threadgroup,insert-barriers",
)


def stored(dtype: DType) -> np.dtype[Any]:
    """What holds the elements of an array in memory; bf16 are held as bits."""
    return np.dtype(np.uint16) if dtype is bf16 else storage(dtype)


def random_data(dtype: DType, count: int, rng: np.random.Generator, low: int = -4) -> Array:
    """Integers of which sums of many are exact; for integer dtypes of their whole range."""
    if dtype.kind is Kind.BOOL:
        return rng.integers(0, 2, count).astype(np.bool_)
    if not dtype.is_float:
        return rng.integers(dtype.low, dtype.high, count, stored(dtype), endpoint=True)
    return floats(dtype, rng.integers(low, 5, count))


def floats(dtype: DType, values: Any) -> Array:
    """Floats as an array in memory has them."""
    with np.errstate(over="ignore"):
        found = np.asarray(values, np.float32)
        return (
            (found.view(np.uint32) >> 16).astype(np.uint16)
            if dtype is bf16
            else found.astype(storage(dtype))
        )


def tile_type(layout: LinearLayout, dtype: DType) -> str:
    return f"tile<{'x'.join(map(str, layout.shape))}x{dtype}, {layout}>"


class LaidOut:
    """A program in the making."""

    def __init__(self, simdgroups: int = 1):
        self.simdgroups = simdgroups
        self.lines: list[str] = []
        self.parameters: list[str] = []
        self.arguments: list[Any] = []
        self.count = 0

    def emit(self, type_: str, text: str) -> str:
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"{name}: {type_} = {text}")
        return name

    def argument(self, type_: str, value: Any) -> str:
        name = f"%a{len(self.parameters)}"
        self.parameters.append(f"{name}: {type_}")
        self.arguments.append(value)
        return name

    def array(self, dtype: DType, data: Array) -> str:
        return self.argument(f"ptr<{dtype}, noalias, aligned>", data)

    def constant(self, value: int, dtype: str = "i32") -> str:
        return self.emit(dtype, f"constant {value}")

    def numbers(self, layout: LinearLayout) -> str:
        """The row-major number of each element."""
        flat = layout.reshape((layout.num_elements,))
        i32 = DTYPES["i32"]
        name = self.emit(tile_type(flat, i32), "tile.arange 0")
        if flat == layout:
            return name
        return self.emit(tile_type(layout, i32), f"tile.reshape {name}")

    def load(self, layout: LinearLayout, dtype: DType, data: Array) -> str:
        base, at = self.array(dtype, data), self.numbers(layout)
        return self.emit(tile_type(layout, dtype), f"tile.load {base}, {at}")

    def store(self, value: str, layout: LinearLayout | None, dtype: DType) -> None:
        """Store all elements to an array of their own."""
        count = 1 if layout is None else layout.num_elements
        base = self.array(dtype, np.zeros(count, stored(dtype)))
        at = self.constant(0) if layout is None else self.numbers(layout)
        self.lines.append(f"tile.store {base}, {at}, {value}")

    @property
    def module(self) -> Module:
        head = f"func tile @f simdgroups={self.simdgroups}({', '.join(self.parameters)})"
        return parse(f"{head} {{\n" + "\n".join([*self.lines, "return"]) + "\n}\n")

    def check(self, grid: int = 1, pipelines: Sequence[str] = PIPELINES) -> list[Func]:
        """Assert that what is lowered does what the program means, whoever runs when; gives what
        it was lowered to."""
        module = self.module
        verify(module)
        expected, printed = _copies(self.arguments), list[str]()
        (function,) = module
        assert isinstance(function, Func)
        tile_interpreter.run(function, (grid, 1, 1), expected, output=printed.append)
        done = []
        for passes in pipelines:
            lowered = run(module, passes)
            verify(lowered)
            (function,) = lowered
            assert isinstance(function, Func)
            done.append(function)
            for seed in (None, 1):
                found, lines = _copies(self.arguments), list[str]()
                metal.run(function, (grid, 1, 1), found, output=lines.append, interleave=seed)
                assert sorted(lines) == sorted(printed), f"{module}\n{lowered}"
                for one, other, parameter in zip(expected, found, self.parameters, strict=True):
                    assert _same(one, other, parameter), f"{parameter}\n{module}\n{lowered}"
        return done


def _copies(values: Sequence[Any]) -> list[Any]:
    return [x.copy() if isinstance(x, np.ndarray) else x for x in values]


def _same(one: Any, other: Any, parameter: str) -> bool:
    """The same bits; one nan is as good as another."""
    if not isinstance(one, np.ndarray):
        return True
    nan = [np.zeros(one.shape, np.bool_)] * 2
    if one.dtype.kind == "f":
        nan = [np.isnan(x) for x in (one, other)]
    elif "bf16" in parameter:
        nan = [(x & 0x7FFF) > 0x7F80 for x in (one, other)]
    bits = np.dtype(f"u{one.itemsize}")
    return bool(((one.view(bits) == other.view(bits)) | (nan[0] & nan[1])).all())
