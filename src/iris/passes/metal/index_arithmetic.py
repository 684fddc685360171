"""Integer arithmetic while lowering: constants are computed, for the rest ops are emitted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TypeAlias

from iris.ir import math
from iris.ir.builder import Builder
from iris.ir.core import Value
from iris.ir.math import Constant
from iris.ir.types import DType, ElementType, bool_, i32

# An integer known while compiling, or a scalar of the program.
Number: TypeAlias = "int | Value"


class IndexArithmetic:
    """Arithmetic on constants and values."""

    def __init__(self, b: Builder):
        self.b = b

    def constant(self, number: int, type_: ElementType = i32) -> Value:
        bits = number & ((1 << type_.element.bits) - 1)
        return self.b.once(Constant, (), (bits,), type_)

    def binary(self, kind: type[math.Binary], a: Value, b: Value) -> Value:
        return self.b.once(kind, (a, b), kind.spec.defaults, a.type)

    def value(self, number: Number, type_: DType = i32) -> Value:
        """A number as a value of a dtype."""
        if isinstance(number, int):
            return self.constant(number, type_)
        return number if number.type is type_ else self.b.once(math.Cast, (number,), (), type_)

    def add(self, a: Number, b: Number, type_: DType = i32) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.binary(math.Add, self.value(a, type_), self.value(b, type_))

    def times(self, a: Number, b: Number, type_: DType = i32) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.binary(math.Mul, self.value(a, type_), self.value(b, type_))

    def xor(self, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return a ^ b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.binary(math.Xor, self.value(a), self.value(b))

    def mask(self, a: Number, bits: int) -> Number:
        """Some of the bits of a number."""
        return a & bits if isinstance(a, int) else self.binary(math.And, a, self.constant(bits))

    def compare(self, predicate: math.Predicate, a: Number, b: Number) -> Value:
        type_ = next((v.type.element for v in (a, b) if isinstance(v, Value)), i32)
        operands = self.value(a, type_), self.value(b, type_)
        return self.b.once(math.Compare, operands, (predicate,), bool_)

    # Offsets: linear maps over F2, from the bits of a number.

    def linear_form(self, x: Number, images: Sequence[int]) -> Number:
        """The xor of the images of the bits of a number.

        Neighbouring bits with neighbouring images are moved together: `(x >> 2 & 3) * 8`.
        """
        if isinstance(x, int):
            return reduce(lambda a, b: a ^ b, (im for i, im in enumerate(images) if x >> i & 1), 0)
        total: Number = 0
        used = 0
        start = 0
        while start < len(images):
            image, end = images[start], start + 1
            bits = image
            # The images must be disjoint, so that their sum is their xor.
            while (
                end < len(images) and images[end] == image << end - start and not bits & images[end]
            ):
                bits |= images[end]
                end += 1
            if image:
                part: Number = x
                if start:
                    part = self.binary(math.Shr, x, self.constant(start))
                if end < len(images):
                    part = self.mask(part, (1 << end - start) - 1)
                combine = self.xor if used & bits else self.add
                total = combine(total, self.times(part, image))
                used |= bits
            start = end if image else start + 1
        return total

    def xor_forms(self, a: Number, b: Number, ours: Sequence[int], theirs: Sequence[int]) -> Number:
        """The xor of two linear forms, as a sum if their images are disjoint."""
        if reduce(or_, ours, 0) & reduce(or_, theirs, 0):
            return self.xor(a, b)
        return self.add(a, b)
