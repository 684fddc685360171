"""Loading a round ahead: what becomes of loops, that they do the same, and what it saves."""

from __future__ import annotations

import random
from textwrap import dedent, indent
from typing import Any

import numpy as np
import pytest

import iris
from counting import count
from iris.compiler import pipelines
from iris.compiler.pipelines import METAL_PIPELINE
from iris.errors import PipelineError, ProgramError
from iris.interp import metal
from iris.interp.metal import Counters
from iris.ir import parse, verify
from iris.ir.control import Func
from iris.ir.core import Level, Module
from iris.ir.metal import Barrier
from iris.passes import Pipeline, run
from iris.passes.tile.pipeline_loads import PipelineLoads
from iris.passes.tile.stage_dots import StageDots
from iris.testing import preserves
from iris.testing.levels import agree, with_simdgroups
from iris.tools.replay import Program
from support import counts


def pipelined(depth: int = 2) -> Pipeline:
    """The default pipeline, with this pass right after what it works on."""
    passes = [p for p in METAL_PIPELINE if not isinstance(p, PipelineLoads)]
    at = next(i for i, p in enumerate(passes) if isinstance(p, StageDots)) + 1
    return Pipeline((*passes[:at], PipelineLoads(always=True, depth=depth), *passes[at:]))


PIPELINED = pipelined()
DEEPER = pipelined(depth=3)
STAGING = "choose-simdgroups{count=4},stage-dots"

HEAD = (
    "%A: ptr<f16, noalias>, %B: ptr<f16, noalias>, %C: ptr<f32, noalias>, %D: ptr<f16>, "
    "%E: ptr<f16>, %Q: ptr<i8, noalias>, %I: ptr<i32, noalias>, %lo: i32, %n: i32, %s: i32"
)
START = """
%c0: i32 = constant 0
%c1: i32 = constant 1
%c8: i32 = constant 8
%zero: tile<8x8xf32> = constant 0.0
%b: tile<8x8xf16> = tile.load_tile %B, offsets=[%c0, %c0], strides=[%c8, %c1], bounds=[%c8, %c8]
%sb: staged<8x8xf16, (8,8):(8,1)> = tile.stage %b
"""
STAGED = "staged<8x8xf16, (8,8):(8,1)>"
BLOCK = "offsets=[%k, %c0], strides=[%c8, %c1], bounds=[%n, %c8]"
LOAD = f"%a: tile<8x8xf16> = tile.load_tile %A, {BLOCK}\n"
DOT = f"""%sa: {STAGED} = tile.stage %a
%y: tile<8x8xf32> = tile.dot %sa, %sb, acc=%x
"""


def module(body: str, head: str = HEAD) -> Module:
    lines = f"{START.strip()}\n{dedent(body).strip()}\nreturn"
    return parse(f"func tile @f({head}) {{\n{indent(lines, '  ')}\n}}\n")


def loop(body: str, lower: str = "%c0", upper: str = "%n", step: str = "%c8") -> str:
    lines = indent(dedent(body).strip(), "  ")
    return (
        f"%c: tile<8x8xf32> = for {lower}, {upper}, {step} (%k: i32, %x: tile<8x8xf32> = %zero) "
        f"{{\n{lines}\n  yield %y\n}}\n"
        "tile.store_tile %C, %c, offsets=[%c0, %c0], strides=[%c8, %c1], bounds=[%c8, %c8]"
    )


def done(body: str) -> str:
    """What becomes of the lines after those that all have."""
    after = run(module(body), "pipeline-loads{always=true}")
    verify(after)
    assert parse(str(after)) == after
    assert run(after, "pipeline-loads{always=true}") == after
    lines = dedent("\n".join(str(after).splitlines()[1:-2])).splitlines()
    return "\n".join(lines[len(START.strip().splitlines()) :]) + "\n"


def stays(body: str) -> None:
    assert run(module(body), "pipeline-loads{always=true}") == module(body)


def moves(body: str) -> None:
    assert run(module(body), "pipeline-loads{always=true}") != module(body)


# What becomes of a loop.


