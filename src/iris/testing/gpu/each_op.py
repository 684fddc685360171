"""Each op of each dtype, at numbers at which things go wrong; and ops of tiles of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np

from iris.compiler.compilation import entry_of
from iris.ir import parse, scalar
from iris.ir.literal import encode
from iris.ir.types import DTYPES, DType
from iris.runtime.device import Device
from iris.testing.draft import odd_numbers, special_numbers
from iris.testing.gpu import tile_ops
from iris.testing.gpu.by_hand import none_of
from iris.testing.gpu.from_ir import differences
from iris.testing.one_op import OneOp, every_op, tile_function
from iris.tools.replay import Array, Program, Values

_DIVISIONS = ("floordiv", "mod")
_ELEMENTS = 128
_TOGETHER = 16  # ops: a kernel has at most 31 arrays


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
        wrong += differences(device, [*programs([*group])], simdgroups=1)
    none_of(wrong)
    return f"{len(ops)} ops of {len({_last_operand(op) for op in ops})} dtypes"


def _last_operand(op: OneOp) -> str:
    return op.operands[-1]


def programs(ops: list[OneOp]) -> Iterator[Program]:
    """Launches of ops, on numbers for which they are defined: those that always are, together."""
    for operands, group in groupby(sorted(ops, key=_operands), key=_operands):
        dtypes = [DTYPES[name] for name in operands]
        bits = _drawn(dtypes)
        values = [scalar.from_bits(d, x) for d, x in zip(dtypes, bits, strict=True)]
        always = []
        for one in group:
            defined = _defined(one, values)
            if defined.all():
                always.append(one)
            else:
                yield _program([one], dtypes, [x[defined] for x in bits])
        for start in range(0, len(always), _TOGETHER):
            yield _program(always[start : start + _TOGETHER], dtypes, bits)


def _operands(op: OneOp) -> tuple[str, ...]:
    return op.operands


def _drawn(dtypes: list[DType]) -> list[Values]:
    """For each operand more numbers, as bits, than a program takes."""
    rng = np.random.default_rng(0)
    made = []
    for dtype in dtypes:
        numbers = [encode(n, dtype) for n in special_numbers(dtype) + odd_numbers(dtype)]
        made.append(rng.choice(np.array(numbers, np.uint64), 8 * _ELEMENTS))
    return made


def _defined(one: OneOp, values: list[Values]) -> Values:
    """For which operands an op is no program error."""
    function = entry_of(parse(tile_function([one], _ELEMENTS)))
    (op,) = (op for op in function.body if op.name == one.op.split()[0])
    defined = np.ones(8 * _ELEMENTS, np.bool_)
    for where, _ in scalar.program_errors(op, *values):
        defined &= ~where
    return defined


def _program(ops: list[OneOp], dtypes: list[DType], bits: list[Values]) -> Program:
    module = parse(tile_function(ops, _ELEMENTS))
    given = [
        Array(dtype, (_ELEMENTS,), data=tuple(map(int, np.resize(x, _ELEMENTS))))
        for dtype, x in zip(dtypes, bits, strict=True)
    ]
    results = [Array(DTYPES[one.result], (_ELEMENTS,)) for one in ops]
    return Program(module, entry_of(module).symbol, (1, 1, 1), (*given, *results))
