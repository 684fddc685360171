"""Fusing register loops: what becomes one loop, what must not, and that nothing else changes."""

from __future__ import annotations

import random
from textwrap import dedent, indent

import numpy as np
import pytest

from iris.interp import metal as interpreter
from iris.ir import parse, verify
from iris.ir.control import Func
from iris.ir.core import Module
from iris.passes import run
from iris.passes.metal.fuse_register_loops import MOST_KEPT, FuseRegisterLoops
from support import counts

HEAD = "%X: ptr<f32, noalias>, %Y: ptr<f32, noalias>, %P: ptr<f32>, %Q: ptr<f32>, %n: i32"


def module(body: str) -> Module:
    inner = indent(f"{dedent(body).strip()}\nreturn", "  ")
    return parse(f"func metal @f simdgroups=1({HEAD}) {{\n{inner}\n}}\n")


def fused(body: str) -> str:
    done = run(module(body), "fuse-register-loops")
    verify(done)
    assert parse(str(done)) == done
    return dedent("\n".join(str(done).splitlines()[1:-2]))


def becomes(body: str, expected: str) -> None:
    assert fused(body) == dedent(expected).strip()


def stays(body: str) -> None:
    assert run(module(body), "fuse-register-loops") == module(body)


def load(name: str, base: str = "X", count: int = 4, width: int = 4) -> str:
    element = "f32" if width == 1 else f"regs<{width}xf32>"
    return (
        f"%{name}: regs<{count * width}xf32> = metal.foreach {count} (%i_{name}: i32) {{\n"
        f"  %e_{name}: {element} = metal.load %{base}, %i_{name}\n  yield %e_{name}\n}}\n"
    )


def store(name: str, base: str = "Y", count: int = 4, width: int = 4) -> str:
    element = "f32" if width == 1 else f"regs<{width}xf32>"
    return (
        f"metal.foreach {count} (%j_{name}: i32) {{\n"
        f"  %p_{name}: {element} = metal.slice %{name}, %j_{name}\n"
        f"  metal.store %{base}, %j_{name}, %p_{name}\n  yield\n}}\n"
    )


# What is fused.


def test_scalars_and_what_is_computed_before_are_there() -> None:
    becomes(
        "%s: f32 = metal.load %X, %n\n%a: regs<8xf32> = metal.splat %s\n"
        + load("x", count=2)
        + "%y: regs<8xf32> = add %x, %a\n"
        + store("y", count=2),
        """
        %s: f32 = metal.load %X, %n
        %a: regs<8xf32> = metal.splat %s
        metal.foreach 2 (%i: i32) {
          %e_x: regs<4xf32> = metal.load %X, %i
          %a_1: regs<4xf32> = metal.splat %s
          %y: regs<4xf32> = add %e_x, %a_1
          metal.store %Y, %i, %y
          yield
        }
        """,
    )


def test_computing_without_a_loop_is_done_four_at_a_time() -> None:
    text = fused(
        load("x", count=16, width=1)
        + "metal.barrier simdgroup\n%y: regs<16xf32> = exp %x\n%z: regs<16xf32> = mul %y, %x\n"
        "%a: f32 = metal.take [5] %z\nmetal.store %Y, %n, %a"
    )
    expected = """
        metal.barrier simdgroup
        %z: regs<16xf32> = metal.foreach 4 (%i: i32) {
          %x_1: regs<4xf32> = metal.slice %x, %i
          %y: regs<4xf32> = exp %x_1
          %z_1: regs<4xf32> = mul %y, %x_1
          yield %z_1
        }
        %a: f32 = metal.take [5] %z
        metal.store %Y, %n, %a
        """
    assert text.endswith(dedent(expected).strip())


def test_it_is_done_in_loops_and_branches_too() -> None:
    inner = indent(load("x") + "%y: regs<16xf32> = exp %x\n" + store("y"), "  ")
    for head, tail in [
        ("%c0: i32 = constant 0\n%c1: i32 = constant 1\nfor %c0, %n, %c1 (%k: i32) {\n", ""),
        ("%t: bool = constant true\nif %t {\n", " else {\n  yield\n}"),
    ]:
        text = fused(f"{head}{inner}  yield\n}}{tail}")
        assert text.count("metal.foreach") == 1
        assert "metal.slice" not in text


# What is not.


def test_memory_that_may_be_the_same_keeps_the_loops_apart() -> None:
    def loops(first: str, second: str) -> int:
        body = load("x", first) + store("x", second) + load("y", second) + store("y", first)
        return fused(body).count("metal.foreach")

    # The second loop loads what the first one stores, of other rounds too for all that is known.
    assert loops("X", "Y") == 2
    # Already the store may be to what is still to be loaded.
    assert loops("P", "Q") == 4
    body = load("x", "P") + "%y: regs<16xf32> = exp %x\n" + store("y", "Q")
    assert fused(body).count("metal.foreach") == 2
    body = load("x", "X") + load("y", "P") + "%z: regs<16xf32> = add %x, %y\n" + store("z", "Y")
    assert fused(body).count("metal.foreach") == 1


