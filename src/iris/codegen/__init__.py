"""Metal IR to text: `emit(function)` gives the source of a kernel and how it is launched."""

from iris.codegen.emitter import emit
from iris.codegen.source import Array, Extent, Scalar, Site, Source

__all__ = ["Array", "Extent", "Scalar", "Site", "Source", "emit"]
