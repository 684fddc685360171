"""Uniformity: what each op and each kind of control flow does to it, and what the verifier asks."""

from __future__ import annotations

from textwrap import dedent

import pytest

from iris.errors import VerifyError
from iris.ir import parse, verify
from iris.ir.uniformity import SIMDGROUP, THREADGROUP, VARYING, Uniformity, uniformity

HEAD = "%X: ptr<f32>, %Y: ptr<f32, noalias>, %I: ptr<i32>, %n: i32, %yes: bool, %x: f32"
START = """
%c0: i32 = constant 0
%c1: i32 = constant 1
%lane: i32 = metal.lane
%sg: i32 = metal.simdgroup
%S: threadgroup<64xf32> = metal.alloc
%v: f32 = cast %lane
%w: f32 = cast %sg
%some: bool = compare lt %lane, %n
%part: bool = compare lt %sg, %n
"""


def text(body: str, simdgroups: int) -> str:
    lines = f"{START}{dedent(body)}\nreturn\n"
    return f"func metal @f simdgroups={simdgroups}({HEAD}) {{\n{lines}}}\n"


def level(body: str, simdgroups: int = 4) -> Uniformity:
    """How uniform the value called %r is."""
    (function,) = parse(text(body, simdgroups))
    values = [v for op in function.walk() for v in op.results]
    values += [v for op in function.walk() for region in op.regions for v in region.arguments]
    return uniformity(function)[next(v for v in values if v.name == "r")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%r: i32 = metal.lane", VARYING),
        ("%r: i32 = metal.simdgroup", SIMDGROUP),
        ("%r: i32 = metal.threadgroup_id 1", THREADGROUP),
        ("%r: i32 = metal.num_threadgroups 1", THREADGROUP),
        ("%r: i32 = metal.extent 0 %X", THREADGROUP),
        ("%r: i32 = add %n, %c1", THREADGROUP),
        ("%r: i32 = add %n, %sg", SIMDGROUP),
        ("%r: i32 = add %lane, %sg", VARYING),
        ("%r: regs<2xi32> = metal.literal [3, 4]", THREADGROUP),
        ("%r: f32 = metal.load %X, %n", THREADGROUP),
        ("%r: f32 = metal.load %S, %n", THREADGROUP),
        ("%r: f32 = metal.load %X, %sg", SIMDGROUP),
        ("%r: f32 = metal.load %X, %n, mask=%part, other=%x", SIMDGROUP),
        ("%r: f32 = metal.load %X, %n, mask=%yes, other=%v", VARYING),
        ("%r: i32 = metal.atomic add %I, %n, %c1", VARYING),
        ("%r: i32 = metal.atomic_load %I, %n", VARYING),
        ("%r: i32, %d: bool = metal.compare_exchange %I, %n, %c0, %c1", VARYING),
        ("%r: f32 = metal.broadcast 3 %x", THREADGROUP),
        ("%r: f32 = metal.broadcast 3 %w", SIMDGROUP),
        ("%r: f32 = metal.broadcast 3 %v", SIMDGROUP),
        ("%r: f32 = metal.shuffle_xor 3 %x", THREADGROUP),
        ("%r: f32 = metal.shuffle_xor 3 %w", SIMDGROUP),
        ("%r: f32 = metal.shuffle_xor 3 %v", VARYING),
        ("%r: f32 = metal.shuffle %x, %lane", THREADGROUP),
        ("%r: f32 = metal.shuffle %w, %lane", SIMDGROUP),
        ("%r: f32 = metal.shuffle %v, %lane", VARYING),
        ("%r: f32 = metal.shuffle %v, %n", SIMDGROUP),
    ],
)
def test_one_op(line: str, expected: Uniformity) -> None:
    assert level(line) is expected
    alone = VARYING if expected is VARYING else THREADGROUP
    assert level(line, simdgroups=1) is alone, "one simdgroup is the threadgroup"
    assert level(line, simdgroups=0) is expected, "undecided, there may be several"


@pytest.mark.parametrize(
    ("condition", "then", "otherwise", "expected"),
    [
        ("%yes", "%n", "%c0", THREADGROUP),
        ("%yes", "%n", "%sg", SIMDGROUP),
        ("%part", "%n", "%c0", SIMDGROUP),
        ("%some", "%n", "%n", VARYING),
        ("%part", "%n", "%lane", VARYING),
    ],
)
def test_a_branch(condition: str, then: str, otherwise: str, expected: Uniformity) -> None:
    body = f"%r: i32 = if {condition} {{\nyield {then}\n}} else {{\nyield {otherwise}\n}}"
    assert level(body) is expected


@pytest.mark.parametrize(
    ("bounds", "start", "expected"),
    [
        ("%c0, %n, %c1", "%x", THREADGROUP),
        ("%c0, %n, %c1", "%v", VARYING),
        ("%c0, %sg, %c1", "%x", SIMDGROUP),
        ("%c0, %lane, %c1", "%x", VARYING),
    ],
)
def test_what_a_loop_carries_out(bounds: str, start: str, expected: Uniformity) -> None:
    body = f"%r: f32 = for {bounds} (%k: i32, %a: f32 = {start}) {{\nyield %a\n}}"
    assert level(body) is expected


def test_the_number_of_a_round_is_the_same_for_those_in_it() -> None:
    assert level("for %c0, %lane, %c1 (%r: i32) {\nyield\n}") is THREADGROUP
    assert level("for %lane, %n, %c1 (%r: i32) {\nyield\n}") is VARYING


