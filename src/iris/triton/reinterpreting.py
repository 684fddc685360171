"""`triton.reinterpret`."""

from typing import Any

from iris.compiler.arguments import as_array
from iris.errors import ArgumentError
from iris.frontend.triton.float8 import Float8
from iris.runtime.foreign import ml_dtypes


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """An array of bytes as one of float8, over the same memory."""
    array = as_array("the tensor", tensor)
    if array is None or array.itemsize != 1 or not isinstance(dtype, Float8):
        raise ArgumentError("reinterpret takes an array of bytes, and tl.float8e4nv or tl.float8e5")
    return array.view(getattr(ml_dtypes(), dtype.numpy_name))
