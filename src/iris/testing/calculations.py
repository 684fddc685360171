"""Small thread programs that do little but calculate: they check how a text computes each op, with
the numbers at which things go wrong, and that it reads memory before it overwrites it.

    runs_alike([program], "softmetal")

Each thread has a few places in memory for itself.  It computes new values from the ones there and
from earlier results, and stores them in these places, at once or in the end.  At times it updates
some in a loop, each by an op on its old value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import inf
from random import Random

from hypothesis import strategies as st

from iris.ir import math, metal
from iris.ir.control import For, Yield
from iris.ir.core import Op, Value
from iris.ir.literal import encode
from iris.ir.math import element_type
from iris.ir.metal import count_of, registers
from iris.ir.types import DType, ElementType, bool_, i32
from iris.ir.uniformity import THREADGROUP, VARYING
from iris.testing.choices import Choices
from iris.testing.draft import PERIOD, special_numbers
from iris.testing.elementwise import ALL, CONVERTED
from iris.testing.expressions import Form, forms
from iris.testing.metals import MetalDraft, widths
from iris.tools.replay import Array, Program

BYTES = 200
DEEPEST = 3  # ops within one another
COUNTS = (1, 4, 3, 1, 2, 8, 7, 1, 16)
MOST = 16  # elements that a thread has of a value
PLACES = 3  # of a type, for each thread
# What wraps where a number does not fit, and what has to have the number that has wrapped.
_WRAPPING = (math.Add, math.Mul, math.Sub, math.Neg, math.Shl)
_ASKING = (math.Compare, math.Cast, math.Shr, math.Select, math.FloorDiv)
_DECIDING = (math.Select, math.Compare, math.Select, math.And, math.Or, math.Not)  # of bools
_UPDATING = (math.Sub, math.Add, math.Mul, math.Div, math.Select, math.MaxNum, math.Shr)
_LEFT_OUT = (math.AssumeDivisible, math.Transcendental)  # may fail, or may be off by little
_DIVISIONS = (math.FloorDiv, math.Mod)
_SHIFTS = (math.Shl, math.Shr)


def programs() -> st.SearchStrategy[Program]:
    """Programs of a few statements, with no control flow but short loops."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(
        lambda data: Calculations(Choices(data)).made()
    )


@cache
def forms_of(dtype: DType, operand: DType | None = None) -> dict[type[Op], list[Form]]:
    """How elements of a dtype can be made: by each op, with its attributes and operands; if one is
    given, by ops that have an operand of another dtype."""
    found: dict[type[Op], dict[Form, None]] = {}
    for other in ALL:
        for form in forms(tuple(dict.fromkeys((dtype, other)))):
            if form.dtype is not dtype or issubclass(form.cls, _LEFT_OUT):
                continue
            if operand is None or operand in form.operands:
                found.setdefault(form.cls, {})[form] = None
    return {cls: list(some) for cls, some in found.items()}


