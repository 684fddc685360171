"""What is counted in a launch, on patterns whose counts are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iris.interp.metal import Counters, run
from iris.interp.metal.counters import Banked, Traffic
from metal_programs import function, total, when

WAYS: list[dict[str, Any]] = [{}, {"chunk_bytes": 1}, {"interleave": 3}]


def counted(
    arguments: str, body: str, values: list[Any], grid: int = 1, simdgroups: int = 1
) -> Counters:
    """The counters after a run; they do not depend on how it runs."""
    f = function(arguments, body, simdgroups)
    found = []
    for way in WAYS:
        counters = Counters()
        copies = [x.copy() if isinstance(x, np.ndarray) else x for x in values]
        run(f, (grid, 1, 1), copies, counters=counters, **way)
        counters._cycles.clear()
        found.append(counters)
    assert all(counters == found[0] for counters in found)
    return found[0]


@pytest.mark.parametrize(
    ("stride", "lines", "compulsory"),
    [(1, 1, 2), (2, 2, 4), (8, 8, 16), (32, 32, 64), (64, 32, 64), (0, 1, 1)],
)
def test_lines_of_strided_loads(stride: int, lines: int, compulsory: int) -> None:
    body = f"%s: i32 = constant {stride}\n%o: i32 = mul %t, %s\n%x: f32 = metal.load %X, %o"
    counters = counted("%X: ptr<f32>", body, [np.zeros(4096, np.float32)], 3, 2)
    assert counters.device_loads == Traffic(6, 6 * 128, 6 * lines, compulsory)
    assert counters.device_stores == Traffic()


def test_lines_of_wide_and_of_masked_accesses() -> None:
    array = np.zeros(128, np.float32)
    body = "%o: i32 = mul %t, %c4\n%x: regs<4xf32> = metal.load %X, %o\nmetal.store %X, %o, %x"
    counters = counted("%X: ptr<f32>", body, [array])
    assert counters.device_loads == counters.device_stores == Traffic(1, 512, 4, 4)
    body += ", mask=%few"
    body = body.replace("%x: regs", "%few: bool = compare lt %t, %c4\n%x: regs")
    counters = counted("%X: ptr<f32>", body, [array], 1)
    assert counters.device_stores == Traffic(1, 64, 1, 1)
    counters = counted("%X: ptr<f32>", when("lt %t, %c4", body), [np.zeros(256, np.float32)], 1, 2)
    assert counters.device_loads == counters.device_stores == Traffic(1, 64, 1, 1)


def test_accesses_in_rounds_are_instructions_of_their_own() -> None:
    body = """
    %x: regs<4xf16> = metal.foreach 4 (%i: i32) {
      %a: i32 = mul %i, %c32
      %o: i32 = add %a, %lane
      %y: f16 = metal.load %X, %o
      %z: f16 = add %y, %y
      %e: f16 = exp %z
      %w: f16 = metal.shuffle_xor 1 %e
      yield %w
    }
    """
    counters = counted("%X: ptr<f16>", body, [np.zeros(128, np.float16)], 2, 2)
    assert counters.device_loads == Traffic(16, 16 * 64, 16, 2)
    assert counters.flops == 2 * 64 * 4
    assert counters.transcendentals == {"exp": 2 * 64 * 4}
    assert counters.shuffles == {"shuffle_xor": 16}


@pytest.mark.parametrize(
    ("stride", "conflicts"), [(1, 0), (2, 1), (32, 31), (33, 0), (4, 3), (0, 0)]
)
def test_bank_conflicts(stride: int, conflicts: int) -> None:
    body = f"""
    %shared: threadgroup<2048xi32> = metal.alloc
    %s: i32 = constant {stride}
    %o: i32 = mul %lane, %s
    %c1024: i32 = constant 1024
    %b: i32 = mul %sg, %c1024
    %at: i32 = add %o, %b
    """ + (
        when("eq %lane, %c0", "metal.store %shared, %at, %t") + "metal.barrier simdgroup"
        if stride == 0
        else "metal.store %shared, %at, %t"
    )
    body = body.replace("2048x", "4096x")
    counters = counted("", body + "\n%x: i32 = metal.load %shared, %at", [], 3, 2)
    assert counters.threadgroup_loads == Banked(6, 6 * 128, 6 * conflicts)
    assert counters.threadgroup_stores == Banked(6, 6 * (4 if stride == 0 else 128), 6 * conflicts)


def test_bank_conflicts_of_inactive_lanes_do_not_count() -> None:
    body = """
    %shared: threadgroup<1024xi32> = metal.alloc
    %o: i32 = mul %lane, %c32
    %few: bool = compare lt %lane, %c2
    metal.store %shared, %o, %t, mask=%few
    """
    assert counted("", body, []).threadgroup_stores == Banked(1, 8, 1)
    store = body.strip().splitlines()[-1]
    body = body.replace(store, when("ge %t, %c32", store))
    assert counted("", body, [], 2, 2).threadgroup_stores == Banked(2, 16, 2)


def test_a_reduction() -> None:
    body = "%x: i32 = add %t, %c0\n" + total(4) + when("eq %t, %c0", "metal.store %Y, %p, %sum")
    counters = counted("%Y: ptr<i32>", body, [np.zeros(3, np.int32)], 3, 4)
    assert counters.barriers == {"threadgroup": 3}
    assert counters.shuffles == {"shuffle_xor": 3 * 4 * 10}
    assert counters.threadgroup_stores == Banked(12, 12 * 4, 0)
    assert counters.threadgroup_loads == Banked(12, 12 * 16, 0)
    assert counters.device_stores == Traffic(3, 12, 3, 1)
    assert counters.flops == 0


def test_barriers_atomics_and_flops() -> None:
    body = """
    metal.barrier simdgroup
    metal.barrier device
    %h: f16 = cast %t
    %v: regs<2xf16> = metal.splat %h
    %w: regs<2xf16> = fma %v, %v, %v
    %u: regs<2xf16> = maximum %w, %v
    %r: regs<2xf16> = pow %v, %v
    %i: regs<2xi32> = constant 3
    %j: regs<2xi32> = mul %i, %i
    %x: i32 = metal.atomic add %X, %c0, %t
    """ + when("lt %t, %c4", "%y: i32 = metal.atomic max %X, %c0, %t\n%z: f16 = mul %h, %h")
    counters = counted("%X: ptr<i32>", body, [np.zeros(1, np.int32)], 3, 2)
    assert counters.barriers == {"simdgroup": 6, "device": 3}
    assert counters.flops == 3 * 64 * 2 * 3 + 3 * 4
    assert counters.transcendentals == {"pow": 3 * 64 * 2}
    assert counters.atomics == {"device": 3 * 64 + 3 * 4}


def test_counters_add_up_over_launches() -> None:
    counters = Counters()
    f = function("%X: ptr<i32>", "%x: i32 = metal.load %X, %t")
    for _ in range(2):
        run(f, (1, 1, 1), [np.zeros(32, np.int32)], counters=counters)
    assert counters.device_loads == Traffic(2, 256, 2, 2)
