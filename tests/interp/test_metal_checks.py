# ruff: noqa: E501  (IR text)
"""Every check of the interpreter of Metal IR, on programs that are broken by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iris.errors import ProgramError, RaceError
from iris.interp.metal import run
from iris.interp.metal.memory import memory_dtype
from iris.ir.control import Func, If, While
from iris.ir.core import Value
from iris.ir.types import DTYPES
from metal_programs import fails, function, go, total, when

Array = np.ndarray[Any, Any]


def zeros(count: int) -> Array:
    return np.zeros(count, np.int32)


# Bounds and alignment.


@pytest.mark.parametrize(
    ("offset", "index", "thread"), [("%t", 40, 40), ("%minus", -1, 0), ("%wide", 2**40, 0)]
)
@pytest.mark.parametrize("memory", ["%X", "%shared"])
@pytest.mark.parametrize(
    "access", ["%x: i32 = metal.load", "metal.store", "%x: i32 = metal.atomic add"]
)
def test_out_of_bounds(memory: str, offset: str, index: int, thread: int, access: str) -> None:
    value = "" if "load" in access else ", %t"
    body = f"""
    %shared: threadgroup<40xi32> = metal.alloc
    %minus: i32 = sub %t, %c1
    %wide: i64 = constant 1099511627776
    {access} {memory}, {offset}{value} at "f.py":3
    """
    error = fails("%X: ptr<i32>", body, [zeros(40)], 2, 2)
    name = memory[1:]
    assert error.message == (
        f"index {index} is outside {name}, which has 40 elements, in program (0, 0, 0), "
        f"thread {thread} (simdgroup {thread // 32}, lane {thread % 32})"
    )
    assert (error.program, error.thread, error.array, error.index) == (
        (0, 0, 0),
        thread,
        name,
        index,
    )
    assert error.locations == (("f.py", 3),)


@pytest.mark.parametrize("memory", ["%X", "%shared"])
def test_several_elements_out_of_bounds(memory: str) -> None:
    body = f"""
    %shared: threadgroup<126xi32> = metal.alloc
    %v: regs<4xi32> = constant 1
    %o: i32 = mul %t, %c4
    metal.store {memory}, %o, %v at "f.py":3
    """
    error = fails("%X: ptr<i32>", body, [zeros(126)])
    assert error.message.startswith(
        f"index 124 and the 3 after it are not all in {memory[1:]}, which has 126 elements, in"
    )
    assert (error.thread, error.index) == (31, 124)


@pytest.mark.parametrize("memory", ["%X", "%shared"])
def test_misaligned_offsets(memory: str) -> None:
    body = """
    %shared: threadgroup<256xi32> = metal.alloc
    %o: i32 = mul %t, %c2
    %v: regs<4xi32> = constant 1
    """
    access = f'metal.store {memory}, %o, %v at "f.py":3'
    error = fails("%X: ptr<i32>", body + access, [zeros(256)])
    assert error.message.startswith(
        f"index 2 is misaligned: 4 elements of {memory[1:]} are accessed at a time, in program (0, 0, 0), thread 1 "
    )
    assert (error.thread, error.index, error.locations) == (1, 2, (("f.py", 3),))
    body += "%r: i32 = mod %t, %c2\n"
    go("%X: ptr<i32>", body + when("eq %r, %c0", access), [zeros(256)])


@pytest.mark.parametrize(("dtype", "count"), [("f16", 8), ("bf16", 8), ("i8", 16)])
def test_sixteen_bytes_start_at_a_multiple_of_sixteen(dtype: str, count: int) -> None:
    body = f"""
    %step: i32 = constant STEP
    %o: i32 = mul %t, %step
    %v: regs<{count}x{dtype}> = metal.load %X, %o at "f.py":3
    """
    array = np.zeros(33 * count, memory_dtype(DTYPES[dtype]))
    go(f"%X: ptr<{dtype}>", body.replace("STEP", str(count)), [array])
    half = count // 2
    error = fails(f"%X: ptr<{dtype}>", body.replace("STEP", str(half)), [array])
    assert f"index {half} is misaligned: {count} elements of X are accessed" in error.message
    with pytest.raises(ProgramError, match="X does not start at a multiple of 16 bytes"):
        place = body.replace("STEP", str(count))
        run(function(f"%X: ptr<{dtype}>", place), (1, 1, 1), [array[half:]])


def test_misaligned_memory() -> None:
    body = '%o: i32 = mul %t, %c4\n%v: regs<4xi32> = metal.load %X, %o at "f.py":3'
    array = zeros(136)
    go("%X: ptr<i32>", body, [array[4:]])
    with pytest.raises(ProgramError) as caught:
        run(function("%X: ptr<i32>", body), (1, 1, 1), [array[2:130]])
    error = caught.value
    assert error.message.startswith(
        "index 0 is misaligned: X does not start at a multiple of 16 bytes, in program (0, 0, 0), thread 0 "
    )
    body = """
    %shared: threadgroup<256xi32> = metal.alloc
    %view: threadgroup<200xi32> = metal.view START %shared
    %o: i32 = mul %t, %c4
    %v: regs<4xi32> = constant 3
    metal.store %view, %o, %v
    """
    go("", body.replace("START", "32"), [])
    error = fails("", body.replace("START", "36"), [])
    assert "view does not start at a multiple of 16 bytes" in error.message
    two = body.replace("%c4", "%c2").replace("regs<4", "regs<2")
    go("", two.replace("START", "24"), [])
    assert "a multiple of 8 bytes" in fails("", two.replace("START", "36"), []).message


# What was never written.


def test_threadgroup_memory_is_read_before_it_is_written() -> None:
    body = """
    %shared: threadgroup<64xi32> = metal.alloc
    """
    write = 'metal.store %shared, %t, %t at "f.py":1\n'
    read = '%x: i32 = metal.load %shared, %t at "f.py":2\n'
    go("", body + write + read, [], 2, 2)
    error = fails("", body + read, [], 2, 2)
    assert (
        error.message
        == "element 0 of shared is read before anything is written there, in program (0, 0, 0), thread 0 (simdgroup 0, lane 0)"
    )
    assert (error.array, error.index, error.thread, error.locations) == (
        "shared",
        0,
        0,
        (("f.py", 2),),
    )
    error = fails("", body + when("ne %t, %c32", write) + read, [], 2, 2)
    assert (error.index, error.thread) == (32, 32)
    masked = '%y: i32 = metal.load %shared, %t, mask=%low, other=%c0 at "f.py":3\n'
    low = "%low: bool = compare lt %t, %c4\n"
    go("", low + body + when("lt %t, %c4", write) + masked, [], 2, 2)
    error = fails("", low + body + when("lt %t, %c2", write) + masked, [], 2, 2)
    assert (error.index, error.thread, error.locations) == (2, 2, (("f.py", 3),))
    error = fails("", body + when("ne %p, %c1", write) + read, [], 3, 2)
    assert (error.program, error.index) == ((1, 0, 0), 0)
    for atomic in (
        "%y: i32 = metal.atomic_load %shared, %t",
        "%y: i32 = metal.atomic max %shared, %t, %t",
    ):
        go("", body + write + atomic, [], 2, 2)
        assert "is read before" in fails("", body + atomic, [], 2, 2).message


def test_bytes_are_written_one_by_one() -> None:
    body = """
    %shared: threadgroup<32xi32> = metal.alloc
    %halves: threadgroup<64xi16> = metal.view 0 %shared
    %x: i16 = constant 4
    %o: i32 = mul %t, %c2
    %o1: i32 = add %o, %c1
    metal.store %halves, %o, %x
    """
    read = "%y: i32 = metal.load %shared, %t"
    error = fails("", body + when("ne %t, %c4", "metal.store %halves, %o1, %x") + read, [])
    assert (error.array, error.index, error.thread) == ("shared", 4, 4)
    go("", body + "metal.store %halves, %o1, %x\n" + read, [])


def test_an_allocation_is_empty_each_time() -> None:
    """In a loop it is the same memory each time, but nothing is known of what is in it."""
    body = """
    for %c0, %c2, %c1 (%i: i32) {
      %shared: threadgroup<64xi32> = metal.alloc
      %first: bool = compare eq %i, %c0
      if CONDITION {
        metal.store %shared, %t, %i at "f.py":1
        yield
      } else {
        yield
      }
      metal.barrier threadgroup
      %x: i32 = metal.load %shared, READ at "f.py":2
      BARRIER
      yield
    }
    %true: bool = constant true
    """
    body = "%other: i32 = xor %t, %c32\n%true: bool = constant true\n" + body.replace(
        "%true: bool = constant true\n", ""
    )

    def with_(condition: str, read: str, barrier: str) -> str:
        return (
            body.replace("CONDITION", condition).replace("READ", read).replace("BARRIER", barrier)
        )

    go("", with_("%true", "%other", "metal.barrier threadgroup"), [], 2, 2)
    error = fails("", with_("%first", "%other", "metal.barrier threadgroup"), [], 2, 2)
    assert error.message.startswith("element 32 of shared is read before")
    # Races do not end with it.
    error = fails("", with_("%true", "%other", ""), [], 2, 2)
    assert error.message.startswith("race: ")
    assert error.locations == (("f.py", 1), ("f.py", 2))


# Races.


AT_ZERO = {
    "reads": "%x: i32 = metal.load %M, %c0",
    "writes": "metal.store %M, %c0, %t",
    "atomically updates": "%x: i32 = metal.atomic add %M, %c0, %t",
    "atomically reads": "%x: i32 = metal.atomic_load %M, %c0",
}
HARMLESS = [
    {"reads"},
    {"reads", "atomically reads"},
    {"atomically reads"},
    {"atomically updates"},
    {"atomically updates", "atomically reads"},
]
BARRIERS = {"": 0, "simdgroup": 1, "threadgroup": 2, "device": 3}
KIND = {"X": "device", "shared": "threadgroup"}


def memory(name: str, body: str) -> str:
    """The program, on device memory, or on threadgroup memory that thread 0 writes first."""
    if name == "X":
        return body.replace("%M", "%X")
    start = "%shared: threadgroup<64xi32> = metal.alloc\nmetal.store %shared, %t, %t\nmetal.barrier threadgroup\n"
    return start + body.replace("%M", "%shared")


@pytest.mark.parametrize("name", ["X", "shared"])
@pytest.mark.parametrize("barrier", BARRIERS)
@pytest.mark.parametrize("other", [7, 40])
@pytest.mark.parametrize("first", AT_ZERO)
@pytest.mark.parametrize("second", AT_ZERO)
def test_races_between_threads(
    name: str, barrier: str, other: int, first: str, second: str
) -> None:
    """Thread 3 does one thing, then another thread the other, of its simdgroup or not."""
    number = f"%three: i32 = constant 3\n%other: i32 = constant {other}\n"
    between = f"metal.barrier {barrier}\n" if barrier else ""
    body = memory(
        name,
        number
        + when("eq %t, %three", f'{AT_ZERO[first]} at "f.py":1')
        + between
        + when("eq %t, %other", f'{AT_ZERO[second]} at "f.py":2'),
    )
    ordered = {
        "X": barrier == "device",
        "shared": BARRIERS[barrier] >= (1 if other == 7 else 2),
    }[name]
    if ordered or {first, second} in HARMLESS:
        # What is read differs with the order, what is left in memory does not.
        for seed in (None, 0, 1):
            run(function("%X: ptr<i32>", body, 2), (1, 1, 1), [zeros(1)], interleave=seed)
        return
    error = fails("%X: ptr<i32>", body, [zeros(1)], 1, 2)
    text = {
        3: "thread 3 (simdgroup 0, lane 3)",
        7: "thread 7 (simdgroup 0, lane 7)",
        40: "thread 40 (simdgroup 1, lane 8)",
    }
    assert error.message == (
        f"race: program (0, 0, 0), {text[other]} {second} element 0 of {name}, which {text[3]} "
        f"{first}, and no barrier between them orders that"
    )
    assert (error.program, error.thread, error.array, error.index) == ((0, 0, 0), other, name, 0)
    assert error.locations == (("f.py", 2), ("f.py", 1))
    assert isinstance(error, RaceError)
    assert error.kind == ("threads", KIND[name], {first, second})


def test_a_race_in_memory_without_a_name_names_no_other_memory() -> None:
    body = """
    %0: threadgroup<64xi32> = metal.alloc
    metal.store %0, %t, %t
    %x: i32 = metal.load %0, %c1
    """
    message = fails("", body, []).message
    assert "element 1 of threadgroup memory, which thread" in message
    assert "as an element of" not in message


@pytest.mark.parametrize("first", AT_ZERO)
@pytest.mark.parametrize("second", AT_ZERO)
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_races_between_programs(first: str, second: str, chunk: int) -> None:
    """No barrier is for several threadgroups."""
    body = (
        when("eq %t, %c4", when("eq %p, %c1", f'{AT_ZERO[first]} at "f.py":1'))
        + "metal.barrier device\n"
        + when("eq %t, %c2", when("eq %p, %c2", f'{AT_ZERO[second]} at "f.py":2'))
    )
    f = function("%X: ptr<i32>", body.replace("%M", "%X"))
    if {first, second} in HARMLESS:
        run(f, (4, 1, 1), [zeros(1)], chunk_bytes=chunk)
        return
    with pytest.raises(RaceError) as caught:
        run(f, (4, 1, 1), [zeros(1)], chunk_bytes=chunk)
    error = caught.value
    assert error.message == (
        f"race: program (2, 0, 0), thread 2 (simdgroup 0, lane 2) {second} element 0 of X, which "
        f"program (1, 0, 0), thread 4 (simdgroup 0, lane 4) {first}"
    )
    assert (error.program, error.thread) == ((2, 0, 0), 2)
    assert error.locations == (("f.py", 2), ("f.py", 1))
    assert error.kind == ("programs", "device", {first, second})


def test_a_barrier_of_one_simdgroup_is_not_for_another() -> None:
    """Both simdgroups hand values from lane to lane; only one of them has a barrier."""
    body = """
    %shared: threadgroup<64xi32> = metal.alloc
    %other: i32 = xor %t, %c1
    metal.store %shared, %t, %t at "f.py":1
    %which: bool = compare eq %sg, WHICH
    if %which {
      metal.barrier simdgroup
      yield
    } else {
      yield
    }
    """
    read = '%x: i32 = metal.load %shared, %other at "f.py":2\n'
    for which, base in (("%c0", 32), ("%c1", 0)):
        error = fails("", body.replace("WHICH", which) + read, [], 2, 2)
        assert (error.thread, error.locations) == (base, (("f.py", 2), ("f.py", 1)))
        go("", body.replace("WHICH", which) + when(f"eq %sg, {which}", read), [], 2, 2)


@pytest.mark.parametrize("name", ["X", "shared"])
def test_races_within_one_instruction(name: str) -> None:
    """Also of neighbours in one access."""
    error = fails(
        "%X: ptr<i32>", memory(name, 'metal.store %M, %c0, %t at "f.py":3'), [zeros(64)], 1, 2
    )
    assert error.message.startswith("race: program (0, 0, 0), thread ")
    assert error.message.endswith(", both at once")
    assert f"writes element 0 of {name}, which thread " in error.message
    assert error.locations == (("f.py", 3),)
    assert isinstance(error, RaceError)
    assert error.kind == ("one op", KIND[name], {"writes"})
    body = (
        '%h: i32 = floordiv %lane, %c2\n%o: i32 = mul %h, %c4\nmetal.store %M, %o, %v at "f.py":3'
    )
    error = fails(
        "%X: ptr<i32>", memory(name, "%v: regs<4xi32> = metal.splat %t\n" + body), [zeros(64)]
    )
    assert error.index == 0
    go(
        "%X: ptr<i32>",
        memory(name, when("eq %t, %c4", "metal.store %M, %c0, %c4")),
        [zeros(64)],
        1,
        2,
    )


@pytest.mark.parametrize("name", ["X", "shared"])
def test_threads_may_write_equal_values_at_once(name: str) -> None:
    """Each of them has written: what others do next, or one of them, is not in order with that."""
    same = "metal.store %M, %c0, %c4\n"
    first, last = (when(f"eq %t, {t}", "metal.store %M, %c0, %t") for t in ("%c0", "%top"))
    top = "%c31: i32 = constant 31\n%top: i32 = add %c31, %c0\n"
    barrier = f"metal.barrier {'device' if name == 'X' else 'threadgroup'}\n"
    go("%X: ptr<i32>", memory(name, same), [zeros(64)], 1, 2)
    differ = function("%X: ptr<i32>", memory(name, "metal.store %M, %c0, %sg\n"), 2)
    apart = function("%X: ptr<i32>", memory(name, same + same), 2)
    for seed in range(5):
        with pytest.raises(RaceError):
            run(differ, (1, 1, 1), [zeros(64)], interleave=seed)
        with pytest.raises(RaceError):
            run(apart, (1, 1, 1), [zeros(64)], interleave=seed)
    for other in (first, last):
        fails("%X: ptr<i32>", memory(name, top + same + other), [zeros(64)])
        go("%X: ptr<i32>", memory(name, top + same + barrier + other), [zeros(64)], 1, 1)
        # Nor is what one writes after a barrier to be taken for what all did before it.
        go(
            "%X: ptr<i32>",
            memory(name, top + same + barrier + other + other.replace("%is", "%so")),
            [zeros(64)],
            1,
            1,
        )


def test_programs_may_not_write_equal_values() -> None:
    error = fails("%X: ptr<i32>", when("eq %t, %c0", "metal.store %X, %c0, %c4"), [zeros(64)], 2)
    assert isinstance(error, RaceError)


@pytest.mark.parametrize("name", ["X", "shared"])
@pytest.mark.parametrize("writer", [3, 20, 40])
@pytest.mark.parametrize("readers", ["lt %t, %c32", "ge %t, %c32", "ge %t, %c0"])
def test_races_with_one_of_several_readers(name: str, writer: int, readers: str) -> None:
    """Wherever the writer is among those who read before."""
    body = memory(
        name,
        f"%writer: i32 = constant {writer}\n"
        + when(readers, f'{AT_ZERO["reads"]} at "f.py":1')
        + "BARRIER"
        + when("eq %t, %writer", f'{AT_ZERO["writes"]} at "f.py":2'),
    )
    error = fails("%X: ptr<i32>", body.replace("BARRIER", ""), [zeros(64)], 1, 2)
    assert error.message.startswith("race: ")
    assert (error.thread, error.locations) == (writer, (("f.py", 2), ("f.py", 1)))
    go("%X: ptr<i32>", body.replace("BARRIER", "metal.barrier device\n"), [zeros(64)], 1, 2)
    some = body.replace("BARRIER", "metal.barrier simdgroup\n")
    alike = {"lt %t, %c32": writer < 32, "ge %t, %c32": writer >= 32}
    if name == "shared" and alike.get(readers, False):
        go("%X: ptr<i32>", some, [zeros(64)], 1, 2)
    else:
        fails("%X: ptr<i32>", some, [zeros(64)], 1, 2)


@pytest.mark.parametrize(
    ("lines", "message", "thread"),
    [
        ("%q: i32 = floordiv %c4, %i", "integer division by zero", 0),
        ("%y: i32 = metal.load %X, %o", "index 128 is outside X", 32),
        ("%w: i32 = sub %o, %c2\nmetal.store %X, %w, %i", "index -2 is outside X", 0),
        ("%same: i32 = mul %i, %c4\nmetal.store %X, %same, %o", "race: ", 0),
        ('%is: bool = compare ne %o, %c4\nmetal.assert "four" %is', "assertion failed: four", 4),
        ("%y: i32 = metal.load %shared, %t", "element 3 of shared is read before", 3),
        ("%to: i32 = add %i, %lane\n%y: i32 = metal.shuffle %i, %to", "metal.shuffle from a", 29),
    ],
)
def test_checks_in_rounds_that_run_at_once(lines: str, message: str, thread: int) -> None:
    body = f"""
    %shared: threadgroup<256xi32> = metal.alloc
    %three: i32 = constant 3
    %there: bool = compare ne %t, %three
    metal.store %shared, %t, %t, mask=%there
    metal.foreach 4 (%i: i32) {{
      %b: i32 = mul %i, %c32
      %o: i32 = add %b, %t
      {lines} at "f.py":3
      yield
    }}
    """
    error = fails("%X: ptr<i32>", body, [zeros(128)], 1, 2)
    assert error.message.startswith(message)
    assert error.locations == (("f.py", 3),)
    assert error.thread == thread or message == "race: "


@pytest.mark.parametrize("simdgroups", [2, 4, 8])
def test_without_its_barrier_a_reduction_is_a_race(simdgroups: int) -> None:
    count = 32 * simdgroups
    body = (
        "%x: i32 = add %t, %c1\n"
        + total(simdgroups, "BARRIER")
        + when("eq %t, %c0", "metal.store %Y, %p, %sum")
    )
    y = zeros(3)
    go("%Y: ptr<i32>", body.replace("BARRIER", "metal.barrier threadgroup"), [y], 3, simdgroups)
    assert (y == count * (count + 1) // 2).all()
    for weaker in ("", "metal.barrier simdgroup"):
        f = function("%Y: ptr<i32>", body.replace("BARRIER", weaker), simdgroups)
        with pytest.raises(ProgramError, match="race: ") as caught:
            run(f, (3, 1, 1), [zeros(3)])
        assert caught.value.locations == (("sum.py", 2), ("sum.py", 1))
        for seed in range(20):
            with pytest.raises(ProgramError, match=r"race: |is read before"):
                run(f, (3, 1, 1), [zeros(3)], interleave=seed)


def test_a_second_barrier_is_needed_where_memory_is_used_again() -> None:
    body = """
    %shared: threadgroup<64xi32> = metal.alloc
    %other: i32 = xor %t, %c32
    %end: i32 = for %c0, %c4, %c1 (%i: i32, %x: i32 = %t) {
      metal.store %shared, %t, %x at "f.py":1
      metal.barrier threadgroup
      %y: i32 = metal.load %shared, %other at "f.py":2
      BARRIER
      yield %y
    }
    metal.store %Y, %t, %end
    """
    y = zeros(64)
    go(
        "%Y: ptr<i32>",
        body.replace("BARRIER", "metal.barrier threadgroup"),
        [y],
        1,
        2,
        interleavings=20,
    )
    assert y.tolist() == list(range(64))
    error = fails("%Y: ptr<i32>", body.replace("BARRIER", ""), [y], 1, 2)
    assert error.locations == (("f.py", 1), ("f.py", 2))
    for seed in range(20):
        with pytest.raises(ProgramError, match="race: "):
            run(
                function("%Y: ptr<i32>", body.replace("BARRIER", ""), 2),
                (1, 1, 1),
                [y],
                interleave=seed,
            )


def test_a_thread_may_read_what_it_wrote_and_write_again() -> None:
    body = """
    metal.store %M, %t, %t
    %x: i32 = metal.load %M, %t
    %y: i32 = metal.atomic add %M, %t, %x
    %z: i32 = metal.load %M, %t
    metal.store %M, %t, %z
    """
    x = zeros(64)
    go("%X: ptr<i32>", memory("X", body), [x], 1, 2)
    assert x.tolist() == [2 * i for i in range(64)]
    go("%X: ptr<i32>", memory("shared", body), [x], 1, 2)


def test_views_race_with_what_they_are_views_of() -> None:
    body = """
    %shared: threadgroup<64xi32> = metal.alloc
    metal.store %shared, %t, %t at "f.py":1
    %view: threadgroup<8xi16> = metal.view 8 %shared
    %x: i16 = metal.load %view, %c1 at "f.py":2
    """
    error = fails("", body, [])
    assert (
        "reads element 1 of view, which thread 2 (simdgroup 0, lane 2) writes as an element of shared"
        in error.message
    )
    assert error.locations == (("f.py", 2), ("f.py", 1))


def test_overlapping_arguments_are_one_memory() -> None:
    body = '%x: i32 = metal.load %X, %t at "f.py":1\nmetal.store %Y, %t, %x at "f.py":2'
    x = zeros(70)
    f = function("%X: ptr<i32>, %Y: ptr<i32>", body)
    with pytest.raises(ProgramError) as caught:
        run(f, (1, 1, 1), [x[:32], x[1:33]])
    assert (
        "writes element 0 of Y, which thread 1 (simdgroup 0, lane 1) reads as an element of X"
        in caught.value.message
    )
    run(f, (1, 1, 1), [x[:32], x[32:]])
    every_other = "%o: i32 = add %t, %t\n" + body.replace("%t,", "%o,").replace("%X, %t", "%X, %o")
    views = function("%X: ptr<i32>, %Y: ptr<i32>", every_other)
    x[:64] = range(64)
    run(views, (1, 1, 1), [x[:64:2], x[1:65:2]])
    assert x[1:65:2].tolist() == x[:64:2].tolist() == list(range(0, 64, 2))
    run(f, (1, 1, 1), [x, x])
    wide = np.zeros(64, np.int64)
    f = function(
        "%X: ptr<i32>, %Y: ptr<i64>",
        "%c9: i64 = constant 9\n%x: i32 = metal.load %X, %t\nmetal.store %Y, %t, %c9",
    )
    with pytest.raises(ProgramError, match=r"race: .* as an element of X"):
        run(f, (1, 1, 1), [wide.view(np.int32), wide])
    run(f, (1, 1, 1), [wide.view(np.int32)[64:], wide[:32]])


# Barriers and shuffles that not all reach.


def diverging(body: str, simdgroups: int = 2) -> Func:
    """A program in which what is called %alike, which the verifier wants to be, differs."""
    f = function("", body + '\nmetal.assert "" %true', simdgroups)
    values: dict[str | None, Value] = {}
    for op in f.walk():
        values.update({v.name: v for v in op.results})
        if isinstance(op, If | While) or op.name == "yield":
            op.set_operands(
                tuple([values["different"] if v.name == "alike" else v for v in op.operands])
            )
    return f


@pytest.mark.parametrize("interleave", [None, 0, 1])
@pytest.mark.parametrize(
    ("op", "different", "missing"),
    [
        ("metal.barrier threadgroup", "lt %t, %c32", 32),
        ("metal.barrier device", "ge %t, %c32", 0),
        ("metal.barrier threadgroup", "le %sg, %p", 32),
        ("metal.barrier device", "ne %lane, %c4", 4),
        ("metal.barrier simdgroup", "ne %lane, %c4", 4),
        ("metal.barrier simdgroup", "ne %t, %c33", 33),
        ("metal.barrier simdgroup", "lt %t, %c32", None),
        ("%x: i32 = metal.shuffle_xor 1 %t", "ne %t, %c33", 33),
        ("%x: i32 = metal.shuffle %t, %lane", "ne %t, %c33", 33),
        ("%x: i32 = metal.broadcast 3 %t", "ne %t, %c33", 33),
        ("%x: i32 = metal.broadcast 3 %t", "lt %t, %c32", None),
    ],
)
def test_threads_that_are_missing(
    op: str, different: str, missing: int | None, interleave: int | None
) -> None:
    body = f"""
    %true: bool = constant true
    %c33: i32 = constant 33
    %alike: bool = compare eq %p, %c1
    %different: bool = compare {different}
    if %alike {{
      {op} at "f.py":5
      yield
    }} else {{
      yield
    }}
    """
    f = diverging(body)
    if missing is None:
        run(f, (2, 1, 1), [], interleave=interleave)
        return
    with pytest.raises(ProgramError) as caught:
        run(f, (2, 1, 1), [], interleave=interleave)
    name = " ".join(op.split("= ")[-1].split()[: 2 if "barrier" in op else 1])
    assert caught.value.message.startswith(f"{name} is not reached by all threads of the ")
    assert caught.value.locations == (("f.py", 5),)
    assert caught.value.thread == missing or (
        interleave == 0 and caught.value.thread == 32 + missing
    )


@pytest.mark.parametrize("interleave", [None, 0, 1, 2])
def test_a_barrier_on_each_side_is_not_one(interleave: int | None) -> None:
    body = """
    %true: bool = constant true
    %alike: bool = compare eq %p, %c1
    %different: bool = compare lt %t, %c32
    if %alike {
      metal.barrier threadgroup at "f.py":5
      yield
    } else {
      metal.barrier threadgroup at "f.py":6
      yield
    }
    """
    with pytest.raises(ProgramError, match="is not reached by all threads of the threadgroup"):
        run(diverging(body), (2, 1, 1), [], interleave=interleave)


@pytest.mark.parametrize("interleave", [None, 0, 1, 2])
def test_a_simdgroup_that_leaves_a_loop_early(interleave: int | None) -> None:
    body = """
    %true: bool = constant true
    %n: i32 = add %sg, %c2
    %last: i32 = while (%i: i32 = %c0) {
      %alike: bool = compare lt %i, %c4
      %different: bool = compare lt %i, %n
      yield %alike
    } do (%j: i32) {
      metal.barrier threadgroup at "f.py":5
      %next: i32 = add %j, %c1
      yield %next
    }
    """
    with pytest.raises(ProgramError, match="is not reached") as caught:
        run(diverging(body), (2, 1, 1), [], interleave=interleave)
    assert (caught.value.thread, caught.value.locations) == (0, (("f.py", 5),))


def test_programs_may_differ_in_the_barriers_they_pass() -> None:
    body = """
    %n: i32 = add %p, %c1
    %shared: threadgroup<64xi32> = metal.alloc
    %other: i32 = xor %t, %c32
    %y: i32 = for %c0, %n, %c1 (%i: i32, %x: i32 = %t) {
      metal.store %shared, %t, %x
      metal.barrier threadgroup
      %o: i32 = metal.load %shared, %other
      metal.barrier threadgroup
      %odd: i32 = mod %p, %c2
      %isodd: bool = compare eq %odd, %c1
      %z: i32 = if %isodd {
        metal.store %shared, %t, %o
        metal.barrier threadgroup
        %q: i32 = metal.load %shared, %other
        metal.barrier threadgroup
        yield %q
      } else {
        yield %o
      }
      yield %z
    }
    %c64: i32 = constant 64
    %row: i32 = mul %p, %c64
    %at: i32 = add %row, %t
    metal.store %Y, %at, %y
    """
    y = zeros(64 * 5)
    go("%Y: ptr<i32>", body, [y], 5, 2, interleavings=10)
    t = np.arange(64)
    for p, row in enumerate(y.reshape(5, 64)):
        np.testing.assert_array_equal(row, t if p % 2 else t ^ (32 * ((p + 1) % 2)))


@pytest.mark.parametrize("lane", [-1, 32])
def test_shuffles_from_lanes_that_are_not_there(lane: int) -> None:
    body = f"%to: i32 = constant {lane}\n%five: i32 = constant 5\n%is: bool = compare eq %t, %five\n%l: i32 = select %is, %to, %lane\n"
    error = fails("", body + '%x: i32 = metal.shuffle %t, %l at "f.py":2', [])
    assert error.message.startswith(
        "metal.shuffle from a lane outside 0 to 31, in program (0, 0, 0), thread 5 "
    )
    assert error.locations == (("f.py", 2),)


# Reports.


def test_asserts() -> None:
    body = '%three: i32 = constant 3\n%sum: i32 = add %p, %t\n%ok: bool = compare ne %sum, %c32\nmetal.assert "no \\"32\\"" %ok at "f.py":1'
    error = fails("", body, [], 3, 2)
    assert (
        error.message
        == 'assertion failed: no "32", in program (0, 0, 0), thread 32 (simdgroup 1, lane 0)'
    )
    assert (error.program, error.thread, error.locations) == ((0, 0, 0), 32, (("f.py", 1),))
    go("", "%three: i32 = constant 3\n" + when("lt %t, %three", *body.splitlines()[1:]), [], 3, 2)


@pytest.mark.parametrize("way", [{}, {"chunk_bytes": 1}, {"interleave": 1}, {"interleave": 2}])
def test_prints_come_in_the_order_of_the_programs(way: dict[str, Any]) -> None:
    body = """
    %c3: i32 = constant 3
    %tenth: f32 = constant 0.1
    %is: bool = compare eq %t, %c3
    %m: i32 = neg %c1
    %only: i32 = select %is, %c0, %m
    %back: i32 = constant 31
    %two: i32 = mul %t, %c2
    %two1: i32 = add %two, %c1
    %at: regs<2xi32> = metal.join %two1, %two
    %n: i32 = mul %t, %p
    %values: regs<2xi32> = metal.join %t, %n
    for %c0, %c2, %c1 (%i: i32) {
      metal.print "row" [i32, f32, tile<64x2xi32>] values=[%p, %tenth, %values], places=[%only, %only, %at]
      metal.print "i" [i32] values=[%i], places=[%only]
      yield
    }
    """
    lines: list[str] = []
    run(function("", body, 2), (2, 1, 1), [], output=lines.append, **way)
    want = []
    for p in range(2):
        t = np.arange(64)
        table = np.array2string(
            np.stack([t * p, t], 1), separator=", ", threshold=1000, formatter={"int": str}
        )
        for i in range(2):
            want.append(f"row[program ({p},0,0)] {p} 0.1 {table}")
            want.append(f"i[program ({p},0,0)] {i}")
    assert lines == want


def test_prints_that_give_too_little_or_too_much() -> None:
    def error(places: str, type_: str = "tile<32xi32>") -> str:
        body = (
            f'%at: i32 = {places}\nmetal.print "" [{type_}] values=[%t], places=[%at] at "f.py":4'
        )
        found = fails("", body, [], 2)
        assert found.locations == (("f.py", 4),)
        return found.message

    go(
        "",
        '%at: i32 = add %t, %c0\nmetal.print "" [tile<32xi32>] values=[%t], places=[%at]',
        [],
        output=lambda line: None,
    )
    assert (
        error("xor %t, %t")
        == "metal.print is given the element 0 twice, in program (0, 0, 0), thread 0 (simdgroup 0, lane 0)"
    )
    assert error("sub %t, %c1") == "metal.print is given no element 31, in program (0, 0, 0)"
    assert error("add %t, %c1").startswith(
        "metal.print is given the element 32 of 32, in program (0, 0, 0), thread 31 "
    )
    assert error("sub %t, %c2").startswith(
        "metal.print is given the element -2 of 32, in program (0, 0, 0), thread 0 "
    )


def test_prints_before_an_error_come_out() -> None:
    body = """
    %m: i32 = neg %c1
    %is: bool = compare eq %t, %c0
    %only: i32 = select %is, %c0, %m
    metal.print "before" [i32] values=[%p], places=[%only]
    %no: bool = constant false
    metal.assert "stop" %no
    metal.print "after" [i32] values=[%p], places=[%only]
    """
    lines: list[str] = []
    with pytest.raises(ProgramError, match="stop"):
        run(function("", body), (2, 1, 1), [], output=lines.append)
    assert lines == ["before[program (0,0,0)] 0", "before[program (1,0,0)] 1"]


# Barriers that are yet to come.


def test_implied_barriers_order_the_threads_of_a_program() -> None:
    reversed_ = """
    %shared: threadgroup<64xi32> = metal.alloc
    %c63: i32 = constant 63
    metal.store %shared, %t, %t
    %other: i32 = sub %c63, %t
    %x: i32 = metal.load %shared, %other
    metal.store %X, %t, %x
    """
    array = np.zeros(64, np.int32)
    with pytest.raises(ProgramError, match="no barrier between them orders that"):
        run(function("%X: ptr<i32>", reversed_, 2), (1, 1, 1), [array])
    run(function("%X: ptr<i32>", reversed_, 2), (1, 1, 1), [array], implied_barriers=True)
    np.testing.assert_array_equal(array, np.arange(64)[::-1])


@pytest.mark.parametrize(
    ("body", "grid", "why"),
    [
        ("metal.store %X, %c0, %t", 1, "both at once"),
        (when("eq %t, %c0", "metal.store %X, %c0, %p"), 2, "program"),
    ],
)
def test_implied_barriers_order_nothing_else(body: str, grid: int, why: str) -> None:
    """Two threads in one instruction, or two programs."""
    with pytest.raises(ProgramError, match=f"^race: .*{why}"):
        run(function("%X: ptr<i32>", body, 2), (grid, 1, 1), [zeros(1)], implied_barriers=True)
