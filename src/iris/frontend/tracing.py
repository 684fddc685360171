"""The state of a trace: where ops go, and which line of the user's Python is being run."""

from __future__ import annotations

import functools
import inspect
import linecache
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np

from iris.errors import (
    ArgumentError,
    ControlFlowError,
    LanguageError,
    SourceSpot,
    TypeMistake,
    UserError,
    VerifyError,
)
from iris.frontend.numbers import VariableNumber, as_attribute
from iris.frontend.specs import Threads
from iris.ir.builder import Builder
from iris.ir.core import AnyOp, Level, Location, Op, Region, Value
from iris.ir.types import DType

Error = TypeVar("Error", bound=UserError)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# Where code is that the user has not written: NumPy's, too, calls what traces.
_NOT_THE_USERS = (str(Path(__file__).resolve().parent.parent), str(Path(np.__file__).parent))
_LIBRARY = str(Path(linecache.__file__).parent)

_MOST_REGIONS = 128  # within each other: the Metal compiler takes 256 brackets


class Watching(Protocol):
    """What notes the lines that change Python objects."""

    def note(self) -> None: ...


class Vocabulary(Protocol):
    """What the operators and words of a function mean while it is traced."""

    def promote(self, a: DType, b: DType) -> DType:
        """The dtype in which two operands meet."""

    def truediv(self, a: Any, b: Any) -> Any:
        """`a / b`."""

    def floordiv(self, a: Any, b: Any) -> Any:
        """`a // b`."""

    def mod(self, a: Any, b: Any) -> Any:
        """`a % b`."""

    def builtin(self, function: Any) -> Any:
        """What a call of one of Python's functions calls."""

    def range_of(self, *bounds: Any) -> Any:
        """What a `for` over `range(...)` goes over."""

    def condition(self, x: Any, word: str) -> Any:
        """An operand of `and`, `or` or `not` as bools."""

    def to(self, x: Any, dtype: Any, *how: Any, **named: Any) -> Any:
        """`x.to(dtype)`."""

    def dtype_of_pointer(self, pointer: Any) -> Any:
        """`pointer.dtype`."""

    def holds(self, pointer: Any) -> bool:
        """Whether a pointer is true."""

    def attribute(self, x: Any, name: str) -> Any:
        """An attribute of a tile or pointer that every vocabulary does not have."""

    def fixes(self, argument: object) -> bool:
        """Whether an argument of a launch is a constant, though its parameter is no constexpr."""

    @property
    def reckons_with_strides(self) -> bool:
        """Whether each kernel is given the strides of its arrays, as their shapes say nothing."""

    @property
    def encodings(self) -> Collection[str]:
        """The dtypes of NumPy that are stored as codes of one byte."""


