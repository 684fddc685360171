"""A debugger of kernels: it looks on while an interpreter runs, and stops where it is told to.

All programs run as they always do; it shows one of them, or one of its threads.  Commands are read
from a terminal or a file; when they end, the run goes on to its end.
"""

from __future__ import annotations

import cmd
import linecache
import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from iris.errors import ProgramError, SettingError
from iris.interp.observer import Observer
from iris.ir import literal, scalar
from iris.ir.control import Func
from iris.ir.core import Op, Value
from iris.ir.metal import SIMDGROUP_WIDTH
from iris.ir.text.printer import Printer

AROUND = 4  # lines that `list` shows on either side
SHOWN = 16  # elements of a value that `print` shows without `all`
_WHAT = re.compile(r"%?(?P<name>\w+)(?:\[(?P<index>[0-9]+)\])?")


class Quit(Exception):
    """The user has seen enough."""


class Place(NamedTuple):
    """A program of a launch, and a thread of it."""

    program: tuple[int, int, int]
    thread: int
    number: int  # of the program
    threads: int  # that a program has

    @classmethod
    def of(
        cls,
        function: Func,
        grid: tuple[int, int, int],
        program: tuple[int, int, int],
        thread: int,
    ) -> Place:
        """One that is there; else an error."""
        for index, size in zip(program, grid, strict=True):
            if not 0 <= index < size:
                raise SettingError(f"there is no program {program}: the grid is {grid}")
        threads = function.simdgroups * SIMDGROUP_WIDTH or 1
        if not 0 <= thread < threads:
            count = f"has threads 0 to {threads - 1}" if threads > 1 else "is one thread"
            raise SettingError(f"there is no thread {thread}: a program {count}")
        x, y, z = program
        return cls(program, thread, x + grid[0] * (y + grid[1] * z), threads)

    def __str__(self) -> str:
        thread = f", thread {self.thread}" if self.threads > 1 else ""
        return f"program {self.program}{thread}"


class Listing(Printer):
    """The text of a function, and the line of each op."""

    def __init__(self, function: Func):
        super().__init__(locations=False)
        self.line_of: dict[Op, int] = {}
        self.op(function, "")
        self.values = {text[1:]: value for value, text in self.names.items()}

    def op(self, op: Op, indent: str) -> None:
        self.line_of[op] = len(self.lines) + 1
        super().op(op, indent)


