"""A user's script that runs in a process of its own, and tells what it launches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from iris.tools.launch_log import LaunchLog

PATIENCE = 2  # seconds that a script has to end once it is told to


class ScriptProcess:
    """A script that fills a log.

    Where a list is given, that takes the lines of its output, and it has no standard input.
    """

    def __init__(
        self,
        script: str,
        arguments: Sequence[str],
        log: LaunchLog,
        output: list[str] | None = None,
    ):
        self.script, self.log, self.output = script, log, output
        events, end = os.pipe()
        unbuffered = [] if output is None else ["-u"]
        module = ["-m", "iris.tools.launch_events", str(end)]
        self.process = subprocess.Popen(
            [sys.executable, *unbuffered, *module, script, *arguments],
            pass_fds=[end],
            stdin=None if output is None else subprocess.DEVNULL,
            stdout=None if output is None else subprocess.PIPE,
            stderr=None if output is None else subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        os.close(end)
        self._readers = [threading.Thread(target=self._take_events, args=[events], daemon=True)]
        if output is not None:
            reader = threading.Thread(target=self._take_output, args=[output], daemon=True)
            self._readers.append(reader)
        for reader in self._readers:
            reader.start()

    def _take_events(self, file: int) -> None:
        with open(file, encoding="utf-8") as lines:
            for line in lines:
                self.log.take(line)

    def _take_output(self, output: list[str]) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            output.extend(lines)

    @property
    def status(self) -> int | None:
        """The exit status, as a shell has it; None while the script runs."""
        status = self.process.poll()
        return status if status is None or status >= 0 else 128 - status

    def stop(self) -> int:
        """End the script, if it has not ended yet; its exit status."""
        for how in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with suppress(subprocess.TimeoutExpired):
                if self.process.poll() is None:
                    self.process.send_signal(how)
                self.process.wait(PATIENCE)
                break
        return self.wait()

    def wait(self) -> int:
        """Wait for the script, and for all that it told; its exit status."""
        while (status := self.status) is None:
            with suppress(KeyboardInterrupt):  # the script gets it, too, and decides
                self.process.wait()
        for reader in self._readers:
            reader.join(1)  # a process that the script left behind may hold the other end
        return status
