"""What the threads of a program hold: known for any kernel, or not, and never an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import iris
from iris.compiler.pipelines import METAL_PIPELINE
from iris.cost.counts import count
from iris.cost.estimate import estimate
from iris.cost.sample import Sizes
from iris.passes import run as run_passes
from iris.testing import programs
from iris.testing.levels import with_simdgroups
from iris.tools.replay import Program
from metal_programs import function
from support import counts

# One of each width, and of each kind.
DTYPES = [np.bool_, np.int8, np.uint16, np.float32, np.int64]
REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    name: lambda x, name=name: getattr(np, name)(x)
    for name in (
        "sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "cumsum", "cumprod"
    )
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_every_dtype(name: str) -> None:
    for dtype in DTYPES:
        lowered = iris.jit(REDUCTIONS[name]).lower(np.ones(1 << 20, dtype))
        for kernel in lowered.kernels:
            assert kernel.estimate.counts.device.bytes > 0, dtype


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.float32])
def test_atomics_of_gathered_elements(dtype: Any) -> None:
    kinds = ["add", "max", "min", "exchange"]
    kinds += [] if dtype is np.float32 else ["and", "or", "xor"]
    for kind in kinds:
        update = getattr(iris, f"atomic_{kind}")

        @iris.kernel
        def gather(X, At, Out, n, B: iris.constexpr, update: iris.constexpr):
            i = iris.program_id(0) * B + iris.arange(0, B)
            inside = i < n
            at = iris.load(At + i, mask=inside)
            update(Out + at, iris.load(X + at, mask=inside), mask=inside)
            iris.atomic_cas(Out + at, iris.load(X + at, mask=inside), 1, mask=inside)

        x, at = np.ones(1 << 20, dtype), np.zeros(1 << 20, np.int32)
        named = {"B": 1024, "update": update}
        found = gather.lower(x, at, x.copy(), 1 << 20, grid=1024, **named).estimate.counts
        assert found.atomics >= 2048, kind


def test_a_constant_has_every_element_of_its_type() -> None:
    body = """
        %c: regs<8xi32> = constant 5
        %all: regs<16xi32> = for %c0, %c32, %c2 (%i: i32, %now: regs<16xi32> = %other) {
          %half: regs<8xi32> = metal.slice %now, %c1
          %part: i32 = metal.take [7] %half
          %x: f32 = metal.load %X, %part
          yield %now
        }
        %last: i32 = metal.take [7] %c
        %y: f32 = metal.load %X, %last
        """
    head = "%X: ptr<f32>"
    found = count(function(head, "%other: regs<16xi32> = constant 7" + body, 1))
    assert found.guesses == 0
    assert found.device.lines == 16 + 1


@pytest.mark.parametrize("scalar", [np.float32("nan"), np.float32(1.5), float("inf"), 2.0])
def test_floats_and_flags_are_no_sizes(scalar: Any) -> None:
    @iris.kernel
    def scale(X, s, flag, large, B: iris.constexpr):
        at = iris.program_id(0) * B + iris.arange(0, B)
        x = iris.load(X + at) * s
        if flag:
            x = iris.exp(x)
        iris.store(X + at, x)

    x = np.ones(64, np.float32)
    for flag in (np.False_, np.True_):
        with iris.profile("interp") as measured:
            scale[2](x, scalar, flag, np.uint64(2**64 - 1), B=32)
        assert measured.launches[0].bytes == 2 * x.nbytes
        found = scale.lower(x, scalar, flag, 2**62, grid=2, B=32).estimate
        assert found.sizes == Sizes((2, 1, 1), {"X": (64,), "flag": int(flag), "large": 2**62})
        assert ("exp" in found.counts.functions) == flag


def test_random_programs_are_estimated() -> None:
    @settings(
        max_examples=counts(8, 300),
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs.tile(masked=True))
    def draw(program: Program) -> None:
        passes = with_simdgroups(METAL_PIPELINE, 4)
        lowered = program.with_module(run_passes(program.module, passes)).function
        names = [argument.name or "" for argument in lowered.body.arguments]
        values = [a.shape if isinstance(a, np.ndarray) else a for a in program.make_arguments()]
        estimate(lowered, Sizes.of(program.grid, dict(zip(names, values, strict=True))))
        estimate(lowered)

    draw()
