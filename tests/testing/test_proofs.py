"""Rewrites of arithmetic are proven: each rule of each pass, at 8 bits for all operands, at 32 bits
by z3, and at 16 bits where two unknowns are multiplied or divided."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import z3

import iris.passes
from iris.errors import ArgumentError
from iris.ir import Level, Module, math, scalar, verify
from iris.ir.control import Func
from iris.ir.core import Op
from iris.ir.literal import encode
from iris.ir.rewriter import Rewriter, Rules
from iris.ir.types import DTYPES, DType, bool_
from iris.passes import PASSES, Pass
from iris.testing.bitvectors import UndecidedError, formulas
from iris.testing.draft import special_numbers
from iris.testing.expressions import Call, Unknown, forms, forms_with, function
from iris.testing.proofs import proves
from iris.testing.rewrites import proves_rewrites

SMALL = (bool_, *[DTYPES[name] for name in ("i8", "u8", "f16", "bf16")])
LARGE = tuple(DTYPES[name] for name in ("i16", "u16", "i32", "u32"))
WITH_AXES = "is of tensors with axes"
# Rules that look at ops of arithmetic, but are not about it.
NOT_ARITHMETIC = {
    "elementwise_of_broadcasts": WITH_AXES,
    "elementwise_of_pads": WITH_AXES,
    "elementwise_of_reshapes": WITH_AXES,
    "elementwise_of_transposes": WITH_AXES,
    "empty_result": WITH_AXES,
}


# Passes whose rules fast math allows although they round otherwise: there is nothing to prove.
INEXACT = {"fast-math"}


@pytest.fixture(autouse=True)
def failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where programs that fail are written."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def rules_of_passes() -> Iterator[tuple[Pass, Rules]]:
    """The passes that have rewrite rules for integers, found in their modules."""
    names = [m.name for m in pkgutil.walk_packages(iris.passes.__path__, "iris.passes.")]
    modules = [importlib.import_module(name) for name in names]
    found = {id(x): x for m in modules for x in vars(m).values() if isinstance(x, Rules)}
    own = {form.cls for form in forms((DTYPES["i32"], bool_))}
    for rules in found.values():
        home = next(m.__name__ for m in modules if rules in vars(m).values())
        for cls in PASSES.values():
            is_home = f"{home}.".startswith(f"{cls.__module__}.")
            if is_home and cls.name not in INEXACT and any(map(rules.of, own)):
                yield cls(), rules


def names_of(rules: Rules, dtypes: tuple[DType, ...]) -> set[str]:
    """The rules that look at any op on some dtypes."""
    return {rule.__name__ for form in forms(dtypes) for rule in rules.of(form.cls)}


PROVEN = list(rules_of_passes())


def test_the_passes_that_rewrite_arithmetic() -> None:
    assert {pass_.name for pass_, _ in PROVEN} >= {"fold", "canonicalize", "simplify"}


@pytest.mark.parametrize(("pass_", "rules"), PROVEN, ids=lambda x: getattr(x, "name", ""))
def test_every_rewrite_of_arithmetic_is_proven(pass_: Pass, rules: Rules) -> None:
    small, large = proves_rewrites(pass_, *SMALL), proves_rewrites(pass_, *LARGE)
    print(f"\n{pass_} of {names(SMALL)}\n{small}\n{pass_} of {names(LARGE)}\n{large}")
    every = names_of(rules, SMALL)
    assert every - small.proofs.keys() == every & NOT_ARITHMETIC.keys()
    assert not any("z3" in proof for proofs in small.proofs.values() for proof in proofs)
    integers = {rule for rule in every if "8 bits, all operands" in small.proofs.get(rule, ())}
    assert len(integers) >= 5
    for rule in integers - {"evaluate"}:
        assert {"32 bits, z3", "16 bits, z3"} & large.proofs[rule].keys(), rule


def names(dtypes: tuple[DType, ...]) -> str:
    return ", ".join(map(str, dtypes))


def test_bit_vectors_are_what_the_interpreter_computes() -> None:
    seen = set()
    for dtype in (DTYPES["i8"], DTYPES["u8"]):
        others = [t for t in DTYPES.values() if not t.is_float]
        numbers = {t: [encode(n, t) for n in special_numbers(t)][::2] for t in others}
        numbers[bool_] = [0, 1]
        for form in forms_with(dtype, others):
            unknown = [Unknown(name, t) for name, t in zip("abc", form.operands, strict=False)]
            (func,) = function([Call(form, tuple(unknown))], Level.TILE)
            assert isinstance(func, Func)
            check_bit_vectors(func, list(product(*[numbers[t] for t in form.operands])))
            seen.add(form.cls)
    assert len(seen) >= 20


def test_marked_arithmetic_goes_wrong_as_in_the_interpreter() -> None:
    for name in ("i8", "u8"):
        dtype = DTYPES[name]
        numbers = [encode(n, dtype) for n in special_numbers(dtype)]
        for form in forms((dtype,)):
            rows = list(product(numbers, repeat=len(form.operands)))
            for mark in (math.Nowrap.FITS, math.Nowrap.NATURAL, True):
                unknown = [Unknown(name, t) for name, t in zip("ab", form.operands, strict=False)]
                (func,) = function([Call(form, tuple(unknown))], Level.TILE)
                assert isinstance(func, Func)
                op = next(iter(func.body))
                if [f.kind.accepts(mark) for f in op.spec.named_attributes] == [True]:
                    op.attributes = (mark,)
                    verify(Module([func]))
                    check_bit_vectors(func, rows)


def check_bit_vectors(func: Func, rows: list[tuple[int, ...]]) -> None:
    parameters = [z3.BitVec(f"p{v.index}", v.type.bits) for v in func.body.arguments]
    terms = formulas(func, parameters)
    op = next(iter(func.body))
    (type_,) = func.returns
    columns = [
        scalar.from_bits(v.type, np.array(bits, np.uint64))
        for v, bits in zip(func.body.arguments, zip(*rows, strict=True), strict=True)
    ]
    values = scalar.to_bits(type_, scalar.evaluate(op, *columns))
    wrong = np.zeros(len(rows), np.bool_)
    for where, _ in scalar.program_errors(op, *columns):
        wrong |= where
    for row, value, fails in zip(rows, values.tolist(), wrong.tolist(), strict=True):
        known = [(p, z3.BitVecVal(n, p.size())) for p, n in zip(parameters, row, strict=True)]
        assert z3.is_true(z3.simplify(z3.substitute(terms.wrong, known))) is fails, (op, row)
        if not fails:
            found = z3.simplify(z3.substitute(terms.results[0], known)).as_long()
            assert found == value, (op, row)


# Rules that somebody writes, some of which are wrong.


@dataclass(frozen=True)
class Own(Pass):
    """Apply one rule."""

    name = "own-rule"
    rule: Callable[..., None]
    cls: type[Op]

    def run(self, module: Module) -> Counter[str]:
        rules = Rules()
        rules(self.cls)(self.rule)
        return rules.apply(module)

    def __str__(self) -> str:
        return self.name


def number_on_the_right(op: math.Binary) -> int:
    return int(op.rhs.op.value) if isinstance(op.rhs.op, math.Constant) else 0


def replace_by(op: math.Binary, rewriter: Rewriter, cls: type[math.Binary], number: int) -> None:
    constant = math.Constant(number, op.rhs.type)  # type: ignore[arg-type]
    rewriter.insert(constant, op)
    rewriter.replace(op, cls(op.lhs, constant.result))


def quotient_by_shift(op: math.FloorDiv, rewriter: Rewriter) -> None:
    by = number_on_the_right(op)
    if by > 1 and not by & (by - 1) and not math.element_type(op.lhs.type).element.is_float:
        replace_by(op, rewriter, math.Shr, by.bit_length() - 1)


def rest_by_mask(op: math.Mod, rewriter: Rewriter) -> None:
    by = number_on_the_right(op)
    if by > 1 and not by & (by - 1) and not math.element_type(op.lhs.type).element.is_float:
        replace_by(op, rewriter, math.And, by - 1)


def multiply_and_divide(op: math.FloorDiv, rewriter: Rewriter) -> None:
    """`x * 4 // 4` is x, unless it overflows."""
    inner = op.lhs.op
    if isinstance(inner, math.Mul) and number_on_the_right(inner) == number_on_the_right(op) > 0:
        rewriter.replace(op, inner.lhs)


def magnitude_of_negative(op: math.Abs, rewriter: Rewriter) -> None:
    """`|-x|` is x, unless that is negative."""
    if isinstance(op.x.op, math.Neg):
        rewriter.replace(op, op.x.op.x)


def shift_there_and_back(op: math.Shr, rewriter: Rewriter) -> None:
    """`(x << y) >> y` is x, unless bits are lost."""
    inner = op.lhs.op
    if isinstance(inner, math.Shl) and inner.rhs is op.rhs:
        rewriter.replace(op, inner.lhs)


@pytest.mark.parametrize(
    ("rule", "cls", "name"),
    [
        (quotient_by_shift, math.FloorDiv, "u8"),
        (quotient_by_shift, math.FloorDiv, "i32"),
        (rest_by_mask, math.Mod, "i8"),
        (rest_by_mask, math.Mod, "u32"),
    ],
)
def test_a_right_rule_is_proven(rule: Callable[..., None], cls: type[Op], name: str) -> None:
    found = proves_rewrites(Own(rule, cls), DTYPES[name])
    how = "8 bits, all operands" if name.endswith("8") else "32 bits, z3"
    assert found.proofs[rule.__name__][how]


@pytest.mark.parametrize(
    ("rule", "cls", "name"),
    [
        (multiply_and_divide, math.FloorDiv, "i32"),
        (magnitude_of_negative, math.Abs, "i8"),
        (shift_there_and_back, math.Shr, "u32"),
    ],
)
def test_a_wrong_rule_is_refuted(rule: Callable[..., None], cls: type[Op], name: str) -> None:
    with pytest.raises(AssertionError) as caught:
        proves_rewrites(Own(rule, cls), DTYPES[name])
    message = str(caught.value)
    assert message.startswith("own-rule changed what the program does: returned[0][0] was ")
    assert "# argument %x: " in message


# Functions that somebody writes.


def text(returned: str, *lines: str, dtype: str = "i32") -> str:
    type_ = f"tensor<{dtype}>"
    body = "\n".join(f"  {line.replace(' = ', f': {type_} = ')}" for line in lines)
    head = f"func graph @f returns=[{type_}](%x: {type_}, %y: {type_})"
    return f"{head} {{\n{body}\n  return {returned}\n}}\n"


CANCEL = ("%a = add %x, %y", "%b = sub %a, %a", "%c = floordiv %x, %y", "%d = add %b, %c")


def test_a_function_is_proven() -> None:
    proof = proves("fold,canonicalize,dce", text("%d", *CANCEL))
    assert str(proof) == "32 bits, z3"
    assert proof.counts["cancel"] == 1
    assert str(proves("fold,dce", text("%d", *CANCEL, dtype="u8"))) == "8 bits, all operands"


def divide_and_multiply(op: math.Sub, rewriter: Rewriter) -> None:
    """`x - y` is `x // y * y + x % y - y`, unless y is 0."""
    if op.lhs.op is None:
        quotient = rewriter.insert(math.FloorDiv(op.lhs, op.rhs), op).results[0]
        rest = rewriter.insert(math.Mod(op.lhs, op.rhs), op).results[0]
        product = rewriter.insert(math.Mul(quotient, op.rhs), op).results[0]
        total = rewriter.insert(math.Add(product, rest), op).results[0]
        rewriter.set_operands(op, (total, op.rhs))


@pytest.mark.parametrize("dtype", ["i8", "i32"])
def test_a_program_error_may_go_but_not_come(dtype: str) -> None:
    proves("dce", text("%x", "%a = floordiv %x, %y", dtype=dtype))
    with pytest.raises(AssertionError, match="made a program that fails: ProgramError: integer di"):
        proves(Own(divide_and_multiply, math.Sub), text("%a", "%a = sub %x, %y", dtype=dtype))


def put_together(op: math.Add, rewriter: Rewriter) -> None:
    """`x // y * y + x % y` is x."""
    rest = op.rhs.op
    if isinstance(rest, math.Mod):
        rewriter.replace(op, rest.lhs)


WHOLE = ("%q = floordiv %x, %y", "%p = mul %q, %y", "%r = mod %x, %y", "%a = add %p, %r")


def test_what_z3_does_not_decide() -> None:
    passes = Own(put_together, math.Add)
    proves(passes, text("%a", *WHOLE, dtype="i8"))
    with pytest.raises(UndecidedError, match=r"z3 does not know after 0.1 s whether passes keep\n"):
        proves(passes, text("%a", *WHOLE, dtype="i64"), limit=0.1)


def test_functions_that_have_no_proof() -> None:
    with pytest.raises(ArgumentError, match="add of floats is proven for operands of 18 bits in"):
        proves("dce", text("%a", "%a = add %x, %y", dtype="f32"))
    with pytest.raises(ArgumentError, match=r"graph\.transpose does not work on each element"):
        proves("dce", text("%a", "%a = graph.transpose [] %x", dtype="i8"))
    with pytest.raises(ArgumentError, match="a proof is of one function, not of 0"):
        proves("dce", Module([]))


def test_without_z3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "iris.testing.bitvectors")
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(ModuleNotFoundError, match="need a solver: pip install z3-solver"):
        proves("fold", text("%d", *CANCEL))
    proves("fold", text("%d", *CANCEL, dtype="i8"))
