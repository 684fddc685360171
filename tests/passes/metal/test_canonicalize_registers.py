"""Rules for register arrays: what is taken of one is found where it is from."""

from __future__ import annotations

import random
from textwrap import dedent, indent

import numpy as np
import pytest

from iris.interp import metal as interpreter
from iris.ir import parse, verify
from iris.ir.control import Func
from iris.ir.core import OPS, Module
from iris.passes import run
from iris.passes.generic import canonicalize
from iris.passes.metal import canonicalize_registers as registers
from support import counts

ARGUMENTS = "%X: ptr<f32>, %x: f32, %k: i32"
START = """
%a: regs<4xf32> = metal.load %X, %k
%i: regs<4xi32> = metal.splat %k
"""

# After canonicalize and dce, or None if nothing happens.
CASES: dict[str, list[tuple[str, str | None]]] = {
    "constant_splat": [
        ("%c: f32 = constant 2.0\n%r: regs<4xf32> = metal.splat %c",
         "%r: regs<4xf32> = constant 2.0"),
        ("%r: regs<4xf32> = metal.splat %x", None),
    ],
    "take_from_the_source": [
        # All of it, in order.
        ("%r: regs<4xf32> = metal.take [0, 1, 2, 3] %a", "%a"),
        ("%r: regs<4xf32> = metal.take [3, 2, 1, 0] %a", None),
        ("%r: regs<2xf32> = metal.take [0, 1] %a", None),
        # One element is a scalar, also of an array of one.
        ("%c: regs<1xf32> = metal.splat %x\n%d: regs<1xf32> = exp %c\n"
         "%r: f32 = metal.take [0] %d", None),
        # Constants.
        ("%c: regs<4xf32> = constant 2.0\n%r: regs<2xf32> = metal.take [1, 3] %c",
         "%r: regs<2xf32> = constant 2.0"),
        ("%c: regs<4xf32> = constant 2.0\n%r: f32 = metal.take [3] %c",
         "%r: f32 = constant 2.0"),
        # Splats.
        ("%c: regs<4xf32> = metal.splat %x\n%r: regs<2xf32> = metal.take [1, 3] %c",
         "%r: regs<2xf32> = metal.splat %x"),
        ("%c: regs<4xf32> = metal.splat %x\n%r: f32 = metal.take [2] %c", "%x"),
        # Literals and patterns.
        ("%c: regs<4xi32> = metal.literal [5, -1, 7, 9]\n%r: regs<2xi32> = metal.take [3, 1] %c",
         "%r: regs<2xi32> = metal.literal [9, -1]"),
        ("%c: regs<4xi32> = metal.literal [5, -1, 7, 9]\n%r: i32 = metal.take [1] %c",
         "%r: i32 = constant -1"),
        ("%c: regs<8xi32> = metal.pattern [1, 2, 16]\n%r: regs<3xi32> = metal.take [7, 4, 3] %c",
         "%r: regs<3xi32> = metal.literal [19, 16, 3]"),
        ("%c: regs<8xi32> = metal.pattern [1, 3, 16]\n%r: i32 = metal.take [3] %c",
         "%r: i32 = constant 2"),
        # Of what was taken.
        ("%c: regs<3xf32> = metal.take [3, 1, 0] %a\n%r: regs<2xf32> = metal.take [2, 0] %c",
         "%r: regs<2xf32> = metal.take [0, 3] %a"),
        # Of what was joined, if it is all in one part.
        ("%c: regs<5xf32> = metal.join %x, %a\n%r: regs<2xf32> = metal.take [2, 4] %c",
         "%r: regs<2xf32> = metal.take [1, 3] %a"),
        ("%c: regs<5xf32> = metal.join %x, %a\n%r: regs<4xf32> = metal.take [1, 2, 3, 4] %c",
         "%a"),
        ("%c: regs<5xf32> = metal.join %x, %a\n%r: regs<2xf32> = metal.take [0, 1] %c", None),
        # Of numbers, one alone; of floats it would be computed again.
        ("%s: regs<4xi32> = metal.splat %k\n%p: regs<4xi32> = metal.pattern [1, 2]\n"
         "%c: regs<4xi32> = add %s, %p\n%r: i32 = metal.take [2] %c",
         "%c2: i32 = constant 2\n%r: i32 = add %k, %c2"),
        ("%p: regs<4xi32> = metal.pattern [1, 2]\n%b: regs<4xbool> = compare lt %i, %p\n"
         "%r: bool = metal.take [3] %b",
         "%c3: i32 = constant 3\n%r: bool = compare lt %k, %c3"),
        ("%c: regs<4xf32> = exp %a\n%r: f32 = metal.take [2] %c", None),
        ("%p: regs<4xi32> = metal.pattern [1, 2]\n%c: regs<4xi32> = mul %p, %i\n"
         "%r: regs<2xi32> = metal.take [2, 0] %c", None),
    ],
    "slice_of_repeated": [
        ("%c: regs<6xf32> = metal.take [2, 1, 2, 1, 2, 1] %a\n%r: regs<2xf32> = metal.slice %c, %k",
         "%r: regs<2xf32> = metal.take [2, 1] %a"),
        ("%c: regs<4xf32> = metal.take [0, 1, 0, 1] %a\n%r: regs<4xf32> = metal.slice %c, %k",
         "%r: regs<4xf32> = metal.take [0, 1, 0, 1] %a"),
        ("%c: regs<3xf32> = metal.take [3, 3, 3] %a\n%r: f32 = metal.slice %c, %k",
         "%r: f32 = metal.take [3] %a"),
        ("%c: regs<4xf32> = metal.take [2, 1, 1, 2] %a\n%r: regs<2xf32> = metal.slice %c, %k",
         None),
        ("%c: regs<4xf32> = exp %a\n%r: regs<2xf32> = metal.slice %c, %k", None),
    ],
}  # fmt: skip


