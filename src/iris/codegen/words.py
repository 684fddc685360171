"""Vectors of words, as which memory moves more than four elements at once: 8 halves are a `uint4`.

What is computed is held as vectors of elements.  They are taken out of the words

    uint4 x_bits = *(device const uint4*)&X[at];
    half4 x[2] = {as_type<half4>(x_bits.xy), as_type<half4>(x_bits.zw)};

and put into words again, `uint4(as_type<uint2>(y[0]), as_type<uint2>(y[1]))`.
"""

from __future__ import annotations

from collections.abc import Sequence

from iris.codegen.expression import Expression, in_memory
from iris.codegen.operators import as_type, dtype_of
from iris.codegen.statements import Assign, Declare
from iris.codegen.tree import PART, Call, Name, Number, Tree, element, number, within
from iris.codegen.writer import Writer
from iris.ir.core import Value
from iris.ir.math import constant_bits
from iris.ir.metal import VECTOR, count_of
from iris.ir.types import DType, bool_

_HALVES = ((0, 1), (2, 3))  # of a vector of four words


def from_words(ctx: Writer, value: Value, words: Tree) -> Expression | None:
    """A value that is held as vectors, of words; None if it is a variable now."""
    dtype, (lanes, parts) = in_memory(dtype_of(value)), ctx.form(value)
    word = ctx.language.word
    bits = _new_words(ctx, value, words)
    if lanes * dtype.bytes == word.bytes:
        return _vector(ctx, element(bits, PART), dtype, lanes)
    vectors = [
        _vector(ctx, ctx.language.lanes(bits, half), dtype, lanes).tree for half in _HALVES[:parts]
    ]
    ctx.assemble(value, vectors)
    return None


def _vector(ctx: Writer, words: Tree, dtype: DType, lanes: int) -> Expression:
    """The elements that a word or two are."""
    return as_type(ctx, Expression(words, ctx.language.word), dtype, lanes)


def from_vector(ctx: Writer, value: Value, vector: Tree) -> None:
    """A value that is held as two halves, of a vector of all its elements."""
    dtype, count = dtype_of(value), count_of(value.type)
    whole = ctx.names.new(f"{value.name}_loaded" if value.name else "loaded")
    ctx.put(Declare(ctx.type_name(dtype, count), whole, vector))
    ctx.fill(value, [ctx.language.lanes(Name(whole), half) for half in _HALVES])


def to_words(ctx: Writer, value: Value, x: Expression) -> Tree:
    """The words of a value that is held as vectors, or the one vector, if that is long enough."""
    dtype, count = dtype_of(value), count_of(value.type)
    type_ = ctx.type_name(dtype, count)
    if count <= VECTOR:
        each = ctx.form(value).lanes
        halves = [ctx.content(x.at(number(i)), dtype, each) for i in range(len(_HALVES))]
        return Call(type_, *halves)
    known = constant_bits(value)
    if known is not None:
        return Call(type_, _repeated(ctx.language.word, known, dtype))
    lanes, parts = ctx.form(value)
    joined = max(1, ctx.language.word.bytes // (lanes * dtype.bytes))  # parts that make a word

    def words(numbers: Sequence[Tree]) -> Tree:
        return _words_of(ctx, [x.at(i) for i in numbers], dtype, lanes)

    def whole() -> Tree:
        every = [number(i) for i in range(parts)]
        return Call(type_, *[words(every[i : i + joined]) for i in range(0, parts, joined)])

    packed = whole()
    if not x.is_indexed or len(packed.text) <= ctx.width:
        return packed
    if lanes * dtype.bytes > ctx.language.word.bytes:
        x = ctx.declare(value, x)
        return whole()
    bits = _new_words(ctx, value)
    with ctx.loop(parts // joined) as i:
        numbers = [within(i, joined, number(j)) for j in range(joined)]
        ctx.put(Assign(element(bits, i), words(numbers)))
    return bits


def _repeated(word: DType, bits: int, dtype: DType) -> Number:
    """A word of elements that are all alike."""
    value = sum(bits << at for at in range(0, 8 * word.bytes, 8 * dtype.bytes))
    return Number(f"{value:#010x}u" if value else "0", value)


def _words_of(ctx: Writer, vectors: Sequence[Expression], dtype: DType, lanes: int) -> Tree:
    """Packs vectors of `lanes` elements into one word or two."""
    count, word = lanes * len(vectors), ctx.language.word
    held = in_memory(dtype)
    contents = [x.tree if dtype is bool_ else ctx.content(x, dtype, lanes) for x in vectors]
    packed = contents[0]
    if dtype is bool_ or len(vectors) > 1:
        packed = Call(ctx.language.vector_of(held, count), *contents)
    return as_type(ctx, Expression(packed, held), word, count * dtype.bytes // word.bytes).tree


def _new_words(ctx: Writer, value: Value, content: Tree | None = None) -> Name:
    """A new variable for the words of a value."""
    name = ctx.names.new(f"{value.name}_bits" if value.name else "bits")
    type_ = ctx.type_name(dtype_of(value), count_of(value.type))
    ctx.put(Declare(type_, name, content))
    return Name(name)


def makes_words(ctx: Writer, value: Value, lanes: int) -> bool:
    """Whether vectors of `lanes` elements of a value are whole words."""
    return lanes * dtype_of(value).bytes >= ctx.language.word.bytes
