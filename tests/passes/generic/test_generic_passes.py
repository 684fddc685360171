"""The generic passes on random programs: IR stays valid, and does what it did."""

from __future__ import annotations

from functools import cache

import pytest

import evaluator
from iris.errors import IrisError
from iris.ir import Module, parse, verify
from iris.passes import run
from iris.passes.generic import cse, licm
from iris.passes.instruments import Check
from random_ir import random_module
from support import counts

GENERIC = ("fold", "canonicalize", "cse", "licm", "dce")
ALL = "canonicalize,fold,cse,licm,cse,dce,fold,canonicalize,dce"


def behaviour(module: Module, seed: int) -> list[object]:
    return [evaluator.run(module, seed, overlap=overlap) for overlap in (False, True)]


@cache
def drawn(seed: int) -> tuple[Module, list[object]]:
    """A random module, and what it does."""
    module = random_module(seed)
    return module, behaviour(module, seed)


@pytest.mark.parametrize("pipeline", [*GENERIC, ALL])
def test_random_modules_keep_what_they_do(pipeline: str) -> None:
    changed = 0
    for seed in range(counts(200, 2000)):
        module, before = drawn(seed)
        after = run(module, pipeline, [Check(verify)])
        assert parse(str(after)) == after
        assert behaviour(after, seed) == before, f"seed {seed}"
        changed += after != module
    # Programs that a pass leaves alone say nothing of it.
    assert changed > counts(200, 2000) // 5


def test_random_programs_make_no_errors_and_vary() -> None:
    kinds = set()
    for seed in range(200):
        module = random_module(seed)
        for _, _, _, errors in evaluator.run(module, seed, overlap=False):
            assert errors == []
        kinds |= {op.name for op in module.walk()}
    assert {"for", "while", "if", "tile.load", "metal.barrier", "mod", "select"} <= kinds


def first_difference(pipeline: str) -> int | None:
    """The first seed for which a pipeline changes what a program does."""
    for seed in range(200):
        module, before = drawn(seed)
        try:
            after = behaviour(run(module, pipeline, [Check(verify)]), seed)
        except (IrisError, ValueError):
            return seed
        if after != before:
            return seed
    return None


@pytest.mark.parametrize(
    ("where", "name", "broken", "pipeline"),
    [
        (cse, "may_alias", lambda a, b: a is b, "cse"),
        (cse, "writes", lambda effects: [], "cse"),
        (licm, "may_speculate", lambda op: True, "licm"),
        (licm, "writes", lambda effects: [], "licm"),
        (cse, "_key", lambda op: (type(op), op.operands, op.results[0].type), "cse"),
    ],
)
def test_broken_passes_are_found(
    monkeypatch: pytest.MonkeyPatch, where: object, name: str, broken: object, pipeline: str
) -> None:
    """Unbroken ones keep what the same programs do: a test above."""
    monkeypatch.setattr(where, name, broken)
    assert first_difference(pipeline) is not None
