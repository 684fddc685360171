"""Draw random kernels in Triton's language, run them, and hold them against Triton.

    python -m zoo.drawn --count 2000 --triton build/zoo/triton      what Triton's interpreter says
    python -m zoo.drawn --seed 1 --from 100 --count 20 ...          kernels 100 to 119 of seed 1

A kernel loads from arrays of several dtypes, computes with what it has, in loops, branches and
helpers, and stores results.  What depends on rounding is compared within a tolerance, and decides
nothing: no branch, no order, no integer.
"""

from __future__ import annotations

import argparse
import importlib
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from iris.errors import IrisError
from zoo.judged import held_against_triton

HEAD = """import triton
import triton.language as tl


@triton.jit
def scaled(x, y):
    return x * 2 + y, x - y


@triton.jit
def larger(x, y):
    return tl.maximum(x, y)


@triton.jit
def bounded(x):
    if x.dtype.is_floating():
        return tl.minimum(tl.maximum(x, -2.0), 2.0)
    return x & 15


"""
#: The arrays that a kernel may load from: what they hold, and their dtype in Triton.
ARRAYS = {
    "A": ("float", np.float32),
    "B": ("float", np.float32),
    "H": ("float", np.float16),
    "I": ("int", np.int32),
    "J": ("int", np.int8),
    "K": ("int", np.int16),
    "U": ("uint", np.uint8),
    "V": ("uint", np.uint32),
    "L": ("int", np.int64),
}
ELEMENTS = 256  # of each array
SIZES = (1, 2, 4, 8, 16, 32)
PROGRAMS = 3


@dataclass(frozen=True)
class Value:
    """A variable of a kernel."""

    name: str
    kind: str  # float, int, uint, or bool
    shape: tuple[int, ...]
    exact: bool = True  # no rounding has made it
    depth: int = 0  # how large it may have grown
    half: bool = False  # of f16, which few additions are exact in


