"""`triton.language.core`: the words of `triton.language`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from iris.frontend.triton import blocks, combining, float8, language, memory, missing, random, types
from iris.frontend.values import Traced

_TYPES = (
    *("int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "dtype", "pointer_type", "block_type", "constexpr"),
    *("const", "void", "PropagateNan"),
)
CONSTEXPR_0 = types.constexpr(0)
get_int_dtype = types.get_int_dtype


def _words(room: ModuleType) -> dict[str, Any]:
    """The words of a room: what it defines, and what Iris has under the same name."""
    named = {n: v for n, v in vars(room).items() if not n.startswith("_")}
    return {
        n: v
        for n, v in named.items()
        if (hasattr(v, "__wrapped__") or getattr(v, "__module__", "") == room.__name__)
        and v not in (language.word, language.same_word)
    }


#: By name.
WORDS: dict[str, Any] = {
    **{name: getattr(types, name) for name in _TYPES},
    **_words(language),
    **_words(combining),
    **_words(random),
    **_words(memory),
    **{name: missing.refusing(name, why) for name, why in missing.MISSING.items()},
    **{name: missing.MissingType(name) for name in missing.MISSING_DTYPES},
    "TRITON_MAX_TENSOR_NUMEL": 2**20,
    "constexpr_type": types.constexpr,
    **{name: getattr(float8, name) for name in ("float8e4nv", "float8e5")},
    "pi32_t": types.pointer_type(types.int32),
    "slice": slice,
    "tensor": Traced,
    "tensor_descriptor": blocks.Descriptor,
    "tuple": tuple,
}
globals().update(WORDS)
