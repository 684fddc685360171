"""Scripts of what users do with a device, held against the same lines run one after the other.

    conforms(device, script)

What a script reads must be the same, to the bit, and so must the lines that launches of each stream
print, in the end; a launch that fails must be an error where the
contract of `Device` says so, and nowhere else; and each launch must run what its kernel is compiled
to when nothing has been compiled before.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from iris.compiler import candidates
from iris.compiler.compilation import Compilation, entry_of, optimize
from iris.errors import DeviceError, IrisError, ProgramError
from iris.ir import to_text
from iris.ir.core import Level
from iris.runtime.device import Array, Device, Program
from iris.runtime.devices import select
from iris.testing import launched
from iris.testing.faults import Wrong, doing
from iris.testing.in_order import InOrder, Outcome, Unsettled
from iris.testing.launched import ROWS
from iris.testing.limit import limited
from iris.testing.reduce import SECONDS
from iris.testing.report import ending_test
from iris.testing.steps import Step

LIMIT = 20.0  # seconds that a script may take: most take 0.1

_HEAD = """\
import numpy as np
import iris
from iris.runtime.devices import select
from iris.testing.launched import *

device, other = select({device!r}), select({other!r})
"""
_ARRAYS = """\
a, b, c, d, e, f, counts, wide, halves, *rows = buffers(device)
h = host()
"""
_START = f"""\
{_ARRAYS}globals().update(fresh({{kept}}))
streams = [iris.stream(device) for _ in range({ROWS})]
prepared = lambda: None
device.shuffle({{seed}})
"""


def conforms(device: Device | str, script: Script, *, seconds: float = SECONDS) -> None:
    """Asserts that a device does what the lines of a script do one after the other.

        @given(launches.scripts())
        def test_my_device(script):
            conforms(MyDevice(), script)

    The error shows the smallest script found in some seconds that goes wrong in the same way.
    """
    __tracebackhide__ = True
    on = select(device)
    wrong = fault(script, on)
    if wrong is None:
        return
    kind = type(wrong.error)

    def fails(smaller: Script) -> bool:
        found = fault(smaller, on)
        return found is not None and type(found.error) is kind

    script = smallest(script, fails, seconds)
    wrong = fault(script, on) or wrong
    error = "" if kind is AssertionError else f"{kind.__name__}: "
    raise ending_test(AssertionError)(
        f"{wrong.doing}: {error}{wrong.error}\n\n{script.text(on)}"
    ) from wrong.error


def fault(script: Script, device: Device) -> Wrong | None:
    """What goes wrong first."""
    try:
        with doing("the script"), limited(LIMIT):
            script.run(device)
    except Wrong as wrong:
        return wrong
    return None


@dataclass(frozen=True)
class Script:
    """Steps, and a number that chooses an order where the device has a choice.

    print(script.text(device))
    """

    steps: tuple[Step, ...]
    seed: int = 0

    @property
    def start(self) -> str:
        return _START.format(seed=self.seed, kept=1 + self.seed % 3)

    def text(self, device: Device) -> str:
        """Python that does on a device what the script does."""
        head = _HEAD.format(device=device.name, other=_other(device).name)
        return "\n".join([head + self.start, *[step.line for step in self._for(device)], ""])

    def _for(self, device: Device) -> list[Step]:
        """The steps that do a device no harm."""
        return [step for step in self.steps if device.outlives_strays or not step.leaves_memory]

    def run(self, device: Device) -> None:
        """Run the lines on a device; raises `Wrong` where one does what it does not in order."""
        try:
            with watched(device) as programs, candidates.watched():
                self._run(device, programs)
        finally:
            with suppress(IrisError):
                device.synchronize()
            device.shuffle(None)

    def _run(self, device: Device, programs: list[Program]) -> None:
        printed = io.StringIO()
        with redirect_stdout(printed):
            order = self._in_order(device, programs)
            with suppress(IrisError):
                device.synchronize()
        found, wanted = (
            sorted(lines, key=_stream_of)
            for lines in (printed.getvalue().splitlines(), order.lines)
        )
        assert found == wanted, f"it prints\n\n{_joined(found)}\n\nin order, {_joined(wanted)}"

    def _in_order(self, device: Device, programs: list[Program]) -> InOrder:
        """Run the lines, and check what comes of each."""
        shown: list[Array] = []
        names = {
            **vars(launched),
            "device": device,
            "other": _other(device),
            "print": lambda array: shown.append(np.array(array)),
        }
        exec(_code(self.start), names)
        order = InOrder()
        for number, step in enumerate(self._for(device), start=1):
            with doing(f"line {number}, {step.line}"):
                shown.clear()
                failure = _executed(step.line, names)
                try:
                    step.expect(order, Outcome(shown, failure))
                except Unsettled:
                    break
                is_known = not (step.is_tuned and device.is_timed)
                if failure is None and step.lowered is not None and is_known:
                    found, wanted = to_text(programs[-1].entry), _compiled(step.lowered, device)
                    assert found == wanted, f"it runs what others are compiled to:\n\n{found}"
        return order


@contextmanager
def watched(device: Device) -> Iterator[list[Program]]:
    """What a device is given to run, the latest last."""
    programs: list[Program] = []

    def noting(method: Callable[..., Any]) -> Callable[..., Any]:
        def noted(program: Program, *arguments: Any) -> Any:
            programs.append(program)
            return method(program, *arguments)

        return noted

    methods = {name: noting(getattr(device, name)) for name in ("launch", "run", "prepare")}
    vars(device).update(methods)
    try:
        yield programs
    finally:
        for name in methods:
            del vars(device)[name]


def _stream_of(line: str) -> str:
    """The stream of a launch, as what it prints says."""
    return line.split()[2]


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines) or "nothing"


@lru_cache(maxsize=1 << 12)
def _compiled(lowered: str, device: Device) -> str:
    """What a kernel is compiled to for a device if nothing was before: as text, of the line that
    lowers it on Buffers and arrays as they are at first."""
    names: dict[str, Any] = {**vars(launched), **launched.fresh(), "device": device}
    exec(_code(_ARRAYS), names)
    made = eval(_code(lowered, "eval"), names)
    assert isinstance(made, Compilation)
    level = device.accepts if isinstance(device.accepts, Level) else Level.METAL
    return to_text(entry_of(optimize(made.traced, made.options.pipeline(level, device.target))))


def _other(device: Device) -> Device:
    """A device besides."""
    return select("interp:metal" if device.name == "interp" else "interp")


@lru_cache(maxsize=1 << 12)
def _code(text: str, mode: str = "exec") -> CodeType:
    return compile(text, "<script>", mode)


def _executed(line: str, names: dict[str, Any]) -> int | None:
    """Run a line; the number of the launch that has failed, if it raises that."""
    try:
        exec(_code(line), names)
    except ProgramError as error:
        if error.program is None or launched.REFUSED not in str(error):
            raise
        return error.program[0]
    except DeviceError as error:
        if "stray" not in str(error):
            raise
        return launched.STRAY
    return None


def smallest(script: Script, fails: Callable[[Script], bool], seconds: float) -> Script:
    """The smallest script found in some seconds that still `fails`: steps are left out, first many
    at a time, and made simpler."""
    end = time.monotonic() + seconds

    def attempt(steps: Sequence[Step], seed: int) -> bool:
        """Whether the script still fails with some steps, which then are its own."""
        nonlocal script
        candidate = Script(tuple(steps), seed)
        if candidate == script or time.monotonic() > end or not fails(candidate):
            return False
        script = candidate
        return True

    size = len(script.steps)
    while size:
        start = 0
        while start < len(script.steps):
            before, after = script.steps[:start], script.steps[start + size :]
            if not attempt([*before, *after], script.seed):
                start += size
        size //= 2
    attempt(script.steps, 0)
    for at in range(len(script.steps)):
        while any(
            attempt([*script.steps[:at], simpler, *script.steps[at + 1 :]], script.seed)
            for simpler in script.steps[at].simpler()
        ):
            pass
    return script
