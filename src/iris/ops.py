"""Elementwise functions of Buffers and arrays, which write to a Buffer if they are given one.

    a = api.asarray(x, persistent=True)
    ops.add(a, b, out)
    ops.relu(out, out)

Operands broadcast as NumPy's do.  Each call is a kernel: `iris.jit` makes one of a chain of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iris import nn
from iris.compiler.jit import Jit, jit
from iris.compiler.kernel import kernel
from iris.errors import ArgumentError
from iris.frontend.language import arange, cdiv, program_id
from iris.frontend.memory import load, store
from iris.frontend.tracing import error_here
from iris.runtime.buffer import Buffer, empty_like

_BLOCK = 1024


@kernel
def _copy(x: Any, out: Any, n: Any) -> None:
    i: Any = program_id(0)
    i = i * _BLOCK + arange(0, _BLOCK)
    store(out + i, load(x + i, mask=i < n), mask=i < n)


class ElementwiseFunction:
    """`function(*operands)`, or `function(*operands, out)`."""

    def __init__(self, name: str, compiled: Jit, operands: int):
        self.__name__ = name
        self._compiled, self._operands = compiled, operands

    def __call__(self, *operands: Any, out: Any = None) -> Any:
        if len(operands) == self._operands + 1 and out is None:
            *operands, out = operands  # type: ignore[assignment]
        if len(operands) != self._operands:
            raise error_here(
                ArgumentError,
                f"ops.{self.__name__} takes {self._operands} operands, and out; not "
                f"{len(operands)} operands",
            )
        if out is None:
            return self._compiled(*operands)
        if not isinstance(out, Buffer):
            raise error_here(ArgumentError, f"out is a Buffer, not a {type(out).__name__}")
        buffers = [x for x in operands if isinstance(x, Buffer) and x.device is out.device]
        if any(out.device.overlap(x.argument, out.argument) for x in buffers):
            # Kernels of graphs take it that nothing else has the memory of what they write.
            made = empty_like(out)
            self._compiled.into(made, *operands)
            _copy[cdiv(out.size, _BLOCK)](made, out, out.size)
        else:
            self._compiled.into(out, *operands)
        return out

    def __repr__(self) -> str:
        return f"iris.ops.{self.__name__}"


def _unary(name: str, function: Callable[[Any], Any]) -> ElementwiseFunction:
    return ElementwiseFunction(name, jit(lambda x: function(x)), 1)


def _binary(name: str, function: Callable[[Any, Any], Any]) -> ElementwiseFunction:
    return ElementwiseFunction(name, jit(lambda x, y: function(x, y)), 2)


add = _binary("add", np.add)
sub = _binary("sub", np.subtract)
mul = _binary("mul", np.multiply)
div = _binary("div", np.divide)
pow = _binary("pow", np.power)
maximum = _binary("maximum", np.maximum)
minimum = _binary("minimum", np.minimum)

abs = _unary("abs", np.absolute)
cos = _unary("cos", np.cos)
erf = _unary("erf", nn.erf)
exp = _unary("exp", np.exp)
gelu = _unary("gelu", nn.gelu)
log = _unary("log", np.log)
neg = _unary("neg", np.negative)
relu = _unary("relu", nn.relu)
sigmoid = _unary("sigmoid", nn.sigmoid)
silu = _unary("silu", nn.silu)
sin = _unary("sin", np.sin)
sqrt = _unary("sqrt", np.sqrt)
square = _unary("square", np.square)
tanh = _unary("tanh", np.tanh)
