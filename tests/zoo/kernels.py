"""The kernels of a package: which there are, and which of them are launched."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

from iris.compiler.autotune import Chooser
from iris.compiler.triton_kernel import TritonKernel

#: Folders of kernels for other GPUs and other languages.
_OTHERS = re.compile(
    r"ascend|gluon|cutedsl|cutile|\.cute\b|tilelang|\bnpu|_npu|backends|triton_ops"
)


def modules_of(package: str) -> Iterator[ModuleType]:
    """The modules of a package that can be imported."""
    root = importlib.import_module(package)
    for found in pkgutil.walk_packages(root.__path__, f"{package}."):
        if _OTHERS.search(found.name):
            continue
        try:
            yield importlib.import_module(found.name)
        except Exception as error:  # noqa: BLE001 - whatever the package lacks
            print(f"! {found.name}: {type(error).__name__}: {error}")


def kernels_of(package: str) -> dict[str, TritonKernel | Chooser]:
    """The kernels of a package, by where they are defined."""
    kernels = {}
    for module in modules_of(package):
        for name, value in vars(module).items():
            if isinstance(value, (TritonKernel, Chooser)):
                function = value.base.function.function
                if function.__module__ == module.__name__:
                    kernels[f"{module.__name__}.{name}"] = value
    return kernels


def launched(kernels: dict[str, TritonKernel | Chooser]) -> dict[str, TritonKernel | Chooser]:
    """Those that no other one calls, and that return nothing."""
    called = set()
    for kernel in kernels.values():
        called |= set(kernel.base.function.function.__code__.co_names)
    mains = {}
    for path, kernel in kernels.items():
        text = inspect.getsource(kernel.base.function.function)
        returns = re.search(r"^\s+return +\S", text, re.MULTILINE)
        if path.rpartition(".")[2] not in called and not returns:
            mains[path] = kernel
    return mains
