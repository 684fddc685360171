"""Functions that read what changes, constants that are chosen, calls that are refused, reads of
Buffers, and single words of kernels by thread."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from iris.compiler import arguments, autotune, candidates, launch_recording
from iris.frontend import captured
from iris.frontend.arrays import array_function
from iris.frontend.threads import function, memory, types
from iris.runtime import buffer
from iris.testing import buffer_reads, captures, refused_calls, thread_words, tuning
from iris.testing.choices import Choices
from on_metal import METAL
from support import counts


@settings(max_examples=counts(15, 1000), deadline=None)
@given(captures.histories())
def test_calls_follow_what_changes(history: captures.History) -> None:
    history.check()


@settings(max_examples=counts(8, 1000), deadline=None)
@given(tuning.launches())
def test_launches_write_what_their_constants_ask_for(launches: tuning.Launches) -> None:
    launches.check()


@settings(max_examples=counts(100, 2000), deadline=None)
@given(refused_calls.calls())
def test_wrong_calls_are_refused_and_right_ones_are_not(call: refused_calls.Refused) -> None:
    call.check()


@settings(max_examples=counts(30, 2000), deadline=None)
@given(buffer_reads.reads())
def test_buffers_hold_what_was_written(read: buffer_reads.Reads) -> None:
    read.check()


@pytest.mark.metal
@settings(max_examples=counts(60, 2000), deadline=None)
@given(buffer_reads.reads([METAL]))
def test_buffers_of_metal_hold_what_was_written(read: buffer_reads.Reads) -> None:
    read.check()


@settings(max_examples=counts(30, 2000), deadline=None)
@given(thread_words.words())
def test_words_store_what_numpy_computes(word: thread_words.ThreadWords) -> None:
    word.check()


def _words(data: bytes) -> thread_words.ThreadWords:
    return thread_words.ThreadWords(Choices(data))


@pytest.mark.parametrize(
    ("draw", "owner", "name", "wrong", "error"),
    [
        (captures.History, captured, "_differ", lambda now, then: False, "it gives"),
        (captures.History, captured, "_differ", lambda now, then: now != then, "it gives"),
        (tuning.Launches, candidates, "_agree", lambda *arguments: True, "it writes"),
        (
            tuning.Launches,
            autotune.Chooser,
            "check_left_out",
            lambda *arguments: None,
            "a launch may give|not about",
        ),
        (refused_calls.Refused, arguments, "overlaps_itself", lambda array: False, "not refused"),
        (refused_calls.Refused, arguments, "overlaps_itself", lambda array: True, "is refused"),
        (refused_calls.Refused, launch_recording, "_form", lambda argument: "", "not refused"),
        (
            buffer_reads.Reads,
            buffer.Buffer,
            "peek",
            lambda self, *index: -1,
            "peek",
        ),
        (
            refused_calls.Refused,
            launch_recording.Recording,
            "_know_buffers",
            lambda self: setattr(self, "_buffers", []),
            "not refused",
        ),
        (refused_calls.Refused, array_function, "_check_kept", lambda *given: None, "not refused"),
        (
            buffer_reads.Reads,
            buffer,
            "_adopted",
            lambda on, array: on.adopt(array) if array.nbytes >= 4096 else None,
            "shares what lies in memory otherwise|takes for two|compatible|read-only",
        ),
        (_words, memory.Elements, "_moves_whole", lambda self: True, "one access"),
        (
            refused_calls.Refused,
            function,
            "declaration",
            lambda name, said: types.declaration(name, said)._replace(is_const=False),
            "not refused",
        ),
    ],
)
def test_mistakes_are_found(
    draw: Callable[[bytes], Any],
    owner: Any,
    name: str,
    wrong: Any,
    error: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises(Exception, match=error):
        for seed in range(120):
            draw(hashlib.shake_128(bytes([seed])).digest(48)).check()
