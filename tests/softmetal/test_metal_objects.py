"""Devices, buffers, libraries, functions and pipelines, through messages."""

from __future__ import annotations

import ctypes as c
import mmap
import threading
from pathlib import Path
from typing import Any

import metal as m
import numpy as np
import pytest

from iris.runtime.objc import Object, ObjectiveCError, Pointer, UInteger

PRIVATE, MANAGED = 2 << 4, 1 << 4


@pytest.fixture(autouse=True)
def _quiet() -> None:
    """What one test did wrong is no other test's."""
    m.reports()


def test_the_device_says_what_it_is() -> None:
    device = m.device()
    assert m.text(device, "name") == "softmetal"
    assert m.number(device, "maxThreadgroupMemoryLength") == 32 << 10
    assert m.number(device, "maxBufferLength") > 1 << 30
    assert m.number(device, "hasUnifiedMemory") == 1
    assert m.number(device, "isLowPower") == 0
    most = m.send(device, "maxThreadsPerThreadgroup", result=m.Size)
    assert (most.width, most.height, most.depth) == (1024, 1024, 1024)


def test_structures_come_through_plain_messages_as_well() -> None:
    # As of clients that were written for another processor.
    function = m.library()["objc_msgSend"]
    function.restype, function.argtypes = m.Size, [Pointer, Pointer]
    selector = m.library().sel_registerName
    selector.restype = Pointer
    most = function(m.device(), selector(b"maxThreadsPerThreadgroup"))
    assert (most.width, most.height, most.depth) == (1024, 1024, 1024)
    assert m.number(m.device(), "maxThreadsPerThreadgroup") == 1024
    assert "asked for as if it were a number" in m.reports()


def test_nil_answers_nothing() -> None:
    assert m.number(None, "length") == 0
    assert m.send(None, "GPUStartTime", result=c.c_double) == 0
    size = m.send(None, "maxThreadsPerThreadgroup", result=m.Size)
    assert (size.width, size.height, size.depth) == (0, 0, 0)
    assert m.ask(None, "name") is None


@pytest.mark.parametrize(
    ("family", "there"),
    [(1001, 1), (1007, 1), (1008, 0), (1009, 0), (2002, 1), (3003, 1), (5001, 1), (5002, 0)],
)
def test_families(family: int, there: int) -> None:
    assert m.number(m.device(), "supportsFamily:", family) == there


def test_one_device() -> None:
    again = Object(m.runtime(), m.library().MTLCreateSystemDefaultDevice())
    assert again.pointer == m.device().pointer
    assert m.number(m.kernels(), "device") == again.pointer


def test_protocols_and_selectors_are_known() -> None:
    get = m.library().objc_getProtocol
    get.restype = Pointer
    conforms = m.runtime().message("conformsToProtocol:", c.c_bool, Pointer)
    buffer = m.words(1)
    assert conforms(buffer, get(b"MTLBuffer")) and conforms(buffer, get(b"MTLResource"))
    assert not conforms(buffer, get(b"MTLDevice"))
    responds = m.runtime().message("respondsToSelector:", c.c_bool, Pointer)
    selector = m.library().sel_registerName
    selector.restype = Pointer
    assert responds(buffer, selector(b"contents"))
    assert not responds(buffer, selector(b"juggle"))


def test_objects_describe_themselves() -> None:
    with m.runtime().pool():
        assert "SMBuffer" in m.text(m.words(1), "description")


def test_errors_are_told_in_any_letters() -> None:
    with pytest.raises(ObjectiveCError, match="größe"):
        m.compile("kernel void f(device int *x) { x[0] = größe; }")


def test_buffers_hold_what_is_put_there() -> None:
    data = np.arange(1000, dtype=np.int16)
    made = m.ask(m.device(), "newBufferWithBytes:length:options:", data.tobytes(), data.nbytes, 0)
    assert (m.view(made, np.int16) == data).all()
    assert m.number(made, "length") == m.number(made, "allocatedSize") == 2000
    assert m.number(made, "gpuAddress") == m.send(made, "contents", result=UInteger)
    assert (m.view(m.buffer(4096), np.uint8) == 0).all()


@pytest.mark.parametrize("length", [1, 15, 16, 17, 4095, 4096, 4097, 100_000])
def test_buffers_are_aligned(length: int) -> None:
    assert m.number(m.buffer(length), "gpuAddress") % 16 == 0


