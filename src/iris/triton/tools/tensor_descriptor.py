"""`triton.tools.tensor_descriptor`."""

from iris.frontend.triton.blocks import Descriptor as TensorDescriptor

__all__ = ["TensorDescriptor"]
