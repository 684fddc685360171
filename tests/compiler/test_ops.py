"""`iris.ops` and `iris.api`: elementwise functions that write to a Buffer."""

from __future__ import annotations

import numpy as np
import pytest

from iris import api, nn, ops
from iris.errors import ArgumentError
from on_metal import SHARING


@pytest.fixture(params=["interp", pytest.param(SHARING, marks=pytest.mark.metal)])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.5, 2, shape).astype(np.float32)


def test_operands_broadcast_into_a_buffer(device: str) -> None:
    a, b = floats(3, 70), floats(70)
    x, y = (api.asarray(v, persistent=True, device=device) for v in (a, b))
    out = api.empty_like(x, persistent=True)
    assert ops.add(x, y, out) is out
    np.testing.assert_array_equal(api.to_numpy(out), a + b)
    assert api.peek(out, 1, 2) == (a + b)[1, 2]
    assert api.peek(out, 72) == (a + b)[1, 2]
    # In place, and onto what only a part of the operands is as large as.
    ops.mul(out, 2.0, out=out)
    ops.relu(out, out)
    ops.sub(out, y, out)
    np.testing.assert_array_equal(out.numpy(), (a + b) * 2 - b)


def test_a_million_sums_by_buffers_that_stay_on_the_device() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 1_000_000)).astype(np.float32)
    a_buf = api.asarray(a, persistent=True)
    b_buf = api.asarray(b, persistent=True)
    out_buf = api.empty_like(a_buf, persistent=True)

    ops.add(a_buf, b_buf, out_buf)
    result = api.to_numpy(out_buf)
    np.testing.assert_array_equal(result, a + b)


def test_a_result_that_does_not_fit_is_refused() -> None:
    x = api.asarray(floats(3, 70), device="interp")
    with pytest.raises(ArgumentError, match="does not go into Buffer"):
        ops.add(x, x, api.empty(70, device="interp"))
    with pytest.raises(ArgumentError, match="out is a Buffer, not a ndarray"):
        ops.add(x, x, np.empty((3, 70), np.float32))
    with pytest.raises(ArgumentError, match="takes 2 operands"):
        ops.add(x)


UNARY = {
    **{name: getattr(np, name) for name in ("abs", "cos", "exp", "log", "sin", "sqrt", "square")},
    **{name: getattr(nn, name) for name in ("erf", "gelu", "relu", "sigmoid", "silu")},
    "neg": np.negative,
    "tanh": np.tanh,
}
BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    **{name: getattr(np, name) for name in ("maximum", "minimum")},
}


def test_every_function_is_numpys() -> None:
    there = {n for n, v in vars(ops).items() if isinstance(v, ops.ElementwiseFunction)}
    assert there == UNARY.keys() | BINARY.keys()
    a, b = floats(2, 40) - 1, floats(40)
    x, y = (api.asarray(v, device="interp") for v in (a, b))
    for name, function in UNARY.items():
        given, buffer = (b, y) if name in ("log", "sqrt") else (a, x)
        found = getattr(ops, name)(buffer)
        np.testing.assert_allclose(found.numpy(), function(given), 1e-5, 1e-6, err_msg=name)
    for name, function in BINARY.items():
        found = getattr(ops, name)(y, x)
        np.testing.assert_allclose(found.numpy(), function(b, a), 1e-5, 1e-6, err_msg=name)
