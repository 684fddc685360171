"""The IR core: values, ops and their effects, regions, modules.

An op holds *operands, attributes, regions and results*, always as those four tuples, plus a
source location; every walker, cloner and rewriter works on the four and on nothing else.  A
region is one block: arguments, then ops, the last a terminator.  Control flow is ops with
regions; there is no other control-flow graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, ClassVar, NamedTuple, TypeVar

from iris.errors import DeclarationError, RewriteError, VerifyError
from iris.ir.declare import Access, Field, Spec
from iris.ir.types import Type

AnyOp = TypeVar("AnyOp", bound="Op")
AnyType = TypeVar("AnyType", bound=Type)
T = TypeVar("T")
_new = object.__new__


class Location(NamedTuple):
    """A line of the user's Python."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Level(Enum):
    """The levels of IR.  Shared ops belong to none and live at all."""

    GRAPH = "graph"
    TILE = "tile"
    METAL = "metal"


class Value:
    """One SSA value: a result of `op`, or an argument of `region`."""

    __slots__ = ("became", "index", "name", "op", "region", "type", "users")

    def __init__(
        self, type_: Type, op: Op | None, region: Region | None, index: int, name: str | None
    ):
        self.type = type_
        self.op = op
        self.region = region
        self.index = index
        self.name = name  # a hint for the printer
        self.users: dict[Op, None] = {}  # an ordered set
        self.became: Value | None = None  # what a pass put in its place: for who follows it

    def replace_by(self, other: Value) -> None:
        """Make every user use another value."""
        self.became = other
        for user in list(self.users):
            user.set_operands(tuple([other if v is self else v for v in user.operands]))

    @property
    def home(self) -> Region | None:
        """The region in which the value is defined."""
        return self.region if self.op is None else self.op.parent

    @property
    def owner(self) -> Op | None:
        """The op that has the value as a result or as an argument of a region."""
        return self.op if self.region is None else self.region.owner

    @property
    def parent_op(self) -> Op | None:
        """The op in whose regions the value is defined."""
        return None if self.home is None else self.home.owner

    def is_inside(self, op: Op) -> bool:
        """Whether the value is defined in the regions of an op."""
        return self.parent_op is not None and self.parent_op.is_inside(op)

    @property
    def producer(self) -> Op:
        """The op that makes the value."""
        if self.op is None:
            raise RewriteError(f"{self!r} is an argument: no op makes it")
        return self.op

    def type_as(self, kind: type[AnyType]) -> AnyType:
        """The type, as one of the kind that the declaration of the op asks for."""
        if not isinstance(self.type, kind):
            raise VerifyError(f"{self.type} is no {kind.__name__.lower()}")
        return self.type

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"


class Resource(Enum):
    """What can be touched besides the memory behind a value."""

    MEMORY = "all memory"  # overlaps every pointer and allocation
    DEVICE = "device memory"  # overlaps every pointer
    REPORT = "the report"  # what asserts and prints write, in program order
    OTHERS = "other programs"  # a volatile load asks anew what these have written meanwhile


class Effect(NamedTuple):
    """What an op touches, and how."""

    access: Access
    resource: Value | Resource