def test_private_memory_is_not_the_clients() -> None:
    made = m.buffer(64, PRIVATE)
    assert m.number(made, "contents") == 0
    assert m.number(made, "storageMode") == 2
    assert m.number(made, "resourceOptions") == PRIVATE
    assert m.run(m.kernel("put"), 1, 1, made, m.uint(3)) == ""


def test_memory_of_others_is_not_copied() -> None:
    freed = []
    block = Block(c.CFUNCTYPE(None, Pointer, Pointer, UInteger), lambda _, *x: freed.append(x))
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    array = np.frombuffer(memory, np.uint32)
    address = Pointer(array.ctypes.data)
    selector = "newBufferWithBytesNoCopy:length:options:deallocator:"
    made = m.ask(m.device(), selector, address, mmap.PAGESIZE, 0, block.pointer)
    assert m.run(m.kernel("put"), 1, 1, made, m.uint(99)) == ""
    assert array[0] == 99
    made.release()
    assert freed == [(array.ctypes.data, mmap.PAGESIZE)]
    inside = Pointer(array.ctypes.data + 16)
    assert m.ask(m.device(), selector, inside, mmap.PAGESIZE, 0, None) is None
    assert m.ask(m.device(), selector, address, 16, 0, None) is None
    assert m.reports().count("is not made of whole pages") == 2


class Block:
    """What a pointer to a block points to; it must live until it is called."""

    def __init__(self, kind: type, function: object):
        class Literal(c.Structure):
            _fields_ = [
                ("isa", Pointer),
                ("flags", c.c_int),
                ("reserved", c.c_int),
                ("invoke", kind),
            ]

        self._literal = Literal(None, 0, 0, kind(function))
        self.pointer = Pointer(c.addressof(self._literal))


def test_allocated_bytes_are_counted() -> None:
    before = m.number(m.device(), "currentAllocatedSize")
    made = m.buffer(1 << 20)
    assert m.number(m.device(), "currentAllocatedSize") == before + (1 << 20)
    made.release()
    assert m.number(m.device(), "currentAllocatedSize") == before


@pytest.mark.parametrize("length", [0, 1 << 60])
def test_buffers_that_cannot_be(length: int) -> None:
    assert m.ask(m.device(), "newBufferWithLength:options:", length, 0) is None
    assert ("of no bytes" in m.reports()) == (length == 0)


def test_labels() -> None:
    made = m.words(1)
    assert m.text(made, "label") == ""
    m.send(made, "setLabel:", m.string("weights"))
    assert m.text(made, "label") == "weights"


def test_a_library_lists_its_functions() -> None:
    names = m.ask(m.kernels(), "functionNames")
    with m.runtime().pool():
        first = m.send(names, "componentsJoinedByString:", m.string(" "), result=Pointer)
        assert m.runtime().text(first).split()[:2] == ["add", "put"]
    assert m.function(m.kernels(), "nothing") is None
    found = m.function(m.kernels(), "add")
    assert m.text(found, "name") == "add"
    assert m.number(found, "functionType") == 3


def test_what_does_not_compile_is_an_error_with_its_line() -> None:
    with pytest.raises(ObjectiveCError, match="undeclared") as caught:
        m.compile("#include <metal_stdlib>\nkernel void f(device int *x) { x[0] = y; }\n")
    assert caught.value.domain == "MTLLibraryErrorDomain"
    assert caught.value.code == 3
    assert ":2:" in str(caught.value)


def test_no_text_is_an_error() -> None:
    with pytest.raises(ObjectiveCError, match="no text"):
        m.ask(m.device(), "newLibraryWithSource:options:error:", None, None, error=True)


def test_compile_options() -> None:
    options = m.new("MTLCompileOptions")
    assert m.number(options, "fastMathEnabled") == 1
    m.send(options, "setFastMathEnabled:", False)
    assert (m.number(options, "fastMathEnabled"), m.number(options, "mathMode")) == (0, 0)
    m.send(options, "setLanguageVersion:", 3 << 16 | 1)
    macros = m.ask(
        m.runtime().get_class("NSDictionary"),
        "dictionaryWithObject:forKey:",
        m.string("VALUE + 1"),
        m.string("RESULT"),
    )
    send_macros = "setPreprocessorMacros:"
    m.send(options, send_macros, macros)
    source = """kernel void f(device uint *x) {
  const uint VALUE = 40;
  x[0] = RESULT;
  x[1] = __METAL_VERSION__;
#ifdef __METAL_FAST_MATH__
  x[2] = 1;
#endif
}"""
    x = m.words(3)
    assert m.run(m.pipeline(m.compile(source, options), "f"), 1, 1, x) == ""
    assert m.view(x, np.uint32).tolist() == [41, 310, 0]