def test_what_is_made_of_it_is_made_when_it_is_staged() -> None:
    text = done(
        loop(
            f"""
            %q: tile<8x8xi8> = tile.load_tile %Q, {BLOCK}
            %w: tile<8x8xf16> = cast %q
            %h: f16 = cast %k
            %scale: tile<8x8xf16> = tile.broadcast %h
            %a: tile<8x8xf16> = mul %w, %scale
            """
            + DOT
        )
    )
    start, body = text.split("for %c0")
    assert "%q: tile<8x8xi8> = if %begins {" in start
    assert start.index("cast %q") > start.index("} else {")
    assert "cast %c0\n" in start
    ahead, made = body.split("tile.dot")
    assert "cast" not in ahead
    assert "%q_2: tile<8x8xi8> = if %more {" in ahead
    assert "cast %q_2\n" in made and "cast %next\n" in made
    assert made.index("cast %q_2") < made.index("tile.stage")


def test_a_load_with_a_mask_and_one_that_needs_another() -> None:
    text = done(
        loop(
            """
            %r: tile<8xi32> = tile.arange 0
            %f: tile<8xi32> = tile.broadcast %k
            %at: tile<8xi32> = add %r, %f
            %m: tile<8xi32> = tile.broadcast %n
            %in: tile<8xbool> = compare lt %at, %m
            %none: tile<8xi32> = constant 0
            %row: tile<8xi32> = tile.load %I, %at, mask=%in, other=%none
            %rows: tile<8x1xi32> = tile.expand_dims 1 %row
            %wide: tile<8x8xi32> = tile.broadcast %rows
            %h0: tile<8x8xf16> = constant 0.0
            %a: tile<8x8xf16> = tile.load %A, %wide
            """
            + DOT
        )
    )
    body = text.split("for %c0")[1]
    ahead = body[body.index("if %more") : body.index("} else {")]
    assert ahead.count("tile.load") == 2
    assert body.count("tile.load") == 2
    assert "%a_2: tile<8x8xf16> = if %more" in body


def test_no_number_wraps_where_the_last_round_is_told() -> None:
    """A loop may begin below zero: then its end less a step may be below all numbers."""
    text = done(loop(LOAD + DOT, lower="%lo"))
    assert (
        "%cm2147483640: i32 = constant -2147483640\n"
        "%0: i32 = maximum %n, %cm2147483640\n"
        "%last: i32 = sub %0, %c8\n"
    ) in text


def test_what_is_carried_along_is_known_at_the_start_of_a_round() -> None:
    carried = f"""
        %c: tile<8x8xf32>, %e: i32 = for %c0, %n, %c8 (%k: i32, %x: tile<8x8xf32> = %zero, %o: i32 = %lo) {{
          %a: tile<8x8xf16> = tile.load_tile %A, offsets=[%o, %c0], strides=[%c8, %c1], bounds=[%n, %c8]
          {indent(DOT, " " * 10).strip()}
          %p: i32 = add %o, %s
          yield %y, %p
        }}
        """  # noqa: E501
    text = done(carried)
    body = text.split("for %c0")[1]
    assert "offsets=[%lo, %c0]" in text
    assert "offsets=[%p, %c0]" in body
    assert body.index("%p: i32 = add %o, %s") < body.index("if %more")
    # What the product decides is not known.
    late = carried.replace("%s\n", "%t\n").replace(
        "%p: i32",
        "%z: tile<8x8xi32> = cast %y\n%u: tile<8xi32> = tile.reduce maxnum 0 %z\n"
        "%t: i32 = tile.reduce maxnum 0 %u\n%p: i32",
    )
    stays(late)


def test_what_a_tile_is_staged_for_may_be_in_another_loop() -> None:
    """The outer one's tiles are loaded ahead; the inner one has none of its own."""
    text = done(
        loop(
            LOAD
            + f"""%sa: {STAGED} = tile.stage %a
            %y: tile<8x8xf32> = for %c0, %s, %c1 (%j: i32, %z: tile<8x8xf32> = %x) {{
              %w: tile<8x8xf32> = tile.dot %sa, %sb, acc=%z
              yield %w
            }}"""
        )
    )
    assert "tile.dot %sa_1, %sb, acc=%z" in text