def test_loops_of_other_numbers_of_rounds_stay_apart() -> None:
    text = fused(load("x", count=4) + store("x", count=8, width=2))
    assert text.count("metal.foreach") == 2


def test_what_needs_more_than_its_own_part_stays_behind() -> None:
    shuffled = (
        "%y: regs<16xf32> = metal.take [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]"
    )
    text = fused(load("x") + f"{shuffled} %x\n" + store("y"))
    assert text.count("metal.foreach") == 2
    whole = """
        metal.foreach 4 (%j: i32) {
          %a: f32 = metal.take [0] %x
          metal.store %Y, %j, %a
          yield
        }
        """
    assert fused(load("x") + dedent(whole)).count("metal.foreach") == 2
    other = """
        %c1: i32 = constant 1
        metal.foreach 4 (%j: i32) {
          %k: i32 = xor %j, %c1
          %a: regs<4xf32> = metal.slice %x, %k
          metal.store %Y, %j, %a
          yield
        }
        """
    assert fused(load("x") + dedent(other)).count("metal.foreach") == 2


def test_arrays_that_are_no_number_of_vectors_are_done_in_equal_parts() -> None:
    becomes(
        """
        %r: regs<2xf32> = metal.load %X, %n
        %a: regs<6xf32> = metal.join %r, %r, %r
        %b: regs<6xf32> = exp %a
        %c: regs<6xf32> = sqrt %b
        %d: f32 = metal.take [5] %c
        metal.store %Y, %n, %d
        """,
        """
        %r: regs<2xf32> = metal.load %X, %n
        %a: regs<6xf32> = metal.join %r, %r, %r
        %c: regs<6xf32> = metal.foreach 3 (%i: i32) {
          %a_1: regs<2xf32> = metal.slice %a, %i
          %b: regs<2xf32> = exp %a_1
          %c_1: regs<2xf32> = sqrt %b
          yield %c_1
        }
        %d: f32 = metal.take [5] %c
        metal.store %Y, %n, %d
        """,
    )


def test_what_a_loop_uses_as_a_whole_it_has_as_a_whole() -> None:
    becomes(
        """
        %r: regs<4xf32> = metal.load %X, %n
        %x: regs<8xf32> = metal.join %r, %r
        %y: regs<8xf32> = exp %x
        metal.foreach 2 (%i: i32) {
          %p: regs<4xf32> = metal.slice %y, %i
          %q: f32 = metal.slice %x, %i
          %last: f32 = metal.take [7] %x
          metal.store %Y, %i, %p
          metal.store %Y, %n, %q
          metal.store %Y, %n, %last
          yield
        }
        """,
        """
        %r: regs<4xf32> = metal.load %X, %n
        %x: regs<8xf32> = metal.join %r, %r
        metal.foreach 2 (%i: i32) {
          %x_1: regs<4xf32> = metal.slice %x, %i
          %y: regs<4xf32> = exp %x_1
          %q: f32 = metal.slice %x, %i
          %last: f32 = metal.take [7] %x
          metal.store %Y, %i, %y
          metal.store %Y, %n, %q
          metal.store %Y, %n, %last
          yield
        }
        """,
    )


def test_a_barrier_keeps_loads_and_stores_apart() -> None:
    stays(load("x") + "metal.barrier device\n" + store("x"))


def test_what_is_short_or_a_loop_already_stays() -> None:
    stays("%x: regs<4xf32> = metal.load %X, %n\n%y: regs<4xf32> = exp %x\nmetal.store %Y, %n, %y")
    stays(load("x") + "%a: f32 = metal.take [3] %x\nmetal.store %Y, %n, %a")


def test_it_counts_the_loops_it_makes() -> None:
    body = load("x") + "%y: regs<16xf32> = exp %x\n" + store("y")
    assert FuseRegisterLoops().run(module(body)) == {"loops": 1}
    assert FuseRegisterLoops().run(module("")) == {"loops": 0}


# That nothing else changes.