CONSTANTS = """#include <metal_stdlib>
constant uint a [[function_constant(0)]];
constant float b [[function_constant(1)]];
constant bool c [[function_constant(7)]];
kernel void f(device float *x) { x[0] = a; x[1] = b; x[2] = c; }
"""


def values(**given: tuple[int, bytes]) -> Object:
    made = m.new("MTLFunctionConstantValues")
    for name, (kind, data) in given.items():
        m.send(made, "setConstantValue:type:withName:", data, kind, m.string(name))
    return made


def test_function_constants() -> None:
    library = m.compile(CONSTANTS)
    given = values(b=(3, np.float32(2.5).tobytes()), c=(53, b"\1"))
    m.send(given, "setConstantValue:type:atIndex:", m.uint(11), 33, 0)
    selector = "newFunctionWithName:constantValues:error:"
    function = m.ask(library, selector, m.string("f"), given, error=True)
    make = "newComputePipelineStateWithFunction:error:"
    pipeline = m.ask(m.device(), make, function, error=True)
    x = m.buffer(np.zeros(3, np.float32))
    assert m.run(pipeline, 1, 1, x) == ""
    assert m.view(x, np.float32).tolist() == [11, 2.5, 1]
    with pytest.raises(ObjectiveCError, match="no function 'g'") as caught:
        m.ask(library, selector, m.string("g"), given, error=True)
    assert caught.value.code == 5


def test_a_function_of_a_descriptor() -> None:
    described = m.ask(m.runtime().get_class("MTLFunctionDescriptor"), "functionDescriptor")
    m.send(described, "setName:", m.string("f"))
    constants = values(a=(33, m.uint(1)), b=(3, m.uint(0)), c=(53, b"\0"))
    m.send(described, "setConstantValues:", constants)
    selector = "newFunctionWithDescriptor:error:"
    assert m.text(m.ask(m.compile(CONSTANTS), selector, described, error=True), "name") == "f"
    with pytest.raises(ObjectiveCError, match="no MTLFunctionDescriptor"):
        m.ask(m.kernels(), selector, m.words(1), error=True)


def test_a_function_says_which_constants_it_has() -> None:
    found = m.ask(m.function(m.compile(CONSTANTS), "f"), "functionConstantsDictionary")
    for name, kind, index in (("a", 33, 0), ("b", 3, 1), ("c", 53, 7)):
        one = m.ask(found, "objectForKey:", m.string(name))
        assert (m.number(one, "type"), m.number(one, "index")) == (kind, index)


def test_a_constant_of_no_type_is_reported() -> None:
    values(a=(1000, m.uint(0)))
    assert "is of the type 1000, which is none" in m.reports()


def test_pipelines() -> None:
    add, small = m.kernel("add"), m.kernel("small")
    assert m.number(add, "maxTotalThreadsPerThreadgroup") == 1024
    assert m.number(small, "maxTotalThreadsPerThreadgroup") == 64
    assert m.number(add, "threadExecutionWidth") == 32
    assert m.number(add, "staticThreadgroupMemoryLength") == 0
    assert m.number(add, "supportIndirectCommandBuffers") == 0
    assert m.number(m.indirect_kernel("put"), "supportIndirectCommandBuffers") == 1


def test_a_pipeline_of_a_descriptor() -> None:
    described = m.new("MTLComputePipelineDescriptor")
    m.send(described, "setLabel:", m.string("mine"))
    m.send(described, "setComputeFunction:", m.function(m.kernels(), "add"))
    m.send(described, "setMaxTotalThreadsPerThreadgroup:", 256)
    selector = "newComputePipelineStateWithDescriptor:options:reflection:error:"
    made = m.ask(m.device(), selector, described, 0, None, error=True)
    assert m.text(made, "label") == "mine"
    assert m.number(made, "maxTotalThreadsPerThreadgroup") == 256


