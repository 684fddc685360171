"""Read, check and transform IR: build a function, run passes, look at each stage.

python examples/first_ir.py
"""

from __future__ import annotations

import difflib

from iris.ir import Level, Module, parse, verify
from iris.ir.builder import Builder
from iris.ir.control import For, Func, Return, Yield
from iris.ir.layout.draw import draw
from iris.ir.layout.linear import APPLE_FRAGMENT
from iris.ir.layout.reduce import reduce_axis
from iris.ir.math import Add, Constant, Mul
from iris.ir.tile import Load, Store
from iris.ir.types import Ptr, f32, i32
from iris.passes import run
from iris.passes.instruments import Check, Snapshots

PIPELINE = "canonicalize,fold,cse,licm,dce"


def scaled_sum() -> Module:
    """Sum n elements of X, each times the square of a scale; written without much care."""
    func = Func("scaled_sum", Level.TILE, [("X", Ptr(f32)), ("scale", f32), ("n", i32)])
    pointer, scale, n = func.body.arguments
    b = Builder(func.body)
    zero, one = b(Constant(0, i32)), b(Constant(1, i32))
    start = b(Constant(0.0, f32))
    loop = b.insert(For(zero, n, one, [start]))
    with b.inside(loop.body):
        i, total = loop.body.arguments
        i.name, total.name = "i", "total"
        again = b(Constant(0, i32))
        x = b(Load(pointer, b(Add(i, again), "index")), "x")
        squared = b(Mul(scale, scale), "squared")
        squared_too = b(Mul(scale, scale), "squared_too")
        b(Add(squared, squared_too), "unused")
        b.insert(Yield([b(Add(total, b(Mul(x, squared_too), "term")), "next")]))
    loop.results[0].name = "sum"
    b.insert(Store(pointer, zero, loop.results[0]))
    b.insert(Return([]))
    return Module([func])


def main() -> None:
    module = scaled_sum()
    verify(module)
    assert parse(str(module)) == module
    stages = Snapshots()
    run(module, PIPELINE, [stages, Check(verify)])
    print(f"The IR as built:\n\n{module}")
    shown = str(module)
    for stage in stages.stages[1:]:
        text = str(stage.module)
        print(f"After {stage.name}:" + ("" if stage.changed else " no change"))
        diff = difflib.unified_diff(shown.splitlines(), text.splitlines(), n=1, lineterm="")
        print("\n".join(line for line in diff if not line.startswith(("---", "+++"))) + "\n")
        shown = text
    print(f"The IR at the end:\n\n{shown}")
    print("Which lane (T) and register holds which element of an 8x8 simdgroup matrix:\n")
    print(draw(APPLE_FRAGMENT))
    rows, columns = reduce_axis(APPLE_FRAGMENT, 1), reduce_axis(APPLE_FRAGMENT, 0)
    print(f"\nA row is reduced by shuffles with lane xor {', '.join(map(str, rows.lane_masks))};")
    print(f"a column by lane xor {', '.join(map(str, columns.lane_masks))}.")


if __name__ == "__main__":
    main()
