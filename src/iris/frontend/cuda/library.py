"""Functions of CUDA in terms of others, as CUDA C that is translated with each file that calls
them; and `helper_math.h`, which NVIDIA's samples include."""

from __future__ import annotations

from iris.frontend.cuda.prelude import VECTORS

_HEAD = "static __device__ inline"

#: Of the prelude.
FUNCTIONS = """
D int __mul24(int a, int b) { return ((a << 8) >> 8) * ((b << 8) >> 8); }
D unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
D int __mulhi(int a, int b) { return (int)((long)a * b >> 32); }
D unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long)a * b >> 32); }
D unsigned __brev(unsigned x) {
    x = (x >> 16) | (x << 16);
    x = ((x & 0xff00ff00u) >> 8) | ((x & 0x00ff00ffu) << 8);
    x = ((x & 0xf0f0f0f0u) >> 4) | ((x & 0x0f0f0f0fu) << 4);
    x = ((x & 0xccccccccu) >> 2) | ((x & 0x33333333u) << 2);
    return ((x & 0xaaaaaaaau) >> 1) | ((x & 0x55555555u) << 1);
}
D int __clz(int value) {
    unsigned x = value;
    x |= x >> 1; x |= x >> 2; x |= x >> 4; x |= x >> 8; x |= x >> 16;
    return 32 - __popc(x);
}
D int __ffs(int x) { return x == 0 ? 0 : 32 - __clz(x & -x); }
D int __popcll(unsigned long x) { return __popc((unsigned)x) + __popc((unsigned)(x >> 32)); }
D unsigned __byte_perm(unsigned x, unsigned y, unsigned which) {
    unsigned long both = ((unsigned long)y << 32) | x;
    unsigned made = 0;
    for (int i = 0; i < 4; i++)
        made |= (unsigned)(both >> (which >> (4 * i) & 7) * 8 & 0xff) << (8 * i);
    return made;
}
D unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((((unsigned long)high << 32) | low) << (by & 31)) >> 32);
}
D unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return (unsigned)((((unsigned long)high << 32) | low) >> (by & 31));
}
D unsigned __sad(int a, int b, unsigned c) { return (a > b ? a - b : b - a) + c; }
D unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
D float roundf(float x) {
    float whole = truncf(x);
    return fabsf(x - whole) >= 0.5f ? whole + copysignf(1.0f, x) : whole;
}
D float modff(float x, float *whole) {
    *whole = truncf(x);
    return copysignf(fabsf(x) == INFINITY ? 0.0f : x - *whole, x);
}
D unsigned umin(unsigned a, unsigned b) { return min(a, b); }
D unsigned umax(unsigned a, unsigned b) { return max(a, b); }
D int __rhadd(int a, int b) { return (int)(((long)a + b + 1) >> 1); }
D int __hadd(int a, int b) { return (int)(((long)a + b) >> 1); }
D int __clzll(long x) { return x >> 32 == 0 ? 32 + __clz((int)x) : __clz((int)(x >> 32)); }
D int __ffsll(long x) {
    if ((int)x != 0) return __ffs((int)x);
    return x == 0 ? 0 : 32 + __ffs((int)(x >> 32));
}
D long llabs(long x) { return x < 0 ? -x : x; }
D float fmodf(float x, float y) {
    float left = fabsf(x), by = fabsf(y);
    if (!(left < INFINITY) || !(by > 0.0f)) return NAN;
    while (left >= by) {
        float step = by;
        while (step <= left * 0.5f) step *= 2.0f;
        left -= step;
    }
    return copysignf(left, x);
}
D float fmod(float x, float y) { return fmodf(x, y); }
D long lrintf(float x) { return (long)rintf(x); }
D float sinpif(float x) {
    float left = x - 2.0f * rintf(x * 0.5f);
    return left == 0.0f ? copysignf(left, x) : sinf(left * M_PI_F);
}
D float cospif(float x) { return cosf((x - 2.0f * rintf(x * 0.5f)) * M_PI_F); }
D float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
D float __scaled_tail(float x) {
    float t = 1.0f / (1.0f + 0.5f * x);
    float sum = 0.042352643f;
    sum = fmaf(sum, t, -0.230857909f); sum = fmaf(sum, t, 0.486179441f);
    sum = fmaf(sum, t, -0.446978122f); sum = fmaf(sum, t, 0.127089933f);
    sum = fmaf(sum, t, -0.0572326779f); sum = fmaf(sum, t, 0.0930006355f);
    sum = fmaf(sum, t, 0.175376818f); sum = fmaf(sum, t, 0.246880591f);
    sum = fmaf(sum, t, 0.282093853f); sum = fmaf(sum, t, 0.282094806f);
    return sum * t;
}
D float erfcf(float x) {
    if (x != x) return x;
    float size = fminf(fabsf(x), 11.0f), square = size * size;
    float rounded_off = fmaf(size, size, -square);
    float tail = __scaled_tail(size) * expf(-square) * (1.0f - rounded_off);
    return x < 0.0f ? 2.0f - tail : tail;
}
D float erfc(float x) { return erfcf(x); }
D float erfcxf(float x) {
    if (x >= 0.0f) return __scaled_tail(x);
    float near = x < -10.0f ? -10.0f : x, square = near * near;  // infinite there, and beyond
    return 2.0f * expf(square) * (1.0f + fmaf(near, near, -square)) - __scaled_tail(-x);
}
D float normcdff(float x) {
    if (fabsf(x) > 15.0f) return x < 0.0f ? 0.0f : 1.0f;
    float z = -0.707106769f * x, rounded_off = fmaf(-0.707106769f, x, -z) - 1.21016175e-8f * x;
    float tail = 0.5f * erfcf(z);
    return z > 1.0f ? tail * (1.0f - 2.0f * z * rounded_off) : tail;
}
D float normcdf(float x) { return normcdff(x); }
D float fdimf(float x, float y) { return x > y ? x - y : 0.0f; }
D float rcbrtf(float x) { return copysignf(powf(fabsf(x), -0.333333343f), x); }
D float exp10f(float x) { return powf(10.0f, x); }
D int isnan(float x) { return x != x; }
D int isinf(float x) { return fabsf(x) == INFINITY; }
D int isfinite(float x) { return fabsf(x) < INFINITY; }
D int signbit(float x) { return (int)(__float_as_uint(x) >> 31); }
D float __powf(float x, float y) { return powf(x, y); }
D void sincosf(float x, float *sine, float *cosine) { *sine = sinf(x); *cosine = cosf(x); }
D void __sincosf(float x, float *sine, float *cosine) { sincosf(x, sine, cosine); }
D float __fadd_rn(float x, float y) { return x + y; }
D float __fsub_rn(float x, float y) { return x - y; }
D float __fmul_rn(float x, float y) { return x * y; }
D float __fdiv_rn(float x, float y) { return x / y; }
D float __frcp_rn(float x) { return 1.0f / x; }
D float __fsqrt_rn(float x) { return sqrtf(x); }
D float __frsqrt_rn(float x) { return rsqrtf(x); }
D float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
D float __int2float_rn(int x) { return (float)x; }
D float __uint2float_rn(unsigned x) { return (float)x; }
D int __float2int_rn(float x) { return (int)rintf(x); }
D int __float2int_rz(float x) { return (int)x; }
D int __float2int_rd(float x) { return (int)floorf(x); }
D int __float2int_ru(float x) { return (int)ceilf(x); }
D unsigned __float2uint_rn(float x) { return (unsigned)rintf(x); }
D unsigned __float2uint_rz(float x) { return (unsigned)x; }
D unsigned __float2uint_rd(float x) { return (unsigned)floorf(x); }
D unsigned __float2uint_ru(float x) { return (unsigned)ceilf(x); }
D unsigned atomicInc(unsigned *place, unsigned most) {
    unsigned found = 0, assumed;
    do {
        assumed = found;
        found = atomicCAS(place, assumed, assumed >= most ? 0 : assumed + 1);
    } while (found != assumed);
    return found;
}
D unsigned atomicDec(unsigned *place, unsigned most) {
    unsigned found = 0, assumed;
    do {
        assumed = found;
        found = atomicCAS(place, assumed, assumed == 0 || assumed > most ? most : assumed - 1);
    } while (found != assumed);
    return found;
}
D __half __hadd(__half x, __half y) { return x + y; }
D __half __hsub(__half x, __half y) { return x - y; }
D __half __hmul(__half x, __half y) { return x * y; }
D __half __hdiv(__half x, __half y) { return x / y; }
D __half __hneg(__half x) { return -x; }
D bool __hgt(__half x, __half y) { return x > y; }
D bool __hlt(__half x, __half y) { return x < y; }
D bool __heq(__half x, __half y) { return x == y; }
D __half __float2half_rn(float x) { return __float2half(x); }
D __nv_bfloat16 __float2bfloat16_rn(float x) { return __float2bfloat16(x); }
D __half2 __halves2half2(half x, half y) { return make_half2(x, y); }
D __half2 __half2half2(half x) { return make_half2(x, x); }
D __half2 __float2half2_rn(float x) { return make_half2((half)x, (half)x); }
D __half2 __floats2half2_rn(float x, float y) { return make_half2((half)x, (half)y); }
D __half2 __float22half2_rn(float2 x) { return make_half2((half)x.x, (half)x.y); }
D float2 __half22float2(__half2 x) { return make_float2((float)x.x, (float)x.y); }
D half __low2half(__half2 x) { return x.x; }
D half __high2half(__half2 x) { return x.y; }
D float __low2float(__half2 x) { return (float)x.x; }
D float __high2float(__half2 x) { return (float)x.y; }
D __half2 __hadd2(__half2 x, __half2 y) { return make_half2(x.x + y.x, x.y + y.y); }
D __half2 __hsub2(__half2 x, __half2 y) { return make_half2(x.x - y.x, x.y - y.y); }
D __half2 __hfma2(__half2 x, __half2 y, __half2 z) {
    return make_half2(__hfma(x.x, y.x, z.x), __hfma(x.y, y.y, z.y));
}
D __half2 __hmul2(__half2 x, __half2 y) { return make_half2(x.x * y.x, x.y * y.y); }
D int __syncthreads_count(int holds) {
    __shared__ unsigned count;
    bool first = threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0;
    if (first) count = 0;
    __syncthreads();
    if (holds) atomicAdd(&count, 1u);
    __syncthreads();
    int all = (int)count;
    __syncthreads();
    return all;
}
D int __syncthreads_or(int holds) { return __syncthreads_count(holds) != 0; }
D int __syncthreads_and(int holds) {
    return __syncthreads_count(holds) == (int)(blockDim.x * blockDim.y * blockDim.z);
}
D int __any(int condition) { return __any_sync(0xffffffffu, condition); }
D int __all(int condition) { return __all_sync(0xffffffffu, condition); }
D unsigned __ballot(int condition) { return __ballot_sync(0xffffffffu, condition); }
""".replace("\nD ", f"\n{_HEAD} ")


