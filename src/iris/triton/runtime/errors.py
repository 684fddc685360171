"""`triton.runtime.errors`: what packages catch when a configuration does not fit."""

from iris.errors import OutOfResources

__all__ = ["OutOfResources"]