class Tracer:
    """One function being traced."""

    def __init__(self, region: Region, vocabulary: Vocabulary, level: Level):
        self.builder = Builder(region)
        self.vocabulary = vocabulary  # of the function that is running
        self.level = level  # what the function says: what a program does, or what a thread does
        self.threads: Threads | None = None  # of a kernel by thread
        self.counts: dict[int, Value] = {}  # of threads, along the axes where they are an argument
        self.exists: Any = None  # whether a thread is one of these, where some may not be
        self.start = Region()  # what a kernel by thread computes at its start
        self.known: dict[Any, Any] = {}  # values that are computed there
        self.active: list[object] = []  # the kernels being traced, each called by the one before
        self.entry: CodeType | None = None  # what called the function that is traced
        self.package = ""  # of which that is
        self.watching: list[Watching] = []  # what the regions that are open watch
        # The lines that assigned variables in these regions.
        self.assigned: dict[tuple[CodeType | None, str], Location | None] = {}
        self.asked: dict[int, tuple[object, int]] = {}  # iterators, and how often for more
        # Which constants are made of.
        self.numbers: dict[Value, VariableNumber | bool] = {}
        self.naturals: set[Value] = set()  # signed values that are never negative
        # Objects with what they held and what they hold since their numbers are known again.
        self.marked: list[tuple[object, Mapping[Any, object], Mapping[Any, object]]] = []

    def watch(self, watching: Watching) -> None:
        """Open a region, which watches objects."""
        if len(self.watching) == _MOST_REGIONS:
            if (again := self._calls_itself()) is not None:
                raise error_here(
                    ControlFlowError,
                    f"{again} calls itself under a traced condition, but a program has no calls: "
                    "its recursion must end under a condition known while tracing; write a loop",
                )
            raise error_here(
                ControlFlowError,
                f"more than {_MOST_REGIONS} traced loops and branches are nested, where each elif, "
                "and, or nests in the ones before it; join conditions with & and |, or choose with "
                "iris.where",
            )
        self.watching.append(watching)

    def _calls_itself(self) -> str | None:
        """The name of a function of the program that runs within itself."""
        seen: set[CodeType] = set()
        for frame in self.frames():
            if frame.f_code in seen:
                return frame.f_code.co_name
            seen.add(frame.f_code)
        return None

    def frames(self) -> Iterator[FrameType]:
        """The frames of the functions being traced, the innermost first."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not self.entry:
            if is_users(frame):
                yield frame
            frame = frame.f_back

    def emit(self, op: Op) -> Value:
        """Put an op of one result in place, with the user's line."""
        return self.insert(op).results[0]

    def once(self, key: object, make: Callable[[], Result]) -> Result:
        """A value that is the same all along a kernel by thread, which computes it at its start."""
        value: Result | None = self.known.get(key)
        if value is None:
            builder = self.builder
            outer = builder.region, builder.before
            builder.region, builder.before = self.start, None
            try:
                value = self.known[key] = make()
            finally:
                builder.region, builder.before = outer
        return value

    def insert(self, op: AnyOp) -> AnyOp:
        """Put an op in place, with the user's line."""
        if op.level not in (None, self.level):
            raise error_here(LanguageError, _FOREIGN[self.level])
        if op.attributes:
            op.attributes = as_attribute(op.attributes)
        op.location = location()
        return self.builder.insert(op)


# What is wrong with an op of another level than the function that is traced.
_FOREIGN = {
    Level.TILE: "a tile program says what all its threads do together; what one thread does is "
    "for functions decorated with @iris.metal.kernel",
    Level.METAL: "a thread has scalars and short vectors, no tiles: index arrays, as in A[i], and "
    "take the words of iris.metal",
}


class _State(threading.local):
    tracer: Tracer | None = None
    at: tuple[CodeType, int, Location] | None = None  # the instruction asked for last, its line


_state = _State()


def current() -> Tracer:
    """The trace under way."""
    tracer = _state.tracer
    if tracer is None:
        raise error_here(
            LanguageError,
            "the tile language works inside a kernel only: call this from a function decorated "
            "with @iris.kernel; a function of arrays is made of NumPy's functions, np.zeros and so "
            "on",
        )
    return tracer


def is_tracing() -> bool:
    return _state.tracer is not None


@contextmanager
def trace_into(
    region: Region, vocabulary: Vocabulary, level: Level = Level.TILE
) -> Iterator[Tracer]:
    """Trace into a region for a while."""
    outer = _state.tracer
    _state.tracer = tracer = Tracer(region, vocabulary, level)
    try:
        yield tracer
    finally:
        _state.tracer = outer


class rules_as:
    """Turns a broken rule of the IR into an error at the user's line."""

    def __init__(self, kind: type[UserError]):
        self.kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (VerifyError, TypeMistake)):
            raise error_here(self.kind, str(error.args[0])) from None


def word(
    function: Callable[Parameters, Result], library: str = "iris"
) -> Callable[Parameters, Result]:
    """Make a function a word of the language: a wrong call of it is an error at the user's line."""

    @functools.wraps(function)
    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            return function(*arguments, **named)
        except TypeError as error:
            # Python refuses the call before anything of the function has run.
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:
                raise
            problem = str(error)
        takes = ", ".join([str(p) for p in _parameters(function)])
        raise error_here(ArgumentError, f"{problem}; write {library}.{function.__name__}({takes})")

    return call