def random_module(seed: int) -> Module:
    """Loads, stores and computing on parts of arrays that each thread has for itself."""
    rng = random.Random(seed)
    lines = [
        "%lane: i32 = metal.lane",
        "%c64: i32 = constant 64",
        "%own: i32 = mul %lane, %c64",
    ]
    values: list[tuple[str, int]] = []  # with their numbers of elements
    numbers: list[tuple[str, int]] = []
    count = 0

    def name() -> str:
        nonlocal count
        count += 1
        return f"%v{count}"

    def part(size: int) -> tuple[int, int, str]:
        rounds = rng.choice([r for r in (2, 4, 8, 16) if r < size or r == size])
        width = size // rounds
        return rounds, width, "f32" if width == 1 else f"regs<{width}xf32>"

    def place(rounds: int, width: int) -> list[str]:
        start = width * rng.randrange(64 // width - rounds + 1)
        made = [name() for _ in range(5)]
        width_, scaled, first, shift, at = made
        return [
            f"{width_}: i32 = constant {width}",
            f"{scaled}: i32 = mul %i, {width_}",
            f"{first}: i32 = add %own, {scaled}",
            f"{shift}: i32 = constant {start}",
            f"{at}: i32 = add {first}, {shift}",
        ]

    for _ in range(rng.randint(4, 14)):
        kind = rng.randrange(9)
        if kind < 2 or not values:
            size = rng.choice((8, 16, 16))
            rounds, width, type_ = part(size)
            if width > 4:
                continue
            places, new, element = place(rounds, width), name(), name()
            lines += [f"{new}: regs<{size}xf32> = metal.foreach {rounds} (%i: i32) {{", *places,
                      f"{element}: {type_} = metal.load %{rng.choice('XYPQ')}, {_last(places)}",
                      f"yield {element}", "}"]  # fmt: skip
            values.append((new, size))
        elif kind < 4:
            value, size = rng.choice(values[-3:])
            rounds, width, type_ = part(size)
            if width > 4:
                continue
            places, element = place(rounds, width), name()
            lines += [f"metal.foreach {rounds} (%i: i32) {{", *places,
                      f"{element}: {type_} = metal.slice {value}, %i",
                      f"metal.store %{rng.choice('XYPQ')}, {_last(places)}, {element}",
                      "yield", "}"]  # fmt: skip
        elif kind < 7:
            value, size = rng.choice(values[-3:])
            other = rng.choice([v for v, n in values if n == size])
            new = name()
            lines.append(
                f"{new}: regs<{size}xf32> = {rng.choice(('add', 'maxnum'))} {value}, {other}"
            )
            values.append((new, size))
        elif kind == 7:
            size, new, floats = rng.choice((8, 16)), name(), name()
            images = [
                rng.choice((1 << b, 3 << b, rng.randrange(9))) for b in range(size.bit_length() - 1)
            ]
            lines.append(f"{new}: regs<{size}xi32> = metal.pattern {images}")
            lines.append(f"{floats}: regs<{size}xf32> = cast {new}")
            numbers.append((new, size))
            values.append((floats, size))
        else:
            value, size = rng.choice(values[-3:])
            order = rng.sample(range(size), size)
            new = name()
            lines.append(f"{new}: regs<{size}xf32> = metal.take {order} {value}")
            values.append((new, size))
    return module("\n".join(lines))


def _last(places: list[str]) -> str:
    return places[-1].partition(":")[0]


@pytest.mark.parametrize("block", range(4))
def test_random_programs_do_the_same(block: int) -> None:
    size = counts(50, 1000)
    changed = 0
    for seed in range(block * size, (block + 1) * size):
        before = random_module(seed)
        after = run(before, "fuse-register-loops")
        verify(after)
        assert parse(str(after)) == after
        changed += after != before
        cleaned = run(after, "fold,canonicalize,cse,licm,dce")
        verify(cleaned)
        results = []
        for each in (before, after, cleaned):
            (function,) = each
            assert isinstance(function, Func)
            shared = np.arange(2048, dtype=np.float32) % 61
            x, y = shared * 2, shared * 3
            interpreter.run(function, (1, 1, 1), [x, y, shared, shared, 3])
            results.append([x, y, shared])
        for found in results[1:]:
            assert np.array_equal(results[0], found), f"{before}\n{after}"
    assert changed > size / 2


def test_a_loop_keeps_few_values_that_are_computed_between_its_members() -> None:
    def loops(terms: int) -> int:
        body = load("s0")
        for n in range(1, terms + 1):
            body += f"%v{n}: f32 = metal.load %X, %n\n%w{n}: f32 = exp %v{n}\n"
            body += f"%t{n}: regs<16xf32> = metal.splat %w{n}\n"
            body += f"%s{n}: regs<16xf32> = mul %s{n - 1}, %t{n}\n"
        return fused(body + store(f"s{terms}")).count("metal.foreach")

    # What is computed before the first member of a loop is kept in any case.
    terms = [MOST_KEPT, MOST_KEPT + 1, 2 * MOST_KEPT + 1, 2 * MOST_KEPT + 2]
    assert [loops(n) for n in terms] == [1, 2, 2, 3]
