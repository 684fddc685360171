"""CUDA files on `cuda`, against what NVIDIA's own compiler makes of the same text.

Where there is no GPU, both are compiled for one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("cuda.bindings.nvrtc")

import iris
from cuda_cases import CASES, ENTRY, FOLDER, LIMITS, PARTICLE, SETTINGS, Array, loaded
from iris.codegen import emit
from iris.codegen.languages.cuda import CUDA
from iris.compiler.compilation import entry_of
from iris.compiler.cuda_file import CudaFile
from iris.frontend.cuda.clang import CLANG
from iris.ir import scalar
from iris.runtime.cuda import nvrtc
from iris.testing.texts import together
from nvcc import Binary
from random_c import THREADS, drawn
from support import counts

pytestmark = pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")

rng = np.random.default_rng(1)


class Launch(NamedTuple):
    """A launch of a kernel, by its name in C++."""

    file: str
    kernel: str
    shape: tuple[Any, ...]
    arguments: Sequence[Any]
    symbols: Mapping[str, Array] = {}
    key: str | None = None  # the field of the first array whose order is open

    def __str__(self) -> str:
        return f"{self.file}-{self.kernel}"


def floats(*shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def ints(*shape: int, low: int = -9, high: int = 9) -> Array:
    return rng.integers(low, high, shape).astype(np.int32)


def _of_cases() -> Iterator[Launch]:
    """Each launch once; several cases look at different arrays of one."""
    seen = set()
    for case in CASES:
        key = (case.kernel, case.shape, *[np.asarray(one).tobytes() for one in case.arguments])
        if key not in seen:
            seen.add(key)
            yield Launch(case.file, case.kernel, case.shape, case.arguments)


def _choices() -> Iterator[Launch]:
    x = floats(2, 200) * 3
    yield Launch("choices", "online_softmax", (2, 128), (x, np.zeros_like(x), 200))
    for op in (0, 3, 4, 2**32 - 1):
        settings = np.array((40, 2, op, -2, 7), SETTINGS)
        yield Launch("choices", "apply", (1, 64), (floats(40), floats(40), settings))
    pairs = ints(4, 2).view([("a", "i4"), ("b", "i4")])[:, 0]
    yield Launch("choices", "picked", (1, 32), (pairs, np.zeros(32, np.int32), 4))


def _pointers() -> Iterator[Launch]:
    keys = ints(100, low=1, high=20).astype(np.uint32)
    table = np.zeros(32, ENTRY)
    yield Launch("pointers", "count", (2, 64), (table, keys, 100, 32), key="key")
    table = table.copy()
    table["sum"] = floats(32)
    yield Launch("pointers", "one_field", (1, 32), (table,))
    yield Launch("pointers", "arrows", (1, 8), (floats(8, 4), floats(8, 3)))
    x = floats(32, 3)
    yield Launch("pointers", "returned", (1, 32), (x, np.zeros_like(x), np.zeros_like(x)))
    x = floats(3, 100)
    yield Launch("pointers", "softmax_in_place", (3, 32), (x, np.zeros_like(x), 100))
    x, pairs = ints(64).astype(np.float32), floats(64, 2)
    given = (x, np.zeros(64, np.int32), pairs, np.zeros_like(pairs))
    yield Launch("pointers", "by_functions", (1, 64), given)
    given = (ints(64, low=-50, high=50), *np.zeros((3, 64), np.int32), 7)
    yield Launch("pointers", "by_structs", (1, 64), given)
    yield Launch("pointers", "own_volatile", (1, 32), (floats(32, 4), np.zeros(32, np.float32)))


def _references() -> Iterator[Launch]:
    x = np.arange(2, 42, dtype=np.int32)
    for kernel, more in (("elements", (1, 1)), ("elements", (0, 1)), ("own", (1,)), ("own", (2,))):
        yield Launch("references", kernel, (1, 1), (x, *more))
    pair = np.dtype([("a", "i4"), ("b", "i4"), ("many", "i4", 3), ("at", "f4", 3)])
    pairs = ints(4, 8).view(pair)[:, 0]
    pairs["at"] = floats(4, 3)
    yield Launch("references", "records", (1, 1), (x, pairs, x.astype(np.float32)))
    rows = x[:4].view([("x", "i4", 4)])
    yield Launch("references", "returned", (1, 1), (x, rows, x.astype(np.float32)))
    yield Launch("references", "shared", (1, 32), (x[:32], 0))


def _scopes() -> Iterator[Launch]:
    out = np.zeros(8, np.int32)
    states, turns = np.uint32([0, 7] * 4), np.int32([1, -1] * 4)
    switches = np.zeros(8, [("state", "u4"), ("turn", "i4")])
    switches["turn"] = -turns
    given = (7, -1, switches[1], states, turns, switches, out)
    yield Launch("scopes", "typedefs", (1, 8), given)
    several = np.uint32([0, 9] * 4)
    inner = np.zeros(8, [("answer", "u4"), ("kind", "u4")])
    inner["answer"], inner["kind"] = 2 * (several > 0), 6
    both = np.zeros(8, np.dtype([("first", "u4"), ("level", "i1")], align=True))
    both["first"], both["level"] = np.arange(8), -np.arange(8)
    given = (np.int8(-3), 9, several, inner, both, out)
    yield Launch("scopes", "small::within", (1, 8), given)
    small = np.array((4,), [("count", "i4")])
    large = np.array((0.5, 6), [("value", "f4"), ("count", "i4")])
    lows = -np.arange(8, dtype=np.int8)
    given = (300, np.int8(-3), np.uint16(65000), small, large, lows, inner, out)
    yield Launch("scopes", "without", (1, 8), given)
    one = np.array((5,), [("value", "f4")])
    other = np.array((1, 2), [("unused", "i4"), ("value", "f4")])
    yield Launch("scopes", "specialised", (1, 4), (one, other, np.zeros(4, np.float32)))
    yield Launch("scopes", "local", (1, 8), (ints(8), out))
    symbols = {"small::blockDim": np.array([5, 6], np.int32)}
    yield Launch("scopes", "positions", (1, 32), (np.zeros(32, np.int32),), symbols)


def _others() -> Iterator[Launch]:
    particles = np.zeros(32, PARTICLE)
    particles["place"], particles["mass"] = floats(32, 3), floats(32)
    particles["ids"] = ints(32, 3)
    particles["inner"]["at"], particles["inner"]["kind"] = floats(32, 2), 9
    given = (particles, np.array((-0.5, 9, 4), LIMITS), np.zeros(32, np.float32))
    limits = np.array((0, 0.5, 5), LIMITS)
    yield Launch("records", "step", (1, 32), given, {"limits": limits})
    yield Launch("records", "rounded", (1, 64), (floats(64), np.zeros(64, np.float32)))
    symbols = {"taps": floats(2, 3), "rounds": np.int32([3]), "uses": np.int32([0])}
    given = (floats(40), np.zeros(40, np.float32), 40)
    yield Launch("stencil", "filtered", (2, 32), given, symbols)
    x = np.append(np.linspace(-4, 9, 90), [0, 1e-30, np.inf, -np.inf]).astype(np.float32)
    yield Launch("training", "tails", (1, 64), (x, np.zeros(3 * x.size, np.float32), x.size))
    halves = floats(32, 2).astype(np.float16)
    given = (ints(32, low=0, high=60), np.zeros(128, np.int32), floats(32, 4), floats(32), halves)
    yield Launch("variables", "own", (1, 32), given)


LAUNCHES = [
    *_of_cases(),
    *_choices(),
    *_pointers(),
    *_references(),
    *_scopes(),
    *_others(),
]
FILES = sorted({launch.file for launch in LAUNCHES})
# CUDA C leaves open how a function such as `expf` rounds, and in which order a tile reduces: those
# of other kernels are equal to the bit.
ROUNDED = {
    *("gelu", "functions", "tails", "softmax_warp", "softmax_block", "layernorm"),
    *("causal_softmax", "classified<true>", "classified<false>", "online_softmax"),
    *("softmax_in_place", "by_functions"),
}


def test_every_file_is_launched() -> None:
    assert [path.stem for path in sorted(FOLDER.glob("*.cu"))] == FILES
    assert {launch.kernel for launch in LAUNCHES} >= ROUNDED


def _given(launch: Launch) -> list[Any]:
    """Copies of the arguments, as what the kernel declares them."""
    declared = loaded(launch.file)[_key(launch.kernel)].kernel.function.declared.values()
    types = [scalar.storage(one.type.element) for one in declared]
    return [
        np.copy(one) if isinstance(one, (np.ndarray, np.void)) else type_.type(one)
        for one, type_ in zip(launch.arguments, types, strict=False)
    ]


def _key(name: str) -> str:
    """What Iris calls what C++ calls so."""
    return name.rpartition("::")[2]


def _names(file: str) -> list[str]:
    launches = [launch for launch in LAUNCHES if launch.file == file]
    symbols = [f"&{one}" for launch in launches for one in launch.symbols]
    return list(dict.fromkeys([*[launch.kernel for launch in launches], *symbols]))


@cache
def _binary(file: str) -> Binary:
    return Binary(FOLDER / f"{file}.cu", _names(file))


def _set_symbols(launch: Launch) -> dict[str, Array]:
    symbols = {name: np.copy(value) for name, value in launch.symbols.items()}
    loaded(launch.file).symbols.update({_key(name): value for name, value in symbols.items()})
    return symbols


def _compiles_for_a_gpu(
    file: CudaFile, launches: Sequence[tuple[str, tuple[Any, ...], Any]]
) -> None:
    """Assert that NVIDIA's compiler takes what Iris makes of kernels."""
    sources = []
    for kernel, (grid, block, *shared), arguments in launches:
        made = file[kernel].lower(*arguments, grid=grid, block=block, shared=sum(shared))
        sources.append(emit(entry_of(made.stages[-1].module), CUDA))
    (source, *_) = together(sources, CUDA)
    _, code = nvrtc.compiled(source.text, source.entry, "sm_90", fast=False)
    assert code.startswith(b"\x7fELF")


