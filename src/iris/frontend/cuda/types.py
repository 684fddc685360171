"""Types of C, as clang writes them, in the words of kernels by thread."""

from __future__ import annotations

import re
from math import prod
from typing import Any, NamedTuple

from iris.frontend.cuda.prelude import VECTORS


def metal_vector(name: str) -> str:
    """A vector as Metal has it in memory: CUDA's vectors of three take the place of three."""
    name = {"__nv_bfloat162": "bfloat2"}.get(name, name)
    return f"packed_{name}" if name.endswith("3") else name


#: Of each vector, the word for its scalars, and how many these are.
PARTS = {metal_vector(name): parts for name, parts in VECTORS.items()}
_WORDS = {
    "bool": "bool",
    "_Bool": "bool",
    "char": "char",
    "signed char": "char",
    "unsigned char": "uchar",
    "short": "short",
    "unsigned short": "ushort",
    "int": "int",
    "unsigned int": "uint",
    "long": "long",
    "unsigned long": "ulong",
    "long long": "long",
    "unsigned long long": "ulong",
    "float": "float",
    "_Float16": "half",
    "__bf16": "bfloat",
    **{name: metal_vector(name) for name in VECTORS},
    "void": "void",
}
_ALIASES = {
    "half": "_Float16",
    "__half": "_Float16",
    "__half2": "half2",
    "nv_bfloat162": "__nv_bfloat162",
    "__nv_bfloat16": "__bf16",
    "nv_bfloat16": "__bf16",
    "dim3": "uint3",
}
BYTES = {
    "bool": 1,
    "char": 1,
    "uchar": 1,
    "short": 2,
    "ushort": 2,
    "half": 2,
    "bfloat": 2,
    "int": 4,
    "uint": 4,
    "float": 4,
    "long": 8,
    "ulong": 8,
}


class CType(NamedTuple):
    """A type: of a value, or of the elements behind a pointer or in an array."""

    word: str  # of the value, or of the elements; what clang writes, if there is no word for it
    is_pointer: bool = False
    is_reference: bool = False
    shape: tuple[int, ...] | None = None  # of an array; () of one whose size nobody says
    is_const: bool = False  # what a pointer leads to
    is_volatile: bool = False  # the same
    is_known: bool = True

    @property
    def is_value(self) -> bool:
        return self.is_known and not self.is_pointer and self.shape is None

    @property
    def size(self) -> int:
        """The elements of an array."""
        return prod(self.shape or (0,))

    @property
    def bytes(self) -> int:
        word, n = PARTS.get(self.word, (self.word, 1))
        one = BYTES.get(word, 0) * n
        return 8 if self.is_pointer else one * (self.size if self.shape is not None else 1)


def type_of(node: dict[str, Any], field: str = "type") -> CType:
    """The type of a node."""
    said = node.get(field, {})
    return parsed(said.get("desugaredQualType", said.get("qualType", "")))


def alignment(type_: CType) -> int:
    """To how many bytes CUDA aligns a value."""
    word, n = PARTS.get(type_.word, (type_.word, 1))
    return BYTES[word] * (n if n in (2, 4) and BYTES[word] * n <= 16 else 1)


def is_group(node: dict[str, Any]) -> bool:
    """Whether a variable is a cooperative group, or a constant of a type: that tells all."""
    return _TELLING.search(str(node["type"])) is not None


_TELLING = re.compile(
    r"\bthread_block\b|\bthread_block_tile<|\bintegral_constant<|\bbool_constant<"
)


def parsed(text: str) -> CType:
    """A type from its text, such as `const float *__restrict`."""
    sizes = re.findall(r"\[(\d*)\]", text)
    rest = re.sub(r"\[\d*\]", "", text).strip()
    is_reference = rest.endswith("&")
    rest = rest.rstrip("&").strip()
    while (
        bare := re.sub(r"(?:__restrict|const|volatile)$", "", rest).strip()
    ) != rest and "*" in rest:
        rest = bare
    is_pointer = rest.endswith("*")
    rest = rest.removesuffix("*").strip()
    words = rest.replace("struct ", "").split()
    name = " ".join([w for w in words if w not in ("const", "volatile")])
    name = _ALIASES.get(name, name)
    shape = None
    if sizes:
        shape = tuple([int(n) for n in sizes]) if all(sizes) else ()
    is_volatile = "volatile" in words
    # A reference may stand for a copy, which nobody else changes.
    is_known = name in _WORDS and not (is_volatile and is_reference and not is_pointer)
    word = _WORDS.get(name, name)
    return CType(word, is_pointer, is_reference, shape, "const" in words, is_volatile, is_known)
