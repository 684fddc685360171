"""The IR core, in microseconds per op, on a function of 1,000 ops.

Two functions: a chain of adds and multiplications, and one with loads, stores, compares, selects
and a loop every eight ops.  The bars are for the first.
"""

from __future__ import annotations

import gc

import report
from iris.ir import Level, Module, parse, verify
from iris.ir.builder import Builder
from iris.ir.control import For, Func, Return, Yield
from iris.ir.math import Add, Compare, Constant, Mul, Predicate, Select
from iris.ir.tile import Load, Store
from iris.ir.types import Ptr, f32, i32
from iris.passes.generic.cse import CommonSubexpressionElimination
from iris.passes.generic.dce import DeadCodeElimination

OPS = 1000
BARS = {"build": 3, "clone": 3, "print": 5, "parse": 20, "verify": 3, "cse,dce": 8}


def chain() -> Module:
    func = Func("chain", Level.TILE, [("a", f32), ("b", f32)])
    b = Builder(func.body)
    x, y = func.body.arguments
    for i in range(OPS - 1):
        x, y = y, b(Add(x, y) if i % 2 else Mul(x, y))
    b.insert(Return([]))
    return Module([func])


def mixed() -> Module:
    func = Func("mixed", Level.TILE, [("X", Ptr(f32)), ("n", i32), ("a", f32)])
    b = Builder(func.body)
    pointer, n, x = func.body.arguments
    for i in range(OPS // 8):
        k = b(Constant(i, i32))
        y = b(Load(pointer, k))
        inside = b(Compare(Predicate.LT, k, n))
        x = b(Select(inside, x, y))
        loop = b.insert(For(k, n, k, [x]))
        with b.inside(loop.body):
            b.insert(Yield([b(Add(loop.carried_arguments[0], y))]))
        x = loop.results[0]
        b.insert(Store(pointer, k, x))
    b.insert(Return([]))
    return Module([func])


def clean(module: Module) -> None:
    CommonSubexpressionElimination().run(module)
    DeadCodeElimination().run(module)


def main() -> None:
    rows = {}
    for name, build in {"chain": chain, "mixed": mixed}.items():
        module = build()
        text = str(module)
        assert parse(text) == module
        gc.collect()
        timed = {
            "build": report.measure(lambda _, build=build: build()),
            "clone": report.measure(lambda m: m.clone(), lambda module=module: module),
            "print": report.measure(str, lambda module=module: module),
            "parse": report.measure(parse, lambda text=text: text),
            "verify": report.measure(verify, lambda module=module: module),
            "cse,dce": report.measure(clean, module.clone),
        }
        for what, seconds in timed.items():
            rows[f"{name}: {what}"] = report.spread(seconds, OPS * 1e-6)
            if name == "chain":
                rows[f"{name}: {what}"]["bar"] = BARS[what]
    print("microseconds per op")
    report.write("ir", rows)


if __name__ == "__main__":
    main()
