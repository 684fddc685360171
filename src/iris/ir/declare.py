"""How an op is declared: once, as a class whose fields say what it is made of.

    class Load(Op):
        name = "tile.load"
        base: Value = operand(POINTER, access=Access.READ)
        offset: Value = operand(INTEGERS)
        mask: Value | None = optional(BOOLEANS)
        result: Value = result()

The constructor, the accessors, cloning, the text form and the generic part of verification
all derive from the fields, through the `Spec` that the metaclass gathers from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from iris.errors import DeclarationError, VerifyError
from iris.ir.attributes import AttributeKind
from iris.ir.types import (
    DType,
    ElementType,
    Kind,
    Ptr,
    Registers,
    Staged,
    Tensor,
    Threadgroup,
    Tile,
    Type,
)


class Constraint:
    """A set of types with a name: `lhs must be integers, not f32`."""

    def __init__(self, what: str, test: Callable[[Type], bool]):
        self.what = what
        self._test = test
        self._known: dict[Type, bool] = {}

    def __contains__(self, type_: Type) -> bool:
        known = self._known.get(type_)
        if known is None:
            known = self._known[type_] = self._test(type_)
        return known


def _of(what: str, *types: type[Type]) -> Constraint:
    return Constraint(what, lambda t: isinstance(t, types))


def _elements(what: str, *kinds: Kind) -> Constraint:
    return Constraint(what, lambda t: isinstance(t, ElementType) and t.element.kind in kinds)


ANY = Constraint("any type", lambda t: True)
ELEMENTS = _of("of a type with elements", ElementType)
NUMBERS = _elements("numbers", Kind.SIGNED, Kind.UNSIGNED, Kind.FLOAT)
INTEGERS = _elements("integers", Kind.SIGNED, Kind.UNSIGNED)
FLOATS = _elements("floats", Kind.FLOAT)
BOOLEANS = _elements("bools", Kind.BOOL)
BITS = _elements("integers or bools", Kind.SIGNED, Kind.UNSIGNED, Kind.BOOL)
INTEGER = Constraint("a scalar integer", lambda t: isinstance(t, DType) and t.is_integer)
CONDITION = Constraint("a scalar bool", lambda t: isinstance(t, DType) and t.kind is Kind.BOOL)
POINTER = _of("a pointer", Ptr)
TENSORS = _of("a tensor", Tensor)
TILES = _of("a tile", Tile)
STAGED = _of("a staged tile", Staged)
MATRIX = _of("a tile or a staged tile", Tile, Staged)
SCALAR = _of("a scalar", DType)
REGISTERS = _of("a register array", Registers)
THREADGROUP = _of("memory of the threadgroup", Threadgroup)
MEMORY = _of("a pointer or memory of the threadgroup", Ptr, Threadgroup)


class Access(Enum):
    """How a resource is touched."""

    READ = "reads", True, False
    WRITE = "writes", False, True
    UPDATE = "reads and writes", True, True
    ALLOCATE = "allocates", False, False

    def __init__(self, text: str, reads: bool, writes: bool):
        self.text, self.reads, self.writes = text, reads, writes


class Parts(Protocol):
    """An op, as its declaration sees it."""

    operands: tuple[Any, ...]
    attributes: tuple[Any, ...]
    regions: tuple[Any, ...]
    results: tuple[Any, ...]


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED: Any = _Required()


@dataclass(eq=False)
class Field:
    name: str = field(default="", init=False)
    default = REQUIRED  # what a constructor call means that leaves the field out

    def reader(self, spec: Spec) -> Callable[[Parts], Any] | None:
        """What reads this field of an op; None where the op has it already."""
        return None


@dataclass(eq=False)
class OperandField(Field):
    """One operand."""

    constraint: Constraint
    access: Access | None
    is_address: bool

    def reader(self, spec: Spec) -> Callable[[Parts], Any]:
        position = spec.operands.index(self)
        return lambda op: op.operands[position]


@dataclass(eq=False)
class OptionalField(OperandField):
    """An operand that may be left out, with all optional ones after it."""

    default = None

    def reader(self, spec: Spec) -> Callable[[Parts], Any]:
        position = spec.operands.index(self)
        given: dict[int, bool] = {}  # by how many operands there are

        def read(op: Parts) -> Any | None:
            operands = op.operands
            count = len(operands)
            is_given = given.get(count)
            if is_given is None:
                is_given = given[count] = position < spec.singles(count)
            return operands[position] if is_given else None

        return read


@dataclass(eq=False)
class VariadicField(OperandField):
    """Any number of operands; where an op has several such fields, the same number in each."""

    feeds: bool  # the initial values of the first region's last arguments
    default = ()

    def reader(self, spec: Spec) -> Callable[[Parts], Any]:
        nth = spec.variadics.index(self)
        known: dict[int, slice] = {}  # by how many operands there are

        def read(op: Parts) -> tuple[Any, ...]:
            count = len(op.operands)
            own = known.get(count)
            if own is None:
                start, size = spec.singles(count), spec.group(count)
                own = known[count] = slice(start + nth * size, start + (nth + 1) * size)
            return op.operands[own]

        return read


@dataclass(eq=False)
class AttributeField(Field):
    kind: AttributeKind[Any]
    default: Any

    def reader(self, spec: Spec) -> Callable[[Parts], Any]:
        position = spec.attributes.index(self)
        return lambda op: op.attributes[position]


@dataclass(eq=False)
class RegionField(Field):
    keyword: str | None

    def reader(self, spec: Spec) -> Callable[[Parts], Any]:
        position = spec.regions.index(self)
        return lambda op: op.regions[position]


@dataclass(eq=False)
class ResultField(Field):
    constraint: Constraint
    access: Access | None

    def reader(self, spec: Spec) -> Callable[[Parts], Any]:
        position = spec.results.index(self)
        return lambda op: op.results[position]


@dataclass(eq=False)
class ResultsField(Field):
    """Any number of results."""

    default = ()


def operand(
    constraint: Constraint = ANY, *, access: Access | None = None, is_address: bool = False
) -> Any:
    """An operand; `access` says what the op does to the memory it names, `is_address` that it says
    where in memory."""
    return OperandField(constraint, access, is_address)


def optional(constraint: Constraint = ANY) -> Any:
    """An operand that may be left out, printed as `name=%value`."""
    return OptionalField(constraint, None, False)


def variadic(constraint: Constraint = ANY, *, feeds: bool = False) -> Any:
    """Any number of operands.  `feeds`: they start the first region's last arguments."""
    return VariadicField(constraint, None, False, feeds)


