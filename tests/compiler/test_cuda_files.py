"""Kernels of CUDA files, each against NumPy; and each without one of its barriers."""

from __future__ import annotations

import inspect
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from cuda_cases import (
    CASES,
    ENTRY,
    FOLDER,
    LIMITS,
    PARTICLE,
    SETTINGS,
    Array,
    Case,
    floats,
    ints,
    loaded,
    rng,
)
from iris.errors import ArgumentError, FileError, LanguageError, ProgramError, RaceError
from iris.frontend.cuda import words
from iris.frontend.cuda.clang import CLANG
from on_metal import SHARING
from support import counts

pytestmark = pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")


def _name(case: Case) -> str:
    return f"{case.file}-{case.kernel}"


def _check(case: Case, device: str) -> None:
    found = case.run(loaded(case.file), device)
    relative = 2e-3 if found.dtype == np.float16 else 2e-5
    np.testing.assert_allclose(found, case.expected, relative, 1e-5)


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_kernels_are_right(case: Case) -> None:
    assert case.expected.shape == np.shape(case.arguments[case.written])
    _check(case, "interp:metal")


@pytest.mark.metal
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.runs_on_metal or counts(0, 1)], ids=_name
)
def test_kernels_are_right_on_metal(case: Case) -> None:
    _check(case, SHARING)


def _energy(particles: Array) -> Array:
    found: Array = particles["mass"] * particles["place"][:, 0] + particles["inner"]["at"][:, 1]
    return found


@pytest.mark.parametrize("device", ["interp:metal", pytest.param(SHARING, marks=pytest.mark.metal)])
def test_structs_in_memory(device: str) -> None:
    before = np.zeros(32, PARTICLE)
    before["place"], before["mass"], before["ids"] = floats(32, 3), floats(32), ints(32, 3)
    before["inner"]["at"], before["inner"]["kind"] = floats(32, 2), 9
    moved, after, out = before.copy(), before.copy(), np.zeros(32, np.float32)
    file = loaded("records")
    file.symbols["limits"] = np.array((0, 0.5, 5), LIMITS)
    file.step[1, 32](found := before.copy(), np.array((-0.5, 9, 4), LIMITS), out, device=device)
    for particles, by in ((moved, 2), (after, 1)):
        particles["place"][:, 0] += by
        particles["ids"][:, 1] += 7
        particles["inner"]["kind"] = 3
    energy = _energy(moved) + np.roll(_energy(moved), -1) + _energy(before)
    np.testing.assert_allclose(out, energy + moved["place"][:, 0], 1e-5, 1e-5)
    after["mass"] = np.clip(moved["mass"], -0.5, 0.5)
    after["inner"]["at"][:, 0] = 9
    after = np.where(after["ids"][:, 2] > 0, moved, after)
    for name in ("place", "mass", "ids"):
        np.testing.assert_array_equal(found[name], after[name])
    for name in ("at", "kind"):
        np.testing.assert_array_equal(found["inner"][name], after["inner"][name])


@pytest.mark.parametrize("device", ["interp:metal", pytest.param(SHARING, marks=pytest.mark.metal)])
def test_what_is_left_of_the_error_function(device: str) -> None:
    """To a few units in the last place, however small it is; NVIDIA states 4 to 6 of its own."""
    x = np.concatenate([np.linspace(-4, 9, 500), [0, -0.0, 1e-30]]).astype(np.float32)
    out = np.zeros(3 * len(x), np.float32)
    loaded("training").tails[1, 64](x, out, len(x), device=device)
    exact = [math.erfc(v) for v in x.astype(np.float64)]
    scaled = [math.erfc(v) * math.exp(v * v) for v in x.astype(np.float64)]
    normal = [math.erfc(-v * math.sqrt(0.5)) / 2 for v in x.astype(np.float64)]
    for found, expected in zip(out.reshape(3, -1), (exact, scaled, normal), strict=True):
        units = np.abs(found - np.array(expected)) / np.spacing(np.float32(expected))
        assert units.max() < 8
    edges = np.float32([np.inf, -np.inf, np.nan])
    out = np.zeros(9, np.float32)
    loaded("training").tails[1, 3](edges, out, 3, device=device)
    np.testing.assert_array_equal(out, [0, 2, np.nan, 0, np.inf, np.nan, 1, 0, np.nan])


