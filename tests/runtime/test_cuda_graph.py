"""What the driver is told of a recording, by a driver that notes it: no GPU is needed."""

from __future__ import annotations

import ctypes
import struct
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("cuda.bindings.driver")

from cuda.bindings import driver

from iris.runtime.cuda import cuda_graph
from iris.runtime.cuda.cuda_streams import Launch, parameters_of


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