def test_of_two_loops_each_has_its_own() -> None:
    """What comes before the inner one is staged for that alone, and not ahead of the outer one's
    next round."""
    inner = loop(LOAD + DOT).rsplit("\n", 1)[0]
    body = indent(inner, "  ").replace("= %zero", "= %v")
    outer = "%d: tile<8x8xf32> = for %c0, %s, %c1 (%j: i32, %v: tile<8x8xf32> = %zero) {\n"
    text = done(f"{outer}{body}\n  yield %c\n}}")
    assert text.count("tile.load_tile") == text.count("tile.stage") == 2
    assert text.count("%sa_1") == 2


# What stays as it is.


def test_what_may_be_written_in_the_loop_is_not_loaded_ahead() -> None:
    load = LOAD.replace("%A", "%D")
    place = "offsets=[%k, %c0], strides=[%c8, %c1], bounds=[%n, %c8]"
    for other, stay in (("%D", True), ("%E", True), ("%A", False)):
        store = f"\ntile.store_tile {other}, %a, {place}\n"
        again = f"%a2: tile<8x8xf16> = constant 1.0{store.replace('%a,', '%a2,')}"
        (stays if stay else moves)(loop(load + DOT + again))
    # A store of what is loaded would be of what was loaded before.
    stays(loop(LOAD + DOT + f"tile.store_tile %D, %a, {place}"))


def test_what_else_is_in_the_way() -> None:
    stays(loop("%a: tile<8x8xf16> = constant 1.0\n" + DOT))
    stays(loop(LOAD + DOT, step="%s"))
    stays(
        loop(LOAD + DOT, lower="%n", upper="%c0", step="%cm8").replace(
            "%c: tile", "%cm8: i32 = constant -8\n%c: tile"
        )
    )
    # What is needed besides would be loaded twice.
    twice = '%r: tile<8xf16> = tile.reduce sum 0 %a\ntile.print "sums" %r\n'
    stays(loop(LOAD + DOT + twice))
    # What may fail is done only if it is needed.
    stays(
        loop(
            f"""
        %q: tile<8x8xi8> = tile.load_tile %Q, {BLOCK}
        %d: tile<8x8xi8> = floordiv %q, %q
        %a: tile<8x8xf16> = cast %d
        """
            + DOT
        )
    )


def test_numbers_that_others_need_too_are_in_nobodys_way() -> None:
    text = done(
        loop(
            f"""
            %row: i32 = add %k, %s
            {LOAD.replace("%k", "%row")}
            {DOT}
            tile.print "row" %row
            """
        )
    )
    assert "add %next, %s" in text
    assert "add %k, %s\n" in text


def test_there_must_be_room_for_two() -> None:
    rows = 256
    body = loop(
        f"""
        %a: tile<{rows}x8xf16> = tile.load_tile %A, {BLOCK}
        %sa: staged<{rows}x8xf16, ({rows},8):(SPREAD,1)> = tile.stage %a
        %d: tile<{rows}x8xf32> = constant 0.0
        %e: tile<{rows}x8xf32> = tile.dot %sa, %sb, acc=%d
        %f: tile<8xf32> = tile.reduce sum 0 %e
        %g: tile<1x8xf32> = tile.expand_dims 0 %f
        %h: tile<8x8xf32> = tile.broadcast %g
        %y: tile<8x8xf32> = add %x, %h
        """
    )
    moves(body.replace("SPREAD", "31"))
    stays(body.replace("SPREAD", "32"))


# It does the same.

ARGUMENTS = """\
# entry: @f
# grid: 1, 1, 1
# argument %A: f16[{size}] seed=1 range=[-4, 4]
# argument %B: f16[64] seed=2 range=[-4, 4]
# argument %C: f32[64]
# argument %D: f16[{size}] seed=3 range=[-4, 4]
# argument %E: f16[{size}] alias=%D
# argument %Q: i8[{size}] seed=4 range=[-4, 4]
# argument %I: i32[{size}] seed=5 range=[0, 7]
# argument %lo: {lower}
# argument %n: {upper}
# argument %s: {step}

"""


def program(body: str, size: int, *, lower: int = 0, upper: int = 0, step: int = 1) -> Program:
    arguments = ARGUMENTS.format(size=size, lower=lower, upper=upper, step=step)
    return Program.parse(f"{arguments}{module(body)}")