@pytest.mark.parametrize("device", ["interp:metal", pytest.param(SHARING, marks=pytest.mark.metal)])
def test_structs_are_chosen_and_enums_held(device: str) -> None:
    x = floats(2, 200) * 3
    y = np.zeros_like(x)
    loaded("choices").online_softmax[2, 128](x, y, 200, device=device)
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), 1e-4)
    a, b = floats(40), floats(40)
    results = {0: a + 2 * b, 3: np.maximum(a, b), 4: np.maximum(a, b), 2**32 - 1: 0 * a}
    for op, expected in results.items():
        found, settings = a.copy(), np.array((40, 2, op, -2, 7), SETTINGS)
        loaded("choices").apply[1, 64](found, b, settings, device=device)
        np.testing.assert_allclose(found, expected - 2 + 100, 1e-5)


@pytest.mark.parametrize("device", ["interp:metal", pytest.param(SHARING, marks=pytest.mark.metal)])
def test_only_the_struct_that_is_chosen_is_read(device: str) -> None:
    pairs = np.zeros(4, np.dtype([("a", "i4"), ("b", "i4")]))
    pairs["a"], pairs["b"] = np.arange(4), 10 * np.arange(4)
    out = np.zeros(32, np.int32)
    loaded("choices").picked[1, 32](pairs, out, 4, device=device)
    t = np.arange(32)
    np.testing.assert_array_equal(out, np.where(t < 4, 11 * t + 1, 200 - t))


EVERYWHERE = pytest.mark.parametrize(
    "device", ["interp:metal", pytest.param(SHARING, marks=pytest.mark.metal)]
)


@EVERYWHERE
def test_pointers_lead_to_fields(device: str) -> None:
    keys = rng.integers(1, 20, 100).astype(np.uint32)
    table = np.zeros(32, ENTRY)
    loaded("pointers").count[2, 64](table, keys, 100, 32, device=device)
    unique, counts = np.unique(keys, return_counts=True)
    order = np.argsort(table["key"])[-len(unique) :]
    np.testing.assert_array_equal(table["key"][order], unique)
    np.testing.assert_array_equal(table["count"][order], counts)
    np.testing.assert_array_equal(table["sum"][order], counts / 2)
    assert table["count"].sum() == 100
    before, after = table.copy(), table.copy()
    loaded("pointers").one_field[1, 32](after, device=device)
    before["sum"] = (before["sum"] + 1) * 2
    before["last"][:, 1] = before["sum"]
    for name in ENTRY.names or ():
        np.testing.assert_array_equal(after[name], before[name])


@EVERYWHERE
def test_bools_in_structs_are_bytes(device: str, tmp_path: Path) -> None:
    source = tmp_path / "bools.cu"
    source.write_text(
        "struct Flag { bool set, seen; float x; };\n"
        "__global__ void k(Flag *flags) {\n"
        "    Flag &mine = flags[threadIdx.x];\n"
        "    mine.x = mine.set ? 1.5f : 2.5f;\n"
        "    mine.seen = !mine.set;\n}\n"
    )
    flags = np.zeros(32, np.dtype([("set", "?"), ("seen", "?"), ("x", "f4")], align=True))
    flags["set"] = ints(32) > 0
    iris.cuda.load(source).k[1, 32](flags, device=device)
    np.testing.assert_array_equal(flags["x"], np.where(flags["set"], 1.5, 2.5))
    np.testing.assert_array_equal(flags["seen"].view(np.uint8), ~flags["set"])


@EVERYWHERE
def test_a_field_of_what_a_method_returns_may_be_called_x(device: str, tmp_path: Path) -> None:
    source = tmp_path / "returned.cu"
    source.write_text(
        "struct V {\n"
        "    float x;\n"
        "    __device__ V plus(float a) const { return {x + a}; }\n};\n"
        "__global__ void k(float *x) {\n"
        "    V v = {x[threadIdx.x]};\n"
        "    x[threadIdx.x] = v.plus(1.0f).plus(2.0f).x;\n}\n"
    )
    x = ints(32).astype(np.float32)
    expected = x + 3
    iris.cuda.load(source).k[1, 32](x, device=device)
    np.testing.assert_array_equal(x, expected)


