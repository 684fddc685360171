"""Which recording takes the launches of a thread, and what may not be done meanwhile."""

from __future__ import annotations

import threading
from typing import Any

from iris.errors import ArgumentError


class _Recorder(threading.local):
    recording: Any = None  # of `iris.record()`, while its `with` lasts


RECORDER = _Recorder()


def refuse_while_recording(what: str) -> None:
    """Refuse what would wait for launches that do not run."""
    if RECORDER.recording is not None:
        raise ArgumentError(
            f"{what} within iris.record(), where no launch runs; do it after the replay"
        )
