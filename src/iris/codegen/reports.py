"""Asserts and prints: records in a buffer that the host reads; `Source` has their format."""

from __future__ import annotations

from iris.codegen.expression import Expression
from iris.codegen.helpers import define
from iris.codegen.operators import dtype_of, logical_not
from iris.codegen.registers import element_at
from iris.codegen.source import Site
from iris.codegen.writer import Writer, emit
from iris.ir import metal
from iris.ir.core import Value
from iris.ir.types import DType, f32, u32


@emit(metal.Assert)
def _assert(w: Writer, op: metal.Assert) -> None:
    condition = w.value(op.condition)
    w.flush()
    start = w.open(f"if ({logical_not(condition).text})")
    w.line(_record(w, _site(w, Site(op.message, None, op.location))))
    w.close(start)


@emit(metal.Print)
def _print(w: Writer, op: metal.Print) -> None:
    pairs = [(w.simple(x), w.simple(at)) for x, at in zip(op.values, op.places, strict=True)]
    w.flush()
    site = _site(w, Site(op.prefix, op.types, op.location))
    if not pairs:
        start = w.open(f"if ({w.position('thread_index')} == 0)")
        w.line(_record(w, site, "0, -1"))
        w.close(start)
        return
    for part, (value, (x, at)) in enumerate(zip(op.values, pairs, strict=True)):
        count = metal.count_of(value.type)
        if count == 1:
            _print_element(w, value, site, part, x.text, at.text)
            continue
        i, start = w.loop(count, unrolled=w.meets_matrices(value))
        _print_element(w, value, site, part, _element(x, i), _element(at, i))
        w.close(start)


def _element(x: Expression, index: str) -> str:
    return x.text if x.lanes == 1 and not x.is_indexed else element_at(x, index, 1, 0)


def _print_element(w: Writer, value: Value, site: int, part: int, x: str, at: str) -> None:
    start = w.open(f"if ({at} >= 0)")
    w.line(_record(w, site, f"{part}, {at}, {_bits(w, x, dtype_of(value))}"))
    w.close(start)


def _bits(w: Writer, x: str, dtype: DType) -> str:
    """The bits of an element, as an unsigned integer."""
    if dtype.is_float:
        unsigned = "uint" if dtype is f32 else "ushort"
        return f"{w.language.bitcast.format(type=unsigned)}({x})"
    type_ = w.language.types[dtype]
    return f"{w.language.unsigned[type_]}({x})" if dtype.is_signed else x


def _site(w: Writer, site: Site) -> int:
    """Take down a place that reports: its number."""
    define(w, "add_record", u32)
    if w.report is None:
        w.report = w.names.new("report", everywhere=True)
    w.sites.append(site)
    return len(w.sites) - 1


def _record(w: Writer, site: int, rest: str = "") -> str:
    """The statement that adds a record."""
    tail = f", {rest}" if rest else ""
    return f"add_record({w.report}, {site}, {_program(w)}, {w.position('thread_index')}{tail});"


def _program(w: Writer) -> str:
    """The name of the number of the program."""
    if w.program is None:
        tid, grid = w.position("tid"), w.position("grid")
        w.program = w.names.new("program", everywhere=True)
        number = f"{tid}.x + {grid}.x * ({tid}.y + {grid}.y * {tid}.z)"
        w.opening.append(f"uint {w.program} = {number};")
    return w.program
