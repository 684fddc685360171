"""Apple's GPUs: of each generation the smallest.

Bandwidth: Apple's figures.  Cores and clocks: M1 and M2 [philipturner/metal-benchmarks and
forums.macrumors.com 2471322], M3 to M5 [hmc-tech.com, not checked elsewhere].  Dynamic registers
[Mesa: agx_performance.c; meTile, M5].
"""

from __future__ import annotations

from dataclasses import replace

from iris.targets.target import Target

M1 = Target("apple-m1", cores=8, clock=1.28, bandwidth=68)
M2 = Target("apple-m2", cores=10, clock=1.40, bandwidth=100)
M3 = Target("apple-m3", cores=10, clock=1.40, bandwidth=100, dynamic_registers=True)
M4 = Target("apple-m4", cores=10, clock=1.47, bandwidth=120, dynamic_registers=True)
M5 = Target("apple-m5", cores=10, clock=1.74, bandwidth=154, dynamic_registers=True)

GENERATIONS = (M1, M2, M3, M4, M5)

#: What runs Metal programs on the CPU: there, all threadgroups get their turns.
ON_CPU = replace(M1, name="apple-on-cpu", forward_progress=True)
