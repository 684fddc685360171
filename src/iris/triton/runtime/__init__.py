"""`triton.runtime`: the classes of kernels, and what packages ask of the device."""

from iris.triton.runtime import autotuner, driver, errors, jit
from iris.triton.runtime.autotuner import Autotuner, Heuristics
from iris.triton.runtime.jit import JITFunction

__all__ = ["Autotuner", "Heuristics", "JITFunction", "autotuner", "driver", "errors", "jit"]
