"""When encoders begin and end on the GPU: counter sample buffers.

The times of a command buffer include what it waits for, such as launches of other streams; those
of its encoder do not.  Apple's GPUs sample their clock where an encoder begins and ends
[https://developer.apple.com/documentation/metal/sampling-gpu-data-into-counter-sample-buffers], and
two samples of both clocks make times of the CPU's of that
[https://developer.apple.com/documentation/metal/converting-gpu-timestamps-into-cpu-time].
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import NamedTuple

from iris.runtime.messages import AT_STAGES, CONCURRENT, NO_SAMPLE, SHARED, Messages, Range
from iris.runtime.objc import Object, ObjectiveCError, Runtime

# As many encoders may be on their way before one of them has only the times of its command buffer.
# A buffer of samples, of 8 bytes, has at most 32 KB. [Metal Feature Set Tables]
_MOST_ENCODERS = 2048
# MTLCommonCounterSetTimestamp.
_TIMES = "timestamp"


class _Clocks(NamedTuple):
    """The CPU's and the GPU's at one moment, in nanoseconds."""

    cpu: int
    gpu: int


class Timestamps:
    """Samples of the clock of a GPU, two for each encoder."""

    def __init__(
        self, send: Messages, device: Object, new: Callable[[str], Object], buffer: Object
    ):
        self._send = send
        self._new = new
        self._device = device
        self._buffer = buffer
        self._free = list(range(_MOST_ENCODERS))
        self._first = self._clocks()

    @staticmethod
    def of(
        runtime: Runtime, send: Messages, device: Object, new: Callable[[str], Object]
    ) -> Timestamps | None:
        """The timestamps of a device; None if it samples nothing where encoders begin and end."""
        if not send.samples_at(device, AT_STAGES) & 0xFF:
            return None
        sets = send.counter_sets(device)
        found = [send.at(sets, n) for n in range(send.count(sets))] if sets is not None else []
        times = [one for one in found if runtime.text(send.name(one)) == _TIMES]
        if not times:
            return None
        described = new("MTLCounterSampleBufferDescriptor")
        send.set_counter_set(described, times[0])
        send.set_storage(described, SHARED)
        send.set_sample_count(described, 2 * _MOST_ENCODERS)
        try:
            buffer = send.new_samples(device, described)
        except ObjectiveCError:  # there is no room for it; command buffers have times, too
            return None
        return Timestamps(send, device, new, buffer)

    def encoder(self, buffer: Object) -> tuple[Object | None, int | None]:
        """An encoder of a command buffer, and the number by which `read` knows it; None if too many
        are on their way."""
        send, described = self._send, self._new("MTLComputePassDescriptor")
        send.set_dispatch_type(described, CONCURRENT)
        attachment = send.attachment(send.attachments(described), 0)
        number = self._free.pop() if self._free and attachment is not None else None
        if number is not None:
            send.set_samples(attachment, self._buffer)
            send.set_start(attachment, 2 * number)
            send.set_end(attachment, 2 * number + 1)
        return send.described_encoder(buffer, described), number

    def read(self, number: int) -> tuple[float, float] | None:
        """When an encoder that is done began and ended, in seconds of the CPU's clock; None if the
        GPU has not told."""
        data = self._send.resolve(self._buffer, Range(2 * number, 2))
        self._free.append(number)
        told = None if data is None else self._send.bytes_of(data)
        if told is None or self._send.length(data) != 16:
            return None
        samples = struct.unpack("2Q", ctypes.string_at(told, 16))
        if NO_SAMPLE in samples or samples[0] > samples[1]:
            return None
        first, last = self._first, self._clocks()
        if last.gpu <= first.gpu:
            return None
        rate = (last.cpu - first.cpu) / (last.gpu - first.gpu)
        start, end = [(first.cpu + (at - first.gpu) * rate) * 1e-9 for at in samples]
        return start, end

    def _clocks(self) -> _Clocks:
        cpu, gpu = ctypes.c_uint64(), ctypes.c_uint64()
        self._send.sample_clocks(self._device, ctypes.byref(cpu), ctypes.byref(gpu))
        return _Clocks(cpu.value, gpu.value)
