"""Random programs on rows and columns that are there, written twice: with tiles of just their
size, and with larger ones whose loads are masked.  Both must do the same."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np

from iris.interp import tile as interp
from iris.ir import Module, parse, verify
from iris.ir.control import Func
from iris.passes.tile.follow_masks import FollowMasks

Value = tuple[str, str, str]  # name, axes ("", "r", "c", "rc", ...), dtype
SIZES = {"r": 4, "c": 8}
SLOT = 64  # elements of the output for each value stored


def outcome(text: str, arguments: list[Any]) -> None:
    """Run a program as it is, and once its masks have been followed."""
    module = parse(text)
    verify(module)
    before = [x.copy() for x in arguments]
    run(module, arguments)
    FollowMasks().run(module)
    verify(module)
    assert parse(str(module)) == module
    assert "masked_load" not in str(module)
    run(module, before)
    for one, other in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(one, other)


def run(module: Module, arguments: list[Any], grid: tuple[int, int, int] = (1, 1, 1)) -> None:
    (function,) = module
    assert isinstance(function, Func)
    interp.run(function, grid, arguments)


def arrays(seed: int) -> list[Any]:
    """Floats with some that are not finite, integers, positive integers; a row of all -inf."""
    rng = np.random.default_rng(seed)
    floats = rng.integers(-8, 9, 64).astype(np.float32)
    special = rng.random(64)
    floats[special < 0.1] = -np.inf
    floats[special > 0.95] = np.nan
    floats[8:16] = -np.inf
    integers = rng.integers(-8, 9, 64).astype(np.int32)
    return [floats, integers, rng.integers(1, 5, 64).astype(np.int32)]


class Twin:
    """One text of the program: `spread` is 0 for tiles of just the right size, 1 for larger
    ones with the lanes that are there in front, 2 for every other lane."""

    def __init__(self, seed: int, spread: int):
        self.random = random.Random(seed)
        self.spread = spread
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.stored = 0
        self.size = {k: n * (1, 4, 2)[spread] for k, n in SIZES.items()}
        self.pool: list[Value] = []
        self.loose: set[str] = set()  # what may count in lanes that are not there
        self.index = {k: self.places(k) for k in SIZES}

    def type(self, axes: str, dtype: str) -> str:
        sizes = "x".join(str(self.size[a]) for a in axes)
        return f"tile<{sizes}x{dtype}>" if axes else dtype

    def emit(self, axes: str, dtype: str, what: str) -> Value:
        self.count += 1
        name = f"%v{self.count}"
        self.line(f"{name}: {self.type(axes, dtype)} = {what}")
        if self.loose.intersection(re.findall(r"%\w+", what)):
            self.loose.add(name)
        return name, axes, dtype

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def constant(self, axes: str, dtype: str, number: str) -> str:
        return self.emit(axes, dtype, f"constant {number}")[0]

    def places(self, axis: str) -> tuple[Value, Value]:
        """The index that each lane stands for, and whether it is one."""
        lane = self.emit(axis, "i32", "tile.arange 0")
        count = self.constant(axis, "i32", str(SIZES[axis]))
        if self.spread == 2:
            one = self.constant(axis, "i32", "1")
            odd = self.emit(axis, "i32", f"and {lane[0]}, {one}")
            lane = self.emit(axis, "i32", f"shr {lane[0]}, {one}")
            odd = self.emit(axis, "bool", f"compare eq {odd[0]}, {one}")
        inside = self.emit(axis, "bool", f"compare lt {lane[0]}, {count}")
        if self.spread == 2:
            inside = self.emit(axis, "bool", f"and {inside[0]}, {odd[0]}")
        return lane, inside

    def along(self, value: Value, position: int, axes: str) -> str:
        """A vector along one of the axes, spread over all of them."""
        name, _, dtype = value
        shape = [self.size[axes[position]]]
        for place in range(len(axes)):
            if place != position:
                shape.insert(place, 1)
                sizes = "x".join(map(str, shape))
                self.count += 1
                self.line(
                    f"%v{self.count}: tile<{sizes}x{dtype}> = tile.expand_dims {place} {name}"
                )
                self.loose.update({f"%v{self.count}"} if name in self.loose else ())
                name = f"%v{self.count}"
        return self.emit(axes, dtype, f"tile.broadcast {name}")[0] if len(axes) > 1 else name

    def where(self, axes: str) -> tuple[str, str]:
        """The offset of each lane in a row-major array, and the mask."""
        offset = mask = ""
        for position, axis in enumerate(axes):
            index, inside = (self.along(v, position, axes) for v in self.index[axis])
            if not offset:
                offset, mask = index, inside
                continue
            size = self.constant(axes, "i32", str(SIZES[axis]))
            offset = self.emit(axes, "i32", f"mul {offset}, {size}")[0]
            offset = self.emit(axes, "i32", f"add {offset}, {index}")[0]
            mask = self.emit(axes, "bool", f"and {mask}, {inside}")[0]
        return offset, mask

    def load(self, axes: str, dtype: str, array: str) -> Value:
        offset, mask = self.where(axes)
        if self.spread:
            return self.emit(axes, dtype, f"tile.masked_load {array}, {offset}, {mask}")
        return self.emit(axes, dtype, f"tile.load {array}, {offset}")

    def store(self, value: Value) -> None:
        name, axes, dtype = value
        if dtype == "bool":
            name, _, dtype = self.emit(axes, "i32", f"cast {name}")
        start = self.constant(axes, "i32", str(SLOT * self.stored))
        self.stored += 1
        offset, mask = start, ""
        if axes:
            offset, mask = self.where(axes)
            offset = self.emit(axes, "i32", f"add {offset}, {start}")[0]
        mask = f", mask={mask}" if mask else ""
        self.line(f"tile.store {'%OF' if dtype == 'f32' else '%OI'}, {offset}, {name}{mask}")

    # Random ops.  Each draws the same numbers in both texts.

    def pick(self, test: Any = lambda v: True) -> Value:
        found = [v for v in self.pool if test(v)]
        recent = found[-3:] if self.random.random() < 0.5 else found
        return self.random.choice(recent)

    def like(self, value: Value) -> Value:
        return self.pick(lambda v: v[1:] == value[1:])

    def tame(self, value: Value) -> Value:
        """A float again an integer of few bits, so that sums are exact in any order."""
        name, axes, dtype = value
        if dtype != "f32":
            return value
        low, high = (self.constant(axes, dtype, n) for n in ("-8.0", "8.0"))
        name = self.emit(axes, dtype, f"maximum {name}, {low}")[0]
        return self.emit(axes, dtype, f"minimum {name}, {high}")

    def counted(self, value: Value) -> Value:
        """A value that is masked in the lanes that are not there."""
        value = self.tame(value)
        name, axes, dtype = value
        if name not in self.loose:
            return value
        there = self.load(axes, "i32", "%D")[0]
        zero = self.constant(axes, "i32", "0")
        if dtype == "bool":
            there = self.emit(axes, dtype, f"compare lt {there}, {zero}")[0]
        else:
            there = self.emit(axes, "i32", f"mul {there}, {zero}")[0]
            if dtype == "f32":
                there = self.emit(axes, dtype, f"cast {there}")[0]
        value = self.emit(axes, dtype, f"{'or' if dtype == 'bool' else 'add'} {name}, {there}")
        self.loose.discard(value[0])
        return value

    def step(self) -> None:
        kinds = ["elementwise"] * 3 + ["choose", "reduce", "reduce", "widen", "scan", "move"]
        kinds += ["dot", "dot", "divide", "loop", "branch", "where_valid", "gather"]
        getattr(self, self.random.choice(kinds))()

    def elementwise(self) -> None:
        x = self.pick(lambda v: v[2] != "bool")
        y = self.like(x)
        word = self.random.choice(["add", "sub", "mul", "maximum", "minnum", "compare lt"])
        dtype = "bool" if "compare" in word else x[2]
        self.pool.append(self.tame(self.emit(x[1], dtype, f"{word} {x[0]}, {y[0]}")))

    def choose(self) -> None:
        c = self.pick(lambda v: v[2] == "bool")
        x = self.pick(lambda v: v[1] == c[1])
        y = self.like(x)
        self.pool.append(self.emit(x[1], x[2], f"select {c[0]}, {x[0]}, {y[0]}"))

    def where_valid(self) -> None:
        """A number in the lanes that are not there, which then count, but in no sum."""
        x = self.pick(lambda v: len(v[1]) == 1 and v[2] == "i32")
        inside = self.index[x[1]][1][0]
        zero = self.constant(x[1], "i32", "0")
        y = self.emit(x[1], "i32", f"select {inside}, {x[0]}, {zero}")
        self.pool.append(self.emit("", "i32", f"tile.reduce sum 0 {y[0]}"))

    def reduce(self) -> None:
        x = self.counted(self.pick(lambda v: v[1]))
        axis = self.random.randrange(len(x[1]))
        numbers = ["sum", "maxnum", "minnum", "maximum", "minimum", "argmax", "argmin"]
        kind = self.random.choice(["any", "all"] if x[2] == "bool" else numbers)
        dtype = "i32" if kind.startswith("arg") else x[2]
        axes = x[1][:axis] + x[1][axis + 1 :]
        y = self.emit(axes, dtype, f"tile.reduce {kind} {axis} {x[0]}")
        if kind.startswith("arg") and self.spread == 2:
            one = self.constant(axes, "i32", "1")
            y = self.emit(axes, "i32", f"shr {y[0]}, {one}")
        self.pool.append(self.tame(y))

    def scan(self) -> None:
        x = self.counted(self.pick(lambda v: v[1] and v[2] != "bool"))
        axis = self.random.randrange(len(x[1]))
        kind = self.random.choice(["sum", "maxnum", "minimum"])
        self.pool.append(self.tame(self.emit(*x[1:], f"tile.scan {kind} {axis} {x[0]}")))

    def widened(self, x: Value) -> Value:
        axes = self.random.choice([a for a in ("r", "c", "rc", "cr", "rr") if a != x[1]])
        if not x[1]:
            return self.emit(axes, x[2], f"tile.broadcast {x[0]}")
        other = self.random.choice("rc")
        position = self.random.randrange(2)
        axes = x[1] + other if position == 0 else other + x[1]
        return (self.along(x, position, axes), axes, x[2])

    def move(self) -> None:
        x = self.pick(lambda v: len(v[1]) == 2)
        self.pool.append(self.emit(x[1][::-1], x[2], f"tile.transpose [1, 0] {x[0]}"))

    def dot(self) -> None:
        a = self.counted(self.pick(lambda v: len(v[1]) == 2 and v[2] != "bool"))
        bs = [v for v in self.pool if len(v[1]) == 2 and v[1][0] == a[1][1] and v[2] == a[2]]
        if not bs:
            return
        b = self.counted(self.random.choice(bs))
        axes = a[1][0] + b[1][1]
        accs = [v for v in self.pool if v[1:] == (axes, a[2])]
        acc = f", acc={self.random.choice(accs)[0]}" if accs and self.random.random() < 0.5 else ""
        self.pool.append(self.tame(self.emit(axes, a[2], f"tile.dot {a[0]}, {b[0]}{acc}")))

    def divide(self) -> None:
        x = self.pick(lambda v: v[2] == "i32")
        if not x[1]:
            return
        y = self.load(x[1], "i32", "%D")
        word = self.random.choice(["floordiv", "mod", "shl"])
        self.pool.append(self.emit(*x[1:], f"{word} {x[0]}, {y[0]}"))

    def gather(self) -> None:
        axes = self.random.choice(["r", "c", "rc"])
        at = self.load(axes, "i32", "%D")
        self.pool.append(self.emit(axes, "f32", f"tile.load %F, {at[0]}"))

    def stands_for(self, value: Value, other: Value) -> bool:
        loose = other[0] in self.loose or value[0] not in self.loose
        return value[1:] == other[1:] and loose

    def block(self, kinds: list[Value]) -> list[str]:
        """Some ops in a region, and what it yields."""
        saved = list(self.pool)
        self.depth += 1
        for _ in range(self.random.randrange(1, 4)):
            self.step()
        yields = [
            self.pick(
                lambda v, k=k: v[1:] == k[1:] and (k[0] in self.loose or v[0] not in self.loose)
            )[0]
            for k in kinds
        ]
        self.line(f"yield {', '.join(yields)}")
        self.depth -= 1
        self.pool = saved
        return yields

    def loop(self) -> None:
        if self.depth > 2:
            return
        starts = [self.pick() for _ in range(self.random.randrange(1, 4))]
        low, high, step = (self.constant("", "i32", n) for n in ("0", "3", "1"))
        results, carried, heads = [], [], []
        for x in starts:
            self.count += 1
            results.append((f"%v{self.count}", *x[1:]))
            if x[0] in self.loose:
                self.loose.update((f"%v{self.count}", f"%w{self.count}"))
            carried.append((f"%w{self.count}", *x[1:]))
            heads.append(f"%w{self.count}: {self.type(*x[1:])} = {x[0]}")
        made = ", ".join(f"{n}: {self.type(a, d)}" for n, a, d in results)
        self.line(
            f"{made} = for {low}, {high}, {step} (%k{self.count}: i32, {', '.join(heads)}) {{"
        )
        saved = list(self.pool)
        self.pool += carried * 3
        self.block(starts)
        self.pool = saved + results
        self.line("}")

    def branch(self) -> None:
        conditions = [v for v in self.pool if v[1:] == ("", "bool")]
        if not conditions or self.depth > 2:
            return
        condition = self.random.choice(conditions)
        x, y = self.pick(), self.pick()
        results = []
        for value in (x, y):
            self.count += 1
            results.append((f"%v{self.count}", *value[1:]))
            if value[0] in self.loose:
                self.loose.add(f"%v{self.count}")
        made = ", ".join(f"{n}: {self.type(a, d)}" for n, a, d in results)
        self.line(f"{made} = if {condition[0]} {{")
        self.block([x, y])
        self.line("} else {")
        self.block([x, y])
        self.line("}")
        self.pool += results

    def widen(self) -> None:
        wide = self.widened(self.pick(lambda v: len(v[1]) < 2))
        self.loose.add(wide[0])  # along the new axis it is masked nowhere
        self.pool.append(wide)

    def text(self, steps: int) -> str:
        for axes in ("r", "c", "rc", "cr"):
            self.pool.append(self.load(axes, "f32", "%F"))
            self.pool.append(self.load(axes, "i32", "%I"))
        for axes in ("", "r", "c", "rc", "cr"):  # what is masked nowhere
            self.pool.append((self.constant(axes, "i32", "3"), axes, "i32"))
            self.pool.append((self.constant(axes, "f32", "2.0"), axes, "f32"))
            self.loose.update(v[0] for v in self.pool[-2:] if axes)
        for axes in ("", "c", "rc"):
            x = self.pick(lambda v, axes=axes: v[1:] == (axes, "i32"))
            zero = self.constant(axes, "i32", "0")
            self.pool.append(self.emit(axes, "bool", f"compare gt {x[0]}, {zero}"))
        for _ in range(steps):
            self.step()
        for value in self.pool[-40:]:
            self.store(value)
        head = "%F: ptr<f32>, %I: ptr<i32>, %D: ptr<i32>, %OF: ptr<f32>, %OI: ptr<i32>"
        body = "\n".join(self.lines)
        return f"func tile @f({head}) {{\n{body}\n  return\n}}\n"


def written(seed: int, spread: int, steps: int) -> list[Any]:
    """What a random program writes."""
    twin = Twin(seed, spread)
    outputs = [np.zeros(64 * SLOT, np.float32), np.zeros(64 * SLOT, np.int32)]
    text = twin.text(steps)
    outcome(text, [*arrays(seed), *outputs])
    return outputs
