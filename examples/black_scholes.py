"""Prices of options by Black and Scholes, in NumPy: what is elementwise is one kernel.

All three results are of one shape and made of the same inputs, so that one kernel writes them, and
computes once what they share: `d1`, and the distribution below it, which is in the call and is the
delta. That the distribution below -d1 is 1 less that below d1 is not known to the compiler: there
are four `erf` in what is printed. A parity that saves two of them is the user's to write.

The rate is a number. As an argument it is a tensor without axes, and another one needs no other
kernel; what depends on `years` alone, which are of shape (n, 1), is of that shape in the graph.

python examples/black_scholes.py
"""

from __future__ import annotations

import math

import numpy as np

import iris
from iris import nn


@iris.jit
def black_scholes(price, strike, years, rate, volatility):
    """The prices of calls and puts, and how much the call moves with the price."""
    deviation = volatility * np.sqrt(years)
    d1 = (np.log(price / strike) + (rate + volatility**2 / 2) * years) / deviation
    d2 = d1 - deviation
    now = strike * np.exp(-rate * years)
    call = price * normal(d1) - now * normal(d2)
    put = now * normal(-d2) - price * normal(-d1)
    return {"call": call, "put": put, "delta": normal(d1)}


def normal(x):
    """How much of a normal distribution is below x; an ordinary function, traced where called."""
    return 0.5 * (1 + nn.erf(x * math.sqrt(0.5)))


def reference(price, strike, years, rate, volatility) -> dict[str, np.ndarray]:
    """The same in float64, by Python's own functions, one option at a time."""

    def one(s: float, k: float, t: float, v: float) -> tuple[float, float, float]:
        spread = v * math.sqrt(t)
        d1 = (math.log(s) - math.log(k)) / spread + (rate + v * v / 2) * t / spread
        below = [0.5 * math.erfc(-d / math.sqrt(2)) for d in (d1, d1 - spread)]
        call = s * below[0] - k * math.exp(-rate * t) * below[1]
        return call, call - s + k * math.exp(-rate * t), below[0]

    given = np.broadcast_arrays(price, strike, years, volatility)
    return dict(zip(("call", "put", "delta"), np.vectorize(one)(*given), strict=True))


def main() -> None:
    rng = np.random.default_rng(0)
    for days, options in [(5, 200), (3, 33), (1, 1)]:
        price, strike = rng.uniform(50, 150, (2, options)).astype(np.float32)
        years = rng.uniform(0.1, 2, (days, 1)).astype(np.float32)
        volatility = rng.uniform(0.1, 0.5, options).astype(np.float32)
        arguments = (price, strike, years, 0.03, volatility)
        found, expected = black_scholes(*arguments), reference(*arguments)
        for name, scale in [("call", 150), ("put", 150), ("delta", 1)]:
            error = abs(found[name] - expected[name]).max() / scale
            # The distribution is steep: what d1 is off by is in it, and d1 is of the size of 10.
            assert error < 2e-6
            print(f"{days} x {options:3}: {name:5} off by {error:.1e} of {scale}")

    price, strike, volatility = rng.uniform(0.1, 100, (3, 200)).astype(np.float32)
    years = rng.uniform(0.1, 2, (5, 1)).astype(np.float32)
    compilation = black_scholes.lower(price, strike, years, 0.03, volatility)
    print("\nThe kernel:\n")
    for kernel in compilation.kernels:
        print(f"  {kernel!r}")
    print(f"\n{compilation.fused}")


if __name__ == "__main__":
    main()
