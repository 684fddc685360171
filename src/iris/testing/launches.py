"""Random scripts of launches, as a hypothesis strategy.

@given(launches.scripts())
def test_my_device(script):
    conforms(MyDevice(), script)

A script is made of steps, each drawn from its own bytes: any may go without harm to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from iris.testing import steps
from iris.testing.choices import Choices
from iris.testing.launched import ROWS, SIZE, TRIED
from iris.testing.scripts import Script
from iris.testing.steps import Argument, Buffer, Launch, Number, Refused, Returned, Slice, Step

STEP_BYTES = 24
SEEDS = 1 << 16

# Kernels that steps launch on any arrays; and on one of their own.
_KERNELS = (
    *("shift", "shift", "add", "add", "reload", "reverse", "reload", "scale", "scale", "scale"),
    *("window", "window", "corners", "blocks", "blocks", "convert", "spaced", "spaced"),
)
_SIZES = (SIZE, 100, 128, 20)
_WIDTHS = (64, 256)
_NUMBERS = (2.5, -1.0, 3, -0.0, -7, np.float16(0.5), np.int8(-7))
_CONSTANTS = ((0.0, -0.0), (1, 1.0), (1, True), (1.0, True), (1, np.int64(1)))
# Of Python's in the dtype of an array, and of NumPy's in their own.
_WEIGHTS = (0.1, np.float32(0.1), np.float16(0.1))
_OPTIONS = ((), (("num_simdgroups", 1),), (("num_simdgroups", 4),), (("fast_math", True),))
_WIDE = (
    (-3.0, True, 2**63 + 5, -7),
    (True, -(2**40) - 1, False, 5.0),
    (7, False, -9.0, 2**64 - 1),
    (False, True, True, -11),
    (np.uint64(2**63 + 5), np.bool_(True), np.int16(-9), np.float32(6.0)),
)
_READS = ("{}.numpy()", "iris.to_numpy({})", "copied({})")


def scripts(*, max_steps: int = 16) -> st.SearchStrategy[Script]:
    """Scripts of some steps, and of reads of every array in the end.

    @given(launches.scripts(max_steps=10))
    def test_my_device(script):
        conforms(MyDevice(), script)
    """
    step = st.binary(min_size=STEP_BYTES, max_size=STEP_BYTES)
    # As steps of programs: hypothesis is not to try variants of a script.
    drawn = st.lists(step, min_size=max_steps, max_size=max_steps, unique_by=lambda step: object())
    return st.builds(_script, drawn, step, st.integers(0, SEEDS))


def _script(drawn: Sequence[bytes], config: bytes, seed: int) -> Script:
    few = _Few.drawn(Choices(config))
    made = [
        step
        for number, data in enumerate(drawn)
        for step in _Drawing(Choices(data), number, few).steps()
    ]
    names = [*"abcdef", "counts", "wide", "halves"]
    if any(isinstance(step, steps.Spread) for step in made):
        names += [f"rows[{number}]" for number in range(ROWS)]
    first = seed % len(names)
    reads = [steps.Read(Buffer(name)) for name in names[first:] + names[:first]]
    return Script((*made, *reads, steps.ReadHost()), seed)


@dataclass(frozen=True)
class _Few:
    """What the steps of a script choose from: of few things, they do more to each other, and more
    of their kernels are compiled already."""

    buffers: Sequence[Buffer]
    streams: Sequence[int]
    kernels: Sequence[str]
    sizes: Sequence[int]
    numbers: Sequence[Any]
    options: Sequence[Any]
    constants: Sequence[Any]
    factors: Sequence[Any]  # these, or tuples of one each

    @staticmethod
    def drawn(choices: Choices) -> _Few:
        constants = choices.of(_CONSTANTS)
        return _Few(
            [Buffer(name) for name in "abcdef"[: 2 + choices.below(5)]],
            range(1 + choices.below(3)),
            [choices.of(_KERNELS) for _ in range(4)],
            [choices.of(_SIZES) for _ in range(2)],
            [choices.of(_NUMBERS) for _ in range(2)],
            [(), (), (), choices.of(_OPTIONS)],
            constants,
            [(c,) for c in constants] if choices.flag() else constants,
        )


@dataclass(frozen=True)
class _Drawing:
    """The steps that some bytes choose; their number is that of their failure, too."""

    choices: Choices
    number: int
    few: _Few

    def steps(self) -> Sequence[Step]:
        kind = self.choices.below(42)
        if kind < 15:
            return [self.kept(self.launch([self.buffer() for _ in "123"]))]
        if kind < 18:
            return self.on_host()
        if kind < 20:
            return self.prepare()
        if kind == 33:
            return self.strays()
        return [self.other(kind)]

    def other(self, kind: int) -> Step:
        choices, buffer = self.choices, self.buffer()
        match kind:
            case 32:
                return self.refuse()
            case 20 | 21:
                given = (self.returned(), self.buffer(), Number(SIZE), Number(0.5))
                return Launch("shift", given, 3, (("B", 64),))
            case 34 | 35:
                return steps.Keep(buffer, self.returned())
            case 36:
                return self.show()
            case 37 | 38:
                start, stop = choices.of(((0, SIZE), (4, 24)))
                return steps.Fill(buffer, self.number, start, stop)
            case 39:
                return self.wrong()
            case 22:
                return steps.Again(choices.of((1, 45)))
            case 40 | 41:
                return self.tuned()
            case 23:
                return steps.Spread(buffer)
            case 24 | 25:
                return steps.CopyIn(buffer, self.number)
            case 26:
                return steps.CopyIn(buffer, self.number, 4, 20)
            case 27:
                return steps.Renew(buffer, self.number)
            case 28:
                return steps.Peek(buffer, choices.of((0, 5, SIZE - 1)))
            case 29:
                return steps.Synchronize() if choices.flag() else steps.WaitFor(buffer)
            case 30:
                return steps.Wait(choices.of(self.few.streams))
            case _:
                return steps.Read(buffer, choices.of(_READS))

    def prepare(self) -> Sequence[Step]:
        """Prepare a launch to be run later, and often at once, too.  At times there are enough of
        them to be sent off before a last one, which fails."""
        choices = self.choices
        style = choices.below(6)
        launch = self.show() if style < 2 else self.refuse(self.buffer()) if style == 2 else None
        launch = launch or self.launch([self.buffer() for _ in "123"])
        prepared = steps.Prepare(launch, is_recorded=choices.flag())
        if style == 2:
            return [prepared, steps.Again(1)][: 1 + choices.below(2)]
        many, one = steps.Again(45), steps.Again(1)
        failing = replace(self.refuse(self.buffer()), stream=prepared.launch.stream)
        failed = [many, failing, steps.Synchronize()]
        tails: Sequence[Sequence[Step]] = ([], [one], [], [one], [many], failed, [], [one])
        tail = choices.of(tails)
        updated = self.updates(prepared.launch) if prepared.is_recorded and style > 2 else []
        return [prepared, *tail, *updated]

    def updates(self, launch: Launch) -> Sequence[Step]:
        """The recorded launch with another argument, at times while it is under way, and again."""
        made: list[Step] = []
        for _ in range(self.choices.of((0, 1, 2))):
            position = self.choices.below(len(launch.arguments))
            argument = self.changed(launch.arguments[position])
            made += [steps.Update(launch.kernel, position, argument), steps.Again(1)]
        return made

    def buffer(self) -> Buffer:
        return self.choices.of(self.few.buffers)

    def stream(self) -> int | None:
        return self.choices.of((None, *self.few.streams))

    def on_host(self) -> Sequence[Step]:
        """A launch on slices of the array on the host, seldom with a Buffer, or on another device,
        too."""
        starts, lengths = (0, 3, 4, 24, 150), (130, 20)
        slices = [Slice(self.choices.of(starts), self.choices.of(lengths)) for _ in "123"]
        which = self.choices.below(8)
        if which < 3:
            return [self.launch([*slices[:which], self.buffer(), *slices[which + 1 :]])]
        launch = self.kept(self.launch(slices))
        other = replace(launch, device="other", stream=None)
        return self.choices.of(([launch], [launch, other], [other, launch]))

    def launch(self, arrays: Sequence[Buffer | Slice]) -> Launch:
        choices = self.choices
        lengths = [array.size for array in arrays if isinstance(array, Slice)]
        n = Number(min(*lengths, choices.of(self.few.sizes), SIZE))
        # Programs of one grid run in no order, and arrays that overlap need one.
        width = 256 if lengths else choices.of(_WIDTHS)
        number, stream = Number(choices.of(self.few.numbers)), self.stream()
        options = choices.of(self.few.options)
        x, y, out = arrays
        block = ("B", width)
        count = -(-SIZE // width)
        spelled = f"lambda named: iris.cdiv({SIZE}, named['B'])"
        grid = choices.of((count, count, (count,), (count, 1), spelled, (count, 0), count, count))
        by_name = choices.of((0, 0, 0, 2, 3, 4))

        def of(
            kernel: str, *given: Argument, grid: Any = grid, constants: Any = (block,)
        ) -> Launch:
            named = min(by_name, len(given))
            return Launch(kernel, given, grid, constants, options, stream, named=named)

        if choices.below(10) == 9 and not lengths:
            if choices.flag():
                return of("tally", Buffer("counts"), n)
            wide = [Number(value) for value in choices.of(_WIDE)]
            return of("numbers", Buffer("wide"), *wide, grid=1, constants=())
        match choices.of(self.few.kernels):
            case "shift" if width == 64 and number == Number(2.5):  # as parameters are if left out
                return of("shift", x, out, n, grid=count, constants=())
            case "shift":
                return of("shift", x, out, n, number)
            case "add":
                return of("add", x, y, out, n)
            case "reverse":
                return of("reverse", x, out, n, grid=1, constants=(("B", 256),))
            case "reload":
                return of("reload", n, x, out, y)
            case "scale":
                factor = choices.of(self.few.factors)
                return of("scale", x, out, n, constants=(("C", factor), block))
            case "blocks" if isinstance(x, Slice) and isinstance(out, Slice):
                columns = choices.of((8, 5, 10))
                in_rows = [
                    replace(s, size=columns * (1 + choices.below(12)), columns=columns)
                    for s in (x, out)
                ]
                return of("blocks", *in_rows, Number(columns), number, grid=1, constants=())
            case "spaced" if isinstance(x, Slice) and isinstance(out, Slice):
                step = choices.of((3, 2))
                apart = [replace(s, size=-(-s.size // step), step=step) for s in (x, out)]
                n = Number(min(s.size for s in apart))
                return of("spaced", *apart, n, Number(step), grid=1, constants=(("B", 128),))
            case "convert" if not lengths:
                both = (x, Buffer("halves"))
                return of("convert", *(both if choices.flag() else both[::-1]), n)
            case "corners" if not lengths:
                rows, planes = 1 + choices.below(3), 1 + choices.below(3)
                constants = (("ROWS", rows), ("PLANES", planes))
                spelled = "lambda named: (4, named['ROWS'], named['PLANES'])"
                grid = choices.of(((4, rows, planes), spelled))
                return of("corners", number, out, grid=grid, constants=constants)
            case _:
                return of("window", x, number, out, grid=1, constants=())

    def kept(self, launch: Launch) -> Launch:
        """The launch, at times of a kernel from a file that was compiled for other arguments."""
        is_whole = len(launch.arguments) == len(TRIED[launch.kernel].kernel.function.variables)
        if isinstance(launch.grid, str) or not is_whole or not self.choices.flag(5):
            return launch
        compiled_for = tuple([self.changed(one) for one in launch.arguments])
        if self.choices.flag():  # Buffers that share no memory
            others = iter("abcdef")
            compiled_for = tuple(
                [Buffer(next(others)) if one in self.few.buffers else one for one in compiled_for]
            )
        return steps.FromFile(**vars(launch), compiled_for=compiled_for)

    def changed(self, argument: Argument) -> Argument:
        """What a kernel may be compiled for, and be given this: mostly the same."""
        choices = self.choices
        if not choices.flag(3):
            return argument
        if isinstance(argument, Buffer) and argument in self.few.buffers:
            return self.buffer()
        if isinstance(argument, Slice):
            return replace(argument, start=choices.of((0, 3, 4, 24)))
        if isinstance(argument, Number) and type(argument.number) is int:
            return Number(choices.of((*self.few.sizes, 1)))
        return argument

    def tuned(self) -> Launch:
        """A launch of the fastest of some configurations."""
        n = Number(self.choices.of(self.few.sizes))
        given = (self.buffer(), self.buffer(), Buffer("counts"), n)
        grid = f"lambda named: iris.cdiv({SIZE}, named['B'])"
        constants = (("TELLS", self.choices.flag()),)
        return Launch("tuned", given, grid, constants, stream=self.stream())

    def returned(self) -> Returned:
        choices, buffer = self.choices, self.buffer()
        if choices.flag():
            return Returned("weigh", buffer, choices.of(_WEIGHTS))
        return Returned("plus", buffer, choices.of(self.few.constants))

    def show(self) -> Launch:
        """A launch that prints, also its stream and its step."""
        stream = self.stream()
        numbers = Number(-1 if stream is None else stream), Number(self.number)
        return Launch("show", (Buffer("counts"), *numbers), 1, stream=stream)

    def wrong(self) -> Refused:
        """A launch on what lies in memory otherwise than the kernel takes it, or is too wide."""
        choices = self.choices
        rows, columns = choices.of((2, 12, 5)), choices.of((8, 5, 10))
        start = choices.of((0, 4))
        x = f"h[{start}:{start + rows * columns}]"
        turned = f"{x}.reshape({rows}, {columns}).T"
        several = (f"iris.strided({turned})", turned, f"iris.strided({turned})", f"{x}[::-1]")
        x = choices.of((*several, f"iris.strided({x}[::-1])", f"{x}.astype(np.float64)"))
        out = self.buffer().text
        return Refused(f"blocks[1]({x}, {out}, {columns}, 0.5, device=device)")

    def strays(self) -> Sequence[Step]:
        """A launch that fails with all that is sent off with it.  At times others are on their way,
        and hand on what they make to the stream that fails, and to other streams."""
        choices = self.choices
        stream, other, third = choices.of(((0, 1, 2), (1, 0, 2), (0, 2, 1)))
        stray = steps.Stray(self.buffer(), stream, other)
        if choices.flag():
            return [stray]
        x, y, z = (self.buffer() for _ in "123")

        def handed(given: Buffer, out: Buffer, stream: int) -> Launch:
            return Launch("shift", (given, out, Number(SIZE)), 3, stream=stream)

        made = [steps.Prepare(handed(x, x, third)), steps.Again(45)]
        then = [handed(x, y, stream), handed(y, z, other), steps.Read(stray.buffer)]
        return [*made, stray, *then]

    def refuse(self, out: Argument | None = None) -> Launch:
        """A launch that fails, on an array of the host now and then.  What it reads stays."""
        if out is None:
            out = Slice(0, SIZE) if self.choices.flag(4) else self.buffer()
        given = (self.buffer(), out, Number(self.number))
        return Launch("refuse", given, 64, stream=self.stream(), number=self.number)
