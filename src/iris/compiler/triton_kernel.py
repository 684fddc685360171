"""`triton.jit`, `triton.autotune`, `triton.heuristics` and `triton.Config` over Iris's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from iris.compiler import autotune as tuning
from iris.compiler import candidates
from iris.compiler.arguments import as_array
from iris.compiler.autotune import Autotuned, Chooser
from iris.compiler.grids import GridLike
from iris.compiler.kernel import Kernel
from iris.compiler.options import OPTION_NAMES, Options, split_options
from iris.errors import ArgumentError, SourceError
from iris.frontend.function import TileFunction
from iris.frontend.triton.float8 import Float8
from iris.frontend.triton.vocabulary import TRITON
from iris.runtime.foreign import ml_dtypes
from iris.targets.apple import M1

if TYPE_CHECKING:
    from iris.cost.estimate import Estimate

#: Options of a launch that are for other GPUs, or for the compiler to choose.
_HINTS = (
    *("num_ctas", "maxnreg", "launch_cooperative_grid", "launch_pdl", "debug", "warmup"),
    *("sanitize_overflow", "enable_fp_fusion", "waves_per_eu", "matrix_instr_nonkdim", "kpack"),
    "extern_libs",
)


class KernelInterface:
    """What `kernel[grid](...)` launches, by its `run`; packages derive classes from it."""

    run: Callable[..., Any]

    def __getitem__(self, grid: GridLike) -> Callable[..., None]:
        return functools.partial(self.run, grid=grid, warmup=False)


class _Launched(KernelInterface):
    """The attributes of kernels and of tuned kernels that Triton's code uses."""

    function: TileFunction
    _launch: Callable[..., None]

    @property
    def arg_names(self) -> list[str]:
        """The names of the parameters."""
        return list(self.function.names)

    def run(self, *arguments: Any, grid: GridLike, warmup: bool = False, **named: Any) -> None:
        """Launch the kernel; `kernel[grid](...)` does it by this."""
        self._launch(grid, *arguments, **named)


class Warmed:
    """A kernel that was compiled before it is launched, and what it needs of a GPU."""

    def __init__(self, kernel: TritonKernel, num_warps: int | None, needs: Estimate):
        self._kernel, self._num_warps = kernel, num_warps
        self.n_regs = needs.registers
        self.metadata = SimpleNamespace(shared=max(1, needs.threadgroup_bytes))  # to divide by

    def _init_handles(self) -> None:
        """Nothing: what it needs is known."""

    def __getitem__(self, grid: GridLike) -> Callable[..., None]:
        return functools.partial(self._kernel.run, grid=grid, num_warps=self._num_warps)


class TritonKernel(_Launched, Kernel):
    """A kernel written in Triton's language; `kernel[grid](*arguments)` launches it."""

    vocabulary = TRITON
    option_names = OPTION_NAMES.union(["num_warps", *_HINTS])

    @property
    def fn(self) -> Any:
        """The function itself."""
        return self.function.function

    def warmup(self, *arguments: Any, grid: GridLike = 1, **named: Any) -> Any:
        """Compile the kernel for some arguments, and say what it needs of a GPU."""
        needs = self.lower(*arguments, grid=grid, **named).estimate
        return Warmed(self, named.get("num_warps"), needs)

    def options(self, named: dict[str, Any]) -> Options:
        # A kernel may ask for an option, as a constexpr of its name.
        asked = {name: named[name] for name in self.function.names if name in named}
        for name in _HINTS:
            named.pop(name, None)
        if "num_warps" in named:
            named["num_simdgroups"] = named.pop("num_warps")
        options = split_options(named)
        named.update(asked)
        return options


def jit(function: Callable[..., Any] | None = None, **hints: Any) -> Any:
    """Make a kernel of a function written in Triton's language; what Triton's `jit` takes besides
    is for its own compiler."""
    if function is None:
        return jit
    if not isinstance(function, FunctionType):
        raise SourceError(f"a kernel is made of a function, not of {function!r}")
    return TritonKernel(function)


def constexpr_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs while a kernel is traced, as any function of Python's does here."""
    return function


