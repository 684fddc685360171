"""Proofs that passes keep what a function of integers computes, whatever its operands are.

    proves("fold,my-pass", '''
    func graph @f returns=[tensor<i32>](%x: tensor<i32>, %y: tensor<i32>) {
      %a: tensor<i32> = add %x, %y
      %b: tensor<i32> = sub %a, %y
      return %b
    }''')

Operands of few bits are all tried.  For more, z3 searches for some that make a difference, and
proves that there are none: `pip install z3-solver`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from iris.errors import ArgumentError
from iris.ir import Module, parse, scalar, verify
from iris.ir.control import Func, Return
from iris.ir.core import Value
from iris.ir.math import Constant, element_type
from iris.ir.types import DType, Tensor
from iris.passes import Pass, Pipeline
from iris.testing.oracles import pipeline_of, preserves
from iris.testing.reduce import SECONDS
from iris.tools.replay import ONE_PROGRAM, Array, Program, Recipe, Scalar
from iris.tools.run import bits_of

EXHAUSTIVE = 18  # bits of operands that are all tried: two of 8 bits, and two conditions
LIMIT = 10.0  # seconds that z3 may take

Values = npt.NDArray[Any]


@dataclass(frozen=True)
class Proof:
    """How a function was proven: by all operands, or by z3; the widest number in it; and what the
    passes have counted, such as the rules that they applied."""

    bits: int
    exhaustive: bool
    counts: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.bits} bits, {'all operands' if self.exhaustive else 'z3'}"


def proves(
    passes: Pass | Pipeline | str,
    function: Module | str,
    *,
    limit: float = LIMIT,
    seconds: float = SECONDS,
) -> Proof:
    """Asserts that passes keep what a function computes, for every value of its parameters.

        proves(MyPass(), module)
        proves("fold,my-pass", text)

    The function is made of ops that work on each element alone.  Where it is a program error, the
    passes may do anything; elsewhere they may make none.  If they are wrong, the error is that of
    `preserves` for operands that show it.  z3 may take `limit` seconds.
    """
    __tracebackhide__ = True
    module = parse(function) if isinstance(function, str) else function
    pipeline = pipeline_of(passes)
    after = module.clone()
    counts: Counter[str] = Counter()
    for pass_ in pipeline:
        counts.update(pass_.run(after) or {})
    verify(after)
    before, made = _only_function(module), _only_function(after)
    bits = [_dtype(v).bits for v in before.body.arguments]
    exhaustive = sum(bits) <= EXHAUSTIVE
    operands = _try_all(before, made) if exhaustive else _solve(before, made, limit)
    if operands is None:
        return Proof(max(bits, default=0), exhaustive, counts)
    program = program_of(module, operands)
    preserves(pipeline, program, seconds=seconds)
    raise AssertionError(f"the interpreter does not see what z3 does:\n\n{program}\n{after}")


def program_of(module: Module, operands: Sequence[int]) -> Program:
    """The launch of a module's only function with operands, as bits."""
    function = _only_function(module)
    recipes: list[Recipe] = []
    for value, bits in zip(function.body.arguments, operands, strict=True):
        type_ = element_type(value.type)
        if isinstance(type_, Tensor):
            recipes.append(Array(type_.element, type_.shape, data=(bits,)))
        else:
            recipes.append(Scalar(type_.element, bits))
    return Program(module, function.symbol, ONE_PROGRAM, tuple(recipes))


def _only_function(module: Module) -> Func:
    functions = [f for f in module if isinstance(f, Func)]
    if len(functions) != 1:
        raise ArgumentError(f"a proof is of one function, not of {len(functions)}")
    return functions[0]


def _dtype(value: Value) -> DType:
    return element_type(value.type).element


# All operands.


def _try_all(before: Func, after: Func) -> list[int] | None:
    """The first operands for which two functions differ, if there are any."""
    widths = [_dtype(v).bits for v in before.body.arguments]
    # An axis for each parameter; what depends on few of them has few elements.
    shape = [1 << width for width in widths]
    numbers = np.ix_(*[np.arange(size, dtype=np.uint64) for size in shape])
    was, fails_before = _evaluate(before, numbers)
    now, fails_after = _evaluate(after, numbers)
    wrong = np.zeros(shape, np.bool_) | fails_after
    for old, new in zip(was, now, strict=True):
        wrong |= old != new
    found = np.flatnonzero(wrong & ~fails_before)
    if not found.size:
        return None
    return [int(n) for n in np.unravel_index(int(found[0]), shape)]


def _evaluate(function: Func, numbers: Sequence[Values]) -> tuple[list[Values], Values]:
    """The bits of what a function returns, and where it is a program error."""
    wrong: Values = np.zeros([1] * len(numbers), np.bool_)
    values: dict[Value, Values] = {
        v: scalar.from_bits(_dtype(v), n)
        for v, n in zip(function.body.arguments, numbers, strict=True)
    }
    for op in function.body:
        operands = [values[v] for v in op.operands]
        if isinstance(op, Return):
            return [_bits(v, values[v]) for v in op.operands], wrong
        if isinstance(op, Constant):
            bits = np.full([1] * len(numbers), op.bits, np.uint64)
            values[op.result] = scalar.from_bits(op.dtype, bits)
            continue
        if scalar.meaning.get(type(op)) is None:
            raise ArgumentError(f"{op.name} does not work on each element alone: it has no proof")
        for where, _ in scalar.program_errors(op, *operands):
            wrong = wrong | where
        values[op.results[0]] = scalar.evaluate(op, *operands)
    raise AssertionError("a function without a return")


def _bits(value: Value, values: Values) -> Values:
    return bits_of(_dtype(value), values).reshape(values.shape)


# Some operands, found by z3.


def _solve(before: Func, after: Func, limit: float) -> list[int] | None:
    try:
        from iris.testing.bitvectors import find_difference
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"operands of more than {EXHAUSTIVE} bits need a solver: pip install z3-solver"
        ) from error
    return find_difference(before, after, limit)
