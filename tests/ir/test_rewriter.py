"""Rules, and the changes they make."""

from __future__ import annotations

import pytest

from iris.errors import RewriteError
from iris.ir import Module, Op, parse, verify
from iris.ir.control import If
from iris.ir.math import Add, Constant, Elementwise, Mul, Neg
from iris.ir.rewriter import Rewriter, Rules
from iris.ir.types import f32


def module(body: str) -> Module:
    return parse(f"func tile @f(%x: f32, %y: f32, %c: bool, %X: ptr<f32>, %n: i32) {{\n{body}\n}}")


def test_rules_run_to_a_fixed_point_and_are_counted() -> None:
    rules = Rules()

    @rules(Neg)
    def double_negation(op: Neg, rewriter: Rewriter) -> None:
        inner = op.x.op
        if isinstance(inner, Neg):
            rewriter.replace(op, inner.x)

    ir = module(
        "%a: f32 = neg %x %b: f32 = neg %a %c1: f32 = neg %b %d: f32 = neg %c1\n"
        "tile.store %X, %n, %d return"
    )
    assert rules.apply(ir)["double_negation"] >= 2
    verify(ir)
    assert "tile.store %X, %n, %x" in str(ir)


def test_only_what_was_looked_at_before_the_last_change_is_swept_again() -> None:
    rules = Rules()
    looks: list[Op] = []

    @rules(Neg)
    def change_what_follows(op: Neg, rewriter: Rewriter) -> None:
        """Two ops on, it sees what the op between them has changed."""
        looks.append(op)
        following = op.next
        if isinstance(following, Mul):
            rewriter.replace(following, Add(following.lhs, following.rhs))
        elif following is not None and isinstance(following.next, Add):
            rewriter.erase(op)

    ir = module(
        "%a: f32 = neg %x %b: f32 = neg %x %c1: f32 = mul %x, %y %d: f32 = neg %x "
        "tile.store %X, %n, %c1 return"
    )
    first, second, _, last, *_ = list(next(iter(ir)).regions[0])
    rules.apply(ir)
    assert first.parent is None
    # The first sweep changes what follows the second; the next erases the first, after which the
    # second is looked at, and the last at last.
    assert looks == [first, second, last, first, second, last]
    looks.clear()
    rules.apply(ir)
    assert looks == [second, last]
    verify(ir)


def test_a_new_op_takes_the_name_and_the_line_of_the_old() -> None:
    rules = Rules()

    @rules(Mul)
    def to_add(op: Mul, rewriter: Rewriter) -> None:
        if op.lhs is op.rhs:
            rewriter.replace(op, Add(op.lhs, op.rhs))

    ir = parse("func tile @f(%x: f32) {\n %wide: f32 = mul %x, %x\n return }", "k.iris")
    rules.apply(ir)
    (op, _) = next(iter(ir)).regions[0]
    assert (op.name, op.results[0].name, str(op.location)) == ("add", "wide", "k.iris:2")


def test_a_region_is_inlined() -> None:
    rules = Rules()

    @rules(If)
    def always(op: If, rewriter: Rewriter) -> None:
        rewriter.replace(op, rewriter.inline(op.then, (), op))

    ir = module(
        "%r: f32 = if %c { %p: f32 = add %x, %y yield %p } else { yield %y }\n"
        "tile.store %X, %n, %r return"
    )
    rules.apply(ir)
    verify(ir)
    body = str(ir).split("{\n", 1)[1]
    assert body == "  %p: f32 = add %x, %y\n  tile.store %X, %n, %p\n  return\n}\n"


def test_rules_of_a_base_class_see_its_subclasses() -> None:
    from iris.ir.math import Binary

    seen = []
    rules = Rules()

    @rules(Binary)
    def look(op: Binary, rewriter: Rewriter) -> None:
        seen.append(op.name)

    rules.apply(module("%a: f32 = add %x, %y %b: f32 = mul %x, %y %d: f32 = neg %x return"))
    assert seen == ["add", "mul"]


def test_rules_of_a_class_and_its_bases_run_in_the_order_they_were_registered() -> None:
    rules = Rules()

    @rules(Add)
    def first(op: Add, rewriter: Rewriter) -> None: ...

    @rules(Elementwise)
    def second(op: Elementwise, rewriter: Rewriter) -> None: ...

    @rules(Add)
    def third(op: Add, rewriter: Rewriter) -> None: ...

    assert rules.of(Add) == (first, second, third)
    assert rules.of(Neg) == (second,)


def test_rules_that_undo_each_other_are_an_error() -> None:
    rules = Rules()

    @rules(Add)
    def swap(op: Add, rewriter: Rewriter) -> None:
        rewriter.replace(op, Add(op.rhs, op.lhs))

    with pytest.raises(RewriteError, match="do not come to an end; the busiest are swap"):
        rules.apply(module("%a: f32 = add %x, %y return"))


def test_changes_that_would_break_the_ir_are_refused() -> None:
    ir = module("%a: f32 = add %x, %y\n%b: f32 = neg %a\nreturn")
    func = next(iter(ir))
    add = func.regions[0].first
    assert add is not None
    rewriter = Rewriter()
    with pytest.raises(RewriteError, match="cannot be replaced by %n: i32: the types differ"):
        rewriter.replace(add, func.regions[0].arguments[4])
    with pytest.raises(RewriteError, match="has 1 results, not 2"):
        rewriter.replace(add, func.regions[0].arguments[:2])
    with pytest.raises(RewriteError, match="in no region"):
        rewriter.insert(Constant(1.0, f32), Neg(func.regions[0].arguments[0]))
    verify(ir)
