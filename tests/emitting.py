"""A device that also writes every kernel as text, for several numbers of simdgroups."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from every_level import each_lowered
from iris.codegen import emit
from iris.ir.control import Func
from iris.runtime.device import Program
from iris.runtime.interpreters import Interpreter

SIMDGROUPS = (1, 4)


class Emitting(Interpreter):
    """Runs kernels as the device `interp` does, and keeps their texts."""

    name = "emitting"
    texts: ClassVar[list[str]] = []

    def compile(self, entry: Func, source: Any = None) -> Program:
        Emitting.texts += [emit(f).text for f in each_lowered(entry, SIMDGROUPS)]
        return super().compile(entry)


def load(path: Path) -> ModuleType:
    """A module that is in no package, anew."""
    spec = importlib.util.spec_from_file_location(f"emitting_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(module: ModuleType) -> None:
    """Everything in a module that launches kernels: its tests, or its `main`."""
    if hasattr(module, "main"):
        module.main()
    for name, function in vars(module).items():
        if name.startswith("test_"):
            for arguments in _cases(function):
                function(**arguments)


def _cases(test: Any) -> Iterator[dict[str, Any]]:
    """The arguments of a test, by its marks; none if it wants fixtures."""
    axes = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            names, values = mark.args[:2]
            names = [n.strip() for n in names.split(",")] if isinstance(names, str) else names
            rows = [v if len(names) > 1 else [v] for v in values]
            axes.append([dict(zip(names, row, strict=True)) for row in rows])
    for chosen in itertools.product(*axes):
        arguments = {name: value for case in chosen for name, value in case.items()}
        if arguments.keys() == inspect.signature(test).parameters.keys():
            yield arguments