def same(body: str, size: int, **numbers: int) -> None:
    made = program(body, size, **numbers)
    assert run(made.module, "pipeline-loads{always=true}") != made.module
    preserves("pipeline-loads{always=true}", made)
    agree(made, pipeline=PIPELINED)
    preserves("pipeline-loads{always=true,depth=3}", made)
    agree(made, pipeline=DEEPER)


LOADED_WHOLE = """
%i: tile<8xi32> = tile.arange 0
%i0: tile<8x1xi32> = tile.expand_dims 1 %i
%i1: tile<1x8xi32> = tile.expand_dims 0 %i
%kk: tile<8x1xi32> = tile.broadcast %k
%r: tile<8x1xi32> = add %i0, %kk
%e: tile<8x1xi32> = constant 8
%f: tile<8x1xi32> = mul %r, %e
%g: tile<8x8xi32> = tile.broadcast %f
%h: tile<8x8xi32> = tile.broadcast %i1
%at: tile<8x8xi32> = add %g, %h
%a: tile<8x8xf16> = tile.load %A, %at
"""


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
def test_so_many_rounds_and_no_element_more(rounds: int) -> None:
    """Nothing is checked here: an element too many would be outside."""
    same(loop(LOADED_WHOLE + DOT), max(1, 64 * rounds), upper=8 * rounds)
    same(loop(LOAD + DOT), max(1, 64 * rounds), upper=8 * rounds)


@pytest.mark.parametrize("upper", [1, 7, 9, 21])
def test_ragged_sizes(upper: int) -> None:
    same(loop(LOAD + DOT), 8 * upper, upper=upper)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (2**31 - 20, 2**31 - 1),  # the number after the last does not fit
        (-(2**31), -(2**31) + 3),  # the end less a step does not, nor does that less the start
        (-(2**31), 2**31 - 1),
        (-20, 4),
        (5, -(2**31)),
    ],
)
def test_numbers_at_the_ends_of_their_type(lower: int, upper: int) -> None:
    step = "%big" if upper - lower > 100 else "%c8"
    body = "%big: i32 = constant 1431655765\n" + loop(
        """
        %c3: i32 = constant 3
        %row: i32 = and %k, %c3
        """
        + LOAD.replace("%k", "%row").replace("%n", "%c8")
        + DOT,
        lower="%lo",
        step=step,
    )
    same(body, 64 + 24, lower=lower, upper=upper)


def test_memory_keeps_its_order() -> None:
    """What is stored in a round is loaded in the next one, by another name too."""
    place = "offsets=[%c0, %c0], strides=[%c8, %c1], bounds=[%c8, %c8]"
    for name in ("%D", "%E"):
        body = loop(
            f"%a: tile<8x8xf16> = tile.load_tile %D, {place}\n{DOT}"
            "%m: tile<8x8xf32> = constant 0.25\n%v: tile<8x8xf32> = mul %y, %m\n"
            f"%h: tile<8x8xf16> = cast %v\ntile.store_tile {name}, %h, {place}\n"
        )
        preserves("pipeline-loads{always=true}", program(body, 64, upper=24))


def test_a_carried_offset() -> None:
    body = f"""
        %c: tile<8x8xf32>, %e: i32 = for %c0, %n, %c8 (%k: i32, %x: tile<8x8xf32> = %zero, %o: i32 = %lo) {{
          %p: i32 = add %o, %s
          %a: tile<8x8xf16> = tile.load_tile %A, offsets=[%o, %c0], strides=[%c8, %c1], bounds=[%n, %c8]
          {DOT}
          yield %y, %p
        }}
        tile.store_tile %C, %c, offsets=[%c0, %c0], strides=[%c8, %c1], bounds=[%c8, %c8]
        """  # noqa: E501
    for step in (-3, 5):
        same(body, 8 * 40, lower=10, upper=40, step=step)


