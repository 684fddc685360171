"""Memory of the device and of the threadgroup: loads, stores and atomics."""

from __future__ import annotations

from iris.codegen.expression import INDEX, LANES, Expression, Form, Precedence, Touch
from iris.codegen.forms import moves_words
from iris.codegen.operators import binary, call, cast_to, dtype_of, ternary
from iris.codegen.words import from_vector, from_words, makes_words, to_words
from iris.codegen.writer import ASSIGNS, Writer, element_of, emit
from iris.ir import metal
from iris.ir.control import For
from iris.ir.core import Value
from iris.ir.kinds import AtomicKind
from iris.ir.math import constant_bits
from iris.ir.metal import count_of
from iris.ir.types import DType, Ptr, Threadgroup, bool_, f32, u32
from iris.ir.waiting import is_volatile


@emit(metal.Alloc)
def _alloc(w: Writer, op: metal.Alloc) -> None:
    type_ = op.result.type
    assert isinstance(type_, Threadgroup)
    name = w.names.new(op.result.name or "shared", everywhere=True)
    # Whoever reads vectors from it, or other elements, needs it aligned for these.
    align = "alignas(16) " if any(_is_wide(user) for user in op.result.users) else ""
    element = w.language.memory_types[type_.element]
    w.shared.append(f"{align}{w.language.shared} {element} {name}[{type_.count}];")
    w.shared_bytes += -w.shared_bytes % 16 + type_.bytes
    w.expressions[op.result] = Expression(name, Precedence.POSTFIX, element)


def _is_wide(user: object) -> bool:
    if isinstance(user, metal.Load):
        return metal.count_of(user.result.type) > 1
    if isinstance(user, metal.Store):
        return metal.count_of(user.value.type) > 1
    return isinstance(user, metal.View | For)  # which give it another name


