"""`triton.language.extra`: the functions of libdevice, whatever the GPU."""

from iris.triton.language.extra import cuda, libdevice

__all__ = ["cuda", "libdevice"]