class Loops:
    """A random program: a loop, perhaps with one in it, of products of what it loads."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.rounds = self.rng.choice((0, 1, 2, 3, 5))
        self.lower = self.rng.choice((0, 0, 3, -9))
        self.step = self.rng.choice((8, 8, 16, 5))
        self.upper = self.lower + self.rounds * self.step - self.rng.choice((0, 0, 1, 3))
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def tile(self, index: str) -> tuple[str, str]:
        """Lines that load a tile, or make one of what they load; and its name."""
        kind = self.rng.choice(("half", "half", "quarter", "written", "two", "gathered"))
        base = {"quarter": "%Q", "written": "%D"}.get(kind, "%A")
        element = "i8" if kind == "quarter" else "f16"
        row, loaded, name = index, self.name(), self.name()
        lines = []
        if self.rng.random() < 0.5:
            row = self.name()
            lines.append(f"{row}: i32 = add {index}, %s")
        bound = self.rng.choice(("%n", "%c64", "%c40"))
        place = f"offsets=[{row}, %c0], strides=[%c8, %c1], bounds=[{bound}, %c8]"
        if kind == "gathered":
            return self.gathered(row, lines)
        lines.append(f"{loaded}: tile<8x8x{element}> = tile.load_tile {base}, {place}")
        if kind == "quarter":
            lines.append(f"{name}: tile<8x8xf16> = cast {loaded}")
        elif kind == "two":
            other = self.name()
            lines.append(f"{other}: tile<8x8xf16> = tile.load_tile %D, {place}")
            lines.append(f"{name}: tile<8x8xf16> = maxnum {loaded}, {other}")
        elif self.rng.random() < 0.3:
            lines.append(f"{name}: tile<8x8xf16> = tile.transpose [1, 0] {loaded}")
        else:
            name = loaded
        return "\n".join(lines) + "\n", name

    def gathered(self, row: str, lines: list[str]) -> tuple[str, str]:
        """Of rows whose numbers are loaded, if they are in bounds."""
        r, f, at, e, inside, none, rows, column, wide, far, lane, own, all_, zero, name = (
            self.name() for _ in range(15)
        )
        lines += f"""
            {r}: tile<8xi32> = tile.arange 0
            {f}: tile<8xi32> = tile.broadcast {row}
            {at}: tile<8xi32> = add {r}, {f}
            {e}: tile<8xi32> = constant 64
            {none}: tile<8xi32> = constant 0
            {inside}: tile<8xbool> = compare lt {at}, {e}
            {own}: tile<8xbool> = compare ge {at}, {none}
            {all_}: tile<8xbool> = and {inside}, {own}
            {rows}: tile<8xi32> = tile.load %I, {at}, mask={all_}, other={none}
            {column}: tile<8x1xi32> = tile.expand_dims 1 {rows}
            {wide}: tile<8x8xi32> = tile.broadcast {column}
            {lane}: tile<8x8xi32> = constant 3
            {far}: tile<8x8xi32> = mul {wide}, {lane}
            {zero}: tile<8x8xf16> = constant 0.0
            {name}: tile<8x8xf16> = tile.load %A, {far}
            """.strip().splitlines()
        return "\n".join(lines) + "\n", name

    def products(self, index: str, acc: str) -> tuple[str, str]:
        """Lines that add products to a tile; and what that is then."""
        lines = ""
        for _ in range(self.rng.choice((1, 1, 2))):
            (a_lines, a), (b_lines, b) = self.tile(index), self.tile(index)
            b_lines, b = self.rng.choice(((b_lines, b), ("", "%b")))
            new = self.name()
            lines += f"{a_lines}{b_lines}{new}: tile<8x8xf32> = tile.dot {a}, {b}, acc={acc}\n"
            acc = new
            if self.rng.random() < 0.2:
                lines += f'tile.print "row" {index}\n'
        if self.rng.random() < 0.2:
            small, half = self.name(), self.name()
            lines += (
                f"{small}: tile<8x8xf32> = constant 0.0078125\n"
                f"{half}: tile<8x8xf32> = mul {acc}, {small}\n"
                f"{self.store(half)}"
            )
        return lines, acc

    def store(self, value: str) -> str:
        half = self.name()
        place = "offsets=[%c8, %c0], strides=[%c8, %c1], bounds=[%c16, %c8]"
        return f"{half}: tile<8x8xf16> = cast {value}\ntile.store_tile %E, {half}, {place}\n"

    def text(self) -> str:
        lines, acc = self.products("%k", "%x")
        if self.rng.random() < 0.3:
            more, new = self.products("%j", "%z")
            lines += (
                f"%w: tile<8x8xf32> = for %lo, %n, %step (%j: i32, %z: tile<8x8xf32> = {acc}) "
                f"{{\n{more}yield {new}\n}}\n"
            )
            acc = "%w"
        constants = "".join(
            f"%{name}: i32 = constant {value}\n"
            for name, value in (("c16", 16), ("c40", 40), ("c64", 64), ("step", self.step))
        )
        body = loop(f"{lines}%y: tile<8x8xf32> = add {acc}, %zero", lower="%lo", step="%step")
        return constants + body

    def program(self) -> Program:
        """What is staged is decided by `stage-dots`."""
        return program(self.text(), 1024, lower=self.lower, upper=self.upper, step=2)


def test_random_loops_do_the_same() -> None:
    moved = 0
    for seed in range(counts(60, 1000)):
        made = Loops(seed).program()
        staged = run(made.module, STAGING)
        moved += run(staged, "pipeline-loads{always=true}") != staged
        preserves(f"{STAGING},pipeline-loads{{always=true,depth={2 + seed % 3}}}", made)
        if seed % 3 == 0:
            agree(made, pipeline=(PIPELINED, DEEPER)[seed % 2])
    assert moved > counts(60, 1000) / 2


# Whole kernels.


def gemm(A, B, M, N, K, C, BM: iris.constexpr, BN: iris.constexpr, BK: iris.constexpr):
    i, j = iris.program_id(0) * BM, iris.program_id(1) * BN
    acc = iris.zeros((BM, BN))
    for k in iris.tile_range(0, K, BK):
        a = iris.tile_load(A, i, k, K, (BM, BK))
        b = iris.tile_load(B, k, j, N, (BK, BN))
        acc = iris.dot(a, b, acc)
    iris.tile_store(C, i, j, N, acc, (BM, BN))


def attention(Q, K, V, S, Out, D: iris.constexpr, T: iris.constexpr, causal: iris.constexpr):
    first = iris.program_id(0) * T
    q = iris.tile_load(Q, first, 0, D, (T, D))
    m, total = iris.full((T,), -1e30), iris.zeros((T,))
    acc = iris.zeros((T, D))
    end = first + T if causal else S
    for start in iris.tile_range(0, end, T):
        k = iris.tile_load(K, start, 0, D, (T, D))
        v = iris.tile_load(V, start, 0, D, (T, D))
        keys = start + iris.arange(0, T)
        seen = keys[None, :] < S
        if causal:
            seen = seen & (keys[None, :] <= (first + iris.arange(0, T))[:, None])
        scores = iris.where(seen, iris.dot(q, k.T), -1e30)
        new = iris.maximum(m, iris.max(scores, axis=1))
        p, rescale = iris.exp(scores - new[:, None]), iris.exp(m - new)
        total = total * rescale + iris.sum(p, axis=1)
        acc = acc * rescale[:, None] + iris.dot(p.to(v.dtype), v)
        m = new
    iris.tile_store(Out, first, 0, D, acc / total[:, None])


def both(kernel: Any, grid: Any, *arguments: Any, **named: Any) -> list[Counters]:
    """What a launch does as it is but for this pass, and with it; both must write the same."""
    counters, written = [], []
    plain = Pipeline(tuple([p for p in PIPELINED if not isinstance(p, PipelineLoads)]))
    for pipeline in (plain, PIPELINED):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(pipelines.PIPELINES, Level.METAL, pipeline)
            made = iris.kernel(kernel)
            counters.append(count(made, grid, *arguments, num_simdgroups=4, **named))
        written.append(arguments[-1].copy())
        arguments[-1][...] = 0
    np.testing.assert_array_equal(*written)
    return counters


def lowered(kernel: Any, *arguments: Any, **named: Any) -> Func:
    traced = iris.kernel(kernel).lower(*arguments, grid=1, **named).traced
    (function,) = run(traced, with_simdgroups(PIPELINED, 4))
    assert isinstance(function, Func)
    return function


def matrices(dtype: Any, m: int, n: int, k: int) -> list[Any]:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (k, n)))
    return [a, b, m, n, k, np.zeros((m, n), np.float32)]


@pytest.mark.parametrize("size", [256, 248])
@pytest.mark.parametrize(("dtype", "depth"), [(np.float16, 32), (np.float32, 16)])
def test_one_barrier_in_each_step_of_a_matrix_product(dtype: Any, depth: int, size: int) -> None:
    """All else is as it was, but that the last round stages a tile that nobody reads."""
    arguments = matrices(dtype, size, size, size)
    one, other = both(gemm, (4, 4), *arguments, BM=64, BN=64, BK=depth)
    steps = 16 * -(-size // depth)
    assert dict(one.barriers) == {"threadgroup": 2 * steps}
    assert dict(other.barriers) == {"threadgroup": steps}
    assert other.mmas == one.mmas == 4**2 * 8**2 * 8 * -(-size // depth) * depth // 64
    assert other.device_loads == one.device_loads
    assert other.device_stores == one.device_stores
    assert other.threadgroup_loads == one.threadgroup_loads
    assert other.threadgroup_loads.conflicts == 0
    stores = one.threadgroup_stores.instructions
    assert other.threadgroup_stores.instructions == stores + stores * 16 // steps


def test_where_there_is_no_room_all_stays_as_it_is() -> None:
    one, other = both(gemm, (4, 4), *matrices(np.float32, 256, 256, 256), BM=64, BN=64, BK=32)
    assert dict(one.barriers) == dict(other.barriers) == {"threadgroup": 2 * 16 * 8}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [128, 100])
def test_one_barrier_in_each_step_of_attention(size: int, causal: bool) -> None:
    """One serves for the keys and the values; and one or two, in each program, for what comes
    before: the queries go through memory that the first keys then have."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.integers(-1, 2, (size, 64)).astype(np.float16) for _ in range(3))
    out = np.zeros((size, 64), np.float32)
    one, other = both(attention, 4, q, k, v, size, out, D=64, T=32, causal=causal)
    steps = 1 + 2 + 3 + 4 if causal else 4 * 4
    assert steps <= other.barriers["threadgroup"] <= steps + 4
    assert steps <= one.barriers["threadgroup"] - other.barriers["threadgroup"] <= steps + 4
    assert other.device_loads.lines == one.device_loads.lines


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_a_launch_says_how_many_tiles_are_in_memory(stages: int, steps: int) -> None:
    arguments = matrices(np.float16, 32, 32, 8 * steps)
    expected = arguments[0].astype(np.float64) @ arguments[1]
    named = {"BM": 32, "BN": 32, "BK": 8, "num_simdgroups": 2, "num_stages": stages}
    kernel = iris.kernel(gemm)
    kernel[1](*arguments, device="softmetal", **named)
    assert (arguments[-1] == expected).all()
    arguments[-1][...] = 0
    counters = count(kernel, 1, *arguments, **named)
    assert (arguments[-1] == expected).all()
    # Without a second buffer the first barrier has nothing to wait for.
    assert counters.barriers["threadgroup"] == (2 * steps if stages == 1 else steps)
    estimate = kernel.lower(*arguments, grid=1, **named).estimate
    one = kernel.lower(*arguments, grid=1, **named | {"num_stages": 1}).estimate
    assert estimate.threadgroup_bytes == stages * one.threadgroup_bytes


