"""A recording as commands that Metal keeps: an indirect command buffer.

A command has a pipeline, buffers, a grid, and maybe a barrier before it; it is encoded once.  The
constants of all launches are in a buffer of their own, for a command has no bytes.  What runs the
commands says which resources they use, for Metal looks into none of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from iris.ir.types import u8
from iris.runtime.device import ArrayArgument, RecordedLaunch, Replay
from iris.runtime.interrupts import HoldBack
from iris.runtime.memory import Memory, barriers_among, view
from iris.runtime.messages import Range, made
from iris.runtime.objc import Object, Pointer
from iris.runtime.queue import Commands, Launch, Stream, Streams

# As many commands run at a time. [executeCommandsInBuffer:withRange:]
MOST_COMMANDS = 1 << 14
# Where the constants of a launch may start. [Metal Feature Set Tables]
_ALIGNMENT = 256


class Maker(NamedTuple):
    """What a device does for its recordings."""

    streams: Streams
    bind: Callable[..., Launch]  # a recorded launch
    start: Callable[[Launch | Commands, Stream], object]
    allocate: Callable[[int], Memory]
    new_commands: Callable[[int], Object]  # an indirect command buffer of as many
    meets_pipelines_first: bool  # or a GPU crashes at those that no encoder has used


class IndirectReplay(Replay):
    """Launches that are encoded once."""

    _launches: list[Launch]
    _barriers: list[bool]  # before each
    _buffer: Object
    _constants: Memory
    _offsets: list[int]  # of the constants of each
    _commands: Commands

    def __init__(self, maker: Maker, launches: Sequence[RecordedLaunch], stream: Stream):
        self._maker = maker
        self._stream = stream
        self._encode_all([maker.bind(*launch) for launch in launches])

    def run(self) -> None:
        if self._maker.streams.tell is None:
            self._maker.start(self._commands, self._stream)
            return
        for launch in self._launches:  # each is timed
            self._maker.start(launch, self._stream)

    def change(self, number: int, launch: RecordedLaunch) -> None:
        launches = [*self._launches]
        launches[number] = self._maker.bind(*launch)
        # The GPU may read the commands until then.
        for use in list(self._constants.block.used.values()):
            use.wait()
        if _room(launches[number]) != _room(self._launches[number]):
            self._encode_all(launches)
            return
        barriers = barriers_among(launches)
        pairs = enumerate(zip(self._barriers, barriers, strict=True))
        changed = [n for n, (old, new) in pairs if n == number or old != new]
        with self._maker.streams.runtime.pool():
            commands = [self._command(self._buffer, n) for n in changed]
            with HoldBack():  # from here on nothing fails
                self._launches, self._barriers = launches, barriers
                for n, command in zip(changed, commands, strict=True):
                    self._encode(command, n)
                self._commands = self._commands_now()

    def _encode_all(self, launches: list[Launch]) -> None:
        *offsets, size = itertools.accumulate(map(_room, launches), initial=0)
        constants = self._maker.allocate(size)
        with self._maker.streams.runtime.pool():
            buffer = self._maker.new_commands(len(launches))
            commands = [self._command(buffer, n) for n in range(len(launches))]
            with HoldBack():
                self._launches, self._barriers = launches, barriers_among(launches)
                self._buffer, self._constants, self._offsets = buffer, constants, offsets
                for n, command in enumerate(commands):
                    self._encode(command, n)
                self._commands = self._commands_now()

    def _command(self, buffer: Object, number: int) -> Object:
        streams = self._maker.streams
        return made(streams.messages.command(buffer, number), streams.device, "a command")

    def _encode(self, command: Object, number: int) -> None:
        send, launch = self._maker.streams.messages, self._launches[number]
        send.reset(command)
        if self._barriers[number]:
            send.set_barrier(command)
        send.set_pipeline(command, launch.pipeline.state)
        for index in range(launch.range.length):
            send.set_buffer(command, launch.buffers[index], launch.offsets[index], index)
        if launch.constants:
            start, size = self._offsets[number], len(launch.constants)
            kept = view(ArrayArgument(self._constants, start, u8, (size,)))
            kept[:] = np.frombuffer(launch.constants, np.uint8)
            own = launch.pipeline.source.constants_buffer
            send.set_buffer(command, self._constants.block.buffer, start, own)
        send.dispatch_command(command, launch.groups, launch.threads)

    def _commands_now(self) -> Commands:
        launches = tuple(self._launches)
        # The constants tell who runs the commands.
        own = frozenset([self._constants.block])
        blocks = own.union(*[launch.blocks for launch in launches])
        written = frozenset().union(*[launch.written for launch in launches])
        pipelines = dict.fromkeys([launch.pipeline for launch in launches])
        return Commands(
            self._buffer,
            Range(0, len(launches)),
            (Pointer * len(blocks))(*[block.buffer.pointer for block in blocks]),
            tuple(pipelines) if self._maker.meets_pipelines_first else (),
            launches,
            (self._constants,),
            blocks,
            written,
            sum([block.size for block in blocks]),
            frozenset().union(*[launch.waits for launch in launches]),
        )


def _room(launch: Launch) -> int:
    """The bytes that its constants take up."""
    return -(-len(launch.constants) // _ALIGNMENT) * _ALIGNMENT