@EVERYWHERE
def test_pointers_lead_to_parts_of_vectors(device: str) -> None:
    p, q = floats(8, 4), floats(8, 3)
    found_p, found_q = p.copy(), q.copy()
    loaded("pointers").arrows[1, 8](found_p, found_q, device=device)
    p[:, 0] = p[:, 1] + 1
    p[:, 3] *= 2
    q[:, 1:] = np.stack([3 + p[:, 3], p[:, 0]], 1)
    np.testing.assert_array_equal(found_p, p)
    np.testing.assert_array_equal(found_q, q)


@EVERYWHERE
def test_a_reference_to_a_parameter_is_its_value(device: str) -> None:
    x, out = floats(32, 3), np.zeros((32, 3), np.float32)
    wholes = np.zeros_like(out)
    loaded("pointers").returned[1, 32](x, out, wholes, device=device)
    np.testing.assert_array_equal(wholes, np.trunc(2 * x))
    np.testing.assert_array_equal(out, 2 * x - np.trunc(2 * x))


@EVERYWHERE
def test_a_pointer_goes_on_in_another_array(device: str) -> None:
    x = floats(3, 100)
    out = np.zeros_like(x)
    loaded("pointers").softmax_in_place[3, 32](x, out, 100, device=device)
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), 1e-5)


@EVERYWHERE
def test_a_tile_reduces_by_a_function(device: str) -> None:
    x, pairs = ints(64).astype(np.float32), floats(64, 2)
    nearest, made = np.zeros(64, np.int32), np.zeros_like(pairs)
    loaded("pointers").by_functions[1, 64](x, nearest, pairs, made, device=device)
    first = x.reshape(2, 32).argmin(1) + np.array([0, 32])
    np.testing.assert_array_equal(nearest, first.repeat(32) + 1000 * np.arange(64))
    tiles = pairs.astype(float).reshape(8, 8, 2)
    expected = np.stack([tiles[..., 0].sum(1), tiles[..., 1].prod(1)], 1)
    np.testing.assert_allclose(made, expected.repeat(8, 0), 1e-4, 1e-6)


@EVERYWHERE
def test_a_tile_reduces_by_an_operator_of_the_file(device: str) -> None:
    """Whatever its name: `plus` may be the file's own."""
    x = ints(64, low=-50, high=50)
    found = np.zeros((3, 64), np.int32)
    loaded("pointers").by_structs[1, 64](x, *found, 7, device=device)
    tiles = x.reshape(4, 16)
    ranked = np.take_along_axis(tiles, np.lexsort((tiles, abs(tiles - 7))), 1)
    expected = tiles.max(1), tiles.sum(1), ranked[:, 0]
    for one, by_tile in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, np.repeat(by_tile, 16))


@EVERYWHERE
def test_volatile_variables(device: str) -> None:
    x, out = floats(32, 4), np.zeros(32, np.float32)
    loaded("pointers").own_volatile[1, 32](x, out, device=device)
    np.testing.assert_allclose(out, x[:, 0] + x[:, 3] + 5 * (1 + np.arange(32)), 1e-6)
    (compiled,) = [loaded("pointers").own_volatile.lower(x, out, grid=1, block=32)]
    volatile = [line for line in str(compiled.metal).splitlines() if "volatile=true" in line]
    assert len(volatile) == 1  # of the memory that threads share, and not of a thread's own


def test_enums_and_structs_have_the_names_that_typedefs_give() -> None:
    t, out = np.arange(8), np.zeros(8, np.int32)
    states = np.where(t % 3, 7, 0).astype(np.uint32)
    turns = np.where(t % 2, 1, -1).astype(np.int32)
    switches = np.zeros(8, np.dtype([("state", "u4"), ("turn", "i4")]))
    switches["turn"] = -turns
    given = (7, -1, switches[1], states, turns, switches, out)
    loaded("scopes").typedefs[1, 8](*given, device="interp:metal")
    expected = 7 - 10 + 100 * -1 + 1000 * turns - 10000 * turns + np.where(t % 3, 0, 7)
    np.testing.assert_array_equal(out, expected)


