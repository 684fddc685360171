"""Choose constexprs and launch options of a kernel: `iris.autotune`, and `iris.heuristics`.

`autotune` compares some configurations on the arguments of a launch, and takes the fastest from
then on.  `heuristics` computes constexprs from the arguments.  A kernel may have both.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import asdict
from importlib import import_module
from typing import Any

from iris.compiler.arguments import Call, call
from iris.compiler.candidates import Config, Report, Trial, report_of
from iris.compiler.compilation import Compilation, target_of
from iris.compiler.grids import GridLike, as_grid
from iris.compiler.kernel import Kernel, device_of
from iris.compiler.options import Options
from iris.errors import ArgumentError, IrisError
from iris.frontend.decorated import Decorated
from iris.frontend.function import TileFunction
from iris.frontend.specs import exact_key
from iris.frontend.tracing import error_here
from iris.ir.text.printer import to_text
from iris.runtime.device import Device, Grid
from iris.runtime.recent import Recent

Prune = Callable[[list[Config], dict[str, Any]], Sequence[Config]]
Rule = Callable[[dict[str, Any]], Any]


def autotune(
    configs: Sequence[Config],
    key: Sequence[str] = (),
    *,
    prune: Prune | None = None,
    reorder: bool = False,
    executor: Executor | None = None,
) -> Callable[[Kernel | Chooser], Autotuned]:
    """Launch a kernel with the fastest of some configurations.

        @iris.autotune(
            configs=[iris.Config(BLOCK=256), iris.Config(BLOCK=1024, num_simdgroups=4)],
            key=["N"],
        )
        @iris.kernel
        def scale(X, Out, N, BLOCK: iris.constexpr): ...

        scale[lambda known: iris.cdiv(n, known["BLOCK"])](x, out, n)

    They are compared at the first launch for each value (for an array: shape) of the parameters in
    `key`, and each specialisation, on copies of the arguments.  The choice is kept on disk, and
    `print(scale.reports[-1])` shows how it came about.

    The first configuration says what is right: one that computes other bits is not taken.  With
    `reorder=True` sums may be added in another order, so that the last bits depend on what was
    fast.  `prune(configs, arguments)` gives the configurations that are worth a try.  An `executor`
    compiles and measures them.
    """
    if not configs:
        raise error_here(ArgumentError, "autotune needs at least one iris.Config")
    for config in configs:
        if not isinstance(config, Config):
            raise error_here(
                ArgumentError, f"configs are made by iris.Config(BLOCK=64, ...), not {config!r}"
            )

    def decorate(kernel: Kernel | Chooser) -> Autotuned:
        return Autotuned(kernel, tuple(configs), tuple(key), prune, reorder, executor)

    return decorate


def heuristics(rules: Mapping[str, Rule]) -> Callable[[Kernel | Chooser], Heuristics]:
    """Compute constexprs of a kernel from its arguments.

    @iris.heuristics({"BLOCK": lambda arguments: iris.next_power_of_2(arguments["N"])})
    @iris.kernel
    def softmax(X, Out, N, BLOCK: iris.constexpr): ...

    softmax[rows](x, out, n)

    A rule is given all arguments by name, and what earlier rules computed.  If it needs what a
    configuration of `autotune` sets, write it below that.
    """
    return lambda kernel: Heuristics(kernel, dict(rules))


def known_of(
    function: TileFunction, arguments: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a launch by name, as far as they are given."""
    defaults = {p.name: p.default for p in function.parameters if p.has_default}
    return defaults | dict(zip(function.names, arguments, strict=False)) | dict(named)


def begin(
    configs: Sequence[Config],
    function: TileFunction,
    arguments: Sequence[Any],
    named: Mapping[str, Any],
) -> None:
    """Prepare a launch with some configurations."""
    for config in configs:
        config.begin(lambda: known_of(function, arguments, named))


