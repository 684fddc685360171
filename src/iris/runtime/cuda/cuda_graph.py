"""Launches as a CUDA graph, which the GPU starts by itself: a recording, or the kernels of a
function of arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from cuda.bindings import driver as cuda

from iris.runtime.compiled_kernel import MemoryNumbers
from iris.runtime.cuda.cuda_streams import Launch, Launches, Stream, Streams, parameters_of
from iris.runtime.cuda.driver import call
from iris.runtime.device import Device, LaunchTemplate, Place, RecordedLaunch, Replay
from iris.runtime.finalizers import until_shutdown


class Graph:
    """Kernels that run one after the other, as in a stream."""

    def __init__(self, launches: Sequence[Launch]):
        # Of the driver that made it.
        self._destroy = cuda.cuGraphDestroy, cuda.cuGraphExecDestroy
        self._graph = call(cuda.cuGraphCreate, 0)
        self._nodes: list[Any] = []
        for launch in launches:
            before = self._nodes[-1:]
            node = call(
                cuda.cuGraphAddKernelNode, self._graph, before, len(before), node_of(launch)
            )
            self._nodes.append(node)
        self.launchable = call(cuda.cuGraphInstantiate, self._graph, 0)

    def change(self, number: int, launch: Launch) -> None:
        """Give a kernel other arguments, from the next run on: the driver copies them."""
        node = self._nodes[number]
        call(cuda.cuGraphExecKernelNodeSetParams, self.launchable, node, node_of(launch))

    @until_shutdown
    def __del__(self) -> None:
        graph, launchable = self._destroy
        if hasattr(self, "launchable"):
            launchable(self.launchable)
        if hasattr(self, "_graph"):
            graph(self._graph)


def node_of(launch: Launch) -> Any:
    """A launch, as a graph is told of it."""
    source, told = launch.kernel.source, cuda.CUDA_KERNEL_NODE_PARAMS()
    told.func = launch.kernel.state
    told.gridDimX, told.gridDimY, told.gridDimZ = launch.blocks_along
    told.blockDimX, told.blockDimY, told.blockDimZ = source.threads, 1, 1
    told.sharedMemBytes = source.threadgroup_bytes
    told.kernelParams = launch.table
    return told


class GraphReplay(Replay):
    """Launches that the driver has as a graph."""

    def __init__(
        self,
        streams: Streams,
        bind: Callable[..., Launch],
        launches: Sequence[RecordedLaunch],
        stream: Stream | None,
        usual: Stream,
    ):
        self._streams = streams
        self._bind = bind  # a recorded launch
        self._launches = [bind(*launch) for launch in launches]
        self._graph = Graph(self._launches)
        self._together = self._all()
        self._stream = stream or next(iter(self._together.homes), usual)

    def run(self) -> None:
        if self._streams.tell is None:
            self._stream.run(self._together)
            return
        for launch in self._launches:  # each is timed
            self._stream.run(launch)

    def change(self, number: int, launch: RecordedLaunch) -> None:
        new = self._bind(*launch)
        with self._streams.context:
            self._graph.change(number, new)
        self._launches[number] = new
        self._together = self._all()

    def _all(self) -> Launches:
        launches = tuple(self._launches)
        return Launches(
            self._graph.launchable,
            tuple({launch.kernel.name: launch.kernel for launch in launches}.values()),
            (self._graph, launches),
            frozenset().union(*[launch.blocks for launch in launches]),
            frozenset().union(*[launch.written for launch in launches]),
            tuple(dict.fromkeys([home for launch in launches for home in launch.homes])),
        )


class GraphTemplate(LaunchTemplate):
    """Launches that the driver has as a graph.  A kernel is told anew where its memory is, when it
    is elsewhere than in the run before."""

    def __init__(
        self,
        device: Device,
        launches: Sequence[RecordedLaunch],
        streams: Streams,
        bind: Callable[..., Launch],
        usual: Stream,
    ):
        super().__init__(device, launches)
        self._streams = streams
        self._bind = bind  # a recorded launch
        self._usual = usual
        self._lock = threading.Lock()  # from what is told to the launch of it
        self._graph: Graph | None = None  # once they have run
        self._launches: list[Launch] = []
        self._pointers: list[int] = []  # that all kernels were told
        self._numbers = MemoryNumbers.of(launches)
        kernels = [launch.program.code for launch in launches]
        self._kernels = tuple({kernel.name: kernel for kernel in kernels}.values())

    def run(self, places: Sequence[Place], stream: Stream | None = None) -> None:
        if self._streams.tell is not None:  # each is timed
            super().run(places, stream)
            return
        with self._lock:
            with self._streams.context:
                graph = self._told(places)
            (stream or self._usual).run(self._on(graph, places))

    def _told(self, places: Sequence[Place]) -> Graph:
        """The graph, with kernels that know where their memory is."""
        pointers = [memory.block.buffer.pointer + offset for memory, offset in places]
        if self._graph is None:
            bound = [self._bind(*launch) for launch in self.on(places)]
            # The memory of the first run must not live on.
            self._launches = [
                one._replace(arguments=(), blocks=(), written=(), homes=()) for one in bound
            ]
            self._graph = Graph(self._launches)
            self._pointers = pointers
        elif pointers != self._pointers:
            # None is known while they change, which may end half way.
            before, self._pointers = self._pointers, []
            moved = {n for n, pointer in enumerate(pointers) if before[n : n + 1] != [pointer]}
            for number, own in enumerate(self._numbers.of_launches):
                if not moved.isdisjoint(own):
                    self._move(self._graph, number, [pointers[n] for n in own])
            self._pointers = pointers
        return self._graph

    def _move(self, graph: Graph, number: int, pointers: Sequence[int]) -> None:
        """Tell a kernel where its memory is."""
        launch = self._launches[number]
        constants = launch.kernel.constants(self.launches[number].arguments)
        parameters, table = parameters_of(pointers, constants, (), launch.grid)
        self._launches[number] = launch._replace(parameters=parameters, table=table)
        graph.change(number, self._launches[number])

    def _on(self, graph: Graph, places: Sequence[Place]) -> Launches:
        blocks = [places[n][0].block for n in self._numbers.used]
        return Launches(
            graph.launchable,
            self._kernels,
            (graph, tuple(places)),
            blocks,
            [places[n][0].block for n in self._numbers.written],
            tuple(dict.fromkeys([block.home for block in blocks if block.home is not None])),
        )
