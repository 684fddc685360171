"""Small kernels, each with some ways of writing that packages use here and there."""

import numpy as np
import triton
import triton.language as tl
from triton.language import core
from triton.language.extra.cuda.libdevice import tanh as fast_tanh

SCALE: tl.constexpr = 0.5
EPSILON = core.constexpr(1e-6)


class Activations:
    @staticmethod
    @triton.jit
    def silu(x):
        return x * tl.sigmoid(x)

    @staticmethod
    @triton.jit
    def relu(x):
        return tl.maximum(x, 0)


@triton.jit
def activated(x, KIND: tl.constexpr):
    if KIND == "silu":
        return Activations.silu(x)
    elif KIND == "relu":
        return Activations.relu(x)
    tl.static_assert(KIND == "tanh", f"{KIND} is no activation")
    return fast_tanh(x)


@triton.jit
def applied(x, fn: tl.constexpr, scale: tl.constexpr = 2.0, *, shift: tl.constexpr = 1.0):
    return fn(x) * scale + shift


@triton.jit
def doubled(x):
    return x + x


@triton.jit
def functions_and_defaults(
    x_ptr, bias_ptr, out_ptr, n, KIND: tl.constexpr = "silu", BLOCK: tl.constexpr = 32
):
    """A docstring, which does nothing."""
    offs = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask, other=0.0, cache_modifier=".cg").to(tl.float32)
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + offs, mask=mask, other=0).to(tl.float32)
        x += bias
    WIDE: tl.constexpr = BLOCK * 2 if BLOCK < 64 else BLOCK
    y = activated(x, KIND) + applied(x, doubled, shift=WIDE) + applied(x, fn=doubled, scale=3)
    tl.store(out_ptr + offs, y * SCALE + EPSILON, mask=mask)


@triton.jit
def first_at_least(x_ptr, n, limit):
    """The index of the first element that is large enough, or -1."""
    i = 0
    found = -1
    while i < n and found < 0:
        if tl.load(x_ptr + i) >= limit:
            found = i
        i += 1
    return found


@triton.jit
def loops(x_ptr, out_ptr, n, limit):
    row = tl.program_id(0)
    start = x_ptr + row * n
    tl.store(out_ptr + row * 4, first_at_least(start, n, limit).to(tl.float32))
    total = 0.0
    weight = 1.0
    for i in range(n - 1, -1, -1):
        value = tl.load(start + i)
        total += value * weight
        weight *= 0.5
    tl.store(out_ptr + row * 4 + 1, total)
    a, b = 0.0, 1.0
    for _ in tl.static_range(5, 0, -1):
        a, b = b, a + b
    tl.store(out_ptr + row * 4 + 2, a)
    i = n
    steps = 0
    while (i > 1) & (steps < 100):
        i = i // 2 if i % 2 == 0 else 3 * i + 1
        steps += 1
    tl.store(out_ptr + row * 4 + 3, steps)


@triton.jit
def sign_of(x):
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0


@triton.jit
def scalar_branches(x_ptr, out_ptr, n, FLAG: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid)
    sign = sign_of(x)
    if not FLAG:
        extra = 10
    if sign != 0 and (x > 2 or x < -2):
        large = True
    else:
        large = False
    if not FLAG and large:
        sign += extra
    y = x if sign > 0 else -x * 2
    y = min(max(y, 1), 6)
    tl.store(out_ptr + pid * 2, sign)
    tl.store(out_ptr + pid * 2 + 1, y)