@pytest.mark.parametrize("name", FILES)
def test_nvidias_compiler_takes_a_file_and_what_iris_makes_of_it(name: str) -> None:
    assert _binary(name).code.startswith(b"\x7fELF")
    launches = []
    for launch in LAUNCHES:
        if launch.file == name:
            _set_symbols(launch)
            launches.append((_key(launch.kernel), launch.shape, _given(launch)))
    _compiles_for_a_gpu(loaded(name), launches)


@pytest.mark.cuda
@pytest.mark.parametrize("launch", LAUNCHES, ids=str)
def test_a_kernel_stores_what_nvccs_does(launch: Launch) -> None:
    expected, right = _given(launch), {n: np.copy(v) for n, v in launch.symbols.items()}
    with _binary(launch.file) as binary:
        binary.launch(launch.kernel, launch.shape, expected, right)
    found, symbols = _given(launch), _set_symbols(launch)
    loaded(launch.file)[_key(launch.kernel)][launch.shape](*found, device="cuda")
    for one, other in zip([*found, *symbols.values()], [*expected, *right.values()], strict=True):
        _compare(launch, np.asarray(one), np.asarray(other))
    arrays = [np.asarray(one) for one in (*expected, *right.values())]
    given = [np.asarray(one) for one in (*_given(launch), *launch.symbols.values())]
    assert any(one.tobytes() != other.tobytes() for one, other in zip(arrays, given, strict=True))


