"""The devices there are, by name."""

from __future__ import annotations

import atexit
import pkgutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from iris import knobs
from iris.errors import ArgumentError, IrisError, SettingError
from iris.runtime.device import Device
from iris.runtime.recorder import refuse_while_recording

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

#: Classes, or where they are; the first that this machine has is the default.
DEVICES: dict[str, type[Device] | str] = {
    "metal": "iris.runtime.metal:Metal",
    "interp": "iris.runtime.interpreters:Interpreter",
    "interp:metal": "iris.runtime.interpreters:MetalInterpreter",
    "softmetal": "iris.runtime.softmetal:Softmetal",
    "cuda": "iris.runtime.cuda.cuda_device:Cuda",
}
#: Told of each device as it is opened.
WATCHERS: list[Callable[[Device], None]] = []
GROUP = "iris.devices"  # of the entry points of others
_opened: dict[str, Device] = {}
_opening = threading.Lock()  # of two threads, both get the same device


class Presence(NamedTuple):
    """Whether a device is on this machine: `missing` is None, or why it is not."""

    name: str
    missing: str | None

    def __str__(self) -> str:
        return f"{self.name}: {'here' if self.missing is None else self.missing}"


def devices() -> tuple[Presence, ...]:
    """Which devices there are, and why the others are not.

    for device in iris.devices():
        print(device)
    """
    names = dict.fromkeys([*DEVICES, *[point.name for point in _entry_points()]])
    return tuple([Presence(name, _missing(name)) for name in names])


def _missing(name: str) -> str | None:
    """Why a device is not there, which may be that nobody can tell."""
    try:
        return _class(name).missing()
    except IrisError as error:
        return str(error)


def select(device: str | Device | None) -> Device:
    """The device that a launch names, or the environment does, or the default one."""
    if isinstance(device, Device):
        return device
    if device is not None:
        return _named(device, ArgumentError)
    return _named(knobs.device() or _default(), SettingError)


def _named(name: str, wrong: type[IrisError]) -> Device:
    if not isinstance(name, str):
        raise wrong(f"a device is given by its name, or is one; not {name!r}")
    name = name.removesuffix(":0")
    if name not in _opened:
        with _opening:
            if name not in _opened:
                _opened[name] = _open(name, wrong)
    return _opened[name]


def _open(name: str, wrong: type[IrisError]) -> Device:
    kind, _, number = name.rpartition(":")  # as in cuda:1
    if not (kind and number.isdecimal()):
        kind, number = name, ""
    chosen = _class(kind, wrong)
    why = chosen.missing()
    if why is not None:
        raise wrong(f"the device {name!r} is not here: {why}")
    count = chosen.count()
    if number and int(number) >= count:
        raise wrong(f"there is no {name}: this machine has {count} of the kind, from {kind}:0 on")
    if not _opened:
        knobs.warn_of_unknown()
        # What was launched and not waited for may still have to print, or to fail.
        atexit.register(synchronize)
    opened = chosen.numbered(int(number or 0))
    for watcher in WATCHERS:
        watcher(opened)
    return opened


def synchronize() -> None:
    """Wait until everything that was launched is done; what went wrong in a launch is raised."""
    refuse_while_recording("iris.synchronize() waits for launches")
    first: IrisError | None = None
    for device in list(_opened.values()):
        try:
            device.synchronize()
        except IrisError as error:
            first = first or error
    if first is not None:
        raise first


def stream(device: str | Device | None = None) -> Any:
    """A new stream: its launches do not wait for launches of other streams.

    one, other = iris.stream(), iris.stream()
    scale[8](x, 2.0, stream=one)
    scale[8](y, 3.0, stream=other)

    Launches on the same memory still come one after the other.
    """
    return select(device).new_stream()


@contextmanager
def gputrace(path: str | PathLike[str], device: str | Device | None = None) -> Iterator[None]:
    """Write the launches of a `with` to a trace that Xcode opens.

    with iris.gputrace("softmax.gputrace"):
        softmax[rows](x, out, columns, BLOCK=1024)

    Python must be started with METAL_CAPTURE_ENABLED=1 in its environment.  The trace then names
    kernels, streams and Buffers, and shows the texts of kernels.
    """
    refuse_while_recording("a trace waits for launches")
    file = Path(path).absolute()
    if file.suffix != ".gputrace":
        raise ArgumentError(f"the name of a trace ends in .gputrace, for Xcode: {path}")
    if file.exists():
        raise ArgumentError(f"{path} is there already, and Metal writes over no trace; remove it")
    with select(device).trace(file):
        yield


def _default() -> str:
    return next(name for name in DEVICES if name in _opened or _missing(name) is None)


def _entry_points() -> EntryPoints:
    from importlib import metadata  # opened when needed, for it takes long

    return metadata.entry_points(group=GROUP)


def _class(name: str, wrong: type[IrisError] = SettingError) -> type[Device]:
    found = DEVICES.get(name)
    if found is None:
        others = {point.name: point.value for point in _entry_points()}
        if name not in others:
            names = ", ".join([*DEVICES, *others])
            raise wrong(f"there is no device {name!r}; there are {names}")
        found = others[name]
    loaded = pkgutil.resolve_name(found) if isinstance(found, str) else found
    if not (isinstance(loaded, type) and issubclass(loaded, Device)):
        raise wrong(f"the device {name!r} is {loaded!r}, which is no subclass of Device")
    return loaded
