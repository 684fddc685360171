# mypy: ignore-errors
"""Kernels that scripts of launches run, and what each of them does in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

import iris
from iris.compiler.kernel import MOST_SPECIALISATIONS, Kernel
from iris.compiler.launch_recording import Recording
from iris.errors import ArgumentError, IrisError, ProgramError
from iris.ir.core import Level
from iris.runtime.device import ArrayArgument, Device
from iris.runtime.recent import Recent

Array = npt.NDArray[Any]

SIZE = 160  # elements of an array
REFUSED = "refused"  # what a launch that fails says
STRAY = -1  # the number of every launch that leaves its memory
FAR = 1 << 40  # elements, which no memory has
ROWS = 12  # arrays that as many streams write at a time


@iris.kernel
def shift(X, Out, n, number=2.5, B: iris.constexpr = 64):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, iris.load(X + at, mask=at < n) + number, mask=at < n)


def _shift(x, out, n, number=2.5, B=64):
    out[:n] = x[:n] + np.float32(number)


@iris.kernel
def add(X, Y, Out, n, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    some = at < n
    iris.store(Out + at, iris.load(X + at, mask=some) + iris.load(Y + at, mask=some), mask=some)


def _add(x, y, out, n, B):
    out[:n] = x[:n] + y[:n]


@iris.kernel
def reverse(X, Out, n, B: iris.constexpr):
    at = iris.arange(0, B)
    iris.store(Out + n - 1 - at, iris.load(X + at, mask=at < n), mask=at < n)


def _reverse(x, out, n, B):
    out[:n] = x[:n][::-1].copy()


@iris.kernel
def reload(n, X, Out, Y, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(X + at, iris.load(Y + at, mask=at < n) + 1, mask=at < n)
    iris.store(Out + at, iris.load(Y + at, mask=at < n), mask=at < n)


def _reload(n, x, out, y, B):
    x[:n] = y[:n] + 1
    out[:n] = y[:n].copy()


@iris.kernel
def scale(X, Out, n, C: iris.constexpr, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    factor = C[0] if isinstance(C, tuple) else C
    x = iris.load(X + at, mask=at < n) * factor
    iris.store(Out + at, x if isinstance(factor, float) else -x, mask=at < n)


def _scale(x, out, n, C, B):
    C = C[0] if isinstance(C, tuple) else C
    out[:n] = x[:n] * np.float32(C if isinstance(C, float) else -C)


@iris.kernel
def window(X, number, Out):
    x = iris.tile_load(X, 0, 0, 16, (16, 16))
    iris.tile_store(Out, 0, 0, 16, x + number, (16, 16))


def _window(x, number, out):
    tile = np.zeros(256, np.float32)
    tile[: x.size] = x
    out[...] = tile[: out.size] + np.float32(number)


@iris.kernel
def blocks(X, Out, n, number):
    x = iris.tile_load(X, 0, 0, n, (16, 16))
    iris.tile_store(Out, 0, 0, n, x + number, (16, 16))


def _blocks(x, out, n, number):
    tile = np.zeros((16, 16), np.float32)
    tile[: len(x), :n] = x
    out[...] = tile[: len(out), :n] + np.float32(number)


@iris.kernel
def spaced(X, Out, n, step, B: iris.constexpr):
    at = iris.arange(0, B)
    iris.store(Out + at * step, iris.load(X + at * step, mask=at < n) + 1, mask=at < n)


def _spaced(x, out, n, step, B):
    out[:n] = x[:n] + np.float32(1)


@iris.kernel
def convert(X, Out, n, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, iris.load(X + at, mask=at < n), mask=at < n)


def _convert(x, out, n, B):
    with np.errstate(over="ignore"):
        out[:n] = x[:n].copy()


@iris.kernel
def corners(number, Out, ROWS: iris.constexpr, PLANES: iris.constexpr):
    column, row, plane = iris.program_id(0), iris.program_id(1), iris.program_id(2)
    at = column + iris.num_programs(0) * (row + ROWS * plane)
    iris.store(Out + at, number + (column - 3 * row + 7 * plane))


def _corners(number, out, ROWS, PLANES):
    plane, row, column = np.indices((PLANES, ROWS, 4)).reshape(3, -1)
    out[: plane.size] = np.float32(number) + np.float32(column - 3 * row + 7 * plane)


@iris.kernel
def tally(Out, n, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.atomic_add(Out + at % 8, 1, mask=at < n)


def _tally(out, n, B):
    np.add.at(out, np.arange(n) % 8, 1)


@iris.kernel
def numbers(Out, a, b, c, d):
    iris.store(Out, a)
    iris.store(Out + 1, b)
    iris.store(Out + 2, c)
    iris.store(Out + 3, d)


def _numbers(out, *given):
    out[:4] = [np.uint64(int(x) % 2**64).astype(np.int64) for x in given]


@iris.kernel
def show(X, stream, number):
    iris.device_print("seen", stream, number, iris.load(X + iris.arange(0, 8)))


def _show(x, stream, number):
    return [f"seen[program (0,0,0)] {stream} {number} [{', '.join(map(str, x))}]"]


@iris.kernel
def refuse(X, Out, number):
    program, lane = iris.program_id(0), iris.arange(0, 32)
    iris.store(Out + program, -iris.load(X + program))
    # Later programs fail, too, at earlier threads.
    wrong = iris.where(program == number, lane == 31, (program > number) & (lane == 0))
    iris.device_assert(~wrong, REFUSED)


def _refuse(x, out, number):
    raise NotImplementedError("it fails")


@iris.kernel
def stray(Out, far):
    iris.store(Out + far, -1.0)


def _stray(out, far):
    raise NotImplementedError("it fails")


@iris.kernel
def tuned(X, Out, Blocks, n, TELLS: iris.constexpr, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, iris.load(X + at, mask=at < n) + 1, mask=at < n)
    if TELLS:
        iris.store(Blocks + iris.program_id(0), B)


def _tuned(x, out, blocks, n, TELLS):
    out[:n] = x[:n] + 1
    if TELLS:
        first = CONFIGS[0].constants["B"]  # which says what is right
        blocks[: -(-SIZE // first)] = first


CONFIGS = iris.Config(B=64), iris.Config(B=256), iris.Config(B=64, num_simdgroups=1)


@iris.jit(static_argnames="number")
def plus(x, number):
    return x + np.float32(number) if isinstance(number, float) else x - np.float32(number)


def _plus(x, number):
    return x + np.float32(number if isinstance(number, float) else -number)


@iris.jit
def weigh(x, number):
    return (x.astype(np.float16) * number).astype(np.float32)


def _weigh(x, number):
    kind = type(number) if isinstance(number, np.generic) else np.float16
    with np.errstate(all="ignore"):
        return (x.astype(np.float16).astype(kind) * kind(number)).astype(np.float32)


@dataclass(frozen=True)
class Tried:
    """A kernel, what it does in NumPy, which may give the lines that it prints, and which of its
    parameters it writes: always, and only if some constant is true."""

    kernel: Kernel
    meaning: Callable[..., list[str] | None]
    writes: tuple[int, ...]
    writes_if: tuple[tuple[str, int], ...] = ()


TRIED = {
    one.kernel.function.name: one
    for one in (
        Tried(shift, _shift, (1,)),
        Tried(add, _add, (2,)),
        Tried(reverse, _reverse, (1,)),
        Tried(reload, _reload, (1, 2)),
        Tried(scale, _scale, (1,)),
        Tried(window, _window, (2,)),
        Tried(blocks, _blocks, (1,)),
        Tried(spaced, _spaced, (1,)),
        Tried(convert, _convert, (1,)),
        Tried(corners, _corners, (1,)),
        Tried(tally, _tally, (0,)),
        Tried(numbers, _numbers, (0,)),
        Tried(show, _show, ()),
        Tried(tuned, _tuned, (1,), (("TELLS", 2),)),
        Tried(refuse, _refuse, (1,)),
        Tried(stray, _stray, (0,)),
    )
}


#: Functions of arrays, as what they are in NumPy.
ARRAY_FUNCTIONS: dict[str, Callable[..., Array]] = {"plus": _plus, "weigh": _weigh}


def fresh(most: int = MOST_SPECIALISATIONS) -> dict[str, Any]:
    """Uncompiled copies of the functions, by name.  Each keeps at most `most` specialisations."""
    kernels = {name: iris.kernel(one.kernel.function.function) for name, one in TRIED.items()}
    added = iris.jit(plus.function.function, static_argnames="number")
    weighed = iris.jit(weigh.function.function)
    for one in kernels.values():
        one._cache, one._ready = Recent(most), Recent(most)
    for one in (added, weighed):
        one._traces = Recent(most)
    chosen = iris.autotune(CONFIGS, key=["n"])(kernels["tuned"])
    return {**kernels, "tuned": chosen, "plus": added, "weigh": weighed}


def arrays() -> dict[str, Array]:
    """What is in arrays at first: floats, counts, numbers of 64 bits, of 16, and many of floats."""
    floats = np.arange(SIZE, dtype=np.float32) % 13 - 3
    return {
        **{name: floats + number for number, name in enumerate("abcdef")},
        "counts": np.zeros(8, np.int32),
        "wide": np.zeros(4, np.int64),
        "halves": np.zeros(SIZE, np.float16),
        **{f"rows[{number}]": np.zeros(SIZE, np.float32) for number in range(ROWS)},
    }


def host() -> Array:
    """An array that stays on the host, of which launches are given slices."""
    return np.arange(2 * SIZE, dtype=np.float32)


def part(x: iris.Buffer, start: int, stop: int) -> ArrayArgument:
    """Some elements of a Buffer of floats, as `copy_in` takes them."""
    return replace(x.argument, offset=4 * start, shape=(stop - start,))


def fill(x: iris.Buffer, start: int, stop: int, number: float) -> None:
    """Write some elements of a Buffer through the array that it gives, where that can be."""
    view = x.numpy()
    if view.flags.writeable:
        view[start:stop] = number
    else:
        x.device.copy_in(part(x, start, stop), np.full(stop - start, number, np.float32))


def refused(launch: Callable[[], object]) -> None:
    """Launch what is wrong, and not as a program is that fails."""
    try:
        launch()
    except ProgramError:
        raise
    except IrisError:
        return
    raise AssertionError("nothing is said against it")


def astray(stray: Callable[[], object], reading: Callable[[], object], stream: Any) -> None:
    """Launch on a stream what leaves its memory, and let another stream read that: what was sent
    off before is done, and nothing else is sent off with it."""
    wait(stream)
    stray()
    with suppress(IrisError):
        reading()


def recorded(launch: Callable[[], None], stream: Any) -> Callable[[], None]:
    """What replays a launch."""
    with iris.record(stream=stream) as recording:
        launch()
    return recording.replay


def update(replay: Callable[[], None], kernel: str, **argument: Any) -> None:
    """Give a recorded launch another argument; what was prepared otherwise stays as it is."""
    recording = getattr(replay, "__self__", None)
    if isinstance(recording, Recording):
        (launch,) = recording.launches
        if launch.launch.program.entry.symbol == kernel:
            launch.update(**argument)


def from_file(
    device: Device,
    compiled: iris.Compilation,
    launch: Callable[[Any], object],
    otherwise: Callable[[], object],
    fits: bool,
) -> None:
    """Launch what was compiled, from a file; or do otherwise, if it is for other arguments, or not
    for the device."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.iris"
        compiled.save(file)
        kernel = iris.load_kernel(file)
    try:
        launch(kernel)
    except ArgumentError:
        if fits and device.accepts is not Level.TILE:
            raise
        otherwise()


def wait(stream: Any) -> None:
    """Wait for a stream; launches of a device without streams are done."""
    if stream is not None:
        stream.synchronize()


def buffers(device: Device) -> list[iris.Buffer]:
    """`arrays` on a device."""
    return [iris.asarray(array, device=device) for array in arrays().values()]


def copied(x: iris.Buffer) -> Array:
    """A copy by the device alone, which nothing has waited for."""
    array = np.zeros(x.shape, np.float32)
    x.device.copy_out(x.argument, array)
    return array