def test_types_of_namespaces_are_known_within_and_without() -> None:
    t, out = np.arange(8), np.zeros(8, np.int32)
    several = np.where(t % 2, 9, 0).astype(np.uint32)
    inner = np.zeros(8, np.dtype([("answer", "u4"), ("kind", "u4")]))
    inner["answer"], inner["kind"] = 2 * (t % 2), 6 * (t % 3)
    both = np.zeros(8, np.dtype([("first", "u4"), ("level", "i1")], align=True))
    both["first"], both["level"] = t, -t
    given = (np.int8(-3), 9, several, inner, both, out)
    loaded("scopes").within[1, 8](*given, device="interp:metal")
    np.testing.assert_array_equal(out, 6 + 10 * several + 600 * (t % 3) - 999 * t)

    small = np.array((4,), np.dtype([("count", "i4")]))
    large = np.array((0.5, 6), np.dtype([("value", "f4"), ("count", "i4")]))
    given = (300, np.int8(-3), np.uint16(65000), small, large, (-t).astype(np.int8), inner, out)
    loaded("scopes").without[1, 8](*given, device="interp:metal")
    expected = 300 - 3 + 65000 + 4000 + 60000 - t + 200000 * (t % 2) + 4 - 5 + 9
    np.testing.assert_array_equal(out, expected)


def test_an_enum_is_another_argument_of_a_template_than_its_integers() -> None:
    one = np.array((5,), np.dtype([("value", "f4")]))
    other = np.array((1, 2), np.dtype([("unused", "i4"), ("value", "f4")]))
    out = np.zeros(4, np.float32)
    loaded("scopes").specialised[1, 4](one, other, out, device="interp:metal")
    np.testing.assert_array_equal(out, 4 * [3])


def test_types_of_a_function_are_its_own() -> None:
    x, out = ints(8), np.zeros(8, np.int32)
    loaded("scopes").local[1, 8](x, out, device="interp:metal")
    np.testing.assert_array_equal(out, x * np.tile([1, 5], 4).astype(np.int32) + 3)


def test_variables_may_be_called_as_positions_are() -> None:
    out = np.zeros(32, np.int32)
    file = loaded("scopes")
    file.symbols["blockDim"] = np.array([5, 6], np.int32)
    file.positions[1, 32](out, device="interp:metal")
    np.testing.assert_array_equal(out, 10 * np.arange(32) + 2 + 6000 + 32 + 540)


def test_a_width_of_segments_is_a_power_of_two() -> None:
    given = ints(64), np.zeros(128, np.int32), 6
    with pytest.raises(ProgramError, match="the width is a power of two, up to 32"):
        loaded("training").segments[1, 64](*given, device="interp:metal")


def test_variables_of_a_thread() -> None:
    x, v, h = ints(32, low=0, high=60), floats(32, 4), floats(32, 2).astype(np.float16)
    out, sums, found = np.zeros(128, np.int32), np.zeros(32, np.float32), h.copy()
    loaded("variables").own[1, 32](x, out, v, sums, found, device="interp:metal")
    for t in range(32):
        total = 0
        for i in range(4):
            quotient, rest = divmod(int(x[t]) + i, 3)
            if rest == 1:
                quotient = quotient + 5 if quotient + 5 <= 20 else -quotient - 5
            total += quotient * 10 + rest
            if total > 300:
                break
        added = [i + (2.5 if t & 1 and i == t & 3 else 0) for i in range(4)]
        added[t & 3] = 0
        vectors = [v[(t + i) % 32].astype(float) for i in range(3)]
        vectors[t % 3][1] += 10
        total_sum = sum(2 * one[0] + one[1] * (i + 1) for i, one in enumerate(vectors))
        total_sum += sum(10**i * y for i, y in enumerate(added))
        assert out[t] == total
        assert out[32 + t] == (t + 100 if t & 1 else 2 * t - 7)
        np.testing.assert_allclose(sums[t], total_sum, 1e-4, 1e-4)
    t = np.arange(32)
    np.testing.assert_array_equal(out[64:96], t + 2 + 1100)
    np.testing.assert_array_equal(out[96:], (sums.view(np.uint32) >> 23).astype(np.int32))
    np.testing.assert_array_equal(found, h + np.float16(1))


def test_doubles_that_are_floats() -> None:
    x, out = floats(64), np.zeros(64, np.float32)
    loaded("records").rounded[1, 64](x, out, device="interp:metal")
    below = (x.astype(np.float64) - 0.75).astype(np.float32) * 3.0
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, np.where(x > 0.5, 1 / x, below).astype(np.float32))


