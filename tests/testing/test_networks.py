"""Random calls of functions of `iris.nn` give what formulas do, and wrong ones are found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from iris import nn
from iris.testing import networks
from iris.testing.networks import Call, Drawn

X = np.array([[-1.0, 0.5, 2.0], [3.0, 0.0, -0.25]], np.float32)


@given(networks.calls())
def test_calls(call: Call) -> None:
    call.check()


def test_what_is_wrong_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Call("softmax", Drawn([X], {"axis": 0}))
    call.check()
    right = nn.softmax
    monkeypatch.setattr(nn, "softmax", lambda x, axis: right(x, axis=-1))
    with pytest.raises(AssertionError, match=r"nn\.softmax\(np\.array"):
        call.check()


def test_another_dtype_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Call("relu", Drawn([X.astype(np.float16)], {}))
    call.check()
    right = nn.relu
    monkeypatch.setattr(nn, "relu", lambda x: right(x).astype(np.float32))
    with pytest.raises(AssertionError, match="of float32, not float16"):
        call.check()
