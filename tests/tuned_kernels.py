"""Kernels whose configurations other processes find by name."""

from __future__ import annotations

from typing import Any

import iris


@iris.autotune(configs=[iris.Config(BLOCK=2**i) for i in (5, 7, 9)], key=["N"])
@iris.heuristics({"EVEN": lambda known: known["N"] % known["BLOCK"] == 0})
@iris.kernel
def scale(X, Out, N, BLOCK: iris.constexpr, EVEN: iris.constexpr):
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    x = iris.load(X + i) if EVEN else iris.load(X + i, mask=i < N)
    iris.store(Out + i, 2 * x, mask=i < N)


def blocks(n: int) -> Any:
    return lambda known: iris.cdiv(n, known["BLOCK"])