class Stepper(cmd.Cmd, Observer):
    """Reads commands where it stops: before an op, or at an error."""

    doc_header = "commands (help COMMAND says more):"

    def __init__(
        self,
        function: Func,
        grid: tuple[int, int, int],
        program: tuple[int, int, int],
        thread: int,
        commands: IO[str],
        output: IO[str],
    ):
        super().__init__(stdin=commands, stdout=output)
        self.use_rawinput = commands.isatty()
        self.prompt = "(step) " if self.use_rawinput else ""
        self.listing = Listing(function)
        self.function, self.grid = function, grid
        self.focus(program, thread)
        self.left: int | None = 1  # ops until the next stop, if there is to be one
        self.breaks: list[str] = []
        self.watched: dict[str, bytes | None] = {}  # what each was last
        self.frame: Any = None
        self.at: Op | None = None
        self.given: Sequence[Value] = []  # what that op has given, which the frame has yet to hold
        self.detached = False  # no commands are left

    # What the interpreter tells.

    def before(self, frame: Any, op: Op) -> None:
        self.frame, self.at, self.given = frame, op, []
        if self.detached or not self._is_here():
            return
        reasons = [f"breakpoint {place}" for place in self.breaks if self._is_at(place, op)]
        reasons += self._changes("changed")
        if self.left is not None:
            self.left -= 1
        if reasons or self.left == 0:
            self._stop(*reasons)

    def after(self, frame: Any, op: Op, results: Sequence[Any]) -> None:
        number, thread = self.place.number, self.place.thread
        if not frame.runs(number, thread):
            return
        for value, x in zip(op.results, results, strict=True):
            if x is None:  # threads left a loop with different memories
                continue
            self.last[value] = frame.part(value, x, number, thread)
            if self.left is not None and not self.detached:
                self._say("  " + self._text(value))
        self.frame, self.at, self.given = frame, op, op.results
        changed = [] if self.detached else self._changes("changed by this op")
        if changed:
            self._stop(*changed)

    def failed(self, error: ProgramError) -> None:
        """Stop where something went wrong, in the program and thread that did it."""
        self._say(str(error))
        if error.program is not None:
            x, y, z = (*error.program, 0, 0)[:3]
            self.focus((x, y, z), error.thread or 0)
        if not self.detached:
            self._stop()

    def _stop(self, *reasons: str) -> None:
        for reason in reasons:
            self._say(reason)
        self.do_where("")
        self.left = None
        self.cmdloop()

    def _is_here(self) -> bool:
        return bool(self.frame.runs(self.place.number, self.place.thread))

    def _is_at(self, place: str, op: Op) -> bool:
        """Whether an op is on a line of the listing, or is the first op of a source line."""
        file, _, line = place.rpartition(":")
        if not file:
            return self.listing.line_of.get(op) == int(line)
        if op.location is None or op.location.line != int(line):
            return False
        goes_on = op.previous is not None and op.previous.location == op.location
        return not goes_on and PurePath(op.location.file).match(file)

    def _changes(self, how: str) -> list[str]:
        changed = []
        for text, old in self.watched.items():
            value, index = self._named(text)
            found = self._current(value)
            new = None if found is None else np.asarray(_element(found, index)).tobytes()
            if new is not None and new != old:
                self.watched[text] = new
                if old is not None:
                    changed.append(f"{how}: {self._text(value, index)}")
        return changed

    def _current(self, value: Value) -> Any:
        """What the thread has of a value, or had last; None if it has not computed it yet."""
        if value in self.frame and value not in self.given and self._is_here():
            x = self.frame[value]
            place = self.place
            self.last[value] = self.frame.part(value, x, place.number, place.thread)
        return self.last.get(value)

    def _named(self, text: str) -> tuple[Value, int | None]:
        """A value by its name in the listing, or one element of it: `%x` or `%X[3]`."""
        match = _WHAT.fullmatch(text)
        value = match and self.listing.values.get(match["name"])
        if not match or value is None:
            raise SettingError(f"no value is called {text or 'so'}; `list` shows the program")
        return value, None if match["index"] is None else int(match["index"])

    # What is shown.

    def _say(self, text: str) -> None:
        self.stdout.write(text + "\n")

    def _text(self, value: Value, index: int | None = None, most: int = SHOWN) -> str:
        name = self.listing.names[value]
        if index is not None:
            name += f"[{index}]"
        x = self.last.get(value)
        if x is None:
            return f"{name} has no value yet"
        return f"{name} = {shown(value, _element(x, index), most)}"

    def _op_lines(self, op: Op) -> str:
        line = self.listing.line_of[op]
        text = self.listing.lines[line - 1].strip()
        shown = f"{line:5}   {text}"
        if op.location is not None:
            source = linecache.getline(op.location.file, op.location.line).strip()
            shown += f"\n        {op.location.file}:{op.location.line}"
            if source not in ("", text):
                shown += f": {source}"
        return shown

    # Commands; the text of each is its help.

    def focus(self, program: tuple[int, int, int], thread: int) -> None:
        """Show another program and thread from now on."""
        self.place = Place.of(self.function, self.grid, program, thread)
        self.last: dict[Value, Any] = {}  # what the thread computed last

    def do_step(self, argument: str) -> bool:
        """step [N]: run the next op, or the next N, and show what they give (s)"""
        self.left = _number(argument or "1")
        return True

    def do_continue(self, argument: str) -> bool:
        """continue: run to the next breakpoint, change or error (c)"""
        self.left = None
        return True

    def do_break(self, argument: str) -> None:
        """break LINE | FILE:LINE: stop at a line of the listing, or of a source file (b)"""
        _number(argument.rpartition(":")[2])
        known = self.listing.line_of
        if not any(self._is_at(argument, op) for op in known):
            raise SettingError(f"no op is at {argument}; `list` shows the program with its lines")
        self.breaks.append(argument)

    def do_watch(self, argument: str) -> None:
        """watch %x | %X[3]: stop when a value changes, or an element of one (w)"""
        value, index = self._named(argument)
        found = self._current(value)
        old = None if found is None else np.asarray(_element(found, index)).tobytes()
        self.watched[argument] = old

    def do_delete(self, argument: str) -> None:
        """delete [PLACE | VALUE]: forget a breakpoint or a watch, or all of them (d)"""
        if argument and argument not in [*self.breaks, *self.watched]:
            raise SettingError(f"nothing stops at {argument}")
        self.breaks = [b for b in self.breaks if argument and b != argument]
        self.watched = {w: x for w, x in self.watched.items() if argument and w != argument}

    def do_print(self, argument: str) -> None:
        """print %x | %X[3] | all %x: show a value of this thread, an element, or all of it (p)"""
        words = argument.split()
        most = SHOWN
        if words[:1] == ["all"]:
            most, words = 1 << 62, words[1:]
        value, index = self._named(" ".join(words))
        self._current(value)
        self._say(self._text(value, index, most))

    def do_values(self, argument: str) -> None:
        """values: show all that this thread has now (v)"""
        for value in self.listing.names:
            if value in self.frame:
                self._current(value)
                self._say("  " + self._text(value))

    def do_list(self, argument: str) -> None:
        """list [all]: show the program around here, or all of it (l)"""
        lines, here = self.listing.lines, self.listing.line_of.get(self.at) if self.at else None
        first, last = 1, len(lines)
        if argument != "all" and here is not None:
            first, last = max(1, here - AROUND), min(last, here + AROUND)
        for number in range(first, last + 1):
            mark = "->" if number == here else "  "
            self._say(f"{number:5}{mark} {lines[number - 1]}")

    def do_where(self, argument: str) -> None:
        """where: show the op that is next, and the loops that it is in"""
        self._say(str(self.place))
        if self.at is not None:
            self._say(self._op_lines(self.at))

    def do_program(self, argument: str) -> None:
        """program X[,Y[,Z]]: show another program"""
        self.focus(numbers(argument), 0)

    def do_thread(self, argument: str) -> None:
        """thread N: show another thread of the program"""
        self.focus(self.place.program, _number(argument))

    def do_quit(self, argument: str) -> bool:
        """quit: end the run here (q)"""
        raise Quit

    def do_EOF(self, argument: str) -> bool:
        self.detached = True
        return True

    # The base calls these.

    def get_names(self) -> list[str]:
        return [name for name in dir(type(self)) if name != "do_EOF"]

    def precmd(self, line: str) -> str:
        word, _, rest = line.partition(" ")
        return f"{_SHORT.get(word, word)} {rest.strip()}".strip()

    def onecmd(self, line: str) -> bool:
        try:
            return bool(super().onecmd(line))
        except SettingError as error:
            if not self.use_rawinput:  # a script goes wrong no further
                raise
            self._say(str(error))
            return False

    def default(self, line: str) -> NoReturn:
        raise SettingError(f"there is no command {line.split()[0]}; `help` lists them")


