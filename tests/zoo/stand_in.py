"""Modules that stand in for torch and what comes with it: packages of kernels touch some of their
names when they are imported, and a kernel touches none."""

from __future__ import annotations

import importlib
import re
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: The packages that are stood in for: those that are not installed beside the kernels.
PACKAGES = ("torch", "einops", "transformers", "fla.layers")


class _Meta(type):
    """A class any name of which is such a class, too."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return thing(name)

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        # What is called with a function alone may be a decorator.
        if cls.__module__ == __name__ and cls.__name__ != "Thing":
            return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else thing("it")
        return super().__call__(*arguments, **named)

    def __or__(cls, other: object) -> Any:
        return cls

    __ror__ = __or__

    def __getitem__(cls, key: object) -> Any:
        return cls

    def __iter__(cls) -> Any:
        return iter(())

    def __bool__(cls) -> bool:
        return False

    def __lt__(cls, other: object) -> bool:
        return False

    __le__ = __gt__ = __ge__ = __lt__

    def __index__(cls) -> int:
        return 0

    __int__ = __len__ = __index__


def thing(name: str) -> Any:
    """Something that answers whatever it is asked."""
    return _Meta(name, (), {"__module__": __name__})


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = "2.8.0" if name == "__version__" else thing(name)
        setattr(self, name, found)
        return found


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if not any(f"{fullname}.".startswith(f"{name}.") for name in PACKAGES):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        made = _Module(spec.name)
        made.__dict__["__version__"] = "2.8.0"
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it has whatever it is asked for."""


def install() -> None:
    """Let the packages be imported."""
    sys.meta_path.insert(0, _Finder())


def imported(name: str) -> ModuleType | None:
    """A module; what it asks another one of its package for in vain is stood in for."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        lacking = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", str(error))
        if lacking:
            setattr(sys.modules[lacking[2]], lacking[1], thing(lacking[1]))
            return imported(name)
        print(f"! {name}: {type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - whatever the package lacks
        print(f"! {name}: {type(error).__name__}: {error}")
    return None
