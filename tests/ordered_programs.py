"""Random programs that use memory in some order, or in none: what they do, in which structure, and
what orders it, all drawn.  Whether one races does not depend on who comes first."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np

from iris.errors import DeviceError, RaceError

_HEAD = """
import iris


@iris.kernel
def take(Lock):
    while iris.atomic_exchange(Lock, 1) != 0:
        pass


@iris.kernel
def give(Lock):
    iris.atomic_exchange(Lock, 0)


@iris.kernel
def drawn(Locks, Turns, X, Out, count):
    p = iris.program_id(0)
    at = iris.arange(0, 8)
    total = 0
"""
_ACCESSES = (
    "iris.store(@, at + p)",
    "total += iris.sum(iris.load(@))",
    "iris.store(@, iris.load(@) + 1)",
    "iris.atomic_add(@, 1)",
    "if p % 2 == 0:\n    iris.store(@, at)\nelse:\n    total += iris.sum(iris.load(@))",
)
_CELLS = ("X + at", "X + at", "X + 7 - at", "X + 8 + at", "X + p % 2 * 8 + at")
#: Around an access, which stands at the `@`.
_ORDERS = (
    "take(Locks)\n@\ngive(Locks)",
    "take(Locks + 1)\n@\ngive(Locks + 1)",
    "take(Locks + p % 2)\n@\ngive(Locks + p % 2)",
    "take(Locks)\ngive(Locks)\n@",
    "@\ntake(Locks)\ngive(Locks)",
    "while iris.load(Turns, volatile=True) % 3 != p:\n    pass\n@\niris.atomic_add(Turns, 1)",
    "@\nif iris.atomic_add(Turns, 1) % 3 == 2:\n@",
    "if iris.atomic_cas(Locks, 0, 1) == 0:\n@\n    iris.atomic_exchange(Locks, 0)",
    "@",
)
_STRUCTURES = (
    "@",
    "@",
    "for i in range(count):\n@",
    "i = 0\nwhile i < 2:\n@\n    i += 1",
)


def text_of(seed: int) -> str:
    """The text of a program."""
    chance = random.Random(seed)
    accesses = [
        chance.choice(_ACCESSES).replace("@", chance.choice(_CELLS))
        for _ in range(chance.choice((1, 1, 2)))
    ]
    body = "\n".join(accesses)
    for outer in (chance.choice(_ORDERS), chance.choice(_STRUCTURES)):
        body = _put(outer, body)
    return _HEAD + indent(f"{body}\niris.store(Out + p, total)\n", "    ")


def _put(outer: str, inner: str) -> str:
    """A text with another at each `@`, as deep as what it stands under."""
    lines, before = [], ""
    for line in outer.split("\n"):
        deep = "    " if before.endswith(":") else ""
        lines.append(indent(inner, deep) if line == "@" else line)
        before = line
    return "\n".join(lines)


def kernel_of(seed: int, folder: Path) -> Any:
    path = folder / f"drawn{seed}.py"
    path.write_text(text_of(seed))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.drawn


def races(kernel: Any, device: str, **options: Any) -> bool:
    """Whether a device says that three programs race; any other error is one of this."""
    arrays = [np.zeros(count, np.int32) for count in (2, 2, 16, 3)]
    try:
        kernel[3](*arrays, 2, device=device, **options)
    except RaceError:
        return True
    except DeviceError as error:
        if ": race: " not in str(error):
            raise
        return True
    return False
