"""`triton.tools.tensor_descriptor`."""

from iris.frontend.triton.blocks import HostDescriptor as TensorDescriptor

__all__ = ["TensorDescriptor"]
