"""Kernels by thread as CUDA C: the same statements, in another language's words.

    file.write_text(HELPERS + as_c(kernel.text, "drawn", "int4", kernel.threads, 128, leaves=True))

What Python and C say otherwise stands in a few device functions, so that translating the text
leads through templates, references, and loops of shuffles as published kernels have them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

ALL = "0xffffffffu"

HELPERS = """\
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

template <typename T> __device__ T floored(T a, int by) {
    T quotient = a / (T)by;
    return a % (T)by != 0 && a < 0 ? --quotient : quotient;
}
template <typename T> __device__ T modulo(T a, int by) {
    T rest = a % (T)by;
    if (rest != 0 && a < 0) rest += (T)by;
    return rest;
}
__device__ int pick(int a, int b) {
    if (a > b) {
        if (a == 3) return 7;
        return a - b;
    }
    return b + 1;
}
__device__ int low_bit(int a) {
    for (int high = 0; high <= 1; high++) {
        for (int low = 0; low < 2; low++) {
            if (a >> (2 * high + low) & 1) return 2 * high + low;
        }
    }
    return 4;
}
__device__ int combined(char how, int a, int b) {
    switch (how) {
        default:
            a = a < b ? a : b;
            break;
        case '+':
            b += a;
        case '=':
            return b;
        case '*': return a * b;
        case '>': return max(a, b);
    }
    return a;
}
__device__ int reduced(char how, int x) {
    int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int there = blockDim.x * blockDim.y * blockDim.z - t / 32 * 32;
    for (int mask = 16; mask > 0; mask /= 2) {
        int other = __shfl_xor_sync(0xffffffff, x, mask);
        if ((t % 32 ^ mask) < there) x = combined(how, x, other);
    }
    return x;
}
__device__ void add_lower(int &x, const cg::thread_block_tile<32> &warp) {
    for (int delta = 1; delta < warpSize; delta <<= 1) {
        int lower = warp.shfl_up(x, delta);
        if (warp.thread_rank() >= delta) x += lower;
    }
}
__device__ int prefix_of(int x) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    add_lower(x, warp);
    return x;
}
__device__ void xor_into(int *place, int value) {
    int found = 0, assumed;
    do {
        assumed = found;
        found = atomicCAS(place, assumed, assumed ^ value);
    } while (found != assumed);
}
"""

_START = """\
    const int W = {0}, H = {1}, D = {2};
    int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), lane = t & 31;
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z, g = blockIdx.x + blockIdx.y * gridDim.x;
    int at = x + W * (y + H * z), a = 0, b = 0, c = 0, o = 0, u = 0;
    float f = 0, h = 0;
    int p[4] = {{0}};
"""

_LEAVE = "    if (x >= W || y >= H || z >= D) return;\n"

_OPERATORS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.RShift: ">>",
    ast.Lt: "<",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.And: "&&",
    ast.Or: "||",
    ast.Not: "!",
    ast.USub: "-",
}
_HOW = {"sum": "+", "product": "*", "max": ">", "min": "<"}
_WORDS: dict[str, str] = {
    "pick": "pick({}, {})",
    "abs": "fabsf({})",
    "int": "(int)({})",
    "uint": "(unsigned)({})",
    "float": "(float)({})",
    "min": "min({}, {})",
    "max": "max({}, {})",
    "select": "({2} ? {1} : {0})",
    "barrier": "__syncthreads()",
    "int3": "make_int3({}, {}, {})",
    "float2": "make_float2({}, {})",
    "simd_shuffle": f"__shfl_sync({ALL}, {{}}, {{}})",
    "simd_broadcast": f"__shfl_sync({ALL}, {{}}, {{}})",
    "simd_shuffle_xor": f"__shfl_xor_sync({ALL}, {{}}, {{}})",
    "simd_shuffle_up": f"__shfl_up_sync({ALL}, {{}}, {{}})",
    "simd_shuffle_down": f"__shfl_down_sync({ALL}, {{}}, {{}})",
    "simd_all": f"(__all_sync({ALL}, {{}}) != 0)",
    "simd_prefix_exclusive_sum": "prefix_of({0}) - ({0})",
    "low_bit": "low_bit({})",
    "int2": "make_int2({}, {})",
    "simd_ballot": f"__ballot_sync({ALL}, {{}})",
    "simd_any": f"(__any_sync({ALL}, {{}}) != 0)",
    "simd_prefix_inclusive_sum": "prefix_of({})",
    **{f"simd_{word}": f"reduced('{how}', {{}})" for word, how in _HOW.items()},
    **{f"atomic_{how}": f"atomic{how.title()}({{}}, {{}})" for how in ("add", "max", "min")},
    "atomic_xor": "xor_into({}, {})",
}


def as_c(
    text: str, name: str, vector: str, threads: Sequence[int], size: int, *, leaves: bool
) -> str:
    """A kernel of this name, with an array of vectors; `threads` is the size of the grid, `size`
    that of a threadgroup; `leaves`: threads beyond the grid return."""
    kernel = ast.parse(text).body[-1]
    assert isinstance(kernel, ast.FunctionDef)
    # A vector of three takes the place of three in C.
    word = {"int3": "int4", "packed_int3": "int3"}.get(vector, vector)
    arrays = "const int *X", "int *Out", "int *Bins", f"const {word} *V", "const int *Y"
    head = f"__global__ void {name}({', '.join(arrays)}, int n) {{"
    rest = [one for one in kernel.body if not _is_of_the_start(one)]
    shared = f"__shared__ int s[{size}]; __shared__ int2 w[4][{size // 4}];"
    start = _START.format(*threads) + _LEAVE * leaves
    return "\n".join([head, start, f"    {shared}", *_block(rest, 1), "}", ""])


def _is_of_the_start(statement: ast.stmt) -> bool:
    """Whether a statement says where a thread is, or declares memory."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(
        isinstance(one, ast.Tuple)
        or (isinstance(one, ast.Name) and one.id in ("g", "at", "s", "w", "p"))
        for one in targets
    )