@triton.jit
def shapes(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    cube = tl.reshape(x, [2, M // 2, N])
    turned = tl.permute(cube, (2, 0, 1)).trans(1, 0, 2)
    flat = turned.reshape(M * N // 2, 2)
    low, high = flat.split()
    joined = tl.join(high, low).view(M, N)
    wide = tl.expand_dims(tl.sum(x, axis=-1), (0, 2)).broadcast_to(1, M, N).reshape(M, N)
    row = tl.max(x, -2)
    both = tl.broadcast(row[None], x)[0] if False else tl.broadcast_to(row[None, :], M, N)
    one = tl.full((), 3.0, tl.float32) + tl.zeros([], dtype=tl.float32)
    out = joined + x.T.trans() * one + wide + both + tl.ravel(x.T).reshape((N, M)).T
    out += tl.sum(tl.sum(x * x, 1), 0) + tl.sum(x) + x.numel
    tl.store(out_ptr + m[:, None] * N + n[None, :], out)


@triton.jit
def dtypes(x_ptr, h_ptr, i_ptr, b_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    h = tl.load(h_ptr + at)
    i = tl.load(i_ptr + at)
    b = tl.load(b_ptr + at)
    total = x
    if h_ptr.dtype.element_ty == tl.float16 and x.dtype.is_fp32():
        total = total + h.to(x.dtype) * (h.dtype.primitive_bitwidth // 8)
    if i_ptr.type.element_ty.is_int() and not i.dtype.is_int_unsigned():
        total += (i >> 1).to(tl.float32) + (i.to(tl.uint8) >> 4) + (i.to(tl.int32) << 2)
    masked = b & (x > 0)
    total += masked.to(tl.int32) - (~b).to(tl.float32) + tl.where(b == 0, i, 2)
    total += (b ^ (x < 0)).to(tl.float32) * 3 + (h * h + h).to(tl.float32) + h / 3
    total += tl.cast(x, tl.int32).to(tl.int8).to(tl.float32) + x.to(tl.int16) % 7
    tl.store(out_ptr + at, total)
    tl.store(i_ptr + at, total * 0 + 3.75)
    tl.store(b_ptr + at, x > 1)
    tl.store(h_ptr + at, 1, mask=at % 2 == 0)


@triton.jit
def tuples_carried(x_ptr, out_ptr, n, K: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    accs = (tl.zeros([BLOCK], tl.float32), tl.full([BLOCK], 1.0, tl.float32))
    for i in range(n):
        x = tl.load(x_ptr + i * BLOCK + at)
        accs = (accs[0] + x, accs[1] * (1 + x * 0.125))
    state = accs + (accs[0] - accs[1],)
    for k in tl.static_range(len(state)):
        tl.store(out_ptr + k * BLOCK + at, state[k])


@triton.jit
def added_to(a, b):
    return a + b


@triton.jit
def greatest_pair(a, i, b, j):
    first = (a > b) | ((a == b) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def combined(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)[:, None]
    n = tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + m * N + n)
    whole = tl.reduce(x, None, added_to)
    best, at = tl.reduce((x, tl.broadcast_to(n, (M, N))), axis=1, combine_fn=greatest_pair)
    back = tl.associative_scan(x, 1, added_to, reverse=True)
    running, places = tl.associative_scan((x, tl.broadcast_to(n, x.shape)), 1, greatest_pair)
    kept = tl.max(x, axis=0, keep_dims=True) + tl.min(x, axis=1, keep_dims=True)
    least = tl.argmin(x, axis=-1)[:, None]
    out = back + running * 2 + places + kept + best[:, None] + at[:, None] + whole + least
    out += tl.cumsum(x, axis=0, reverse=True) + tl.cumprod(1 + x / 16, axis=1)
    tl.store(out_ptr + m * N + n, out)


@triton.jit
def products(a_ptr, b_ptr, c_ptr, i_ptr, out_ptr, int_ptr, N: tl.constexpr):
    m = tl.arange(0, N)[:, None]
    n = tl.arange(0, N)[None, :]
    a = tl.load(a_ptr + m * N + n)
    b = tl.load(b_ptr + m * N + n)
    c = tl.load(c_ptr + m * N + n)
    i = tl.load(i_ptr + m * N + n)
    acc = tl.dot(a, b, acc=c, max_num_imprecise_acc=0, out_dtype=tl.float32)
    acc = tl.dot(tl.trans(a), tl.trans(b), acc)
    acc += tl.dot(a.to(tl.float32), c, allow_tf32=False)
    batch = tl.dot(
        tl.broadcast_to(a[None, :, :], (2, N, N)), tl.broadcast_to(b[None, :, :], (2, N, N))
    )
    acc += tl.sum(batch, 0)
    tl.store(out_ptr + m * N + n, acc)
    tl.store(int_ptr + m * N + n, tl.dot(i, i.T, out_dtype=tl.int32))


@triton.jit
def blocks_of(x_ptr, out_ptr, M, N, stride, BM: tl.constexpr, BN: tl.constexpr):
    block = tl.make_block_ptr(
        x_ptr, shape=[M, N], strides=[stride, 1], offsets=[tl.program_id(0) * BM, 0],
        block_shape=[BM, BN], order=[1, 0],
    )  # fmt: skip
    column = tl.make_block_ptr(x_ptr, (M,), (stride,), (tl.program_id(0) * BM,), (BM,), (0,))
    total = tl.zeros((BM, BN), x_ptr.dtype.element_ty)
    for _ in range(0, N, BN):
        total += tl.load(block, boundary_check=(0, 1), padding_option="zero")
        block = block.advance((0, BN)) if hasattr(block, "advance") else tl.advance(block, [0, BN])
    first = tl.load(column, boundary_check=(0,))
    out = tl.make_block_ptr(out_ptr, (M, BN), (BN, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    tl.store(out, total * first[:, None], boundary_check=(0,))


@triton.jit
def hinted(x_ptr, out_ptr, n, BLOCK: tl.constexpr, num_warps: tl.constexpr):
    pid = tl.program_id(0)
    tl.assume(n > 0)
    tl.device_assert(n > 0, "n is positive")
    start = tl.multiple_of(pid * BLOCK, BLOCK)
    at = tl.max_contiguous(tl.multiple_of(start + tl.arange(0, BLOCK), BLOCK), BLOCK)
    at = tl.max_constancy(at, 1)
    x = tl.load(
        x_ptr + at, mask=at < n, other=float("-inf"), eviction_policy="evict_last", volatile=False
    )
    x = tl.where(x == -float("inf"), num_warps, x)
    y = tl.fma(x, x, 1.0) + tl.math.fma(x, 2.0, x) + tl.fdiv(x, 3.0) + tl.math.rsqrt(x * x + 1)
    y += tl.clamp(x, -1.0, 1.0) + tl.div_rn(x, 7.0) + tl.math.exp2(-tl.abs(x)) + x
    y += tl.math.floor(x) + tl.ceil(x) + tl.sqrt_rn(x * x) + tl.math.log2(x * x + 1) - (-x)
    tl.store(out_ptr + at, y, mask=at < n, cache_modifier=".cs")


@triton.jit
def counted(x_ptr, bins_ptr, locks_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=BINS)
    ones = tl.full((BLOCK,), 1, tl.int32)
    tl.atomic_add(bins_ptr + x, ones, mask=(at < n) & (x < BINS), sem="release", scope="gpu")
    tl.atomic_or(locks_ptr, 1 << tl.program_id(0))
    tl.atomic_max(locks_ptr + 1, tl.max(x, 0), sem="acq_rel")
    tl.atomic_min(locks_ptr + 2, tl.min(x, 0))
    tl.atomic_xor(locks_ptr + 3, tl.sum(x))
    tl.atomic_and(locks_ptr + 4, tl.program_id(0) | 12)
    tl.atomic_cas(locks_ptr + 5, 7, 9)


@triton.jit
def drawn(out_ptr, int_ptr, seed, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b, c, d = tl.rand4x(seed, at)
    tl.store(out_ptr + at, a + 2 * b + 4 * c + 8 * d)
    tl.store(out_ptr + BLOCK + at, tl.randn(seed, at) + tl.rand(seed + 1, at, n_rounds=7))
    tl.store(int_ptr + at, tl.randint(seed, at).to(tl.int64))
    i, j, k, l = tl.philox(seed, at, at * 0, at * 0, at * 0)
    tl.store(int_ptr + BLOCK + at, (i ^ j ^ k ^ l).to(tl.int64) + tl.umulhi(i, j).to(tl.int64))


def _floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def _eighths(rng, *shape):
    return (rng.integers(-16, 17, shape) / 8).astype(np.float32)


#: What each kernel is launched with, by name: its grid, and its arguments.
CASES = {
    "functions_and_defaults": ((3,), lambda rng: {
        "x_ptr": _floats(rng, 75).astype(np.float16), "bias_ptr": _floats(rng, 75),
        "out_ptr": np.zeros(75, np.float32), "n": 75,
    }),
    "loops": ((3,), lambda rng: {
        "x_ptr": _floats(rng, 3, 11), "out_ptr": np.zeros((3, 4), np.float32), "n": 11,
        "limit": 1.2,
    }),
    "scalar_branches": ((7,), lambda rng: {
        "x_ptr": np.arange(-3, 4, dtype=np.int32), "out_ptr": np.zeros((7, 2), np.int32), "n": 7,
        "FLAG": False,
    }),
    "shapes": ((1,), lambda rng: {
        "x_ptr": _floats(rng, 8, 4), "out_ptr": np.zeros((8, 4), np.float32), "M": 8, "N": 4,
    }),
    "dtypes": ((1,), lambda rng: {
        "x_ptr": _eighths(rng, 32), "h_ptr": _eighths(rng, 32).astype(np.float16),
        "i_ptr": rng.integers(-128, 128, 32).astype(np.int8), "b_ptr": rng.random(32) < 0.5,
        "out_ptr": np.zeros(32, np.float32), "BLOCK": 32,
    }),
    "tuples_carried": ((1,), lambda rng: {
        "x_ptr": _floats(rng, 5, 16), "out_ptr": np.zeros((3, 16), np.float32), "n": 5, "K": 2,
        "BLOCK": 16,
    }),
    "combined": ((1,), lambda rng: {
        "x_ptr": _eighths(rng, 4, 16), "out_ptr": np.zeros((4, 16), np.float32), "M": 4, "N": 16,
    }),
    "products": ((1,), lambda rng: {
        "a_ptr": _floats(rng, 16, 16).astype(np.float16),
        "b_ptr": _floats(rng, 16, 16).astype(np.float16), "c_ptr": _floats(rng, 16, 16),
        "i_ptr": rng.integers(-128, 128, (16, 16)).astype(np.int8),
        "out_ptr": np.zeros((16, 16), np.float32), "int_ptr": np.zeros((16, 16), np.int32), "N": 16,
    }),
    "blocks_of": ((2,), lambda rng: {
        "x_ptr": _floats(rng, 11, 23), "out_ptr": np.zeros((11, 8), np.float32), "M": 11, "N": 21,
        "stride": 23, "BM": 8, "BN": 8,
    }),
    "hinted": ((3,), lambda rng: {
        "x_ptr": _floats(rng, 75), "out_ptr": np.zeros(75, np.float32), "n": 75, "BLOCK": 32,
        "num_warps": 2,
    }),
    "counted": ((3,), lambda rng: {
        "x_ptr": rng.integers(0, 9, 90).astype(np.int32), "bins_ptr": np.zeros(8, np.int32),
        "locks_ptr": np.array([0, 0, 99, 5, 15, 7], np.int32), "n": 90, "BINS": 8, "BLOCK": 32,
    }),
    "drawn": ((1,), lambda rng: {
        "out_ptr": np.zeros(64, np.float32), "int_ptr": np.zeros(64, np.int64), "seed": 12345,
        "BLOCK": 32,
    }),
}  # fmt: skip
