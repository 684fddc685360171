"""What may find a bug: random programs, and what must hold of each.

    python -m planted.oracles agree --seed 3 --examples 500 --seconds 60

prints whether anything failed, after how many examples and seconds, and what it said.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy, integers, one_of, sampled_from, tuples

# What a level's own bugs are looked for with, the quickest first.
ORDER = {
    "tile": ("passes", "masks", "agree", "sources", "proofs"),
    "lowering": ("layouts", "agree", "texts"),
    "metal": ("agree", "texts"),
    "text": ("texts", "graph-texts"),
    "graph": ("graph-passes", "graph-numpy", "graph-kernels", "proofs"),
    "runtime": ("launches", "conformance"),
}
TOGETHER = 10  # programs in one text: a compiler takes long to start


class Result(NamedTuple):
    """What came of a hunt."""

    found: bool
    examples: int
    seconds: float
    message: str


class _End(BaseException):
    """Ends the drawing of programs, at once: there have been enough, or one has failed."""


class Hunt:
    """Programs, until one fails, or there have been enough."""

    def __init__(self, number: int, examples: int, seconds: float):
        self.seed = number
        self.examples = examples
        self.end = time.monotonic() + seconds
        self.done = 0

    def each(self, programs: SearchStrategy[Any], check: Callable[[Any], object]) -> None:
        @seed(self.seed)
        @settings(
            max_examples=10 * self.examples,  # of which some are filtered out
            phases=[Phase.generate],
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(programs)
        def one(program: Any) -> None:
            self.step()
            try:
                check(program)
            except Exception as error:
                raise _End from error

        one()

    def batches(
        self, programs: SearchStrategy[Any], check: Callable[[Sequence[Any]], object]
    ) -> None:
        """The same, several at a time."""
        drawn: list[Any] = []

        def gather(program: Any) -> None:
            drawn.append(program)
            if len(drawn) == TOGETHER:
                check(drawn)
                drawn.clear()

        self.each(programs, gather)

    def step(self) -> None:
        if self.done == self.examples or time.monotonic() > self.end:
            raise _End
        self.done += 1


def passes(hunt: Hunt) -> None:
    from iris.compiler.compilation import TILE_PIPELINE
    from iris.testing import all_preserve, programs

    several = [*programs.GENERIC, "recover-blocks", f"{TILE_PIPELINE},split-interior,licm,dce"]
    hunt.each(programs.tile(), partial(all_preserve, several, seconds=0))


def masks(hunt: Hunt) -> None:
    from iris.compiler.compilation import TILE_PIPELINE
    from iris.testing import preserves, programs

    hunt.each(programs.tile(masked=True), partial(preserves, TILE_PIPELINE, seconds=0))


def layouts(hunt: Hunt) -> None:
    from iris.testing import layouts
    from iris.testing.levels import agree

    way = partial(agree, pipeline=layouts.LAID_OUT, simdgroups=(1,))
    hunt.each(layouts.programs(), way)


def agree(hunt: Hunt) -> None:
    from iris.testing import programs
    from iris.testing.levels import agree

    def check(drawn: tuple[Any, int, int]) -> None:
        program, simdgroups, interleaving = drawn
        agree(program, simdgroups=[simdgroups], interleavings=[interleaving], seconds=0)

    drawn = one_of(programs.tile(masked=True), programs.tile(masked=True, rounding=True))
    hunt.each(tuples(drawn, sampled_from((1, 4, 2, 8)), integers(0, 3)), check)


def sources(hunt: Hunt) -> None:
    from iris.testing import sources

    hunt.each(sources.kernels(), lambda kernel: kernel.check())


def texts(hunt: Hunt) -> None:
    from iris.testing import programs
    from softmetal.test_programs import check

    hunt.batches(programs.tile(masked=True), check)


def graph_passes(hunt: Hunt) -> None:
    from iris.compiler.compilation import GRAPH_PIPELINE
    from iris.testing import all_preserve, programs

    several = [*programs.GENERIC, "simplify", GRAPH_PIPELINE]
    hunt.each(programs.graph(), partial(all_preserve, several, seconds=0))


def graph_numpy(hunt: Hunt) -> None:
    from compiler.test_random_graphs import has_wide_sums
    from iris.testing import fuses, programs
    from wild import inexact

    narrow = programs.graph().filter(lambda program: not has_wide_sums(program))
    hunt.each(narrow.map(inexact), fuses)


def graph_kernels(hunt: Hunt) -> None:
    from array_graphs import check_kernels, fused
    from compiler.test_random_graphs import has_wide_sums
    from every_level import EveryLevel
    from iris.testing import programs

    def check(program: Any) -> None:
        check_kernels(fused(program.module), EveryLevel(), program.make_arguments())

    hunt.each(programs.graph().filter(lambda program: not has_wide_sums(program)), check)


def graph_texts(hunt: Hunt) -> None:
    from compiler.test_random_graphs import check_on_metal, has_wide_sums
    from iris.testing import programs

    narrow = programs.graph().filter(lambda program: not has_wide_sums(program))
    hunt.batches(narrow, check_on_metal)


def launches(hunt: Hunt) -> None:
    from iris.testing import launches
    from iris.testing.scripts import conforms

    hunt.each(launches.scripts(), partial(conforms, "softmetal", seconds=10))


def conformance(hunt: Hunt) -> None:
    from iris.runtime.devices import select
    from iris.testing.conformance import CHECKS

    def check(number: int) -> None:
        CHECKS[hunt.done - 1](select("softmetal"))

    hunt.examples = min(hunt.examples, len(CHECKS))
    hunt.each(integers(), check)


def proofs(hunt: Hunt) -> None:
    from iris.ir.types import DTYPES
    from iris.passes import PASSES
    from iris.testing import proves_rewrites

    passes = [PASSES[name]() for name in ("fold", "canonicalize", "simplify")]
    dtypes = [DTYPES[name] for name in ("bool", "i8", "u8", "f16", "bf16", "i16", "i32", "u32")]
    pairs = [(pass_, dtype) for dtype in dtypes for pass_ in passes]
    hunt.examples = min(hunt.examples, len(pairs))
    hunt.each(integers(), lambda number: proves_rewrites(*pairs[hunt.done - 1]))


ORACLES: dict[str, Callable[[Hunt], None]] = {
    "passes": passes,
    "masks": masks,
    "layouts": layouts,
    "agree": agree,
    "sources": sources,
    "texts": texts,
    "graph-passes": graph_passes,
    "graph-numpy": graph_numpy,
    "graph-kernels": graph_kernels,
    "graph-texts": graph_texts,
    "launches": launches,
    "conformance": conformance,
    "proofs": proofs,
}


def run(oracle: str, number: int, examples: int, seconds: float) -> Result:
    start = time.monotonic()
    hunt = Hunt(number, examples, seconds)
    failure: BaseException | None = None
    try:
        ORACLES[oracle](hunt)
    except _End as end:
        failure = end.__cause__
    except Exception as error:  # noqa: BLE001 -- drawing may fail, too
        failure = error
    message = "" if failure is None else f"{type(failure).__name__}: {failure}"[:2000]
    return Result(failure is not None, hunt.done, round(time.monotonic() - start, 1), message)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("oracle", choices=ORACLES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    print(json.dumps(run(given.oracle, given.seed, given.examples, given.seconds)))


if __name__ == "__main__":
    main()
