"""Recovering blocks: what becomes one, what does not, and that it is the same block."""

from __future__ import annotations

import random
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from iris.compiler.pipelines import TILE_PIPELINE
from iris.ir import Module, parse, tile, verify
from iris.passes import run as run_passes
from iris.passes.tile.recover_blocks import RecoverBlocks
from iris.testing import all_preserve, programs
from iris.tools.replay import Program
from masked_programs import run
from support import counts

HEAD = "%X: ptr<f32>, %Y: ptr<f32>, %n: i32, %start: i32, %c: bool"
LANES = """
  %lane: tile<16xi32> = tile.arange 0
  %nn: tile<16xi32> = tile.broadcast %n
  %zero: tile<16xf32> = constant 0.0
  %pid: i32 = tile.program_id 0
  %c16: i32 = constant 16
  %first: i32 = mul %pid, %c16
  %f: tile<16xi32> = tile.broadcast %first
  %cols: tile<16xi32> = add %f, %lane
  %inside: tile<16xbool> = compare lt %cols, %nn
"""


def recover(text: str) -> Module:
    module = parse(text)
    verify(module)
    RecoverBlocks().run(module)
    verify(module)
    assert parse(str(module)) == module
    return module


def lines(body: str) -> list[str]:
    """What is left of a kernel that loads %x, without what is dead."""
    body = f"{LANES}{dedent(body)}\n  tile.store %Y, %inside_at, %x\n"
    text = f"func tile @f({HEAD}, %inside_at: tile<16xi32>) {{{body}  return\n}}\n"
    module = run_passes(recover(text), "cse,dce")
    return [line.strip() for line in str(module).splitlines()[1:-3]]


def test_a_bounded_load() -> None:
    found = lines("%x: tile<16xf32> = tile.load %X, %cols, mask=%inside, other=%zero")
    assert found[-1] == (
        "%x: tile<16xf32> = tile.load_tile %X, offsets=[%first], strides=[%c1], bounds=[%n]"
    )


def test_what_belongs_to_no_index_is_the_stride_of_one_more_axis() -> None:
    found = lines(
        """
        %r: i32 = mul %pid, %n
        %rs: tile<16xi32> = tile.broadcast %r
        %at: tile<16xi32> = add %rs, %lane
        %in: tile<16xbool> = compare lt %lane, %nn
        %x: tile<16xf32> = tile.load %X, %at, mask=%in, other=%zero
        """
    )
    assert found == [
        "%pid: i32 = tile.program_id 0",
        "%r: i32 = mul %pid, %n",
        "%c1: i32 = constant 1",
        "%c0: i32 = constant 0",
        "%c2: i32 = constant 2",
        "%x: tile<1x16xf32> = tile.load_tile %X, offsets=[%c1, %c0], strides=[%r, %c1], "
        "bounds=[%c2, %n]",
        "%x_1: tile<16xf32> = tile.reshape %x",
    ]


def test_an_axis_without_a_bound_is_as_long_as_the_tile() -> None:
    found = lines("%x: tile<16xf32> = tile.load %X, %cols")
    assert found[-2].endswith("offsets=[%c1, %c0], strides=[%first, %c1], bounds=[%c2, %c16]")


@pytest.mark.parametrize(
    "condition",
    [
        "compare gt %nn, %cols",
        "and %inside, %inside",
        "and %inside, %all",
        "and %inside, %few",
        "and %inside, %cs",
    ],
)
def test_masks_that_are_bounds(condition: str) -> None:
    found = lines(
        f"""
        %all: tile<16xbool> = constant true
        %seven: tile<16xi32> = constant 7
        %few: tile<16xbool> = compare le %cols, %seven
        %cs: tile<16xbool> = tile.broadcast %c
        %in: tile<16xbool> = {condition}
        %x: tile<16xf32> = tile.load %X, %cols, mask=%in, other=%zero
        """
    )
    assert "load_tile" in found[-1]
    assert any("minimum" in line for line in found) is ("%few" in condition)
    assert any("select %c," in line for line in found) is ("%cs" in condition)


UNKNOWN = """
%ss: tile<16xi32> = tile.broadcast %start
%some: tile<16xi32> = add %ss, %lane
%in: tile<16xbool> = compare lt %some, %nn
"""


