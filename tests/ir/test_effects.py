"""What ops declare that they touch, and what may alias what."""

from __future__ import annotations

import itertools

from iris.ir import Op, Value, parse
from iris.ir.core import Resource
from iris.ir.declare import Access
from iris.ir.effects import (
    effects_within,
    has_side_effects,
    is_convergent,
    may_alias,
    may_speculate,
)

TEXT = """
func tile @f(%X: ptr<f32>, %Y: ptr<f32>, %Z: ptr<f32, noalias>, %n: i32, %c: bool) {
  %t: tile<8x8xf32> = constant 1.0
  %p: staged<8x8xf32, (8,8):(1,8)> = tile.stage %t
  %q: staged<8x8xf32, (8,8):(1,8)> = tile.stage %t
  %x: f32 = tile.load %X, %n
  %r: f32 = if %c {
    tile.store %Y, %n, %x
    yield %x
  } else {
    yield %x
  }
  %y: f32 = if %c {
    %d: i32 = floordiv %n, %n
    yield %x
  } else {
    yield %x
  }
  return
}
func metal @g(%x: f32, %c: bool) {
  if %c {
    %s: f32 = metal.shuffle_xor 1 %x
    yield
  } else {
    yield
  }
  metal.barrier threadgroup
  return
}
"""


def values_and_ops() -> tuple[dict[str, Value], dict[str, Op]]:
    module = parse(TEXT)
    values: dict[str, Value] = {}
    ops: dict[str, Op] = {}
    for op in module.walk():
        for value in (*op.results, *(a for r in op.regions for a in r.arguments)):
            values.setdefault(value.name or "", value)
            ops.setdefault(value.name or "", op)
        ops.setdefault(op.name, op)
    return values, ops


def test_aliasing_is_assumed_unless_something_says_no() -> None:
    v, _ = values_and_ops()
    apart = {frozenset(p) for p in ("XZ", "YZ", "pq", "pX", "pY", "pZ", "qX", "qY", "qZ")}
    for a, b in itertools.product("XYZpq", repeat=2):
        assert may_alias(v[a], v[b]) is (frozenset((a, b)) not in apart), (a, b)


def test_memories_apart_alias_under_no_name() -> None:
    text = """
    func metal @f(%X: ptr<f32>) {
      %arena: threadgroup<64xi32> = metal.alloc
      %view: threadgroup<8xf32> = metal.view 32 %arena
      return
    }
    """
    function = next(iter(parse(text)))
    x = function.regions[0].arguments[0]
    arena, view = [op.results[0] for op in function.regions[0] if op.results]
    assert may_alias(arena, view)
    assert not may_alias(view, x) and not may_alias(x, view)


def test_all_memory_aliases_every_pointer_and_no_report() -> None:
    v, _ = values_and_ops()
    assert may_alias(Resource.MEMORY, v["Z"])
    assert may_alias(v["p"], Resource.MEMORY)
    assert may_alias(Resource.REPORT, Resource.REPORT)
    assert not may_alias(Resource.REPORT, v["X"])
    assert not may_alias(Resource.MEMORY, Resource.REPORT)


def test_effects_come_from_the_declaration() -> None:
    v, ops = values_and_ops()
    assert [tuple(e) for e in ops["x"].effects()] == [(Access.READ, v["X"])]
    assert [tuple(e) for e in ops["tile.store"].effects()] == [(Access.WRITE, v["Y"])]
    assert [tuple(e) for e in ops["p"].effects()] == [(Access.ALLOCATE, v["p"])]
    assert ops["d"].effects() == ()


def test_an_op_with_regions_does_what_is_in_it() -> None:
    v, ops = values_and_ops()
    assert [tuple(e) for e in effects_within(ops["r"])] == [(Access.WRITE, v["Y"])]
    assert has_side_effects(ops["r"])
    assert not has_side_effects(ops["y"])
    assert not may_speculate(ops["y"]), "it divides"
    assert may_speculate(ops["t"])
    assert not may_speculate(ops["x"])
    assert is_convergent(ops["if"]) is False
    assert is_convergent(ops["metal.barrier"])
    branch = next(op for op in parse(TEXT).walk() if op.name == "if" and is_convergent(op))
    assert branch.regions[0].first is not None
    assert branch.regions[0].first.name == "metal.shuffle_xor"


def test_what_looks_up_places_may_find_none() -> None:
    text = """
    func graph @f(%x: tensor<3xf32>, %i: tensor<3xi32>) {
      %a: tensor<3xf32> = graph.gather [0] %x, %i
      %b: tensor<3xf32> = graph.scatter add [0] %x, %x, %i
      %c: tensor<3xf32> = graph.scan sum 0 %x
      return
    }
    """
    (function,) = parse(text)
    assert [may_speculate(op) for op in function.regions[0]] == [False, False, True, True]
