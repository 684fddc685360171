"""How one kernel computes a graph: what it demands, how that is cut up, the tile program."""

from iris.passes.tiling import combining

__all__ = ["combining"]