def _parameters(function: Callable[..., object]) -> list[str]:
    """The parameters of a function, as they are given."""
    found = inspect.signature(function).parameters.values()
    return [f"{p.name}=" if p.default is not p.empty else str(p).split(":")[0] for p in found]


class at_line:
    """Errors are about a line that has run before, if that is known."""

    def __init__(self, line: Location | None):
        self.line = line

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.line is not None and isinstance(error, UserError):
            raise error_at(type(error), error.message, *self.line) from None


# Where the user is.


def is_users(frame: FrameType) -> bool:
    """Whether a frame is not of Iris, of NumPy, or of Python's own library."""
    return _is_users[frame.f_code.co_filename]


class _FilesOfUsers(dict[str, bool]):
    """Whether a file is the user's: each op that is traced asks it of a dozen frames."""

    def __missing__(self, file: str) -> bool:
        is_others = file.startswith(_LIBRARY) and "-packages" not in file
        self[file] = is_users = not is_others and not file.startswith(_NOT_THE_USERS)
        return is_users


_is_users = _FilesOfUsers()


def user_frame() -> FrameType | None:
    """The nearest frame of the user's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_users[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def location() -> Location | None:
    """The user's line."""
    # Whoever asks is of Iris; each frame that Python has to show takes it time.
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not _is_users[frame.f_code.co_filename]:
        frame = frame.f_back
    if frame is None:
        return None
    # Python finds a line by going through the table of the code, which is long.
    code, step = frame.f_code, frame.f_lasti
    at = _state.at
    if at is None or at[1] != step or at[0] is not code:
        at = _state.at = code, step, Location(code.co_filename, frame.f_lineno)
    return at[2]


def error_here(kind: type[Error], message: str) -> Error:
    """An error that points at what the user's Python is running."""
    frame = user_frame()
    if frame is None:
        return kind(message)
    column = column_of(frame.f_code, frame.f_lasti)
    return error_at(kind, message, frame.f_code.co_filename, frame.f_lineno, column)


def error_at(
    kind: type[Error], message: str, file: str, line: int, column: int | None = None
) -> Error:
    """An error at a line; without a column, at its first character."""
    return kind(message, SourceSpot.of_line(file, line, column))


def refusal(error: Exception, kinds: tuple[type, ...], instead: str) -> UserError | None:
    """What Python says of values of these kinds, as an error at the user's line; None if it is
    about something else."""
    is_theirs = isinstance(getattr(error, "obj", None), kinds)
    if is_theirs:
        return error_from(LanguageError, error, str(error))
    names = "|".join([kind.__name__ for kind in kinds])
    if not re.search(rf"\b({names})\b", str(error)):
        return None
    return error_from(
        LanguageError, error, f"Python cannot do this with a traced value: {error}; {instead}"
    )


def error_from(kind: type[Error], error: Exception, message: str) -> Error:
    """An error at the line of the user's at which one of Python's was raised."""
    frame = None
    trace = error.__traceback__
    while trace is not None:
        if is_users(trace.tb_frame):
            frame, line, instruction = trace.tb_frame, trace.tb_lineno, trace.tb_lasti
        trace = trace.tb_next
    if frame is None:
        return error_here(kind, message)
    column = column_of(frame.f_code, instruction)
    return error_at(kind, message, frame.f_code.co_filename, line, column)


def running_text() -> str:
    """The expression of the user's that is being run, if Python tells and it is on one line."""
    frame = user_frame()
    positions = getattr(frame.f_code, "co_positions", None) if frame else None
    if frame is None or positions is None:
        return ""
    line, last, start, end = list(positions())[frame.f_lasti // 2]
    source = linecache.getline(frame.f_code.co_filename, line or 0)
    return source.encode()[start:end].decode(errors="replace") if line == last else ""


def column_of(code: CodeType, instruction: int) -> int | None:
    """The column that an instruction comes from; Python tells from 3.11 on."""
    positions = getattr(code, "co_positions", None)
    if positions is None:
        return None
    for index, (_, _, column, _) in enumerate(positions()):
        if index == instruction // 2:
            return column  # type: ignore[no-any-return]
    return None
