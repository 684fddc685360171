"""From a graph to kernels: element expressions, schedules, their costs, and tile programs."""
