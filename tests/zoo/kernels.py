"""The kernels of a package: which there are, which are launched, and who calls the others."""

from __future__ import annotations

import ast
import importlib
import inspect
import linecache
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from iris.compiler.autotune import Chooser
from iris.compiler.triton_kernel import TritonKernel
from zoo.stand_in import imported

#: Folders of kernels for other GPUs and other languages.
_OTHERS = re.compile(
    r"ascend|gluon|cutedsl|cutile|\.cute\b|tilelang|\bnpu|_npu|backends|triton_ops"
)


@dataclass(frozen=True)
class Definition:
    """A function of `triton.jit` in the text of a module."""

    module: str
    node: ast.FunctionDef
    line: int  # of its first decorator

    @property
    def path(self) -> str:
        return f"{self.module}.{self.node.name}"


def definitions(package: str) -> Iterator[Definition]:
    """The functions of `triton.jit` in the files of a package, though it may not be imported."""
    (root,) = importlib.import_module(package).__path__[:1]
    for file in sorted(Path(root).rglob("*.py")):
        parts = [package, *file.relative_to(root).with_suffix("").parts]
        name = ".".join(parts).removesuffix(".__init__")
        text = file.read_text(encoding="utf-8")
        if _OTHERS.search(name) or "triton.jit" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                decorators = node.decorator_list
                if any(re.match(r"triton\.jit\b", ast.unparse(d)) for d in decorators):
                    yield Definition(name, node, decorators[0].lineno)


def kernel_of(definition: Definition) -> TritonKernel | Chooser | None:
    """The kernel that importing its module made of a definition, if it did."""
    module = imported(definition.module)
    kernel = getattr(module, definition.node.name, None)
    if not isinstance(kernel, (TritonKernel, Chooser)):
        return None
    code = kernel.base.fn.__code__
    here = (code.co_filename, code.co_firstlineno) == (module.__file__, definition.line)
    return kernel if here else None


def variant_of(definition: Definition) -> TritonKernel | None:
    """The function of a definition that its module passed over for another one of its name."""
    module = imported(definition.module)
    if module is None:
        return None
    linecache.checkcache(module.__file__)
    scope = dict(vars(module))
    tree = ast.Module([definition.node], [])
    try:
        exec(compile(tree, str(module.__file__), "exec"), scope)
    except NameError:  # of what the branch that has it would have made before
        return None
    made: TritonKernel = scope[definition.node.name]
    return made


def is_launched(kernel: TritonKernel | Chooser) -> bool:
    """Whether it returns nothing, as what is launched does."""
    return not re.search(r"^\s+return +\S", inspect.getsource(kernel.base.fn), re.MULTILINE)


def reached_from(kernel: TritonKernel | Chooser) -> set[str]:
    """The names that a kernel, and those that it calls, use."""
    seen: set[str] = set()
    _reach(kernel.base.fn, seen)
    return seen


def _reach(function: Callable[..., object], seen: set[str]) -> None:
    for name in function.__code__.co_names:
        if name not in seen:
            seen.add(name)
            called = function.__globals__.get(name)
            if isinstance(called, (TritonKernel, Chooser)):
                seen.add(called.base.fn.__name__)  # what is called may have been given another name
                _reach(called.base.fn, seen)
