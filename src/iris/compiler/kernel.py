"""Kernels: launching, specialisation, and the cache of compiled code."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

from iris import knobs
from iris.compiler.arguments import Call, call, check_written, place
from iris.compiler.compile_times import compiling
from iris.compiler.grids import GridLike, as_grid
from iris.compiler.options import OPTION_NAMES, Options, split_options
from iris.compiler.plain_calls import PlainCall, PlainCalls
from iris.compiler.recording import RECORDERS, record
from iris.errors import ArgumentError, IrisError, SourceError
from iris.frontend.captured import Captured
from iris.frontend.decorated import Decorated
from iris.frontend.function import TileFunction
from iris.frontend.specs import Spec, exact_key
from iris.frontend.tracing import Vocabulary, error_here, is_tracing
from iris.frontend.vocabulary import IRIS
from iris.ir import metal
from iris.ir.control import Func
from iris.ir.core import Level, Module, Value
from iris.ir.effects import effects_within, writes
from iris.ir.tile import Extent
from iris.ir.types import i32
from iris.runtime.device import Device, Grid, Program, RecordedLaunch
from iris.runtime.devices import select
from iris.runtime.recent import Recent
from iris.runtime.recorder import RECORDER

if TYPE_CHECKING:
    from concurrent.futures import Future

    from iris.compiler.compilation import Compilation, Emitter
    from iris.compiler.trial import Trial
    from iris.passes.pipeline import Pipeline


def kernel(function: Callable[..., None] | None = None, **options: Any) -> Kernel:
    """Make a kernel of a function written in the tile language.

    @iris.kernel
    def double(X, N, BLOCK: iris.constexpr):
        i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
        iris.store(X + i, 2 * iris.load(X + i, mask=i < N), mask=i < N)

    double[iris.cdiv(n, 64)](x, n, BLOCK=64)
    """
    if function is None or options:
        raise error_here(
            ArgumentError,
            "write @iris.kernel without parentheses: what says how to compile goes to the launch, "
            "as in kernel[grid](..., num_simdgroups=4)",
        )
    if not isinstance(function, FunctionType):
        raise SourceError(f"a kernel is made of a function, not of {function!r}")
    return Kernel(function)


# As many are kept of a kernel, and as many traces of a function of arrays.
MOST_SPECIALISATIONS = 256


@dataclass(frozen=True)
class Compiled:
    """A kernel for some facts about its arguments, on a device."""

    program: Program
    traced: Module
    written: frozenset[str]  # the parameters it writes to
    extents: frozenset[tuple[str, int]]  # the parameter and axis of each size that it asks for
    specs: tuple[Any, ...]  # the facts: as long as it is kept, no other object has the id of one

    @classmethod
    def of(
        cls,
        entry: Func,
        traced: Module,
        device: Device,
        specs: tuple[Any, ...],
        emitter: Emitter | None = None,
    ) -> Compiled:
        """Compiled for a device, of the last IR before it and of the first."""
        written = {v.name or "" for v in writes(effects_within(entry)) if isinstance(v, Value)}
        from iris.compiler.compilation import Emitter, entry_of  # opened when first used

        source = (emitter or Emitter()).source(entry, device)
        asked = [op for op in entry_of(traced).walk() if isinstance(op, (Extent, metal.Extent))]
        extents = frozenset([(op.base.name or "", op.axis) for op in asked])
        program = device.compile(entry, source)
        return cls(program, traced, frozenset(written), extents, specs)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A compiled kernel for launches that are alike."""

    compiled: Compiled  # which keeps the facts that the key of these has the ids of
    program: Program
    extents: tuple[tuple[int, int], ...]  # the argument and axis of each size that it asks for

    @classmethod
    def of(cls, compiled: Compiled, given: Call) -> _Ready:
        names = [*given.told]
        extents = tuple([(names.index(name), axis) for name, axis in compiled.extents])
        return cls(compiled, compiled.program, extents)

    def counts(self, told: Sequence[Any]) -> bool:
        """Whether no array is longer than what the kernel counts it with."""
        return not self.extents or all(
            told[number].shape[axis] <= i32.high for number, axis in self.extents
        )


