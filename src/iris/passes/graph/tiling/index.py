"""Where in a tensor an element is, as a formula: sums of axes, of their quotients and remainders,
and of numbers that are looked up in other tensors.

    i*512 + j    (i*512 + j) / 64    (i*512 + j) % 64

A kernel's axes are what its programs and loops go over.  Formulas are brought to one form: equal
ones are equal as Python values, and what divides is carried out as far as the axes' sizes allow,
so that an index that is split and put together again is itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import gcd
from typing import Protocol, TypeAlias


class Atom(Protocol):
    """What formulas are made of: a number of which the least and the greatest are known."""

    @property
    def low(self) -> int: ...

    @property
    def high(self) -> int: ...


class Axis:
    """Something that counts from 0 to below its size; each is itself only."""

    __slots__ = ("high", "low", "name", "size")

    def __init__(self, name: str, size: int):
        self.name = name
        self.size = size
        self.low = 0
        self.high = size - 1

    def __repr__(self) -> str:
        return self.name


class _Division:
    """A formula divided by a number: the quotient, or what is left."""

    __slots__ = ("_hash", "by", "high", "low", "of")

    def __init__(self, of: Index, by: int):
        self.of = of
        self.by = by
        self._hash = hash((type(self), of, by))
        self.low, self.high = self._bounds()

    def _bounds(self) -> tuple[int, int]:
        raise NotImplementedError

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.by == other.by and self.of == other.of


class Quotient(_Division):
    """A formula divided by a number, rounded down."""

    __slots__ = ()

    def _bounds(self) -> tuple[int, int]:
        return self.of.low // self.by, self.of.high // self.by

    def __repr__(self) -> str:
        return f"({self.of} / {self.by})"


class Remainder(_Division):
    """What is left of a formula when it is divided by a number; never negative."""

    __slots__ = ()

    def _bounds(self) -> tuple[int, int]:
        return 0, self.by - 1

    def __repr__(self) -> str:
        return f"({self.of} % {self.by})"


Terms: TypeAlias = tuple[tuple[Atom, int], ...]


class Index:
    """A sum of atoms, each times a number, and a number."""

    __slots__ = ("_atoms", "_hash", "high", "low", "number", "terms")

    def __init__(self, terms: Terms = (), number: int = 0):
        self.terms = terms
        self.number = number
        self._hash: int | None = None
        self._atoms: tuple[Atom, ...] | None = None
        low = high = number
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
            self._hash = hash((frozenset(self.terms), self.number))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Index)
            and self.number == other.number
            and len(self.terms) == len(other.terms)
            and (self.terms == other.terms or set(self.terms) == set(other.terms))
        )

    @staticmethod
    def of(atom: Atom) -> Index:
        return Index(((atom, 1),)) if atom.low < atom.high else Index((), atom.low)

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.number + other)
        if not self.terms or not other.terms:
            return Index(self.terms or other.terms, self.number + other.number)
        counts = dict(self.terms)
        for atom, n in other.terms:
            counts[atom] = counts.get(atom, 0) + n
        return _rejoined(counts, self.number + other.number)

    def __mul__(self, factor: int) -> Index:
        if not factor:
            return Index()
        return Index(tuple([(a, n * factor) for a, n in self.terms]), self.number * factor)

    def __floordiv__(self, by: int) -> Index:
        return divide(self, by)[0]

    def __mod__(self, by: int) -> Index:
        return divide(self, by)[1]

    def substitute(self, replace: Callable[[Atom], Index | None]) -> Index:
        """The formula with some atoms, also those within others, replaced."""
        kept: list[tuple[Atom, int]] = []
        new = []
        for atom, n in self.terms:
            found = _substituted(atom, replace)
            if found is None:
                kept.append((atom, n))
            else:
                new.append(found * n)
        if not new:
            return self
        result = Index(tuple(kept), self.number)
        for part in new:
            result = result + part
        return result

    def atoms(self) -> tuple[Atom, ...]:
        """All atoms, those within others too, that are no quotients or remainders."""
        if self._atoms is None:
            found: list[Atom] = []
            for atom, _ in self.terms:
                found += atom.of.atoms() if isinstance(atom, _Division) else (atom,)
            self._atoms = tuple(found)
        return self._atoms

    def formulas(self) -> Iterator[Index]:
        """The formula, and those within it."""
        yield self
        for atom, _ in self.terms:
            if isinstance(atom, _Division):
                yield from atom.of.formulas()

    def __repr__(self) -> str:
        parts = [f"{a}" if n == 1 else f"{a}*{n}" for a, n in self.terms]
        return " + ".join([*parts, str(self.number)] if self.number or not parts else parts)


def total(parts: Iterable[tuple[Index, int]]) -> Index:
    """The sum of formulas, each times a number."""
    counts: dict[Atom, int] = {}
    number = 0
    for part, factor in parts:
        number += part.number * factor
        for atom, n in part.terms:
            counts[atom] = counts.get(atom, 0) + n * factor
    return _rejoined(counts, number)


def _substituted(atom: Atom, replace: Callable[[Atom], Index | None]) -> Index | None:
    """An atom with those in it replaced; None if that is itself."""
    if isinstance(atom, _Division):
        of = atom.of.substitute(replace)
        if of is atom.of:
            return None
        return of // atom.by if isinstance(atom, Quotient) else of % atom.by
    return replace(atom)


def divide(x: Index, by: int) -> tuple[Index, Index]:
    """The quotient, rounded down, and the remainder."""
    whole = Index(tuple([(a, n // by) for a, n in x.terms if n % by == 0]), x.number // by)
    rest = Index(tuple([(a, n) for a, n in x.terms if n % by]), x.number % by)
    quotient, remainder = _divide_rest(rest, by)
    return whole + quotient, remainder


def _divide_rest(x: Index, by: int) -> tuple[Index, Index]:
    """The same of a formula of which the number divides no term."""
    low, high = x.low // by, x.high // by
    if low == high:
        return Index((), low), x + -by * low
    common, small = by, dict(x.terms)
    for atom, n in sorted(x.terms, key=lambda term: -abs(term[1])):
        common = gcd(common, n)
        if common == 1:
            break
        del small[atom]
        left = Index(tuple(small.items()), x.number % common)
        # What is less than a divisor of all the rest decides nothing.
        if left.low >= 0 and left.high < common:
            large = [(a, m // common) for a, m in x.terms if a not in small]
            quotient, remainder = divide(Index(tuple(large), x.number // common), by // common)
            return quotient, remainder * common + left
    if len(x.terms) == 1 and not x.number:
        ((atom, n),) = x.terms
        if n == 1 and isinstance(atom, Quotient):
            return atom.of // (atom.by * by), Index.of(Remainder(x, by))
        if n == 1 and isinstance(atom, Remainder) and atom.by % by == 0:
            return Index.of(Quotient(x, by)), atom.of % by
    return Index.of(Quotient(x, by)), Index.of(Remainder(x, by))


def _rejoined(counts: dict[Atom, int], number: int) -> Index:
    """A sum in which a quotient, or what is left of it, and the remainder beside it are one again:
    `(x/8)*8 + x%8` is `x`, and `((x/8)%4)*8 + x%8` is `x%32`."""
    for atom, n in counts.items():
        if not isinstance(atom, Remainder) or not n:
            continue
        quotient = Index.of(Quotient(atom.of, atom.by))
        for other, m in counts.items():
            if m != n * atom.by:
                continue
            if isinstance(other, Remainder) and other.of == quotient:
                joined = atom.of % (atom.by * other.by)
            elif quotient.terms == ((other, 1),):
                joined = atom.of
            else:
                continue
            rest = {a: k for a, k in counts.items() if a not in (atom, other)}
            return _rejoined(rest, number) + joined * n
    return Index(tuple([(a, n) for a, n in counts.items() if n]), number)