def archive(path: Path | None) -> Any:
    described = m.new("MTLBinaryArchiveDescriptor")
    if path is not None:
        m.send(described, "setUrl:", url(path))
    return m.ask(m.device(), "newBinaryArchiveWithDescriptor:error:", described, error=True)


def url(path: Path) -> Any:
    return m.ask(m.runtime().get_class("NSURL"), "fileURLWithPath:", m.string(str(path)))


def test_an_archive_has_the_pipelines_that_were_added(tmp_path: Path) -> None:
    def described(name: str, *archives: Any) -> Any:
        made = m.new("MTLComputePipelineDescriptor")
        m.send(made, "setComputeFunction:", m.function(m.kernels(), name))
        for one in archives:
            array = m.ask(m.runtime().get_class("NSArray"), "arrayWithObject:", one)
            m.send(made, "setBinaryArchives:", array)
        return made

    def pipeline(of: Any, options: int) -> Any:
        selector = "newComputePipelineStateWithDescriptor:options:reflection:error:"
        return m.ask(m.device(), selector, of, options, None, error=True)

    def sent(selector: str, *arguments: Any) -> bool:
        return bool(m.send(empty, selector, *arguments, result=c.c_bool, error=True))

    file, empty = tmp_path / "archive", archive(None)
    with pytest.raises(ObjectiveCError, match="nothing can be written"):
        sent("serializeToURL:error:", url(file))
    assert sent("addComputePipelineFunctionsWithDescriptor:error:", described("add"))
    assert sent("serializeToURL:error:", url(file))
    kept = archive(file)
    assert m.number(pipeline(described("add", kept), 4), "threadExecutionWidth") == 32
    for one in (described("small", kept), described("add")):
        with pytest.raises(ObjectiveCError, match="no binary archive has the pipeline"):
            pipeline(one, 4)
        assert m.number(pipeline(one, 0), "threadExecutionWidth") == 32
    for wrong in (tmp_path / "nothing", Path(__file__)):
        with pytest.raises(ObjectiveCError, match="is no binary archive"):
            archive(wrong)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("kernel void f(device int *x) { threadgroup int t[9000]; x[0] = t[1]; }", "threadgroup"),
    ],
)
def test_pipelines_that_cannot_be(source: str, text: str) -> None:
    with pytest.raises(ObjectiveCError, match=text):
        m.pipeline(m.compile(source), "f")


def test_a_pipeline_needs_a_function() -> None:
    for wrong in (None, m.words(1), m.kernels()):
        with pytest.raises(ObjectiveCError, match="needs a compute function"):
            m.ask(m.device(), "newComputePipelineStateWithFunction:error:", wrong, error=True)


def test_libraries_and_pipelines_are_made_elsewhere() -> None:
    done, found = threading.Event(), []

    def keep(_: int, made: int | None, error: int | None) -> None:
        found.append((m.runtime()._retain(made) if made else made, error, threading.get_ident()))
        done.set()

    block = Block(c.CFUNCTYPE(None, Pointer, Pointer, Pointer), keep)
    source = m.string("kernel void f(device int *x) { x[0] = 5; }")
    selector = "newLibraryWithSource:options:completionHandler:"
    m.send(m.device(), selector, source, None, block.pointer)
    assert done.wait(20)
    library, error, thread = found.pop()
    assert error is None and thread != threading.get_ident()
    function = m.function(Object(m.runtime(), library), "f")
    done.clear()
    selector = "newComputePipelineStateWithFunction:completionHandler:"
    m.send(m.device(), selector, function, block.pointer)
    assert done.wait(20)
    pipeline = Object(m.runtime(), found.pop()[0])
    x = m.words(1)
    assert m.run(pipeline, 1, 1, x) == ""
    assert m.word(x) == 5
    done.clear()
    wrong = m.string("kernel void f(")
    selector = "newLibraryWithSource:options:completionHandler:"
    m.send(m.device(), selector, wrong, None, block.pointer)
    assert done.wait(20)
    assert found[0][0] is None and found[0][1] is not None


def test_timestamps_grow() -> None:
    first, second = (c.c_uint64 * 2)(), (c.c_uint64 * 2)()
    for times in (first, second):
        at = c.addressof(times)
        m.send(m.device(), "sampleTimestamps:gpuTimestamp:", Pointer(at), Pointer(at + 8))
    assert 0 < first[0] <= second[0] and 0 < first[1] <= second[1]
