"""The messages of Metal that Iris sends, typed."""

from __future__ import annotations

import ctypes
from enum import IntEnum

from iris.errors import DeviceError
from iris.runtime.objc import Integer, Object, Pointer, Runtime, UInteger


class Size(ctypes.Structure):
    """MTLSize."""

    _fields_ = (("width", UInteger), ("height", UInteger), ("depth", UInteger))


class Range(ctypes.Structure):
    """NSRange."""

    _fields_ = (("location", UInteger), ("length", UInteger))


CONCURRENT = 1  # MTLDispatchTypeConcurrent
BUFFERS = 1  # MTLBarrierScopeBuffers
READ, WRITE = 1, 2  # MTLResourceUsage
BINDING_INFO, BUFFER_TYPES = 1, 2  # MTLPipelineOption
READ_ONLY = 0  # MTLBindingAccessReadOnly
FAIL_ON_MISS = 4  # MTLPipelineOptionFailOnBinaryArchiveMiss
TRACE_DOCUMENT = 2  # MTLCaptureDestinationGPUTraceDocument
DISPATCHES = 32  # MTLIndirectCommandTypeConcurrentDispatch
MOST_BUFFERS = 31  # of a kernel
SHARED = 0  # MTLResourceStorageModeShared
COMPLETED = 4  # MTLCommandBufferStatusCompleted
TIMEOUT = 2  # MTLCommandBufferErrorTimeout
AT_STAGES = 0  # MTLCounterSamplingPointAtStageBoundary
NO_SAMPLE = (1 << 64) - 1  # MTLCounterErrorValue
PRECISE_FUNCTIONS = 1  # MTLMathFloatingPointFunctionsPrecise


class MathMode(IntEnum):
    """MTLMathMode, without Fast: masks need nan and infinity, which Fast lets a compiler ignore."""

    SAFE = 0
    RELAXED = 1


