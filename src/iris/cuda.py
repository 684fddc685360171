"""CUDA C files on every device: `iris.cuda.load("kernels.cu")`, `iris.cuda.check(folder)`."""

from iris.compiler.cuda_file import check, load

__all__ = ["check", "load"]
