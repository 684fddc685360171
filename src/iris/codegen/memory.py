"""Memory of the device and of the threadgroup: loads, stores and atomics."""

from __future__ import annotations

from iris.codegen.expression import Expression, Form, Touch, aligned, in_memory
from iris.codegen.language import joined, pointer_to
from iris.codegen.operators import as_type, binary, cast_to, dtype_of, integer, ternary
from iris.codegen.statements import Assign, Declare, If, Run
from iris.codegen.tree import (
    PART,
    Call,
    Name,
    PointerCast,
    Tree,
    Unary,
    element,
    is_zero,
    number,
)
from iris.codegen.words import from_vector, from_words, makes_words, to_words
from iris.codegen.writer import ASSIGNS, Writer, emit
from iris.ir import metal
from iris.ir.control import For
from iris.ir.core import Value
from iris.ir.kinds import AtomicKind
from iris.ir.math import constant_bits
from iris.ir.metal import VECTOR, count_of, moves_words
from iris.ir.types import DType, Ptr, Threadgroup, bool_, i32, u8, u32
from iris.ir.waiting import is_volatile


@emit(metal.Alloc)
def _alloc(ctx: Writer, op: metal.Alloc) -> None:
    type_ = op.result.type_as(Threadgroup)
    name = ctx.names.new(op.result.name or "shared", everywhere=True)
    held, arena = ctx.held(op.result), ctx.language.arena
    start = aligned(ctx.shared_bytes, 16)
    if arena is None:
        # Whoever reads vectors from it, or other elements, needs it aligned for these.
        is_wide = any(_is_wide(user) for user in op.result.users)
        qualified = joined(
            ctx.language.aligned * is_wide, ctx.language.shared, ctx.language.types[held.element]
        )
        ctx.shared.append(Declare(qualified, name, count=type_.count))
    else:
        part = Unary("&", element(Name(arena), number(start)))
        ctx.shared.append(Declare(held.type, name, PointerCast(held.type, part)))
    ctx.shared_bytes = start + type_.bytes
    ctx.expressions[op.result] = Expression(Name(name), held.element)


def _is_wide(user: object) -> bool:
    if isinstance(user, metal.Load):
        return metal.count_of(user.result.type) > 1
    if isinstance(user, metal.Store):
        return metal.count_of(user.value.type) > 1
    return isinstance(user, (metal.View, For))  # which give it another name


