"""Index expressions: sums of axes, of quotients and remainders, and of indices from tensors.

    i*512 + j    (i*512 + j) / 64    (i*512 + j) % 64

A kernel's programs, loops and lanes go over its axes.  Expressions are canonical: equal ones are
equal as Python values.  Divisions are carried out as far as the sizes of axes allow, so an index
that is split and joined again is itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import gcd
from typing import Protocol, TypeAlias


class Atom(Protocol):
    """A term of an index expression, with a known range."""

    @property
    def low(self) -> int: ...

    @property
    def high(self) -> int: ...


class Axis:
    """A range from 0 to below a size, with identity."""

    __slots__ = ("high", "low", "name", "size")

    def __init__(self, name: str, size: int):
        self.name = name
        self.size = size
        self.low = 0
        self.high = size - 1

    def __repr__(self) -> str:
        return self.name


class _Division:
    """An expression divided by a constant: the quotient or the remainder."""

    __slots__ = ("_hash", "dividend", "divisor", "high", "low")

    def __init__(self, dividend: IndexExpr, divisor: int):
        self.dividend = dividend
        self.divisor = divisor
        self._hash = hash((type(self), dividend, divisor))
        self.low, self.high = self._bounds()

    def _bounds(self) -> tuple[int, int]:
        raise NotImplementedError

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and self.divisor == other.divisor
            and self.dividend == other.dividend
        )


class Quotient(_Division):
    """An expression divided by a constant, rounded down."""

    __slots__ = ()

    def _bounds(self) -> tuple[int, int]:
        return self.dividend.low // self.divisor, self.dividend.high // self.divisor

    def __repr__(self) -> str:
        return f"({self.dividend} / {self.divisor})"


class Remainder(_Division):
    """The remainder of a division by a constant; never negative."""

    __slots__ = ()

    def _bounds(self) -> tuple[int, int]:
        return 0, self.divisor - 1

    def __repr__(self) -> str:
        return f"({self.dividend} % {self.divisor})"


Terms: TypeAlias = tuple[tuple[Atom, int], ...]


class IndexExpr:
    """A sum of atoms with coefficients, and a constant."""

    __slots__ = ("_atoms", "_hash", "constant", "high", "low", "terms")

    def __init__(self, terms: Terms = (), constant: int = 0):
        self.terms = terms
        self.constant = constant
        self._hash: int | None = None
        self._atoms: tuple[Atom, ...] | None = None
        low = high = constant
        for atom, n in terms:
            if n > 0:
                low += n * atom.low
                high += n * atom.high
            else:
                low += n * atom.high
                high += n * atom.low
        self.low = low
        self.high = high

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((frozenset(self.terms), self.constant))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, IndexExpr)
            and self.constant == other.constant
            and len(self.terms) == len(other.terms)
            and (self.terms == other.terms or set(self.terms) == set(other.terms))
        )

    @staticmethod
    def of(atom: Atom) -> IndexExpr:
        return IndexExpr(((atom, 1),)) if atom.low < atom.high else IndexExpr((), atom.low)

    def __add__(self, other: IndexExpr | int) -> IndexExpr:
        if isinstance(other, int):
            return IndexExpr(self.terms, self.constant + other)
        if not self.terms or not other.terms:
            return IndexExpr(self.terms or other.terms, self.constant + other.constant)
        counts = dict(self.terms)
        for atom, n in other.terms:
            counts[atom] = counts.get(atom, 0) + n
        return _rejoin(counts, self.constant + other.constant)

    def __mul__(self, factor: int) -> IndexExpr:
        if not factor:
            return IndexExpr()
        return IndexExpr(tuple([(a, n * factor) for a, n in self.terms]), self.constant * factor)

    def __floordiv__(self, divisor: int) -> IndexExpr:
        return divide(self, divisor)[0]

    def __mod__(self, divisor: int) -> IndexExpr:
        return divide(self, divisor)[1]

    def substitute(self, replace: Callable[[Atom], IndexExpr | None]) -> IndexExpr:
        """Replace some atoms, also within divisions."""
        kept: list[tuple[Atom, int]] = []
        replaced = []
        for atom, n in self.terms:
            new_expr = _substitute_atom(atom, replace)
            if new_expr is None:
                kept.append((atom, n))
            else:
                replaced.append(new_expr * n)
        if not replaced:
            return self
        result = IndexExpr(tuple(kept), self.constant)
        for part in replaced:
            result = result + part
        return result

    def atoms(self) -> tuple[Atom, ...]:
        """All axes and lookups, also within divisions."""
        if self._atoms is None:
            found: list[Atom] = []
            for atom, _ in self.terms:
                found += atom.dividend.atoms() if isinstance(atom, _Division) else (atom,)
            self._atoms = tuple(found)
        return self._atoms

    def subexprs(self) -> Iterator[IndexExpr]:
        """Yield the expression and all that it divides."""
        yield self
        for atom, _ in self.terms:
            if isinstance(atom, _Division):
                yield from atom.dividend.subexprs()

    def __repr__(self) -> str:
        parts = [f"{a}" if n == 1 else f"{a}*{n}" for a, n in self.terms]
        return " + ".join([*parts, str(self.constant)] if self.constant or not parts else parts)


def weighted_sum(parts: Iterable[tuple[IndexExpr, int]]) -> IndexExpr:
    """The sum of expressions with coefficients."""
    counts: dict[Atom, int] = {}
    constant = 0
    for part, factor in parts:
        constant += part.constant * factor
        for atom, n in part.terms:
            counts[atom] = counts.get(atom, 0) + n * factor
    return _rejoin(counts, constant)


def _substitute_atom(atom: Atom, replace: Callable[[Atom], IndexExpr | None]) -> IndexExpr | None:
    """An atom with the atoms in it replaced; None if nothing changes."""
    if isinstance(atom, _Division):
        dividend = atom.dividend.substitute(replace)
        if dividend is atom.dividend:
            return None
        return dividend // atom.divisor if isinstance(atom, Quotient) else dividend % atom.divisor
    return replace(atom)


def divide(x: IndexExpr, divisor: int) -> tuple[IndexExpr, IndexExpr]:
    """The quotient, rounded down, and the remainder."""
    whole = IndexExpr(
        tuple([(a, n // divisor) for a, n in x.terms if n % divisor == 0]), x.constant // divisor
    )
    rest = IndexExpr(tuple([(a, n) for a, n in x.terms if n % divisor]), x.constant % divisor)
    quotient, remainder = _divide_rest(rest, divisor)
    return whole + quotient, remainder


def _divide_rest(x: IndexExpr, divisor: int) -> tuple[IndexExpr, IndexExpr]:
    """Divide an expression that has no term divisible by the divisor."""
    low, high = x.low // divisor, x.high // divisor
    if low == high:
        return IndexExpr((), low), x + -divisor * low
    common, small = divisor, dict(x.terms)
    for atom, n in sorted(x.terms, key=lambda term: -abs(term[1])):
        common = gcd(common, n)
        if common == 1:
            break
        del small[atom]
        left = IndexExpr(tuple(small.items()), x.constant % common)
        # A part below a common divisor of the rest does not affect the quotient.
        if left.low >= 0 and left.high < common:
            large = [(a, m // common) for a, m in x.terms if a not in small]
            quotient, remainder = divide(
                IndexExpr(tuple(large), x.constant // common), divisor // common
            )
            return quotient, remainder * common + left
    if len(x.terms) == 1 and not x.constant:
        ((atom, n),) = x.terms
        if n == 1 and isinstance(atom, Quotient):
            return atom.dividend // (atom.divisor * divisor), IndexExpr.of(Remainder(x, divisor))
        if n == 1 and isinstance(atom, Remainder) and atom.divisor % divisor == 0:
            return IndexExpr.of(Quotient(x, divisor)), atom.dividend % divisor
    return IndexExpr.of(Quotient(x, divisor)), IndexExpr.of(Remainder(x, divisor))


def _rejoin(counts: dict[Atom, int], constant: int) -> IndexExpr:
    """Join a quotient with the remainder beside it: `(x/8)*8 + x%8` is `x`, and
    `((x/8)%4)*8 + x%8` is `x%32`."""
    for atom, n in counts.items():
        if not isinstance(atom, Remainder) or not n:
            continue
        quotient = IndexExpr.of(Quotient(atom.dividend, atom.divisor))
        for other, m in counts.items():
            if m != n * atom.divisor:
                continue
            if isinstance(other, Remainder) and other.dividend == quotient:
                joined = atom.dividend % (atom.divisor * other.divisor)
            elif quotient.terms == ((other, 1),):
                joined = atom.dividend
            else:
                continue
            rest = {a: k for a, k in counts.items() if a not in (atom, other)}
            return _rejoin(rest, constant) + joined * n
    return IndexExpr(tuple([(a, n) for a, n in counts.items() if n]), constant)
