"""Iris: a tile-level compiler for Apple GPUs."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from iris.compiler.arguments import strided
from iris.compiler.asarray import asarray
from iris.compiler.kernel import Kernel, kernel
from iris.frontend.combining import associative_scan, reduce
from iris.frontend.elementary import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cbrt,
    copysign,
    cosh,
    expm1,
    hypot,
    isfinite,
    isinf,
    isnan,
    log1p,
    log10,
    sinh,
    trunc,
)
from iris.frontend.histograms import histogram
from iris.frontend.joins_and_sorts import (
    cat,
    expand_dims,
    interleave,
    join,
    ravel,
    sort,
    split,
    topk,
)
from iris.frontend.language import (
    abs,
    all,
    any,
    arange,
    argmax,
    argmin,
    bitcast,
    broadcast_to,
    cdiv,
    ceil,
    clamp,
    constexpr,
    cos,
    cumsum,
    device_assert,
    device_print,
    dot,
    erf,
    exp,
    exp2,
    flip,
    floor,
    fma,
    full,
    gather,
    log,
    log2,
    max,
    maximum,
    min,
    minimum,
    next_power_of_2,
    num_programs,
    prod,
    program_id,
    reshape,
    round,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    static_assert,
    sum,
    tanh,
    tile_range,
    transpose,
    umulhi,
    where,
    zeros,
)
from iris.frontend.language import cast_to as cast
from iris.frontend.memory import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_exchange,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xor,
    load,
    store,
    tile_load,
    tile_store,
)
from iris.frontend.philox import philox, rand, rand4x, randint, randint4x, randn, randn4x
from iris.ir.types import bf16, bool_, f16, f32, i8, i16, i32, i64, u8, u16, u32, u64
from iris.runtime.buffer import Buffer, empty, empty_like, to_numpy
from iris.runtime.devices import devices, gputrace, stream, synchronize
from iris.version import __version__ as __version__

if TYPE_CHECKING:
    from iris import api as api
    from iris import cuda as cuda
    from iris import metal, nn
    from iris import ops as ops
    from iris.compiler.array_compilation import ArrayCompilation
    from iris.compiler.autotune import autotune, heuristics
    from iris.compiler.candidates import Config
    from iris.compiler.compilation import Compilation
    from iris.compiler.jit import Jit, jit
    from iris.compiler.launch_recording import record
    from iris.compiler.metallib import build
    from iris.compiler.profile import profile
    from iris.compiler.saved_kernel import load_kernel

__all__ = [
    "ArrayCompilation",
    "Buffer",
    "Compilation",
    "Config",
    "Jit",
    "Kernel",
    "abs",
    "acos",
    "acosh",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "asarray",
    "asin",
    "asinh",
    "associative_scan",
    "atan",
    "atan2",
    "atanh",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_exchange",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xor",
    "autotune",
    "bf16",
    "bitcast",
    "bool_",
    "broadcast_to",
    "build",
    "cast",
    "cat",
    "cbrt",
    "cdiv",
    "ceil",
    "clamp",
    "constexpr",
    "copysign",
    "cos",
    "cosh",
    "cumsum",
    "device_assert",
    "device_print",
    "devices",
    "dot",
    "empty",
    "empty_like",
    "erf",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "f16",
    "f32",
    "flip",
    "floor",
    "fma",
    "full",
    "gather",
    "gputrace",
    "heuristics",
    "histogram",
    "hypot",
    "i8",
    "i16",
    "i32",
    "i64",
    "interleave",
    "isfinite",
    "isinf",
    "isnan",
    "jit",
    "join",
    "kernel",
    "load",
    "load_kernel",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "maximum",
    "metal",
    "min",
    "minimum",
    "next_power_of_2",
    "nn",
    "num_programs",
    "philox",
    "prod",
    "profile",
    "program_id",
    "rand",
    "rand4x",
    "randint",
    "randint4x",
    "randn",
    "randn4x",
    "ravel",
    "record",
    "reduce",
    "reshape",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sort",
    "split",
    "sqrt",
    "static_assert",
    "store",
    "stream",
    "strided",
    "sum",
    "synchronize",
    "tanh",
    "tile_load",
    "tile_range",
    "tile_store",
    "to_numpy",
    "topk",
    "transpose",
    "trunc",
    "u8",
    "u16",
    "u32",
    "u64",
    "umulhi",
    "where",
    "zeros",
]

# Modules, opened when they are first asked for.
_MODULES = ("api", "cuda", "metal", "nn", "ops")
# What not every program needs is opened when it is first asked for.
_LATER = {
    "ArrayCompilation": "iris.compiler.array_compilation",
    "Compilation": "iris.compiler.compilation",
    "Config": "iris.compiler.candidates",
    "Jit": "iris.compiler.jit",
    "autotune": "iris.compiler.autotune",
    "heuristics": "iris.compiler.autotune",
    "jit": "iris.compiler.jit",
    "record": "iris.compiler.launch_recording",
    "build": "iris.compiler.metallib",
    "load_kernel": "iris.compiler.saved_kernel",
    "profile": "iris.compiler.profile",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"iris.{name}")
    if name in _LATER:
        found = globals()[name] = getattr(import_module(_LATER[name]), name)
        return found
    advice = ""
    if not name.startswith("_"):
        advice = import_module("iris.frontend.suggestions").instead(name)
    raise AttributeError(f"iris has no {name!r}{advice}", name=name, obj=sys.modules[__name__])
