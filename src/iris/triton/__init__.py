"""Triton's names over Iris: `import iris.triton as triton`, `import iris.triton.language as tl`."""

from iris.compiler.triton_kernel import (
    Config,
    KernelInterface,
    TritonKernel,
    autotune,
    constexpr_function,
    heuristics,
    jit,
    reinterpret,
    set_allocator,
)
from iris.frontend.language import cdiv, next_power_of_2
from iris.triton import compiler, language, runtime, testing, tools
from iris.triton.compiler.errors import CompilationError
from iris.triton.errors import TritonError
from iris.triton.installing import install
from iris.triton.runtime.errors import OutOfResources

JITFunction = TritonKernel
#: The version of Triton whose names these are.
__version__ = "3.9.0"

__all__ = [
    "CompilationError",
    "Config",
    "JITFunction",
    "KernelInterface",
    "OutOfResources",
    "TritonError",
    "autotune",
    "cdiv",
    "compiler",
    "constexpr_function",
    "heuristics",
    "install",
    "jit",
    "language",
    "next_power_of_2",
    "reinterpret",
    "runtime",
    "set_allocator",
    "testing",
    "tools",
]
