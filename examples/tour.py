"""From Python to Metal, stage by stage: two kernels, what passes make of them, and how they run.

python examples/tour.py
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

import iris
from iris.interp import metal

WIDTH = 100
MARGIN = "    "
ROWS, N, BLOCK = 4, 300, 512  # rows of 300 in tiles of 512: some lanes are masked
EPS = 1e-5

COLORS = {"+": "32", "-": "31"}
GAP = "   ..."


@iris.kernel
def softmax(X, Out, N, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    cols = iris.arange(0, BLOCK)
    x = iris.load(X + row * N + cols, mask=cols < N)  # what is masked does not count below
    e = iris.exp(x - iris.max(x))
    iris.store(Out + row * N + cols, e / iris.sum(e), mask=cols < N)


@iris.kernel
def add_rmsnorm(X, Residual, Weight, Out, N, eps, BLOCK: iris.constexpr):
    cols = iris.arange(0, BLOCK)
    at = iris.program_id(0) * N + cols
    x = iris.load(X + at, mask=cols < N).to("f32") + iris.load(Residual + at, mask=cols < N)
    iris.store(Residual + at, x, mask=cols < N)
    scale = iris.rsqrt(iris.sum(x * x) / N + eps)
    y = x * scale * iris.load(Weight + cols, mask=cols < N)
    iris.store(Out + at, y, mask=cols < N)


Expected = dict[int, tuple[np.ndarray, np.ndarray]]


def softmax_in_numpy(x: np.ndarray) -> Expected:
    """What is to be in argument 1, and how far off float32 may be."""
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    y = e / e.sum(1, keepdims=True)
    # In units of a float32 rounding: x - max is off by 1, which exp makes as many as x is wide;
    # exp itself by 4; a sum of n by n; the quotient by 1.
    return {1: (y, (2 * np.ptp(x) + 8 + N + 1) * 2.0**-24 * y)}


def add_rmsnorm_in_numpy(x: np.ndarray, residual: np.ndarray, weight: np.ndarray) -> Expected:
    total = x.astype(float) + residual
    y = total / np.sqrt((total**2).mean(1, keepdims=True) + EPS) * weight
    # A float16 rounding at the end; before that n float32 ones of the sum and some of the rest.
    bound = (2.0**-11 + (N + 10) * 2.0**-24) * abs(y) + 2.0**-25
    return {1: (total, 2.0**-24 * abs(total)), 3: (y, bound)}


def main() -> None:
    rng = np.random.default_rng(0)
    x, residual = rng.standard_normal((2, ROWS, N)).astype(np.float32)

    title("1. Softmax of a row")
    heading("What a user writes: what one program does, on whole tiles.  No threads yet.")
    python(softmax)
    out = np.empty_like(x)
    compilation = softmax.lower(x, out, N, BLOCK=BLOCK, grid=ROWS)
    heading("Traced: Tile IR.  Every stage is text that parses back, and runs on NumPy.")
    show(compilation.stages[0].text)
    heading("The passes from there to Metal IR.")
    table(compilation)
    heading("follow-masks: a masked element must count neither in the maximum nor in the sum.")
    diff(compilation, "follow-masks")
    heading("recover-blocks: these offsets are a row of a matrix; so accesses can be vectors.")
    diff(compilation, "recover-blocks")
    heading("assign-layouts: which register of which lane of which simdgroup holds an element.")
    loaded = next(line for line in compilation.tile.splitlines() if " = tile.load_tile " in line)
    show(loaded.replace("= tile", "=\ntile"), full=True)
    note(
        "Bits of a thread's place are mapped to bits of the index: registers 0 to 3 are neighbours "
        "(1, 2), and lanes go on from there (4, 8, ...). So a lane loads four at once."
    )
    heading("lower-to-metal, fuse-register-loops: what one thread does, up to the maximum.")
    maximum, _, rest = compilation.metal.partition("  metal.barrier threadgroup\n")
    show(maximum.rstrip())
    note(f"{len(rest.splitlines())} more lines: the exponentials, their sum, the quotients.")
    heading("insert-barriers: lowering places none; this pass puts them where accesses conflict.")
    diff(compilation, "insert-barriers")
    heading("And the Metal Shading Language, op by op.")
    show(compilation.msl)
    run(softmax, compilation, [x, out, N], softmax_in_numpy(x))

    title("2. Residual add and RMS norm, in float16, in one kernel")
    python(add_rmsnorm)
    x, weight = x.astype(np.float16), rng.standard_normal(N).astype(np.float16)
    arguments = [x, residual, weight, np.empty_like(x), N, EPS]
    compilation = add_rmsnorm.lower(*arguments, BLOCK=BLOCK, grid=ROWS)
    heading("The passes that changed something.")
    table(compilation, all_passes=False)
    heading("split-interior: rows that fill the tile are accessed without masks.  These, as MSL:")
    kernel = compilation.msl[compilation.msl.index("[[max_total") :]
    interior, _, other = kernel.partition("    } else {\n")
    show(interior)
    note(f"{len(other.splitlines())} more lines: the same with masks, for rows such as ours.")
    run(add_rmsnorm, compilation, arguments, add_rmsnorm_in_numpy(x, residual, weight))


def run(
    kernel: iris.Kernel,
    compilation: iris.Compilation,
    arguments: Sequence[Any],
    expected: Expected,
) -> None:
    """Runs a kernel at every level; how far off it is, and what a profiler would count."""
    function = next(iter(compilation.stages[-1].module))
    counters = metal.Counters()

    def launch(device: str, arguments: Sequence[Any]) -> None:
        kernel[ROWS](*arguments, BLOCK=BLOCK, device=device)

    def interleave(seed: int, arguments: Sequence[Any]) -> None:
        metal.run(function, (ROWS, 1, 1), arguments, interleave=seed, counters=counters)

    ways = [
        ("interp: whole tiles", partial(launch, "interp")),
        ("interp:metal: threads in lockstep", partial(launch, "interp:metal")),
        ("interp:metal: simdgroups by turns", partial(interleave, 0)),
    ]
    for device in iris.devices():
        if device.name in ("metal", "softmetal") and device.missing is None:
            ways.append((f"{device.name}: the text, compiled", partial(launch, device.name)))
    heading("Run at every level, and held against NumPy.")
    for what, how in ways:
        copies = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
        how(copies)
        for position, (values, bound) in expected.items():
            error = abs(copies[position] - values)
            assert (error <= bound).all()
            name = function.body.arguments[position].name
            print(
                f"{MARGIN}{what:34} {name:9} is off by {error.max():.1e}; bound {bound.max():.1e}"
            )
    loads, stores = counters.device_loads, counters.device_stores
    ratio = (loads.lines + stores.lines) / (loads.compulsory_lines + stores.compulsory_lines)
    print(f"\n{MARGIN}{ratio:.2f} lines of device memory are moved for each that must be.")
    print(textwrap.indent(str(counters), MARGIN))


# How it is shown.


def style(code: str, text: str) -> str:
    colored = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return f"\x1b[{code}m{text}\x1b[0m" if colored else text


def title(text: str) -> None:
    print(style("1", f"\n{text}\n{'=' * len(text)}\n"))


def heading(text: str) -> None:
    print(style("1", f"{text}\n"))


def note(text: str) -> None:
    print(textwrap.fill(text, WIDTH, initial_indent=MARGIN, subsequent_indent=MARGIN) + "\n")


def show(text: str, *, full: bool = False) -> None:
    """Text in a margin.  Long lines are wrapped, and layouts in types left out unless `full`."""
    for line in text.splitlines():
        short = line if full else re.sub(r", linear<[^>]*>", "", line)
        indent = MARGIN + " " * (8 + len(line) - len(line.lstrip()))
        wrapped = textwrap.wrap(
            MARGIN + short, WIDTH, subsequent_indent=indent, break_on_hyphens=False
        )
        for part in wrapped or [""]:
            print(style(COLORS[line[0]], part) if line[:1] in COLORS else part)
    print()


def python(kernel: iris.Kernel) -> None:
    show(inspect.getsource(kernel.__wrapped__))


def diff(compilation: iris.Compilation, name: str) -> None:
    """What a pass changed, with a line before and after."""
    lines = compilation.diff(name).splitlines()[2:]
    changed = {i for i, line in enumerate(lines) if line[0] in "+-"}
    shown = []
    for i, line in enumerate(lines):
        if line[0] != "@" and changed & {i - 1, i, i + 1}:
            shown.append(line)
        elif shown and shown[-1] != GAP:
            shown.append(GAP)
    show("\n".join(shown).removesuffix(GAP).rstrip())


def table(compilation: iris.Compilation, *, all_passes: bool = True) -> None:
    """A line for each stage; those that change nothing share one."""
    print(f"{MARGIN}{'':44} {'level':8} {'ops':>5} {'ms':>8}")
    for changed, group in groupby(compilation.stages, key=lambda stage: stage.changed):
        stages = list(group)
        for together in [[stage] for stage in stages] if changed else [stages]:
            if not changed and not all_passes:
                continue
            last = together[-1]
            count = sum(1 for _ in last.module.walk()) - 1  # the function is an op, too
            took = 1e3 * sum(stage.seconds for stage in together)
            names = textwrap.wrap(
                ", ".join(stage.name for stage in together), 44, break_on_hyphens=False
            )
            numbers = f"{last.level.value:8} {count:5} {took:8.2f}"
            print(f"{MARGIN}{names[0]:44} {numbers}{'' if changed else '  no change'}")
            for name in names[1:]:
                print(MARGIN + name)
    print()


if __name__ == "__main__":
    main()
