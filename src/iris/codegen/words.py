"""Vectors of words, as which memory moves more than four elements at once: 8 halves are a `uint4`.

What is computed is held as vectors of elements.  They are taken out of the words

    uint4 x_bits = *(device const uint4*)&X[at];
    half4 x[2] = {as_type<half4>(x_bits.xy), as_type<half4>(x_bits.zw)};

and put into words again, `uint4(as_type<uint2>(y[0]), as_type<uint2>(y[1]))`.
"""

from __future__ import annotations

from collections.abc import Sequence

from iris.codegen.expression import INDEX, LANES, Expression, Precedence
from iris.codegen.writer import COLUMNS, MARGIN, Writer, element_of
from iris.ir.core import Value
from iris.ir.math import constant_bits
from iris.ir.metal import count_of
from iris.ir.types import DType, bool_

_WORD = 32  # bits
_HALVES = ("xy", "zw")  # of a vector of four words


def from_words(w: Writer, value: Value, words: str) -> Expression | None:
    """A value that is held as vectors, of words; None if it is a variable now."""
    dtype, (lanes, parts) = element_of(value).element, w.form(value)
    bits = _new_words(w, value, f" = {words}")
    element = w.language.memory_types[dtype]
    as_vector = w.language.bitcast.format(type=f"{element}{lanes}")
    if lanes * _size(dtype) == _WORD:
        return Expression(f"{as_vector}({bits}[{INDEX}])", Precedence.POSTFIX, element, lanes)
    vectors = [f"{as_vector}({bits}.{half})" for half in _HALVES[:parts]]
    if value in w.awaited:
        place = w.room(value)
        for number, vector in enumerate(vectors):
            w.line(f"{place.at(number).text} = {vector};")
    else:
        name = w.name_of(value)
        w.line(f"{element}{lanes} {name}[{len(vectors)}] = {{{', '.join(vectors)}}};")
        w.call(value, name)
    return None


def from_vector(w: Writer, value: Value, vector: str) -> None:
    """A value that is held as two halves, of a vector of all its elements."""
    dtype, count = element_of(value).element, count_of(value.type)
    whole = w.names.new(f"{value.name}_loaded" if value.name else "loaded")
    w.line(f"{w.type_name(dtype, count)} {whole} = {vector};")
    place = w.room(value)
    for number, half in enumerate(_HALVES):
        w.line(f"{place.at(number).text} = {whole}.{half};")


def to_words(w: Writer, value: Value, x: Expression) -> str:
    """The words of a value that is held as vectors, or the one vector, if that is long enough."""
    dtype, count = element_of(value).element, count_of(value.type)
    type_ = w.type_name(dtype, count)
    if count <= LANES:
        halves = [w.content(x.at(i), dtype, w.form(value).lanes) for i in range(len(_HALVES))]
        return f"{type_}({', '.join(halves)})"
    known = constant_bits(value)
    if known is not None:
        word = sum(known << at for at in range(0, _WORD, _size(dtype)))
        return f"{type_}({f'{word:#010x}u' if word else 0})"
    lanes, parts = w.form(value)
    joined = max(1, _WORD // (lanes * _size(dtype)))  # parts that make a word

    def words(numbers: Sequence[int | str]) -> str:
        return _words_of(w, [x.at(number) for number in numbers], dtype, lanes)

    def whole() -> str:
        made = [words(range(i, i + joined)) for i in range(0, parts, joined)]
        return f"{type_}({', '.join(made)})"

    room = COLUMNS - MARGIN - len(w.indent)
    if not x.is_indexed or len(whole()) <= room:
        return whole()
    if lanes * _size(dtype) > _WORD:
        x = w.declare(value, x)
        return whole()
    bits = _new_words(w, value, "")
    i, start = w.loop(parts // joined, unrolled=w.meets_matrices(value))
    numbers = [i] if joined == 1 else [f"{i} * {joined} + {j}" for j in range(joined)]
    w.line(f"{bits}[{i}] = {words(numbers)};")
    w.close(start)
    return bits


def _words_of(w: Writer, vectors: Sequence[Expression], dtype: DType, lanes: int) -> str:
    """Packs vectors of `lanes` elements into one word or two."""
    element, count = w.language.memory_types[dtype], lanes * len(vectors)
    if dtype is bool_:
        text = f"{element}{count}({', '.join([x.text for x in vectors])})"
    else:
        text = ", ".join([w.content(x, dtype, lanes) for x in vectors])
        text = text if len(vectors) == 1 else f"{element}{count}({text})"
    size = count * _size(dtype) // _WORD
    word = f"{w.language.word}{size}" if size > 1 else w.language.word
    return f"{w.language.bitcast.format(type=word)}({text})"


def _new_words(w: Writer, value: Value, content: str) -> str:
    """A new variable for the words of a value."""
    name = w.names.new(f"{value.name}_bits" if value.name else "bits")
    type_ = w.type_name(element_of(value).element, count_of(value.type))
    w.line(f"{type_} {name}{content};")
    return name


def makes_words(value: Value, lanes: int) -> bool:
    """Whether vectors of `lanes` elements of a value are whole words."""
    return lanes * _size(element_of(value).element) >= _WORD


def _size(dtype: DType) -> int:
    """The bits of an element in memory."""
    return max(8, dtype.bits)