class _Specialisations:
    """The specialisations of a kernel for some values of the globals that it reads."""

    def __init__(self, captured: Captured):
        self.captured = captured
        self.compiled: Recent[Any, Compiled] = Recent(MOST_SPECIALISATIONS)
        self.ready: Recent[Hashable, _Ready] = Recent(MOST_SPECIALISATIONS)

    def ready_for(self, plain: PlainCall) -> _Ready | None:
        try:
            ready = self.ready.get(plain.key)
        except TypeError:  # a constexpr that is not hashable
            return None
        return ready if ready is not None and ready.counts(plain.told) else None


class Kernel(Decorated):
    """A kernel: `kernel[grid](*arguments, **constexprs)` launches it."""

    vocabulary: ClassVar[Vocabulary] = IRIS
    #: What a launch says of how to compile, taken from its arguments.
    options = staticmethod(split_options)
    option_names = OPTION_NAMES

    def __init__(self, function: FunctionType):
        self.function = TileFunction(function, self.vocabulary)
        self._current: _Specialisations | None = None
        self._plain_calls = PlainCalls(self.function, self.option_names)
        self._compiling = threading.Lock()
        functools.update_wrapper(self, function)

    @property
    def base(self) -> Kernel:
        """The kernel itself; what chooses constexprs for one has the same."""
        return self

    def __getitem__(self, grid: GridLike) -> Callable[..., None]:
        return functools.partial(self._launch, grid)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Within a kernel: the function itself, traced in place."""
        if is_tracing():
            return self.function.inline(arguments, named)
        name = self.function.name
        raise error_here(ArgumentError, f"launch the kernel with a grid: {name}[grid](...)")

    def lower(self, *arguments: Any, grid: GridLike | None = None, **named: Any) -> Compilation:
        """What the kernel becomes for some arguments, without running it."""
        from iris.compiler.compilation import Compilation, target_of  # opened when first used
        from iris.cost.sample import Sizes

        device = named.pop("device", None)
        options, given, programs = self.asked(grid, arguments, named)
        traced = self.traced(given, options)
        how = {n: v for n, v in named.items() if n not in given.specs and n not in given.constants}
        launch = functools.partial(self._launch, grid, device=device, **how)
        shapes = {n: a.shape for n, a in (given.arrays | given.buffers).items()}
        sizes = Sizes.of(programs, {**given.passed, **shapes})
        target = target_of(None if device is None else select(device))
        return Compilation(traced, options, launch, sizes, target, self.specs(given, options))

    def specs(self, given: Call, options: Options) -> dict[str, Spec]:
        """What a kernel for some arguments knows of its parameters."""
        return {name: spec for name, spec in given.specs.items() if spec is not None}

    def warmup(self, *arguments: Any, **named: Any) -> Future[None]:
        """Compile the kernel for some arguments, in a thread of its own.

        A launch that comes before it is done waits for it.  `.result()` of what this returns does,
        too, and raises what went wrong.
        """
        from concurrent.futures import Future  # opened when first used

        device = named.pop("device", None)
        options, given = self.asked_but_grid(arguments, named)
        on = device_of(device, given)
        done: Future[None] = Future()

        def compile_it() -> None:
            try:
                self._compiled(given, options, on)
            except IrisError as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        threading.Thread(target=compile_it, daemon=True).start()
        return done

    def prepare(
        self,
        *arguments: Any,
        grid: GridLike | None = None,
        device: str | Device | None = None,
        stream: Any = None,
        **named: Any,
    ) -> Callable[[], None]:
        """A launch with everything bound, to be repeated for little: its arrays are Buffers.

        step = advance.prepare(x, out, n, grid=8, BLOCK=64)
        for _ in range(1000):
            step()
        """
        options, given, programs = self.asked(grid, arguments, named)
        for name in given.arrays:
            raise error_here(
                ArgumentError,
                f"a prepared launch is given Buffers: pass iris.asarray({name}) for {name}",
            )
        on = device_of(device, given)
        compiled = self._compiled(given, options, on)
        _check_extents(compiled, given)
        launch = RecordedLaunch(compiled.program, programs, [*given.told.values()])
        step, buffers = on.prepare(*launch, stream), [*given.buffers.values()]

        def run() -> None:
            if RECORDER.recording is None:
                step()
            else:
                RECORDER.recording.add(on, launch, buffers)

        return run

    def trial(
        self,
        grid: GridLike | None,
        /,
        *arguments: Any,
        device: str | Device | None = None,
        **named: Any,
    ) -> Trial:
        """A launch on copies of its arrays, to be repeated and looked at."""
        from iris.compiler.trial import Trial  # opened when first used

        options, given, sizes = self.asked(grid, arguments, named)
        on = device_of(device, given)
        compiled = self._compiled(given, options, on)
        _check_extents(compiled, given)
        return Trial(on, compiled.program, sizes, given, compiled.written)

    def _launch(
        self,
        grid: GridLike | None,
        /,
        *arguments: Any,
        device: str | Device | None = None,
        stream: Any = None,
        **named: Any,
    ) -> None:
        plain = None
        if not (RECORDERS or RECORDER.recording is not None or knobs.look_at_launches()):
            plain = self.plain(grid, arguments, named, device)
        kept = self._specialisations()
        ready = None if plain is None else kept.ready_for(plain)
        if plain is not None and ready is not None:
            plain.device.launch(ready.program, plain.grid, plain.told, stream)
            return
        options, given, sizes = self.asked(grid, arguments, named)
        on = device_of(device, given)
        compiled = self._compiled(given, options, on)
        if plain is not None:
            kept.ready.put(plain.key, _Ready.of(compiled, given))
        if RECORDERS:
            named |= {"grid": grid, "device": device}
            record(compiled, lambda: self.lower(*arguments, **named))
        if knobs.check() and RECORDER.recording is None:
            from iris.compiler.check import check_stages  # opened when first used

            _check_extents(compiled, given)
            pipeline = options.pipeline(Level.TILE, on.target)
            check_stages(compiled.traced, pipeline, sizes, given.passed, compiled.written)
        start(compiled, on, sizes, given, stream, self.again, sizes, options)

    def plain(
        self,
        grid: GridLike | None,
        arguments: tuple[Any, ...],
        named: Mapping[str, Any],
        device: str | Device | None,
    ) -> PlainCall | None:
        """A launch that may be like an earlier one; None if it must be sorted out."""
        if grid is None or callable(grid):
            return None
        return self._plain_calls.plain(as_grid(grid, None), arguments, named, device)

    def again(self, grid: Grid, options: Options, **named: Any) -> None:
        self._launch(grid, **asdict(options), **named)

    def asked(
        self, grid: GridLike | None, arguments: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[Options, Call, Grid]:
        """What a launch asks for: how to compile, the arguments, how many programs."""
        rest = {**named}
        options = self.options(rest)
        given = call(self.function, arguments, rest)
        return options, given, as_grid(grid, given)

    def asked_but_grid(
        self, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Options, Call]:
        """What a kernel is compiled for."""
        return self.options(named), call(self.function, arguments, named)

    def traced(self, given: Call, options: Options) -> Module:
        """The Tile IR of a launch, before any pass."""
        return self.function.trace(given.specs | given.constants, fast_math=options.fast_math)

    def _specialisations(self) -> _Specialisations:
        """The specialisations for the values that globals and closures have now."""
        kept = self._current
        if kept is None or kept.captured.changed():
            kept = self._current = _Specialisations(Captured(self.function.function))
        return kept

    def _compiled(self, given: Call, options: Options, device: Device) -> Compiled:
        kept = self._specialisations()
        cache = kept.compiled
        key = (
            device,
            options,
            *map(exact_key, given.constants.values()),
            *map(id, given.specs.values()),
        )
        try:
            found = cache.get(key)
        except TypeError:
            values = given.constants.items()
            unhashable = next(n for n, v in values if getattr(v, "__hash__", None) is None)
            raise error_here(
                ArgumentError,
                f"the constexpr {unhashable} must be hashable; give a tuple for a list",
            ) from None
        if found is not None and knobs.dump():
            from iris.compiler.compilation import optimize  # opened when first used
            from iris.compiler.dumps import is_dumped

            pipeline = _pipeline(options, device)
            if not is_dumped(found.traced, pipeline):
                optimize(found.traced, pipeline)
        if found is None:
            with self._compiling:
                found = cache.get(key)
                if found is None:
                    kept.captured.follow(given.constants.values())
                    with compiling(self.function.name):
                        found = self._compile(given, options, device)
                    cache.put(key, found)
        return found

    def _compile(self, given: Call, options: Options, device: Device) -> Compiled:
        from iris.compiler.compilation import Emitter, entry_of, optimize  # opened when first used

        traced = self.traced(given, options)
        emitter = Emitter()
        entry = entry_of(optimize(traced, _pipeline(options, device), emitter.text))
        return Compiled.of(entry, traced, device, tuple(given.specs.values()), emitter)


def _pipeline(options: Options, device: Device) -> Pipeline:
    """What leads to what a device accepts."""
    from iris.compiler.compilation import level_of, target_of  # opened when first used

    return options.pipeline(level_of(device), target_of(device))


def start(
    compiled: Compiled,
    device: Device,
    grid: Grid,
    given: Call,
    stream: Any,
    again: Callable[..., None],
    *how: Any,
) -> None:
    """Launch a kernel, on copies of the arrays among its arguments; or record the launch, which
    `again` is, after `how`, for other arguments by their names."""
    _check_extents(compiled, given)
    if given.is_lent:
        for name in compiled.written & given.buffers.keys():
            check_written(name, given.buffers[name])
    if RECORDER.recording is not None:
        _record(compiled, device, grid, given, stream, functools.partial(again, *how))
    elif given.arrays:
        _run_on_copies(device, compiled, grid, given, stream)
    else:
        device.launch(compiled.program, grid, [*given.told.values()], stream)


def _record(
    compiled: Compiled,
    device: Device,
    grid: Grid,
    given: Call,
    stream: Any,
    again: Callable[..., None],
) -> None:
    """Add a launch to the recording of this thread."""
    for name in given.arrays:
        raise error_here(
            ArgumentError,
            f"a launch on an array reads it back, and within iris.record() none runs: pass "
            f"iris.asarray({name}) for {name}",
        )
    if stream is not None:
        raise error_here(
            ArgumentError, "a recording runs on one stream: pass stream= to iris.record()"
        )
    launch = RecordedLaunch(compiled.program, grid, [*given.told.values()])
    again = functools.partial(again, device=device, **given.arguments)
    RECORDER.recording.add(device, launch, [*given.buffers.values()], again)


def device_of(device: str | Device | None, given: Call) -> Device:
    """Where a launch runs: the device that it names, or where its Buffers are, or the default."""
    buffers = given.buffers
    on = next(iter(buffers.values())).device if device is None and buffers else select(device)
    for name, buffer in buffers.items():
        if buffer.device is not on:
            raise error_here(
                ArgumentError,
                f"{name} is a Buffer on the device {buffer.device.name!r}, but the launch is on "
                f"{on.name!r}",
            )
    return on


def _check_extents(compiled: Compiled, given: Call) -> None:
    """Refuse arrays longer than what a kernel counts them with."""
    for name, axis in compiled.extents:
        size = given.told[name].shape[axis]
        if size > i32.high:
            raise error_here(
                ArgumentError,
                f"{name} has {size} elements along axis {axis}, and blocks are bounded by sizes of "
                "at most 2**31 - 1; give tile_load and tile_store rows= and cols=",
            )


def _run_on_copies(
    device: Device, compiled: Compiled, grid: Grid, given: Call, stream: Any
) -> None:
    """Run a kernel on copies of the arrays among its arguments, and copy back what it wrote."""
    arrays = given.arrays
    for name in compiled.written & arrays.keys():
        check_written(name, arrays[name])
    placed = place(device, arrays)
    device.run(compiled.program, grid, [*(given.told | placed).values()], stream)
    for name in compiled.written & arrays.keys():
        device.copy_out(placed[name], arrays[name])
