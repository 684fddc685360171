"""`triton.language.extra.cuda`."""

from iris.triton.language.extra.cuda import libdevice

__all__ = ["libdevice"]
