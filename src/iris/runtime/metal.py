"""The device `metal`: kernels as text in Metal's own language, on the GPU of a Mac.

PYTHON        runtime/                Objective-C
kernel   ->   Metal.compile      ->   MTLLibrary, MTLComputePipelineState
Buffer   ->   Memory, Block      ->   MTLBuffer, its contents shared with NumPy
launch   ->   Launch, Stream     ->   MTLCommandBuffer with a concurrent encoder
"""

from __future__ import annotations

import ctypes
import platform
import re
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from iris import knobs
from iris.codegen.languages.msl import MSL
from iris.codegen.source import Source
from iris.errors import ArgumentError, DeviceError, OutOfResources
from iris.ir.control import Func
from iris.ir.types import u32
from iris.runtime import dlpack, reports, sharing
from iris.runtime.cache import CHOICES, Cache
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
    LaunchTemplate,
    Lent,
    Program,
    RecordedLaunch,
    Replay,
    Timing,
    Usage,
    as_stored,
)
from iris.runtime.encoded_template import EncodedTemplate
from iris.runtime.foreign import library_of
from iris.runtime.indirect_commands import MOST_COMMANDS, IndirectReplay, Maker
from iris.runtime.memory import Block, Foreign, Memory, Pool, usage, view, wait_for, words
from iris.runtime.messages import (
    DISPATCHES,
    MOST_BUFFERS,
    PRECISE_FUNCTIONS,
    SHARED,
    TRACE_DOCUMENT,
    MathMode,
    Messages,
    Range,
    Size,
    made,
)
from iris.runtime.metal_text import (
    DataType,
    MetalText,
    TextKernel,
    TextLaunch,
    TextLibrary,
    names_of,
)
from iris.runtime.objc import Object, ObjectiveCError, Pointer, Runtime, UInteger
from iris.runtime.pipeline_archive import PipelineArchives
from iris.runtime.queue import LINE, Batch, Launch, Stream, Streams, Work
from iris.runtime.recent import Recent
from iris.runtime.timestamps import Timestamps
from iris.targets import Target
from iris.targets.apple import of_mac

# As many libraries are kept for texts that come again.
_MOST_LIBRARIES = 256

# What kernels need of MTLGPUFamily: Apple7, and Metal3.
_NEEDED_FAMILIES = {1007: "matrices of simdgroups", 5001: "bfloat"}
_APPLE9 = 1009
_VIRTUAL = "Paravirtual"
_LEAST_SYSTEM = 14  # the first whose compiler takes version 3.1 of the language


# What is kept of a check that has passed.
_INDIRECT = "indirect commands"