class Messages:
    """Each is a function of the receiver and the arguments."""

    def __init__(self, runtime: Runtime):
        message = runtime.message
        # The device.
        self.name = message("name", Pointer)
        self.supports_family = message("supportsFamily:", Integer, Integer)
        self.new_queue = message("newCommandQueue", Object)
        self.new_buffer = message("newBufferWithLength:options:", Object, UInteger, UInteger)
        self.new_buffer_around = message(
            "newBufferWithBytesNoCopy:length:options:deallocator:",
            Object,
            Pointer,
            UInteger,
            UInteger,
            Pointer,
        )
        self.most_threadgroup_memory = message("maxThreadgroupMemoryLength", UInteger)
        self.working_set = message("recommendedMaxWorkingSetSize", ctypes.c_uint64)
        self.new_library = message(
            "newLibraryWithSource:options:error:", Object, Pointer, Pointer, error=True
        )
        self.new_library_of_data = message("newLibraryWithData:error:", Object, Pointer, error=True)
        self.new_pipeline = message(
            "newComputePipelineStateWithDescriptor:options:reflection:error:",
            Object,
            Pointer,
            UInteger,
            Pointer,
            error=True,
        )
        # With what tells of the kernel's arguments, which lives as long as the caller's pool.
        self.reflected_pipeline = message(
            "newComputePipelineStateWithDescriptor:options:reflection:error:",
            Object,
            Pointer,
            UInteger,
            Pointer,
            Pointer,
        )
        self.bindings = message("bindings", Object)
        self.count = message("count", UInteger)
        self.at = message("objectAtIndex:", Object, UInteger)
        self.type = message("type", UInteger)
        self.access = message("access", UInteger)
        self.index = message("index", UInteger)
        self.is_used = message("isUsed", Integer)
        self.data_size = message("bufferDataSize", UInteger)
        self.data_type = message("bufferDataType", UInteger)
        self.new_commands = message(
            "newIndirectCommandBufferWithDescriptor:maxCommandCount:options:",
            Object,
            Pointer,
            UInteger,
            UInteger,
        )
        self.new_archive = message(
            "newBinaryArchiveWithDescriptor:error:", Object, Pointer, error=True
        )
        # Compiling.
        self.new = message("new", Object)
        self.set_math_mode = message("setMathMode:", None, Integer)
        self.set_functions = message("setMathFloatingPointFunctions:", None, Integer)
        self.set_fast_math = message("setFastMathEnabled:", None, ctypes.c_bool)
        self.set_language = message("setLanguageVersion:", None, UInteger)
        self.new_function = message("newFunctionWithName:", Object, Pointer)
        self.new_function_with = message(
            "newFunctionWithName:constantValues:error:", Object, Pointer, Pointer, error=True
        )
        self.function_names = message("functionNames", Object)
        self.function_constants = message("functionConstantsDictionary", Object)
        self.all_values = message("allValues", Object)
        self.set_constant = message(
            "setConstantValue:type:withName:", None, ctypes.c_char_p, UInteger, Pointer
        )
        self.set_function = message("setComputeFunction:", None, Pointer)
        self.set_label = message("setLabel:", None, Pointer)
        self.set_indirect = message("setSupportIndirectCommandBuffers:", None, ctypes.c_bool)
        self.set_archives = message("setBinaryArchives:", None, Pointer)
        self.set_url = message("setUrl:", None, Pointer)
        self.add_pipeline = message(
            "addComputePipelineFunctionsWithDescriptor:error:", ctypes.c_bool, Pointer, error=True
        )
        self.serialize = message("serializeToURL:error:", ctypes.c_bool, Pointer, error=True)
        # Of other frameworks.
        self.file_url = message("fileURLWithPath:", Object, Pointer)
        self.array_of = message("arrayWithObject:", Object, Pointer)
        # Traces for Xcode.
        self.capture_manager = message("sharedCaptureManager", Object)
        self.can_capture = message("supportsDestination:", Integer, Integer)
        self.set_captured = message("setCaptureObject:", None, Pointer)
        self.set_destination = message("setDestination:", None, Integer)
        self.set_output = message("setOutputURL:", None, Pointer)
        self.start_capture = message(
            "startCaptureWithDescriptor:error:", ctypes.c_bool, Pointer, error=True
        )
        self.stop_capture = message("stopCapture", None)
        self.responds = message("respondsToSelector:", Integer, Pointer)
        self.data_of = message("libraryDataContents", Object)
        self.bytes_of = message("bytes", Pointer)
        self.length = message("length", UInteger)
        self.width = message("threadExecutionWidth", UInteger)
        self.most_threads = message("maxTotalThreadsPerThreadgroup", UInteger)
        self.threadgroup_memory = message("staticThreadgroupMemoryLength", UInteger)
        # Memory.
        self.contents = message("contents", Pointer)
        # Command buffers.
        self.command_buffer = message("commandBuffer", Object)
        self.encoder = message("computeCommandEncoderWithDispatchType:", Object, UInteger)
        self.commit = message("commit", None)
        self.wait = message("waitUntilCompleted", None)
        self.status = message("status", UInteger)
        self.error = message("error", Pointer)
        self.start_time = message("GPUStartTime", ctypes.c_double)
        self.end_time = message("GPUEndTime", ctypes.c_double)
        # Command buffers that wait for others.
        self.new_event = message("newSharedEvent", Object)
        self.signal_event = message("encodeSignalEvent:value:", None, Pointer, ctypes.c_uint64)
        self.wait_for_event = message("encodeWaitForEvent:value:", None, Pointer, ctypes.c_uint64)
        self.set_signaled = message("setSignaledValue:", None, ctypes.c_uint64)
        # Timestamps.
        self.samples_at = message("supportsCounterSampling:", Integer, UInteger)
        self.counter_sets = message("counterSets", Object)
        self.set_counter_set = message("setCounterSet:", None, Pointer)
        self.set_storage = message("setStorageMode:", None, UInteger)
        self.set_sample_count = message("setSampleCount:", None, UInteger)
        self.new_samples = message(
            "newCounterSampleBufferWithDescriptor:error:", Object, Pointer, error=True
        )
        self.set_dispatch_type = message("setDispatchType:", None, UInteger)
        self.attachments = message("sampleBufferAttachments", Object)
        self.attachment = message("objectAtIndexedSubscript:", Object, UInteger)
        self.set_samples = message("setSampleBuffer:", None, Pointer)
        self.set_start = message("setStartOfEncoderSampleIndex:", None, UInteger)
        self.set_end = message("setEndOfEncoderSampleIndex:", None, UInteger)
        self.described_encoder = message("computeCommandEncoderWithDescriptor:", Object, Pointer)
        self.resolve = message("resolveCounterRange:", Object, Range)
        self.sample_clocks = message("sampleTimestamps:gpuTimestamp:", None, Pointer, Pointer)
        # Encoding: what every launch sends.
        self.set_pipeline = message("setComputePipelineState:", None, Pointer, quick=True)
        self.set_buffers = message(
            "setBuffers:offsets:withRange:", None, Pointer, Pointer, Range, quick=True
        )
        self.set_buffer_at = message(
            "setBuffer:offset:atIndex:", None, Pointer, UInteger, UInteger, quick=True
        )
        self.set_bytes = message(
            "setBytes:length:atIndex:", None, ctypes.c_char_p, UInteger, UInteger, quick=True
        )
        self.dispatch = message(
            "dispatchThreadgroups:threadsPerThreadgroup:", None, Size, Size, quick=True
        )
        self.dispatch_threads = message(
            "dispatchThreads:threadsPerThreadgroup:", None, Size, Size, quick=True
        )
        self.set_threadgroup_memory = message(
            "setThreadgroupMemoryLength:atIndex:", None, UInteger, UInteger, quick=True
        )
        self.barrier = message("memoryBarrierWithScope:", None, UInteger, quick=True)
        self.end_encoding = message("endEncoding", None)
        # Commands that are encoded once.
        self.set_command_types = message("setCommandTypes:", None, UInteger)
        self.set_inherit_pipeline = message("setInheritPipelineState:", None, ctypes.c_bool)
        self.set_inherit_buffers = message("setInheritBuffers:", None, ctypes.c_bool)
        self.set_most_buffers = message("setMaxKernelBufferBindCount:", None, UInteger)
        self.command = message("indirectComputeCommandAtIndex:", Object, UInteger)
        self.reset = message("reset", None)
        self.set_buffer = message(
            "setKernelBuffer:offset:atIndex:", None, Pointer, UInteger, UInteger
        )
        self.set_barrier = message("setBarrier", None)
        self.dispatch_command = message(
            "concurrentDispatchThreadgroups:threadsPerThreadgroup:", None, Size, Size
        )
        self.use = message(
            "useResources:count:usage:", None, Pointer, UInteger, UInteger, quick=True
        )
        self.execute = message(
            "executeCommandsInBuffer:withRange:", None, Pointer, Range, quick=True
        )


def made(value: Object | None, device: str, what: str) -> Object:
    """What a device of a name has made, which is nil if it could not."""
    if value is None:
        raise DeviceError(f"{device} could not make {what}")
    return value