def function(body: str) -> Module:
    lines = dedent(body).strip().splitlines()
    value, _, type_ = lines[-1].partition(" = ")[0].partition(": ")
    inner = indent("\n".join([*START.strip().splitlines(), *lines, f"return {value}"]), "  ")
    return parse(
        f"func metal @f returns=[{type_}], simdgroups=1({ARGUMENTS}) {{\n{inner}\n}}\n".replace(
            "] simd", "], simd"
        )
    )


def body_of(module: Module) -> str:
    return dedent("\n".join(str(module).strip().splitlines()[1:-1]))


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [(rule, *case) for rule, cases in CASES.items() for case in cases],
)
def test_rule(rule: str, before: str, after: str | None) -> None:
    module = function(before)
    done = run(module, "canonicalize,dce")
    verify(done)
    if after is None:
        assert done == run(module, "dce")
        return
    expected = f"return {after}" if " = " not in after else f"{after}\nreturn %r"
    start = [line for line in START.strip().splitlines() if line.partition(":")[0] in expected]
    assert body_of(done) == "\n".join([*start, expected])


def test_every_rule_has_a_case() -> None:
    rules = [rule for cls in OPS.values() for rule in canonicalize.rules.of(cls)]
    names = {rule.__name__ for rule in rules if rule.__module__ == registers.__name__}
    assert names == set(CASES)


def test_what_others_want_too_is_not_made_a_second_time() -> None:
    body = """
        %p: regs<4xi32> = metal.pattern [1, 2]
        %c: regs<4xi32> = mul %i, %p
        %one: i32 = metal.take [2] %c
        %all: regs<4xi32> = add %c, %c
        %last: i32 = metal.take [0] %all
        %r: i32 = add %one, %last
        """
    assert body_of(run(function(body), "canonicalize,dce")).count("mul") == 1


# Random chains, run before and after.


def random_function(seed: int) -> Module:
    rng = random.Random(seed)
    values = [("%i", 4, "i32"), ("%k", 1, "i32"), ("%a", 4, "f32"), ("%x", 1, "f32")]
    lines: list[str] = []

    def emit(count: int, dtype: str, text: str) -> None:
        name = f"%v{len(lines)}"
        type_ = dtype if count == 1 else f"regs<{count}x{dtype}>"
        lines.append(f"{name}: {type_} = {text}")
        values.append((name, count, dtype))

    for _ in range(rng.randint(4, 14)):
        name, count, dtype = rng.choice(values[-6:])
        alike = [v for v in values if v[1:] == (count, dtype)]
        kind = rng.randrange(8)
        if kind == 0:
            bits = rng.randint(1, 3)
            images = [rng.randrange(16) for _ in range(bits)]
            emit(1 << bits, "i32", f"metal.pattern {images}")
        elif kind == 1:
            size = rng.choice((2, 3, 4))
            emit(size, "i32", f"metal.literal {[rng.randint(-9, 9) for _ in range(size)]}")
        elif kind == 2 and count == 1:
            emit(rng.choice((2, 4)), dtype, f"metal.splat {name}")
        elif kind == 3:
            other = rng.choice([v for v in values if v[2] == dtype])
            emit(count + other[1], dtype, f"metal.join {name}, {other[0]}")
        elif kind == 4:
            emit(count, dtype, f"add {name}, {rng.choice(alike)[0]}")
        elif kind == 5 and count % 2 == 0:
            part = [rng.randrange(count) for _ in range(rng.randint(1, 2))]
            indices = [*part, *(part if rng.random() < 0.7 else reversed(part))]
            emit(len(indices), dtype, f"metal.take {indices} {name}")
            number = rng.choice((0, 1))
            emit(1, "i32", f"constant {number}")
            emit(len(part), dtype, f"metal.slice %v{len(lines) - 2}, %v{len(lines) - 1}")
        elif count > 1:
            size = rng.randint(1, count)
            indices = [rng.randrange(count) for _ in range(size)]
            emit(size, dtype, f"metal.take {indices} {name}")
    if not lines:
        emit(1, "i32", "add %k, %k")
    return function("\n".join(lines))


@pytest.mark.parametrize("block", range(4))
def test_elements_stay_the_same(block: int) -> None:
    changed = 0
    for seed in range(block * counts(40, 1000), (block + 1) * counts(40, 1000)):
        before = random_function(seed)
        after = run(before, "canonicalize,fold,canonicalize")
        verify(after)
        assert parse(str(after)) == after
        found = []
        for module in (before, after):
            (f,) = module
            assert isinstance(f, Func)
            arguments = [np.arange(16, dtype=np.float32), 0.5, 4]
            found.append(interpreter.run(f, (1, 1, 1), arguments)[0])
        assert np.array_equal(*found), f"{before}\n{after}"
        changed += before != after
    assert changed > counts(40, 1000) / 4