class Calculations(MetalDraft):
    """Builds such a program."""

    def __init__(self, choices: Choices):
        super().__init__([], choices, ALL, portable=True)
        self.mine = [
            registers(choices.of(COUNTS), choices.of((bool_, *ALL)))
            for _ in range(1 + choices.below(3))
        ]
        self.written: dict[ElementType, list[Value]] = {}
        self.latest: tuple[Value, ElementType] | None = None  # what was loaded, from where

    def made(self) -> Program:
        choices = self.choices
        for _ in range(3 + choices.below(4)):
            style = choices.below(5)
            if style < 2:
                self.visible.append(self.expression(choices.of(self.mine)))
            elif style < 4:
                self.overwrite()
            else:
                self.repeat()
        return self.finish()

    def repeat(self) -> None:
        """Update values in a loop, which may overwrite others at the same time."""
        choices = self.choices
        types = [choices.of(self.mine) for _ in range(1 + choices.below(2))]
        bounds = [self.constant(n, i32) for n in (0, choices.of((3, 2, 1)), 1)]
        loop = self.builder.insert(For(*bounds, [self.operand(t) for t in types]))
        number, *values = loop.body.arguments
        self.levels[number] = THREADGROUP
        with self.under(loop.body, THREADGROUP):
            self.visible += values
            if choices.flag(3):
                self.overwrite()
            new = [self.updated(v) for v in values]
            exchanged = choices.flag(4) and len({*types}) == 1
            self.builder.insert(Yield(new[::-1] if exchanged else new))
        self.carry_out(loop, VARYING)

    def updated(self, value: Value) -> Value:
        """What an op makes of a value, alone or with others."""
        choices, type_ = self.choices, element_type(value.type)
        form = self.form(type_.element, _UPDATING, type_.element)
        places = [n for n, dtype in enumerate(form.operands) if dtype is type_.element]
        return self.applied(form, type_, 1, _ASKING, {choices.of(places): value})

    def overwrite(self) -> None:
        """Store something, mostly where something was read just before."""
        choices = self.choices
        if self.latest is not None and choices.below(4):
            base, type_ = self.latest
        else:
            type_ = choices.of(self.mine)
            base = choices.of(self.places_of(type_))
        value = self.expression(type_)
        self.store_each(base, value, self.first(type_))

    # What a value is made of.

    def expression(
        self, type_: ElementType, depth: int = 0, ops: Sequence[type[Op]] = _ASKING
    ) -> Value:
        """What there is; or some of it; or what an op makes of it, one of `ops` as often as not."""
        style = self.choices.below(8)
        if depth == DEEPEST or (depth and style < 3):
            return self.operand(type_)
        if style in (4, 5):
            return self.part(type_, depth, ops)
        return self.computed(type_, depth, ops)

    def computed(self, type_: ElementType, depth: int, ops: Sequence[type[Op]]) -> Value:
        form = self.form(type_.element, ops)
        inner = _WRAPPING if form.cls in _ASKING else _ASKING
        return self.applied(form, type_, depth + 1, inner, {})

    def form(self, dtype: DType, ops: Sequence[type[Op]], operand: DType | None = None) -> Form:
        """One of `ops` as often as not, or any that makes a dtype, of an operand of another."""
        choices, known = self.choices, forms_of(dtype, operand)
        wanted = [cls for cls in ops if cls in known]
        return choices.of(known[choices.of(wanted if wanted and choices.flag() else [*known])])

    def applied(
        self,
        form: Form,
        type_: ElementType,
        depth: int,
        inner: Sequence[type[Op]],
        given: Mapping[int, Value],
    ) -> Value:
        """An op on operands that are given, by their numbers, and expressions."""
        operands = [
            given[n]
            if n in given
            else self.expression(
                type_.with_element(dtype), depth, _DECIDING if dtype is bool_ else inner
            )
            for n, dtype in enumerate(form.operands)
        ]
        made = form.cls.create(guarded(self, form, operands), form.attributes, (type_,))
        return self.put(made)

    def operand(self, type_: ElementType) -> Value:
        """A value of memory, one that has been made, which others may use, too, or a number."""
        choices = self.choices
        style = choices.below(8)
        if style > 5:
            return self.constant(choices.of(special_numbers(type_.element)), type_)
        if style > 3:
            value = self.find(lambda t: t is type_, choices)
            if value is not None:
                return value
        return self.loaded(type_)

    def part(self, type_: ElementType, depth: int, ops: Sequence[type[Op]]) -> Value:
        """Some elements of a longer value; or one, in each place."""
        choices, count = self.choices, count_of(type_)
        times = [n for n in (3, 2, 4, 7, 8, 3, 5) if count * n <= MOST]
        if not times or (count > 1 and choices.flag(4)):
            one = self.expression(type_.element, depth + 1, ops)
            return one if count == 1 else self.put(metal.Splat(one, type_))
        parts = choices.of(times)
        longer = registers(count * parts, type_.element)
        make = choices.of((self.computed, self.expression))
        whole = make(longer, min(depth + 1, DEEPEST - 1), ops)
        if choices.flag(4):
            first = choices.below(count * (parts - 1) + 1)
            return self.put(metal.take(range(first, first + count), whole))
        if choices.flag(3):
            index = self.constant(choices.below(parts), i32)
        else:
            index = self.wrapped(self.thread, 1 << parts.bit_length() - 1)
        return self.put(metal.Slice(whole, index, type_))

    # Memory.

    def first(self, type_: ElementType) -> Value:
        """Where a thread has its elements."""
        return self.times(self.number, count_of(type_))

    def places_of(self, type_: ElementType) -> list[Value]:
        """Arrays that each thread reads and writes its elements of."""
        known = self.written.setdefault(type_, [])
        if len(known) < PLACES and self.spare_arrays > len(self.mine):
            size = count_of(type_) * self.threads * self.programs
            data = tuple(numbers(type_.element, len(known)))
            recipe = Array(type_.element, (size,), data=data)
            known.append(self.argument("own", recipe, noalias=self.choices.flag(3)))
        return known

    def loaded(self, type_: ElementType) -> Value:
        """The elements of a thread, as vectors."""
        base, start = self.choices.of(self.places_of(type_)), self.first(type_)
        self.latest = base, type_
        count = count_of(type_)
        width = [w for w in widths(type_.element) if count % w == 0][-1]
        if width == count:
            return self.put(metal.Load(base, start, result=type_))
        loop = metal.Foreach(count // width, [type_])
        self.builder.insert(loop)
        with self.under(loop.body, THREADGROUP):
            at = self.put(math.Add(start, self.times(loop.body.arguments[0], width)))
            part = metal.Load(base, at, result=registers(width, type_.element))
            self.builder.insert(Yield([self.put(part)]))
        whole: Value = loop.results[0]
        return whole


@cache
def numbers(dtype: DType, which: int) -> list[int]:
    """The bits of numbers at which things go wrong.  The first two arrays repeat them, so that each
    number meets each other one.  A third array has any bits."""
    if which == 2 and dtype is not bool_:
        random = Random(PERIOD)
        return [random.getrandbits(dtype.bits) for _ in range(PERIOD)]
    found = [encode(n, dtype) for n in special_numbers(dtype)]
    if dtype.is_float:
        least, most, one = 1, encode(inf, dtype) - 1, encode(1.0, dtype)
        found += [least, most, encode(-inf, dtype) - 1, one + 1, encode(2.5, dtype)]
    return found + found[:which]


def guarded(draft: MetalDraft, form: Form, operands: list[Value]) -> tuple[Value, ...]:
    """Operands that the op is sure to be right for."""
    last = operands[-1]
    type_ = element_type(last.type)
    dtype = type_.element
    if dtype.is_integer and issubclass(form.cls, _DIVISIONS):
        operands[-1] = draft.put(math.Or(last, draft.constant(1, type_)))
    elif dtype.is_float and form.cls is math.FloorDiv:
        # A large quotient is rounded once or twice.
        operands[0] = draft.clamped(operands[0], -CONVERTED, CONVERTED)
        operands[-1] = draft.put(math.Round(last))
    elif issubclass(form.cls, _SHIFTS):
        operands[-1] = draft.wrapped(last, dtype.bits)
    elif dtype.is_float and form.cls is math.Bitcast and form.dtype is not dtype:
        operands[-1] = draft.put(math.MaxNum(last, draft.constant(-1.0, type_)))
    elif dtype.is_float and form.cls is math.Cast and form.dtype.is_integer:
        operands[-1] = draft.clamped(last, max(form.dtype.low, -CONVERTED), CONVERTED)
    return tuple(operands)
