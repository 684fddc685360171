"""Random small expressions, and what passes make of them, at the numbers where rules go wrong.

    @given(small_expressions.several())
    def test_rules(expressions):
        expressions.check()

Many expressions are computed at once, of ops within ops within ops: of any dtypes, with casts
between them, an operand at times twice.  Proofs go over all values, but only of few dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from iris.ir import math, scalar
from iris.ir.control import Func, Return
from iris.ir.core import Level, Module, Op, Value
from iris.ir.literal import encode
from iris.ir.math import Constant, element_type
from iris.ir.types import DTYPES, DType, bool_, f32, i32, u32
from iris.passes import PASSES, Pass
from iris.testing.expressions import (
    Call,
    Expression,
    Form,
    Number,
    Unknown,
    forms,
    function,
    numbers,
)
from iris.testing.oracles import preserves
from iris.testing.proofs import program_of
from iris.testing.reduce import SECONDS
from iris.tools.run import bits_of

TOGETHER = 60  # expressions in one function
POINTS = 256  # at which each is computed
DEPTH = 3
DTYPES_TOGETHER = 3
OPS = 6  # that give a dtype, and casts
_ALL = [*DTYPES.values()]
# What casts between dtypes of one kind lose is of few of their numbers.
_FAMILIES = (_ALL, _ALL, *[[d for d in _ALL if d.kind is k.kind] for k in (f32, i32, u32)])
_PASSES = ("fold", "canonicalize", "simplify")
_SEEDS = 1 << 32
_OF_NO_RULE = (
    math.Sin,
    math.Cos,
    math.Tanh,
    math.Erf,
    math.Sigmoid,
    math.Rsqrt,
    math.Exp,
    math.Log,
)

Values = npt.NDArray[Any]


@cache
def _forms_by_op(dtype: DType, other: DType) -> Mapping[DType, Mapping[type[Op], Sequence[Form]]]:
    """For each of two dtypes, and for bools, the ops that give it, each with its forms."""
    dtypes = (*dict.fromkeys((dtype, other, bool_)),)
    found: dict[DType, dict[type[Op], list[Form]]] = {dtype: {} for dtype in dtypes}
    for form in forms(dtypes):
        if form.cls not in _OF_NO_RULE:
            found[form.dtype].setdefault(form.cls, []).append(form)
    return found


class _Draft:
    """Expressions of a few dtypes, and of a few ops, which so meet often; casts are among them."""

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.dtypes = self.random.sample(self.random.choice(_FAMILIES), DTYPES_TOGETHER)
        self.known: dict[DType, list[Expression]] = {dtype: [] for dtype in (*self.dtypes, bool_)}
        self.forms = {dtype: self._some(dtype) for dtype in self.known}

    def _some(self, dtype: DType) -> Sequence[Sequence[Form]]:
        others = sorted({*self.known} - {dtype}, key=str)
        by_op: dict[type[Op], list[Form]] = {}
        for other in others:
            for cls, some in _forms_by_op(*sorted((dtype, other), key=str))[dtype].items():
                by_op.setdefault(cls, []).extend(some)
        drawn = self.random.sample([*by_op], min(OPS, len(by_op)))
        # Casts of casts tell one dtype from another.
        chosen: list[type[Op]] = [math.Cast, math.Cast, *drawn]
        return [[*dict.fromkeys(by_op[cls])] for cls in chosen]

    def expression(self, dtype: DType, depth: int = DEPTH) -> Expression:
        random = self.random
        known = self.known[dtype]
        if known and random.random() < 0.2:
            return random.choice(known[-4:])
        if not depth or random.random() < 0.3:
            return self.leaf(dtype)
        form = random.choice(random.choice(self.forms[dtype]))
        # Which nan arithmetic makes is up to the machine.
        shows_bits = form.cls is math.Bitcast and form.operands[0].is_float
        operands = [
            self.leaf(t) if shows_bits else self.expression(t, depth - 1) for t in form.operands
        ]
        known.append(Call(form, tuple(operands)))
        return known[-1]

    def leaf(self, dtype: DType) -> Expression:
        if self.random.random() < 0.6:
            return Unknown(self.random.choice("xy") + str(dtype), dtype)
        return self.random.choice(numbers(dtype))


@dataclass
class Expressions:
    """Several, of the same few unknowns; shown is the one that a pass changes."""

    seed: int
    shown: str = field(default="", init=False)

    def check(self, passes: Sequence[Pass] = (), *, seconds: float = SECONDS) -> None:
        """Assert that passes, by default those that simplify arithmetic, keep what each computes,
        and make no error where there is none."""
        draft = _Draft(self.seed)
        made = [draft.expression(draft.random.choice([*draft.known])) for _ in range(TOGETHER)]
        several = [e for e in dict.fromkeys(made) if isinstance(e, Call)]
        if several:
            module = function(several, Level.GRAPH)
            before = _evaluated(module, self.seed)
            for pass_ in passes or [PASSES[name]() for name in _PASSES]:
                self._keep(pass_, module, several, before, seconds)

    def _keep(
        self,
        pass_: Pass,
        module: Module,
        several: Sequence[Call],
        before: Sequence[tuple[Values, Values]],
        seconds: float,
    ) -> None:
        after = module.clone()
        pass_.run(after)
        now = _evaluated(after, self.seed)
        for expression, (was, failed), (is_, fails) in zip(several, before, now, strict=True):
            wrong = np.flatnonzero(~failed & (fails | (was != is_)))
            if wrong.size:
                alone = function([expression], Level.GRAPH)
                operands = [int(bits[wrong[0]]) for bits in _operands(alone, self.seed)]
                program = program_of(alone, operands)
                self.shown = str(program)
                preserves(pass_, program, seconds=seconds)
                raise AssertionError(f"{pass_} changes it only beside others:\n\n{module}")

    def __repr__(self) -> str:
        return self.shown


def _operands(module: Module, seed: int) -> list[Values]:
    """The bits of each unknown at all points, which its name and the seed tell: special numbers,
    and a few others."""
    (func,) = module
    assert isinstance(func, Func)
    found = []
    for value in func.body.arguments:
        dtype = element_type(value.type).element
        random = Random(f"{seed} {value.name}")
        some = [n.bits for n in numbers(dtype) if isinstance(n, Number)]
        some += [_other_bits(dtype, random) for _ in range(4)]
        found.append(np.array(random.choices(some, k=POINTS), np.uint64))
    return found


def _other_bits(dtype: DType, random: Random) -> int:
    # Any bits may be those of a nan that signals, of which functions are nan that ask for no value.
    return encode(random.gauss(0, 4), dtype) if dtype.is_float else random.getrandbits(dtype.bits)


def _evaluated(module: Module, seed: int) -> list[tuple[Values, Values]]:
    """For each result of a function its bits at all points, and where it is a program error."""
    (func,) = module
    assert isinstance(func, Func)
    values: dict[Value, Values] = {}
    wrong: dict[Value, Values] = {}
    for value, bits in zip(func.body.arguments, _operands(module, seed), strict=True):
        values[value] = scalar.from_bits(element_type(value.type).element, bits)
        wrong[value] = np.zeros(POINTS, np.bool_)
    for op in func.body:
        operands = [values[v] for v in op.operands]
        if isinstance(op, Return):
            return [
                (bits_of(element_type(v.type).element, values[v]), wrong[v]) for v in op.operands
            ]
        result = op.results[0]
        if isinstance(op, Constant):
            bits = np.full(POINTS, op.bits, np.uint64)
            values[result] = scalar.from_bits(op.dtype, bits)
        else:
            values[result] = scalar.evaluate(op, *operands)
        errors = [where for where, _ in scalar.program_errors(op, *operands)]
        failed = np.zeros(POINTS, np.bool_)
        for where in (*errors, *[wrong[v] for v in op.operands]):
            failed = failed | where
        wrong[result] = failed
    raise AssertionError("a function without a return")


def several() -> st.SearchStrategy[Expressions]:
    """Many expressions at once."""
    return st.integers(0, _SEEDS - 1).map(Expressions)