def test_as_many_as_there_is_room_for() -> None:
    arguments = matrices(np.float16, 64, 64, 256)
    named = {"BM": 64, "BN": 64, "BK": 32, "num_simdgroups": 4}
    kernel = iris.kernel(gemm)
    three, four, eight = (
        kernel.lower(*arguments, grid=1, num_stages=n, **named).metal for n in (3, 4, 8)
    )
    assert three == four == eight


def test_a_depth_of_nothing() -> None:
    with pytest.raises(PipelineError, match="depth is at least 1, not 0"):
        run(module(""), "pipeline-loads{depth=0}")


def test_without_its_barrier_there_is_a_race() -> None:
    arguments = matrices(np.float16, 64, 64, 64)
    expected = arguments[0].astype(np.float64) @ arguments[1]
    function = lowered(gemm, *arguments, BM=32, BN=32, BK=16)
    places = [n for n, op in enumerate(function.walk()) if isinstance(op, Barrier)]
    assert len(places) == 1
    for seed in (None, *range(counts(20, 100))):
        metal.run(function, (2, 2, 1), arguments, interleave=seed)
        assert (arguments[-1] == expected).all()
        arguments[-1][...] = 0
    function.walk()[places[0]].erase()
    for seed in (None, 1, 2):
        with pytest.raises(ProgramError, match=r"race|before anything is written"):
            metal.run(function, (2, 2, 1), arguments, interleave=seed)
