"""The lines that kernels by thread are drawn of, in the ways that users write them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from iris.ir.types import DTYPES, DType, bf16, bool_, f32, i32
from iris.testing import thread_memory_lines as memory
from iris.testing.plain_formulas import OF_ONE, OF_TWO, near, rounded
from iris.testing.plain_threads import check_sum
from iris.testing.plain_tiles import Plain, Refused, quotient
from iris.testing.plain_words import Words
from iris.testing.thread_draft import (
    NAMES,
    Line,
    Term,
    ThreadDraft,
    assigned,
    compared,
)

_FORMULAS = (
    *("exp", "exp2", "log", "log2", "rsqrt", "sin", "cos"),
    *("tanh", "atan", "asin", "acos", "sinh", "cosh"),
)
# Calculations.


def _operated(draft: ThreadDraft) -> Line:
    """An operator of one or two values."""
    choices, x = draft.choices, draft.some()
    if choices.flag(6):
        return assigned(Term(f"-{x.text}", -x.value))
    words = ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "<", ">=", "==", "!=")
    word, pair = choices.of(words), [x, draft.operand(x)]
    if choices.flag(3):
        pair.reverse()
    if word == "/":
        return assigned(Term(_joined(" / ", pair), quotient(*[t.value for t in pair])))
    return assigned(Term(_joined(f" {word} ", pair), compared(word, *[t.value for t in pair])))


def _joined(by: str, terms: list[Term]) -> str:
    return by.join([term.text for term in terms])


_MEANINGS: dict[str, tuple[int, Callable[..., Any]]] = {
    "min": (2, Words.minimum),
    "max": (2, Words.maximum),
    "abs": (1, Words.abs),
    "clamp": (3, Words.clamp),
    "fma": (3, Words.fma),
    "cdiv": (2, Words.cdiv),
    "floor": (1, Words.floor),
    "ceil": (1, Words.ceil),
    "round": (1, Words.round),
    "trunc": (1, Words.trunc),
    "sqrt": (1, Words.sqrt),
    "isnan": (1, Words.isnan),
    "isinf": (1, Words.isinf),
    "atan2": (2, near(*OF_TWO["atan2"])),
    **{word: (1, near(*OF_ONE[word])) for word in _FORMULAS},
}


def _called(draft: ThreadDraft) -> Line:
    """A word of one value to three."""
    choices = draft.choices
    word = choices.of([*_MEANINGS])
    count, meaning = _MEANINGS[word]
    x = draft.some()
    terms = [x, *[draft.operand(x) for _ in range(count - 1)]]
    if count > 1 and choices.flag(3):
        terms.reverse()
    if word == "cdiv" and choices.flag():  # by what is not 0
        terms = [draft.integer(), choices.of([Term(f"{n}", n) for n in (2, 3, -3, 4)])]
    if word in ("floor", "ceil", "round", "trunc") and x.value.dtype is f32:
        terms = [Term(f"({x.text} * 0.25)", x.value * 0.25)]
    return assigned(
        Term(f"metal.{word}({_joined(', ', terms)})", meaning(*[t.value for t in terms]))
    )


def _chosen(draft: ThreadDraft) -> Line:
    """One value or another: by a word, an expression, or a branch."""
    choices, x, condition = draft.choices, draft.some(), draft.condition()
    y = choices.of((draft.alike(x.value), draft.operand(x)))
    style = choices.below(4)
    if style == 0:
        if choices.flag():  # element by element
            other = draft.alike(x.value)
            condition = Term(f"({x.text} < {other.text})", compared("<", x.value, other.value))
        value = Words.where(condition.value, x.value, y.value)
        return assigned(Term(f"metal.select({y.text}, {x.text}, {condition.text})", value))
    if not isinstance(y.value, Plain) or (y.value.dtype, y.value.shape) != (
        x.value.dtype,
        x.value.shape,
    ):
        raise Refused("another type in the other branch")
    value = Words.where(condition.value, x.value, y.value)
    texts = (
        f"{{0}} = {x.text} if {condition.text} else {y.text}",
        f"if {condition.text}:\n    {{0}} = {x.text}\nelse:\n    {{0}} = {y.text}",
        f"{{0}} = {y.text}\nif {condition.text}:\n    {{0}} = {x.text}",
    )
    return Line(texts[style - 1], value)


# Vectors.


def _swizzled(draft: ThreadDraft) -> Line:
    """Components by letters, or one by its number, which need not be known while tracing."""
    choices, v = draft.choices, draft.vector()
    width = v.value.shape[1]
    if choices.flag(3):
        at = choices.of((draft.below(width), Term(f"{width - 1}", width - 1)))
        number = at.value.data[:, 0] if isinstance(at.value, Plain) else at.value
        taken = v.value.data[np.arange(draft.count), number][:, None]
        return assigned(Term(f"{v.text}[{at.text}]", Plain(taken, v.value.dtype)))
    letters, few = choices.of(("xyzw", "rgba")), choices.of((1, 2, 3, 4))
    numbers = [choices.below(width) for _ in range(few)]
    text = f"{v.text}.{''.join([letters[n] for n in numbers])}"
    return assigned(Term(text, Plain(v.value.data[:, numbers], v.value.dtype)))


def _made(draft: ThreadDraft) -> Line:
    """A value of another type, of one value or of several."""
    choices = draft.choices
    name = choices.of((*draft.names, choices.of([*NAMES])))
    dtype, width = DTYPES[NAMES[name]], choices.of((1, 2, 3, 4))
    terms: list[Term] = []
    left = width if choices.below(4) else 1
    while left > 0:
        wide = left > 1 and choices.flag()
        term = draft.vector() if wide else choices.of((draft.scalar(), draft.plain_number()))
        terms.append(term)
        left -= term.value.shape[1] if isinstance(term.value, Plain) else 1
    if left < 0:
        raise Refused("too many values")
    parts = [_as(term.value, dtype, draft.count) for term in terms]
    value = np.concatenate(parts, axis=1)
    if len(parts) == 1 and value.shape[1] == 1:
        value = np.repeat(value, width, axis=1)
    called = f"metal.{name}{width if width > 1 else ''}"
    return assigned(Term(f"{called}({_joined(', ', terms)})", Plain(value, dtype)))


def _as(x: Any, dtype: DType, count: int) -> Any:
    if isinstance(x, Plain):
        return x.to(dtype).data
    if not dtype.is_float and (x != int(x) or not dtype.low <= x <= dtype.high):
        raise Refused("a number that is rounded")
    return Plain(np.full((count, 1), x), dtype).data


def _of_vectors(draft: ThreadDraft) -> Line:
    """Products, lengths, and what lies between two."""
    choices = draft.choices
    v = draft.some(lambda v: v.dtype.is_float) if choices.flag(5) else draft.vector()
    x, width = v.value, v.value.shape[1]
    words = ["dot"] * (width > 1) + ["cross"] * 3 * (width == 3)
    words += ["mix", "mix"] * x.dtype.is_float + ["length", "normalize"] * (
        x.dtype is f32 and width > 1
    )
    word, w = choices.of(words), draft.alike(x)
    if word == "mix":
        share = choices.of((draft.operand(v), Term("0.25", 0.25)))
        value = x + (w.value - x) * share.value
        return assigned(Term(f"metal.mix({v.text}, {w.text}, {share.text})", value))
    if word == "cross":
        (a, b, c), (d, e, f) = ([p[:, n : n + 1] for n in range(3)] for p in (x, w.value))
        parts = [_sum(y, -z) for y, z in ((b * f, c * e), (c * d, a * f), (a * e, b * d))]
        value = Plain(np.concatenate([part.data for part in parts], axis=1), parts[0].dtype)
        return assigned(Term(f"metal.cross({v.text}, {w.text})", value))
    product = x * (w.value if word == "dot" else x)
    total = _sum(*[product[:, n : n + 1] for n in range(width)])
    if word == "dot":
        return assigned(Term(f"metal.dot({v.text}, {w.text})", total))
    if not np.all(total.data > 0):
        raise Refused("a vector without a direction")
    length = Words.sqrt(total)
    value = length if word == "length" else quotient(x, length)
    return Line(f"{{0}} = metal.{word}({v.text})", rounded(value))


def _sum(*terms: Plain) -> Plain:
    check_sum(terms[0].dtype, *[term.data for term in terms])
    return reduce(operator.add, terms)


def _bits(draft: ThreadDraft) -> Line:
    """The bits of a value as another type."""
    x = draft.some(lambda v: v.dtype not in (bool_, bf16))
    width = x.value.shape[1]
    name = draft.choices.of([n for n, d in NAMES.items() if DTYPES[d].bits == x.value.dtype.bits])
    called = f"metal.{name}{width if width > 1 else ''}"
    return assigned(Term(f"metal.bitcast({x.text}, {called})", Words.bitcast(x.value, NAMES[name])))


# Control flow.


def _looped(draft: ThreadDraft) -> Line:
    """What a loop makes, which counts up or down, for each thread as often as it says."""
    choices = draft.choices
    x = draft.integer()
    x = Term(f"metal.int({x.text})", x.value.to(i32))
    bounds = [choices.of((_small(draft), Term(f"{n}", n))) for n in (choices.below(7), 7)]
    step = choices.of((1, 2, 3, -1, -2, 1))
    if step < 0:
        bounds.reverse()
    word = choices.of(("metal.range", "range"))
    every = [
        np.broadcast_to(t.value.data[:, 0] if isinstance(t.value, Plain) else t.value, draft.count)
        for t in bounds
    ]
    found = np.zeros((draft.count, 1), np.int32)
    for at, (start, stop) in enumerate(zip(*every, strict=True)):
        held = int(x.value.data[at, 0])
        for k in range(int(start), int(stop), step):
            held = held * 3 + k
        found[at] = np.int64((held + (1 << 31)) % (1 << 32) - (1 << 31))
    given = f"{bounds[0].text}, {bounds[1].text}" + (f", {step}" if step != 1 else "")
    lines = [
        f"{{0}} = {x.text}",
        f"for k in {word}({given}):",
        "    {0} = {0} * 3 + metal.int(k)",
    ]
    if choices.flag(3):
        word = "<" if step > 0 else ">"
        lines = [
            f"{{0}}, k = {x.text}, metal.int({bounds[0].text})",
            f"while k {word} metal.int({bounds[1].text}):",  # below 0, too
            "    {0} = {0} * 3 + k",
            f"    k += {step}",
        ]
    return Line("\n".join(lines), Plain(found, i32))


def _small(draft: ThreadDraft) -> Term:
    """A small number, of a dtype that counts down below 0 or does not."""
    x = draft.integer()
    if x.value.dtype.bits > 32:
        raise Refused("a loop that counts in 64 bits")
    return Term(f"({x.text} & 7)", x.value & 7)


def _parameter(draft: ThreadDraft) -> Line:
    """A number that the kernel is called with, or something made of it."""
    return assigned(draft.given())


# How often each is drawn.
MAKERS: tuple[Callable[[ThreadDraft], Line], ...] = (
    *[_operated] * 3,
    *[_called] * 3,
    *[_chosen] * 2,
    *[_swizzled] * 2,
    *[_made] * 3,
    *[_of_vectors] * 3,
    _bits,
    *[memory.loaded] * 2,
    *[memory.written] * 2,
    *[memory.shared] * 2,
    *[memory.kept] * 2,
    *[memory.updated] * 3,
    memory.counted,
    *[memory.exchanged] * 2,
    *[memory.agreed] * 3,
    memory.placed,
    *[memory.multiplied] * 2,
    _looped,
    _parameter,
)