def _of_vectors() -> list[str]:
    """Arithmetic of vectors, part by part, with each other and with scalars."""
    lines = []
    for vector, (word, n) in VECTORS.items():
        if word not in ("float", "int", "uint"):
            continue
        parts = "xyzw"[:n]
        scalar = {"uint": "unsigned"}.get(word, word)
        make = f"make_{vector}"

        def made(text: str, make: str = make, parts: str = parts) -> str:
            return f"return {make}({', '.join(text.format(p=p) for p in parts)});"

        def changed(text: str, parts: str = parts) -> str:
            return " ".join(text.format(p=p) for p in parts)

        for op in "+-*/":
            v, s = f"{vector} a", f"{scalar} b"
            if op == "/" and word != "float":
                continue
            lines += [
                f"{vector} operator{op}({v}, {vector} b) {{ {made(f'a.{{p}} {op} b.{{p}}')} }}",
                f"{vector} operator{op}({v}, {s}) {{ {made(f'a.{{p}} {op} b')} }}",
                f"{vector} operator{op}({s}, {v}) {{ {made(f'b {op} a.{{p}}')} }}",
                f"void operator{op}=({vector} &a, {vector} b) "
                f"{{ {changed(f'a.{{p}} {op}= b.{{p}};')} }}",
                f"void operator{op}=({vector} &a, {s}) {{ {changed(f'a.{{p}} {op}= b;')} }}",
            ]
        total = " + ".join(f"a.{p} * b.{p}" for p in parts)
        lines.append(f"{scalar} dot({vector} a, {vector} b) {{ return {total}; }}")
        lines.append(f"{vector} {make}({scalar} x) {{ {made('x')} }}")
        if word != "uint":
            lines.append(f"{vector} operator-({vector} a) {{ {made('-a.{p}')} }}")
        for word_of in ("min", "max"):
            function = f"f{word_of}f" if word == "float" else word_of
            inside = made(f"{function}(a.{{p}}, b.{{p}})")
            name = f"f{word_of}f" if word == "float" else word_of
            lines.append(f"{vector} {name}({vector} a, {vector} b) {{ {inside} }}")
        clamped = made("clamp(v.{p}, low, high)")
        lines.append(f"{vector} clamp({vector} v, {scalar} low, {scalar} high) {{ {clamped} }}")
        clamped = made("clamp(v.{p}, low.{p}, high.{p})")
        lines.append(f"{vector} clamp({vector} v, {vector} low, {vector} high) {{ {clamped} }}")
        if word == "float":
            lines += [
                f"float length({vector} v) {{ return sqrtf(dot(v, v)); }}",
                f"{vector} normalize({vector} v) {{ return v * rsqrtf(dot(v, v)); }}",
                f"{vector} lerp({vector} a, {vector} b, float t) {{ return a + t * (b - a); }}",
                f"{vector} floorf({vector} v) {{ {made('floorf(v.{p})')} }}",
                f"{vector} fabs({vector} v) {{ {made('fabsf(v.{p})')} }}",
                f"{vector} fracf({vector} v) {{ {made('v.{p} - floorf(v.{p})')} }}",
                f"{vector} reflect({vector} i, {vector} n) {{ return i - 2.0f * n * dot(n, i); }}",
            ]
    for word, scalar in (("float", "float"), ("int", "int"), ("uint", "unsigned")):
        lines += [
            f"{word}3 make_{word}3({word}2 a, {scalar} z) {{ return make_{word}3(a.x, a.y, z); }}",
            f"{word}4 make_{word}4({word}3 a, {scalar} w) "
            f"{{ return make_{word}4(a.x, a.y, a.z, w); }}",
            f"{word}3 make_{word}3({word}4 a) {{ return make_{word}3(a.x, a.y, a.z); }}",
            f"{word}2 make_{word}2({word}3 a) {{ return make_{word}2(a.x, a.y); }}",
            f"{word}4 make_{word}4({word}3 a) {{ return make_{word}4(a.x, a.y, a.z, 0); }}",
        ]
    for n in (2, 3, 4):
        parts = ", ".join(f"(float)a.{p}" for p in "xyzw"[:n])
        lines += [
            f"float{n} make_float{n}({word}{n} a) {{ return make_float{n}({parts}); }}"
            for word in ("int", "uint")
        ]
    return lines


def helper_math() -> str:
    """The header, as far as kernels by thread have what it needs."""
    scalars = [
        f"{t} clamp({t} x, {t} low, {t} high) {{ return max(low, min(x, high)); }}"
        for t in ("float", "int", "unsigned")
    ]
    scalars += [
        "float lerp(float a, float b, float t) { return a + t * (b - a); }",
        "float fracf(float x) { return x - floorf(x); }",
        "float smoothstep(float a, float b, float x) {"
        " float y = clamp((x - a) / (b - a), 0.0f, 1.0f); return y * y * (3.0f - 2.0f * y); }",
    ]
    cross = (
        "float3 cross(float3 a, float3 b) { return make_float3(a.y * b.z - a.z * b.y,"
        " a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x); }"
    )
    types = "#pragma once\ntypedef unsigned int uint; typedef unsigned short ushort;\n"
    return types + "\n".join([f"{_HEAD} {line}" for line in (*scalars, *_of_vectors(), cross)])
