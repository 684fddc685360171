"""`triton.language.extra.cuda`."""

from iris.frontend.triton import cuda_words
from iris.frontend.triton.cuda_words import *  # noqa: F403
from iris.triton.language.extra.cuda import libdevice

__all__ = [*cuda_words.__all__, "libdevice"]
