"""The GPUs that Iris compiles for, as data.

find("apple-m4").bandwidth      # 120
"""

from __future__ import annotations

import re

from iris.errors import SettingError
from iris.targets import apple, imaginary, nvidia
from iris.targets.target import Core, Target

__all__ = ["DEFAULT", "TARGETS", "Core", "Target", "find"]

TARGETS = {
    t.name: t
    for t in (
        *apple.GENERATIONS,
        *apple.LARGER,
        apple.M5_TENSORS,
        apple.M5_TENSORS_IN_MEMORY,
        apple.ON_CPU,
        *nvidia.GPUS,
        imaginary.ONE_CORE,
        imaginary.SLOW_CORES,
        imaginary.FEW_REGISTERS,
    )
}
#: What is compiled for where nothing else is said.
DEFAULT = apple.M1


def find(name: str) -> Target:
    """The target of a name, such as `apple-m4-pro`, or `apple-m4-pro-16-cores`."""
    cores = re.fullmatch(r"(.+)-([1-9]\d{0,3})-cores", name)
    known = TARGETS.get(cores[1] if cores else name)
    if known is None:
        raise SettingError(f"no target is called {name!r}; there are {', '.join(TARGETS)}")
    return known.with_cores(int(cores[2])) if cores else known
