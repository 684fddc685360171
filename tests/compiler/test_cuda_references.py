"""References of CUDA C are to places that others may lead to, too: against the code that clang
makes of the same file for this machine, and against NumPy."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import CarriedError
from iris.frontend.cuda.clang import CLANG
from on_metal import SHARING
from support import ROOT

pytestmark = pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")

EVERYWHERE = pytest.mark.parametrize(
    "device", ["interp:metal", pytest.param(SHARING, marks=pytest.mark.metal)]
)
FILE = ROOT / "tests/cuda_files/references.cu"
#: What makes of the file one for this machine, of one thread.
HERE = """\
#define __device__
#define __global__ extern "C"
#define __shared__ static
#define __syncthreads()
struct float3 { float x, y, z; };
struct float4 { float x, y, z, w; };
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static struct { unsigned x, y, z; } threadIdx;
"""
PAIR = np.dtype([("a", "i4"), ("b", "i4"), ("many", "i4", 3), ("at", "f4", 3)])
ROW = np.dtype([("x", "i4", 4)])
Array = np.ndarray[Any, Any]


@cache
def loaded() -> Any:
    return iris.cuda.load(FILE)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("here") / "references.so"
    command = [CLANG, "-x", "c++", "-", "-shared", "-fPIC", "-O1", "-w", "-o", str(library)]
    subprocess.run(command, input=HERE + FILE.read_text(), text=True, check=True)
    return ctypes.CDLL(str(library))


def pairs() -> Array:
    made = np.zeros(4, PAIR)
    made["a"], made["b"] = np.arange(1, 5), np.arange(11, 15)
    made["many"] = np.arange(12).reshape(4, 3)
    made["at"] = np.arange(12).reshape(4, 3) / 2
    return made


def numbers(count: int = 40) -> Array:
    return np.arange(2, 2 + count, dtype=np.int32)


CALLS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "one element": ("elements", (numbers(), 1, 1)),
    "two elements": ("elements", (numbers(), 0, 1)),
    "one of its own": ("own", (numbers(), 1)),
    "two of its own": ("own", (numbers(), 2)),
    "structs": ("records", (numbers(), pairs(), numbers().astype(np.float32))),
    "returned": ("returned", (numbers(), numbers(4).view(ROW), numbers().astype(np.float32))),
}


@EVERYWHERE
@pytest.mark.parametrize("which", CALLS)
def test_functions_change_places_as_clangs_code_does(
    which: str, device: str, here: ctypes.CDLL
) -> None:
    kernel, arguments = CALLS[which]
    there, expected = ([np.copy(x) for x in arguments] for _ in range(2))
    given = [x if x.ndim else int(x) for x in there]
    loaded()[kernel][1, 1](*given, device=device)
    getattr(here, kernel)(
        *[ctypes.c_void_p(x.ctypes.data) if x.ndim else ctypes.c_int(int(x)) for x in expected]
    )
    for found, right in zip(there, expected, strict=True):
        np.testing.assert_array_equal(found, right)


@EVERYWHERE
def test_references_to_one_element(device: str) -> None:
    x = np.zeros(40, np.int32)
    loaded().elements[1, 1](x, 0, 0, device=device)
    assert x[0] == 11  # 1 and 10
    assert x[2] == 12  # 1 and 5, twice: its array changes it meanwhile
    assert x[3] == 7  # what a const reference sees of a change


@EVERYWHERE
def test_references_to_shared_memory(device: str) -> None:
    x = numbers(32)
    held = x + 11
    held[5] = 2 * (held[5] + 6)
    one = 2 * (3 + 11 + 6)
    held[0], one = one, held[0]
    held[1] += 3
    held += np.minimum(np.arange(32), 4)
    held[31] = one
    loaded().shared[1, 32](x, 0, device=device)
    np.testing.assert_array_equal(x, held)


def test_a_reduction_passes_references(tmp_path: Path) -> None:
    source = tmp_path / "most.cu"
    source.write_text(
        "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n"
        "namespace cg = cooperative_groups;\n"
        "__device__ int most(const int &a, const int &b) { return a > b ? a : b; }\n"
        "__global__ void k(int *x) {\n"
        "    auto tile = cg::tiled_partition<32>(cg::this_thread_block());\n"
        "    x[threadIdx.x] = cg::reduce(tile, x[threadIdx.x], most);\n}\n"
    )
    x = np.random.default_rng(0).permutation(32).astype(np.int32)
    iris.cuda.load(source).k[1, 32](x, device="interp:metal")
    np.testing.assert_array_equal(x, np.full(32, 31))


LATER = """\
__device__ int raised(int &a) { a += 3; return a; }
__global__ void k(int *x, int n) {
    int *p = x + 3;
    int &r = p[1];
    p = x + 10;
    r = 100;  // where the pointer was
    int e = n, q = n;
    x[0] = e << raised(e);
    x[1] = q << q++;
}
"""


def test_what_is_written_first_is_taken_first(tmp_path: Path) -> None:
    source = tmp_path / "later.cu"
    source.write_text(LATER)
    x = np.zeros(20, np.int32)
    iris.cuda.load(source).k[1, 1](x, 1, device="interp:metal")
    assert x[:2].tolist() == [1 << 4, 1 << 1]
    assert np.flatnonzero(x[2:]).tolist() == [2] and x[4] == 100


FIELDS = """\
struct Pair { int a, b; };
__device__ int &chosen(Pair &v, bool first) { if (first) return v.a; return v.b; }
__global__ void k(int *x, int n) {
    Pair v;
    v.a = v.b = 0;
    chosen(v, n > 3) = 9;
    x[0] = v.a;
}
"""


@pytest.mark.parametrize(
    "text",
    [
        FIELDS,
        FIELDS.replace("struct Pair { int a, b; };", "")
        .replace("Pair", "int2")
        .replace(".a", ".x")
        .replace(".b", ".y"),
    ],
    ids=["fields", "parts"],
)
def test_a_branch_that_chooses_a_part_is_refused(text: str, tmp_path: Path) -> None:
    """No index says which of them a reference is to."""
    source = tmp_path / "chosen.cu"
    source.write_text(text)
    with pytest.raises(CarriedError, match="depending on a traced condition"):
        iris.cuda.load(source).k[1, 1](np.zeros(4, np.int32), 1, device="interp:metal")
