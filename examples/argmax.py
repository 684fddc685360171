"""The place of the greatest element of each row, block by block: control flow on scalars.

python examples/argmax.py
"""

from __future__ import annotations

import numpy as np

import iris
from iris.ir import parse


@iris.kernel
def argmax(X, Out, N, BLOCK: iris.constexpr):
    row = iris.program_id(0)
    best = float("-inf")
    place = 0
    for start in iris.tile_range(0, N, BLOCK):
        cols = start + iris.arange(0, BLOCK)
        x = iris.load(X + row * N + cols, mask=cols < N)
        here = iris.max(x)
        if here > best:  # a scalar that is known when the kernel runs: a branch of the program
            best = here
            place = start + iris.argmax(x)
    iris.store(Out + row, place)


def main() -> None:
    rng = np.random.default_rng(0)
    for rows, n in [(8, 256), (6, 300), (3, 1)]:
        # Few different values, so that there are ties: the first one counts, as in NumPy.
        x = -rng.integers(1, 50, (rows, n)).astype(np.float32)
        x[0] = -np.inf
        out = np.empty(rows, np.int32)
        argmax[rows](x, out, n, BLOCK=64)
        assert (out == x.argmax(1)).all()
        print(f"{rows} rows of {n:3}: {', '.join(map(str, out))}; equal to NumPy")

    # Every stage is text that parses back to the same IR, here or in another process.
    stages = argmax.lower(x, out, n, BLOCK=64, grid=rows).stages
    for stage in stages:
        assert parse(stage.text) == stage.module
    print(f"\nAll {len(stages)} stages parse back from their text. As traced:\n\n{stages[0].text}")


if __name__ == "__main__":
    main()
