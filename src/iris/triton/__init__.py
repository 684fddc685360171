"""Triton's names over Iris: `import iris.triton as triton`, `import iris.triton.language as tl`."""

from iris.compiler.triton_kernel import (
    Config,
    TritonKernel,
    autotune,
    heuristics,
    jit,
    reinterpret,
)
from iris.frontend.language import cdiv, next_power_of_2
from iris.triton import language, runtime, testing
from iris.triton.installing import install

JITFunction = TritonKernel
#: The version of Triton whose names these are.
__version__ = "3.9.0"

__all__ = [
    "Config",
    "JITFunction",
    "autotune",
    "cdiv",
    "heuristics",
    "install",
    "jit",
    "language",
    "next_power_of_2",
    "reinterpret",
    "runtime",
    "testing",
]