@pytest.mark.parametrize(
    "body",
    [
        # a start that may be negative: a block would not be read there
        UNKNOWN + "%x: tile<16xf32> = tile.load %X, %some, mask=%in, other=%zero",
        # a gather, a product of indices
        """
        %i: tile<16xi32> = cast %zero
        %x: tile<16xf32> = tile.load %X, %i, mask=%inside, other=%zero
        """,
        """
        %i: tile<16xi32> = mul %lane, %lane
        %x: tile<16xf32> = tile.load %X, %i, mask=%inside, other=%zero
        """,
        # masks that are no conjunction of bounds
        """
        %even: tile<16xbool> = compare eq %cols, %nn
        %in: tile<16xbool> = or %inside, %even
        %x: tile<16xf32> = tile.load %X, %cols, mask=%in, other=%zero
        """,
        """
        %in: tile<16xbool> = compare ge %cols, %nn
        %x: tile<16xf32> = tile.load %X, %cols, mask=%in, other=%zero
        """,
        """
        %in: tile<16xbool> = compare le %cols, %nn
        %x: tile<16xf32> = tile.load %X, %cols, mask=%in, other=%zero
        """,
        # two indices along one axis
        UNKNOWN
        + """
        %both: tile<16xbool> = and %in, %inside
        %x: tile<16xf32> = tile.load %X, %cols, mask=%both, other=%zero
        """,
        # what is masked is not 0
        """
        %one: tile<16xf32> = constant 1.0
        %x: tile<16xf32> = tile.load %X, %cols, mask=%inside, other=%one
        """,
        """
        %minus: tile<16xf32> = constant -0.0
        %x: tile<16xf32> = tile.load %X, %cols, mask=%inside, other=%minus
        """,
    ],
)
def test_what_stays_a_load(body: str) -> None:
    text = "\n".join(lines(body))
    assert "tile.load %X" in text
    assert "load_tile" not in text


def test_a_start_of_unknown_sign_may_be_bounded_by_the_mask() -> None:
    found = lines(
        UNKNOWN
        + """
        %none: tile<16xi32> = constant 0
        %ge: tile<16xbool> = compare ge %some, %none
        %both: tile<16xbool> = and %in, %ge
        %x: tile<16xf32> = tile.load %X, %some, mask=%both, other=%zero
        """
    )
    assert "load_tile" in found[-1]


def test_what_is_assumed_of_a_start_leaves_its_sign_known() -> None:
    found = lines(
        """
        %even: i32 = assume_divisible 2 %pid
        %ss: tile<16xi32> = tile.broadcast %even
        %some: tile<16xi32> = add %ss, %lane
        %in: tile<16xbool> = compare lt %some, %nn
        %x: tile<16xf32> = tile.load %X, %some, mask=%in, other=%zero
        """
    )
    assert "tile.load_tile %X, offsets=[%even]" in found[-1]


def test_a_store_of_several_elements_to_one_place_stays() -> None:
    text = f"func tile @f({HEAD}) {{{LANES}  tile.store %Y, %f, %zero, mask=%inside\n  return\n}}\n"
    assert "tile.store %Y" in str(recover(text))


def test_new_ops_are_at_the_line_of_the_old_ones() -> None:
    body = '  tile.store %Y, %cols, %zero, mask=%inside at "k.py":7\n  return\n'
    module = recover(f"func tile @f({HEAD}) {{{LANES}{body}}}\n")
    stores = [op for op in module.walk() if isinstance(op, tile.StoreTile)]
    assert [str(op.location) for op in stores] == ["k.py:7"]


