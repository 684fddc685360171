"""`triton.language.standard`: what Triton computes with while it traces."""


def _log2(i: int) -> int:
    """The logarithm of a power of two."""
    return i.bit_length() - 1
