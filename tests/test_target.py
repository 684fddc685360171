"""The target is data: frozen, hashable, and the same everywhere."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from iris.target import AppleGPU


def test_target_is_a_value() -> None:
    target = AppleGPU()
    assert hash(target) == hash(AppleGPU())
    assert replace(target, banks=16) != target
    with pytest.raises(FrozenInstanceError):
        target.banks = 16  # type: ignore[misc]


def test_geometry() -> None:
    target = AppleGPU()
    assert target.max_threads % target.simdgroup_width == 0
    assert target.threadgroup_bytes % (target.banks * target.bank_bytes) == 0
    assert target.line_bytes == target.banks * target.bank_bytes
