"""`triton.runtime.jit`."""

from iris.compiler.triton_kernel import TritonKernel as JITFunction
from iris.compiler.triton_kernel import jit

__all__ = ["JITFunction", "jit"]
