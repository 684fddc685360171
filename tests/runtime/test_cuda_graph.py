"""What the driver is told of a recording, by a driver that notes it: no GPU is needed."""

from __future__ import annotations

import ctypes
import random
import struct
import weakref
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("cuda.bindings.driver")

from cuda.bindings import driver

from iris.errors import DeviceError
from iris.ir.types import i32
from iris.runtime.cuda import cuda_graph
from iris.runtime.cuda.cuda_graph import GraphTemplate
from iris.runtime.cuda.cuda_streams import Launch, parameters_of
from iris.runtime.device import ArrayArgument, LaunchTemplate, RecordedLaunch


class Driver:
    """Graphs as lists of kernels: what they were told when they were told it."""

    CUDA_KERNEL_NODE_PARAMS = driver.CUDA_KERNEL_NODE_PARAMS

    def __init__(self) -> None:
        self.nodes: list[tuple[list[int], tuple[Any, ...]]] = []
        self.launchable: list[tuple[Any, ...]] = []
        self.destroyed: list[str] = []

    def cuGraphCreate(self, flags: int) -> tuple[int, str]:
        return flags, "graph"

    def cuGraphAddKernelNode(
        self, graph: str, before: list[int], count: int, told: Any
    ) -> tuple[int, int]:
        assert (graph, len(before)) == ("graph", count)
        self.nodes.append((before, _read(told)))
        return 0, len(self.nodes) - 1

    def cuGraphInstantiate(self, graph: str, flags: int) -> tuple[int, str]:
        self.launchable = [node for _, node in self.nodes]
        return flags, f"launchable {graph}"

    def cuGraphExecKernelNodeSetParams(self, launchable: str, node: int, told: Any) -> tuple[int]:
        assert launchable == "launchable graph"
        self.launchable[node] = _read(told)
        return (0,)

    def cuGraphDestroy(self, graph: str) -> tuple[int]:
        self.destroyed.append(graph)
        return (0,)

    cuGraphExecDestroy = cuGraphDestroy


def _read(told: Any) -> tuple[Any, ...]:
    """A kernel with a pointer, four bytes of constants, and the grid."""
    addresses = (ctypes.c_void_p * 3).from_address(told.kernelParams)
    values = [ctypes.string_at(addresses[i] or 0, size) for i, size in enumerate((8, 4, 12))]
    grid = told.gridDimX, told.gridDimY, told.gridDimZ
    block = told.blockDimX, told.blockDimY, told.blockDimZ
    return int(told.func), grid, block, told.sharedMemBytes, values


def launch(function: int, x: int, constant: bytes) -> Launch:
    held, address = parameters_of([x], constant, [], (2, 3, 1))
    source = SimpleNamespace(threads=64, threadgroup_bytes=48)
    kernel: Any = SimpleNamespace(source=source, state=driver.CUfunction(function))
    return Launch(kernel, (2, 3, 1), (6, 1, 1), (), held, address, (), (), (), None)


def test_parameters_come_as_the_text_declares_them() -> None:
    def values(held: Any, *sizes: int) -> list[bytes]:
        table = (ctypes.c_uint64 * len(sizes)).from_buffer(held)
        start, end = ctypes.addressof(held), ctypes.addressof(held) + ctypes.sizeof(held)
        assert all(start <= at and at + size <= end for at, size in zip(table, sizes, strict=True))
        return [ctypes.string_at(at, size) for at, size in zip(table, sizes, strict=True)]

    x, y, report = (number.to_bytes(8, "little") for number in (1 << 40, 5, 1 << 63))
    grid = struct.pack("<III", 2, 3, 1)
    held, address = parameters_of([1 << 40, 5], b"16 bytes of them", [1 << 63], (2, 3, 1))
    assert address == ctypes.addressof(held)
    assert values(held, 8, 8, 16, 8, 12) == [x, y, b"16 bytes of them", report, grid]
    assert values(parameters_of([5], b"", [], (2, 3, 1))[0], 8, 12) == [y, grid]