def _compare(launch: Launch, found: Array, expected: Array) -> None:
    """Assert that two arrays are equal, field by field: between them may be anything."""
    if found.dtype.names:
        if launch.key is not None:
            found, expected = (x[np.argsort(x[launch.key])] for x in (found, expected))
        for name in found.dtype.names:
            _compare(launch, found[name], expected[name])
    elif found.dtype.kind == "f" and launch.kernel in ROUNDED:
        np.testing.assert_allclose(found, expected, 2e-5, 1e-5)
    else:
        words = f"u{found.dtype.itemsize}"
        found, expected = np.ascontiguousarray(found), np.ascontiguousarray(expected)
        np.testing.assert_array_equal(found.view(words), expected.view(words))


@pytest.fixture(params=range(counts(1, 50)))
def random_file(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Path]:
    file, path = drawn(request.param), tmp_path / "functions.cu"
    path.write_text(file.functions + file.kernels)
    return file, path


def _random_binary(file: Any, path: Path) -> Binary:
    # Without optimisations, which take it for granted that no sum of integers wraps.
    return Binary(path, [f"k{name}" for name in file.names], "--device-debug")


def test_nvidias_compiler_takes_random_functions(random_file: tuple[Any, Path]) -> None:
    file, path = random_file
    assert _random_binary(file, path).code.startswith(b"\x7fELF")
    out = np.empty(THREADS, np.int32)
    launches = [(f"k{name}", (1, THREADS), (*file.arguments, out)) for name in file.names]
    _compiles_for_a_gpu(iris.cuda.load(path), launches)


@pytest.mark.cuda
def test_random_functions_compute_what_nvccs_code_does(random_file: tuple[Any, Path]) -> None:
    file, path = random_file
    with _random_binary(file, path) as binary:
        for name in file.names:
            expected, found = np.zeros(THREADS, np.int32), np.zeros(THREADS, np.int32)
            binary.launch(f"k{name}", (1, THREADS), (*file.arguments, expected), {})
            kernel = iris.cuda.load(path)[f"k{name}"]
            kernel[1, THREADS](*file.arguments, found, device="cuda")
            np.testing.assert_array_equal(found, expected, file.functions)