@emit(metal.View)
def _view(w: Writer, op: metal.View) -> None:
    whole, part = op.x.type, op.result.type
    assert isinstance(whole, Threadgroup) and isinstance(part, Threadgroup)
    base = w.expressions[op.x]
    element = w.language.memory_types[part.element]
    pointer = f"{w.language.shared} {element}*"
    start, size = op.start, whole.element.bytes
    if start % size:
        base = _pointer(f"{w.language.shared} uchar*", base)._replace(type="uchar")
        size = 1
    if start:
        offset = Expression(str(start // size), Precedence.POSTFIX, "int")
        base = binary(base, "+", offset, base.type)
    if base.type != element:
        base = _pointer(pointer, base)
    name = w.names.new(op.result.name or "view")
    w.line(f"{pointer} {name} = {base.text};")
    w.expressions[op.result] = Expression(name, Precedence.POSTFIX, element)


def _pointer(type_: str, base: Expression) -> Expression:
    text = f"({type_}){base.at_least(Precedence.PREFIX)}"
    return Expression(text, Precedence.PREFIX, base.type)


def _offset(base: Expression, offset: Expression) -> Expression:
    """A pointer so far from another."""
    if offset.text in ("0", "0l"):
        return base
    text = f"&{base.at_least(Precedence.POSTFIX)}[{offset.text}]"
    return Expression(text, Precedence.PREFIX, base.type)


def _place(
    w: Writer,
    base: Value,
    offset: Expression,
    form: Form,
    *,
    const: bool,
    volatile: bool = False,
) -> Expression:
    """The lvalue of elements in memory; of more than one vector, with its index."""
    pointer = w.expressions[base]
    of = base.type
    assert isinstance(of, (Ptr, Threadgroup))
    lanes, parts = form
    element = w.language.memory_types[of.element]
    qualifier = "volatile " * volatile + w.qualifier(base) + " const" * const
    if lanes == 1:
        if volatile:
            pointer = _pointer(f"{qualifier} {element}*", pointer)
        text = f"{pointer.at_least(Precedence.POSTFIX)}[{offset.text}]"
        return Expression(text, Precedence.POSTFIX, element)
    aligned = isinstance(of, Threadgroup) or of.aligned
    vector = f"{element}{lanes}" if aligned else f"packed_{element}{lanes}"
    if lanes > LANES:
        vector = w.type_name(of.element, lanes)
    address = _pointer(f"{qualifier} {vector}*", _offset(pointer, offset))
    loaded = element if aligned else f"packed_{element}"
    if parts == 1:
        return Expression(f"*{address.text}", Precedence.PREFIX, loaded, lanes)
    return Expression(f"({address.text})[{INDEX}]", Precedence.POSTFIX, loaded, lanes)


def _steady_offset(w: Writer, op: metal.Load | metal.Store) -> Expression:
    """Where an access is; known before it, if all lanes must come to that and not all do to it."""
    offset = w.number(op.offset)
    if op.mask is not None and offset.touches & Touch.CONVERGENT:
        return w.declare(op.offset, w.expressions[op.offset])
    return offset


@emit(metal.Load)
def _load(w: Writer, op: metal.Load) -> Expression | None:
    if not op.volatile:
        return _loaded(w, op)
    found: Expression | None
    if op.mask is None and dtype_of(op.result).bits == 32 and not element_of(op.result).shape:
        found = _loaded_atomically(w, op)
    else:
        w.flush()
        found = _loaded(w, op)
    if found is not None:
        w.declare(op.result, found)
    return None


def _loaded(w: Writer, op: metal.Load) -> Expression | None:
    type_ = element_of(op.result)
    offset = _steady_offset(w, op)
    mask = None if op.mask is None else w.value(op.mask)
    form = _access_form(w, op.base, op.result)
    place = _place(w, op.base, offset, form, const=True, volatile=op.volatile)
    read = place._replace(touches=Touch.READS | offset.touches)
    if form != w.form(op.result):
        return _taken_apart(w, op, mask, read)
    if type_.element is bool_:
        read = _truth(w, read)
    if mask is None or op.other is None:
        return read
    if form.lanes > 1:
        read = cast_to(w, read, w.language.types[type_.element])
    return ternary(mask, read, _other(w, op.other, form))


def _taken_apart(
    w: Writer, op: metal.Load, mask: Expression | None, read: Expression
) -> Expression | None:
    """What is loaded at once and held as several vectors."""
    if read.lanes <= LANES:
        if dtype_of(op.result) is bool_:
            read = _truth(w, read)
        if mask is not None and op.other is not None:
            read = cast_to(w, read, w.language.types[dtype_of(op.result)])
            read = ternary(mask, read, _other(w, op.other, Form(read.lanes, 1)))
        from_vector(w, op.result, read.text)
        return None
    if mask is not None and op.other is not None:
        read = ternary(mask, read, _other(w, op.other, Form(read.lanes, 1)))
    found = from_words(w, op.result, read.text)
    if found is not None and dtype_of(op.result) is bool_:
        return _truth(w, found)
    return found


def _other(w: Writer, other: Value, form: Form) -> Expression:
    """What stands for what is not loaded."""
    is_alike = w.form(other).lanes == form.lanes or constant_bits(other) is not None
    if form.lanes <= LANES and is_alike:
        return w.arm(other, form.lanes)
    text = to_words(w, other, w.arm(other))
    return Expression(text, Precedence.POSTFIX, "", form.lanes)


def _truth(w: Writer, byte: Expression) -> Expression:
    type_ = w.language.memory_types[bool_]
    zero = Expression("0", Precedence.POSTFIX, "int")
    if byte.lanes > 1:
        zero = cast_to(w, zero, type_)
    return binary(cast_to(w, byte, type_), "!=", zero, w.language.types[bool_])


def _access_form(w: Writer, base: Value, value: Value) -> Form:
    """How an access moves a value: at once, as a vector of elements or of words, if there is one
    that the parts are whole words of."""
    form, count = w.form(value), count_of(value.type)
    if count <= LANES or (moves_words(base, value) and makes_words(value, form.lanes)):
        return Form(count, 1)
    return form


ASSIGNS.add(metal.Store)


@emit(metal.Store)
def _store(w: Writer, op: metal.Store) -> None:
    type_ = element_of(op.value)
    w.written.add(op.base)
    offset = _steady_offset(w, op)
    x = w.value(op.value)
    mask = None if op.mask is None else w.value(op.mask)
    form = _access_form(w, op.base, op.value)
    if (mask is not None and x.touches & Touch.CONVERGENT) or (form.parts > 1 and x.touches):
        # Not all lanes come to the store; and what a part of it overwrites may still be read.
        x = w.declare(op.value, x)
    if form != w.form(op.value):
        text = to_words(w, op.value, x)
        x = Expression(text, Precedence.POSTFIX, w.language.types[type_.element], form.lanes)
    w.flush()
    place = _place(w, op.base, offset, form, const=False)
    starts = []
    if mask is not None:
        starts.append(w.open(f"if ({mask.text})"))
    if form.parts > 1:
        i, start = w.loop(form.parts, unrolled=w.meets_matrices(op.value))
        starts.append(start)
        x, place = x.at(i), place.at(i)
    text = _stored(w, x, type_.element, place)
    w.line(f"{place.text} = {text};")
    for start in reversed(starts):
        w.close(start)


def _stored(w: Writer, x: Expression, dtype: DType, place: Expression) -> str:
    """What memory takes for a value."""
    if dtype is bool_ and 1 < place.lanes <= LANES:
        vector = w.language.memory_types[dtype] + str(place.lanes)
        return f"{vector}({x.text})"
    return w.content(x, dtype, place.lanes)


# Atomics.

_ATOMIC = {True: "atomic_int", False: "atomic_uint"}
_RELAXED = "memory_order_relaxed"


def _atomic_place(
    w: Writer, op: metal.AtomicLoad | metal.Atomic | metal.CompareExchange | metal.Load
) -> str:
    w.written.add(op.base)
    dtype = _memory_dtype(op.base)
    qualifier = "volatile " * is_volatile(op) + w.qualifier(op.base)
    pointer = f"{qualifier} {_ATOMIC[dtype.is_signed]}*"
    # The place is found first: the offset counts elements, which are of one size.
    address = _pointer(pointer, w.expressions[op.base])
    offset = w.number(op.offset)
    return address.text if offset.text == "0" else binary(address, "+", offset, "").text


def _memory_dtype(base: Value) -> DType:
    assert isinstance(base.type, (Ptr, Threadgroup))
    return base.type.element


def _as_bits(w: Writer, value: Value) -> str:
    """The value as an atomic holds it: floats as their bits."""
    x = w.typed(value)
    return f"{w.language.bitcast.format(type='uint')}({x.text})" if x.type == "float" else x.text


def _from_bits(w: Writer, text: str, dtype: DType) -> Expression:
    x = Expression(text, Precedence.POSTFIX, w.language.types[u32 if dtype is f32 else dtype])
    if dtype is not f32:
        return x
    return call(w.language.bitcast.format(type="float"), x, type_="float")


@emit(metal.AtomicLoad)
def _atomic_load(w: Writer, op: metal.AtomicLoad) -> None:
    w.declare(op.result, _loaded_atomically(w, op))


def _loaded_atomically(w: Writer, op: metal.AtomicLoad | metal.Load) -> Expression:
    place = _atomic_place(w, op)
    w.flush()
    return _from_bits(w, f"atomic_load_explicit({place}, {_RELAXED})", dtype_of(op.result))


@emit(metal.Atomic)
def _atomic(w: Writer, op: metal.Atomic) -> None:
    place = _atomic_place(w, op)
    value = _as_bits(w, op.value)
    w.flush()
    function = w.language.atomics[AtomicKind(op.kind)]
    found = _from_bits(w, f"{function}({place}, {value}, {_RELAXED})", dtype_of(op.result))
    if w.is_used(op.result):
        w.declare(op.result, found)
    else:
        w.line(f"{function}({place}, {value}, {_RELAXED});")


@emit(metal.CompareExchange)
def _compare_exchange(w: Writer, op: metal.CompareExchange) -> None:
    place = _atomic_place(w, op)
    dtype = dtype_of(op.old)
    expected, value = _as_bits(w, op.expected), _as_bits(w, op.value)
    w.flush()
    bits = w.language.types[u32 if dtype is f32 else dtype]
    # The function leaves the old element where the expected one was.
    hint = op.old.name or "old"
    old = w.names.new(hint if dtype is not f32 else f"{hint}_bits")
    w.line(f"{bits} {old} = {expected};")
    exchange = (
        f"atomic_compare_exchange_weak_explicit({place}, &{old}, {value}, {_RELAXED}, {_RELAXED})"
    )
    if w.is_used(op.done):
        w.define(op.done, w.name_of(op.done), Expression(exchange, Precedence.POSTFIX, "bool"))
    else:
        w.line(f"{exchange};")
    if dtype is f32:
        if w.is_used(op.old):
            w.give(op.old, _from_bits(w, old, dtype))
    else:
        w.call(op.old, old)
