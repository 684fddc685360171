"""`triton.runtime.autotuner`."""

from iris.compiler.triton_kernel import Autotuner, Config, Heuristics, autotune, heuristics

__all__ = ["Autotuner", "Config", "Heuristics", "autotune", "heuristics"]