def test_what_a_graph_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Driver()
    monkeypatch.setattr(cuda_graph, "cuda", told)
    graph = cuda_graph.Graph([launch(7, 1 << 40, b"abcd"), launch(8, 5, b"efgh")])

    def node(function: int, x: int, constant: bytes) -> tuple[Any, ...]:
        grid = struct.pack("<III", 2, 3, 1)
        return function, (6, 1, 1), (64, 1, 1), 48, [x.to_bytes(8, "little"), constant, grid]

    first, second = node(7, 1 << 40, b"abcd"), node(8, 5, b"efgh")
    assert told.nodes == [([], first), ([0], second)]
    graph.change(1, launch(9, 6, b"ijkl"))
    assert told.launchable == [first, node(9, 6, b"ijkl")]
    assert told.destroyed == []
    del graph
    assert told.destroyed == ["launchable graph", "graph"]


# Functions of several kernels, each of which adds what its constants say to its array: y = x + c.

WORDS = 8


class Memory:
    """Words at an address, as `Block` and its `Memory` at once."""

    made = 0
    home = failure = None

    def __init__(self, words: list[int] | None = None):
        Memory.made += 1
        self.buffer = SimpleNamespace(pointer=Memory.made << 12)
        self.words = [0] * WORDS if words is None else words

    @property
    def block(self) -> Memory:
        return self


def kernel(number: int, add: int) -> RecordedLaunch:
    """Reads the memory `number`, and writes the next one."""
    code = SimpleNamespace(
        name=f"add_{add}",
        arrays=(0, 1),
        written=(1,),
        state=driver.CUfunction(add),
        source=SimpleNamespace(threads=64, threadgroup_bytes=48, report_buffer=None),
        constants=lambda arguments: add.to_bytes(4, "little"),
    )
    arguments = [ArrayArgument(n, 0, i32, (WORDS,)) for n in (number, number + 1)]
    return RecordedLaunch(SimpleNamespace(code=code, entry=None), (2, 3, 1), arguments)


def bound(program: Any, grid: Any, arguments: Any) -> Launch:
    pointers = [one.memory.buffer.pointer + one.offset for one in arguments]
    constants = program.code.constants(arguments)
    held, table = parameters_of(pointers, constants, [], grid)
    blocks = tuple([one.memory for one in arguments])
    return Launch(
        program.code, grid, (6, 1, 1), tuple(arguments), held, table, blocks, blocks[1:], (), None
    )