# By file and line: threads read only what they wrote last themselves, or what nobody then writes.
REDUNDANT = {("scan.cu", 43), ("published.cu", 20), ("published.cu", 45)}


def _lines_of_barriers(case: Case, monkeypatch: pytest.MonkeyPatch, left_out: int) -> set[int]:
    """Run a case without the barrier at a line; give the lines of all that its kernel has."""
    lines = set()

    def maybe(barrier: Callable[..., None]) -> Callable[..., None]:
        def meet(*arguments: Any) -> None:
            line = next(one.lineno for one in inspect.stack(0) if one.filename.endswith(".cu"))
            lines.add(line)
            if line != left_out:
                barrier(*arguments)

        return meet

    with monkeypatch.context() as patch:
        for word in ("barrier", "warp_barrier"):
            patch.setattr(words, word, maybe(getattr(words, word)))
        file = loaded(case.file)
        file._kernels.pop(case.kernel, None)  # to be traced anew
        try:
            case.run(file, "interp:metal")
        finally:
            file._kernels.pop(case.kernel)
    return lines


def test_each_barrier_that_is_missing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both lines, unless it is redundant."""
    missing: dict[tuple[str, int], list[RaceError]] = {}
    for case in CASES:
        for line in sorted(_lines_of_barriers(case, monkeypatch, 0)):
            races = missing.setdefault((f"{case.file}.cu", line), [])
            if not races:
                try:
                    _lines_of_barriers(case, monkeypatch, line)
                except RaceError as error:
                    races.append(error)
    assert len(missing) == 39
    assert {place for place, races in missing.items() if not races} == REDUNDANT
    for (file, _), races in missing.items():
        for race in races:
            assert [name for name, _ in race.locations] == [str(FOLDER / file)] * 2


# What is wrong, and where: `^` is below the place.
WRONG = {
    "double": """\
__global__ void k(float *x) {
    x[0] = x[0] * 0.1;
           ^ Apple's GPUs have no double
}
""",
    "goto": """\
__global__ void k(int *x) {
    goto end;
    ^ `goto end` is not translated
    end: x[1] = 2;
}
""",
    "union": """\
union Word { int a; float b; };
__global__ void k(int *x) {
    Word p;
         ^ a union is not translated
}
""",
    "pointer in a struct": """\
struct Pair {
    int *a;
    ^ a field of type int * is not translated in memory
};
__global__ void k(int *x, Pair p) {
    x[0] = p.a[0];
}
""",
    "one of two structs, changed": """\
struct Pair { int a, b; };
__global__ void k(int *x) {
    Pair p = {1, 2}, q = {3, 4};
    (x[0] > 0 ? p : q).a = 5;
     ^ a struct by ?: is copied only: give it a variable of its own
    x[1] = p.a + q.a;
}
""",
    "reference to one of two": """\
__device__ void set(int &a) { a = 1; }
__global__ void k(int *x) {
    int a = 1, b = 2;
    set(x[0] > 0 ? a : b);
        ^ a reference to this is not translated: give it a variable of its own
}
""",
    "reference to what is counted": """\
__device__ void set(int &a) { a = 1; }
__global__ void k(int *x) {
    set(++x[0]);
        ^ a reference to what an operator leaves is not translated
}
""",
    "reference to a pointer": """\
__device__ void next(int *&p) { p++; }
                     ^ a pointer that changes is no parameter by reference
__global__ void k(int *x) {
    next(x);
    x[0] = 1;
}
""",
    "clang's own": """\
__global__ void k(int *x) {
    x[0] = y;
           ^ use of undeclared identifier 'y'
}
""",
    "printf": """\
extern "C" __device__ int printf(const char *, ...);
__global__ void k(int *x) {
    printf("%d", x[0]);
    ^ printf is not translated
}
""",
    "integer quotient": """\
__global__ void k(float *x) {
    x[0] = 1 / 2 * 1.0;
           ^ Apple's GPUs have no double
}
""",
    "volatile field": """\
struct Flag { volatile int set; };
              ^ a field of type volatile int is not translated in memory
__global__ void k(Flag *x) {
    while (x[0].set == 0) { }
}
""",
    "static": """\
__device__ int next() {
    static int last = 0;
    ^ a static variable is not translated
    return last++;
}
__global__ void k(int *x) { x[0] = next(); }
""",
    "set twice": """\
