"""What to write instead of a name that the tile language does not have.

Opened only when such a name is used.
"""

from __future__ import annotations

from difflib import get_close_matches

from iris.frontend import elementary, language, memory
from iris.ir.types import DTYPES

# The options of a launch.
_OPTIONS = (
    "num_simdgroups", "num_stages", "swizzle", "serpentine", "preload", "fast_math", "device"
)  # fmt: skip
# Names of other libraries, and what there is here.
_INSTEAD = {
    "trans": "x.T or iris.transpose(x, axes)",
    "permute": "iris.transpose(x, axes)",
    "swapaxes": "iris.transpose(x, axes)",
    "view": "iris.reshape(x, shape)",
    "ravel": "iris.reshape(x, size)",
    "flatten": "iris.reshape(x, size)",
    "squeeze": "iris.reshape(x, shape)",
    "unsqueeze": "x[:, None]",
    "expand_dims": "x[:, None]",
    "broadcast": "iris.broadcast_to(x, shape)",
    "expand": "iris.broadcast_to(x, shape)",
    "zeros_like": "iris.zeros(x.shape, x.dtype)",
    "ones": "iris.full(shape, 1)",
    "ones_like": "iris.full(x.shape, 1, x.dtype)",
    "full_like": "iris.full(x.shape, value, x.dtype)",
    "astype": "x.to(dtype)",
    "float": "x.to(iris.f32)",
    "half": "x.to(iris.f16)",
    "int": "x.to(iris.i32)",
    "item": "the scalar itself",
    "ndim": "len(x.shape)",
    "matmul": "iris.dot(a, b)",
    "range": "range(...), whose loop is the program's if a bound is traced, or iris.tile_range",
    "static_range": "range(...) of numbers known while tracing",
    "atomic_xchg": "iris.atomic_exchange",
    "make_block_ptr": "iris.tile_load and iris.tile_store",
    "load_tile": "iris.tile_load",
    "store_tile": "iris.tile_store",
    "pow": "x ** y",
    "mul": "a * b",
    "add": "a + b",
    "fdiv": "a / b",
    "div_rn": "a / b",
    "sqrt_rn": "iris.sqrt",
    "mean": "iris.sum(x) / size",
    "clamp": "iris.minimum(iris.maximum(x, low), high)",
    "clip": "iris.minimum(iris.maximum(x, low), high)",
    "relu": "iris.maximum(x, 0)",
    "tan": "iris.sin(x) / iris.cos(x)",
    **{
        f"arc{name}": f"iris.a{name}"
        for name in ("sin", "cos", "tan", "tan2", "sinh", "cosh", "tanh")
    },
    "print": "iris.device_print",
    "debug_barrier": "nothing: accesses of a program take effect in order",
    "float16": "iris.f16",
    "float32": "iris.f32",
    "float64": "iris.f32; Apple GPUs have no f64",
    "f64": "iris.f32; Apple GPUs have no f64",
    "bfloat16": "iris.bf16",
    "int1": "iris.bool_",
    "bool": "iris.bool_",
    **{
        f"{sign}int{bits}": f"iris.{sign or 'i'}{bits}"
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
}


def instead(name: str, *others: str) -> str:
    """What to write for a name, as the end of a message; empty if nothing is like it."""
    if name in _INSTEAD:
        return f"; write {_INSTEAD[name]}"
    words = _words()
    if name in words:
        return f"; write iris.{name}(x)"
    close = get_close_matches(name, [*others, *words], n=1)
    if not close:
        return ""
    return f"; did you mean {close[0] if close[0] in others else 'iris.' + close[0]}?"


def _words() -> list[str]:
    words = [
        name
        for room in (language, elementary, memory)
        for name, value in vars(room).items()
        if getattr(value, "__module__", "") == room.__name__ and name[0] != "_" and name.islower()
    ]
    return [*words, "cast", "kernel", "jit", "bool_", *[name for name in DTYPES if name != "bool"]]


def option_instead(name: str, *parameters: str) -> str:
    """The same for an argument of a launch."""
    if name == "grid":
        return "; the grid goes in brackets, kernel[grid](...), or to lower and prepare"
    if name == "num_warps":
        return "; write num_simdgroups=: a simdgroup has 32 threads, as a warp has"
    if name in ("num_ctas", "maxnreg", "waves_per_eu"):
        return "; leave it out: that is for the compiler to choose"
    close = get_close_matches(name, [*parameters, *_OPTIONS], n=1)
    return f"; did you mean {close[0]}?" if close else ""


def dtype_instead(name: str) -> str:
    """The same for a dtype."""
    return f"; write {_INSTEAD[name]}" if _INSTEAD.get(name, "").startswith("iris.") else ""
