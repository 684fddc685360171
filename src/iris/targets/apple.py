"""Apple's GPUs: each generation, its larger chips, and which of them a Mac has.

Bandwidth: Apple's figures.  Cores and clocks: M1 and M2 [philipturner/metal-benchmarks and
forums.macrumors.com 2471322], M3 to M5 [hmc-tech.com, not checked elsewhere].  Dynamic registers
[Mesa: agx_performance.c; meTile, M5].
"""

from __future__ import annotations

import re
from dataclasses import replace

from iris.targets.target import Matrices, Target

M1 = Target("apple-m1", cores=8, clock=1.28, bandwidth=68)
M2 = Target("apple-m2", cores=10, clock=1.40, bandwidth=100)
M3 = Target("apple-m3", cores=10, clock=1.40, bandwidth=100, dynamic_registers=True)
M4 = Target("apple-m4", cores=10, clock=1.47, bandwidth=120, dynamic_registers=True)
M5 = Target("apple-m5", cores=10, clock=1.74, bandwidth=154, dynamic_registers=True)

GENERATIONS = (M1, M2, M3, M4, M5)

# Cores, and bandwidth: of chips that are sold with several numbers of cores, those that have it.
_LARGER = {
    M1: {"pro": (16, 200), "max": (32, 400), "ultra": (64, 800)},
    M2: {"pro": (19, 200), "max": (38, 400), "ultra": (76, 800)},
    M3: {"pro": (18, 150), "max": (40, 400)},
    M4: {"pro": (20, 273), "max": (40, 546)},
}
# The last cache before memory. [philipturner/metal-benchmarks, M1; taken to be the same since]
_CACHE = {"pro": 24 * 2**20, "max": 48 * 2**20, "ultra": 96 * 2**20}

LARGER = tuple(
    [
        replace(
            smallest,
            name=f"{smallest.name}-{size}",
            cores=cores,
            bandwidth=bandwidth,
            cache_bytes=_CACHE[size],
        )
        for smallest, sizes in _LARGER.items()
        for size, (cores, bandwidth) in sizes.items()
    ]
)

# The version of Metal's language that each macOS brought. [Apple: MTLLanguageVersion]
_LANGUAGES = {14: (3, 1), 15: (3, 2), 26: (4, 0)}


def of_mac(gpu: str, cores: int | None, macos: str) -> Target:
    """The target of a Mac: of the GPU with a name, such as `Apple M4 Pro`, and its system.

    A GPU that is newer than all that are known is taken for the last of them; one whose name says
    nothing, such as that of a virtual machine, for the first.
    """
    found = re.fullmatch(r"Apple M(\d+)(?: (\w+))?", gpu)
    generation, size = (int(found[1]), found[2]) if found else (1, None)
    chip = GENERATIONS[min(generation, len(GENERATIONS)) - 1]
    name = f"{chip.name}-{size.lower()}" if size else chip.name
    chip = next((larger for larger in LARGER if larger.name == name), chip)
    version = int(macos.partition(".")[0])
    language = max([text for since, text in _LANGUAGES.items() if since <= version] or [(3, 0)])
    return replace(chip.with_cores(cores or chip.cores), language=language)


#: The same chip as `apple-m5`, by the tensor operations of Metal 4.  Never tried on hardware, so
#: nothing chooses it but a name: `--target apple-m5-tensors`.  What these products cost is not
#: known; they are priced as others are.
M5_TENSORS = replace(
    M5,
    name="apple-m5-tensors",
    matrices={16: Matrices(tensors=True), 32: Matrices(tensors=True)},
    language=(4, 0),
)

#: The same, but the factors of products stay in threadgroup memory where they are there.
M5_TENSORS_IN_MEMORY = replace(
    M5_TENSORS,
    name="apple-m5-tensors-in-memory",
    matrices={n: replace(m, tensors_in_memory=True) for n, m in M5_TENSORS.matrices.items()},
)

#: What runs Metal programs on the CPU: there, all threadgroups get their turns.
ON_CPU = replace(M1, name="apple-on-cpu", forward_progress=True)
