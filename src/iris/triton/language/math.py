"""`triton.language.math`, with the functions of libdevice, which earlier versions have there."""

from iris.frontend.triton import libdevice
from iris.frontend.triton.language import clamp, fdiv, sigmoid
from iris.frontend.triton.libdevice import *  # noqa: F403
from iris.frontend.triton.random import umulhi

__all__ = [*libdevice.__all__, "clamp", "fdiv", "sigmoid", "umulhi"]
