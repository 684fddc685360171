"""The testing kit: random programs, and what must hold of them.

    from hypothesis import given
    from iris.testing import preserves, programs

    @given(programs.tile())
    def test_my_pass(program):
        preserves(MyPass(), program)

Random programs need hypothesis: `pip install "iris-metal[testing]"`. Proofs of
more than 18 bits need z3: `pip install z3-solver`. What devices must do is in
`iris.testing.conformance`, which needs neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from iris.compiler.benchmark import do_bench
from iris.testing.equivalence import equivalent
from iris.testing.fixpoint import idempotent, terminates
from iris.testing.fusing import fuses
from iris.testing.levels import agree
from iris.testing.numpy_graphs import matches_numpy
from iris.testing.oracles import all_preserve, preserves, roundtrips
from iris.testing.proofs import proves
from iris.testing.quality import cheaper, fits, keeps
from iris.testing.rewrites import proves_rewrites
from iris.testing.scripts import conforms
from iris.testing.simdgroups import interleaves, orders
from iris.testing.texts import runs_alike

if TYPE_CHECKING:
    from iris.testing import exchanges, indices, launches, layouts, programs
    from iris.testing.programs import pipelines
    from iris.testing.values import arrays, graph_schedules, schedules, types

__all__ = [
    "agree",
    "all_preserve",
    "arrays",
    "cheaper",
    "conforms",
    "do_bench",
    "equivalent",
    "exchanges",
    "fits",
    "fuses",
    "graph_schedules",
    "idempotent",
    "indices",
    "interleaves",
    "keeps",
    "launches",
    "layouts",
    "matches_numpy",
    "orders",
    "pipelines",
    "preserves",
    "programs",
    "proves",
    "proves_rewrites",
    "roundtrips",
    "runs_alike",
    "schedules",
    "terminates",
    "types",
]


def __getattr__(name: str) -> Any:
    # Opened when first used, for hypothesis may not be there.
    if name == "pipelines":
        return import_module("iris.testing.programs").pipelines
    if name in ("arrays", "graph_schedules", "schedules", "types"):
        return getattr(import_module("iris.testing.values"), name)
    if name in ("exchanges", "indices", "launches", "layouts", "programs"):
        return import_module(f"iris.testing.{name}")
    raise AttributeError(f"module 'iris.testing' has no attribute {name!r}")
