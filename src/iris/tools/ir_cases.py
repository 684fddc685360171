"""IR before and after a command, as files: what `iris test` runs.

    # run: iris opt --passes cse

    # Two equal ops become one.
    func ...

    # becomes
    func ...

    # ---
    # The next case, of the same command.
    func ...

Comments above the IR say what it shows.  Where a command fails, its message is what comes out.
"""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass

from iris.errors import FileError

RUN = "# run: iris "
BECOMES = "# becomes"
BETWEEN = "# ---\n"


@dataclass(frozen=True)
class Case:
    """IR before and after a command.  `str` is the text it was read from."""

    command: str
    before: str  # with the comments above it
    after: str

    def __str__(self) -> str:
        return f"{self.before}\n\n{BECOMES}\n{self.after}\n"

    @property
    def title(self) -> str:
        """The first sentence, but for what runs."""
        lines = [line for line in self.before.splitlines() if not line.startswith(RUN)]
        first = next((line for line in lines if line.startswith("# ")), "")
        return first.removeprefix("# ").rstrip(".:")

    def made(self, run: Callable[[Sequence[str]], object]) -> str:
        """What the command makes of the IR, or says is wrong with it; `run` runs a command line."""
        given = io.TextIOWrapper(io.BytesIO(self.before.encode()))
        output = io.StringIO()
        with _stdin(given), redirect_stdout(output), redirect_stderr(output), suppress(SystemExit):
            run(shlex.split(self.command))
        return output.getvalue().rstrip("\n")


@contextmanager
def _stdin(given: io.TextIOWrapper) -> Iterator[None]:
    """Read this as standard input."""
    usual, sys.stdin = sys.stdin, given
    try:
        yield
    finally:
        sys.stdin = usual


def cases(text: str) -> list[Case]:
    """The cases of a file; each runs what the last `# run:` says."""
    found: list[Case] = []
    command = ""
    for part in text.split(BETWEEN):
        before, _, after = part.partition(f"{BECOMES}\n")
        for line in before.splitlines():
            if line.startswith(RUN):
                command = line.removeprefix(RUN)
        if not command:
            raise FileError(f"no line says what runs, as `{RUN}opt --passes ...`")
        found.append(Case(command, before.strip("\n"), after.strip("\n")))
    return found


def text_of(cases: Sequence[Case]) -> str:
    return f"\n{BETWEEN}".join(map(str, cases))
