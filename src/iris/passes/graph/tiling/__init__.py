"""From a graph to kernels: element expressions, schedules, their costs, and tile programs."""

from iris.passes.graph.tiling import element_rules  # noqa: F401 -- registered by being read
