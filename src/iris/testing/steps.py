"""Steps of a script: each is a line of Python, and what that does if all lines run in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iris.testing.in_order import NONE, Call, Cell, InOrder, Outcome, compare, failures_of
from iris.testing.launched import ARRAY_FUNCTIONS, FAR, ROWS, SIZE, STRAY, TRIED


class Argument:
    """What a kernel is given: as Python, and as what it is in order."""

    @property
    def text(self) -> str:
        raise NotImplementedError

    def value(self, order: InOrder) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Number(Argument):
    number: Any

    @property
    def text(self) -> str:
        return _written(self.number)

    def value(self, order: InOrder) -> Any:
        return self.number


@dataclass(frozen=True)
class Buffer(Argument):
    name: str

    @property
    def text(self) -> str:
        return self.name

    def value(self, order: InOrder) -> Cell:
        return order.cells[self.name]


@dataclass(frozen=True)
class Slice(Argument):
    """Elements of the array on the host, in rows if there are `columns`, with gaps between them if
    there is a `step`."""

    start: int
    size: int
    columns: int = 0
    step: int = 1

    @property
    def stop(self) -> int:
        return self.start + (self.size - 1) * self.step + 1

    @property
    def text(self) -> str:
        if self.step > 1:
            return f"iris.strided(h[{self.start}:{self.stop}:{self.step}])"
        rows = f".reshape(-1, {self.columns})" if self.columns else ""
        return f"h[{self.start}:{self.stop}]{rows}"

    def value(self, order: InOrder) -> Any:
        found = order.host[self.start : self.stop : self.step]
        return found.reshape(-1, self.columns) if self.columns else found


@dataclass(frozen=True)
class Returned(Argument):
    """What a function of arrays returns."""

    function: str
    buffer: Buffer
    number: Any

    @property
    def text(self) -> str:
        return f"{self.function}({self.buffer.text}, {_written(self.number)})"

    def value(self, order: InOrder) -> Cell:
        cell = self.buffer.value(order)
        return replace(cell, data=ARRAY_FUNCTIONS[self.function](cell.data, self.number))


def _written(number: Any) -> str:
    """A number of Python's or NumPy's, as Python."""
    if isinstance(number, np.generic):
        return f"np.{type(number).__name__}({number.item()!r})"
    return repr(number)


class Step:
    """A line of a script."""

    #: What lowers the kernel that the line has launched, as Python.
    lowered: str | None = None
    #: Whether the kernel runs as is fastest, where a device tells time.
    is_tuned: bool = False
    #: Whether it is for those devices alone that no launch harms which leaves its memory.
    leaves_memory: bool = False

    @property
    def line(self) -> str:
        raise NotImplementedError

    def expect(self, order: InOrder, outcome: Outcome) -> None:
        """Do in order what the line does, and check what came of it."""
        raise NotImplementedError

    def simpler(self) -> Iterator[Step]:
        """Steps to try in place of this one."""
        return iter(())


class Quiet(Step):
    """A step that shows nothing and raises nothing."""

    def expect(self, order: InOrder, outcome: Outcome) -> None:
        assert outcome.failure is None, "it raises the failure of a launch, which others ask for"
        self.change(order)

    def change(self, order: InOrder) -> None:
        """Do in order what the line does."""


@dataclass(frozen=True)
class Launch(Step):
    """`options` are those of the compiler; `number` is that of a launch that fails.  A grid is a
    size, a tuple of sizes, or Python source.  The last `named` arguments are passed by keyword."""

    kernel: str
    arguments: tuple[Argument, ...]
    grid: int | tuple[int, ...] | str
    constants: tuple[tuple[str, Any], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    stream: int | None = None
    device: str = "device"
    number: int | None = None
    named: int = 0

    @property
    def line(self) -> str:
        return f"{self.kernel}[{self.grid}]({self.given}{self.where})"

    @property
    def given(self) -> str:
        named = [f"{name}={_written(value)}" for name, value in (*self.constants, *self.options)]
        texts = [argument.text for argument in self.arguments]
        names = TRIED[self.kernel].kernel.function.names
        for name in names[len(texts) - self.named : len(texts)][::-1]:
            named.append(f"{name}={texts.pop()}")
        return ", ".join([*texts, *named])

    @property
    def where(self) -> str:
        stream = "" if self.stream is None else f", stream=streams[{self.stream}]"
        return f", device={self.device}{stream}"

    @property
    def is_tuned(self) -> bool:  # type: ignore[override]
        constants = TRIED[self.kernel].kernel.function.constants
        return not {*constants} <= {name for name, _ in self.constants}

    @property
    def lowered(self) -> str | None:  # type: ignore[override]
        is_plain = not any(isinstance(argument, Returned) for argument in self.arguments)
        if self.device != Launch.device or not is_plain:
            return None
        # Which Buffers of a kind they are makes no difference: so there are fewer texts.
        names: dict[str, str] = {}
        given = re.sub(
            r"\b[a-f]\b",
            lambda m: names.setdefault(m[0], "abcdef"[len(names)]),
            replace(self, named=0).given,
        )
        return f"{self.kernel}.lower({given}, grid={self.grid}, device=device)"

    def call(self, order: InOrder) -> Call:
        values = [argument.value(order) for argument in self.arguments]
        own = NONE if self.number is None else frozenset([self.number])
        is_empty = isinstance(self.grid, tuple) and 0 in self.grid
        return Call(TRIED[self.kernel], values, dict(self.constants), own, is_empty)

    def expect(self, order: InOrder, outcome: Outcome) -> None:
        order.launch(self.call(order), outcome.failure)

    def simpler(self) -> Iterator[Step]:
        if self.options:
            yield replace(self, options=())
        if self.named:
            yield replace(self, named=0)
        if self.stream is not None:
            yield replace(self, stream=None)


@dataclass(frozen=True)
class FromFile(Launch):
    """A launch of a kernel from a file, which was compiled for some arguments; of the kernel itself
    if it is not for these."""

    compiled_for: tuple[Argument, ...] = ()
    lowered = None

    @property
    def line(self) -> str:
        usual = super().line
        lower = replace(self, arguments=self.compiled_for, named=0).given
        given = replace(self, constants=(), options=()).given
        return (
            f"from_file({self.device}, "
            f"{self.kernel}.lower({lower}, grid={self.grid}, device={self.device}), "
            f"lambda kernel: kernel[{self.grid}]({given}{self.where}), "
            f"lambda: {usual}, {self.compiled_for == self.arguments})"
        )

    def simpler(self) -> Iterator[Step]:
        yield from super().simpler()
        for at, (own, other) in enumerate(zip(self.arguments, self.compiled_for, strict=True)):
            if own != other:
                alike = (*self.compiled_for[:at], own, *self.compiled_for[at + 1 :])
                yield replace(self, compiled_for=alike)


@dataclass(frozen=True)
class Refused(Quiet):
    """A launch on arrays that no kernel takes, or not this one: it says so, and does nothing."""

    launch: str

    @property
    def line(self) -> str:
        return f"refused(lambda: {self.launch})"


@dataclass(frozen=True)
class Stray(Step):
    """A launch that leaves its memory, which is what it fails of: on its own, and another stream
    waits for it."""

    buffer: Buffer
    stream: int
    other: int
    leaves_memory = True

    @property
    def line(self) -> str:
        x, where = self.buffer.text, "device=device, stream=streams[{}]"
        stray = f"stray[1]({x}, FAR, {where.format(self.stream)})"
        reading = f"shift[3]({x}, iris.empty_like({x}), {SIZE}, {where.format(self.other)})"
        return f"astray(lambda: {stray}, lambda: {reading}, streams[{self.stream}])"

    def expect(self, order: InOrder, outcome: Outcome) -> None:
        own = frozenset([STRAY])
        arguments = [self.buffer.value(order), FAR]
        order.launch(Call(TRIED["stray"], arguments, {}, own), outcome.failure)
        # Who waits for it may have been told.
        order.untold -= own
        order.unsure |= own


@dataclass(frozen=True)
class Prepare(Quiet):
    """A launch to be run later, maybe as a recording."""

    launch: Launch
    is_recorded: bool = False

    @property
    def line(self) -> str:
        one = self.launch
        if self.is_recorded:
            stream = None if one.stream is None else f"streams[{one.stream}]"
            return f"prepared = recorded(lambda: {replace(one, stream=None).line}, {stream})"
        return f"prepared = {one.kernel}.prepare({one.given}, grid={one.grid}{one.where})"

    def change(self, order: InOrder) -> None:
        order.prepared = self.launch.call(order)
        order.is_recorded = self.is_recorded

    def simpler(self) -> Iterator[Step]:
        if self.is_recorded:
            yield Prepare(self.launch)


@dataclass(frozen=True)
class Update(Quiet):
    """Give the recorded launch of a kernel, if there is one, another argument of the same form."""

    kernel: str
    position: int
    argument: Argument

    @property
    def line(self) -> str:
        name = TRIED[self.kernel].kernel.function.names[self.position]
        return f'update(prepared, "{self.kernel}", {name}={self.argument.text})'

    def change(self, order: InOrder) -> None:
        call = order.prepared
        if call is not None and order.is_recorded and call.kernel is TRIED[self.kernel]:
            values = [*call.arguments]
            values[self.position] = self.argument.value(order)
            order.prepared = call._replace(arguments=values)


@dataclass(frozen=True)
class Again(Step):
    """Run the prepared launch, if there is one."""

    times: int

    @property
    def line(self) -> str:
        return "prepared()" if self.times == 1 else f"for _ in range({self.times}): prepared()"

    def expect(self, order: InOrder, outcome: Outcome) -> None:
        if order.prepared is not None:
            order.launch(order.prepared, outcome.failure, self.times)

    def simpler(self) -> Iterator[Step]:
        if self.times > 1:
            yield Again(1)


@dataclass(frozen=True)
class Spread(Step):
    """Many streams read a Buffer."""

    buffer: Buffer

    @property
    def line(self) -> str:
        launch = f"shift[3]({self.buffer.text}, row, {SIZE}, 1.0, B=64, stream=stream)"
        return f"for stream, row in zip(streams, rows): {launch}"

    def expect(self, order: InOrder, outcome: Outcome) -> None:
        rows = [Buffer(f"rows[{number}]") for number in range(ROWS)]
        if outcome.failure is None:
            for row in rows:
                arguments = (self.buffer, row, Number(SIZE), Number(1.0))
                Launch("shift", arguments, 3, (("B", 64),)).expect(order, outcome)
            return
        written = [row.value(order) for row in rows]
        given = failures_of([self.buffer.value(order), *written])
        order.tell(outcome.failure, given)
        for cell in written:
            cell.fail(given, doubtful=True)


@dataclass(frozen=True)
class CopyIn(Quiet):
    """Write some elements of a Buffer, or all."""

    buffer: Buffer
    number: int
    start: int = 0
    size: int = SIZE

    @property
    def line(self) -> str:
        to = f"part({self.buffer.text}, {self.start}, {self.start + self.size})"
        return f"device.copy_in({to}, np.full({self.size}, {self.number}, np.float32))"

    def change(self, order: InOrder) -> None:
        cell = self.buffer.value(order)
        cell.data[self.start : self.start + self.size] = self.number
        if self.size == SIZE:
            cell.mend()


@dataclass(frozen=True)
class Fill(Step):
    """Write some elements of a Buffer where they are."""

    buffer: Buffer
    number: int
    start: int
    stop: int

    @property
    def line(self) -> str:
        return f"fill({self.buffer.text}, {self.start}, {self.stop}, {self.number})"

    def expect(self, order: InOrder, outcome: Outcome) -> None:
        cell = self.buffer.value(order)
        order.read(cell, outcome)
        if not cell.failures:
            cell.data[self.start : self.stop] = self.number


@dataclass(frozen=True)
class Renew(Quiet):
    """Put another Buffer in place of one that launches may still use."""

    buffer: Buffer
    number: int

    @property
    def line(self) -> str:
        array = f"np.full({SIZE}, {self.number}, np.float32)"
        return f"{self.buffer.text} = iris.asarray({array}, device=device)"

    def change(self, order: InOrder) -> None:
        order.cells[self.buffer.name] = Cell(np.full(SIZE, self.number, np.float32))


@dataclass(frozen=True)
class Read(Step):
    """Show a Buffer, by a function or method of it."""

    buffer: Buffer
    how: str = "{}.numpy()"

    @property
    def line(self) -> str:
        return f"print({self.how.format(self.buffer.text)})"

    def expect(self, order: InOrder, outcome: Outcome) -> None:
        order.read(self.buffer.value(order), outcome)

    def simpler(self) -> Iterator[Step]:
        if self.how != Read.how:
            yield Read(self.buffer)


@dataclass(frozen=True)
class Keep(Step):
    """Put what a function of arrays returns in place of a Buffer."""

    buffer: Buffer
    returned: Returned

    @property
    def line(self) -> str:
        return f"{self.buffer.text} = {self.returned.text}"

    def expect(self, order: InOrder, outcome: Outcome) -> None:
        given, made = self.returned.buffer.value(order), self.returned.value(order)
        if outcome.failure is not None:
            order.tell(outcome.failure, given.failures)
            return
        must_raise = given.surfaced and not given.doubtful
        assert not must_raise, "it raises no error, and had to"
        order.cells[self.buffer.name] = made


@dataclass(frozen=True)
class Peek(Step):
    """Show one element of a Buffer."""

    buffer: Buffer
    index: int

    @property
    def line(self) -> str:
        return f"print({self.buffer.text}.peek({self.index}))"

    def expect(self, order: InOrder, outcome: Outcome) -> None:
        cell = self.buffer.value(order)
        order.read(cell, outcome, cell.data[self.index : self.index + 1])


@dataclass(frozen=True)
class ReadHost(Quiet):
    """Show the array on the host."""

    @property
    def line(self) -> str:
        return "print(h)"

    def expect(self, order: InOrder, outcome: Outcome) -> None:
        super().expect(order, outcome)
        for shown in outcome.shown:
            compare(order.host, shown)


@dataclass(frozen=True)
class WaitFor(Step):
    """Wait for what uses a Buffer."""

    buffer: Buffer

    @property
    def line(self) -> str:
        return f"device.synchronize({self.buffer.text}.argument.memory)"

    def expect(self, order: InOrder, outcome: Outcome) -> None:
        order.read(self.buffer.value(order), outcome)


@dataclass(frozen=True)
class Wait(Quiet):
    """Wait for a stream."""

    stream: int

    @property
    def line(self) -> str:
        return f"wait(streams[{self.stream}])"


@dataclass(frozen=True)
class Synchronize(Step):
    """Wait for everything."""

    @property
    def line(self) -> str:
        return "device.synchronize()"

    def expect(self, order: InOrder, outcome: Outcome) -> None:
        order.synchronize(outcome.failure)