class Draft:
    """A kernel being drawn: its lines so far, and the variables it has."""

    def __init__(self, rng: Random, name: str):
        self.rng = rng
        self.name = name
        self.lines: list[str] = []
        self.values: list[Value] = []
        self.stored = 0
        self.indent = 1
        self.count = 0
        self.fixed: set[str] = set()  # variables that a loop or branch must leave as they are
        self.shapes = [self._shape() for _ in range(rng.randint(1, 2))]

    def _shape(self) -> tuple[int, ...]:
        rank = self.rng.choice((1, 1, 1, 2, 2, 3))
        while True:
            shape = tuple([self.rng.choice(SIZES) for _ in range(rank)])
            if int(np.prod(shape)) <= ELEMENTS // PROGRAMS:
                return shape

    # Lines

    def say(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def let(self, text: str, kind: str, shape: tuple[int, ...], *of: Value, **more: Any) -> Value:
        """A new variable that has the value of an expression of others."""
        self.count += 1
        exact = more.pop("exact", all(v.exact for v in of))
        depth = more.pop("depth", max([v.depth for v in of], default=0))
        half = more.pop("half", any(v.half for v in of))
        if kind == "float" and depth > (2 if half else 5):
            exact = False
        value = Value(f"v{self.count}", kind, shape, exact, depth, half)
        self.say(f"{value.name} = {text}")
        self.values.append(value)
        return value

    def any(self, accepts: Callable[[Value], bool] = lambda v: True) -> Value | None:
        fitting = [v for v in self.values if accepts(v)]
        # The latest are taken more often, so that chains grow.
        fitting = fitting[-4:] * 2 + fitting
        return self.rng.choice(fitting) if fitting else None

    def like(self, value: Value, accepts: Callable[[Value], bool] = lambda v: True) -> Value | None:
        return self.any(lambda v: v.shape == value.shape and accepts(v))

    # Indices

    def index(self, shape: tuple[int, ...]) -> str:
        """Where each element of a tile lies in an array, for its program."""
        terms, stride = [], 1
        order = list(range(len(shape)))
        if self.rng.random() < 0.3:
            self.rng.shuffle(order)
        for axis in reversed(order):
            spread = ", ".join(":" if a == axis else "None" for a in range(len(shape)))
            term = f"tl.arange(0, {shape[axis]})" + (f"[{spread}]" if len(shape) > 1 else "")
            terms.append(f"{term} * {stride}" if stride > 1 else term)
            stride *= shape[axis]
        base = self.rng.choice(("pid * SIZE", "pid * SIZE", "0", "pid"))
        return " + ".join([base, *terms]).replace("SIZE", str(int(np.prod(shape))))

    # What a line does

    def load(self) -> None:
        array = self.rng.choice(list(ARRAYS))
        kind, dtype = ARRAYS[array]
        shape = self.rng.choice(self.shapes)
        at = self.index(shape)
        style = self.rng.randrange(4)
        half = dtype == np.float16
        if style == 0:
            self.let(f"tl.load({array} + ({at}))", kind, shape, half=half)
        elif style == 1:
            self.let(f"tl.load({array} + ({at}), mask={at} < n)", kind, shape, half=half)
        else:
            other = self.rng.choice(("0", "1", "3")) if kind != "float" else "-1.5"
            bound = self.rng.choice(("n", "m", "n - m"))
            text = f"tl.load({array} + ({at}), mask=({at}) < {bound}, other={other})"
            self.let(text, kind, shape, half=half)

    def scalar(self) -> None:
        array = self.rng.choice(list(ARRAYS))
        kind, dtype = ARRAYS[array]
        at = self.rng.choice(("0", "pid", "n - 1", "m"))
        self.let(f"tl.load({array} + {at})", kind, (), half=dtype == np.float16)

    def number(self) -> None:
        name, kind = self.rng.choice((("n", "int"), ("m", "int"), ("s", "float"), ("pid", "int")))
        self.let(f"{name}", kind, ())

    def range_(self) -> None:
        shape = self.rng.choice([s for s in self.shapes if s])
        axis = self.rng.randrange(len(shape))
        spread = ", ".join(":" if a == axis else "None" for a in range(len(shape)))
        text = f"tl.arange(0, {shape[axis]})" + (f"[{spread}]" if len(shape) > 1 else "")
        own = tuple([n if a == axis else 1 for a, n in enumerate(shape)])
        self.let(text, "int", own)

    def arithmetic(self) -> None:
        x = self.any(lambda v: v.kind != "bool")
        y = x and self.fits(x, lambda v: v.kind != "bool" and _meet(x, v))
        if not x or not y:
            return
        kind = "float" if "float" in (x.kind, y.kind) else _wider(x.kind, y.kind)
        op = self.rng.choice(("+", "-", "*", "min", "max", "/"))
        shape = np.broadcast_shapes(x.shape, y.shape)
        depth = max(x.depth, y.depth) + (2 if op == "*" else 1)
        if op in ("min", "max"):
            text = f"tl.{op}imum({x.name}, {y.name})"
            self.let(text, kind, shape, x, y)
        elif op == "/":
            if kind == "float":
                text = f"{x.name} / tl.where({y.name} == 0, 1, {y.name})"
                if y.exact:
                    self.let(text, "float", shape, x, y, exact=False)
        else:
            self.let(f"{x.name} {op} {y.name}", kind, shape, x, y, depth=depth)

    def by_number(self) -> None:
        x = self.any(lambda v: v.kind != "bool")
        if not x:
            return
        if x.kind == "float":
            op, number = self.rng.choice((("+", "0.5"), ("-", "1"), ("*", "2"), ("*", "-0.5")))
        else:
            op, number = self.rng.choice((("+", "3"), ("-", "7"), ("*", "5"), ("&", "13")))
            op, number = self.rng.choice(((op, number), ("|", "8"), ("^", "6"), ("<<", "2")))
            if self.rng.random() < 0.2:
                op, number = ">>", "1"
        if self.rng.random() < 0.3 and op not in ("<<", ">>"):
            self.let(f"{number} {op} {x.name}", x.kind, x.shape, x, depth=x.depth + 1)
        else:
            self.let(f"{x.name} {op} {number}", x.kind, x.shape, x, depth=x.depth + 1)

    def divided(self) -> None:
        x = self.any(lambda v: v.kind in ("int", "uint"))
        y = x and self.fits(x, lambda v: v.kind == x.kind)
        if not x or not y:
            return
        shape = np.broadcast_shapes(x.shape, y.shape)
        op = self.rng.choice(("//", "%"))
        if self.rng.random() < 0.5:
            self.let(f"{x.name} {op} {self.rng.choice((2, 3, 7))}", x.kind, x.shape, x)
        else:
            # A number of -1 is no divisor of the least integer.
            self.let(f"{x.name} {op} (({y.name} & 7) + 1)", x.kind, shape, x, y)

    def bits(self) -> None:
        x = self.any(lambda v: v.kind in ("int", "uint"))
        y = x and self.fits(x, lambda v: v.kind in ("int", "uint"))
        if x and y:
            op = self.rng.choice("&|^")
            shape = np.broadcast_shapes(x.shape, y.shape)
            self.let(f"{x.name} {op} {y.name}", _wider(x.kind, y.kind), shape, x, y)

    def unary(self) -> None:
        x = self.any(lambda v: v.kind != "bool")
        if not x:
            return
        if x.kind == "float":
            text = self.rng.choice(
                (
                    "tl.exp(bounded({}))",
                    "tl.sqrt(tl.abs({}))",
                    "tl.sin(bounded({}))",
                    "tl.sigmoid({})",
                )
            )
            if x.half:
                text = text.replace("{}", "({}).to(tl.float32)")
            simple = self.rng.choice(("-{}", "tl.abs({})", "bounded({})"))
            if self.rng.random() < 0.5:
                self.let(simple.format(x.name), "float", x.shape, x)
            elif x.depth <= 6:
                self.let(text.format(x.name), "float", x.shape, x, exact=False, half=False)
        else:
            text = self.rng.choice(("-{}", "~{}", "tl.abs({})", "bounded({})"))
            if x.kind == "uint":
                text = self.rng.choice(("~{}", "bounded({})"))
            self.let(text.format(x.name), x.kind, x.shape, x)

    def rounding(self) -> None:
        x = self.any(lambda v: v.kind == "float" and v.exact and not v.half)
        if x:
            self.let(f"tl.{self.rng.choice(('floor', 'ceil'))}({x.name})", "float", x.shape, x)

    def cast(self) -> None:
        x = self.any(lambda v: v.kind != "bool")
        if not x:
            return
        if x.kind == "float":
            if x.exact and x.depth <= 3 and self.rng.random() < 0.5:
                name = self.rng.choice(("int32", "int16", "int64"))
                self.let(f"{x.name}.to(tl.{name})", "int", x.shape, x, depth=0, half=False)
            else:
                self.let(f"{x.name}.to(tl.float32)", "float", x.shape, x, half=False)
            return
        name, kind = self.rng.choice(
            (
                *(("int8", "int"), ("int16", "int"), ("int32", "int"), ("int64", "int")),
                *(("uint8", "uint"), ("uint32", "uint"), ("float32", "float"), ("int1", "bool")),
            )
        )
        text, more = f"{x.name}.to(tl.{name})", {}
        if kind == "float":
            text, more = f"({x.name} & 63).to(tl.float32)", {"depth": 3}
        self.let(text, kind, x.shape, x, **more)

    def comparison(self) -> None:
        x = self.any(lambda v: v.kind != "bool" and v.exact)
        y = x and self.fits(x, lambda v: v.kind == x.kind and v.exact)
        if x and y:
            op = self.rng.choice(("<", "<=", ">", ">=", "==", "!="))
            other = y.name if self.rng.random() < 0.7 else self.rng.choice(("0", "1", "2"))
            shape = np.broadcast_shapes(x.shape, y.shape) if other == y.name else x.shape
            self.let(f"{x.name} {op} {other}", "bool", shape, x, y, depth=0, half=False)

    def logic(self) -> None:
        x = self.any(lambda v: v.kind == "bool")
        y = x and self.fits(x, lambda v: v.kind == "bool")
        if x and y:
            op = self.rng.choice("&|^")
            self.let(f"{x.name} {op} {y.name}", "bool", np.broadcast_shapes(x.shape, y.shape))

    def where(self) -> None:
        c = self.any(lambda v: v.kind == "bool")
        x = c and self.fits(c, lambda v: v.kind != "bool")
        y = x and self.fits(
            replace(x, shape=np.broadcast_shapes(c.shape, x.shape)), lambda v: _meet(x, v)
        )
        if c and x and y:
            kind = "float" if "float" in (x.kind, y.kind) else _wider(x.kind, y.kind)
            shape = np.broadcast_shapes(c.shape, x.shape, y.shape)
            if self.rng.random() < 0.3:
                other = "0.0" if x.kind == "float" else "0"
                shape = np.broadcast_shapes(c.shape, x.shape)
                self.let(f"tl.where({c.name}, {x.name}, {other})", x.kind, shape, x)
            else:
                self.let(f"tl.where({c.name}, {x.name}, {y.name})", kind, shape, x, y)

    def reduction(self) -> None:
        x = self.any(lambda v: v.shape != () and v.kind != "bool")
        if not x:
            return
        axis = self.rng.randrange(len(x.shape))
        name = self.rng.choice(("sum", "max", "min", "argmax", "argmin", "xor_sum", "reduce"))
        text, more = x.name, {}
        if x.half:
            text = f"{x.name}.to(tl.float32)"
            more["half"] = False
        kept = self.rng.random() < 0.3
        shape = tuple([n for a, n in enumerate(x.shape) if a != axis])
        if kept:
            shape = tuple([1 if a == axis else n for a, n in enumerate(x.shape)])
        keep = ", keep_dims=True" if kept else ""
        if name == "sum":
            more["depth"] = x.depth + int(np.log2(x.shape[axis])) + 1
            self.let(f"tl.sum({text}, axis={axis}{keep})", x.kind, shape, x, **more)
        elif name in ("max", "min"):
            self.let(f"tl.{name}({text}, axis={axis}{keep})", x.kind, shape, x, **more)
        elif name in ("argmax", "argmin"):
            if x.exact:
                more["depth"] = 0
                self.let(f"tl.{name}({text}, axis={axis}{keep})", "int", shape, x, **more)
        elif name == "xor_sum":
            if x.kind in ("int", "uint") and not kept:
                self.let(f"tl.xor_sum({x.name}, axis={axis})", x.kind, shape, x)
        else:
            self.let(f"tl.reduce({text}, {axis}, larger{keep})", x.kind, shape, x, **more)

    def scan(self) -> None:
        x = self.any(lambda v: v.shape != () and v.kind != "bool")
        if x:
            axis = self.rng.randrange(len(x.shape))
            text, more = x.name, {"depth": x.depth + int(np.log2(x.shape[axis])) + 1}
            if x.half:
                text, more["half"] = f"{x.name}.to(tl.float32)", False
            back = self.rng.choice(("", ", reverse=True"))
            if self.rng.random() < 0.3:
                text = f"tl.associative_scan({text}, {axis}, larger{back})"
                self.let(text, x.kind, x.shape, x, **more)
            else:
                self.let(f"tl.cumsum({text}, axis={axis}{back})", x.kind, x.shape, x, **more)

    def view(self) -> None:
        x = self.any(lambda v: v.shape != ())
        if not x:
            return
        name = self.rng.choice(
            ("trans", "permute", "reshape", "expand", "ravel", "flip", "broadcast")
        )
        rank = len(x.shape)
        if name == "trans" and rank == 2:
            self.let(f"tl.trans({x.name})", x.kind, x.shape[::-1], x)
        elif name == "permute" and rank >= 2:
            order = self.rng.sample(range(rank), rank)
            self.let(
                f"tl.permute({x.name}, {tuple(order)})",
                x.kind,
                tuple([x.shape[a] for a in order]),
                x,
            )
        elif name == "reshape":
            size = int(np.prod(x.shape))
            first = self.rng.choice([n for n in SIZES if size % n == 0])
            shape = self.rng.choice(((first, size // first), (size,)))
            self.let(f"tl.reshape({x.name}, {shape})", x.kind, shape, x)
        elif name == "expand" and rank < 3:
            axis = self.rng.randrange(rank + 1)
            shape = (*x.shape[:axis], 1, *x.shape[axis:])
            self.let(f"tl.expand_dims({x.name}, {axis})", x.kind, shape, x)
        elif name == "ravel" and rank > 1:
            self.let(f"tl.ravel({x.name})", x.kind, (int(np.prod(x.shape)),), x)
        elif name == "flip" and x.kind != "bool":
            self.let(f"tl.flip({x.name}, {self.rng.randrange(rank)})", x.kind, x.shape, x)
        elif name == "broadcast" and 1 in x.shape:
            shape = tuple([4 if n == 1 else n for n in x.shape])
            if int(np.prod(shape)) <= ELEMENTS:
                self.let(f"tl.broadcast_to({x.name}, {shape})", x.kind, shape, x)

    def joined(self) -> None:
        x = self.any(lambda v: v.shape != () and len(v.shape) < 3 and v.kind != "bool")
        y = x and self.like(x, lambda v: v.kind == x.kind and v.half == x.half)
        if not x or not y:
            return
        name = self.rng.choice(("join", "interleave", "split"))
        same = f"{x.name}, {y.name}.to({x.name}.dtype)"
        if name == "join":
            self.let(f"tl.join({same})", x.kind, (*x.shape, 2), x, y)
        elif name == "interleave":
            shape = (*x.shape[:-1], 2 * x.shape[-1])
            self.let(f"tl.interleave({same})", x.kind, shape, x, y)
        elif x.shape[-1] == 2:
            self.count += 1
            name = f"w{self.count}"
            self.say(f"{name}0, {name}1 = tl.split({x.name})")
            for half in "01":
                self.values.append(replace(x, name=name + half, shape=x.shape[:-1]))

    def order(self) -> None:
        x = self.any(lambda v: v.shape != () and v.exact and v.kind != "bool" and not v.half)
        if x and x.shape[-1] > 1:
            down = self.rng.choice(("", ", descending=True"))
            self.let(f"tl.sort({x.name}{down})", x.kind, x.shape, x)

    def product(self) -> None:
        m, k, n = (16 for _ in range(3))
        first, second = self.rng.choice((("A", "B"), ("H", "H"), ("B", "A")))
        at = "tl.arange(0, 16)[:, None] * {} + tl.arange(0, 16)[None, :] * {}"
        parts = []
        for array in (first, second):
            strides = self.rng.choice(((16, 1), (1, 16)))
            self.count += 1
            half = array == "H"
            parts.append(
                self.let(f"tl.load({array} + ({at.format(*strides)}))", "float", (m, k), half=half)
            )
        text = f"tl.dot({parts[0].name}, {parts[1].name}, input_precision='ieee')"
        self.let(text, "float", (m, n), half=False, exact=True, depth=5)

    def picked(self) -> None:
        x = self.any(lambda v: len(v.shape) in (1, 2) and v.kind != "bool" and v.shape[-1] > 1)
        y = x and self.like(x, lambda v: v.kind == "int")
        if x and y:
            axis = len(x.shape) - 1
            index = f"{y.name}.to(tl.int32) & {x.shape[-1] - 1}"
            self.let(f"tl.gather({x.name}, {index}, {axis})", x.kind, x.shape, x, exact=x.exact)

    def largest(self) -> None:
        x = self.any(lambda v: len(v.shape) == 1 and v.exact and v.kind == "int")
        if x and x.shape[0] >= 4:
            self.let(f"tl.topk({x.name}, 2)", x.kind, (2,), x)

    def block(self) -> None:
        """What a block pointer leads to, some of it beyond the array."""
        array = self.rng.choice(("A", "I", "H"))
        kind, dtype = ARRAYS[array]
        order = self.rng.choice(((1, 0), (0, 1)))
        strides = (16, 1) if order == (1, 0) else (1, 16)
        offsets = self.rng.choice(("(0, 0)", "(pid * 4, 0)", "(pid, 4)"))
        block = (self.rng.choice((2, 4, 8)), self.rng.choice((4, 8)))
        self.count += 1
        name = f"p{self.count}"
        self.say(
            f"{name} = tl.make_block_ptr({array}, shape=(12, 10), strides={strides}, "
            f"offsets={offsets}, block_shape={block}, order={order})"
        )
        if self.rng.random() < 0.5:
            self.say(f"{name} = tl.advance({name}, ({self.rng.randint(0, 8)}, 2))")
        text = f'tl.load({name}, boundary_check=(0, 1), padding_option="zero")'
        self.let(text, kind, block, half=dtype == np.float16)

    def number_drawn(self) -> None:
        x = self.any(lambda v: v.kind == "int" and v.shape != ())
        if x:
            text = f"tl.randint({self.rng.randint(0, 9)}, {x.name}.to(tl.int32) & 255)"
            self.let(text, "uint", x.shape, x, depth=9)

    def atomic(self) -> None:
        """Elements of the output are exchanged, each by one program once."""
        x = self.any(lambda v: v.kind == "int" and v.exact)
        if not x or self.indent > 1 or self.stored >= RESULTS:
            return
        op = self.rng.choice(("add", "max", "min", "xchg", "or", "and", "xor"))
        at, mask = self.place(x.shape), ""
        if x.shape and self.rng.random() < 0.5:
            mask = f", mask=({at}) % 3 < 2"
        # Triton's interpreter takes the memory of a tile from `split` for one without gaps.
        text = f"tl.atomic_{op}(Z + ({at}), ({x.name} + 0).to(tl.int32){mask})"
        self.stored += 1
        if mask or self.rng.random() < 0.5:
            self.say(text)
        else:
            self.let(text, "int", x.shape, x, depth=0)

    def helper(self) -> None:
        x = self.any(lambda v: v.kind != "bool")
        y = x and self.fits(x, lambda v: v.kind == x.kind and _meet(x, v))
        if x and y:
            self.count += 1
            name = f"w{self.count}"
            self.say(f"{name}0, {name}1 = scaled({x.name}, {y.name})")
            shape = np.broadcast_shapes(x.shape, y.shape)
            for part in "01":
                both = max(x.depth, y.depth) + 2
                half = x.half or y.half
                exact = x.exact and y.exact and (x.kind != "float" or both <= (2 if half else 5))
                self.values.append(Value(name + part, x.kind, shape, exact, both, half))

    def loop(self) -> None:
        """A loop that carries a variable."""
        if self.indent > 2:
            return
        x = self.any(lambda v: v.kind in ("float", "int") and v.shape != () and not v.half)
        if not x:
            return
        self.count += 1
        name, i = f"c{self.count}", f"i{self.count}"
        zero = "tl.float32" if x.kind == "float" else "tl.int64"
        self.say(f"{name} = tl.zeros({x.shape}, {zero})")
        bound = self.rng.choice(("3", "m", "n // 8", "pid + 1"))
        how = self.rng.choice(("for", "static", "while", "step"))
        if how == "for":
            self.say(f"for {i} in range({bound}):")
        elif how == "static":
            self.say(f"for {i} in tl.static_range(3):")
        elif how == "step":
            self.say(f"for {i} in range(1, {bound} + 2, 2):")
        else:
            self.say(f"{i} = 0")
            self.say(f"while {i} < {bound}:")
        before = list(self.values)
        self.indent += 1
        self.values.append(Value(i, "int", ()))
        self.lines_of(self.rng.randint(0, 2))
        y = self.any(lambda v: v.shape in (x.shape, ()) and v.kind == x.kind and not v.half)
        y = y or x
        self.say(f"{name} = {name} + {y.name}")
        if how == "while":
            self.say(f"{i} = {i} + 1")
        self.indent -= 1
        self.values = before
        depth = max(x.depth, y.depth) + 5
        exact = x.kind == "int" and y.exact
        self.values.append(Value(name, x.kind, x.shape, exact, depth))

    def branch(self) -> None:
        if self.indent > 2:
            return
        c = self.any(lambda v: v.exact and v.shape == ())
        x = self.any(lambda v: v.kind in ("float", "int") and not v.half)
        if not x:
            return
        condition = self.rng.choice(("pid == 0", "n > 20", "m % 2 == 0", "(n > 9) & (pid != 1)"))
        if c and self.rng.random() < 0.5:
            condition = c.name if c.kind == "bool" else f"{c.name} > 0"
        self.count += 1
        name = f"c{self.count}"
        zero = "tl.float32" if x.kind == "float" else "tl.int64"
        self.say(f"{name} = {x.name}.to({zero}) + tl.zeros({x.shape or (1,)}, {zero})")
        shape = x.shape or (1,)
        depth, exact = x.depth, x.exact
        for arm in ("if", "else")[: self.rng.randint(1, 2)]:
            self.say(f"if {condition}:" if arm == "if" else "else:")
            before = list(self.values)
            self.indent += 1
            self.lines_of(self.rng.randint(0, 2))
            y = self.any(lambda v: v.shape in (shape, ()) and v.kind == x.kind and not v.half)
            self.say(f"{name} = {name} * 2 + {y.name if y else 1}")
            if y:
                depth, exact = max(depth, y.depth), exact and y.exact
            self.indent -= 1
            self.values = before
        depth += 3
        exact = exact and (x.kind == "int" or depth <= 5)
        self.values.append(Value(name, x.kind, shape, exact, depth))

    def leave(self) -> None:
        if self.indent == 1 and self.stored and self.rng.random() < 0.3:
            self.say(f"if {self.rng.choice(('pid == 2', 'n < 12', 'm == 3'))}:")
            self.say("    return")

    def fits(self, x: Value, accepts: Callable[[Value], bool]) -> Value | None:
        """A value that broadcasts with another one."""

        def both(v: Value) -> bool:
            if not accepts(v) or len(v.shape) not in (0, len(x.shape) or len(v.shape)):
                return False
            try:
                return int(np.prod(np.broadcast_shapes(v.shape, x.shape))) <= ELEMENTS
            except ValueError:
                return False

        return self.any(both)

    def lines_of(self, count: int) -> None:
        for _ in range(count):
            self.rng.choice(self.makers())()

    def makers(self) -> list[Callable[[], None]]:
        often = [self.arithmetic, self.by_number, self.load, self.reduction, self.view]
        rare = [self.scalar, self.number, self.range_, self.divided, self.bits, self.unary]
        rare += [self.rounding, self.cast, self.comparison, self.logic, self.where, self.scan]
        rare += [self.joined, self.order, self.helper, self.loop, self.branch, self.leave]
        rare += [self.picked, self.largest, self.block, self.number_drawn, self.atomic]
        if self.rng.random() < 0.2:
            rare.append(self.product)
        return often * 2 + rare

    def place(self, shape: tuple[int, ...]) -> str:
        """Where a result of this program lies in an output."""
        terms, stride = [f"pid * {RESULTS * ELEMENTS} + {self.stored * ELEMENTS}"], 1
        for axis in reversed(range(len(shape))):
            spread = ", ".join(":" if a == axis else "None" for a in range(len(shape)))
            terms.append(f"tl.arange(0, {shape[axis]})[{spread}] * {stride}")
            stride *= shape[axis]
        return " + ".join(terms)

    def store(self, value: Value) -> None:
        """Each program has a part of the outputs, each result a part of that."""
        if self.stored == RESULTS:
            return
        out, dtype = ("X", "float32") if value.kind == "float" else ("Y", "int64")
        at = self.place(value.shape)
        mask = ""
        if value.shape and self.rng.random() < 0.3:
            mask = f", mask=({at}) % {ELEMENTS} < n"
        self.say(f"tl.store({out} + ({at}), {value.name}.to(tl.{dtype}){mask})")
        self.stored += 1

    def text(self) -> str:
        self.say("pid = tl.program_id(0)")
        self.load()
        self.load()
        for _ in range(self.rng.randint(4, 12)):
            self.lines_of(1)
            value = self.values[-1]
            if self.rng.random() < 0.25 and value.depth < 12:
                self.store(value)
        fitting = [v for v in self.values if v.depth < 12]
        self.store(fitting[-1])
        arrays = ", ".join(ARRAYS)
        return f"@triton.jit\ndef {self.name}({arrays}, X, Y, Z, n, m, s):\n" + "\n".join(
            self.lines
        )


RESULTS = 6
ROUNDED = ("tl.exp(bounded({}))", "tl.sqrt(tl.abs({}))", "tl.sin(bounded({}))", "tl.sigmoid({})")
VIEWS = ("trans", "permute", "reshape", "expand", "ravel", "flip", "broadcast")
OUTPUTS = ("X", "Y", "Z")


def _meet(x: Value, y: Value) -> bool:
    """Whether Triton lets two values meet: not if one is signed and one is not, and no integers
    that may be large become floats."""
    kinds = {x.kind, y.kind}
    if "bool" in kinds:
        return False
    floats = [v for v in (x, y) if v.kind == "float"]
    return len(kinds) == 1 or not floats or (not floats[0].half and x.depth + y.depth <= 2)


def _wider(x: str, y: str) -> str:
    return x if x == y else "int"


def module(numbers: range, seed: int) -> str:
    """The text of a module of random kernels."""
    drafts = [Draft(Random(f"{seed} {i}"), f"k{i}") for i in numbers]
    return HEAD + "\n\n\n".join([draft.text() for draft in drafts]) + "\n"


def arguments(name: str, seed: int) -> dict[str, Any]:
    """What a kernel is launched with: small numbers, which few operations round."""
    rng = np.random.default_rng([seed, int(name[1:])])
    passed: dict[str, Any] = {}
    for array, (kind, dtype) in ARRAYS.items():
        if kind == "float":
            passed[array] = (rng.integers(-8, 9, ELEMENTS) / 4).astype(dtype)
        else:
            least = 0 if kind == "uint" else -100
            passed[array] = rng.integers(least, 101, ELEMENTS).astype(dtype)
    size = PROGRAMS * RESULTS * ELEMENTS
    passed |= {"X": np.zeros(size, np.float32), "Y": np.zeros(size, np.int64)}
    passed["Z"] = np.arange(size, dtype=np.int32) % 13
    passed |= {"n": int(rng.integers(9, 40)), "m": int(rng.integers(1, 5)), "s": 1.5}
    return passed


def cases(
    module: Any, numbers: range, seed: int, folder: Path, device: str
) -> Iterator[tuple[str, str]]:
    """Run each kernel, and keep what it was given and gave: nothing, if it is refused.  Gives the
    path of each that is refused, and why."""
    for i in numbers:
        name = f"k{i}"
        given = arguments(name, seed)
        passed = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in given.items()}
        path, results = f"{module.__name__}.{name}", {}
        try:
            with np.errstate(all="ignore"):
                getattr(module, name)[(PROGRAMS,)](**passed, device=device)
            results = {n: passed[n] for n in OUTPUTS}
        except (IrisError, AttributeError) as error:
            yield path, str(error)
        case = {"arguments": given, "constants": (), "results": results, "grid": (PROGRAMS, 1, 1)}
        (folder / f"{path}.pickle").write_bytes(pickle.dumps(case))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first kernel")
    parser.add_argument("--device", default="interp")
    parser.add_argument("--triton", required=True, help="the folder where Triton is")
    parser.add_argument("--at", type=Path, help="where the text of the kernels goes")
    given = parser.parse_args()
    import iris.triton

    iris.triton.install()
    with tempfile.TemporaryDirectory() as temporary:
        at = given.at or Path(temporary)
        at.mkdir(parents=True, exist_ok=True)
        numbers = range(given.first, given.first + given.count)
        (at / "drawn_kernels.py").write_text(module(numbers, given.seed))
        sys.path.insert(0, str(at))
        kernels = importlib.import_module("drawn_kernels")
        folder = Path(temporary) / "cases"
        folder.mkdir()
        refused = dict(cases(kernels, numbers, given.seed, folder, given.device))
        verdicts = held_against_triton(folder, str(at), given.triton)
    by_triton = {p for p, verdict in verdicts.items() if verdict.startswith("Triton refuses")}
    differ = sum(verdict.startswith("differs") for verdict in verdicts.values())
    # A number that is known while tracing has no methods, in Triton neither.
    wrong = {path: why for path, why in refused.items() if path not in by_triton}
    for path, why in wrong.items():
        print(f"{path}: {why}")
    print(
        f"{given.count} kernels: {len(by_triton)} refused by Triton, {len(wrong)} by Iris alone; "
        f"{differ} differ"
    )
    sys.exit(bool(wrong) or bool(differ))


if __name__ == "__main__":
    main()