_SHORT = {
    "s": "step",
    "c": "continue",
    "b": "break",
    "w": "watch",
    "d": "delete",
    "p": "print",
    "v": "values",
    "l": "list",
    "q": "quit",
}


def numbers(text: str) -> tuple[int, int, int]:
    """`1,0` as a place in a grid."""
    parts = [_number(part.strip()) for part in text.split(",")]
    if len(parts) > 3:
        raise SettingError(f"a program is one to three numbers, such as 1,0; not {text}")
    x, y, z = (*parts, 0, 0)[:3]
    return x, y, z


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]+", text):
        raise SettingError(f"a number is wanted, not {text!r}")
    return int(text)


def _element(x: Any, index: int | None) -> Any:
    if index is None:
        return x
    flat = np.ma.asanyarray(x).reshape(-1)
    if index >= flat.size:
        raise SettingError(f"there is no element {index}: there are {flat.size}")
    return flat[index]


def shown(value: Value, x: Any, most: int) -> str:
    """Numbers in as few digits as tell them from others of their dtype; `--` does not count."""
    dtype = value.type.element
    flat = np.ma.asanyarray(x).reshape(-1)
    bits = scalar.to_bits(dtype, np.ascontiguousarray(flat.data[:most]))
    counts = ~np.ma.getmaskarray(flat)[:most]
    texts = [literal.text(int(b), dtype) if c else "--" for b, c in zip(bits, counts, strict=True)]
    if np.ndim(x) == 0:
        return texts[0]
    more = f", ... ({flat.size} elements)" if flat.size > most else ""
    shape = f" {np.shape(x)}" if np.ndim(x) > 1 else ""
    return f"[{', '.join(texts)}{more}]{shape}"
