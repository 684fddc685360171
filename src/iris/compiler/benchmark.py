"""Timing what a device does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from iris.runtime.device import Device, Timing
from iris.runtime.devices import select


@overload
def do_bench(
    function: Callable[[], object],
    *,
    warmup: float = 25,
    rep: float = 100,
    quantiles: None = None,
    device: str | Device | None = None,
) -> float: ...


@overload
def do_bench(
    function: Callable[[], object],
    *,
    warmup: float = 25,
    rep: float = 100,
    quantiles: Sequence[float],
    device: str | Device | None = None,
) -> list[float]: ...


def do_bench(
    function: Callable[[], object],
    *,
    warmup: float = 25,
    rep: float = 100,
    quantiles: Sequence[float] | None = None,
    device: str | Device | None = None,
) -> float | list[float]:
    """The median time of a call in milliseconds, or the quantiles asked for.

        milliseconds = iris.testing.do_bench(lambda: softmax[rows](x, out, n, BLOCK=1024))

    A call is repeated for `warmup` milliseconds without being timed, then for `rep` milliseconds,
    at least once.  Its time is that of its launches by the clock of the device; if it launches
    nothing, that of the host.  Caches stay warm from call to call.
    """
    milliseconds = times(function, warmup, rep, device)
    if quantiles is None:
        return float(np.median(milliseconds))
    return [float(q) for q in np.quantile(milliseconds, quantiles)]


def times(
    function: Callable[[], object], warmup: float, rep: float, device: str | Device | None
) -> npt.NDArray[np.float64]:
    """The milliseconds of each call, of as many as take `rep` milliseconds together."""
    on = select(device)
    launched: list[Timing] = []
    _repeat(function, on, warmup / 1e3)
    with on.timed(launched.append):
        seconds = _repeat(function, on, rep / 1e3, launched)
    return np.array(seconds) * 1e3


def _repeat(
    function: Callable[[], object],
    device: Device,
    enough: float,
    launched: list[Timing] | None = None,
) -> list[float]:
    """The seconds of each call, of as many as take `enough` seconds together."""
    seconds: list[float] = []
    end = time.perf_counter() + enough
    while not seconds or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        device.synchronize()
        spent = time.perf_counter() - start
        if launched:
            spent = sum([timing.end - timing.start for timing in launched])
            launched.clear()
        seconds.append(spent)
    return seconds