def _block(body: Sequence[ast.stmt], depth: int) -> Iterator[str]:
    for one in body:
        for line in _statement(one):
            yield "    " * depth + line


def _nested(head: str, body: Sequence[ast.stmt]) -> Iterator[str]:
    yield f"{head} {{"
    yield from _block(body, 1)
    yield "}"


def _statement(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Assign([ast.Name(id=name)], value) if name.startswith("k"):
            yield f"int {name} = {_expression(value)};"
        case ast.Assign([target], value):
            yield f"{_expression(target)} = {_expression(value)};"
        case ast.AugAssign(target, operator, value):
            yield f"{_expression(target)} {_OPERATORS[type(operator)]}= {_expression(value)};"
        case ast.If(test, body, otherwise):
            yield from _nested(f"if ({_expression(test)})", body)
            if otherwise:
                yield from _nested("else", otherwise)
        case ast.For(ast.Name(id=name), ast.Call(args=[bound]), body):
            yield f"const int {name}_last = {_expression(bound)} - 1;"  # Python asks for it once
            head = f"for (int {name} = 0; {name} <= {name}_last; ++{name})"
            yield from _nested(head, body)
        case ast.While(test, body):
            yield from _nested(f"while ({_expression(test)})", body)
        case ast.Return(None):
            yield "return;"
        case ast.Return(value) if value is not None:
            yield f"return {_expression(value)};"
        case ast.Expr(value):
            yield f"{_expression(value)};"
        case _:
            raise NotImplementedError(ast.unparse(node))


def _expression(node: ast.expr) -> str:
    match node:
        case ast.Constant(float(number)):
            return f"{number}f"
        case ast.Name() | ast.Constant():
            return ast.unparse(node)
        case ast.BinOp(left, ast.FloorDiv(), by):
            return f"floored({_expression(left)}, {_expression(by)})"
        case ast.BinOp(left, ast.Mod(), by):
            return f"modulo({_expression(left)}, {_expression(by)})"
        case ast.BinOp(left, operator, right):
            return f"({_expression(left)} {_OPERATORS[type(operator)]} {_expression(right)})"
        case ast.UnaryOp(operator, x):
            return f"{_OPERATORS[type(operator)]}({_expression(x)})"
        case ast.BoolOp(operator, parts):
            return f"({f' {_OPERATORS[type(operator)]} '.join(map(_expression, parts))})"
        case ast.Compare(left, operators, others):
            operands = [_expression(x) for x in (left, *others)]
            tests = [
                f"{operands[i]} {_OPERATORS[type(operator)]} {operands[i + 1]}"
                for i, operator in enumerate(operators)
            ]
            return f"({' && '.join(tests)})"
        case ast.IfExp(test, yes, no):
            return f"({_expression(test)} ? {_expression(yes)} : {_expression(no)})"
        case ast.Subscript(whole, ast.Tuple([row, column])):
            return f"{_expression(whole)}[{_expression(row)}][{_expression(column)}]"
        case ast.Subscript(whole, index):
            return f"{_expression(whole)}[{_expression(index)}]"
        case ast.Attribute(whole, letter):
            return _part(whole, letter)
        case ast.Call(ast.Name(id=word) | ast.Attribute(attr=word), arguments):
            return _WORDS[word].format(*map(_expression, arguments))
    raise NotImplementedError(ast.unparse(node))


def _part(vector: ast.expr, letter: str) -> str:
    """A component of a vector; C has neither swizzles nor arithmetic of these."""
    match vector:
        case ast.BinOp(left, operator, right):
            operands = _part(left, letter), _part(right, letter)
            return f"({f' {_OPERATORS[type(operator)]} '.join(operands)})"
        case ast.Attribute(whole, letters):
            return _part(whole, letters["xyzw".index(letter)])
        case ast.Constant():
            return _expression(vector)
    return f"{_expression(vector)}.{letter}"
