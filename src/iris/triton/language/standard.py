"""`triton.language.standard`: the words that Triton makes of others, and its `_log2`."""

from iris.triton.language.core import WORDS

__all__ = [
    *("argmax", "argmin", "cdiv", "cumprod", "cumsum", "flip", "interleave", "max", "min", "ravel"),
    *("reduce_or", "sigmoid", "softmax", "sort", "squeeze", "sum", "swizzle2d", "topk"),
    *("unsqueeze", "xor_sum", "zeros", "zeros_like"),
]
globals().update({name: WORDS[name] for name in __all__})


def _log2(i: int) -> int:
    """The logarithm of a power of two."""
    return i.bit_length() - 1
