"""Programs whose rows are half in threadgroup memory compute what NumPy does.

The data are small integers, of which sums are exact in any order.  Rows are as long as those of
which a core of an H200 holds one; the interpreter runs them by thread, and reports races and
elements that are still being copied.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import iris
from iris.codegen import emit
from iris.codegen.languages.cuda import CUDA
from iris.compiler.compilation import entry_of
from iris.ir import metal
from iris.ir.control import Func
from iris.targets.nvidia import H200
from support import counts

LENGTH = 32768
ROWS = 2
SIMDGROUPS = 16
DTYPES = np.float32, np.int32, np.float16

Array = np.ndarray[Any, Any]
Step = tuple[str, int]


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_TARGET", H200.name)


@iris.kernel
def rows(X, Out, n, steps: iris.constexpr, MASKED: iris.constexpr, B: iris.constexpr = LENGTH):
    at = iris.arange(0, B)
    start = iris.program_id(0) * n
    inside = at < n
    loaded = (
        iris.load(X + start + at, mask=inside, other=0) if MASKED else iris.load(X + start + at)
    )
    x = loaded
    for kind, number in steps:
        if kind == "max":
            x = x - iris.max(iris.where(inside, x, -100) if MASKED else x)
        elif kind == "sum":
            total = iris.sum(iris.where(inside, x, 0) if MASKED else x)
            x = iris.where(x * number < total, x + 1, x - 2)
        elif kind == "add":
            x = x + number
        else:
            x = x + loaded
    if MASKED:
        iris.store(Out + start + at, x, mask=inside)
    else:
        iris.store(Out + start + at, x)


def expected(x: Array, steps: Sequence[Step]) -> Array:
    """The same in NumPy, of 64 bits."""
    loaded = x = x.astype(np.int64)
    for kind, number in steps:
        if kind == "max":
            x = x - x.max(1, keepdims=True)
        elif kind == "sum":
            x = np.where(x * number < x.sum(1, keepdims=True), x + 1, x - 2)
        else:
            x = x + (number if kind == "add" else loaded)
    return x


def drawn(draw: random.Random) -> tuple[Step, ...]:
    kinds = draw.choices(("max", "sum", "add", "again"), k=draw.randint(1, 5))
    return tuple([(kind, draw.randint(1, 3)) for kind in kinds])


def check(x: Array, steps: tuple[Step, ...]) -> Func:
    """Run a program; gives what it was lowered to."""
    n = x.shape[1]
    out = np.zeros_like(x)
    given = x, out, n
    options = {"steps": steps, "MASKED": n < LENGTH, "num_simdgroups": SIMDGROUPS}
    rows[ROWS](*given, **options, device="interp:metal")
    assert np.array_equal(out, expected(x, steps)), steps
    return entry_of(rows.lower(*given, **options, grid=ROWS).stages[-1].module)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [LENGTH, 30_000, 20_001])
def test_random_programs(n: int, dtype: Any) -> None:
    draw = random.Random(n)
    generator = np.random.default_rng(n)
    spilled = 0
    for _ in range(counts(4, 60)):
        x = generator.integers(-3, 4, (ROWS, n)).astype(dtype)
        spilled += check(x, drawn(draw)).resident_programs == 2
    assert spilled or n < LENGTH or dtype == np.float16


STEPS = [("max", 1), ("add", 1), ("sum", 1), ("max", 1)]


def test_no_barrier_is_for_what_a_thread_keeps_there() -> None:
    x = np.random.default_rng(0).integers(-3, 4, (ROWS, LENGTH)).astype(np.float32)
    function = check(x, tuple(STEPS))
    barriers = [op for op in function.walk() if isinstance(op, metal.Barrier)]
    copies = [op for op in function.walk() if isinstance(op, metal.Copy)]
    assert function.resident_programs == 2
    assert len(barriers) == 3  # one for each reduction
    assert len(copies) == 1
    assert "__launch_bounds__(512, 2)" in emit(function, CUDA).text