@emit(metal.View)
def _view(ctx: Writer, op: metal.View) -> None:
    held = in_memory(dtype_of(op.result))
    base = ctx.expressions[op.x]
    start, size = op.start, dtype_of(op.x).bytes
    if start % size:
        base, size = _as_pointer(ctx, ctx.language.shared_pointer, base, u8), 1
    if start:
        base = binary(base, "+", integer(start // size), base.type)
    if base.type is not held:
        base = _as_pointer(ctx, ctx.language.shared_pointer, base, held)
    name = ctx.names.new(op.result.name or "view")
    ctx.put(Declare(ctx.held(op.result).type, name, base.tree))
    ctx.expressions[op.result] = base.replace(tree=Name(name))


def _as_pointer(ctx: Writer, qualifier: str, base: Expression, dtype: DType) -> Expression:
    """The same address, of elements of a dtype."""
    cast = _pointer(qualifier, ctx.language.types[dtype], base.tree)
    return Expression(cast, dtype)


def _pointer(qualifier: str, element: str, address: Tree) -> Tree:
    return PointerCast(pointer_to(qualifier, element), address)


def _place(
    ctx: Writer,
    base: Value,
    offset: Expression,
    form: Form,
    *,
    const: bool,
    volatile: bool = False,
) -> Expression:
    """The lvalue of elements in memory; of more than one vector, with its index."""
    pointer, held = ctx.expressions[base], in_memory(dtype_of(base))
    lanes, parts = form
    qualifier = joined("volatile" * volatile, ctx.qualifier(base), "const" * const)
    if lanes == 1:
        tree = pointer.tree
        if volatile:
            seen = ctx.language.volatile.format(type=ctx.language.types[held])
            tree = _pointer(qualifier, seen, tree)
        return Expression(element(tree, offset.tree), held)
    is_packed = isinstance(base.type, Ptr) and not base.type.aligned
    vector = ctx.type_name(held, lanes)
    if is_packed and lanes <= VECTOR:
        vector = ctx.language.packed.format(type=ctx.language.types[held], lanes=lanes)
    start = pointer.tree
    if not is_zero(offset.tree):
        start = Unary("&", element(start, offset.tree))
    address = _pointer(qualifier, vector, start)
    place = Unary("*", address) if parts == 1 else element(address, PART)
    return Expression(place, held, lanes, is_packed=is_packed)


def _steady(ctx: Writer, offset: Value, mask: Value | None) -> Expression:
    """Where an access is; known before it, if all lanes must come to that and not all do to it."""
    number = ctx.number(offset)
    if mask is not None and number.touches & Touch.CONVERGENT:
        return ctx.declare(offset, ctx.expressions[offset])
    return number


@emit(metal.Load)
def _load(ctx: Writer, op: metal.Load) -> Expression | None:
    if not op.volatile:
        return _loaded(ctx, op)
    found: Expression | None
    type_ = op.result.type
    if op.mask is None and isinstance(type_, DType) and type_.bits == 32:
        found = _loaded_atomically(ctx, op)
    else:
        ctx.flush()
        found = _loaded(ctx, op)
    if found is not None:
        ctx.declare(op.result, found)
    return None


def _loaded(ctx: Writer, op: metal.Load) -> Expression | None:
    dtype = dtype_of(op.result)
    offset = _steady(ctx, op.offset, op.mask)
    mask = None if op.mask is None else ctx.value(op.mask)
    form = _access_form(ctx, op.base, op.result)
    place = _place(ctx, op.base, offset, form, const=True, volatile=op.volatile)
    read = place.replace(touches=Touch.READS | offset.touches)
    is_words = form.lanes > VECTOR
    if dtype is bool_ and not is_words:
        read = _truth(ctx, read)
    if mask is not None and op.other is not None:
        if 1 < form.lanes <= VECTOR:
            read = cast_to(ctx, read, dtype)
        read = ternary(mask, read, _other(ctx, op.other, form))
    if form == ctx.form(op.result):
        return read
    if not is_words:
        from_vector(ctx, op.result, read.tree)
        return None
    found = from_words(ctx, op.result, read.tree)
    return _truth(ctx, found) if found is not None and dtype is bool_ else found


def _other(ctx: Writer, other: Value, form: Form) -> Expression:
    """What stands for what is not loaded."""
    is_alike = ctx.form(other).lanes == form.lanes or constant_bits(other) is not None
    is_vector = form.lanes <= VECTOR and is_alike
    x = ctx.branch_operand(other, form.lanes if is_vector else 1)
    return x if is_vector else Expression(to_words(ctx, other, x), dtype_of(other), form.lanes)


def _truth(ctx: Writer, byte: Expression) -> Expression:
    zero = integer(0)
    if byte.lanes > 1:
        zero = cast_to(ctx, zero, u8)
    return binary(cast_to(ctx, byte, u8), "!=", zero, bool_)


def _access_form(ctx: Writer, base: Value, value: Value) -> Form:
    """How an access moves a value: at once, as a vector of elements or of words, if there is one
    that the parts are whole words of."""
    form, count = ctx.form(value), count_of(value.type)
    if count <= VECTOR or (moves_words(base, value) and makes_words(ctx, value, form.lanes)):
        return Form(count, 1)
    return form


ASSIGNS.add(metal.Store)


@emit(metal.Store)
def _store(ctx: Writer, op: metal.Store) -> None:
    dtype = dtype_of(op.value)
    ctx.written.add(op.base)
    offset = _steady(ctx, op.offset, op.mask)
    x = ctx.value(op.value)
    mask = None if op.mask is None else ctx.value(op.mask)
    form = _access_form(ctx, op.base, op.value)
    if (mask is not None and x.touches & Touch.CONVERGENT) or (form.parts > 1 and x.touches):
        # Not all lanes come to the store; and what a part of it overwrites may still be read.
        x = ctx.declare(op.value, x)
    if form != ctx.form(op.value):
        x = Expression(to_words(ctx, op.value, x), dtype, form.lanes)
    ctx.flush()
    place = _place(ctx, op.base, offset, form, const=False)
    if mask is None:
        _put(ctx, x, dtype, place, form.parts)
        return
    with ctx.nest() as body:
        _put(ctx, x, dtype, place, form.parts)
    ctx.put(If(body, mask.tree))


def _put(ctx: Writer, x: Expression, dtype: DType, place: Expression, parts: int) -> None:
    """Assign a value to its place in memory, vector by vector."""
    with ctx.loop(parts) as i:
        if dtype is bool_ and 1 < place.lanes <= VECTOR:
            content: Tree = Call(ctx.language.vector_of(place.type, place.lanes), x.at(i).tree)
        else:
            content = ctx.content(x.at(i), dtype, place.lanes)
        ctx.put(Assign(place.tree.at(i), content))


# Copies.


@emit(metal.Copy)
def _copy(ctx: Writer, op: metal.Copy) -> None:
    size = op.count * dtype_of(op.base).bytes
    lanes = size // ctx.language.word.bytes
    form = Form(lanes, 1)
    offset, source_offset = ctx.number(op.offset), _steady(ctx, op.source_offset, op.mask)
    mask = None if op.mask is None else ctx.value(op.mask)
    ctx.flush()
    to, source = (
        Unary("&", element(ctx.expressions[memory].tree, at.tree))
        for memory, at in ((op.base, offset), (op.source, source_offset))
    )
    if ctx.language.copy:
        inside = () if mask is None else (mask.tree,)
        ctx.put(Run(Call(ctx.language.copy.format(bytes=size), to, source, *inside)))
        return
    # What goes on by itself elsewhere is done at once.
    type_ = ctx.type_name(ctx.language.word, form.lanes)
    place, found = (
        Unary("*", _pointer(qualifier, type_, address))
        for qualifier, address in (
            (ctx.language.shared_pointer, to),
            (joined(ctx.qualifier(op.source), "const"), source),
        )
    )
    read = Expression(found, ctx.language.word, form.lanes)
    if mask is not None:
        zero = ctx.cast(integer(0), ctx.language.word, form.lanes)
        read = ternary(mask, read, zero)
    ctx.put(Assign(place, read.tree))


@emit(metal.WaitCopies)
def _wait_copies(ctx: Writer, op: metal.WaitCopies) -> None:
    ctx.flush()
    if ctx.language.wait_copies:
        ctx.put(Run(Name(ctx.language.wait_copies.format(latest=op.latest))))


# Atomics.


def _atomic_place(
    ctx: Writer, op: metal.AtomicLoad | metal.Atomic | metal.CompareExchange | metal.Load
) -> Expression:
    ctx.written.add(op.base)
    held = _bits_type(dtype_of(op.base))
    qualifier = joined("volatile" * is_volatile(op), ctx.qualifier(op.base))
    element = ctx.language.atomic.format(type=ctx.language.types[held])
    # The place is found first: the offset counts elements, which are of one size.
    address = Expression(_pointer(qualifier, element, ctx.expressions[op.base].tree), held)
    offset = ctx.number(op.offset)
    return address if is_zero(offset.tree) else binary(address, "+", offset, held)


def _bits_type(dtype: DType) -> DType:
    """What an atomic holds an element as: floats as their bits."""
    return i32 if dtype.is_signed else u32


def _as_bits(ctx: Writer, value: Value) -> Expression:
    x = ctx.typed(value)
    return as_type(ctx, x, u32) if x.type.is_float else x


def _atomically(function: str, place: Expression, *operands: Tree) -> Expression:
    """A call of an atomic function, which gives what was there, as its bits."""
    return Expression(Call(function, place.tree, *operands), place.type)


@emit(metal.AtomicLoad)
def _atomic_load(ctx: Writer, op: metal.AtomicLoad) -> None:
    ctx.declare(op.result, _loaded_atomically(ctx, op))


def _loaded_atomically(ctx: Writer, op: metal.AtomicLoad | metal.Load) -> Expression:
    place = _atomic_place(ctx, op)
    ctx.flush()
    found = _atomically(ctx.language.atomic_load, place, *ctx.language.order)
    return as_type(ctx, found, dtype_of(op.result))


@emit(metal.Atomic)
def _atomic(ctx: Writer, op: metal.Atomic) -> None:
    place, value = _atomic_place(ctx, op), _as_bits(ctx, op.value)
    ctx.flush()
    function = ctx.language.atomics[AtomicKind(op.kind)]
    found = _atomically(function, place, value.tree, *ctx.language.order)
    if ctx.is_used(op.result):
        ctx.declare(op.result, as_type(ctx, found, dtype_of(op.result)))
    else:
        ctx.put(Run(found.tree))


@emit(metal.CompareExchange)
def _compare_exchange(ctx: Writer, op: metal.CompareExchange) -> None:
    place, dtype = _atomic_place(ctx, op), dtype_of(op.old)
    expected, value = _as_bits(ctx, op.expected), _as_bits(ctx, op.value)
    ctx.flush()
    # The function leaves the old element where the expected one was.
    hint = op.old.name or "old"
    old = Name(ctx.names.new(f"{hint}_bits" if dtype.is_float else hint))
    ctx.put(Declare(ctx.language.types[place.type], old.word, expected.tree))
    operands = Unary("&", old), value.tree, *ctx.language.order, *ctx.language.order
    exchange = _atomically(ctx.language.compare_exchange, place, *operands)
    if ctx.is_used(op.done):
        ctx.define(op.done, ctx.name_of(op.done), exchange.replace(type=bool_))
    else:
        ctx.put(Run(exchange.tree))
    if not dtype.is_float:
        ctx.bind_variable(op.old, old.word)
    elif ctx.is_used(op.old):
        ctx.bind(op.old, as_type(ctx, Expression(old, place.type), dtype))
