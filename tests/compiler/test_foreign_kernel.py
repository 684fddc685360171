"""Kernels as functions of PyTorch's tensors and MLX's arrays; stand-ins run them on softmetal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foreign_libraries
import iris
import iris.cuda
from foreign_libraries import MlxArray, Tensor
from iris import metal
from iris.compiler.compilation import Compilation
from iris.errors import ArgumentError, DeviceError, DTypeError, PipelineError

pytestmark = pytest.mark.softmetal
Array = np.ndarray[Any, Any]


@iris.kernel
def scaled(X, Out, factor, n, B: iris.constexpr):
    # A word that MLX declares of itself.
    grid_size = iris.program_id(0) * B + iris.arange(0, B)
    buffer0 = iris.load(X + grid_size, mask=grid_size < n)
    iris.store(Out + grid_size, factor * buffer0, mask=grid_size < n)


@iris.kernel
def product(A, B, C, K, scale, M: iris.constexpr, N: iris.constexpr, D: iris.constexpr):
    i, j = iris.program_id(0) * M, iris.program_id(1) * N
    total = iris.zeros((M, N), iris.f32)
    for k in range(0, K, D):
        total += iris.dot(iris.tile_load(A, i, k, K, (M, D)), iris.tile_load(B, k, j, 64, (D, N)))
    iris.tile_store(C, i, j, 64, scale * total)


@iris.kernel
def counted(X, Bins, n, B: iris.constexpr):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.atomic_add(Bins + iris.load(X + at, mask=at < n, other=0), 1, mask=at < n)


@iris.kernel
def checked(X, Out, B: iris.constexpr):
    x = iris.load(X + iris.arange(0, B))
    iris.device_assert(x > 0, "positive")
    iris.store(Out + iris.arange(0, B), x)


@pytest.fixture(autouse=True)
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", foreign_libraries.torch)
    monkeypatch.setitem(sys.modules, "mlx.core", foreign_libraries.mlx)


def _floats(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(19).standard_normal(shape).astype(dtype)


def _scaled() -> Compilation:
    x = np.zeros(1024, np.float32)
    return scaled.lower(x, x.copy(), 2.5, 1024, B=256, grid=4)


def _product() -> Compilation:
    a, b = _floats(64, 96, dtype=np.float16), _floats(96, 64, dtype=np.float16)
    return product.lower(a, b, _floats(64, 64), 96, 0.5, M=32, N=32, D=32, grid=(2, 2))


def _counted() -> Compilation:
    x = np.zeros(1000, np.int32)
    return counted.lower(x, np.zeros(8, np.int32), 1000, B=256, grid=4)


@iris.metal.kernel
def twice(X, Out):
    i = metal.thread_id_x()
    Out[i] = 2.0 * X[i]


CUDA = """
__global__ void twice(const float* X, float* Out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) Out[i] = 2.0f * X[i];
}
"""


@pytest.mark.parametrize("kind", ["thread", "cuda"])
def test_kernels_by_thread(kind: str, tmp_path: Path) -> None:
    """Where threads do not fill threadgroups, their number is the last argument."""
    x, out = _floats(300), np.zeros(300, np.float32)
    if kind == "thread":
        lowered, last = twice.lower(x, out, threads=300), {"threads_x": 300}
    else:
        (tmp_path / "twice.cu").write_text(CUDA)
        kernel = iris.cuda.load(tmp_path / "twice.cu").twice
        lowered, last = kernel.lower(x, out, 300, grid=2, block=256), {"n": 300}
    lowered.to_torch()(Tensor(x), Tensor(out), **last)
    np.testing.assert_array_equal(out, 2 * x)
    np.testing.assert_array_equal(lowered.to_mlx()(MlxArray(x), (300,), **last).value, 2 * x)
    lowered.save(tmp_path / "twice.iris")
    again = np.zeros(300, np.float32)
    saved = iris.load_kernel(tmp_path / "twice.iris")
    saved[2](x, again, device="interp:metal", **last)
    np.testing.assert_array_equal(again, 2 * x)


def test_torch() -> None:
    launch = _scaled().to_torch()
    x, out = _floats(1024), np.zeros(1024, np.float32)
    launch(Tensor(x), Tensor(out), 3.0, n=1024)
    np.testing.assert_array_equal(out, 3 * x)
    longer = _floats(2048)
    result = np.zeros_like(longer)
    launch(Tensor(longer), Tensor(result), -1.5, 2048, grid=8)
    np.testing.assert_array_equal(result, -1.5 * longer)
    launch(Tensor(x), Tensor(out), 9.0, 1024, grid=0)
    np.testing.assert_array_equal(out, 3 * x)


def test_torch_multiplies_and_counts() -> None:
    a, b, c = _floats(64, 96, dtype=np.float16), _floats(96, 64, dtype=np.float16), _floats(64, 64)
    _product().to_torch()(Tensor(a), Tensor(b), Tensor(c), 96, 0.25)
    np.testing.assert_allclose(c, 0.25 * (a.astype(np.float32) @ b), rtol=1e-4, atol=1e-4)
    x, bins = np.arange(1000, dtype=np.int32) % 7, np.zeros(8, np.int32)
    _counted().to_torch()(Tensor(x), Tensor(bins), 1000)
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=8))


def test_mlx() -> None:
    launch = _scaled().to_mlx()
    x = _floats(1024)
    out = launch(MlxArray(x), (1024,), 3.0, n=1024)
    np.testing.assert_array_equal(out.value, 3 * x)
    # Two programs write half of it.
    half = launch(MlxArray(x), (1024,), 3.0, 1024, grid=2, init_value=-1)
    np.testing.assert_array_equal(half.value, np.where(np.arange(1024) < 512, 3 * x, -1))
    none = launch(MlxArray(x), (1024,), 3.0, 1024, grid=0, init_value=4)
    np.testing.assert_array_equal(none.value, np.full(1024, 4, np.float32))


def test_mlx_multiplies_and_counts() -> None:
    a, b = _floats(64, 96, dtype=np.float16), _floats(96, 64, dtype=np.float16)
    c = _product().to_mlx()(MlxArray(a), MlxArray(b), (64, 64), 96, 0.25)
    np.testing.assert_allclose(c.value, 0.25 * (a.astype(np.float32) @ b), rtol=1e-4, atol=1e-4)
    x = np.arange(1000, dtype=np.int32) % 7
    launch = _counted().to_mlx()
    bins = launch(MlxArray(x), (8,), 1000, init_value=0)
    np.testing.assert_array_equal(bins.value, np.bincount(x, minlength=8))
    with pytest.raises(ArgumentError, match=r"counted reads Bins, which MLX makes anew: .*init_va"):
        launch(MlxArray(x), (8,), 1000)


def test_a_short_array_of_mlx() -> None:
    """It is in another address space, unless it is made longer."""
    x = np.zeros(3, np.float32)
    launch = scaled.lower(x, x.copy(), 2.5, 3, B=32, grid=1).to_mlx()
    out = launch(MlxArray([1.0, 2.0, 3.0], np.float32), (3,), 2.0, 3)
    np.testing.assert_array_equal(out.value, [2, 4, 6])


def test_arrays_of_mlx_may_start_anywhere() -> None:
    """Nobody says where, so that no access needs it."""
    lowered = _product()
    assert "uint4*" in lowered.msl  # of 16 bytes
    foreign: list[str] = []
    original = foreign_libraries.mlx.fast.metal_kernel
    patched = pytest.MonkeyPatch()
    patched.setattr(
        foreign_libraries.mlx.fast,
        "metal_kernel",
        lambda **options: foreign.append(options["source"]) or original(**options),
    )
    lowered.to_mlx()
    patched.undo()
    assert "uint4*" not in foreign[0]


_X = _floats(1025)


@pytest.mark.parametrize(
    ("arguments", "kind", "why"),
    [
        ((_X[:1024],), ArgumentError, "X is a ndarray; pass a torch.Tensor on the device 'mps'"),
        ((Tensor(_X[:1024], device="cpu"),), ArgumentError, "X is on the device .*'mps'"),
        ((Tensor(_floats(2048)[::2]),), ArgumentError, "X is not contiguous; pass X.contiguous()"),
        ((Tensor(_X[:1024].astype(np.float64)),), DTypeError, "X has the dtype torch.float64"),
        ((Tensor(_X[:1024].astype(np.int32)),), ArgumentError, "X must have the dtype f32"),
        ((Tensor(_X[1:], _X),), ArgumentError, "X must start at a multiple of 16 bytes"),
        ((Tensor(_X),), ArgumentError, "X must be axis 0 of size divisible by 16"),
        ((3.0,), ArgumentError, "X must be an array of f32"),
        ((Tensor(_X[:1024]), Tensor(_X[:1024])), ArgumentError, "X must share no memory"),
        ((Tensor(_X[:1024]), Tensor(_floats(1024)), 3), ArgumentError, "factor must be a number"),
        ((Tensor(_X[:1024]), Tensor(_floats(1024)), 3.0, 7), ArgumentError, "n must be divisible"),
        ((), ArgumentError, "scaled needs the argument 'X'"),
    ],
)
def test_what_torch_must_not_pass(
    arguments: tuple[Any, ...], kind: type[Exception], why: str
) -> None:
    usual = (Tensor(_X[:1024].copy()), Tensor(_floats(1024)), 2.0, 1024)
    passed = (*arguments, *usual[len(arguments) :]) if arguments else ()
    with pytest.raises(kind, match=why):
        _scaled().to_torch()(*passed)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((_X[:1024],), "X is a ndarray; pass an array of MLX"),
        ((MlxArray(_X),), "X must be axis 0 of size divisible by 16"),
        ((MlxArray(_X[:1024]), MlxArray(_X[:1024])), "Out is written to.*pass its shape, a tuple"),
        ((MlxArray(_X[:1024]), (1024, -1)), "Out is written to, and MLX makes it anew"),
        ((MlxArray(_X[:1024]), (1024, 1)), "Out must have the dtype f32 and 1 axes"),
    ],
)
def test_what_mlx_must_not_pass(arguments: tuple[Any, ...], why: str) -> None:
    usual = (MlxArray(_X[:1024]), (1024,), 2.0, 1024)
    with pytest.raises(ArgumentError, match=why):
        _scaled().to_mlx()(*arguments, *usual[len(arguments) :])


def test_more_threads_than_metal_numbers() -> None:
    with pytest.raises(ArgumentError, match="more than Metal numbers along an axis"):
        _scaled().to_torch()(Tensor(_X[:1024]), Tensor(_floats(1024)), 2.0, 1024, grid=2**30)


HANDED: list[Callable[[Compilation], Any]] = [Compilation.to_torch, Compilation.to_mlx]


@pytest.mark.parametrize("hand", HANDED)
def test_a_kernel_that_reports(hand: Callable[[Compilation], Any]) -> None:
    x = _floats(32)
    with pytest.raises(ArgumentError, match="the kernel checked asserts or prints"):
        hand(checked.lower(x, x.copy(), B=32, grid=1))


@pytest.mark.parametrize("hand", HANDED)
def test_a_kernel_of_a_function_of_arrays(hand: Callable[[Compilation], Any]) -> None:
    compiled = iris.jit(lambda x: x + 1).lower(np.ones(8, np.float32))
    with pytest.raises(PipelineError, match="nor handed to another library"):
        hand(compiled.kernels[0])


@pytest.mark.parametrize(("hand", "module"), [*zip(HANDED, ("torch", "mlx.core"), strict=True)])
def test_a_library_that_is_not_there(
    hand: Callable[[Compilation], Any], module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DeviceError, match=f"{module} is not installed"):
        hand(_scaled())
