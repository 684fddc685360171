"""Read and write rows at places that an index array names: an embedding and its gradient.

python examples/gather_scatter.py
"""

from __future__ import annotations

import numpy as np

import iris


@iris.kernel
def gather(Table, Index, Out, N, D, BLOCK: iris.constexpr, BLOCK_D: iris.constexpr):
    """Out[i] = Table[Index[i]]"""
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    d = iris.arange(0, BLOCK_D)
    # Masked beyond N; so is every address made of it. Only the columns need a mask of their own.
    index = iris.load(Index + i, mask=i < N)
    row = iris.load(Table + index[:, None] * D + d[None, :], mask=d[None, :] < D)
    iris.store(Out + i[:, None] * D + d[None, :], row, mask=i[:, None] < N)


@iris.kernel
def scatter_add(Rows, Index, Table, N, D, BLOCK: iris.constexpr, BLOCK_D: iris.constexpr):
    """Table[Index[i]] += Rows[i]; an index may come several times"""
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    d = iris.arange(0, BLOCK_D)
    mask = (i[:, None] < N) & (d[None, :] < D)
    index = iris.load(Index + i, mask=i < N)
    row = iris.load(Rows + i[:, None] * D + d[None, :], mask=mask)
    iris.atomic_add(Table + index[:, None] * D + d[None, :], row)


@iris.kernel
def scatter(Rows, Index, Table, N, D, BLOCK: iris.constexpr, BLOCK_D: iris.constexpr):
    """Table[Index[i]] = Rows[i]; each index comes once, else the programs race"""
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    d = iris.arange(0, BLOCK_D)
    mask = (i[:, None] < N) & (d[None, :] < D)
    index = iris.load(Index + i, mask=i < N)
    row = iris.load(Rows + i[:, None] * D + d[None, :], mask=mask)
    iris.store(Table + index[:, None] * D + d[None, :], row)


def main() -> None:
    rng = np.random.default_rng(0)
    blocks = {"BLOCK": 16, "BLOCK_D": 32}
    for n, d, size in [(64, 32, 100), (50, 27, 60), (1, 3, 5)]:
        table = rng.integers(-9, 10, (size, d)).astype(np.float32)
        index = rng.integers(0, size, n).astype(np.int32)
        grid = iris.cdiv(n, 16)
        rows = np.empty((n, d), np.float32)
        gather[grid](table, index, rows, n, d, **blocks)
        assert (rows == table[index]).all()

        # Whole numbers: the sums are exact in whichever order the programs add.
        sums, expected = np.zeros_like(table), np.zeros_like(table)
        scatter_add[grid](rows, index, sums, n, d, **blocks)
        np.add.at(expected, index, rows)
        assert (sums == expected).all()

        places = rng.permutation(size)[:n].astype(np.int32)
        moved = np.zeros_like(table)
        scatter[grid](rows, places, moved, n, d, **blocks)
        assert (moved[places] == rows).all()
        print(f"{n:2} rows of {d:2} from {size:3}: gather, scatter_add, scatter equal to NumPy")

    compilation = gather.lower(table, index, rows, n, d, **blocks, grid=grid)
    print("\nThe three accesses of gather, and the masks that they have in the end:\n")
    for line in compilation.tile.splitlines():
        if "tile.load" in line or "tile.store" in line:
            print(line)


if __name__ == "__main__":
    main()
