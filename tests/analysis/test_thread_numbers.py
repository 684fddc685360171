"""Stores whose elements are said to be one thread's alone are: threads are tried one by one."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from iris.analysis.thread_numbers import ThreadNumbers
from iris.analysis.windows import Windows
from iris.ir import parse
from iris.ir.control import Func

#: What an offset is made of, as Python and IR both name it; `n` is what all threads have in common.
LEAVES = ("lane", "simdgroup", "i", "n", "1", "2", "3", "4", "8", "32", "64", "248", "1073741824")
OPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "xor": lambda a, b: a ^ b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "mod": lambda a, b: a % b if b else 0,
    "floordiv": lambda a, b: a // b if b else 0,
    "add_i8": lambda a, b: (a + b + 128) % 256 - 128,
}
COMPARES = {
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
}
Tree = str | tuple  # type: ignore[type-arg]
trees = st.recursive(
    st.sampled_from(LEAVES),
    lambda parts: st.tuples(st.sampled_from(sorted(OPS)), parts, parts),
    max_leaves=6,
)
masks = st.none() | st.tuples(st.sampled_from(sorted(COMPARES)), trees, trees)
THREADS = [(lane, simdgroup) for simdgroup in range(2) for lane in range(32)]
TURNS = 2


def number(tree: Tree, known: dict[str, int]) -> int:
    if isinstance(tree, str):
        return known[tree] if tree in known else int(tree)
    kind, one, other = tree
    found = {**OPS, **COMPARES}[kind](number(one, known), number(other, known))
    return (found + 2**31) % 2**32 - 2**31


def divides_by_nothing(tree: Tree | None, known: dict[str, int]) -> bool:
    if tree is None or isinstance(tree, str):
        return False
    kind, one, other = tree
    if kind in ("mod", "floordiv") and number(other, known) <= 0:
        return True
    return divides_by_nothing(one, known) or divides_by_nothing(other, known)


def text_of(tree: Tree, lines: list[str]) -> str:
    """The name of the value; its ops are added to the lines."""
    if isinstance(tree, str):
        return f"%{'c' if tree.isdigit() else ''}{tree}"
    kind, one, other = tree
    operands = text_of(one, lines), text_of(other, lines)
    name = f"%v{len(lines)}"
    if kind == "add_i8":
        lines += [
            f"{name}{v}: i8 = cast {operand}" for v, operand in zip("ab", operands, strict=True)
        ]
        lines += [f"{name}c: i8 = add {name}a, {name}b", f"{name}: i32 = cast {name}c"]
        return name
    is_compare = kind in COMPARES
    lines.append(
        f"{name}: {'bool = compare ' if is_compare else 'i32 = '}{kind} {', '.join(operands)}"
    )
    return name


def are_said_to_be_apart(offset: Tree, mask: Tree | None, width: int, turns: int = TURNS) -> bool:
    lines: list[str] = []
    at = text_of(offset, lines)
    masked = "" if mask is None else f", mask={text_of(mask, lines)}"
    in_turns = uses(offset, "i") or uses(mask, "i")
    constants = [f"%c{leaf}: i32 = constant {leaf}" for leaf in LEAVES if leaf.isdigit()]
    body = "\n".join(
        [
            *constants,
            "%lane: i32 = metal.lane",
            "%simdgroup: i32 = metal.simdgroup",
            *([] if in_turns else lines),  # what no turn changes is in common to all turns
            f"metal.foreach {turns} (%i: i32) {{",
            *(lines if in_turns else []),
            f"metal.store %A, {at}, %x{masked}",
            "yield",
            "}",
        ]
    )
    type_ = "f32" if width == 1 else f"regs<{width}xf32>"
    head = f"func metal @f simdgroups=2(%A: ptr<f32>, %x: {type_}, %n: i32)"
    (function,) = parse(f"{head} {{\n{body}\nreturn\n}}")
    assert isinstance(function, Func)
    (store,) = [op for op in function.walk() if op.name == "metal.store"]
    return ThreadNumbers(Windows(function)).are_apart(store, width)


def are_apart(offset: Tree, mask: Tree | None, width: int, n: int) -> bool:
    of: dict[int, tuple[int, int]] = {}
    for (lane, simdgroup), i in product(THREADS, range(TURNS)):
        known = {"lane": lane, "simdgroup": simdgroup, "i": i, "n": n}
        if mask is None or number(mask, known):
            first = number(offset, known)
            for element in range(first, first + width):
                if of.setdefault(element, (lane, simdgroup)) != (lane, simdgroup):
                    return False
    return True


def uses(tree: Tree | None, leaf: str) -> bool:
    return tree == leaf or (isinstance(tree, tuple) and any(uses(part, leaf) for part in tree[1:]))


@given(trees, masks, st.sampled_from([1, 2, 4]), st.lists(st.integers(-70, 70), min_size=1))
def test_what_is_said_to_be_apart_is(
    offset: Tree, mask: Tree | None, width: int, numbers: list[int]
) -> None:
    for n, (lane, simdgroup), i in product(numbers, THREADS[::5], range(TURNS)):
        known = {"lane": lane, "simdgroup": simdgroup, "i": i, "n": n}
        if divides_by_nothing(offset, known) or divides_by_nothing(mask, known):
            return  # a program error
    said = are_said_to_be_apart(offset, mask, width)
    really = all(are_apart(offset, mask, width, n) for n in numbers)
    assert really or not said
    if not (uses(offset, "n") or uses(mask, "n")):
        assert really == said


def test_what_all_threads_have_in_common_does_not_matter() -> None:
    thread: Tree = ("add", ("mul", "simdgroup", "32"), "lane")
    turn: Tree = ("add", thread, ("mul", "i", "64"))
    of_row: Tree = ("add", ("mul", "n", "64"), turn)
    for offset in (thread, turn, of_row, ("sub", "n", turn), ("xor", turn, "3")):
        assert are_said_to_be_apart(offset, None, 1)
        assert not are_said_to_be_apart(offset, None, 2)
    assert are_said_to_be_apart(("mul", of_row, "2"), None, 2)
    assert not are_said_to_be_apart(("mul", thread, "n"), None, 1)
    assert not are_said_to_be_apart(("mod", of_row, "3"), None, 1)


def test_where_one_thread_stores() -> None:
    assert are_said_to_be_apart("n", ("eq", ("add", ("mul", "simdgroup", "32"), "lane"), "n"), 4)
    assert not are_said_to_be_apart("n", ("eq", "lane", "n"), 1)
    assert are_said_to_be_apart("simdgroup", ("eq", "lane", "n"), 1)
    assert are_said_to_be_apart("1", ("lt", ("add", "lane", "simdgroup"), "1"), 1)


def test_of_too_many_turns_nothing_is_said() -> None:
    turn: Tree = ("add", ("mul", "i", "64"), ("add", ("mul", "simdgroup", "32"), "lane"))
    assert are_said_to_be_apart(turn, None, 1, turns=1000)
    assert not are_said_to_be_apart(turn, None, 1, turns=10**9)


def test_a_sum_that_wraps() -> None:
    """Two threads have one number where only one of them wraps; 248 is not a multiple of 256."""
    part: Tree = ("add_i8", "n", "lane")
    offset: Tree = ("add", part, ("mul", "simdgroup", "248"))
    assert not are_said_to_be_apart(offset, None, 1)
    thread: Tree = ("add_i8", "lane", ("mul", "simdgroup", "32"))
    assert are_said_to_be_apart(("add", "n", thread), None, 1)


def test_differences_that_are_equal_as_they_wrap() -> None:
    """Where n is the least number, both of lanes 1 and 3 are at one element."""
    high: Tree = ("mul", "lane", "1073741824")
    mask: Tree = ("eq", ("add", "n", high), ("sub", "3", high))
    of_four: Tree = ("mod", ("mul", "lane", "lane"), "8")  # 0, 1, 4, 1
    fours: Tree = ("add", ("mul", "simdgroup", "8"), ("floordiv", "lane", "4"))
    offset: Tree = ("add", ("mul", fours, "8"), of_four)
    assert not are_apart(offset, mask, 1, 3 - 2**31)
    assert not are_said_to_be_apart(offset, mask, 1)
