"""Lines of kernels that are wrong in one way, and must be refused, each beside right ones.

    words, call, is_right = refused_lines.line(choices)

A rule has the lines that it stands in, with a gap, and what in the gap is right and what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from iris import metal
from iris.testing.choices import Choices
from iris.testing.sources import defined

_BY_THREAD = """\
@metal.kernel
def drawn(
    A: "{declared}*", V: "device float3*", W: "device const float2*", Out: "device float*"{more}
):
    i = metal.thread_id_x()
    s = metal.shared((4, 16), metal.float)
    p = metal.array(4, metal.float)
    s[i], s[i + 32] = 1, 2
    metal.barrier()
    v, w, x = V[i], W[i], Out[i]
    n = metal.int(x)
{lines}
"""
_BY_TILE = """\
@iris.kernel
def drawn(A, Out, n, M: iris.constexpr):
    i = iris.arange(0, 8)
    x, y = iris.load(A + i), iris.reshape(iris.load(A + iris.arange(0, 32)), (4, 8))
    k = iris.arange(0, 8) * 3
{lines}
"""


class Rule(NamedTuple):
    """Lines with a gap, and what may stand there and what may not."""

    lines: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]


def _numbers(*numbers: object) -> tuple[str, ...]:
    return tuple(map(str, numbers))


_THREADS = (
    Rule("a = s[{}]", ("i", "i // 16, i % 16", "3", "3, 7"), ("1, 2, 3", "x", "v", "1, x")),
    Rule("s[{}] = x", ("i", "i // 16, i % 16"), ("1, 2, 3", "x", "0, v")),
    Rule("a = {}", ("(s + 1)[i % 2]", "(A + i)[0]"), ("(s + 1)[1, 2]", "A[1, 2]", "(A + i)[0, 0]")),
    Rule(
        "a = metal.simd_shuffle_xor(x, {})", _numbers(1, 2, 31, 16), _numbers(0, 32, -1, True, 1.5)
    ),
    Rule("a = metal.simd_shuffle_xor(x, {})", _numbers(4), ("i", "x")),
    Rule("a = metal.simd_broadcast(x, {})", _numbers(0, 1, 31), _numbers(32, -1, True, 0.5)),
    Rule("a = metal.simd_broadcast(x, {})", ("7",), ("i", "v")),
    Rule("q = metal.array({}, metal.float)", _numbers(2, 8, 5), _numbers(1, 0, -1, True, 2.5, "n")),
    Rule("q = metal.array(4, {})", ("metal.int", '"half"'), ("metal.float2", '"flat"', "4")),
    Rule("t = metal.shared({}, metal.int)", ("4", "(4, 2)", "[3]"), ("0", "(4, 0)", "n", "2.0")),
    Rule("t = metal.shared(4, {})", ("metal.int3", '"uint"'), ('"texture"', "None", "3")),
    Rule("a = p[{}]", ("0", "3", "n & 3"), ("4", "-1", "True", "1.0", "x")),
    Rule("p[{}] = x", ("0", "3", "n & 3"), ("4", "-1", "True", "1.0", "x")),
    Rule("a = v[{}]", ("0", "2", "n & 1"), ("3", "-1", "1.0", "False")),
    Rule("a = {}", ("v.z", "v.xx", "w.yxyx", "v.b", "p[1]"), ("w.z", "v.w", "w.xyz", "v.a")),
    Rule(
        "a = metal.float4({})",
        ("v, 1", "w, w", "1, w, x", "x", "0"),
        ("v", "w, 1", "v, w", "1, 2", "", "v, 1, 1"),
    ),
    Rule("a = metal.int2({})", ("w", "1, 2", "3"), ("v", "1.5", "1, 2, 3")),
    Rule("a = metal.select(x, x, {})", ("x > 0", "True", "n == 1"), ("n", "1", "x")),
    Rule("metal.barrier({})", ("", '"device"', '"simdgroup"'), ('"block"', "1", "None")),
    Rule("metal.atomic_add({}, 1)", ("Out + i", "s + i", "Out"), ("V + i", "W", "x", "p", "W + i")),
    Rule("metal.atomic_{}(Out + i, x)", ("max", "exchange", "min"), ("and", "or", "xor")),
    Rule("a = metal.atomic_load({})", ("Out + i", "s"), ("V + i", "x", "p", "v")),
    Rule("a = metal.dot({})", ("v, v", "w, w"), ("x, x", "v, w", "1, v")),
    Rule("a = metal.cross({})", ("v, v",), ("w, w", "v, w")),
    Rule("a = metal.bitcast(x, {})", ("metal.int", '"uint"'), ("metal.half", "metal.int2", '"x"')),
    Rule("a = v + {}", ("v", "x", "1"), ("w", "p", "s", "metal")),
    Rule("V[i] = {}", ("v", "x", "v * 2", "0"), ("w", "p", "s")),
    Rule("Out[i] = {}", ("x", "1", "n", "v.x"), ("v", "w", "p", "A")),
    Rule("m = metal.simdgroup_load({}, 8)", ("Out", "s", "A"), ("V", "x", "p")),
    Rule("metal.simdgroup_store({}, s, 8)", ("metal.simdgroup_matrix(1)",), ("x", "v", "1", "s")),
    Rule(
        "a = {}", ("metal.lane_id()", "metal.abs(x)"), ("iris.program_id(0)", "iris.arange(0, 4)")
    ),
    Rule("if {}:\n    x = x + 1", ("x > 0", "n", "n == 1 and x > 0"), ("v > 0", "v", "w == w")),
)
# What is declared, and whether elements are written.
_WRITING = (
    Rule(
        "{}[i] = 1",
        ("Out", "(Out + 0)", "s", "V", "p"),
        ("A", "(A + 1)", "W", "(W + 0)", "x"),
    ),
    Rule("metal.atomic_max({} + i, 1)", ("Out", "s"), ("A", "(A + 1)", "W")),
    Rule("{}[i] += x", ("Out", "s"), ("A", "(A + 1)")),
    Rule("metal.simdgroup_store(metal.simdgroup_matrix(1), {}, 8)", ("s",), ("A", "A + 1", "p")),
)
_DECLARED = Rule(
    ", n0: {}",
    ('"int"', '"constant int&"', "metal.int", '"int&"', '"device const int&"', "int"),
    ('"int**"', '"float3"', '"integer"', '"int&*"', '"device"', '""', '"int 3"', "metal.int4"),
)
_TILES = (
    Rule("z = iris.reshape(x, {})", ("(2, 4)", "8", "(8, 1)"), ("(2, 2)", "(3, 4)", "7", "(4, 4)")),
    Rule("z = iris.arange({})", ("0, 4", "1, 9"), ("0, 3", "4, 0", "0, n", "0, 2.0", "2, 2")),
    Rule("z = iris.sum(y, axis={})", ("0", "1", "-1", "-2", "None"), ("2", "-3", "n", "1.0")),
    Rule("z = iris.flip(y, {})", ("0", "-1"), ("2", "-3", "n")),
    Rule("z = x + {}", ("x", "1", "n", "iris.sum(x)"), ("y.T", "A", "iris.arange(0, 4)")),
    Rule("z = iris.load(A + {})", ("i", "0", "n"), ("x", "1.5", "A")),
    Rule("z = iris.load(A + i, mask={})", ("i < n", "True", "n > 1"), ("n", "i", "x", "1")),
    Rule("z = iris.load(A + i, i < n, {})", ("0", "x", "1.5", "i"), ("A", "y.T")),
    Rule("iris.store(Out + i, {})", ("x", "1", "n"), ("y.T", "A", "iris.arange(0, 4)")),
    Rule("iris.atomic_add(Out + i, {})", ("x", "1"), ("A", "y.T")),
    Rule("iris.atomic_{}(Out + i, x)", ("add", "max", "exchange"), ("and", "or", "xor")),
    Rule("iris.atomic_cas(Out + i, {})", ("x, x", "0, 1"), ("x", "x, A", "y.T, x")),
    Rule("z = iris.dot(y, {})", ("y.T", "y.T, 0"), ("y", "x", "y.T, x", "iris.zeros((4, 4))")),
    Rule("z = iris.full((4,), {})", ("1", "n", "0.5"), ("x", "A", "i")),
    Rule("z = iris.full({}, 1)", ("(4,)", "4", "(2, 4)"), ("(3,)", "n", "(0,)", "(2.0,)")),
    Rule("z = iris.join({})", ("x, x", "x, 1"), ("x, y.T", "x, A")),
    Rule("z = iris.split({})", ("iris.join(x, x)",), ("x", "y", "1")),
    Rule("z = iris.gather(x, {}, 0)", ("i % 4", "k % 8"), ("x", "y", "1.0")),
    Rule("z = iris.where({}, x, 0)", ("i > 2", "n", "k % 2"), ("A", "y.T > 0")),
    Rule("z = iris.cumsum(y, {})", ("0", "1", "-1"), ("2", "-3", "n")),
    Rule("z = iris.sort(y, {})", ("0", "1", "-1"), ("2", "-3")),
    Rule("z = iris.topk(x, {})", ("2", "8", "1"), ("16", "3", "n", "0")),
    Rule("z = iris.bitcast(x, {})", ("iris.i32", "iris.u32"), ("iris.f16", "iris.i64", "3")),
    Rule("z = x.to({})", ("iris.f16", '"i32"'), ('"i33"', "3", "None")),
    Rule("z = iris.expand_dims(x, {})", ("0", "1", "-1", "-2"), ("2", "-3", "n")),
    Rule(
        "z = iris.transpose(y, {})", ("(1, 0)", "(0, 1)"), ("(0, 0)", "(0,)", "(1, 2)", "(0, 1, 2)")
    ),
    Rule("z = iris.broadcast_to(x, {})", ("(4, 8)", "(8,)"), ("(8, 4)", "(3, 8)", "(16,)")),
    Rule("z = iris.program_id({})", ("0", "2"), ("3", "n", "1.0")),
    Rule("z = {}", ("k & 1", "~k", "k >> 1", "k % 2"), ("x & 1", "~x", "x << 1", "k & x")),
    Rule("z = iris.fma(x, x, {})", ("x", "1.0"), ("A", "y.T")),
    Rule("z = iris.histogram(k, {})", ("4", "8"), ("0", "n", "3.0")),
    Rule("z = iris.cat(x, {})", ("x",), ("y.T", "A")),
    Rule("z = iris.interleave(x, {})", ("x",), ("y.T", "A")),
    Rule("if {}:\n    z = 1", ("n > 0", "n", "iris.sum(x) > 0", "M"), ("x > 0", "x", "i == i")),
    Rule("for j in range({}):\n    z = j", ("n", "4", "0, n, 2"), ("x", "A", "n, x")),
    Rule("iris.static_assert({})", ("M == 2", "True"), ("n > 0", "M == 3", "x")),
)


def line(choices: Choices) -> tuple[str, Callable[[], object], bool]:
    """A kernel with one line of a rule, its launch, and whether it is right."""
    is_by_thread, is_right = choices.flag(), choices.flag(3)
    if not is_by_thread:
        rule = choices.of(_TILES)
        text = _BY_TILE.format(lines=_filled(rule, is_right, choices))

        def launch() -> None:
            x = np.arange(32, dtype=np.float32)
            defined(text)[1](x, x.copy(), 3, M=2, device="interp")

        return text, launch, is_right
    style = choices.below(6)
    lines, more, declared = "    pass", "", choices.of(("device const float", "constant float"))
    if style == 0:
        more = _filled(_DECLARED, is_right, choices).strip()
    else:
        lines = _filled(choices.of(_WRITING if style == 1 else _THREADS), is_right, choices)
    text = _BY_THREAD.format(declared=declared, more=more, lines=lines)

    def launch_threads() -> None:
        v, out = np.ones(128, np.float32), np.ones(96, np.float32)
        number = {"n0": 1} if more else {}
        kernel = defined(text, metal=metal)
        kernel(out, v, out.copy(), out.copy(), **number, grid=1, threadgroup=32, device="interp")

    return text, launch_threads, is_right


def _filled(rule: Rule, is_right: bool, choices: Choices) -> str:
    filled = rule.lines.format(choices.of(rule.right if is_right else rule.wrong))
    return "\n".join([f"    {x}" for x in filled.splitlines()])