__global__ void k(int *x, int n) {
    int *z;
    ^ a pointer that is set twice points somewhere from the start
    if (n > 0) z = x;
    else z = x + 1;
    *z = 1;
}
""",
    "enums of one name": """\
enum T { A = 300 };
namespace n { enum T : signed char { B }; }
__global__ void k(T *x) {
                  ^ a parameter of type T * is not translated
}
""",
    "structs of one name": """\
struct T { int a, b; };
namespace n { struct T { int a; }; }
__global__ void k(T *x) {
                  ^ a parameter of type T * is not translated
}
""",
    "loop over an array": """\
__global__ void k(int *x) {
    int a[3] = {1, 2, 3};
    for (int v : a) x[0] += v;
    ^ `for (int v : a) x[0] += v` is not translated
}
""",
    "new": """\
__global__ void k(int *x) {
    int *p = new int[4];
             ^ a pointer made by `new int[4]` is not translated
    x[0] = p[0];
}
""",
    "statement of several lines": """\
__global__ void k(int *x) {
    int a[3] = {1, 2, 3};
    for (int v : a) {
    ^ `for (int v : a) { x[0] += v; x[1] += v; x[2] += v; ...` is not translated
        x[0] += v; x[1] += v;
        x[2] += v; x[3] += v;
    }
}
""",
    "function that is not known": """\
__global__ void k(unsigned *x) {
    x[0] = 1 + __vadd4(x[0], 1);
               ^ use of undeclared identifier '__vadd4'; if it is CUDA's, it is not translated
}
""",
    "lambda": """\
__global__ void k(int *x) {
    auto add = [&](int a) { return a + 1; };
    ^ a lambda is not translated
    x[0] = add(2);
}
""",
    "bits of a field": """\
struct Two { unsigned low : 4, high : 4; };
             ^ a bit-field is not translated
__global__ void k(unsigned *x) {
    Two two;
    two.low = x[0];
    x[1] = two.low;
}
""",
    "parameter": """\