class Metal(Device):
    """The GPU of this Mac."""

    name = "metal"
    accepts = MSL

    @classmethod
    def missing(cls) -> str | None:
        why = _missing_of_mac()
        if why is None:
            try:
                cls.__new__(cls)._find()
            except DeviceError as error:
                return str(error)
        return why

    def __init__(self) -> None:
        self._find()
        self.target = self.find_target()
        self.streams = Streams(self.name, self.runtime, self.messages)
        self._cache = Cache(f"{self.toolchain()} {self._label}")
        self._archives = PipelineArchives(
            self.runtime, self.messages, self._device, f"{self.toolchain()} {self._label}"
        )
        self._libraries: Recent[tuple[str, MathMode], Object] = Recent(_MOST_LIBRARIES)
        self._pool = Pool(int(self.messages.working_set(self._device)) // 8)
        self.most_threadgroup = int(self.messages.most_threadgroup_memory(self._device))
        self._queue = self.new_stream()
        # Of other libraries' buffers, by what Metal knows them by.
        self._foreign: weakref.WeakValueDictionary[int, Memory] = weakref.WeakValueDictionary()
        self._checked = Cache(f"{self.toolchain()} {self._label}", CHOICES)
        self.has_indirect_commands = self._checked.get(self._checked.key(_INDIRECT)) is not None

    def _find(self) -> None:
        """Find the GPU; an error says what it lacks."""
        self.runtime, create = self.open()
        self.messages = Messages(self.runtime)
        with self.runtime.pool():
            pointer = create()
            if pointer is None:
                raise DeviceError(f"{self.name} has no GPU that runs Metal")
            self._device = Object(self.runtime, pointer)
            self._label = self.runtime.text(self.messages.name(self._device))
        # A virtual machine's GPU has more than it says: products of matrices run on it.
        if _VIRTUAL not in self._label:
            for family, what in _NEEDED_FAMILIES.items():
                if not self.messages.supports_family(self._device, family) & 0xFF:
                    raise DeviceError(
                        f"the GPU {self._label} has no {what}, which kernels need; Apple's GPUs "
                        "have it from the M1 on"
                    )

    def find_target(self) -> Target:
        """What to compile for: the chip, its cores, and the language of the system."""
        return of_mac(self._label, _cores_of_gpu(), platform.mac_ver()[0])

    def open(self) -> tuple[Runtime, Callable[[], int | None]]:
        """The Objective-C runtime, and what makes the device."""
        # Without this one there is no default device.
        ctypes.CDLL("/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics")
        metal = ctypes.CDLL("/System/Library/Frameworks/Metal.framework/Metal")
        self._data = data_maker(ctypes.CDLL(None))
        return Runtime(ctypes.CDLL("/usr/lib/libobjc.A.dylib")), device_maker(metal)

    def toolchain(self) -> str:
        """What compiled code depends on, besides the text."""
        return f"macOS {platform.mac_ver()[0]} {platform.machine()}"

    def describe(self) -> str:
        language = self.accepts.versions(self.target.language)
        return f"{self._label}, {self.target}, {language}, {self.toolchain()}"

    # Kernels.

    def compile(self, entry: Func, source: Source | None = None) -> Program:
        if source is None:
            raise DeviceError(f"{self.name} compiles text, and @{entry.symbol} came without any")
        messages, name = self.messages, source.entry
        with self.runtime.pool():
            mode = MathMode.RELAXED if entry.fast_math else MathMode.SAFE
            library = self._library(source, mode)
            function = made(
                messages.new_function(library, self.runtime.string(name)),
                self.name,
                f"the function {name}",
            )
            described = self.new("MTLComputePipelineDescriptor")
            messages.set_function(described, function)
            messages.set_indirect(described, True)
            messages.set_label(described, self.runtime.string(name))
            try:
                state = self._archives.pipeline(
                    described, source.text, name, mode.name, str(source.version)
                )
            except ObjectiveCError as error:
                raise DeviceError(f"the kernel {name} makes no pipeline: {error}") from None
            self._check_limits(source, state)
        return Program(entry, compiled_kernel(entry, source, state))

    def _check_limits(self, source: Source, state: Object) -> None:
        width = self.messages.width(state)
        if width != self.target.simdgroup_width:
            raise DeviceError(
                f"the kernel {source.entry} is compiled for simdgroups of "
                f"{self.target.simdgroup_width} threads, and this GPU has simdgroups of {width}"
            )
        most = self.messages.most_threads(state)
        if source.threads > most:
            fewer = 1 << max(most // 32, 1).bit_length() - 1
            raise OutOfResources(
                f"the kernel {source.entry} is compiled for {source.threads} threads, and its "
                f"registers leave room for {most} on this GPU; launch it with "
                f"num_simdgroups={fewer}, or use smaller tiles"
            )
        used = self.messages.threadgroup_memory(state)
        if used > self.most_threadgroup:
            raise OutOfResources(
                f"the kernel {source.entry} needs {used} bytes of threadgroup memory, and this GPU "
                f"has {self.most_threadgroup}; use smaller tiles"
            )

    def _library(self, source: Source | MetalText, mode: MathMode) -> Object:
        key = source.text, mode
        found = self._libraries.get(key)
        if found is None:
            kept = self._cache.key(source.text, mode.name, str(source.version))
            # What was kept does not show its text in a trace.
            data = None if knobs.traces() else self._cache.get(kept)
            found = None if data is None else self._opened(data, source.entry)
            if found is None:
                found = self._compiled(source, mode)
                data = self._bytes_of(found)
                # Some systems give bytes that open no library, or one without its functions.
                if data is not None and self._opened(data, source.entry) is not None:
                    self._cache.put(kept, data)
                else:
                    self._cache.drop(kept)
            self.messages.set_label(found, self.runtime.string(source.entry))
            self._libraries.put(key, found)
        return found

    def _compiled(self, source: Source | MetalText, mode: MathMode) -> Object:
        messages, options = self.messages, self.compile_options(mode, source.version)
        text = self.runtime.string(source.text)
        try:
            return messages.new_library(self._device, text, options)  # type: ignore[no-any-return]
        except ObjectiveCError as error:
            message = str(error).rstrip()
            what = f"the kernel {source.entry}" if source.entry else "the text"
            raise DeviceError(
                f"{what} does not compile on {self.name}: {message}",
                locations=locations_in(source, message, LINE),
            ) from None

    def compile_options(self, mode: MathMode, version: tuple[int, int] = (3, 1)) -> Object:
        """How the texts of kernels are compiled, in a version of the language."""
        messages, options = self.messages, self.new("MTLCompileOptions")
        messages.set_language(options, version[0] << 16 | version[1])
        if messages.responds(options, self.runtime.selector("setMathMode:")) & 0xFF:
            messages.set_math_mode(options, mode)
            messages.set_functions(options, PRECISE_FUNCTIONS)
        else:  # before macOS 15, where fast math knows no nan; the text has `fast::` functions
            messages.set_fast_math(options, False)
        return options

    def _opened(self, data: bytes, entry: str) -> Object | None:
        """A library of bytes, if it is one that has a kernel of a name."""
        wrapped = self._data(data, len(data), None, None)
        if wrapped is None:
            return None
        holder = Object(self.runtime, wrapped)
        try:
            library: Object = self.messages.new_library_of_data(self._device, holder)
        except ObjectiveCError:
            return None
        if entry:
            has_kernel = self.messages.new_function(library, self.runtime.string(entry)) is not None
        else:
            has_kernel = bool(names_of(self.runtime, self.messages, library))
        return library if has_kernel else None

    def _bytes_of(self, library: Object) -> bytes | None:
        """What a library can be made of again, where it can say that."""
        messages = self.messages
        if not messages.responds(library, self.runtime.selector("libraryDataContents")) & 0xFF:
            return None
        data = messages.data_of(library)
        if data is None:
            return None
        start = messages.bytes_of(data)
        return None if start is None else ctypes.string_at(start, messages.length(data)) or None

    def new(self, class_name: str) -> Object:
        """A new object of a class, with what it has before it is told anything."""
        found = self.messages.new(self.runtime.get_class(class_name))
        return made(found, self.name, f"an {class_name}")

    # Memory.

    def allocate(self, size: int, *, persistent: bool = False) -> Memory:
        return self._pool.allocate(self.name, size, self._new_block, persistent=persistent)

    def _new_block(self, size: int) -> Block | None:
        with self.runtime.pool():
            buffer = self.messages.new_buffer(self._device, size, SHARED)
            if buffer is None:
                return None
            contents = self.messages.contents(buffer)
        if contents is None:
            raise DeviceError(f"{self.name} has {size} bytes that the CPU cannot reach")
        return Block(buffer, contents, size)

    def adopt(self, array: Array) -> Memory | None:
        start, size = array.ctypes.data, array.nbytes
        with self.runtime.pool():
            buffer = self.messages.new_buffer_around(self._device, start, size, SHARED, None)
        if buffer is None:
            return None
        return Memory(Block(buffer, start, size), keeps=array)

    def order_with(self, library: str) -> Callable[[], object] | None:
        return sharing.WAITS.get(library)

    def share(
        self, name: str, value: Any, order: Callable[[], object] | None
    ) -> tuple[ArrayArgument, Lent]:
        library = library_of(value)
        if order is None:
            raise ArgumentError(f"{name} is an array of {library}, and nothing waits for its work")
        found, dtype = sharing.taken(name, value, (dlpack.METAL, 0))
        order()
        memory = self._foreign.get(found.data)
        if memory is None:
            buffer = Foreign(found.data)
            with self.runtime.pool():
                contents = self.messages.contents(buffer.pointer)
                size = self.messages.length(buffer.pointer)
            if contents is None:
                raise ArgumentError(f"{name} is in memory that the CPU cannot reach; pass a copy")
            memory = Memory(Block(buffer, contents, size), keeps=found)
            self._foreign[found.data] = memory
        if library not in sharing.UNCHANGING:
            memory.block.home = order
        lent = Lent(
            is_aligned=found.offset % 16 == 0,
            is_read_only=found.read_only or library in sharing.UNCHANGING,
        )
        return ArrayArgument(memory, found.offset, dtype, found.shape), lent

    def view(self, of: ArrayArgument) -> Array:
        return view(of)

    def copy_in(self, to: ArrayArgument, array: Array) -> None:
        block = to.memory.block
        for batch in list(block.used.values()):
            batch.wait()
        view = self.view(to)
        view[...] = as_stored(array)
        if view.nbytes == block.size:
            block.failure = None

    def copy_out(self, source: ArrayArgument, array: Array) -> None:
        block = source.memory.block
        wait_for(block, block.written)
        as_stored(array)[...] = self.view(source)

    # Launches.

    def trust_indirect_commands(self, works: bool) -> None:
        """Replay recordings as indirect commands from now on, in later processes, too; or not."""
        self.has_indirect_commands = works
        if works:
            self._checked.put(self._checked.key(_INDIRECT), b"checked")
        else:
            self._checked.drop(self._checked.key(_INDIRECT))

    def _new_commands(self, count: int) -> Object:
        """An indirect command buffer of as many dispatches, which are told everything."""
        send, described = self.messages, self.new("MTLIndirectCommandBufferDescriptor")
        send.set_command_types(described, DISPATCHES)
        send.set_inherit_pipeline(described, False)
        send.set_inherit_buffers(described, False)
        send.set_most_buffers(described, MOST_BUFFERS)
        found = send.new_commands(self._device, described, count, SHARED)
        return made(found, self.name, f"an indirect command buffer of {count} commands")

    def new_stream(self) -> Stream:
        with self.runtime.pool():
            queue = made(self.messages.new_queue(self._device), self.name, "a command queue")
        device, name, new_event = self._device, self.name, self.messages.new_event
        return Stream(self.streams, queue, lambda: made(new_event(device), name, "a shared event"))

    # Texts of others.

    def library(self, source: MetalText, *, fast_math: bool) -> TextLibrary:
        """The kernels of a text."""
        mode = MathMode.RELAXED if fast_math else MathMode.SAFE
        with self.runtime.pool():
            return TextLibrary(self.runtime, self.messages, self._library(source, mode), source)

    def kernel(
        self, library: TextLibrary, name: str, values: Mapping[str, tuple[DataType, bytes]]
    ) -> TextKernel:
        """A kernel of a text, with values of function constants."""
        with self.runtime.pool():
            try:
                function = library.function(name, self.new("MTLFunctionConstantValues"), values)
            except ObjectiveCError as error:
                raise DeviceError(f"the kernel {name} cannot be made: {error}") from None
            described = self.new("MTLComputePipelineDescriptor")
            self.messages.set_function(described, function)
            self.messages.set_label(described, self.runtime.string(name))
            return library.pipeline(name, self._device, described)

    def start(self, launch: TextLaunch, stream: Stream | None, *, wait: bool) -> None:
        """Launch a kernel of a text; with `wait`, raise what went wrong in it."""
        if wait:
            self._finish(launch, stream)
        else:
            self._start(launch, stream or self._queue)

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Stream | None = None
    ) -> None:
        if prod(grid):
            self._start(self._launch(program, grid, arguments), stream or self._queue)

    def run(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Stream | None = None
    ) -> None:
        if prod(grid):
            self._finish(self._launch(program, grid, arguments), stream)

    def prepare(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Stream | None = None
    ) -> Callable[[], None]:
        pipeline, on = program.code, stream or self._queue
        if not prod(grid):
            return lambda: None
        if pipeline.source.report_buffer is not None:
            # What one launch reports is not that of another.
            def anew() -> None:
                self._start(self._launch(program, grid, arguments), on)

            return anew
        launch = self._launch(program, grid, arguments)
        run = partial(self._start, stream=on) if launch.waits else on.run

        def again() -> None:
            run(launch)

        return again

    def _finish(self, work: Work, stream: Stream | None) -> None:
        """Run something, and raise what went wrong in it."""
        batch = self._start(work, stream or self._queue)
        batch.wait()
        failure = batch.failures.get(id(work))
        if failure is not None:
            raise failure.error()

    def _start(self, work: Work, stream: Stream) -> Batch:
        """Run something in order with the work of other libraries, which never wait for ours."""
        for wait in work.waits:
            wait()
        batch = stream.run(work)
        if work.waits:
            batch.wait()
        return batch

    def record(self, launches: Sequence[RecordedLaunch], stream: Stream | None = None) -> Replay:
        is_encoded = (
            self.has_indirect_commands
            and len(launches) <= MOST_COMMANDS
            and are_alike_each_time(launches)
        )
        if not is_encoded:
            return super().record(launches, stream)
        maker = Maker(
            self.streams,
            self._launch,
            self._start,
            self.allocate,
            self._new_commands,
            # On M1 and M2.
            not self.messages.supports_family(self._device, _APPLE9) & 0xFF,
        )
        return IndirectReplay(maker, launches, stream or self._queue)

    def template(self, launches: Sequence[RecordedLaunch]) -> LaunchTemplate:
        # Buffers get labels in each launch, for traces.
        if self.streams.are_labelled or not are_alike_each_time(launches):
            return super().template(launches)
        return EncodedTemplate(self, launches, self.streams, self._launch, self._start, self._queue)

    def _launch(self, program: Program, grid: Grid, arguments: Sequence[Any]) -> Launch:
        pipeline: CompiledKernel = program.code
        source = pipeline.source
        threads = grid[0] * source.threads
        if threads > u32.high:
            raise DeviceError(
                f"{grid[0]} programs of {source.threads} threads are more than {self.name} "
                "numbers along an axis; use another axis of the grid, too"
            )
        arrays: list[ArrayArgument] = [arguments[i] for i in pipeline.arrays]
        blocks = [array.memory.block for array in arrays]
        if self.streams.are_labelled:
            self._label_buffers(pipeline, blocks)
        written = [blocks[i] for i in pipeline.written]
        pointers = [block.buffer.pointer for block in blocks]
        offsets = [array.offset for array in arrays]
        report = None
        if source.report_buffer is not None:
            report = self.allocate(reports.BYTES)
            reports.clear(words(report))
            blocks.append(report.block)
            written.append(report.block)
            # Where the constants come before it, they are set after this.
            between = source.report_buffer - len(arrays)
            pointers += [None] * between + [report.block.buffer.pointer]
            offsets += [0] * (between + 1)
        return Launch(
            pipeline,
            grid,
            tuple(arguments),
            Size(*grid),
            Size(source.threads, 1, 1),
            (Pointer * len(pointers))(*pointers),
            (UInteger * len(offsets))(*offsets),
            Range(0, len(pointers)),
            pipeline.constants(arguments),
            tuple(blocks),
            tuple(written),
            sum([block.size for block in blocks]),
            frozenset([block.home for block in blocks if block.home is not None]),
            report,
        )

    def _label_buffers(self, pipeline: CompiledKernel, blocks: Sequence[Block]) -> None:
        """Call buffers what a kernel does."""
        parameters = pipeline.entry.body.arguments
        for number, block in zip(pipeline.arrays, blocks, strict=True):
            text = f"{parameters[number].name} of {pipeline.name}"
            self.messages.set_label(block.buffer, self.runtime.string(text))

    def synchronize(self, memory: Memory | None = None) -> None:
        if memory is not None:
            wait_for(memory.block, memory.block.used)
            if memory.block.home is not None:
                memory.block.home()
        else:
            self.streams.synchronize()

    @contextmanager
    def failures_set_aside(self) -> Iterator[None]:
        self.streams.finish()
        with self.streams.set_aside():
            yield

    @contextmanager
    def trace(self, path: Path) -> Iterator[None]:
        send = self.messages
        self.synchronize()  # a trace has the command buffers that are made and committed within it
        with self.runtime.pool():
            manager = send.capture_manager(self.runtime.get_class("MTLCaptureManager"))
            if manager is None or not send.can_capture(manager, TRACE_DOCUMENT) & 0xFF:
                raise DeviceError(
                    "Metal writes traces only for a process that is started with "
                    "METAL_CAPTURE_ENABLED=1 in its environment"
                )
            described = self.new("MTLCaptureDescriptor")
            send.set_captured(described, self._device)
            send.set_destination(described, TRACE_DOCUMENT)
            send.set_output(described, self._archives.url(path))
            try:
                send.start_capture(manager, described)
            except ObjectiveCError as error:
                raise DeviceError(f"the trace {path.name} cannot be written: {error}") from None
        try:
            yield
        finally:
            try:
                self.synchronize()
            finally:
                with self.runtime.pool():
                    send.stop_capture(manager)

    def time_launches(self, tell: Callable[[Timing], None] | None) -> None:
        try:
            self.synchronize()
        finally:
            self.streams.tell = tell
            self.streams.timestamps = None if tell is None else self._timestamps()

    def _timestamps(self) -> Timestamps | None:
        with self.runtime.pool():
            return Timestamps.of(self.runtime, self.messages, self._device, self.new)

    def usage(self) -> Usage:
        return usage(self._pool, self.streams, self._cache)


def _missing_of_mac() -> str | None:
    """Why a machine is no Mac that runs Iris's kernels; None if it may be."""
    if sys.platform != "darwin":
        return f"Metal is on Macs, and this is {sys.platform}"
    if platform.machine() != "arm64":
        return (
            "kernels need a GPU of Apple's, and this is a Mac with another processor, or a Python "
            "for another one; on Apple silicon, install Python for arm64"
        )
    version = platform.mac_ver()[0]
    if int(version.partition(".")[0]) < _LEAST_SYSTEM:
        return f"kernels need macOS {_LEAST_SYSTEM} or newer, and this is macOS {version}"
    return None


def _cores_of_gpu() -> int | None:
    """How many cores the system says that the GPU has; None if it does not say."""
    command = ["/usr/sbin/ioreg", "-rc", "AGXAccelerator", "-d1"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'"gpu-core-count" = (\d+)', told)
    return int(found[1]) if found else None


def device_maker(library: ctypes.CDLL) -> Callable[[], int | None]:
    function = library["MTLCreateSystemDefaultDevice"]
    function.restype, function.argtypes = Pointer, ()
    return function


def data_maker(library: ctypes.CDLL) -> Callable[..., int | None]:
    function = library["dispatch_data_create"]
    function.restype, function.argtypes = Pointer, (Pointer, UInteger, Pointer, Pointer)
    return function
