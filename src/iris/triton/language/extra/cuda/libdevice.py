"""`triton.language.extra.cuda.libdevice`."""

from iris.frontend.triton.libdevice import *  # noqa: F403
from iris.frontend.triton.libdevice import __all__  # noqa: F401