def set_allocator(allocator: Callable[..., Any]) -> None:
    """Nothing: descriptors take no memory."""


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
        super().__init__(num_stages=num_stages, **kwargs)
        if num_warps is not None:
            self.options["num_warps"] = num_warps
        self.num_ctas, self.pre_hook = num_ctas, pre_hook

    @property
    def kwargs(self) -> dict[str, Any]:
        """The values of constexprs."""
        return self.constants

    @property
    def num_warps(self) -> Any:
        return self.options.get("num_warps", 4)

    @property
    def num_stages(self) -> Any:
        return self.options.get("num_stages", 3)

    def all_kwargs(self) -> dict[str, Any]:
        """All that it says."""
        return {**self.kwargs, "num_warps": self.num_warps, "num_stages": self.num_stages}

    def begin(self, known: Callable[[], dict[str, Any]]) -> None:
        if self.pre_hook is not None:
            self.pre_hook({**known(), **self.all_kwargs()})


class _Choosing(_Launched):
    """What a tuner and heuristics of a kernel have as attributes, as in Triton."""

    base: Any  # a TritonKernel
    _inner: Any

    @property
    def fn(self) -> Any:
        """The kernel that it chooses for, or what chooses the rest for that."""
        return self._inner or self.base

    @property
    def base_fn(self) -> Any:
        """The function itself."""
        return self.base.fn


class Autotuner(_Choosing, Autotuned):
    """A kernel that is launched with the fastest of some configurations.

    They are compared on copies of the arguments, so that nothing is to be reset or restored.
    """

    def __init__(
        self,
        fn: Kernel | Chooser,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None,
        restore_value: Sequence[str] | None,
        pre_hook: Callable[..., Any] | None = None,
        post_hook: Callable[..., Any] | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        **hints: Any,
    ):
        # What is constant is of the specialisation anyway.
        sizes = tuple([name for name in key if name in fn.function.variables])
        super().__init__(fn, tuple(configs or [Config({})]), sizes, None, True, None)
        self._prune_by = prune_configs_by or {}
        self.keys, self.cache = key, {}  # type: ignore[var-annotated]
        self.reset_to_zero, self.restore_value = reset_to_zero or [], restore_value or []
        self.user_defined_pre_hook = pre_hook is not None
        self.user_defined_post_hook = post_hook is not None

    def choose(
        self, grid: GridLike | None, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> candidates.Config:
        one = len(self.configs) == 1
        self.best_config = self.configs[0] if one else super().choose(grid, arguments, named)
        return self.best_config

    def pruned(
        self, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Sequence[candidates.Config]:
        known = self.known(arguments, named)
        configs: Sequence[Any] = self.configs
        early, model = (self._prune_by.get(n) for n in ("early_config_prune", "perf_model"))
        if early is not None:
            configs = list(early(list(configs), known, **named))
        if model is None:
            return configs
        most = self._prune_by.get("top_k", 1.0)
        if isinstance(most, float):  # a share
            most = int(len(self.configs) * most)
        return sorted(configs, key=lambda c: model(**{**known, **c.all_kwargs()}))[:most]


class Heuristics(_Choosing, tuning.Heuristics):
    """A kernel that computes some of its constexprs from the other arguments.

    A rule may be given its own one by name, and replaces it.
    """

    def check_left_out(self, positional: Sequence[str], named: Collection[str]) -> None:
        super().check_left_out(positional, ())


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    **hints: Any,
) -> Callable[[Kernel | Chooser], Autotuner]:
    """Launch a kernel with the fastest of some configurations."""
    named = {"prune_configs_by": prune_configs_by, **hints}
    return lambda fn: Autotuner(
        fn, fn.function.names, configs, key, reset_to_zero, restore_value, **named
    )


def heuristics(values: Mapping[str, Callable[..., Any]]) -> Callable[[Any], Heuristics]:
    """Compute constexprs of a kernel from its arguments."""
    return lambda fn: Heuristics(fn, dict(values))


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """An array of bytes as one of float8, over the same memory."""
    array = as_array("the tensor", tensor)
    if array is None or array.itemsize != 1 or not isinstance(dtype, Float8):
        raise ArgumentError("reinterpret takes an array of bytes, and tl.float8e4nv or tl.float8e5")
    return array.view(getattr(ml_dtypes(), dtype.numpy_name))


def resources(device: Any) -> dict[str, int]:
    """What a device has, by Triton's names: that of the least GPU, for programs that fit there fit
    everywhere."""
    return {
        "multiprocessor_count": M1.cores,
        "max_num_regs": M1.thread_registers * M1.max_threads,
        "max_shared_mem": M1.threadgroup_bytes,
        "warpSize": M1.simdgroup_width,
    }
