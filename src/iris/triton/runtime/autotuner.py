"""`triton.runtime.autotuner`."""

from iris.compiler.autotune import Autotuned as Autotuner
from iris.compiler.autotune import Heuristics
from iris.compiler.triton_kernel import Config, autotune, heuristics

__all__ = ["Autotuner", "Config", "Heuristics", "autotune", "heuristics"]
