"""`triton.tools`: descriptors that are made before a launch."""

from iris.triton.tools import tensor_descriptor

__all__ = ["tensor_descriptor"]
