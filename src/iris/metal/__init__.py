"""Metal itself: kernels by thread, and kernels that are Metal text."""

from iris.compiler.metal_library import library

__all__ = ["library"]