class Chooser(Decorated):
    """A kernel that finds some of its constexprs itself, at each launch."""

    def __init__(self, kernel: Kernel | Chooser, chosen: Sequence[str]):
        if not isinstance(kernel, (Kernel, Chooser)):
            raise error_here(
                ArgumentError, f"put this above @iris.kernel; it is for kernels, not {kernel!r}"
            )
        self.base: Kernel = kernel.base
        self.function = self.base.function
        self._inner = kernel if isinstance(kernel, Chooser) else None
        self._chosen = dict.fromkeys(chosen)
        for name in self._chosen:
            if name not in self.function.constants and name not in self.base.option_names:
                there = ", ".join(self.function.constants) or "none"
                raise error_here(
                    ArgumentError,
                    f"{self.function.name} has no constexpr {name!r} to choose; there is {there}",
                )
        functools.update_wrapper(self, self.function.function)

    def choose(
        self, grid: GridLike | None, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Config:
        """The named arguments to add."""
        raise NotImplementedError

    def choices(
        self, grid: GridLike | None, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[dict[str, Any], list[Config]]:
        """The named arguments of a launch, with the values that it leaves open, and these alone."""
        self.check_left_out(self.function.names[: len(arguments)], named)
        chosen = self.choose(grid, arguments, named)
        complete, inner = named | chosen.named, list[Config]()
        if self._inner is not None:
            complete, inner = self._inner.choices(grid, arguments, complete)
        return complete, [chosen, *inner]

    def check_left_out(self, positional: Sequence[str], named: Collection[str]) -> None:
        """Refuse a launch that gives a value to choose."""
        for name in self._chosen:
            if name in positional or name in named:
                raise error_here(
                    ArgumentError,
                    f"{name} of {self.function.name} is chosen for each launch; leave it out",
                )

    def complete(
        self, grid: GridLike | None, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> dict[str, Any]:
        """The named arguments of a launch that begins, with the values that it leaves open."""
        complete, chosen = self.choices(grid, arguments, named)
        begin(chosen, self.function, arguments, complete)
        return complete

    def known(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a launch by name, as far as they are given."""
        return known_of(self.function, arguments, named)

    def __getitem__(self, grid: GridLike) -> Callable[..., None]:
        return functools.partial(self._launch, grid)

    def _launch(self, grid: GridLike, /, *arguments: Any, **named: Any) -> None:
        self.base[grid](*arguments, **self.complete(grid, arguments, named))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Within a kernel: the function itself, traced in place, with nothing chosen."""
        return self.base(*arguments, **named)

    def lower(self, *arguments: Any, grid: GridLike | None = None, **named: Any) -> Compilation:
        """What the kernel becomes for some arguments, without running it."""
        return self.base.lower(*arguments, grid=grid, **self.complete(grid, arguments, named))

    def prepare(
        self, *arguments: Any, grid: GridLike | None = None, **named: Any
    ) -> Callable[[], None]:
        """A launch with everything bound, to be repeated for little."""
        return self.base.prepare(*arguments, grid=grid, **self.complete(grid, arguments, named))

    def warmup(self, *arguments: Any, grid: GridLike | None = None, **named: Any) -> Future[None]:
        """Compile the kernel for some arguments, in a thread of its own."""
        return self.base.warmup(*arguments, **self.complete(grid, arguments, named))


class Heuristics(Chooser):
    """A kernel that computes some of its constexprs from the other arguments."""

    def __init__(self, kernel: Kernel | Chooser, rules: dict[str, Rule]):
        super().__init__(kernel, tuple(rules))
        self._rules = rules

    def choose(
        self, grid: GridLike | None, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Config:
        known = self.known(arguments, named)
        chosen: dict[str, Any] = {}
        for name, rule in self._rules.items():
            known[name] = chosen[name] = rule(known)
        return Config(**chosen)


class Autotuned(Chooser):
    """A kernel that is launched with the fastest of some configurations."""

    def __init__(
        self,
        kernel: Kernel | Chooser,
        configs: tuple[Config, ...],
        key: tuple[str, ...],
        prune: Prune | None,
        reorder: bool,
        executor: Executor | None,
    ):
        super().__init__(kernel, [name for config in configs for name in config.constants])
        for name in key:
            if name not in self.function.variables:
                raise error_here(
                    ArgumentError,
                    f"{self.function.name} has no parameter {name!r} for key; there is "
                    f"{', '.join(self.function.variables)}",
                )
        self._chosen |= {name: None for config in configs for name in config.options}
        self.configs = configs
        self.reports: list[Report] = []
        self._key = key
        self._prune = prune
        self._reorder = reorder
        self.executor = executor
        self._choices: Recent[Any, Config] = Recent(256)
        self._choosing = threading.RLock()  # hooks may launch the kernel that is tuned

    def choose(
        self, grid: GridLike | None, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Config:
        device, sizes, key = self._told(grid, arguments, named)
        found = self._choices.get(key)
        if found is None:
            with self._choosing:
                found = self._choices.get(key)
                if found is None:
                    found = self._compare(grid, arguments, named, device, sizes)
                    self._choices.put(key, found)
                    # The arguments may be others as the configuration leaves them.
                    self._begun(grid, arguments, named, found)
                    self._choices.put(self._told(grid, arguments, named)[-1], found)
        return found

    def pruned(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Sequence[Config]:
        """The configurations that are worth a try."""
        if self._prune is None:
            return self.configs
        return list(self._prune(list(self.configs), self.known(arguments, named)))

    def _told(
        self, grid: GridLike | None, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Device, dict[str, Any], Hashable]:
        """What a choice depends on: the device, the values in `key`, and all in one."""
        complete, _ = self._as_configured(grid, arguments, named, self.configs[0])
        given, options = self._asked(arguments, complete)
        device = device_of(named.get("device"), given)
        sizes = {name: _size(given.passed.get(name)) for name in self._key}
        key = (
            device,
            target_of(device),
            options,
            *map(exact_key, sizes.values()),
            *map(exact_key, given.constants.values()),
            *given.specs.values(),
        )
        return device, sizes, key

    def _as_configured(
        self,
        grid: GridLike | None,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        config: Config,
    ) -> tuple[dict[str, Any], list[Config]]:
        """The named arguments of a launch as a configuration has it, and with which others."""
        complete, inner = named | config.named, list[Config]()
        if self._inner is not None:
            complete, inner = self._inner.choices(grid, arguments, complete)
        return complete, [config, *inner]

    def _begun(
        self,
        grid: GridLike | None,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        config: Config,
    ) -> tuple[dict[str, Any], list[Config]]:
        """Prepare a launch with a configuration; its named arguments, and with which others."""
        complete, configs = self._as_configured(grid, arguments, named, config)
        begin(configs, self.function, arguments, complete)
        return complete, configs

    def _asked(self, arguments: tuple[Any, ...], complete: dict[str, Any]) -> tuple[Call, Options]:
        """The arguments of a launch, and how to compile it."""
        rest = {n: v for n, v in complete.items() if n not in ("device", "stream")}
        options = self.base.options(rest)
        return call(self.function, arguments, rest), options

    def _text(self, given: Call, options: Options) -> str:
        """What tells a candidate from others: its IR, or why it has none."""
        try:
            return to_text(self.base.traced(given, options))
        except IrisError as error:
            return str(error)

    def _compare(
        self,
        grid: GridLike | None,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        device: Device,
        sizes: dict[str, Any],
    ) -> Config:
        configs = self.pruned(arguments, named)
        if not configs:
            raise error_here(ArgumentError, f"prune left no config of {self.function.name}")
        candidates, texts = [], []
        for config in configs:
            begun, chosen = self._begun(grid, arguments, named, config)
            given, options = self._asked(arguments, begun)
            complete = named | given.constants | asdict(options)
            for name in ("device", "stream", *self.function.names[: len(arguments)]):
                complete.pop(name, None)
            programs = as_grid(grid, given)
            candidates.append(_Launch(self.base, chosen, programs, arguments, complete))
            texts.append(self._text(given, options))
        words = ", ".join([f"{name}={size}" for name, size in sizes.items()])
        report = report_of(
            candidates,
            device,
            words,
            reorder=self._reorder,
            executor=self.executor,
            words=[str(candidates[0].grid), *texts],
        )
        self.reports.append(report)
        return configs[report.chosen]


class _Launch:
    """A launch of a kernel, as one configuration has it."""

    __slots__ = ("arguments", "config", "configs", "grid", "kernel", "name", "named")

    def __init__(
        self,
        kernel: Kernel,
        configs: Sequence[Config],
        grid: Grid,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ):
        self.kernel = kernel
        self.name = kernel.function.name
        self.configs = configs
        self.config = str(configs[0])
        self.grid = grid
        self.arguments = arguments
        self.named = named

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process, which finds the kernel by its name."""
        function = self.kernel.function.function
        name = function.__module__, function.__qualname__
        return _launch_of, (*name, self.configs, self.grid, self.arguments, self.named)

    def _begin(self) -> None:
        begin(self.configs, self.kernel.function, self.arguments, self.named)

    def lower(self, device: Device) -> Compilation:
        self._begin()
        return self.kernel.lower(*self.arguments, grid=self.grid, device=device, **self.named)

    def trial(self, device: Device) -> Trial:
        self._begin()
        return self.kernel.trial(self.grid, *self.arguments, **self.named, device=device)


def _launch_of(module: str, name: str, *parts: Any) -> _Launch:
    """The launch of the kernel that has a name, or that what chooses for it has."""
    kernel = functools.reduce(getattr, name.split("."), import_module(module))
    return _Launch(kernel.base, *parts)


def _size(value: Any) -> Any:
    """What of an argument a choice depends on: of an array the shape, of a number all."""
    return getattr(value, "shape", value)
