"""`triton.testing.do_bench`: Iris's own under Triton's names and rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from iris.compiler.benchmark import times
from iris.errors import ArgumentError
from iris.frontend.tracing import error_here
from iris.runtime.device import Device

_SUMMARIES: dict[str, Callable[[Any], Any]] = {
    "all": list,
    "max": np.max,
    "mean": np.mean,
    "median": np.median,
    "min": np.min,
}


def do_bench(
    fn: Callable[[], object],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    *,
    device: str | Device | None = None,
) -> Any:
    """The mean time of a call in milliseconds, or what `return_mode` or `quantiles` ask for; one
    number for one quantile.

    The gradients of the tensors in `grad_to_none` are dropped before each call.
    """
    if return_mode not in _SUMMARIES:
        known = ", ".join(_SUMMARIES)
        raise error_here(ArgumentError, f"return_mode is one of {known}, not {return_mode!r}")
    tensors = [*(grad_to_none or ())]

    def call() -> None:
        for tensor in tensors:
            tensor.grad = None
        fn()

    milliseconds = times(call, warmup, rep, device)
    if quantiles is None:
        summary = _SUMMARIES[return_mode](milliseconds)
        return [float(x) for x in summary] if return_mode == "all" else float(summary)
    found = [float(q) for q in np.quantile(milliseconds, quantiles)]
    return found[0] if len(found) == 1 else found
