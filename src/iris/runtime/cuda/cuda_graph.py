"""A recording as a CUDA graph: the GPU starts all of its launches by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cuda.bindings import driver as cuda

from iris.runtime.cuda.cuda_streams import Launch, Launches, Stream, Streams
from iris.runtime.cuda.driver import call
from iris.runtime.device import RecordedLaunch, Replay


class Graph:
    """Kernels that run one after the other, as in a stream."""

    def __init__(self, launches: Sequence[Launch]):
        # The module may go before this.
        self._destroy = cuda.cuGraphDestroy, cuda.cuGraphExecDestroy
        self._graph = call(cuda.cuGraphCreate, 0)
        self._nodes: list[Any] = []
        for launch in launches:
            before = self._nodes[-1:]
            node = call(
                cuda.cuGraphAddKernelNode, self._graph, before, len(before), parameters_of(launch)
            )
            self._nodes.append(node)
        self.launchable = call(cuda.cuGraphInstantiate, self._graph, 0)

    def change(self, number: int, launch: Launch) -> None:
        """Give a kernel other arguments, from the next run on: the driver copies them."""
        node = self._nodes[number]
        call(cuda.cuGraphExecKernelNodeSetParams, self.launchable, node, parameters_of(launch))

    def __del__(self) -> None:
        graph, launchable = self._destroy
        if hasattr(self, "launchable"):
            launchable(self.launchable)
        if hasattr(self, "_graph"):
            graph(self._graph)


def parameters_of(launch: Launch) -> Any:
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
