"""The lines of kernels by thread that use memory, and what threads have together."""

from __future__ import annotations

from typing import Any

import numpy as np

from iris.ir.types import bf16, bool_, f32, i32, u32
from iris.testing.plain_threads import check_product, check_sum, per_thread
from iris.testing.plain_tiles import Plain, Refused, one_zero
from iris.testing.plain_words import Words
from iris.testing.thread_draft import (
    CALLED,
    Line,
    Term,
    ThreadDraft,
    Type,
    assigned,
    compared,
)

_COMBINED = (np.add, np.maximum, np.minimum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
_ATOMICS = dict(zip(("add", "max", "min", "and", "or", "xor"), _COMBINED, strict=True))


# Memory.


def loaded(draft: ThreadDraft) -> Line:
    """An element of an array, also of one that begins at another."""
    choices, type_ = draft.choices, draft.type()
    rows = draft.rows(type_)
    name, at = draft.array(type_, rows), draft.below(draft.count)
    number, last = at.value.data[:, 0], draft.count - 1
    forms = (
        (f"{name}[i]", np.arange(draft.count)),
        (f"{name}[{at.text}]", number),
        (f"({name} + 1)[metal.int({at.text}) - 1]", number),
        (f"({name} + i)[{last} - 2 * i]", last - np.arange(draft.count)),
        (f"{name}[{last} - i]", last - np.arange(draft.count)),
    )
    text, numbers = choices.of(forms)
    return assigned(Term(text, Plain(rows[numbers], type_.dtype)))


def written(draft: ThreadDraft) -> Line:
    """What an element of an array is once it was written, by some threads or by all."""
    choices, x = draft.choices, draft.some(lambda v: v.dtype is not bf16)
    type_ = draft.type_of(x.value)
    rows = draft.rows(type_)
    old = Plain(rows, type_.dtype)
    word = choices.of(("", "+", "-", "*"))
    new = compared(word, old, x.value) if word else x.value
    if new.dtype is not type_.dtype:
        raise Refused("another dtype")
    condition = choices.of((None, None, draft.condition()))
    after = new if condition is None else Words.where(condition.value, new, old)
    name = draft.array(type_, rows, after.data)
    lines = [f"{name}[i] {word}= {x.text}"]
    if condition is not None:
        lines = [f"if {condition.text}:", f"    {lines[0]}"]
    return Line("\n".join([*lines, f"{{0}} = {name}[i]"]), after)


def shared(draft: ThreadDraft) -> Line:
    """What another thread of the threadgroup has written to shared memory of some axes."""
    choices, x = draft.choices, draft.some()
    type_ = draft.type_of(x.value).name
    count, memory = draft.elements, draft.fresh("s")
    columns = choices.of((4, 3, 5))
    rows = -(-count // columns)
    shape, keys = choices.of(
        (
            (f"{count}", "{0}"),
            (f"({rows}, {columns})", f"{{0}} // {columns}, {{0}} % {columns}"),
            (
                f"({rows}, 2, {columns})",
                f"{{0}} // {columns}, {{0}} % 2, {{0}} % {columns}",
            ),
            (f"[{rows}, {columns}]", "{0}"),
        )
    )
    called = choices.of((f"metal.{type_}", f'"{type_}"'))
    draft.memory.append(f"{memory} = metal.shared({shape}, {called})")
    others = draft.launch.neighbours(draft.rng)
    number = draft.launch.positions["thread_in_threadgroup"][others].astype(np.int32)
    index = draft.array(Type("int", i32, 1), number[:, None])
    one, other = keys.format("t"), keys.format("o")
    lines = [
        "t = metal.thread_in_threadgroup()",
        f"{memory}[{one}] = {x.text}",
        "metal.barrier()",
        f"o = {index}[i]",
        f"{{0}} = {memory}[{other}]",
    ]
    return Line("\n".join(lines), Plain(x.value.data[others], x.value.dtype))


def kept(draft: ThreadDraft) -> Line:
    """An element of an array of the thread's own, once some have been set."""
    choices, x = draft.choices, draft.scalar(lambda v: v.dtype is not bool_)
    dtype, size, start = x.value.dtype, choices.of((4, 2, 3, 8, 5)), choices.below(5)
    name, memory = CALLED[dtype], draft.fresh("p")
    held = np.full((draft.count, size), start).astype(x.value.data.dtype)
    given = choices.of((f", {start}", f", value={start}"))
    lines, every = [f"{memory} = metal.array({size}, metal.{name}{given})"], np.arange(draft.count)
    for _ in range(1 + choices.below(3)):
        at, value = _place(draft, size), draft.alike(x.value)
        held[every, at.value] = value.value.data[:, 0]
        lines.append(f"{memory}[{at.text}] = {value.text}")
    at = _place(draft, size)
    lines.append(f"{{0}} = {memory}[{at.text}]")
    return Line("\n".join(lines), Plain(held[every, at.value][:, None], dtype))


def _place(draft: ThreadDraft, size: int) -> Term:
    """An index, known while tracing or not."""
    if draft.choices.flag():
        number = draft.choices.below(size)
        return Term(f"{number}", number)
    at = draft.below(size)
    return Term(at.text, at.value.data[:, 0])


def _changing(draft: ThreadDraft) -> Term:
    """What atomic ops change elements by: it has 32 bits, and is finite."""
    x = draft.scalar(lambda v: v.dtype in (i32, u32, f32))
    if not np.all(np.isfinite(x.value.data)):
        raise Refused("no number")
    return Term(x.text, one_zero(x.value))


def updated(draft: ThreadDraft) -> Line:
    """What an element was that each thread alone changes; or what it is once several changed it."""
    choices = draft.choices
    x = _changing(draft)
    type_ = draft.type_of(x.value)
    words = [*_ATOMICS][: 3 if type_.dtype.is_float else None]
    several = choices.flag()
    word = choices.of(words if several else ("exchange", "exchange", *words))
    meets = choices.flag() and not several
    bins = 4 if several else draft.count
    before = draft.rng.integers(0, 9, (bins, 1)).astype(x.value.data.dtype)
    index = draft.rng.integers(0, bins, bins if meets else draft.count)
    if not several:
        index = draft.rng.permutation(bins)
    after = before.copy()
    if word == "exchange":
        after[index] = x.value.data
    else:
        _ATOMICS[word].at(after, index, x.value.data)
    at = draft.array(Type("int", i32, 1), index[:, None].astype(np.int32))
    name = draft.array(type_, before, after)
    call = f"metal.atomic_{word}({name} + {at}[i], {x.text})"
    if several:
        return Line(f"{call}\n{{0}} = {x.text}", x.value)
    lines, old = [f"{{0}} = {call}"], before[index]
    if meets:  # what it is now
        lines, old = [call, f"{{0}} = metal.atomic_load({name} + {at}[i])"], after[index]
    return Line("\n".join(lines), Plain(old, type_.dtype))


def counted(draft: ThreadDraft) -> Line:
    """What shared memory holds that all threads of a threadgroup have changed."""
    choices = draft.choices
    x = _changing(draft)
    type_ = draft.type_of(x.value)
    words = [*_ATOMICS][: 3 if type_.dtype.is_float else None]
    word, memory, bins = choices.of(words), draft.fresh("s"), 4
    draft.memory.append(f"{memory} = metal.shared({bins}, metal.{type_.name})")
    held = np.zeros((draft.launch.group.max() + 1, bins, 1), x.value.data.dtype)
    index = draft.below(bins)
    number = index.value.data[:, 0]
    _ATOMICS[word].at(held, (draft.launch.group, number), x.value.data)
    lines = [
        "if metal.thread_in_threadgroup() == 0:",
        f"    for k in range({bins}):",
        f"        {memory}[k] = 0",
        "metal.barrier()",
        f"metal.atomic_{word}({memory} + {index.text}, {x.text})",
        "metal.barrier()",
        f"{{0}} = {memory}[{index.text}]",
    ]
    return Line("\n".join(lines), Plain(held[draft.launch.group, number], type_.dtype))


# What threads have together.


def exchanged(draft: ThreadDraft) -> Line:
    """What another lane has of a value."""
    choices, launch = draft.choices, draft.launch
    x = draft.some(lambda v: v.dtype.bits <= 32)
    number, lane = choices.below(32), launch.lane
    other = draft.below(32)
    word, given, source = choices.of(
        (
            ("shuffle", other.text, other.value.data[:, 0]),
            ("shuffle_xor", f"{number or 1}", lane ^ (number or 1)),
            ("shuffle_up", f"{number}", np.where(lane < number, lane, lane - number)),
            ("shuffle_down", f"{number}", np.where(lane + number > 31, lane, lane + number)),
            ("broadcast", f"{number}", np.full_like(lane, number)),
        )
    )
    value = launch.from_lane(x.value, source.astype(np.int64))
    return assigned(Term(f"metal.simd_{word}({x.text}, {given})", value))


def agreed(draft: ThreadDraft) -> Line:
    """What all lanes of a simdgroup make of their values."""
    choices, launch = draft.choices, draft.launch
    if choices.flag(4):
        x = draft.scalar(lambda v: v.dtype is not bool_)
        every, none = (
            Term(f"({x.text} {word} {x.text})", compared(word, x.value, x.value))
            for word in ("==", "!=")
        )
        condition = choices.of((draft.condition(), draft.condition(), every, none))
        word = choices.of(("ballot", "any", "all"))
        if word == "ballot":
            value = Plain(launch.ballot(condition.value), u32)
        else:
            neutral = word == "all"
            ufunc = np.logical_and if neutral else np.logical_or
            value = launch.reduced(condition.value, ufunc, neutral)
        return assigned(Term(f"metal.simd_{word}({condition.text})", value))
    x = draft.some(lambda v: v.dtype.bits <= 32 and v.dtype is not bool_)
    dtype, word = x.value.dtype, choices.of(("sum", "max", "min", "product", "before", "up_to"))
    if word in ("before", "up_to"):
        check_sum(dtype, *x.value.data)
        sums = map(one_zero, launch.sums(x.value))
        text = f"prefix_{'ex' if word == 'before' else 'in'}clusive_sum"
        return assigned(Term(f"metal.simd_{text}({x.text})", [*sums][word == "up_to"]))
    if word == "sum":
        check_sum(dtype, *x.value.data)
    elif word == "product":
        check_product(dtype, x.value.data)
    low, high = (-np.inf, np.inf) if dtype.is_float else (dtype.low, dtype.high)
    reductions: dict[str, tuple[np.ufunc, Any]] = {
        "sum": (np.add, 0),
        "product": (np.multiply, 1),
        "max": (np.fmax, low),
        "min": (np.fmin, high),
    }
    return assigned(
        Term(f"metal.simd_{word}({x.text})", launch.reduced(x.value, *reductions[word]))
    )


def placed(draft: ThreadDraft) -> Line:
    """Where a thread is, and how many there are."""
    positions = draft.launch.positions
    word = draft.choices.of([*positions])
    return Line(f"{{0}} = metal.int(metal.{word}())", per_thread(positions[word]))


def multiplied(draft: ThreadDraft) -> Line:
    """An element of a product of matrices of 8x8, each at some place of an array."""
    choices, launch = draft.choices, draft.launch
    if not launch.is_full:
        raise Refused("threads that hold parts of matrices are missing")
    name = choices.of(("float", "half"))
    whole, texts = [], []
    for type_name in (name, name, "float"):
        type_, stride, start = (
            draft.type(1, (type_name,)),
            choices.of((8, 11, 16)),
            choices.below(4),
        )
        rows = draft.rng.integers(-3, 4, (start + 8 * stride, 1)).astype(
            np.float16 if type_.dtype.bits == 16 else np.float32
        )
        array = draft.array(type_, rows)
        at = f"{array} + {start}" if start else array
        texts.append(f"metal.simdgroup_load({at}, {stride})")
        whole.append(rows[start:, 0].reshape(8, stride)[:, :8].astype(np.float64))
    a, b, c = whole
    number = choices.below(4)
    if choices.flag(3):
        texts[2], c = f"metal.simdgroup_matrix({number})", np.full((8, 8), number)
    if choices.flag(3):
        texts[0], a = f"{texts[0]} + metal.simdgroup_matrix({number}, metal.{name})", a + number
    product = (a @ b + c).astype(np.float32)
    groups = int(launch.simdgroup.max()) + 1
    stride = choices.of((8, 9))
    after = np.zeros((groups, 8, stride), np.float32)
    after[:, :, :8] = product
    before = np.zeros((after.size, 1), np.float32)
    out = draft.array(Type("float", f32, 1), before, after.reshape(-1, 1))
    place = (
        "metal.threadgroup_id_x() + metal.num_threadgroups_x() * (metal.threadgroup_id_y() + "
        "metal.num_threadgroups_y() * metal.threadgroup_id_z())"
    )
    lines = [
        f"m = ({place}) * {launch.simdgroups} + metal.simdgroup_id()",
        f"c = metal.simdgroup_multiply_accumulate({', '.join(texts)})",
        f"metal.simdgroup_store(c, {out} + m * {8 * stride}, {stride})",
        "{0} = m",
    ]
    return Line("\n".join(lines), per_thread(launch.simdgroup))
