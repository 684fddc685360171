"""`triton.testing`: timing."""

from iris.compiler.benchmark import do_bench

__all__ = ["do_bench"]
