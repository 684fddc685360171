"""Pipelines that were made before, kept beside the libraries that their functions are of.

Metal compiles a function of a library once more, for the GPU of the machine.  A binary archive has
what comes of that, in a file.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from iris.runtime.cache import PIPELINES, Cache
from iris.runtime.messages import FAIL_ON_MISS, Messages
from iris.runtime.objc import Object, ObjectiveCError, Runtime


class PipelineArchives:
    """Binary archives of a device, each of one pipeline."""

    def __init__(self, runtime: Runtime, messages: Messages, device: Object, toolchain: str):
        self._runtime = runtime
        self._messages = messages
        self._device = device
        self._cache = Cache(toolchain, PIPELINES)

    def pipeline(self, described: Object, *made_of: str) -> Object:
        """The pipeline of a descriptor: from its archive, or compiled, and then kept if its archive
        opens again with it; an `ObjectiveCError` if it cannot be made."""
        key = self._cache.key(*made_of)
        data = self._cache.get(key)
        if data is not None:
            found = self._opened(data, described)
            if found is not None:
                return found
            self._cache.drop(key)
        self._messages.set_archives(described, None)
        state: Object = self._messages.new_pipeline(self._device, described, 0, None)
        data = self._archived(described)
        if data is not None and self._opened(data, described) is not None:
            self._cache.put(key, data)
        return state

    def _opened(self, data: bytes, described: Object) -> Object | None:
        """The pipeline that an archive has; None if that has not this one."""
        send = self._messages
        with tempfile.TemporaryDirectory() as folder, suppress(ObjectiveCError, LookupError):
            file = Path(folder, "pipeline")
            file.write_bytes(data)
            archive = self._archive(file)
            array = self._runtime.get_class("NSArray")
            send.set_archives(described, send.array_of(array, archive))
            found: Object = send.new_pipeline(self._device, described, FAIL_ON_MISS, None)
            return found
        return None

    def _archived(self, described: Object) -> bytes | None:
        """What an archive of the pipeline of a descriptor consists of, where that can be had."""
        with (
            tempfile.TemporaryDirectory() as folder,
            suppress(ObjectiveCError, LookupError, OSError),
        ):
            archive, file = self._archive(None), Path(folder, "pipeline")
            self._messages.add_pipeline(archive, described)
            self._messages.serialize(archive, self.url(file))
            return file.read_bytes()
        return None

    def _archive(self, file: Path | None) -> Object:
        """An archive, of a file or without anything."""
        send = self._messages
        described = send.new(self._runtime.get_class("MTLBinaryArchiveDescriptor"))
        if file is not None:
            send.set_url(described, self.url(file))
        archive: Object = send.new_archive(self._device, described)
        return archive

    def url(self, file: Path) -> Object:
        """A path, as Metal is told of it."""
        found: Object = self._messages.file_url(
            self._runtime.get_class("NSURL"), self._runtime.string(str(file))
        )
        return found
