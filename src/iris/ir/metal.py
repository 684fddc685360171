"""Metal IR: what one thread does, explicit about the machine.

A thread has scalars and register arrays, `regs<16xf32>`, to which the shared math applies element
by element.  `choose-register-shapes` says in their types how each is held: `regs<4x4xf32>`, as 4
vectors of 4.

A thread knows its lane, its simdgroup and its threadgroup, which runs one program of the grid.
Memory is that of the device, behind pointers, or that of the threadgroup, in allocations.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache

from iris.errors import VerifyError
from iris.ir.attributes import Boolean, Integer, Integers, OneOf, String, Types
from iris.ir.core import Effect, Level, Op, Region, Resource, Value
from iris.ir.declare import (
    CONDITION,
    ELEMENTS,
    FLOATS,
    INTEGER,
    MEMORY,
    POINTER,
    REGISTERS,
    SCALAR,
    THREADGROUP,
    Access,
    attribute,
    operand,
    optional,
    region,
    result,
    results,
    variadic,
)
from iris.ir.effects import ACQUIRES, VOLATILE
from iris.ir.kinds import AtomicKind
from iris.ir.math import element_type
from iris.ir.types import (
    DType,
    ElementType,
    Ptr,
    Registers,
    Threadgroup,
    Type,
    bool_,
    f32,
    i32,
    i64,
)

SIMDGROUP_WIDTH = 32
VECTOR_BYTES = 16  # the most that a thread loads or stores at once
FRAGMENT_SIZE = 8  # rows and columns of a fragment of a matrix
FRAGMENT_LANES = 2  # elements that a lane holds of a fragment of a matrix
TENSOR_PRODUCT = 16, 32, 16  # rows, columns and terms of the least product of tensors
VECTOR = 4  # elements that a vector has at most; more in one variable are words of 32 bits


class MetalOp(Op):
    level = Level.METAL


def registers(count: int, element: DType) -> ElementType:
    """The type of `count` elements that a thread holds; one alone is a scalar."""
    return element if count == 1 else Registers(count, element)


@lru_cache(maxsize=1024)
def count_of(type_: Type) -> int:
    """How many elements a thread holds in a value of a type."""
    shape = element_type(type_).shape
    return shape[0] if shape else 1


def fragments_of(value: Value) -> int:
    """How many fragments of a matrix a value holds."""
    return count_of(value.type) // FRAGMENT_LANES


def lanes_of(type_: Type) -> int:
    """How many elements of a value one variable holds: as its type says, or as is usual."""
    if isinstance(type_, Registers) and type_.lanes is not None:
        return type_.lanes
    return usual_lanes(count_of(type_))


def usual_lanes(count: int) -> int:
    """How many elements of an array one variable holds, unless another shape is chosen: a vector,
    if it divides the array."""
    if count <= 2:
        return count
    return 1 if count % VECTOR else VECTOR


def moves_words(base: Value, value: Value) -> bool:
    """Whether an access moves elements that only words, of 32 bits, make a vector of."""
    memory = base.type
    is_aligned = isinstance(memory, Threadgroup) or (isinstance(memory, Ptr) and memory.aligned)
    return is_aligned and count_of(value.type) > VECTOR


def is_like(one: Type, other: Type) -> bool:
    """Whether types are of as many elements of one dtype, which may be held otherwise."""
    if isinstance(one, Registers) and isinstance(other, Registers):
        return one.shape == other.shape and one.element is other.element
    return one is other


# Where a thread is.


class _Position(MetalOp):
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        return (i32,)


class Lane(_Position):
    """The number of the thread in its simdgroup, 0 to 31.

    %lane: i32 = metal.lane
    """

    name = "metal.lane"


class Simdgroup(_Position):
    """The number of the simdgroup in its threadgroup.

    %simdgroup: i32 = metal.simdgroup
    """

    name = "metal.simdgroup"


class ThreadgroupId(_Position):
    """Which threadgroup this is, along an axis of the grid.

    %row: i32 = metal.threadgroup_id 0
    """

    name = "metal.threadgroup_id"
    axis: int = attribute(Integer(0, 2))


class NumThreadgroups(_Position):
    """How many threadgroups there are, along an axis of the grid.

    %rows: i32 = metal.num_threadgroups 0
    """

    name = "metal.num_threadgroups"
    axis: int = attribute(Integer(0, 2))


class Extent(_Position):
    """The size of the array behind an argument, along an axis.

    %m: i32 = metal.extent 0 %A
    """

    name = "metal.extent"
    axis: int = attribute(Integer(0, 7))
    base: Value = operand(POINTER)


# Register arrays.


class Splat(MetalOp):
    """A scalar in every element of a register array.

    %v: regs<4xf32> = metal.splat %x
    """

    name = "metal.splat"
    x: Value = operand(SCALAR)
    result: Value = result(REGISTERS)

    def check(self) -> None:
        _check_same_element(self, self.x, self.result, "result")


class Literal(MetalOp):
    """Integers, one for each element.

    %v: regs<4xi32> = metal.literal [0, 1, 2, 3]
    """

    name = "metal.literal"
    values: tuple[int, ...] = attribute(Integers())
    result: Value = result(REGISTERS)

    def check(self) -> None:
        type_ = element_type(self.result.type)
        if not type_.element.is_integer:
            raise self.invalid(f"the elements are integers, not {type_.element}", at="result")
        if len(self.values) != type_.shape[0]:
            raise self.invalid(f"{len(self.values)} values for {type_}", at="values")
        for value in self.values:
            if not type_.element.low <= value <= type_.element.high:
                raise self.invalid(f"{value} does not fit {type_.element}", at="values")


class Pattern(MetalOp):
    """Integers that are linear over F2 in the element's number: the xor of the images of its bits.

    %v: regs<8xi32> = metal.pattern [1, 2, 128]

    holds 0, 1, 2, 3, 128, 129, 130, 131.
    """

    name = "metal.pattern"
    images: tuple[int, ...] = attribute(Integers())
    result: Value = result(REGISTERS)

    def check(self) -> None:
        type_ = element_type(self.result.type)
        if not type_.element.is_integer:
            raise self.invalid(f"the elements are integers, not {type_.element}", at="result")
        if 1 << len(self.images) != type_.shape[0]:
            raise self.invalid(f"{len(self.images)} images for {type_}", at="images")
        for image in self.images:
            if not 0 <= image <= type_.element.high:
                raise self.invalid(f"{image} is negative or does not fit {type_}", at="images")


class Take(MetalOp):
    """Elements by number, in any order, any number of times; one alone is a scalar.

    %even: regs<2xf32> = metal.take [0, 2] %v
    """

    name = "metal.take"
    indices: tuple[int, ...] = attribute(Integers())
    x: Value = operand(REGISTERS)
    result: Value = result(ELEMENTS)

    def check(self) -> None:
        count = count_of(self.x.type)
        if not self.indices:
            raise self.invalid("nothing is taken", at="indices")
        for index in self.indices:
            if not 0 <= index < count:
                raise self.invalid(f"{self.x.type} has no element {index}", at="indices")
        _check_made(self, registers(len(self.indices), self.x.type.element))


def take(indices: Sequence[int], x: Value) -> Take:
    """Takes elements, into an array of no chosen shape."""
    return Take(tuple(indices), x, registers(len(indices), x.type.element))


class Join(MetalOp):
    """The elements of several values, one after the other.

    %v: regs<4xf32> = metal.join %low, %high
    """

    name = "metal.join"
    parts: tuple[Value, ...] = variadic(ELEMENTS)
    result: Value = result(ELEMENTS)

    def check(self) -> None:
        if not self.operands:
            raise self.invalid("nothing is joined", at="parts")
        element = element_type(self.operands[0].type).element
        for index, part in enumerate(self.operands):
            if element_type(part.type).element is not element:
                message = f"{part.type} does not go with {element}"
                raise self.invalid(message, at="parts", index=index)
        _check_made(self, registers(sum(count_of(v.type) for v in self.operands), element))


def join(parts: Sequence[Value]) -> Join:
    """Joins values, to an array of no chosen shape."""
    return Join(parts, registers(sum(count_of(v.type) for v in parts), parts[0].type.element))


class Slice(MetalOp):
    """One of the equal parts of a register array, by a number that need not be a constant.

    %part: regs<4xf32> = metal.slice %v, %i

    The part numbered 1 has the elements 4 to 7.
    """

    name = "metal.slice"
    x: Value = operand(REGISTERS)
    index: Value = operand(INTEGER)
    result: Value = result(ELEMENTS)

    def check(self) -> None:
        _check_same_element(self, self.x, self.result, "result")
        whole, part = count_of(self.x.type), count_of(self.result.type)
        if not part or whole % part:
            raise self.invalid(f"{self.x.type} has no parts of {part}", at="result")


class Insert(MetalOp):
    """An array with another element in one place, by a number that need not be a constant.

    %w: regs<4xf32> = metal.insert %v, %i, %x
    """

    name = "metal.insert"
    x: Value = operand(REGISTERS)
    index: Value = operand(INTEGER)
    element: Value = operand(SCALAR)
    result: Value = result(REGISTERS)

    def check(self) -> None:
        _check_same_element(self, self.x, self.element, "element")
        if not is_like(self.x.type, self.result.type):
            message = f"the result is {self.x.type}, not {self.result.type}"
            raise self.invalid(message, at="result", expected=self.x.type)


class Foreach(MetalOp):
    """Runs its region for each number below a count, in any order, and joins what it yields.

    %y: regs<16xf32> = metal.foreach 4 (%i: i32) {
      %part: regs<4xf32> = metal.slice %x, %i
      %e: regs<4xf32> = exp %part
      yield %e
    }

    `in_place` has, for each result, the number of the array whose variable its parts overwrite, or
    -1: `in_place=[-1, 0]`.  The arrays are those that the body slices, in order.
    """

    name = "metal.foreach"
    loops = True
    count: int = attribute(Integer(1, 2**31 - 1))
    in_place: tuple[int, ...] = attribute(Integers(), ())
    body: Region = region()
    results = results()

    def region_arguments(self) -> Sequence[Sequence[Type]]:
        return [(i32,)]

    def expects(self, region: Region) -> Sequence[Type]:
        types = [element_type(v.type) for v in self.results]
        parts = [registers(count_of(t) // self.count, t.element) for t in types]
        # A part may be held otherwise than the whole.
        given = [v.type for v in region.end.operands[: len(parts)]]
        alike = [g if is_like(g, t) else t for g, t in zip(given, parts, strict=False)]
        return [*alike, *parts[len(given) :]]

    def forwards(self, region: Region) -> bool:
        return False

    def surely_runs(self, region: Region) -> bool:
        return True

    def may_speculate(self) -> bool:
        return True

    def check(self) -> None:
        for index, value in enumerate(self.results):
            if not isinstance(value.type, ElementType) or count_of(value.type) % self.count:
                message = f"{value.type} cannot be joined of {self.count} equal parts"
                raise self.invalid(message, at="results", index=index)
        if self.in_place and len(self.in_place) != len(self.results):
            message = f"{len(self.in_place)} numbers for {len(self.results)} results"
            raise self.invalid(message, at="in_place")

    def sliced(self) -> list[Value]:
        """The arrays that the body slices, in order."""
        return list({op.x: None for op in self.body if isinstance(op, Slice)})


# Memory.


class Alloc(MetalOp):
    """Allocates threadgroup memory; its contents are undefined until they are written.

    %shared: threadgroup<128xf32> = metal.alloc
    """

    name = "metal.alloc"
    result: Value = result(THREADGROUP, access=Access.ALLOCATE)


class View(MetalOp):
    """A part of an allocation, from a byte on, as elements of another dtype.

    %b: threadgroup<64xi32> = metal.view 512 %arena
    """

    name = "metal.view"
    start: int = attribute(Integer(0))
    x: Value = operand(THREADGROUP)
    result: Value = result(THREADGROUP)

    def check(self) -> None:
        whole, part = self.x.type_as(Threadgroup), self.result.type_as(Threadgroup)
        if self.start + part.bytes > whole.bytes:
            raise self.invalid(f"{part} from byte {self.start} on does not fit {whole}", at="start")
        if self.start % part.element.bytes:
            raise self.invalid(f"{part} cannot start at byte {self.start}", at="start")


class Load(MetalOp):
    """An element of memory, or as many neighbours as the result has, a power of two and 16 bytes at
    most; where the mask is false, `other`, and no memory is touched.

    %v: regs<4xf32> = metal.load %X, %offset, mask=%inside, other=%zero

    The offset counts elements, and is a multiple of how many are loaded.  A `volatile` load, of one
    element, reads memory each time that the thread comes to it.
    """

    name = "metal.load"
    volatile: bool = attribute(Boolean(), False)
    base: Value = operand(MEMORY, access=Access.READ)
    offset: Value = operand(INTEGER, is_address=True)
    mask: Value | None = optional(CONDITION)
    other: Value | None = optional(ELEMENTS)
    result: Value = result(ELEMENTS)

    def check(self) -> None:
        _check_access(self, self.result, "result")
        if self.volatile and count_of(self.result.type) > 1:
            message = f"a volatile load is of one element, not of {self.result.type}"
            raise self.invalid(message, at="volatile")
        if self.mask is not None and self.other is None:
            raise self.invalid("a mask needs other=, the value where it is false", at="mask")
        if self.other is not None and self.other.type is not self.result.type:
            message = f"other is {self.other.type} where {self.result.type} goes"
            raise self.invalid(message, at="other")

    def effects(self) -> Sequence[Effect]:
        touched = super().effects()
        return [*touched, VOLATILE] if self.volatile else touched


class Copy(MetalOp):
    """Begins to copy neighbours, of 4, 8 or 16 bytes, from device memory to memory of the
    threadgroup; where the mask is false, zeros.

    metal.copy 8 %shared, %at, %X, %offset, mask=%inside

    Both offsets count elements, and are multiples of how many are copied.  Until the thread has
    waited for it, by `metal.wait_copies`, nobody may touch the elements there, or write those in
    the source; other threads may after a barrier that comes after that wait.
    """

    name = "metal.copy"
    count: int = attribute(Integer(1, VECTOR_BYTES))
    base: Value = operand(THREADGROUP, access=Access.WRITE)
    offset: Value = operand(INTEGER, is_address=True)
    source: Value = operand(POINTER, access=Access.READ)
    source_offset: Value = operand(INTEGER, is_address=True)
    mask: Value | None = optional(CONDITION)

    def infer(self) -> tuple[Type, ...]:
        to, source = self.base.type_as(Threadgroup), self.source.type_as(Ptr)
        if to.element is not source.element:
            raise self.invalid(f"{source} is not copied to {to}", at="source")
        if self.count * to.element.bytes not in (4, 8, VECTOR_BYTES):
            message = f"{self.count} elements of {to.element} are not 4, 8 or {VECTOR_BYTES} bytes"
            raise self.invalid(message, at="count")
        if not source.aligned:
            raise self.invalid(f"{source} is not said to be aligned", at="source")
        for field in ("offset", "source_offset"):
            if getattr(self, field).type not in (i32, i64):
                type_ = getattr(self, field).type
                raise self.invalid(f"offsets are i32 or i64, not {type_}", at=field)
        return ()


class WaitCopies(MetalOp):
    """Waits for the copies that the thread has begun; not for those begun since the wait before
    this one, nor the one before that, and so on, as far as they are the `latest` ones.

    metal.wait_copies 1

    Here copies may go on that were begun since the last `wait_copies`.
    """

    name = "metal.wait_copies"
    convergent = True
    latest: int = attribute(Integer(0))

    def infer(self) -> tuple[Type, ...]:
        return ()

    def effects(self) -> Sequence[Effect]:
        return (Effect(Access.UPDATE, Resource.MEMORY),)


class LoadRows(MetalOp):
    """Loads fragments of matrices from threadgroup memory, up to four of 16 bits, row by row.

    %a: regs<8xf16> = metal.load_rows %shared, %offset

    Each lane gives the offset of one row of 8 elements, a multiple of 8; `FRAGMENT_ROWS` has the
    number of the row and of its fragment.  The lane gets its two elements of each fragment, one
    after the other.  With `transposed`, a row in memory is a column of its fragment.
    """

    name = "metal.load_rows"
    convergent = True
    transposed: bool = attribute(Boolean(), False)
    base: Value = operand(THREADGROUP, access=Access.READ)
    offset: Value = operand(INTEGER, is_address=True)
    result: Value = result(FLOATS)

    def check(self) -> None:
        memory, type_ = self.base.type_as(Threadgroup), element_type(self.result.type)
        if type_.element is not memory.element:
            raise self.invalid(f"{type_} does not go with {memory}", at="result")
        if type_.element.bits != 16:
            raise self.invalid(f"elements must have 16 bits, not as {type_} has", at="result")
        if count_of(type_) not in (2, 4, 8):
            raise self.invalid(f"{type_} is not one, two or four fragments", at="result")
        if self.offset.type not in (i32, i64):
            raise self.invalid(f"offsets are i32 or i64, not {self.offset.type}", at="offset")


class Store(MetalOp):
    """Writes an element of memory, or as many neighbours as the value has, a power of two and 16
    bytes at most, where the mask is true.

    metal.store %X, %offset, %v, mask=%inside

    The offset counts elements, and is a multiple of how many are stored.
    """

    name = "metal.store"
    base: Value = operand(MEMORY, access=Access.WRITE)
    offset: Value = operand(INTEGER, is_address=True)
    value: Value = operand(ELEMENTS)
    mask: Value | None = optional(CONDITION)

    def infer(self) -> tuple[Type, ...]:
        _check_access(self, self.value, "value")
        return ()


class _AtomicOp(MetalOp):
    """An access in one step.  The hardware has 32-bit ones."""

    base: Value = operand(MEMORY, access=Access.UPDATE)
    offset: Value = operand(INTEGER, is_address=True)

    def _element(self) -> DType:
        element = _memory(self.base.type).element
        if element.bits != 32:
            raise self.invalid(f"atomics are of 32 bits, not of {element}", at="base")
        if self.offset.type not in (i32, i64):
            raise self.invalid(f"offsets are i32 or i64, not {self.offset.type}", at="offset")
        return element


class AtomicLoad(_AtomicOp):
    """An element of memory that other threads may be writing by atomics.

    %old: f32 = metal.atomic_load %X, %offset
    """

    name = "metal.atomic_load"
    base: Value = operand(MEMORY, access=Access.READ)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        return (self._element(),)


class Atomic(_AtomicOp):
    """Combines an element of memory with a value in one step, and gives the old element.

    %old: i32 = metal.atomic add %Bins, %offset, %one
    """

    name = "metal.atomic"
    kind: AtomicKind = attribute(OneOf(AtomicKind))
    value: Value = operand(SCALAR)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        element = self._element()
        if self.value.type is not element:
            raise self.invalid(f"value is {self.value.type} where {element} goes", at="value")
        if element.is_float and self.kind is not AtomicKind.EXCHANGE:
            raise self.invalid(f"{self.kind.value} is of integers, not {element}", at="kind")
        return (element,)


class CompareExchange(_AtomicOp):
    """Writes a value if the element's bits are the expected ones, in one step; gives the old
    element, and whether it wrote, which it may fail to do for no reason.

    %old: f32, %done: bool = metal.compare_exchange %X, %offset, %expected, %new
    """

    name = "metal.compare_exchange"
    expected: Value = operand(SCALAR)
    value: Value = operand(SCALAR)
    old: Value = result()
    done: Value = result()

    def infer(self) -> tuple[Type, ...]:
        element = self._element()
        for field, value in (("expected", self.expected), ("value", self.value)):
            if value.type is not element:
                raise self.invalid(f"{field} is {value.type} where {element} goes", at=field)
        return (element, bool_)


# The threads of a simdgroup and of a threadgroup together.


class Scope(Enum):
    """Whose memory accesses a barrier orders."""

    SIMDGROUP = "simdgroup"
    THREADGROUP = "threadgroup"
    DEVICE = "device"


class Barrier(MetalOp):
    """Waits for the threads of a simdgroup, or of the threadgroup, and makes their accesses to
    threadgroup memory seen; `device` waits for the threadgroup, and is for device memory, too.

    metal.barrier threadgroup
    """

    name = "metal.barrier"
    convergent = True
    scope: Scope = attribute(OneOf(Scope))

    def infer(self) -> tuple[Type, ...]:
        return ()

    def effects(self) -> Sequence[Effect]:
        return (Effect(Access.UPDATE, Resource.MEMORY),)


class Fence(MetalOp):
    """Orders the accesses of a thread to device memory before it and after it, for the threads of
    other threadgroups that learn of it by an atomic op or a volatile load.

    metal.fence
    """

    name = "metal.fence"

    def infer(self) -> tuple[Type, ...]:
        return ()

    def effects(self) -> Sequence[Effect]:
        return (ACQUIRES,)


class _Exchange(MetalOp):
    """What lanes give each other: of each element of `x`, what another lane has there."""

    convergent = True
    x: Value = operand(ELEMENTS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        return (self.x.type,)


class ShuffleXor(_Exchange):
    """The value that the lane numbered this lane's number xor `mask` holds.

    %other: f32 = metal.shuffle_xor 8 %x
    """

    name = "metal.shuffle_xor"
    mask: int = attribute(Integer(1, SIMDGROUP_WIDTH - 1))
    x: Value = operand(ELEMENTS)


class Shuffle(_Exchange):
    """The value that a lane holds, which each lane names for itself.

    %other: f32 = metal.shuffle %x, %lane
    """

    name = "metal.shuffle"
    x: Value = operand(ELEMENTS)
    lane: Value = operand(INTEGER)


class Broadcast(_Exchange):
    """The value that one lane holds, the same for all.

    %first: f32 = metal.broadcast 0 %x
    """

    name = "metal.broadcast"
    lane: int = attribute(Integer(0, SIMDGROUP_WIDTH - 1))
    x: Value = operand(ELEMENTS)


class Mma(MetalOp):
    """Multiplies and adds fragments: fragment (i, j) of the result is fragment (i, j) of `acc` plus
    fragment i of `a` times fragment j of `b`. A fragment is an 8x8 matrix; each lane holds two
    neighbours in a row.

    %acc2: regs<32xf32> = metal.mma %a, %b, %acc

    An array holds its fragments one after the other, a grid of them row by row.  With `depth=2`
    `a` has two columns of fragments, and `b` as many rows: each pair of rows of `a` has its columns
    one after the other, and so has each column of `b` its rows (`place_in_a`, `place_in_b`).  With
    `transposed` the fragments of `b` are transposed: a lane holds two neighbours in a column.  With
    `in_place` the result overwrites the variable of `acc`, which nothing else reads.  With
    `serpentine` every other row is computed backwards, if the number of columns is a power of two.

    With `tensors` four fragments make a 16x16 matrix, in which a lane holds four neighbours of each
    of two rows (`TENSOR_FRAGMENT`), and these are multiplied: with `depth=2`, an even number of
    rows, and columns in fours, as Metal 4's `matmul2d` takes two such matrices beside each other.
    With `tf32` operands of f32 are numbers of tf32, or nan.
    """

    name = "metal.mma"
    convergent = True
    depth: int = attribute(Integer(1), 1)
    transposed: bool = attribute(Boolean(), False)
    in_place: bool = attribute(Boolean(), False)
    serpentine: bool = attribute(Boolean(), False)
    tensors: bool = attribute(Boolean(), False)
    tf32: bool = attribute(Boolean(), False)
    a: Value = operand(FLOATS)
    b: Value = operand(FLOATS)
    acc: Value = operand(FLOATS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        a, b, acc = (element_type(v.type) for v in self.operands)
        for field, type_ in (("a", a), ("b", b)):
            if count_of(type_) % (FRAGMENT_LANES * self.depth):
                many = "fragments" if self.depth == 1 else f"fragments for a depth of {self.depth}"
                raise self.invalid(f"{type_} is no whole number of {many}", at=field)
        if a.element is not b.element:
            raise self.invalid(f"{a.element} and {b.element} do not multiply", at="b")
        wanted = registers(FRAGMENT_LANES * self.rows * self.columns, f32)
        if not is_like(acc, wanted):
            raise self.invalid(f"the product of {a} and {b} is added to {wanted}", at="acc")
        if self.tf32 and a.element is not f32:
            raise self.invalid(f"operands of tf32 are of f32, not of {a.element}", at="tf32")
        if self.serpentine and self.columns.bit_count() != 1:
            raise self.invalid(f"{b} has no power of two of columns to go back over", at="b")
        if self.tensors:
            self._check_tensors()
        return (acc,)

    def _check_tensors(self) -> None:
        if self.depth != 2 or self.transposed or self.serpentine:
            message = "tensors have a depth of 2, and are neither transposed nor serpentine"
            raise self.invalid(message, at="tensors")
        for field, count, whole in (("a", self.rows, 2), ("b", self.columns, 4)):
            if count % whole:
                message = f"tensors are of {whole} fragments and multiples, not of {count}"
                raise self.invalid(message, at=field)

    @property
    def rows(self) -> int:
        """How many fragments the sum has below each other."""
        return fragments_of(self.a) // self.depth

    @property
    def columns(self) -> int:
        """How many fragments the sum has beside each other."""
        return fragments_of(self.b) // self.depth

    def place_in_a(self, row: int, step: int) -> int:
        """Which of its fragments `a` has in a row, so far along the depth."""
        together = 1 if self.rows % 2 else 2
        return (row // together * self.depth + step) * together + row % together

    def place_in_b(self, step: int, column: int) -> int:
        """Which of its fragments `b` has in a column, so far along the depth."""
        return column * self.depth + step


class MmaShared(MetalOp):
    """Multiplies two matrices in threadgroup memory, and adds the product to fragments: `acc` has
    the layout of `metal.mma` with `tensors`.  Metal 4's `matmul2d` takes factors from memory, too.

    %acc2: regs<32xf32> = metal.mma_shared [16, 32, 64] [72, 40] %a, %a_start, %b, %b_start, %acc

    The first list has the rows, columns and terms of the product: multiples of 16, 32 and 16.  Both
    factors are row-major; the second list has the distances between their rows.  All lanes of a
    simdgroup say that a factor starts at the same element.  `in_place` and `tf32` are as in
    `metal.mma`.
    """

    name = "metal.mma_shared"
    convergent = True
    shape: tuple[int, ...] = attribute(Integers())
    strides: tuple[int, ...] = attribute(Integers())
    in_place: bool = attribute(Boolean(), False)
    tf32: bool = attribute(Boolean(), False)
    a: Value = operand(THREADGROUP, access=Access.READ)
    a_start: Value = operand(INTEGER, is_address=True)
    b: Value = operand(THREADGROUP, access=Access.READ)
    b_start: Value = operand(INTEGER, is_address=True)
    acc: Value = operand(FLOATS)
    result: Value = result()

    def infer(self) -> tuple[Type, ...]:
        a, b, acc = self.a.type_as(Threadgroup), self.b.type_as(Threadgroup), self.acc.type
        for field, least in (("shape", TENSOR_PRODUCT), ("strides", (1, 1))):
            numbers = getattr(self, field)
            whole = len(numbers) == len(least) and all(
                n > 0 and n % one == 0 for n, one in zip(numbers, least, strict=True)
            )
            if not whole:
                message = f"{list(numbers)} are not multiples of {list(least)}"
                raise self.invalid(message, at=field)
        if a.element is not b.element or not a.element.is_float:
            raise self.invalid(f"{a.element} and {b.element} do not multiply", at="b")
        rows, columns, depth = self.shape
        for field, memory, last, width in (("a", a, rows, depth), ("b", b, depth, columns)):
            stride = self.strides[field == "b"]
            if (last - 1) * stride + width > memory.count:
                raise self.invalid(f"{memory} has no room for a factor", at=field)
        for field in ("a_start", "b_start"):
            if getattr(self, field).type not in (i32, i64):
                type_ = getattr(self, field).type
                raise self.invalid(f"offsets are i32 or i64, not {type_}", at=field)
        wanted = registers(rows * columns // SIMDGROUP_WIDTH, f32)
        if not is_like(element_type(acc), wanted):
            raise self.invalid(f"such a product is added to {wanted}, not {acc}", at="acc")
        if self.tf32 and a.element is not f32:
            raise self.invalid(f"operands of tf32 are of f32, not of {a.element}", at="tf32")
        return (acc,)


# Reports.


class Assert(MetalOp):
    """Reports a program error where a condition does not hold.

    metal.assert "index out of range" %inside
    """

    name = "metal.assert"
    message: str = attribute(String())
    condition: Value = operand(CONDITION)

    def infer(self) -> tuple[Type, ...]:
        return ()

    def effects(self) -> Sequence[Effect]:
        return (Effect(Access.WRITE, Resource.REPORT),)


class Print(MetalOp):
    """Reports tiles and scalars of a program, after a prefix.  A thread gives some elements of
    each, and for each of these its row-major number, or -1 where another thread gives it.

    metal.print "row" [tile<64xf32>] values=[%x], places=[%at]
    """

    name = "metal.print"
    prefix: str = attribute(String())
    types: tuple[Type, ...] = attribute(Types())
    values: tuple[Value, ...] = variadic(ELEMENTS)
    places: tuple[Value, ...] = variadic(ELEMENTS)

    def infer(self) -> tuple[Type, ...]:
        if len(self.types) != len(self.values):
            raise self.invalid(f"{len(self.types)} types for {len(self.values)} values", at="types")
        for index, (type_, x, at) in enumerate(
            zip(self.types, self.values, self.places, strict=True)
        ):
            if element_type(type_).element is not element_type(x.type).element:
                raise self.invalid(f"{x.type} is no part of {type_}", at="values", index=index)
            if not is_like(at.type, element_type(x.type).with_element(i32)):
                message = f"{at.type} does not number the elements of {x.type}"
                raise self.invalid(message, at="places", index=index)
        return ()

    def effects(self) -> Sequence[Effect]:
        return (Effect(Access.WRITE, Resource.REPORT),)


def _memory(type_: Type) -> Ptr | Threadgroup:
    """The type of a base, of which the declaration has said that it is memory."""
    if not isinstance(type_, (Ptr, Threadgroup)):
        raise VerifyError(f"{type_} is no memory")
    return type_


def _check_made(op: Take | Join, type_: ElementType) -> None:
    if not is_like(op.result.type, type_):
        message = f"the result is {type_}, not {op.result.type}"
        raise op.invalid(message, at="results", expected=type_)


def _check_same_element(op: Op, one: Value, other: Value, at: str) -> None:
    if element_type(one.type).element is not element_type(other.type).element:
        raise op.invalid(f"{one.type} and {other.type} differ in dtype", at=at)


def _check_access(op: Load | Store, moved: Value, at: str) -> None:
    """What is moved has the dtype of the memory, and a size that one access can move."""
    memory, type_ = _memory(op.base.type), element_type(moved.type)
    if type_.element is not memory.element:
        raise op.invalid(f"{type_} does not go with {memory}", at=at)
    count = count_of(type_)
    if count & count - 1 or count * type_.element.bytes > VECTOR_BYTES:
        message = f"one access moves 1, 2, 4, ... elements, together {VECTOR_BYTES} bytes at most"
        raise op.invalid(f"{message}, not {type_}", at=at)
    if op.offset.type not in (i32, i64):
        raise op.invalid(f"offsets are i32 or i64, not {op.offset.type}", at="offset")
