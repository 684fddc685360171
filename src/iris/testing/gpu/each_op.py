"""Each op of each dtype, at numbers at which things go wrong; and ops of tiles of each kind."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import numpy as np

from iris.ir import parse, scalar
from iris.ir.control import Func
from iris.ir.core import Op
from iris.ir.literal import encode
from iris.ir.types import DTYPES
from iris.runtime.device import Device
from iris.testing.draft import odd_numbers, special_numbers
from iris.testing.gpu import tile_ops
from iris.testing.gpu.by_hand import none_of
from iris.testing.gpu.from_ir import differences
from iris.testing.one_op import OneOp, every_op
from iris.tools.replay import Array, Program

_DIVISIONS = ("floordiv", "mod")
_ELEMENTS = 128


def integers_are_divided(device: Device) -> str:
    """`//` and `%` of integers, large and negative ones among them."""
    ops = [op for op in every_op() if _divides_integers(op)]
    return f"{_checked(device, ops)}: // and % of every width"


def ops_are_within_bounds(device: Device) -> str:
    """All other ops, and ops of tiles."""
    ops = [op for op in every_op() if not _divides_integers(op)]
    said = _checked(device, ops)
    tiles = [*tile_ops.every_kind(8, 16)]
    none_of(differences(device, tiles, simdgroups=2))
    return f"{said} and {len(tiles)} of tiles are within the bounds of the interpreter"


def _divides_integers(op: OneOp) -> bool:
    return op.op in _DIVISIONS and DTYPES[op.result].is_integer


def _checked(device: Device, ops: list[OneOp]) -> str:
    wrong = []
    for _, group in groupby(sorted(ops, key=_last_operand), key=_last_operand):
        # A text for each dtype: compilers may take long for very large ones.
        wrong += differences(device, [program(op) for op in group], simdgroups=1)
    none_of(wrong)
    return f"{len(ops)} ops of {len({_last_operand(op) for op in ops})} dtypes"


def _last_operand(op: OneOp) -> str:
    return op.operands[-1]


def program(one: OneOp) -> Program:
    """A launch of an op, on numbers for which it is defined."""
    module = parse(one.tile(_ELEMENTS))
    (function,) = module
    assert isinstance(function, Func)
    (op,) = (op for op in function.body if op.name == one.op.split()[0])
    rng = np.random.default_rng(0)
    dtypes = [DTYPES[name] for name in one.operands]
    drawn = []
    for dtype in dtypes:
        numbers = [encode(n, dtype) for n in special_numbers(dtype) + odd_numbers(dtype)]
        drawn.append(rng.choice(np.array(numbers, np.uint64), 8 * _ELEMENTS))
    values = [scalar.from_bits(d, bits) for d, bits in zip(dtypes, drawn, strict=True)]
    defined = _defined(op, values)
    arguments = []
    for dtype, bits in zip(dtypes, drawn, strict=True):
        data = np.resize(bits[defined], _ELEMENTS)
        arguments.append(Array(dtype, (_ELEMENTS,), data=tuple(map(int, data))))
    arguments.append(Array(DTYPES[one.result], (_ELEMENTS,)))
    return Program(module, function.symbol, (1, 1, 1), tuple(arguments))


def _defined(op: Op, values: Iterable[np.ndarray]) -> np.ndarray:
    """For which operands an op is no program error."""
    values = list(values)
    defined = np.ones(values[0].shape, bool)
    for where, _ in scalar.program_errors(op, *values):
        defined &= ~where
    return defined
