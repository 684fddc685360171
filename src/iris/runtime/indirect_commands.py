"""A recording as commands that Metal keeps: an indirect command buffer.

A command has a pipeline, buffers, a grid, and maybe a barrier before it; it is encoded once.  The
constants of all launches are in a buffer of their own, for a command has no bytes.  What runs the
commands says which resources they use, for Metal looks into none of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np

from iris.ir.types import u8
from iris.runtime.device import ArrayArgument, RecordedLaunch, Replay
from iris.runtime.interrupts import HoldBack
from iris.runtime.memory import Block, Hazards, Memory, view
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
    allocate: Callable[[int], Memory]
    new_commands: Callable[[int], Object]  # an indirect command buffer of as many
    meets_pipelines_first: bool  # or a GPU crashes at those that no encoder has used


class IndirectReplay(Replay):
    """Launches that are encoded once."""

    def __init__(self, maker: Maker, launches: Sequence[RecordedLaunch], stream: Stream):
        self._maker = maker
        self._stream = stream
        self._launches = [maker.bind(*launch) for launch in launches]
        self._barriers: list[bool] = []  # before each
        self._encode_all()

    def run(self) -> None:
        if self._maker.streams.tell is None:
            self._stream.run(self._commands)
            return
        for launch in self._launches:  # each is timed
            self._stream.run(launch)

    def change(self, number: int, launch: RecordedLaunch) -> None:
        new = self._maker.bind(*launch)
        # The GPU may read the commands until then.
        for use in list(self._constants.block.used.values()):
            use.wait()
        room, before = _rounded(self._launches[number].constants), self._barriers
        self._launches[number] = new
        if _rounded(new.constants) != room:
            self._encode_all()
            return
        self._barriers = _barriers(self._launches)
        with self._maker.streams.runtime.pool(), HoldBack():
            for n, (old, barrier) in enumerate(zip(before, self._barriers, strict=True)):
                if n == number or old != barrier:
                    self._encode(n)
        self._commands = self._commands_now()

    def _encode_all(self) -> None:
        rooms = [_rounded(launch.constants) for launch in self._launches]
        *self._offsets, size = itertools.accumulate(rooms, initial=0)
        self._constants = self._maker.allocate(size)
        self._barriers = _barriers(self._launches)
        with self._maker.streams.runtime.pool():
            self._buffer = self._maker.new_commands(len(self._launches))
            for n in range(len(self._launches)):
                self._encode(n)
        self._commands = self._commands_now()

    def _encode(self, number: int) -> None:
        streams, launch = self._maker.streams, self._launches[number]
        send = streams.messages
        command = made(send.command(self._buffer, number), streams.device, "a command")
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
        read = blocks - written
        pipelines = dict.fromkeys([launch.pipeline for launch in launches])
        return Commands(
            self._buffer,
            Range(0, len(launches)),
            _pointers(read),
            len(read),
            _pointers(written),
            len(written),
            tuple(pipelines) if self._maker.meets_pipelines_first else (),
            launches,
            (self._constants,),
            blocks,
            written,
            sum([block.size for block in blocks]),
        )


def _rounded(constants: bytes) -> int:
    """The room for some constants."""
    return -(-len(constants) // _ALIGNMENT) * _ALIGNMENT


def _barriers(launches: Sequence[Launch]) -> list[bool]:
    """Which launches come after a barrier."""
    hazards, found = Hazards(), []
    for launch in launches:
        found.append(hazards.meet(launch.blocks, launch.written))
        if found[-1]:
            hazards.clear()
        hazards.add(launch.blocks, launch.written)
    return found


def _pointers(blocks: Collection[Block]) -> object:
    return (Pointer * len(blocks))(*[block.buffer.pointer for block in blocks])
