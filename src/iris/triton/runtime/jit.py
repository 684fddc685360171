"""`triton.runtime.jit`."""

from iris.compiler.triton_kernel import KernelInterface, constexpr_function, jit
from iris.compiler.triton_kernel import TritonKernel as JITFunction

__all__ = ["JITFunction", "KernelInterface", "constexpr_function", "jit"]
