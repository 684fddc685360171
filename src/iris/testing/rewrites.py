"""Proofs of all that a pass does to arithmetic: every small expression that it changes is proven.

    print(proves_rewrites(Fold(), i8, u8, i32, u32))

Nobody lists the rewrites.  Expressions of one op on unknowns and numbers, and of one op within
another, are made from the declarations of all ops; the pass shows which of them it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from iris.ir.core import Level, Module, Value
from iris.ir.types import DTYPES, DType
from iris.passes import Pass
from iris.testing.expressions import (
    Call,
    function,
    is_plain,
    multiplies_unknowns,
    nested,
    simple,
    unknowns,
)
from iris.testing.proofs import LIMIT, proves

TOGETHER = 300  # expressions in one function: of more, an operand has so many users that it is slow
PRODUCT_BITS = 16  # at which z3 still proves products and quotients of two unknowns


class Rewrites:
    """How many expressions of each kind of proof were proven for each rule, or for anything else
    that a pass counts; `str` gives a table."""

    def __init__(self) -> None:
        self.proofs: dict[str, Counter[str]] = {}

    def add(self, rule: str, proof: str) -> None:
        self.proofs.setdefault(rule, Counter())[proof] += 1

    def __str__(self) -> str:
        width = max([len(rule) for rule in self.proofs] + [4])
        lines = []
        for rule, proofs in sorted(self.proofs.items()):
            parts = [f"{proof} ({count})" for proof, count in sorted(proofs.items())]
            lines.append(f"{rule:{width}}  {'; '.join(parts)}")
        return "\n".join(lines)


def proves_rewrites(pass_: Pass, *dtypes: DType, limit: float = LIMIT) -> Rewrites:
    """Asserts that a pass keeps every small expression of some dtypes, whatever its operands are.

        proves_rewrites(MyPass(), i8, u8, bool_)     # by all operands
        proves_rewrites(MyPass(), i16, i32)          # by z3

    Expressions in which two unknowns are multiplied or divided are proven at up to 16 bits, and at
    16 bits only these.  Floats have 16 bits at most.  An error is that of `proves` for the
    expression.  The result says which rules have been proven, by what.
    """
    __tracebackhide__ = True
    found = Rewrites()
    for dtype in dtypes:
        for expression in _changed(pass_, dtype):
            proof = proves(pass_, function([expression], _level(pass_)), limit=limit)
            for rule in proof.counts or (str(pass_),):
                found.add(rule, str(proof))
    return found


def _changed(pass_: Pass, dtype: DType) -> list[Call]:
    """The small expressions of a dtype that a pass changes and that can be proven."""
    solved = dtype.is_integer and dtype.bits >= PRODUCT_BITS
    others = [t for t in DTYPES.values() if not (solved and t.is_float)]

    def provable(call: Call) -> bool:
        wide = solved and dtype.bits > PRODUCT_BITS
        return not solved or multiplies_unknowns(call) is not wide

    calls = list(simple(dtype, others))
    changed = dict.fromkeys(_those_changed(pass_, calls))
    inner = [c for c in calls if is_plain(c) and c not in changed]
    # What happens to any operand happens to one that is made by an op.
    deeper = [
        c
        for c in nested(dtype, others, inner)
        if provable(c) and changed.keys().isdisjoint(_with_unknowns(c))
    ]
    return [*filter(provable, changed), *_those_changed(pass_, deeper)]


def _with_unknowns(call: Call) -> Iterator[Call]:
    """An expression with an unknown in place of another op."""
    for position, operand in enumerate(call.operands):
        if isinstance(operand, Call):
            for unknown in unknowns(operand.dtype):
                rest = call.operands[:position], call.operands[position + 1 :]
                yield Call(call.form, (*rest[0], unknown, *rest[1]))


def _those_changed(pass_: Pass, calls: Sequence[Call]) -> Iterator[Call]:
    for start in range(0, len(calls), TOGETHER):
        some = calls[start : start + TOGETHER]
        module = function(some, _level(pass_))
        numbers: dict[object, int] = {}
        before = _numbered(module, numbers)
        pass_.run(module)
        after = _numbered(module, numbers)
        yield from (c for c, a, b in zip(some, before, after, strict=True) if a != b)


def _numbered(module: Module, numbers: dict[object, int]) -> list[int]:
    """A number for each result of a function; it is the same for what is computed in one way."""
    (function,) = module
    known: dict[Value, int] = {}
    for value in function.regions[0].arguments:
        known[value] = numbers.setdefault(value.name, len(numbers))
    for op in function.regions[0]:
        operands = tuple([known[v] for v in op.operands])
        if op.terminator:
            return [*operands]
        for v in op.results:
            key = type(op), op.attributes, operands, v.index, v.type
            known[v] = numbers.setdefault(key, len(numbers))
    raise AssertionError("a function without an end")


def _level(pass_: Pass) -> Level:
    """The level at which a pass is tried."""
    return pass_.level or Level.GRAPH
