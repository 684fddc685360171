"""IR before and after a command, as files: what `tests/passes/conftest.py` runs.

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
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

from iris.tools import cli

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

    def made(self) -> str:
        """What the command makes of the IR, or says is wrong with it."""
        given = io.TextIOWrapper(io.BytesIO(self.before.encode()))
        output = io.StringIO()
        with mock.patch("sys.stdin", given), redirect_stdout(output), redirect_stderr(output):
            cli.main(shlex.split(self.command))
        return output.getvalue().rstrip("\n")


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
            raise ValueError(f"no line says what runs, as `{RUN}opt --passes ...`")
        found.append(Case(command, before.strip("\n"), after.strip("\n")))
    return found


def text_of(cases: Sequence[Case]) -> str:
    return f"\n{BETWEEN}".join(map(str, cases))
