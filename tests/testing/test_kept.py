"""Caches find what was put into them and nothing else; wrong ones are found out."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings

from iris.runtime import cache
from iris.testing import kept
from iris.testing.kept import BYTES, History
from support import counts

SEEDS = range(100)


@settings(max_examples=counts(200, 20_000))
@given(kept.histories())
def test_caches_find_what_was_put(history: History) -> None:
    history.check()


def _drawn(seed: int) -> History:
    return History(hashlib.shake_128(bytes([seed])).digest(BYTES))


def test_a_checksum_without_the_name_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_digest", lambda key, content: hashlib.sha256(content).digest())
    with pytest.raises(AssertionError, match="it finds b"):
        for seed in SEEDS:
            _drawn(seed).check()


def test_a_key_of_texts_run_together_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.Cache, "key", lambda self, *parts: _hashed("".join(parts)))
    with pytest.raises(AssertionError, match="it finds b"):
        for seed in SEEDS:
            _drawn(seed).check()


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
