"""`iris doctor`: what there is on this machine, and whether it works.

    iris doctor                       every device, and the default one in full
    iris doctor --device softmetal    another one in full
    iris doctor -o report.txt         writes the report there (default: iris-doctor.txt)

Says which devices there are, and tries a launch on each that is here. On the default one, or the
one that is asked for, it runs checks and times a few kernels, one line each:

    miscompiles  code that Apple's compiler is known to have got wrong
    lanes        which lane of a simdgroup has which elements of a matrix
    tensors      the same of Metal 4's cooperative tensors, where IRIS_TARGET has them
    integers     // and % of large and negative integers
    numbers      nan, infinity and subnormal numbers, in each math mode
    ops          each op of each dtype, against the interpreter
    launches     what every device must do: memory, launches, streams, errors
    replay       recordings as indirect command buffers, which are used from then on
    barriers     programs of every number of simdgroups
    timing       a copy, products of matrices, attention

With --validate it runs again under Metal's validation of calls and of kernels, which stops at the
first wrong call, and whatever that says is wrong.

The exit code is 1 if anything was wrong. A report of a problem needs no more than the file that is
written: it has these lines, all that was wrong, and what the machine is.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator

import numpy as np

import iris
from iris.codegen.languages.msl import MSL
from iris.compiler.compilation import target_of
from iris.errors import IrisError
from iris.ir.core import Level
from iris.runtime.device import Device
from iris.runtime.devices import devices, select
from iris.runtime.metal import Metal
from iris.testing import conformance, gpu, kernels
from iris.testing.gpu.speeds import work_is_right_and_timed
from iris.tools.opt import write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", help="the device to try (default: that of launches)")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="iris-doctor.txt",
        help="write the report here (default: %(default)s)",
    )
    parser.add_argument(
        "--validate", action="store_true", help="run it under Metal's validation, which is slow"
    )


def run_command(options: argparse.Namespace) -> None:
    if options.validate:
        _validate(options)
        return
    report = _Report()
    mac = platform.mac_ver()[0]
    system = f"macOS {mac}" if mac else platform.platform()
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    report.say("machine", f"{platform.machine()}, {system}, {versions}, Iris {iris.__version__}")
    for there in devices():
        fault = None if there.missing is not None else _fault(there.name)
        if fault is None:
            report.say("device", str(there))
        else:
            report.wrong(there.name, fault, line="device")
    device = _selected(options.device)
    if device.name not in report.names:
        report.say("trying", f"{device.name}: {device.describe()}")
        for name, check in _checks(device):
            try:
                report.say(name, check(device))
            except _FAULTS as error:
                report.wrong(name, _words(error))
    write(options.output, report.text(device))
    report.say("report", f"{options.output} has all that a report of a problem needs")
    if report.names:
        raise IrisError(f"{len(report.names)} checks failed: {', '.join(report.names)}")
    print("everything is as it must be")


# Read when a process makes its first device. [man MetalValidation]
_VALIDATION = {
    "MTL_DEBUG_LAYER": "1",
    "MTL_DEBUG_LAYER_WARNING_MODE": "nslog",
    "MTL_SHADER_VALIDATION": "1",
    "MTL_SHADER_VALIDATION_REPORT_TO_STDERR": "1",
}
_ENABLED = re.compile(r"Metal \w+ Validation Enabled")  # no more than that it is


def _validate(options: argparse.Namespace) -> None:
    """Run again in a process that Metal validates."""
    arguments = ["doctor", "-o", options.output]
    if options.device is not None:
        arguments += ["--device", options.device]
    again = "import sys; from iris.tools.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", again, *arguments],
        env=os.environ | _VALIDATION,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = [line for line in done.stderr.splitlines() if not _ENABLED.search(line)]
    if said or done.returncode:
        how = f"by signal {-done.returncode}" if done.returncode < 0 else f"with {done.returncode}"
        raise IrisError("\n".join([f"under validation it ended {how}, and this was said:", *said]))
    print("validation found nothing")


class _Report:
    """The printed lines, and each error in full."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: list[str] = []  # of failed checks
        self.details: list[str] = []

    def say(self, name: str, words: str) -> None:
        self.lines.append(f"{name:11} {words}")
        print(self.lines[-1], flush=True)

    def wrong(self, name: str, words: str, line: str | None = None) -> None:
        first, *others = words.splitlines()
        more = f" (and {len(others)} more, in the report)" if others else ""
        self.say(line or name, f"{f'{name}: ' if line else ''}WRONG: {first}{more}")
        self.names.append(name)
        self.details.append(f"What was wrong: {name}\n\n{words}\n")

    def text(self, device: Device) -> str:
        """The report, with the variables of the environment that are ours."""
        settings = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("IRIS_")]
        target = device.target
        facts = f"{target}: {target.cores} cores, {target.clock} GHz, {target.bandwidth} GB/s"
        return "\n".join([*self.lines, "", *self.details, f"target {facts}", *settings, ""])


def _checks(device: Device) -> Iterator[tuple[str, gpu.Check]]:
    """The checks that are for a device."""
    takes_text = not isinstance(device.accepts, Level)
    has_tensors = any(one.tensors for one in target_of(device).matrices.values())
    for name, check in gpu.CHECKS.items():
        if name == "barriers":
            yield "launches", _launches
            if isinstance(device, Metal):
                yield "replay", _replays
        if name == "tensors" and not has_tensors:
            continue
        if device.accepts is MSL or (takes_text and name not in gpu.BY_HAND):
            yield name, check
    yield "timing", work_is_right_and_timed


# What a device that does not work may raise.
_FAULTS = (
    AssertionError,
    AttributeError,
    IrisError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def _fault(name: str) -> str | None:
    """What goes wrong in a small launch on a device; None if nothing does."""
    x = np.arange(100, dtype=np.float32)
    try:
        device = select(name)
        buffer = iris.asarray(np.zeros(100, np.float32), device=device)
        kernels.add[4](iris.asarray(x, device=device), x, buffer, 100, B=32, device=device)
        is_right = bool((buffer.numpy() == 2 * x).all())
    except _FAULTS as error:
        return _words(error)
    return None if is_right else "a sum of two arrays is wrong"


def _selected(name: str | None) -> Device:
    try:
        return select(name)
    except _FAULTS as error:
        raise IrisError(_words(error)) from None


def _words(error: BaseException) -> str:
    """What is checked says what is wrong, and Iris too; of another error its kind counts."""
    if isinstance(error, (AssertionError, IrisError)) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _replays(device: Device) -> str:
    """Recordings as Metal's own: a Mac uses these once this has passed."""
    assert isinstance(device, Metal)
    device.has_indirect_commands = True
    works = False
    try:
        conformance.launches_can_be_recorded(device)
        works = True
    finally:
        device.trust_indirect_commands(works)
    return "indirect command buffers do what launches do"


def _launches(device: Device) -> str:
    """What every device must do."""
    wrong = []
    for check in conformance.CHECKS:
        try:
            check(device)
        except _FAULTS as error:
            wrong.append(f"{check.__name__}: {' '.join(_words(error).split())}")
    if wrong:
        raise AssertionError("\n".join(wrong))
    return f"{len(conformance.CHECKS)} checks"
