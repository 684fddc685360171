"""`triton.jit`, `triton.autotune`, `triton.heuristics` and `triton.Config` over Iris's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from iris.compiler import autotune as tuning
from iris.compiler import candidates
from iris.compiler.arguments import Call
from iris.compiler.autotune import Autotuned, Chooser
from iris.compiler.compilation import Options
from iris.compiler.grids import GridLike, as_grid
from iris.compiler.kernel import Kernel, split_options
from iris.errors import SourceError
from iris.frontend.triton.vocabulary import TRITON
from iris.runtime.device import Grid

#: Options of a launch that are for other GPUs, or for the compiler to choose.
_HINTS = (
    *("num_ctas", "maxnreg", "launch_cooperative_grid", "launch_pdl", "debug", "warmup"),
    *("sanitize_overflow", "enable_fp_fusion", "waves_per_eu", "matrix_instr_nonkdim", "kpack"),
)


class TritonKernel(Kernel):
    """A kernel written in Triton's language; `kernel[grid](*arguments)` launches it."""

    vocabulary = TRITON

    @property
    def fn(self) -> FunctionType:
        """The function itself."""
        return self.function.function

    @property
    def arg_names(self) -> list[str]:
        """The names of the parameters."""
        return list(self.function.names)

    def run(self, *arguments: Any, grid: GridLike, **named: Any) -> None:
        """Launch the kernel."""
        self[grid](*arguments, **named)

    def options(self, named: dict[str, Any]) -> Options:
        for name in _HINTS:
            if name not in self.function.names:
                named.pop(name, None)
        warps = named.pop("num_warps", None)
        if warps is not None:
            named["num_simdgroups"] = warps
        return split_options(named)

    def programs(self, grid: GridLike | None, given: Call) -> Grid:
        """A grid function is given all arguments by name."""
        return as_grid(grid, given.passed | given.constants)


def jit(function: Callable[..., Any] | None = None, **hints: Any) -> Any:
    """Make a kernel of a function written in Triton's language; what Triton's `jit` takes besides
    is for its own compiler."""
    if function is None:
        return jit
    if not isinstance(function, FunctionType):
        raise SourceError(f"a kernel is made of a function, not of {function!r}")
    return TritonKernel(function)


class Config(candidates.Config):
    """Values of constexprs, and of options of a launch."""

    __slots__ = ("num_ctas", "pre_hook")

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int | None = None,
        num_stages: int | None = None,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[..., Any] | None = None,
        ir_override: str | None = None,
    ):
        super().__init__(num_simdgroups=num_warps, num_stages=num_stages, **kwargs)
        self.num_ctas, self.pre_hook = num_ctas, pre_hook

    @property
    def kwargs(self) -> dict[str, Any]:
        """The values of constexprs."""
        return self.constants

    @property
    def num_warps(self) -> Any:
        return self.options.get("num_simdgroups", 4)

    @property
    def num_stages(self) -> Any:
        return self.options.get("num_stages", 3)

    def all_kwargs(self) -> dict[str, Any]:
        """All that it says."""
        return {**self.kwargs, "num_warps": self.num_warps, "num_stages": self.num_stages}


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    **hints: Any,
) -> Callable[[Kernel | Chooser], Autotuned]:
    """Launch a kernel with the fastest of some configurations.

    They are compared on copies of the arguments, so that nothing is to be reset or restored.
    """
    prune = (prune_configs_by or {}).get("early_config_prune")

    def chosen(configs: list[candidates.Config], known: dict[str, Any]) -> Any:
        return prune(configs, known)

    def decorate(kernel: Kernel | Chooser) -> Autotuned:
        # What is constant is of the specialisation anyway.
        names = [name for name in key if name in kernel.function.variables]
        pruning = None if prune is None else chosen
        return tuning.autotune(configs or [Config({})], names, prune=pruning, reorder=True)(kernel)

    return decorate


heuristics = tuning.heuristics
