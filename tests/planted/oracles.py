"""What may find a bug: properties of random programs, and those that tests of ours have besides.

    python -m planted.oracles agree --seed 3 --examples 500 --seconds 60

prints whether anything failed, after how many examples and seconds, what is guilty, of how many ops
the smallest program is, and what was said.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from hypothesis.strategies import SearchStrategy, sampled_from

from iris.codegen.languages.msl import MSL
from iris.ir.control import Func, Return, Yield
from iris.ir.math import Constant
from iris.ir.types import DTYPES
from iris.passes import PASSES
from iris.runtime.devices import select
from iris.testing import programs, proves_rewrites
from iris.testing.conformance import CHECKS
from iris.testing.hunt import hunt
from iris.testing.properties import PROPERTIES, Property, of_text
from iris.tools.replay import Program

# What a level's own bugs are looked for with, what finds most of them first.
ORDER = {
    "tile": (
        "passes",
        "masks",
        "expressions",
        "proofs",
        "graph-passes",
        "agree",
        "sources",
        "words",
    ),
    "lowering": ("layouts", "indices", "refusals", "agree", "fits", "text"),
    "metal": (
        "orders",
        "text",
        "thread-text",
        "shared-updates",
        "thread-passes",
        "copies",
        "agree",
    ),
    "text": ("ir-texts", "text", "thread-text", "checked-text", "graph-text"),
    "graph": (
        "graph-passes",
        "expressions",
        "proofs",
        "arrays",
        "forms",
        "graph-numpy",
        "graph-kernels",
        "graph-schedules",
        "graph-text",
        "calls",
        "refusals",
    ),
    "threads": (
        "thread-words",
        "refusals",
        "thread-sources",
        "cuda-files",
        "thread-lowering",
        "thread-code",
    ),
    "runtime": (
        "refusals",
        "buffers",
        "device-buffers",
        "captures",
        "tuning",
        "launches",
        "interpreted-launches",
        "libraries",
        "kept",
        "conformance",
        "calls",
    ),
}


def _graphs_on_metal(drawn: Sequence[Any], seconds: float) -> None:
    from compiler.test_random_graphs import check_on_metal

    check_on_metal(drawn)


def _check(drawn: Sequence[Any], seconds: float) -> None:
    os.environ["IRIS_SOFTMETAL_SANITIZE"] = "1"  # which a process reads once: this has one oracle
    TEXTS["thread-text"].holds(drawn, seconds)


def _conformance(drawn: Sequence[int], seconds: float) -> None:
    for number in drawn:
        for device in ("softmetal", "interp"):
            CHECKS[number](select(device))


_PROVEN = [
    (PASSES[name](), DTYPES[dtype])
    for dtype in ("bool", "i8", "u8", "f16", "bf16", "i16", "i32", "u32")
    for name in ("fold", "canonicalize", "simplify")
]


def _proofs(drawn: Sequence[int], seconds: float) -> None:
    for number in drawn:
        proves_rewrites(*_PROVEN[number])


def _numbers(items: Sequence[object]) -> Callable[[], SearchStrategy[int]]:
    return partial(sampled_from, range(len(items)))


TEXTS = {found.name: found for found in of_text("softmetal", MSL)}
ORACLES = {
    found.name: found
    for found in (
        *PROPERTIES.values(),
        *TEXTS.values(),
        replace(TEXTS["thread-text"], name="checked-text", holds=_check),  # for races, too
        Property(
            "graph-text",
            "graph",
            partial(programs.graph, portable=True),  # whose sums are exact in any order
            _graphs_on_metal,
            together=10,
            part="codegen",
        ),
        Property("conformance", "launches", _numbers(CHECKS), _conformance, part="runtime"),
        Property("proofs", "python", _numbers(_PROVEN), _proofs),
    )
}


# What else may find a bug of a level.
REST = {level: [name for name in ORACLES if name not in first] for level, first in ORDER.items()}


class Result(NamedTuple):
    """What came of a hunt."""

    found: bool
    examples: int
    seconds: float  # to find it
    message: str
    cause: str = ""  # the guilty pass, or the oracle
    ops: int = 0  # that compute something in the smallest program


def run(oracle: str, seed: int, examples: int, seconds: float, reduced: float) -> Result:
    done = hunt(ORACLES[oracle], seed, examples, seconds=seconds, reduced=reduced, watched=False)
    seconds = round(done.sought, 1)
    if done.find is None:
        return Result(False, done.examples, seconds, "")
    message = done.find.message[:2000]
    return Result(True, done.examples, seconds, message, done.find.cause, size(done.find.program))


def size(program: str) -> int:
    """How many ops of a program compute something."""
    idle = (Constant, Func, Return, Yield)
    ops = Program.parse(program).module.walk() if program else ()
    return sum(not isinstance(op, idle) for op in ops)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("oracle", choices=ORACLES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--reduced", type=float, default=0, help="seconds to reduce what is found")
    given = parser.parse_args()
    found = run(given.oracle, given.seed, given.examples, given.seconds, given.reduced)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