__global__ void k(double *x) {
                  ^ Apple's GPUs have no double
}
""",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_translated_is_told_at_its_line(wrong: str, tmp_path: Path) -> None:
    lines = WRONG[wrong].splitlines()
    (at,) = [n for n, line in enumerate(lines) if line.lstrip().startswith("^")]
    column, message = lines[at].index("^") + 1, lines[at].partition("^")[2].strip()
    file = tmp_path / "wrong.cu"
    file.write_text("\n".join([*lines[:at], *lines[at + 1 :]]))
    with pytest.raises(LanguageError, match=re.escape(message)) as told:
        iris.cuda.load(file).k  # noqa: B018
    spot = told.value.spot
    assert spot is not None
    assert (spot.line, spot.column) == (at, column)
    assert str(iris.cuda.check(file)).startswith(f"wrong.cu: k: {message}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("int *z = n > 0 ? x : y; *z = 1;", "a pointer leads into one array, whatever the"),
        ("atomicAdd((unsigned long long *)y, 1ull);", "an array of i32 has no atomics of ulong"),
        ("atomicAdd(w, 1ull);", "atomics are of 32 bits, not of u64"),
        ("while (n--) { *x = n; x = y; }", "x starts as the pointer x, and must stay"),
        ("if (n) x = y; *x = 1;", "x starts as the pointer y, and must stay"),
        ("One s = {n}; atomicAdd(&s.a, 1);", "atomics are of arrays and __shared__ variables"),
        ("int own = n; atomicCAS(&own, 1, 2);", "atomics are of arrays and __shared__ variables"),
        ("int own = n; int *z = &own; z[n] = 1;", "leads to one variable, not to an array"),
        (
            "unsigned own = n; atomicInc(&own, 5u);",
            "atomics are of arrays and __shared__ variables",
        ),
        ("int a, b, *z = &a; if (n) z = &b; *z = 3;", "z becomes another pointer to a variable"),
        ("int a, b, *z = &a; if (n) z = &b; *z = 3;", "use elements of one array instead"),
        (
            "__shared__ int a[2], b[2]; int *p = a; while (n--) { p[0] = n; p = b; }",
            "p starts as the pointer a, and must stay",
        ),
        ("int a = 1, b = 2; *(n ? &a : &b) = 3;", "a pointer leads into one array"),
        ("x[0] = *(volatile float *)y;", "only scalars of the array's own type can be volatile"),
    ],
)
def test_what_a_trace_refuses_is_told_at_its_line(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.cu"
    head = "__global__ void k(int *x, int *y, unsigned long long *w, int n) {"
    file.write_text(f"struct One {{ int a; }};\n{head}\n    {line}\n}}\n")
    (told,) = iris.cuda.check(file)
    assert told.why is not None
    assert message in told.why
    assert f"{file}:3" in told.why


def test_accesses_out_of_bounds_and_masks_of_some_lanes_are_told_at_their_lines(
    tmp_path: Path,
) -> None:
    file = tmp_path / "beyond.cu"
    file.write_text(
        "__global__ void beyond(const int *x, int *out) {\n"
        "    out[threadIdx.x] = x[threadIdx.x + 1];\n"
        "}\n"
        "__global__ void some(int *x) {\n"
        "    x[0] = __shfl_sync(0xffff, x[0], 0);\n"
        "}\n"
    )
    loaded = iris.cuda.load(file)
    x = ints(32)
    with pytest.raises(ProgramError, match="32") as told:
        loaded.beyond[1, 32](x, x.copy(), device="interp:metal")
    assert told.value.locations == ((str(file), 2),)
    with pytest.raises(LanguageError, match="all lanes take part") as refused:
        loaded.some[1, 32](x, device="interp:metal")
    assert f"{file}:5:12" in str(refused.value)


def test_launches_and_names_are_checked(tmp_path: Path) -> None:
    reductions = loaded("reduction")
    x, out = floats(64), np.zeros(1, np.float32)
    with pytest.raises(ArgumentError, match="launch it with its bytes"):
        reductions.interleaved[1, 64](x, out, 64, device="interp:metal")
    with pytest.raises(ArgumentError, match=r"interleaved\[grid, block\]"):
        reductions.interleaved[1]
    with pytest.raises(ArgumentError, match=r"no kernel 'sums'; there are: .*unrolled<\.\.\.>"):
        reductions.sums  # noqa: B018
    with pytest.raises(ArgumentError, match="no instance of the template"):
        reductions["unrolled<float>"]
    with pytest.raises(FileError, match="there is no file"):
        iris.cuda.load(tmp_path / "none.cu")
    with pytest.raises(FileError, match=r"no \.cu files"):
        iris.cuda.check(tmp_path)


def test_headers_of_libraries_may_be_missing_but_no_others(tmp_path: Path) -> None:
    file = tmp_path / "headers.cu"
    file.write_text(
        "#include <some/library.h>\n__global__ void k(int *locals) { locals[0] = 4 * 0.5; }\n"
    )
    out = np.zeros(1, np.int32)
    iris.cuda.load(file).k[1, 1](out, device="interp:metal")
    assert out == [2]
    file.write_text('int x;\n#include "mine.h"\n__global__ void k(int *x) { x[0] = 2; }\n')
    with pytest.raises(LanguageError, match=r"'mine\.h' file not found") as told:
        iris.cuda.load(file)
    assert f"{file}:2" in str(told.value)
    assert "all kernels: 'mine.h' file not found" in str(iris.cuda.check(file))


def test_variables_of_the_file_are_arrays() -> None:
    file = iris.cuda.load(FOLDER / "stencil.cu")
    x, out, taps = floats(40), np.zeros(40, np.float32), floats(2, 3)
    with pytest.raises(ArgumentError, match=r"set file\.symbols\['\w+'\]"):
        file.filtered[2, 32](x, out, 40, device="interp:metal")
    uses = np.zeros(1, np.int32)
    file.symbols.update(taps=taps, rounds=np.array([3], np.int32), uses=uses)
    file.filtered[2, 32](x, out, 40, device="interp:metal")
    np.testing.assert_allclose(out[1:-1], 3 * np.correlate(x, taps[1]), 1e-5)
    assert uses == [38]


def test_a_folder_is_checked() -> None:
    report = iris.cuda.check(FOLDER / "matmul.cu")
    assert [(one.kernel, one.why is None) for one in report] == [
        ("columns", True),
        ("tiled", False),
    ]
    assert str(report).endswith("1 of 2 kernels are translated")
