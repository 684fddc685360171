"""`triton.language`: import it as `tl`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from iris.frontend.triton import blocks, language, memory, missing, types
from iris.frontend.values import Traced
from iris.triton.language import extra, math

_TYPES = (
    *("int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "dtype", "pointer_type", "block_type", "constexpr"),
    *("const", "PropagateNan"),
)
pi32_t = types.pointer_type(types.int32)
TRITON_MAX_TENSOR_NUMEL = 2**20
tensor = Traced
tensor_descriptor = blocks.Descriptor
constexpr_type = types.constexpr
# As Python's own are in a kernel.
tuple, slice = tuple, slice


def _words(room: ModuleType) -> dict[str, Any]:
    """The words that a room defines."""
    named = {n: v for n, v in vars(room).items() if not n.startswith("_") and n != "word"}
    return {n: v for n, v in named.items() if getattr(v, "__module__", "") == room.__name__}


_ALL = {
    **{name: getattr(types, name) for name in _TYPES},
    **_words(language),
    **_words(memory),
    **{name: missing.refusing(name, why) for name, why in missing.MISSING.items()},
    **{name: missing.MissingType(name) for name in missing.MISSING_DTYPES},
}
globals().update(_ALL)

__all__ = ["constexpr_type", "extra", "math", "pi32_t", "slice", "tensor", "tensor_descriptor"]
__all__ += ["TRITON_MAX_TENSOR_NUMEL", "tuple", *_ALL]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"triton.language has no {name!r} here", name=name)
