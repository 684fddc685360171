"""Reductions, carried out on data: every location of the result holds each summand once."""

from __future__ import annotations

import random

import numpy as np
import pytest

from iris.errors import LayoutError
from iris.ir.layout.convert import Movement, convert
from iris.ir.layout.linear import APPLE_FRAGMENT, LinearLayout
from iris.ir.layout.reduce import reduce_axis
from random_layouts import coordinates, grid, random_layout, random_shape, wide
from support import counts

CASES = counts(3_000, 20_000)


def held(layout, data):
    """data's element at every [register, lane, simdgroup]."""
    index = tuple(coordinates(wide(layout), layout.rank))
    return data[index].reshape(layout.sizes, order="F")


def carry_out(layout, plan, data):
    value = held(plan.operand, data)
    value = np.stack([value[list(group)].sum(axis=0) for group in plan.registers])
    lanes, simdgroups = np.arange(value.shape[1]), np.arange(value.shape[2])
    for mask in plan.lane_masks:
        value = value + value[:, lanes ^ mask, :]
    by_partials = of_all_partials(plan, value)
    for mask in plan.simdgroup_masks:
        value = value + value[:, :, simdgroups ^ mask]
    assert np.array_equal(by_partials, value), plan
    return value


def of_all_partials(plan, value):
    """Sum one partial result of each number; those that share a number must be equal."""
    count = 1 << len(plan.simdgroup_masks)
    numbers = held(plan.partials, np.arange(count))
    elements = held(plan.result, np.arange(plan.result.num_elements).reshape(plan.result.shape))
    table = np.full((plan.result.num_elements, count), -1)
    table[elements, numbers] = value
    assert np.array_equal(table[elements, numbers], value), plan
    assert table.min() >= 0, plan
    return table.sum(axis=1)[elements]


def test_reductions_count_every_summand_once():
    rnd, rng = random.Random(12), np.random.default_rng(12)
    converted = dict.fromkeys(Movement, 0)
    for _ in range(CASES):
        layout = random_layout(
            rnd, random_shape(rnd), rnd.choice(("permuted", "mixed", "replicated"))
        )
        axis = rnd.randrange(layout.rank)
        plan = reduce_axis(layout, axis)
        data = rng.integers(0, 1 << 50, layout.shape)
        total = data.sum(axis=axis) if layout.rank > 1 else data.sum(keepdims=True)
        assert np.array_equal(carry_out(layout, plan, data), held(plan.result, total)), (
            layout,
            axis,
        )
        assert plan.result.shape == total.shape
        assert plan.operand.sizes == layout.sizes
        assert plan.result.sizes[1:] == layout.sizes[1:]
        # No step is wasted: together they combine exactly the summands of one element.
        steps = len(plan.registers[0]) << len(plan.lane_masks) << len(plan.simdgroup_masks)
        assert steps == layout.shape[axis]
        # No register of the result repeats another.
        registers = held(plan.result, np.arange(total.size).reshape(total.shape))[:, 0, 0]
        assert len(set(registers.tolist())) == len(registers)
        mixed = is_mixed(layout, axis)
        assert mixed == (plan.operand != layout), (layout, axis)
        if mixed:
            converted[convert(layout, plan.operand).movement] += 1
    print(f"reduce: {CASES} done, converting first by {[*converted.values()]} (by movement)")
    assert converted[Movement.NOTHING] == converted[Movement.THREADGROUP] == 0
    assert min(converted[Movement.REGISTERS], converted[Movement.SHUFFLE]) > CASES / 200


def is_mixed(layout, axis):
    """By listing the kernel: do its parts inside one dimension, and replicas, miss some of it?"""
    table, where = wide(layout), grid(layout)
    rest = table & ~(0xFFFF << 16 * axis)
    kernel = np.flatnonzero(rest == 0)
    parts = [np.flatnonzero(table == 0)]
    for axis_in in range(3):
        others = [x[kernel] == 0 for i, x in enumerate(where) if i != axis_in]
        parts.append(kernel[others[0] & others[1]])
    span = {0}
    for vector in np.concatenate(parts).tolist():
        if vector not in span:
            span |= {v ^ vector for v in span}
    return len(span) < len(kernel)


def test_fragment():
    rows, columns = reduce_axis(APPLE_FRAGMENT, 1), reduce_axis(APPLE_FRAGMENT, 0)
    assert (rows.registers, rows.lane_masks, rows.simdgroup_masks) == (((0, 1),), (1, 8), ())
    assert (columns.registers, columns.lane_masks) == (((0,), (1,)), (2, 4, 16))
    assert str(rows.result) == "linear<8, register=[], lane=[0, 1, 2, 0, 4], simdgroup=[]>"
    assert str(columns.result) == "linear<8, register=[1], lane=[2, 0, 0, 4, 0], simdgroup=[]>"


def test_replicas_are_left_out():
    layout = LinearLayout.of((4,), register=[0], lane=[1, 1, 2, 0], simdgroup=[2])
    plan = reduce_axis(layout, 0)
    assert (plan.registers, plan.lane_masks, plan.simdgroup_masks) == (((0,),), (1, 4), ())
    assert str(plan.result) == "linear<1, register=[], lane=[0, 0, 0, 0], simdgroup=[0]>"


def test_mixed_registers_and_lanes_become_registers():
    layout = LinearLayout.of((2, 2), register=[(1, 1)], lane=[(1, 0)], simdgroup=[])
    plan = reduce_axis(layout, 1)
    assert plan.operand == LinearLayout.of((2, 2), register=[(0, 1)], lane=[(1, 0)], simdgroup=[])
    assert (plan.registers, plan.lane_masks) == (((0, 1),), ())
    conversion = convert(layout, plan.operand)
    assert (conversion.movement, conversion.xor) == (Movement.SHUFFLE, True)


def test_mixed_with_simdgroups_meets_in_threadgroup_memory_once():
    layout = LinearLayout.of((2, 2), register=[(1, 1)], lane=[], simdgroup=[(1, 0)])
    plan = reduce_axis(layout, 1)
    assert plan.simdgroup_masks == (1,)
    assert convert(layout, plan.operand).movement is Movement.REGISTERS


def test_rejections():
    line = LinearLayout.of((4,), register=[1], lane=[2], simdgroup=[])
    for axis in (-1, 1):
        with pytest.raises(LayoutError, match="axis"):
            reduce_axis(line, axis)
    with pytest.raises(LayoutError, match="does not hold every element"):
        reduce_axis(LinearLayout.of((4,), register=[1], lane=[], simdgroup=[]), 0)
    with pytest.raises(LayoutError, match="needs the inputs"):
        reduce_axis(LinearLayout.of((4,), lane=[1, 2]), 0)
