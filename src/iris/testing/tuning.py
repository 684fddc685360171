"""Launches of kernels that choose some of their constants: by comparison, by rules, by both.

    @given(tuning.launches())
    def test_choices(launches):
        launches.check()

The configurations of a kernel do not all compute the same, and which of them do depends on a number
that it is given.  So each launch must write what the kernel writes that is given the constants of
the first configuration, and those that the rules compute of the arguments; whatever is fast, and
whatever was chosen before.  A launch that gives a constant that is chosen is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import iris
from iris.compiler import candidates
from iris.errors import ArgumentError
from iris.testing.choices import Choices
from iris.testing.sources import defined

BYTES = 40
CALLS = 3
_TURNS = (24, 1, 3, 12)  # some are as many as any for few elements
_BLOCKS = (16, 4)
_SIZES = (2, 24, 8)
_NAMES = ("TURNS", "BLOCK", "FACTOR")
_GRID = "lambda known: iris.cdiv(16, known['BLOCK'])"
_KERNEL = """\
@iris.kernel
def drawn(X, Out, n, TURNS: iris.constexpr, BLOCK: iris.constexpr, FACTOR: iris.constexpr):
    at = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    total = 0.0
    for i in range(TURNS):
        total += iris.where(i < n, iris.load(X + i), 0.0)
    iris.store(Out + at, iris.where(at > 0, total * FACTOR, 0.0) + at)
"""
# Rules of each constant: they compute it from arguments and from constants chosen earlier.
_RULES = {
    "TURNS": ("a['n']", "24", "a['n'] // 2", "a.get('BLOCK', 16) + 1"),
    "BLOCK": ("16", "4", "4 if a['n'] > 8 else 16", "min(a.get('FACTOR', 4), 1) * 4"),
    "FACTOR": ("2", "a['n']", "a.get('TURNS', 7) - 1", "a.get('BLOCK', 4)"),
}


def launches() -> st.SearchStrategy[Launches]:
    """Kernels, and some launches of each."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(Launches)


@dataclass(frozen=True)
class Launches:
    """A kernel and its launches, as some bytes choose."""

    data: bytes

    def __repr__(self) -> str:
        run = _Run(Choices(self.data))
        calls = [f"drawn[{_GRID}](x, out, {n})" for n in run.sizes]
        return "\n".join([run.text, *calls])

    def check(self) -> None:
        """Assert that each launch writes what the constants ask for that are right."""
        run = _Run(Choices(self.data))
        chooser, plain = defined(run.text), defined(_KERNEL)
        grid = eval(_GRID, {"iris": iris})
        x = np.arange(1, 25, dtype=np.float32)
        with candidates.watched():
            for n in run.sizes:
                out = np.zeros(16, np.float32)
                chooser[grid](x, out, n, device="interp", **run.given)
                constants = run.constants(n)
                wanted = np.zeros(16, np.float32)
                plain[grid](x, wanted, n, device="interp", **constants)
                assert np.array_equal(out, wanted), _shown(n, constants, out, wanted)
                run.refuses(chooser, grid, x, out, n)


def _shown(n: int, constants: Mapping[str, Any], *arrays: npt.NDArray[Any]) -> str:
    found, wanted = (x[:4].tolist() for x in arrays)
    return f"with n={n} it writes {found}..., and not {wanted}... as of {constants}"


class _Run:
    """A kernel, and with which numbers it is launched."""

    def __init__(self, choices: Choices):
        self.sizes = [choices.of(_SIZES) for _ in range(CALLS)]
        how = {name: choices.of((0, 1, 1, 2)) for name in _NAMES}
        self.tuned = [name for name in _NAMES if how[name] == 0]
        ruled = [name for name in _NAMES if how[name] == 1]
        self.given = {name: 4 for name in _NAMES if how[name] == 2}
        if choices.flag():
            ruled.reverse()
        self.rules = {name: choices.of(_RULES[name]) for name in ruled}
        alternatives = {"TURNS": _TURNS, "BLOCK": _BLOCKS, "FACTOR": (1, 2)}
        self.configs = [
            {name: choices.of(alternatives[name]) for name in self.tuned}
            for _ in range(2 + choices.below(2) if self.tuned else 0)
        ]
        self.is_ruled_first = choices.flag()
        reorder = choices.flag()
        self.named = choices.of((*self.tuned, *self.rules, ""))
        self.at = choices.flag()
        configs = ", ".join(
            [f"iris.Config({', '.join(f'{k}={v}' for k, v in c.items())})" for c in self.configs]
        )
        rules = ", ".join([f"{name!r}: lambda a: {rule}" for name, rule in self.rules.items()])
        words = [f"@iris.autotune([{configs}], key=['n'], reorder={reorder})"] * bool(configs)
        words += [f"@iris.heuristics({{{rules}}})"] * bool(rules)
        if self.is_ruled_first:
            words.reverse()
        self.text = "\n".join([*words, _KERNEL])

    def constants(self, n: int) -> dict[str, Any]:
        """The right constants of a launch: the decorator above chooses first."""
        chosen: dict[str, Any] = dict(self.given)
        first = self.configs[0] if self.configs else {}
        if not self.is_ruled_first:
            chosen |= first
        for name, rule in self.rules.items():
            chosen[name] = eval(rule, {"a": {"n": n, **chosen}})
        return chosen | first

    def refuses(
        self, chooser: Any, grid: Any, x: npt.NDArray[Any], out: npt.NDArray[Any], n: int
    ) -> None:
        """Assert that a launch is refused that gives a constant which is chosen."""
        if not self.named:
            return
        positional: Sequence[Any] = (4,) if self.at and self.named == "TURNS" else ()
        named = {**self.given, **({} if positional else {self.named: 4})}
        try:
            chooser[grid](x, out, n, *positional, device="interp", **named)
        except ArgumentError as error:
            assert self.named in str(error), f"the error is not about {self.named}: {error}"
            return
        raise AssertionError(f"a launch may give {self.named}")