class OpMeta(type):
    """Gathers the fields of an op class into its `Spec`, and registers the class by name."""

    def __new__(mcs, class_name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> OpMeta:
        namespace.setdefault("__slots__", ())
        own = {k: f for k, f in namespace.items() if isinstance(f, Field)}
        for key, declared in own.items():
            declared.name = key
            del namespace[key]
        inherited = {f.name: f for base in bases for f in getattr(base, "fields", ())}
        fields = tuple((inherited | own).values())  # a redeclared field keeps its place
        namespace["fields"] = fields
        cls = super().__new__(mcs, class_name, bases, namespace)
        op_name = namespace.get("name")
        if op_name is None:  # a base for ops, not an op
            return cls
        spec = Spec(op_name, fields, inferred="infer" in dir(cls))
        for field in fields:
            read = field.reader(spec)
            if read is not None:
                setattr(cls, field.name, property(read))
        cls.spec = spec  # type: ignore[attr-defined]
        by_hand = vars(Op)["effects"] is not cls.effects  # type: ignore[attr-defined]
        cls.touches_nothing = not (by_hand or spec.touched or spec.made)  # type: ignore[attr-defined]
        ends = vars(Op)["ends"] is cls.ends  # type: ignore[attr-defined]
        cls.only_computes = ends and cls.touches_nothing  # type: ignore[attr-defined]
        known = OPS.get(op_name)
        if known is not None and known.__module__ != cls.__module__:
            raise DeclarationError(f"two ops are called {op_name!r}: {known} and {cls}")
        OPS[op_name] = cls  # type: ignore[assignment]
        return cls


OPS: dict[str, type[Op]] = {}


class Op(metaclass=OpMeta):
    """The base of all ops.

    A subclass with a `name` is an op.  It may define, each used by both the constructor and
    the verifier:

    - `infer(self)`: the types of the results, from those of the operands, and attributes;
    - `region_arguments(self)`: for each region, the types of its arguments;
    - `expects(self, region)`: the types that the terminator of a region must carry;
    - `check(self)`: any further rule; it raises `self.invalid(...)`.
    """

    __slots__ = (
        "attributes",
        "location",
        "next",
        "operands",
        "parent",
        "previous",
        "regions",
        "results",
    )

    fields: ClassVar[tuple[Field, ...]]
    spec: ClassVar[Spec]
    name: ClassVar[str]
    level: ClassVar[Level | None] = None
    convergent: ClassVar[bool] = False  # must not move into or out of control flow
    commutative: ClassVar[bool] = False
    terminator: ClassVar[bool] = False
    isolated: ClassVar[bool] = False  # its regions see no value from outside
    loops: ClassVar[bool] = False  # its regions may run again and again
    touches_nothing: ClassVar[bool] = False  # `effects` is sure to be empty, its regions apart
    only_computes: ClassVar[bool] = False  # and it is sure to end

    operands: tuple[Value, ...]
    attributes: tuple[Any, ...]
    regions: tuple[Region, ...]
    results: tuple[Value, ...]
    location: Location | None
    parent: Region | None
    previous: Op | None
    next: Op | None

    # What a subclass may define.  `infer` is looked up by name, so that its absence says that
    # the constructor takes the result types.

    def region_arguments(self) -> Sequence[Sequence[Type]]:
        return [()] * len(self.spec.regions)

    def expects(self, region: Region) -> Sequence[Type] | None:
        """The types the terminator of a region carries; None where it carries none."""
        return None

    def forwards(self, region: Region) -> bool:
        """Whether what a region's terminator carries becomes the results, or the next round's
        arguments."""
        return True

    def surely_runs(self, region: Region) -> bool:
        """Whether a region runs at least once whenever the op does."""
        return False

    def check(self) -> None:
        """Raise `self.invalid(...)` if a rule of this op alone is broken."""

    def effects(self) -> Sequence[Effect]:
        """What the op itself touches, from its declaration."""
        if self.touches_nothing:
            return ()
        spec = self.spec
        touched = [Effect(access, self.operands[i]) for i, access in spec.touched]
        if not spec.made:
            return touched
        return [*touched, *[Effect(access, self.results[i]) for i, access in spec.made]]

    def ends(self) -> bool:
        """Whether the op is sure to end, apart from the ops inside it."""
        return True

    def may_speculate(self) -> bool:
        """Whether the op may run where the program would not have run it."""
        return not self.effects()

    def result_name(self) -> str | None:
        """A name for an unnamed result, where the attributes and the types of results suggest
        one."""
        return None

    # Making ops.

    def __init__(self, *arguments: Any, location: Location | None = None, **named: Any):
        """Derived from the fields: attributes, operands, then result types if not inferred."""
        spec = self.spec
        if len(arguments) == spec.plain_count and not named:
            split, end = spec.plain_split
            attributes, operands = arguments[:split] + spec.defaults, arguments[split:end]
            types = None if spec.inferred else arguments[end:]
        else:
            operands, attributes, types = spec.bind(arguments, named)
        self._set_up(operands, attributes, types, (), location)
        if spec.regions:
            self.regions = tuple([Region(self, types) for types in self.region_arguments()])

    @classmethod
    def create(
        cls: type[AnyOp],
        operands: tuple[Value, ...],
        attributes: tuple[Any, ...],
        types: Sequence[Type],
        regions: tuple[Region, ...] = (),
        location: Location | None = None,
    ) -> AnyOp:
        """An op from its parts, unchecked: for cloning and parsing."""
        op = _new(cls)
        op._set_up(operands, attributes, types, regions, location)
        return op

    def _set_up(
        self,
        operands: tuple[Value, ...],
        attributes: tuple[Any, ...],
        types: Sequence[Type] | None,
        regions: tuple[Region, ...],
        location: Location | None,
    ) -> None:
        """All parts, with new results: of the types that are inferred, unless some are given."""
        self.operands = operands
        self.attributes = attributes
        self.regions = regions
        self.location = location
        self.parent = self.previous = self.next = None
        for value in operands:
            value.users[self] = None
        for region in regions:
            region.owner = self
        if types is None:
            self.results = ()
            types = self.infer()  # type: ignore[attr-defined]
        if len(types) == 1:
            self.results = (Value(types[0], self, None, 0, None),)
        else:
            self.results = tuple([Value(t, self, None, i, None) for i, t in enumerate(types)])

    def clone(self: AnyOp, mapping: dict[Value, Value]) -> AnyOp:
        """Copy the op and the ops inside it, with operands looked up in `mapping`.

        The copies of its results are added to `mapping`.
        """
        get = mapping.get
        copy = _new(type(self))
        regions = tuple([Region.like(r, mapping) for r in self.regions]) if self.regions else ()
        operands = tuple([get(v, v) for v in self.operands])
        types = [v.type for v in self.results]
        copy._set_up(operands, self.attributes, types, regions, self.location)
        for old, new in zip(self.results, copy.results, strict=True):
            new.name = old.name
            mapping[old] = new
        return copy

    # Reading and changing ops.

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    @property
    def parent_op(self) -> Op | None:
        return None if self.parent is None else self.parent.owner

    def set_operands(self, operands: tuple[Value, ...]) -> None:
        for value in self.operands:
            value.users.pop(self, None)
        self.operands = operands
        for value in operands:
            value.users[self] = None

    def set_attribute(self, name: str, value: object) -> None:
        """Exchange one attribute."""
        self.attributes = tuple(
            [
                value if field.name == name else old
                for field, old in zip(self.spec.attributes, self.attributes, strict=True)
            ]
        )

    def set_regions(self, regions: tuple[Region, ...]) -> None:
        self.regions = regions
        for region in regions:
            region.owner = self
        if self.parent is not None:
            self.parent._forget_walk()

    @property
    def enclosing(self) -> Region:
        """The region that the op is in."""
        if self.parent is None:
            raise RewriteError(f"{self.name} is in no region to insert into")
        return self.parent

    @property
    def enclosing_op(self) -> Op:
        """The op that the op is in."""
        if self.parent_op is None:
            raise RewriteError(f"{self.name} is in no other op")
        return self.parent_op

    def insert_before(self, new: Op) -> None:
        """Put another op right before this one."""
        self.enclosing.insert(new, self)

    def detach(self) -> None:
        """Take the op out of its region, to be put elsewhere."""
        if self.parent is not None:
            self.parent.remove(self)

    def erase(self) -> None:
        """Remove the op for good; its results must be unused."""
        for value in self.results:
            if value.users:
                raise RewriteError(f"{self.name} cannot be erased: {value!r} is still used")
        self.detach()
        self._drop_uses()

    def _drop_uses(self) -> None:
        for value in self.operands:
            value.users.pop(self, None)
        self.operands = ()
        if self.isolated:  # what is in it uses nothing that stays
            return
        for region in self.regions:
            for op in region:
                op._drop_uses()

    def walk(self) -> Sequence[Op]:
        """The op and all ops in it, outer before inner, in program order."""
        ops = [self]
        for region in self.regions:
            ops += region.walk()
        return ops

    def is_inside(self, other: Op) -> bool:
        """Whether the op is `other` or within it."""
        op: Op | None = self
        while op is not None:
            if op is other:
                return True
            op = op.parent_op
        return False

    def invalid(
        self,
        message: str,
        *,
        at: str | None = None,
        index: int = 0,
        expected: Type | None = None,
    ) -> VerifyError:
        """The error for a rule this op breaks; `at` names the field at fault."""
        return VerifyError(f"{self.name}: {message}", field=at, index=index, expected=expected)

    def __repr__(self) -> str:
        operands = ", ".join(map(repr, self.operands))
        return f"<{self.name} {operands} -> {', '.join(map(repr, self.results))}>"


class Region:
    """One block: arguments, and a doubly linked list of ops."""

    __slots__ = ("_walked", "arguments", "first", "last", "owner")

    def __init__(self, owner: Op | None = None, types: Sequence[Type] = ()):
        self.owner = owner
        # The ops of the last walk, while they are the same.  Where a region has them, so has each
        # region in it.
        self._walked: list[Op] | None = None
        self.arguments = [Value(t, None, self, i, None) for i, t in enumerate(types)]
        self.first: Op | None = None
        self.last: Op | None = None

    @staticmethod
    def like(region: Region, mapping: dict[Value, Value]) -> Region:
        """A copy of a region, without an owner."""
        copy = Region()
        copy.arguments = [Value(v.type, None, copy, v.index, v.name) for v in region.arguments]
        mapping.update(zip(region.arguments, copy.arguments, strict=True))
        op, previous = region.first, None
        while op is not None:
            twin = op.clone(mapping)
            twin.parent, twin.previous = copy, previous
            if previous is None:
                copy.first = twin
            else:
                previous.next = twin
            op, previous = op.next, twin
        copy.last = previous
        return copy

    def __iter__(self) -> Iterator[Op]:
        """The ops in order; the one just given may be erased or moved meanwhile."""
        op = self.first
        while op is not None:
            following = op.next
            yield op
            op = following

    def __reversed__(self) -> Iterator[Op]:
        op = self.last
        while op is not None:
            preceding = op.previous
            yield op
            op = preceding

    @property
    def end(self) -> Op:
        """The terminator."""
        if self.last is None or not self.last.terminator:
            raise RewriteError("the region has no terminator yet")
        return self.last

    def add_argument(self, type_: Type, name: str | None = None) -> Value:
        argument = Value(type_, None, self, len(self.arguments), name)
        self.arguments.append(argument)
        return argument

    def append(self, op: Op) -> None:
        if self._walked is not None:
            self._forget_walk()
        op.parent = self
        last = op.previous = self.last
        if last is None:
            self.first = op
        else:
            last.next = op
        self.last = op

    def insert(self, op: Op, before: Op | None) -> None:
        """Insert before an op of this region, or at the end."""
        if before is None:
            self.append(op)
            return
        if self._walked is not None:
            self._forget_walk()
        op.parent, op.next, op.previous = self, before, before.previous
        if before.previous is None:
            self.first = op
        else:
            before.previous.next = op
        before.previous = op

    def remove(self, op: Op) -> None:
        if self._walked is not None:
            self._forget_walk()
        if op.previous is None:
            self.first = op.next
        else:
            op.previous.next = op.next
        if op.next is None:
            self.last = op.previous
        else:
            op.next.previous = op.previous
        op.parent = op.previous = op.next = None

    def walk(self) -> Sequence[Op]:
        """All ops in the region, outer before inner, in program order; changes come to be seen in
        the next walk."""
        ops = self._walked
        if ops is None:
            ops = []
            op = self.first
            while op is not None:
                ops.append(op)
                if op.regions:
                    for region in op.regions:
                        ops += region.walk()
                op = op.next
            self._walked = ops
        return ops

    def _forget_walk(self) -> None:
        region: Region | None = self
        while region is not None and region._walked is not None:
            region._walked = None
            owner = region.owner
            region = None if owner is None else owner.parent


class Module:
    """A list of functions that are compiled together.

    `==` compares structure: it sees everything but names and locations.
    """

    __slots__ = ("body",)

    def __init__(self, functions: Sequence[Op] = ()):
        self.body = Region()
        for function in functions:
            self.body.append(function)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.body)

    def walk(self) -> Sequence[Op]:
        return self.body.walk()

    def values(self) -> Iterator[Value]:
        """Every value that is defined, in program order; a copy gives its own in the same order."""
        for op in self.walk():
            yield from op.results
            for region in op.regions:
                yield from region.arguments

    def clone(self) -> Module:
        copy = Module()
        copy.body = Region.like(self.body, {})
        return copy

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Module):
            return NotImplemented
        return same_structure(self.body, other.body, {})

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        from iris.ir.text.printer import to_text  # the text room builds on the core

        return to_text(self)