def attribute(kind: AttributeKind[Any], default: Any = REQUIRED) -> Any:
    """A compile-time value; one with a default is printed as `name=value`, and only if it
    differs."""
    return AttributeField(kind, default)


def region(keyword: str | None = None) -> Any:
    """A region; `keyword` stands before its brace."""
    return RegionField(keyword)


def result(constraint: Constraint = ANY, *, access: Access | None = None) -> Any:
    """A result.  Its type is inferred if the op defines `infer`, else given to the
    constructor last."""
    return ResultField(constraint, access)


def results() -> Any:
    """Any number of results."""
    return ResultsField()


class Spec:
    """What the fields of one op class say, in the order that its constructor takes them."""

    __slots__ = (
        "_calls",
        "_groups",
        "accepted",
        "addresses",
        "attributes",
        "defaults",
        "feeds",
        "fields",
        "fixed",
        "inferred",
        "lists_operands",
        "made",
        "named",
        "named_attributes",
        "op_name",
        "operands",
        "optionals",
        "plain_count",
        "plain_split",
        "positional_attributes",
        "regions",
        "results",
        "results_vary",
        "touched",
        "valid",
        "variadics",
    )

    def __init__(self, op_name: str, fields: Sequence[Field], inferred: bool):
        self.op_name = op_name
        self._groups: dict[int, int] = {}
        # Types of operands and results, with attributes, that the verifier has accepted.
        self.valid: set[tuple[object, ...]] = set()
        # Attributes that it has accepted, by identity, which none else has while they are here.
        self.accepted: dict[int, tuple[Any, ...]] = {}
        self._calls: dict[tuple[int | str, ...], _Call] = {}  # by how many arguments, which names
        self.fields = tuple(fields)
        self.inferred = inferred
        every = [f for f in fields if isinstance(f, OperandField)]
        self.optionals = [f for f in every if isinstance(f, OptionalField)]
        self.variadics = [f for f in every if isinstance(f, VariadicField)]
        self.fixed = [f for f in every if f not in self.optionals and f not in self.variadics]
        self.operands = [*self.fixed, *self.optionals, *self.variadics]
        self.feeds = any(f.feeds for f in self.variadics)
        attributes = [f for f in fields if isinstance(f, AttributeField)]
        self.positional_attributes = [f for f in attributes if f.default is REQUIRED]
        self.named_attributes = [f for f in attributes if f.default is not REQUIRED]
        self.attributes = [*self.positional_attributes, *self.named_attributes]
        self.defaults = tuple([f.default for f in self.named_attributes])
        # What the text gives as `name=value`.
        groups = self.variadics if len(self.variadics) > 1 else []
        self.named = [*self.optionals, *groups, *self.named_attributes]
        self.regions = [f for f in fields if isinstance(f, RegionField)]
        # Of most ops the text lists all operands, without names.
        self.lists_operands = not self.optionals and not self.feeds and len(self.variadics) < 2
        self.results_vary = any(isinstance(f, ResultsField) for f in fields)
        self.results = [f for f in fields if isinstance(f, ResultField)]
        self.touched = [(i, f.access) for i, f in enumerate(self.fixed) if f.access is not None]
        self.addresses = [i for i, f in enumerate(self.fixed) if f.is_address]
        self.made = [(i, f.access) for i, f in enumerate(self.results) if f.access is not None]
        # Most ops are given only required attributes, fixed operands and types of single results:
        # they skip `bind`.
        end = len(self.positional_attributes) + len(self.fixed)
        self.plain_split = len(self.positional_attributes), end
        is_plain = not (self.variadics or self.results_vary) and (inferred or not self.optionals)
        self.plain_count = end + (0 if inferred else len(self.results)) if is_plain else -1
        if self.variadics and len(self.optionals) >= len(self.variadics):
            raise DeclarationError(
                f"{op_name}: with variadic operands there must be fewer optional ones, "
                "so that their numbers can be told"
            )
        if self.results_vary and self.results:
            raise DeclarationError(f"{op_name}: declare either single results or `results()`")

    def group(self, count: int) -> int:
        """How many operands each variadic field has when there are `count` operands in all."""
        known = self._groups.get(count)
        if known is None:
            known = self._groups[count] = self._group(count)
        return known

    def _group(self, count: int) -> int:
        rest = count - len(self.fixed)
        if not self.variadics:
            if 0 <= rest <= len(self.optionals):
                return 0
        elif rest >= 0 and rest % len(self.variadics) <= len(self.optionals):
            return rest // len(self.variadics)
        raise VerifyError(f"{self.op_name} does not take {count} operands")

    def singles(self, count: int) -> int:
        """How many of `count` operands, the first ones, are not variadic."""
        return count - self.group(count) * len(self.variadics)

    def operand_field(self, position: int, count: int) -> tuple[OperandField, int]:
        """The field that the operand at a position belongs to, and its index in that field."""
        singles = self.singles(count)
        if position < singles:
            return self.operands[position], 0
        group, index = divmod(position - singles, self.group(count))
        return self.variadics[group], index

    def bind(
        self, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Type, ...] | None]:
        """The operands, attributes and explicit result types that a constructor call means."""
        key: tuple[int | str, ...] = (len(arguments), *named)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = self._call(len(arguments), list(named))
        given = (*arguments, *named.values(), *call.defaults)
        operands = [given[i] for i in call.fixed]
        absent = False
        for f, i in call.optionals:
            value = given[i]
            if value is None:
                absent = True
            elif absent:
                raise DeclarationError(f"{self.op_name}: {f.name!r} needs the ones before it")
            else:
                operands.append(value)
        groups = [tuple(given[i]) for i in call.variadics]
        if len(groups) > 1 and len({len(g) for g in groups}) > 1:
            raise DeclarationError(f"{self.op_name}: {_names(self.variadics)} differ in number")
        for values in groups:
            operands.extend(values)
        attributes = tuple([given[i] for i in call.attributes])
        types: tuple[Type, ...] | None = None
        if not self.inferred:
            found = [given[i] for i in call.results]
            types = tuple(found[0]) if self.results_vary else tuple(found)
        return tuple(operands), attributes, types

    def _call(self, count: int, named: Sequence[str]) -> _Call:
        """Where a call with so many arguments, and others by name, has what belongs to each
        field."""
        types = [f for f in self.fields if isinstance(f, (ResultField, ResultsField))]
        given = [] if self.inferred else types
        order = [*self.positional_attributes, *self.operands, *given, *self.named_attributes]
        if count > len(order):
            raise DeclarationError(f"{self.op_name} takes {len(order)} arguments: {_names(order)}")
        places = {f.name: i for i, f in enumerate(order[:count])}
        for name in named:
            if name in places or all(f.name != name for f in order):
                why = "twice" if name in places else "but has no such field"
                raise DeclarationError(f"{self.op_name} was given {name!r} {why}")
            places[name] = len(places)
        defaults: list[Any] = []

        def place(wanted: Field) -> int:
            if wanted.name not in places:
                if wanted.default is REQUIRED:
                    raise DeclarationError(
                        f"{self.op_name} needs {wanted.name!r}; it takes {_names(order)}"
                    )
                places[wanted.name] = len(places)
                defaults.append(wanted.default)
            return places[wanted.name]

        return _Call(
            fixed=[place(f) for f in self.fixed],
            optionals=[(f, place(f)) for f in self.optionals],
            variadics=[place(f) for f in self.variadics],
            attributes=[place(f) for f in self.attributes],
            results=[place(f) for f in given],
            defaults=tuple(defaults),
        )


class _Call(NamedTuple):
    """Where what belongs to each field stands among the arguments of a constructor call, those
    given by name and, last, defaults."""

    fixed: Sequence[int]
    optionals: Sequence[tuple[OptionalField, int]]
    variadics: Sequence[int]
    attributes: Sequence[int]
    results: Sequence[int]
    defaults: tuple[Any, ...]


def _names(fields: Sequence[Field]) -> str:
    return ", ".join(f.name for f in fields)
