"""Random numbers, against Random123's known answers and a Philox of Python's integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import ArgumentError, DTypeError

DEVICES = ("interp", "interp:metal")

# Random123, kat_vectors: philox4x32, 10 rounds; counter, key, words.
KNOWN = [
    ("00000000 " * 4, "00000000 " * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff " * 4, "ffffffff " * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@iris.kernel
def block(Counter, Seed, Out):
    seed = iris.load(Seed)
    counter = [iris.load(Counter + k + iris.arange(0, 4) * 4) for k in range(4)]
    for k, word in enumerate(iris.philox(seed, *counter)):
        iris.store(Out + k + iris.arange(0, 4) * 4, word)


@pytest.mark.parametrize("device", (*DEVICES, "softmetal"))
def test_known_answers(device: str) -> None:
    for counter, key, expected in KNOWN:
        low, high = words(key)
        out = np.zeros((4, 4), np.uint32)
        counters = np.tile(np.array(words(counter), np.uint32), (4, 1))
        block[1](counters, np.array([low | high << 32], np.uint64), out, device=device)
        assert (out == words(expected)).all()


def philox(key: list[int], counter: list[int], bits: int) -> list[int]:
    mask = (1 << bits) - 1
    a, b, s, t = {
        32: (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85),
        64: (0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B),
    }[bits]
    x, y, z, w = counter
    k, m = key
    for _ in range(10):
        p, q = x * a, z * b
        x, y, z, w = (q >> bits) ^ y ^ k, q & mask, (p >> bits) ^ w ^ m, p & mask
        k, m = (k + s) & mask, (m + t) & mask
    return [x, y, z, w]


@iris.kernel
def numbers(Out, Floats, seed, first, B: iris.constexpr):
    at = iris.arange(0, B)
    offset = first + at
    for k, word in enumerate(iris.randint4x(seed, offset)):
        iris.store(Out + k * B + at, word)
    iris.store(Out + 4 * B + at, iris.randint(seed, offset))
    iris.store(Floats + at, iris.rand(seed, offset))
    iris.store(Floats + B + at, iris.randn(seed, offset))
    for k in range(4):
        iris.store(Floats + (2 + k) * B + at, iris.rand4x(seed, offset)[k])
        iris.store(Floats + (6 + k) * B + at, iris.randn4x(seed, offset)[k])


@pytest.mark.parametrize("seed, first", [(0, 0), (-5, 2**31 - 70), (2**40 + 3, 2**33 + 9)])
def test_numbers_of_offsets(seed: int, first: int) -> None:
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    expected = np.array(
        [philox(key, [n & 0xFFFFFFFF, n >> 32, 0, 0], 32) for n in range(first, first + 64)]
    ).T
    signed = expected.astype(np.uint32).view(np.int32)
    uniform = np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(
        4.6566127342e-10
    )
    wide = uniform.astype(np.float64)
    size, angle = np.sqrt(-2 * np.log(np.maximum(wide[::2], 1e-7))), 2 * np.pi * wide[1::2]
    normal = np.stack([size * np.cos(angle), size * np.sin(angle)], 1).reshape(4, 64)
    for device in DEVICES:
        out, floats = np.empty((5, 64), np.uint32), np.empty((10, 64), np.float32)
        numbers[1](out, floats, seed, first, B=64, device=device)
        assert (out[:4] == expected).all()
        assert (out[4] == expected[0]).all()
        assert (floats[0] == uniform[0]).all()
        assert (floats[2:6] == uniform).all()
        # The angle is rounded before its sine is taken.
        np.testing.assert_allclose(floats[6:], normal, rtol=1e-6, atol=4e-6)
        assert (floats[1] == floats[6]).all()


@iris.kernel
def high_halves(X, Y, Out, B: iris.constexpr):
    at = iris.arange(0, B)
    x, y = iris.load(X + at), iris.load(Y + at)
    iris.store(Out + at, iris.umulhi(x, y))
    iris.store(Out + B + at, iris.clamp(x, 3, 1000))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_high_halves_of_products(dtype: Any) -> None:
    info, bits = np.iinfo(dtype), 8 * np.dtype(dtype).itemsize
    x, y = np.random.default_rng(bits).integers(info.min, info.max, (2, 32), dtype)
    x[:6], y[:6] = (
        [0, 1, info.max, info.max, 2, info.min],
        [5, info.max, info.max, 1, 500, info.max],
    )
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    modulus = 1 << bits
    expected = [(a % modulus) * (b % modulus) >> bits for a, b in pairs]
    for device in DEVICES:
        out = np.empty((2, 32), dtype)
        high_halves[1](x, y, out, B=32, device=device)
        assert [n % modulus for n in out[0].tolist()] == expected
        assert (out[1] == np.clip(x, 3, 1000)).all()


@iris.kernel
def wide_words(Out):
    counter = iris.arange(0, 4).to(iris.u64)
    for k, word in enumerate(iris.philox(7, counter, 0, 0, 0)):
        iris.store(Out + k * 4 + iris.arange(0, 4), word)


def test_words_of_64_bits() -> None:
    out = np.empty((4, 4), np.uint64)
    wide_words[1](out)
    assert out.T.tolist() == [philox([7, 0], [n, 0, 0, 0], 64) for n in range(4)]


@iris.kernel
def wrong(X, CALL: iris.constexpr):
    iris.store(X, CALL(iris.load(X)))


def test_misuse_is_an_error() -> None:
    x = np.zeros(1, np.float32)
    with pytest.raises(DTypeError, match="integers of 32 or 64 bits, not f32"):
        wrong[1](x, CALL=lambda x: iris.philox(0, x, 0, 0, 0)[0])
    with pytest.raises(DTypeError, match="umulhi is for integers of 32 or 64 bits, not f32"):
        wrong[1](x, CALL=lambda x: iris.umulhi(x, x))
    with pytest.raises(ArgumentError, match="n_rounds is an int"):
        wrong[1](x, CALL=lambda x: iris.rand(0, 0, n_rounds=x))
