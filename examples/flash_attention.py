"""Attention without the matrix of scores: a running maximum and a running sum per row.

python examples/flash_attention.py
"""

from __future__ import annotations

from collections import Counter

import numpy as np

import iris


@iris.kernel
def attention(
    Q,
    K,
    V,
    Out,
    S,
    scale,
    D: iris.constexpr,
    BQ: iris.constexpr,
    BK: iris.constexpr,
    causal: iris.constexpr,
):
    """One block of BQ queries of one head; Q, K, V and Out are (heads, S, D)."""
    first = iris.program_id(0) * BQ
    head = iris.program_id(1) * S * D
    rows = first + iris.arange(0, BQ)
    # A pointer that has been offset must say how much of the matrix there is.
    q = iris.tile_load(Q + head, first, 0, D, (BQ, D), rows=S, cols=D)
    m = iris.full((BQ,), -1e30)
    total = iris.zeros((BQ,))
    acc = iris.zeros((BQ, D))
    # `causal` is a Python bool while the kernel is traced: this `if` leaves nothing behind.
    end = iris.minimum(S, first + BQ) if causal else S
    for start in iris.tile_range(0, end, BK):
        cols = start + iris.arange(0, BK)
        k = iris.tile_load(K + head, start, 0, D, (BK, D), rows=S, cols=D)
        v = iris.tile_load(V + head, start, 0, D, (BK, D), rows=S, cols=D)
        scores = iris.dot(q, k.T) * scale
        seen = cols[None, :] < S
        if causal:
            seen = seen & (cols[None, :] <= rows[:, None])
        scores = iris.where(seen, scores, -1e30)
        new = iris.maximum(m, iris.max(scores, axis=1))
        p = iris.exp(scores - new[:, None])
        rescale = iris.exp(m - new)
        total = total * rescale + iris.sum(p, axis=1)
        acc = acc * rescale[:, None] + iris.dot(p.to(v.dtype), v)
        m = new
    iris.tile_store(Out + head, first, 0, D, acc / total[:, None], (BQ, D), rows=S, cols=D)


def main() -> None:
    rng = np.random.default_rng(0)
    heads, d = 2, 32
    scale = d**-0.5
    for s in (64, 50, 7):
        q, k, v = rng.standard_normal((3, heads, s, d)).astype(np.float32)
        wide = [x.astype(float) for x in (q, k, v)]
        for causal in (False, True):
            out = np.empty_like(q)
            grid = iris.cdiv(s, 16), heads
            attention[grid](q, k, v, out, s, scale, D=d, BQ=16, BK=32, causal=causal)

            scores = wide[0] @ wide[1].swapaxes(1, 2) * scale
            if causal:
                scores = np.where(np.tri(s, dtype=bool), scores, -np.inf)
            weights = np.exp(scores - scores.max(2, keepdims=True))
            expected = weights / weights.sum(2, keepdims=True) @ wide[2]
            # In units of a float32 rounding: a score is off by d + 2 of the sum of |q k|, and
            # its difference to the maximum by 1; exp makes that relative, of a weight. Sums
            # of s weights are off by s, and each of the steps adds 3 for what is rescaled.
            score = (d + 2) * (abs(wide[0]) @ abs(wide[1]).swapaxes(1, 2)).max() * scale
            each = score + np.ptp(scores[np.isfinite(scores)]) + s + 3 * iris.cdiv(s, 32) + 8
            bound = 2 * each * 2.0**-24 * abs(v).max()
            error = abs(out - expected).max()
            assert error <= bound
            kind = "causal" if causal else "full"
            print(f"{heads} heads, {s:2} x {d}, {kind:6}: error {error:.1e}, bound {bound:.1e}")

    print("\nHow often each op is in the kernel, without and with the causal mask:\n")
    counts = []
    for causal in (False, True):
        compilation = attention.lower(
            q, k, v, out, s, scale, D=d, BQ=16, BK=32, causal=causal, grid=grid
        )
        (function,) = compilation.stages[-1].module
        counts.append(Counter(op.name for op in function.walk()))
    for name in sorted(counts[0].keys() | counts[1].keys()):
        if counts[0][name] != counts[1][name]:
            print(f"  {name:16} {counts[0][name]:2} {counts[1][name]:2}")


if __name__ == "__main__":
    main()
