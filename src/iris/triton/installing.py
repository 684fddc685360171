"""Lets unmodified modules `import triton`, and gives them the modules of `iris.triton`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Finder(MetaPathFinder, Loader):
    """Finds `triton.x` as `iris.triton.x`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "triton":
            return None
        if importlib.util.find_spec(_own(fullname)) is None:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of Iris in the place of a new one."""
        sys.modules[module.__name__] = importlib.import_module(_own(module.__name__))


def _own(name: str) -> str:
    return f"iris.{name}"


def install(*, instead: bool = False) -> None:
    """Let `import triton` give `iris.triton` from now on.

    Where Triton is installed it stays what `import triton` gives, unless `instead` says otherwise.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if not instead and importlib.util.find_spec("triton") is not None:
        raise ImportError(
            "Triton is installed here, and is what `import triton` gives; "
            "iris.triton.install(instead=True) puts Iris in its place for this process"
        )
    for name in [n for n in sys.modules if n.partition(".")[0] == "triton"]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Finder())
