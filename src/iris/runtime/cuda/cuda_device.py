"""The device `cuda`: kernels as text in CUDA C++, on an NVIDIA GPU.

PYTHON        runtime/cuda/           NVIDIA's driver
kernel   ->   Cuda.compile       ->   CUmodule, CUfunction
Buffer   ->   Memory, Block      ->   memory of the GPU, which the host does not see
launch   ->   Launch, Stream     ->   CUstream
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from iris.codegen.languages.cuda import CUDA
from iris.codegen.source import Source
from iris.errors import DeviceError, OutOfResources
from iris.ir.control import Func
from iris.ir.types import i32
from iris.runtime import dlpack, reports
from iris.runtime.cache import Cache
from iris.runtime.compiled_kernel import (
    CompiledKernel,
    are_alike_each_time,
    compiled_kernel,
    locations_in,
)
from iris.runtime.device import (
    Array,
    ArrayArgument,
    Device,
    Grid,
    Held,
    LaunchTemplate,
    Lent,
    Program,
    RecordedLaunch,
    Replay,
    Timing,
    Usage,
    as_stored,
    stored,
)
from iris.runtime.foreign import library_of
from iris.runtime.memory import Block, Memory, Pool, usage, wait_for
from iris.runtime.recent import Recent
from iris.targets import nvidia

if TYPE_CHECKING:
    from iris.runtime.cuda.cuda_streams import Launch, Stream

#: How the compiler says a line of a text.
_LINE = re.compile(r"kernel\((\d+)\)")
# As many modules are kept for texts that come again.
_MOST_MODULES = 256
# What a block may have of a core's memory unless it is asked for. [CUDA C++ Programming Guide]
_PLAIN_SHARED_BYTES = 48 * 1024
# The first with products of bf16 matrices. [PTX ISA: mma]
_LEAST_CAPABILITY = 8
# By whether an array is aligned, and read-only.
_LENT = {facts: Lent(*facts) for facts in product((False, True), repeat=2)}
# Programs that the hardware numbers along y and z. [CUDA C++ Programming Guide]
_MOST_ALONG = 65535


class Cuda(Device):
    """An NVIDIA GPU."""

    name = "cuda"
    accepts = CUDA
    home: tuple[int, int]

    @classmethod
    def missing(cls) -> str | None:
        package = find_spec("cuda")
        is_package = package is not None and package.submodule_search_locations is not None
        if not is_package or find_spec("cuda.bindings") is None:  # a module has no parts to ask for
            return "install NVIDIA's bindings: pip install 'iris-metal[cuda]'"
        try:
            driver = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return "NVIDIA's driver is not on this machine"
        count = ctypes.c_int()
        found = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
        return None if found and count.value else "this machine has no NVIDIA GPU"

    @classmethod
    def count(cls) -> int:
        from cuda.bindings import driver

        from iris.runtime.cuda.driver import call

        return int(call(driver.cuDeviceGetCount))

    @classmethod
    def numbered(cls, number: int) -> Device:
        return cls(number)

    def __init__(self, number: int = 0) -> None:
        # Opened when the device is, for they take long.
        from cuda.bindings import driver

        from iris.runtime import sharing
        from iris.runtime.cuda import cuda_graph, cuda_streams, nvrtc
        from iris.runtime.cuda.driver import Allocation, Context, Fault, OutOfMemory, call

        self._driver, self._call = driver, call
        self._out_of_memory, self._fault = OutOfMemory, Fault
        self._streams, self._nvrtc, self._allocation = cuda_streams, nvrtc, Allocation
        self._graphs = cuda_graph
        self._sharing, self.home = sharing, (dlpack.GPU, number)
        if number:
            self.name = f"{self.name}:{number}"
        self._foreign: dict[int, Stream] = {}  # streams of others, by their handles
        call(driver.cuInit, 0)
        device = call(driver.cuDeviceGet, number)
        self._context = Context(device)
        self._label = call(driver.cuDeviceGetName, 256, device).split(b"\0")[0].decode()
        ask = driver.CUdevice_attribute
        major, minor, self._most_shared, cores, kilohertz, bits = (
            int(call(driver.cuDeviceGetAttribute, attribute, device))
            for attribute in (
                ask.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                ask.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                ask.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                ask.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                ask.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
                ask.CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
            )
        )
        # Memory moves its width twice in a cycle.
        self.target = nvidia.nearest(2 * kilohertz * bits / 8e6, cores)
        if major < _LEAST_CAPABILITY:
            raise DeviceError(
                f"{self._label} has the compute capability {major}.{minor}; {self.name} needs "
                f"{_LEAST_CAPABILITY}.0, for products of matrices"
            )
        self._architecture = f"sm_{major}{minor}"
        self._cache = Cache(f"{nvrtc.version()} {self._architecture}")
        self._modules: Recent[tuple[str, str, bool], Any] = Recent(_MOST_MODULES)
        self._pool = Pool(int(call(driver.cuDeviceTotalMem, device)) // 8)
        self.streams = cuda_streams.Streams(self._context)
        self._call = self.streams.call  # which names the kernels of a fault
        self._queue = self.new_stream()
        # Copies wait for nothing but what they copy.
        flag = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        with self._context:
            self._copying = call(driver.cuStreamCreate, flag)

    def describe(self) -> str:
        return f"{self._label}, {self._architecture}, {self._nvrtc.version()}"

    # Kernels.

    def compile(self, entry: Func, source: Source | None = None) -> Program:
        if source is None:
            raise DeviceError(f"{self.name} compiles text, and @{entry.symbol} came without any")
        with self._context:
            function = self._function(source, entry.fast_math)
            self._check_limits(source, function)
        return Program(entry, compiled_kernel(entry, source, function))

    def _function(self, source: Source, fast: bool) -> Any:
        driver, key = self._driver, (source.text, source.entry, fast)
        found = self._modules.get(key)
        if found is None:
            kept = self._cache.key(source.text, source.entry, str(fast))
            data = self._cache.get(kept)
            if data is None:
                data = self._compiled(source, fast)
                self._cache.put(kept, data)
            name, _, code = data.partition(b"\0")
            module = self._call(driver.cuModuleLoadData, code)
            found = self._call(driver.cuModuleGetFunction, module, name)
            self._modules.put(key, found)
        return found

    def _compiled(self, source: Source, fast: bool) -> bytes:
        """A kernel's name in what the compiler made, and that."""
        try:
            name, code = self._nvrtc.compiled(
                source.text, source.entry, self._architecture, fast=fast
            )
        except self._nvrtc.Refused as error:
            raise DeviceError(
                f"the kernel {source.entry} does not compile on {self.name}: {error.message}",
                locations=locations_in(source, error.message, _LINE),
            ) from None
        return name.encode() + b"\0" + code

    def _check_limits(self, source: Source, function: Any) -> None:
        ask = self._driver.CUfunction_attribute
        used = source.threadgroup_bytes
        if used > self._most_shared:
            raise OutOfResources(
                f"the kernel {source.entry} needs {used} bytes of threadgroup memory, and this GPU "
                f"has {self._most_shared}; use smaller tiles"
            )
        if used > _PLAIN_SHARED_BYTES:
            attribute = ask.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call(self._driver.cuFuncSetAttribute, function, attribute, used)

    # Memory.

    def allocate(self, size: int, *, persistent: bool = False) -> Memory:
        return self._pool.allocate(self.name, size, self._new_block, persistent=persistent)

    def _new_block(self, size: int) -> Block | None:
        try:
            return Block(self._allocation(self._context, size), None, size)
        except self._out_of_memory:
            return None
        except self._fault as fault:
            raise self.streams.explained(fault) from None

    def copy_in(self, to: ArrayArgument, array: Array) -> None:
        block = to.memory.block
        for use in list(block.used.values()):
            use.wait()
        driver, at = self._driver, block.buffer.pointer + to.offset
        host = np.empty(_span(to), np.uint8)
        view = _within(host, to)
        if view.nbytes != host.nbytes:
            self._copy(driver.cuMemcpyDtoHAsync, host.ctypes.data, at, host.nbytes)
        view[...] = as_stored(array)
        self._copy(driver.cuMemcpyHtoDAsync, at, host.ctypes.data, host.nbytes)
        if host.nbytes == view.nbytes == block.size:
            block.failure = None

    def copy_out(self, source: ArrayArgument, array: Array) -> None:
        block = source.memory.block
        wait_for(block, block.written)
        host = np.empty(_span(source), np.uint8)
        at = block.buffer.pointer + source.offset
        self._copy(self._driver.cuMemcpyDtoHAsync, host.ctypes.data, at, host.nbytes)
        as_stored(array)[...] = _within(host, source)

    def _copy(self, copy: Any, to: int, source: int, size: int) -> None:
        """Copy, and wait until that is done."""
        if size:
            with self._context:
                self._call(copy, to, source, size, self._copying)
                self._call(self._driver.cuStreamSynchronize, self._copying)

    # Other libraries' arrays.

    def order_with(self, library: str) -> Stream:
        return self._foreign_stream(self._sharing.current_stream(library, self.home[1]))

    def share(self, name: str, value: Any, order: Stream) -> tuple[ArrayArgument, Lent]:
        sharing = self._sharing
        stream = int(order.handle) or sharing.DEFAULT_STREAM
        found, dtype = sharing.taken(name, value, self.home, stream=stream)
        size = prod(found.shape) * stored(dtype).itemsize
        is_read_only = found.read_only or library_of(value) in sharing.UNCHANGING
        held = Held(found, found.pointer, self.home, dtype, found.shape, size, is_read_only)
        return self.lend(held, order)

    def lend(self, held: Held, order: Stream) -> tuple[ArrayArgument, Lent]:
        block = Block(held, None, held.size)
        block.home = order
        argument = ArrayArgument(Memory(block), 0, held.dtype, held.shape)
        return argument, _LENT[held.pointer % 16 == 0, held.is_read_only]

    def _foreign_stream(self, handle: int) -> Stream:
        known = self._foreign.get(handle)
        if known is None:
            made = self._driver.CUstream(handle)
            known = self._streams.Stream(self.streams, made, owned=False)
            self._foreign[handle] = known
        return known

    def stream_of(self, memories: Sequence[Memory]) -> Stream | None:
        homes = [memory.block.home for memory in memories]
        return next((home for home in homes if home is not None), None)

    def overlap(self, one: ArrayArgument, other: ArrayArgument) -> bool:
        first, second = one.memory.block, other.memory.block
        start, end = first.buffer.pointer, second.buffer.pointer
        return bool(start < end + second.size and end < start + first.size)

    def export(self, of: ArrayArgument, stream: int | None) -> Any:
        block = of.memory.block
        if stream is None or stream < 0:
            wait_for(block, block.written)
        else:
            # 1 is how DLPack calls the default stream.
            self._foreign_stream(0 if stream == 1 else stream).follow(block.written)
        element = self._sharing.ELEMENTS[of.dtype]
        pointer = block.buffer.pointer + of.offset
        return dlpack.capsule_of(pointer, self.home, element, of.shape, of.memory)

    # Launches.

    def new_stream(self) -> Stream:
        """A stream in order with the default one of CUDA, on which other libraries work."""
        with self._context:
            handle = self._call(self._driver.cuStreamCreate, 0)
        return self._streams.Stream(self.streams, handle)

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Stream | None = None
    ) -> None:
        if 0 not in grid:
            launch = self._launch(program, grid, arguments)
            self._stream(launch, stream).run(launch)

    def run(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Stream | None = None
    ) -> None:
        if 0 not in grid:
            launch = self._launch(program, grid, arguments)
            on = self._stream(launch, stream)
            on.run(launch)
            on.synchronize()
            for block in launch.written:
                if block.failure is not None:
                    raise block.failure.error()

    def prepare(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Stream | None = None
    ) -> Callable[[], None]:
        if 0 in grid:
            return lambda: None
        launch = self._launch(program, grid, arguments)
        run = self._stream(launch, stream).run
        if launch.report is not None:
            # What one launch reports is not that of another.
            return lambda: run(self._launch(program, grid, arguments))
        return lambda: run(launch)

    def record(self, launches: Sequence[RecordedLaunch], stream: Stream | None = None) -> Replay:
        if not are_alike_each_time(launches):
            return super().record(launches, stream)
        with self._context:
            return self._graphs.GraphReplay(
                self.streams, self._launch, launches, stream, self._queue
            )

    def template(self, launches: Sequence[RecordedLaunch]) -> LaunchTemplate:
        # A graph of one kernel starts no sooner than the kernel.
        if len(launches) < 2 or not are_alike_each_time(launches):
            return super().template(launches)
        return self._graphs.GraphTemplate(self, launches, self.streams, self._launch, self._queue)

    def _stream(self, launch: Launch, stream: Stream | None) -> Stream:
        """The stream that is asked for, or where another library uses what a launch is given."""
        return stream or (launch.homes[0] if launch.homes else self._queue)

    def _launch(self, program: Program, grid: Grid, arguments: Sequence[Any]) -> Launch:
        kernel: CompiledKernel = program.code
        source = kernel.source
        along = grid
        if grid[1] > _MOST_ALONG or grid[2] > _MOST_ALONG:
            along = (prod(grid), 1, 1)
            if along[0] > i32.high:
                raise DeviceError(
                    f"{along[0]} programs are more than {self.name} numbers; {_MOST_ALONG} along "
                    "the second and third axis of a grid need no more"
                )
        blocks: list[Block] = []
        pointers: list[int] = []
        homes: dict[Stream, None] = {}  # where other libraries use what it is given
        for number in kernel.arrays:
            array: ArrayArgument = arguments[number]
            block: Block = array.memory.block
            blocks.append(block)
            pointers.append(block.buffer.pointer + array.offset)
            if block.home is not None:
                homes[block.home] = None
        written = [blocks[i] for i in kernel.written]
        report, reported = None, []
        if source.report_buffer is not None:
            report = self.allocate(reports.BYTES)
            blocks.append(report.block)
            written.append(report.block)
            reported = [report.block.buffer.pointer]
        constants = kernel.constants(arguments)
        parameters, table = self._streams.parameters_of(pointers, constants, reported, grid)
        return self._streams.Launch(
            kernel,
            grid,
            along,
            tuple(arguments),
            parameters,
            table,
            tuple(blocks),
            tuple(written),
            tuple(homes),
            report,
        )

    def synchronize(self, memory: Memory | None = None) -> None:
        if memory is None:
            self.streams.synchronize()
            return
        wait_for(memory.block, memory.block.used)

    @contextmanager
    def failures_set_aside(self) -> Iterator[None]:
        self.streams.finish()
        with self.streams.set_aside():
            yield

    def time_launches(self, tell: Callable[[Timing], None] | None) -> None:
        try:
            self.synchronize()
        finally:
            self.streams.tell = tell

    def usage(self) -> Usage:
        return usage(self._pool, self.streams, self._cache)


def _span(of: ArrayArgument) -> int:
    """How many bytes there are from the first element of an array to the end of the last."""
    size = stored(of.dtype).itemsize
    if of.byte_strides is None or not prod(of.shape):
        return prod(of.shape) * size
    return size + sum((n - 1) * s for n, s in zip(of.shape, of.byte_strides, strict=True))


def _within(memory: Array, of: ArrayArgument) -> Array:
    """An array in a copy of the memory that it spans."""
    made: Array = np.ndarray(of.shape, stored(of.dtype), memory, 0, of.byte_strides)
    return made