class Access:
    """A random load and store of a block, written as offsets and masks."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.count = 0
        self.body: list[str] = []

    def emit(self, type_: str, what: str) -> str:
        self.count += 1
        self.body.append(f"  %v{self.count}: {type_} = {what}")
        return f"%v{self.count}"

    def text(self) -> str:
        rank = self.random.choice([1, 2, 2, 3])
        shape = [self.random.choice([1, 2, 4, 8]) for _ in range(rank)]
        dtype = self.random.choice(["f32", "f16"])
        bounded = [rank == 3 or self.random.random() < 0.7 for _ in range(rank)]
        order = self.random.sample(range(rank), rank)
        sizes = "x".join(map(str, shape))
        tile_of = {t: f"tile<{sizes}x{t}>" for t in ("i32", "bool", dtype)}
        offset, masks = "", []
        for axis in order:
            lane = self.emit(f"tile<{shape[axis]}xi32>", "tile.arange 0")
            size = self.emit("i32", f"constant {shape[axis]}")
            start = self.emit("i32", f"mul %p{axis}, {size}")
            if self.random.random() < 0.5:
                step = self.emit("i32", f"constant {self.random.randrange(3)}")
                start = self.emit("i32", f"add {start}, {step}")
            starts = self.emit(f"tile<{shape[axis]}xi32>", f"tile.broadcast {start}")
            index = self.emit(f"tile<{shape[axis]}xi32>", f"add {lane}, {starts}")
            wide = list(shape[axis : axis + 1])
            for place in range(rank):
                if place != axis:
                    wide.insert(place, 1)
                    type_ = f"tile<{'x'.join(map(str, wide))}xi32>"
                    index = self.emit(type_, f"tile.expand_dims {place} {index}")
            type_ = "x".join(map(str, wide))
            bound = self.emit(f"tile<{type_}xi32>", f"tile.broadcast %n{axis}")
            inside = self.emit(f"tile<{type_}xbool>", f"compare lt {index}, {bound}")
            stride = self.emit(f"tile<{type_}xi32>", f"tile.broadcast %s{axis}")
            place = self.emit(f"tile<{type_}xi32>", f"mul {stride}, {index}")
            place = self.emit(tile_of["i32"], f"tile.broadcast {place}")
            offset = self.emit(tile_of["i32"], f"add {offset}, {place}") if offset else place
            if bounded[axis]:
                masks.append(self.emit(tile_of["bool"], f"tile.broadcast {inside}"))
        if rank < 3 and self.random.random() < 0.5:
            rest = self.emit(tile_of["i32"], "tile.broadcast %rest")
            offset = self.emit(tile_of["i32"], f"add {rest}, {offset}")
        extra = mask = ""
        if masks:
            mask = masks[0]
            for other in masks[1:]:
                mask = self.emit(tile_of["bool"], f"and {mask}, {other}")
            zero = self.emit(tile_of[dtype], "constant 0.0")
            extra = f", mask={mask}, other={zero}"
        x = self.emit(tile_of[dtype], f"tile.load %X, {offset}{extra}")
        one = self.emit(tile_of[dtype], "constant 1.0")
        x = self.emit(tile_of[dtype], f"add {x}, {one}")
        self.body.append(f"  tile.store %Y, {offset}, {x}{f', mask={mask}' if mask else ''}")
        ids = "".join(f"  %p{axis}: i32 = tile.program_id {axis}\n" for axis in range(3))
        numbers = ", ".join(f"%{k}{axis}: i32" for k in "ns" for axis in range(3))
        body = "\n".join(self.body)
        head = f"%X: ptr<{dtype}>, %Y: ptr<{dtype}>, {numbers}, %rest: i32"
        return f"func tile @f({head}) {{\n{ids}{body}\n  return\n}}\n"

    def arguments(self, dtype: Any) -> list[Any]:
        bounds = [self.random.randrange(0, 20) for _ in range(3)]
        strides = self.random.choice([[625, 25, 1], [1, 25, 625], [25, 1, 625]])
        memory = np.arange(1, 30000).astype(dtype) % 512
        return [memory, np.zeros_like(memory), *bounds, *strides, self.random.randrange(50)]


@pytest.mark.parametrize("seed", range(counts(60, 3000)))
def test_blocks_are_where_their_elements_were(seed: int) -> None:
    access = Access(seed)
    text = access.text()
    before, after = parse(text), recover(text)
    assert "tile.load %X" not in str(after)
    assert "tile.store %Y" not in str(after)
    arguments = access.arguments(np.float16 if "f16" in text else np.float32)
    outcomes = []
    for module in (before, after):
        memory = arguments[1].copy()
        run(module, [arguments[0], memory, *arguments[2:]], (1, 1, 1))
        outcomes.append(memory)
    np.testing.assert_array_equal(*outcomes)


@given(programs.tile())
def test_programs_are_preserved(program: Program) -> None:
    all_preserve(["recover-blocks", TILE_PIPELINE], program)