def same_structure(a: Region, b: Region, mapping: dict[Value, Value]) -> bool:
    """Whether two regions are equal but for names and locations; `mapping` has the value of
    `b` that stands for each one of `a` defined so far."""
    if [v.type for v in a.arguments] != [v.type for v in b.arguments]:
        return False
    mapping.update(zip(a.arguments, b.arguments, strict=True))
    x, y = a.first, b.first
    while x is not None and y is not None:
        if not _same_op(x, y, mapping):
            return False
        x, y = x.next, y.next
    return x is None and y is None


def _same_op(a: Op, b: Op, mapping: dict[Value, Value]) -> bool:
    if type(a) is not type(b) or a.attributes != b.attributes:
        return False
    if [mapping.get(v, v) for v in a.operands] != list(b.operands):
        return False
    if [v.type for v in a.results] != [v.type for v in b.results]:
        return False
    if len(a.regions) != len(b.regions) or not all(
        same_structure(x, y, mapping) for x, y in zip(a.regions, b.regions, strict=True)
    ):
        return False
    mapping.update(zip(a.results, b.results, strict=True))
    return True


#: Every facet of the modules that have been imported.
FACETS: list[Facet] = []


class Facet:
    """A table from op class to what one room says of it: how to run it, fold it, emit it.

        fold = Facet("fold")

        @fold(Add)
        def fold_add(op): ...

    A class inherits what is registered for its base.  A missing entry is an error that names
    both the op and the facet.
    """

    def __init__(self, what: str):
        FACETS.append(self)
        self.what = what
        self._entries: dict[type[Op], Any] = {}
        self._found = _Found(self._inherited)
        #: The entry for an op class, or None.  It is a bare lookup: a compile makes thousands.
        self.get: Callable[[type[Op]], Any | None] = self._found.__getitem__

    def __call__(self, *classes: type[Op]) -> Callable[[T], T]:
        def register(entry: T) -> T:
            for cls in classes:
                if cls in self._entries:
                    raise DeclarationError(f"{cls.name} has two {self.what} rules")
                self._entries[cls] = entry
            self._found.clear()
            return entry

        return register

    def _inherited(self, cls: type[Op]) -> Any | None:
        """The entry of the class that `owner` finds."""
        owner = self.owner(cls)
        return None if owner is None else self._entries[owner]

    def owner(self, cls: type[Op]) -> type[Op] | None:
        """The class whose entry an op class has: itself, a base, or None."""
        return next((base for base in cls.__mro__ if base in self._entries), None)

    def __getitem__(self, cls: type[Op]) -> Any:
        entry = self._found[cls]
        if entry is None:
            raise DeclarationError(f"{cls.name} has no rule for {self.what!r}")
        return entry


class _Found(dict[type[Op], Any]):
    """The entries of a facet by op class, each found when first asked for."""

    def __init__(self, find: Callable[[type[Op]], Any | None]):
        super().__init__()
        self._find = find

    def __missing__(self, cls: type[Op]) -> Any | None:
        entry = self[cls] = self._find(cls)
        return entry