def test_carried_values_come_to_a_fixed_point() -> None:
    swap = """
        %p: f32, %q: f32, %r: f32 = for %c0, %n, %c1
            (%k: i32, %a: f32 = %x, %b: f32 = %x, %c: f32 = %v) {
          yield %b, %c, %a
        }
        """.replace("\n            (", " (")
    assert level(swap) is VARYING
    apart = """
        %p: f32, %r: f32 = for %c0, %n, %c1 (%k: i32, %a: f32 = %v, %b: f32 = %x) {
          yield %a, %b
        }
        """
    assert level(apart) is THREADGROUP
    nested = """
        %p: f32 = for %c0, %n, %c1 (%k: i32, %a: f32 = %x) {
          %q: f32 = for %c0, %n, %c1 (%j: i32, %r: f32 = %a) {
            yield %v
          }
          yield %q
        }
        """
    assert level(nested) is VARYING


def while_loop(condition: str, body: str) -> str:
    return f"""
        %end: f32 = while (%a: f32 = %x) {{
          {condition}
          %more: bool = compare lt %r, %x
          yield %more
        }} do (%b: f32) {{
          {body}
          yield %b
        }}
        """


def test_a_condition_that_loads_device_memory_written_in_its_loop() -> None:
    load = "%r: f32 = metal.load %X, %n"
    store = "metal.store %X, %n, %x"
    assert level(while_loop(load, "")) is THREADGROUP
    assert level(while_loop(load, store)) is VARYING
    assert level(while_loop(load, "metal.barrier device")) is THREADGROUP
    assert level(while_loop(load, "metal.store %Y, %n, %x")) is THREADGROUP
    of_threadgroup = [s.replace("%X", "%S") for s in (load, store)]
    assert level(while_loop(*of_threadgroup)) is THREADGROUP
    view = "%V: threadgroup<8xf32> = metal.view 0 %S\n"
    assert level(while_loop(view + load.replace("%X", "%V"), store)) is THREADGROUP
    outer = while_loop("%s: f32 = metal.load %X, %n", "INNER" + store).replace("lt %r", "lt %s")
    inner = while_loop(load, "")
    for name in ("a", "b", "end", "more"):
        inner = inner.replace(f"%{name}", f"%{name}_1")
    assert level(outer.replace("INNER", inner)) is VARYING


def test_a_while_whose_threads_leave_it_in_different_rounds() -> None:
    body = """
        %r: f32 = while (%a: f32 = %x) {
          yield %some
        } do (%b: f32) {
          yield %b
        }
        """
    assert level(body) is VARYING
    assert level(body.replace("%some", "%yes")) is THREADGROUP


def test_foreach() -> None:
    body = "%r: regs<4xf32> = metal.foreach 4 (%i: i32) {\nyield %x\n}"
    assert level(body) is THREADGROUP
    assert level(body.replace("yield %x", "yield %v")) is VARYING
    assert level("metal.foreach 4 (%r: i32) {\nyield\n}") is THREADGROUP


# What the verifier asks.

GUARDS = {
    "if": "if {bool} {{\n{op}\nyield\n}} else {{\nyield\n}}",
    "else": "if {bool} {{\nyield\n}} else {{\n{op}\nyield\n}}",
    "for": "for %c0, {int}, %c1 (%k: i32) {{\n{op}\nyield\n}}",
    "while": "while {{\nyield {bool}\n}} do {{\n{op}\nyield\n}}",
    "condition": "while {{\n{op}\nyield {bool}\n}} do {{\nyield\n}}",
    "inner": (
        "if {bool} {{\nmetal.foreach 2 (%i: i32) {{\n{op}\nyield\n}}\nyield\n}} else {{\nyield\n}}"
    ),
}
VALUES = {
    THREADGROUP: {"bool": "%yes", "int": "%n"},
    SIMDGROUP: {"bool": "%part", "int": "%sg"},
    VARYING: {"bool": "%some", "int": "%lane"},
}


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("there", VALUES)
@pytest.mark.parametrize(
    ("op", "needed"),
    [
        ("metal.barrier threadgroup", THREADGROUP),
        ("metal.barrier device", THREADGROUP),
        ("metal.barrier simdgroup", SIMDGROUP),
        ("%q: f32 = metal.shuffle_xor 1 %v", SIMDGROUP),
        ("%q: f32 = metal.shuffle %v, %lane", SIMDGROUP),
        ("%q: f32 = metal.broadcast 0 %v", SIMDGROUP),
    ],
)
def test_convergent_ops_stand_under_uniform_control_flow(
    guard: str, there: Uniformity, op: str, needed: Uniformity
) -> None:
    module = parse(text(GUARDS[guard].format(op=op, **VALUES[there]), 4))
    if there <= needed:
        verify(module)
        return
    group = "threadgroup" if needed is THREADGROUP else "simdgroup"
    with pytest.raises(VerifyError, match=f"all threads of a {group} must run it together"):
        verify(module)


def test_the_error_shows_the_op_and_names_what_guards_it() -> None:
    body = GUARDS["if"].format(op="metal.barrier threadgroup", bool="%some")
    with pytest.raises(VerifyError) as caught:
        verify(parse(text(body, 1), "k.iris"))
    (line,) = [line for line in str(caught.value).splitlines() if line.startswith(">")]
    assert line.lstrip("> ").startswith("metal.barrier threadgroup")
    assert caught.value.message == (
        "metal.barrier: all threads of a threadgroup must run it together, but it stands in the "
        "if at k.iris:12, whose %some: bool may differ between them"
    )
