"""Arrays of other libraries as arguments: what is shared, and what is refused."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import iris
from iris.errors import ArgumentError, LanguageError, UserError

X = np.array([1, 2.5, -3, 0.125, 7, 1e20], ml_dtypes.bfloat16)
_new_capsule = ctypes.pythonapi["PyCapsule_New"]
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p


class Tensor:
    """An array of a library that has bf16, as DLPack has it; `version` of what it gives at most."""

    def __init__(self, array: Any, version: int | None = 1, code: int = 4, read_only: bool = False):
        self.array, self.version, self.code, self.read_only = array, version, code, read_only

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        versioned = self.version is not None
        if options and not versioned:
            raise TypeError("unexpected keyword arguments")
        bits = self.array.view(np.uint16)
        rank = bits.ndim
        size = ctypes.c_int64 * rank
        self.shape = size(*bits.shape)
        self.strides = size(*[n // 2 for n in bits.strides])
        # DLTensor, by its fields: two of its integers of 64 bits hold several.
        tensor = (
            bits.ctypes.data - 6,
            1,
            rank | (self.code | 16 << 8 | 1 << 16) << 32,
            ctypes.addressof(self.shape),
            ctypes.addressof(self.strides),
            6,
        )
        words = (self.version, 0, 0, int(self.read_only), *tensor) if versioned else (*tensor, 0, 0)
        self.managed = (ctypes.c_uint64 * len(words))(*words)
        name = b"dltensor_versioned" if versioned else b"dltensor"
        return _new_capsule(ctypes.addressof(self.managed), name, None)


@iris.kernel
def double(X, Out, n, B: iris.constexpr = 8):
    at = iris.arange(0, B)
    iris.store(Out + at, 2 * iris.load(X + at, mask=at < n), mask=at < n)


@iris.jit
def doubled(x: Any) -> Any:
    return x * 2


@pytest.mark.parametrize("version", [None, 1])
def test_bf16_tensors_are_arguments(version: int | None) -> None:
    out = np.zeros(6, ml_dtypes.bfloat16)
    double[1](Tensor(X, version), out, 6)
    assert (out == 2 * X).all()
    assert (doubled(Tensor(X, version)) == 2 * X).all()
    assert (iris.asarray(Tensor(X, version)).numpy() == X).all()
    backward = X[::-1].reshape(2, 3).T
    assert (iris.asarray(Tensor(backward, version)).numpy() == backward).all()
    assert iris.asarray(Tensor(X[:0], version)).shape == (0,)


def test_bf16_tensors_are_written_to_where_they_may_be() -> None:
    out = X.copy()
    double[1](X, Tensor(out), 6)
    assert (out == 2 * X).all()
    for read_only in (Tensor(out, None), Tensor(out, read_only=True)):
        with pytest.raises(ArgumentError, match="Out is written to, but its array is read-only"):
            double[1](X, read_only, 6)


def test_what_is_not_shared_is_an_error_that_names_the_argument() -> None:
    class NeedsGradient:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **options: Any) -> Any:
            raise RuntimeError("Can't export tensors that require gradient, use tensor.detach()")

    class Broken:
        __array_interface__ = 5

    out = np.zeros(6, np.float32)
    wrong = [Tensor(X, code=5), Tensor(X, version=2), NeedsGradient(), Broken()]
    for value in wrong:
        with pytest.raises(
            ArgumentError, match=r"^X does not share its memory with NumPy: "
        ) as one:
            double[1](value, out, 6)
        assert one.value.spot is not None
        with pytest.raises(ArgumentError, match=r"^x does not share its memory with NumPy: "):
            doubled(value)
        with pytest.raises(ArgumentError, match="does not share its memory with NumPy: "):
            iris.asarray(value)


class Negated(Tensor):
    """A view of torch, such as the imaginary part of a conjugate."""

    is_negated = True

    def is_neg(self) -> bool:
        return self.is_negated


def test_views_that_are_negated_when_read_are_refused() -> None:
    """DLPack says nothing of it, so the sign would be lost."""
    out = np.zeros(6, ml_dtypes.bfloat16)
    x = Negated(X)
    uses: list[tuple[str, Any]] = [
        ("X", lambda: double[1](x, out, 6)),
        ("Out", lambda: double[1](X, x, 6)),
        ("x", lambda: doubled(x)),
        ("the array", lambda: iris.asarray(x)),
    ]
    for name, use in uses:
        with pytest.raises(ArgumentError, match=rf"^{name} is negated .* its \.resolve_neg\(\)"):
            use()
    x.is_negated = False
    double[1](x, out, 6)
    assert (out == 2 * X).all()


M = np.ma.masked_array(np.arange(6, dtype=np.float32), [0, 1, 0, 1, 0, 0])


@iris.jit
def with_masked(x: Any) -> Any:
    return x + M


@iris.jit
def with_masked_table(x: Any) -> Any:
    return x + iris.asarray(M)


def test_masked_arrays_are_refused() -> None:
    x, out = np.zeros(6, np.float32), np.zeros(6, np.float32)
    message = r"is a masked array, whose mask would be lost; its \.filled\(value\) is a plain array"
    uses: list[tuple[type[UserError], Any]] = [
        (ArgumentError, lambda: double[1](M, out, 6)),
        (ArgumentError, lambda: double[1](x, M.copy(), 6)),
        (ArgumentError, lambda: double[1](iris.strided(M[::2]), out, 3)),
        (ArgumentError, lambda: double[1](x, out, np.ma.masked)),
        (ArgumentError, lambda: double.lower(M, out, 6, grid=1)),
        (ArgumentError, lambda: doubled(M)),
        (ArgumentError, lambda: iris.asarray(M)),
        (LanguageError, lambda: with_masked(x)),
        (LanguageError, lambda: with_masked_table(x)),
    ]
    for error, use in uses:
        with pytest.raises(error, match=message):
            use()
    double[1](M.filled(5), out, 6)
    assert (out == 2 * M.filled(5)).all()


def test_arrays_that_compute_in_their_own_way_are_refused() -> None:
    class InMetres(np.ndarray[Any, Any]):
        __array_priority__ = 1000

    x, out = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    for array in (x[None].view(np.matrix), x.view(InMetres)):
        with pytest.raises(ArgumentError, match=r"computes in its own way; np\.asarray of it is"):
            double[1](array, out, 6)
    double[1](x.view(np.recarray), out, 6)
    assert (out == 2 * x).all()


@pytest.mark.parametrize(
    "dtype", ["O", ">f4", "c8", "M8[s]", "m8[s]", "U3", "V4", "f8", "g", "i4,f4"]
)
def test_dtypes_that_gpus_have_not_are_named(dtype: str) -> None:
    out = np.zeros(6, np.float32)
    array = np.zeros(6, dtype)
    for use in (
        lambda: double[1](array, out, 6),
        lambda: doubled(array),
        lambda: iris.asarray(array),
    ):
        with pytest.raises(iris.errors.DTypeError):
            use()


@pytest.mark.parametrize(
    "device", ["interp", "interp:metal", pytest.param("softmetal", marks=pytest.mark.softmetal)]
)
def test_numbers_that_no_f32_holds_are_refused(device: str) -> None:
    @iris.kernel
    def put(Out, x):
        iris.store(Out, x)

    out = np.zeros(1, np.float32)
    wide = np.longdouble(0.5)
    whole = (np.bool_(True), np.uint8(200), np.int64(-(2**40)))
    for number in (3.4028234e38, float("inf"), -float("inf"), 1e-60, wide, np.float16(2), *whole):
        put[1](out, number, device=device)
        assert out[0] == np.float32(number)
    for number in (1e300, -1e300, 3.4028236e38, np.float64(1e39), np.longdouble("1e400")):
        with pytest.raises(ArgumentError, match=r"x is .*, which f32 does not hold"):
            put[1](out, number, device=device)
