"""`triton.errors`: every error of a kernel is one of Iris's."""

from iris.errors import IrisError as TritonError

__all__ = ["TritonError"]
