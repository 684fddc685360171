"""What is wrong in a text, or in the library that runs it, is noticed.

Mistakes are planted in the kernels of every example, each alone; the examples' own arguments must
show it: as an error of the device, or in what is written.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from every_level import LOWERING, EveryLevel
from iris.codegen import emit
from iris.codegen.source import Source
from iris.errors import DeviceError
from iris.ir.control import Func
from iris.ir.core import Module
from iris.passes import run as run_passes
from iris.runtime import devices
from iris.runtime.device import ArrayArgument, Grid, Program
from iris.testing.levels import Disagreement, Expected, with_simdgroups
from on_metal import order, run, together
from support import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SEEDS = range(10)

#: What is planted: what it is called, where it goes, and what is put there.
MISTAKES = {
    "no barrier": (r"threadgroup_barrier\([^;]*;", ";"),
    "wider mask": (r"(< p\.\w+)", r"\1 + 9999"),
}


def planted(source: Source) -> Iterator[tuple[str, int, Source]]:
    """The kernel with one mistake, in every place: its name, and the line."""
    for name, (pattern, wrong) in MISTAKES.items():
        for match in re.finditer(pattern, source.text):
            text = source.text[: match.start()] + match.expand(wrong) + source.text[match.end() :]
            yield name, source.text.count("\n", 0, match.start()) + 1, replace(source, text=text)


class Planted(EveryLevel):
    """Runs every kernel with each of the mistakes, and notes which are noticed."""

    name = "planted"
    planted: ClassVar[Counter[str]] = Counter()
    noticed: ClassVar[Counter[str]] = Counter()
    unnoticed: ClassVar[set[tuple[str, str, int]]] = set()

    def compile(self, entry: Func, source: Any = None) -> Program:
        (function,) = run_passes(Module([entry.clone({})]), with_simdgroups(LOWERING, 4))
        assert isinstance(function, Func)
        wrong = list(planted(emit(function)))
        texts = together([text for _, _, text in wrong])
        softmetal = devices.select("softmetal")
        compiled = [softmetal.compile(function, text) for text in texts]
        for name, line, _ in wrong:
            Planted.planted[name] += 1
            Planted.unnoticed.add((name, entry.symbol, line))
        return Program(entry, [(w[:2], c) for w, c in zip(wrong, compiled, strict=True)])

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        open_ = [
            (name, line, compiled, [self._copies(arguments) for _ in SEEDS])
            for (name, line), compiled in program.code
            if (name, program.entry.symbol, line) in Planted.unnoticed
        ]
        views = [self._view(a) if isinstance(a, ArrayArgument) else a for a in arguments]
        expected = Expected(program.entry, grid, views, exact_math=False)
        for name, line, compiled, copies in open_:
            for seed, copy in zip(SEEDS, copies, strict=True):
                order(seed)
                try:
                    run(devices.select("softmetal"), compiled, grid, arguments, copy)
                    expected.compare(copy)
                except (DeviceError, Disagreement):
                    Planted.noticed[name] += 1
                    Planted.unnoticed.discard((name, program.entry.symbol, line))
                    break


def test_mistakes_in_texts_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(devices.DEVICES, Planted.name, Planted)
    monkeypatch.setenv("IRIS_DEVICE", Planted.name)
    for example in EXAMPLES:
        spec = importlib.util.spec_from_file_location(example.stem, example)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.main()
    for name in MISTAKES:
        print(f"{name}: {Planted.planted[name]} planted, {Planted.noticed[name]} noticed")
    print("not noticed:", *sorted(Planted.unnoticed), sep="\n  ")
    assert not Planted.unnoticed