class Machine:
    """A device of one stream: it has memory by its address, and does what a driver has noted."""

    def __init__(self, told: Driver, memories: list[Memory]):
        self.told = told
        self.tell = None
        self.context = nullcontext()
        self.at = {one.buffer.pointer: one for one in memories}
        self.ran: list[Any] = []

    def launch(self, program: Any, grid: Any, arguments: Any, stream: Any = None) -> None:
        self.ran.append(program.code.name)
        add = int.from_bytes(program.code.constants(arguments), "little")
        x, y = arguments
        self._add(x.memory.buffer.pointer + x.offset, y.memory.buffer.pointer + y.offset, add)

    def run(self, work: Any) -> None:
        """What a stream is given: the graph, as it is now."""
        self.ran.append(work)
        for _, _, _, _, (x, constant, y) in self.told.launchable:
            numbers = [int.from_bytes(word, "little") for word in (x, y, constant)]
            self._add(*numbers)

    def _add(self, x: int, y: int, add: int) -> None:
        (source, start), (target, end) = [(self.at[n & ~0xFFF], n % 0x1000 // 4) for n in (x, y)]
        target.words[end] = source.words[start] + add


class Additions(Driver):
    """Graphs of kernels with two pointers."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[int] = []
        self.fails_in = -1  # as many changes

    def cuGraphExecKernelNodeSetParams(self, launchable: str, node: int, told: Any) -> tuple[int]:
        if self.fails_in == 0:
            raise DeviceError("refused")
        self.fails_in -= 1
        self.changes.append(node)
        return super().cuGraphExecKernelNodeSetParams(launchable, node, told)


def read(told: Any) -> tuple[Any, ...]:
    addresses = (ctypes.c_void_p * 4).from_address(told.kernelParams)
    x, y, constant = (ctypes.string_at(addresses[i] or 0, size) for i, size in enumerate((8, 8, 4)))
    return int(told.func), None, None, None, (x, constant, y)


@pytest.fixture
def additions(monkeypatch: pytest.MonkeyPatch) -> Additions:
    told = Additions()
    monkeypatch.setattr(cuda_graph, "cuda", told)
    monkeypatch.setitem(globals(), "_read", read)
    return told


def template_on(machine: Machine, count: int = 4) -> GraphTemplate:
    made: Any = machine
    launches = [kernel(n, 10**n) for n in range(count)]
    return GraphTemplate(made, launches, made, bound, made)


def test_a_function_of_several_kernels_is_one_graph(additions: Additions) -> None:
    memories = [Memory() for _ in range(7)]
    machine = Machine(additions, memories)
    template = template_on(machine)
    places = [(one, 4 * n) for n, one in enumerate(memories[:5])]
    for start in (5, 6):  # nothing has to be told again
        memories[0].words[0] = start
        template.run(places)
        assert memories[4].words[4] == start + 1111
        assert additions.changes == []
    places[2] = memories[5], 8  # which the second kernel writes and the third one reads
    template.run(places)
    assert (memories[5].words[2], memories[4].words[4]) == (17, 1117)
    assert additions.changes == [1, 2]
    places[0] = memories[6], 0
    template.run(places)
    assert (additions.changes, memories[4].words[4]) == ([1, 2, 0], 1111)
    work = machine.ran[-1]
    assert [one.name for one in work.kernels] == ["add_1", "add_10", "add_100", "add_1000"]
    assert set(work.blocks) == {memory for memory, _ in places}
    assert set(work.written) == {memory for memory, _ in places[1:]}
    machine.tell = lambda timing: None  # type: ignore[assignment]
    template.run(places)
    assert machine.ran[-4:] == ["add_1", "add_10", "add_100", "add_1000"]  # each is timed


def test_it_does_what_launches_do_after_errors_too(additions: Additions) -> None:
    """With memories that come again, and what the driver refuses half way."""
    choose = random.Random(1)
    memories = [Memory() for _ in range(10)]
    machine = Machine(additions, memories)
    template = template_on(machine)
    plain = LaunchTemplate(machine, template.launches)  # type: ignore[arg-type]
    failed = 0
    for _ in range(400):
        places = [(memories[2 * n + choose.randrange(2)], 4 * n) for n in range(5)]
        for memory in memories:
            memory.words = [choose.randrange(100) for _ in range(WORDS)]
        before = [list(memory.words) for memory in memories]
        additions.fails_in = choose.choice([-1, -1, 0, 1, 2, 3])
        try:
            template.run(places)
        except DeviceError:
            failed += 1
            assert [memory.words for memory in memories] == before
            continue
        found = [list(memory.words) for memory in memories]
        for memory, words in zip(memories, before, strict=True):
            memory.words = words
        plain.run(places)
        assert [memory.words for memory in memories] == found
    assert 50 < failed < 350


def test_memory_of_a_run_does_not_live_on(additions: Additions) -> None:
    memories = [Memory() for _ in range(5)]
    machine = Machine(additions, memories)
    template = template_on(machine)
    alive = [weakref.ref(memory) for memory in memories]
    template.run([(memory, 0) for memory in memories])
    machine.ran.clear()
    machine.at.clear()
    del memories
    assert [one() for one in alive] == [None] * 5
    assert template.launches
