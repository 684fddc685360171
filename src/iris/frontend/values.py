"""What a traced program computes with: tiles and scalars, and pointers.

A `Traced` stands for an IR value; operators on it emit ops.  Python numbers are weak: they take
the dtype of what they meet.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeGuard

from iris.errors import (
    ArgumentError,
    ControlFlowError,
    DTypeError,
    LanguageError,
    PointerError,
    ShapeError,
)
from iris.frontend.numbers import VariableFloat, VariableInt, VariableNumber
from iris.frontend.specs import ArraySpec
from iris.frontend.tracing import current, error_here, is_tracing, rules_as, running_text
from iris.ir import literal, math, metal, tile
from iris.ir.attributes import is_text
from iris.ir.core import Level, Op, Value
from iris.ir.math import Constant, Predicate, element_type
from iris.ir.types import (
    DTYPES,
    DType,
    ElementType,
    Kind,
    Ptr,
    Registers,
    Tile,
    Type,
    bool_,
    f32,
    i32,
    i64,
    u32,
    u64,
)

Number: TypeAlias = "bool | int | float"
Operand: TypeAlias = "Traced | bool | int | float"

_of_dtypes = rules_as(DTypeError)


class Traced:
    """A tile or a scalar of the program being traced."""

    __slots__ = ("value",)
    value: Value

    def __init__(self, value: Value):
        object.__setattr__(self, "value", value)

    def _reject_change(self, *change: object) -> NoReturn:
        instead = "a tile is never changed; make another, as with iris.where"
        if isinstance(self.value.type, Registers):
            instead = "a vector is never changed; make another, as in metal.float2(x, v.y)"
        raise error_here(LanguageError, instead)

    __setattr__ = __delattr__ = __setitem__ = __delitem__ = _reject_change

    @property
    def dtype(self) -> DType:
        return self.value.type.element

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.type.shape  # type: ignore[attr-defined,no-any-return]

    @property
    def T(self) -> Traced:
        """The tile with its last two axes swapped."""
        rank = len(self.shape)
        if rank < 2:
            raise error_here(ShapeError, f".T needs two dimensions; this is {self}")
        axes = (*range(rank - 2), rank - 1, rank - 2)
        return emit(tile.Transpose(axes, self.value))

    def to(self, dtype: DType | str, *how: Any, **named: Any) -> Traced:
        """The same numbers in another dtype."""
        converted: Traced = current().vocabulary.to(self, dtype, *how, **named)
        return converted

    def __getitem__(self, key: object) -> Traced:
        if isinstance(self.value.type, Registers):
            return component(self, key)
        return _index(self, key if isinstance(key, tuple) else (key,))

    def __repr__(self) -> str:
        return f"a traced {self.value.type}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name, name=name, obj=self)
        if isinstance(self.value.type, Registers) and set(name) <= _COMPONENTS.keys():
            return taken(self, [_COMPONENTS[letter] for letter in name])
        return current().vocabulary.attribute(self, name)

    # What Python would need a number for.

    def _no_number(self, use: str) -> NoReturn:
        function = re.match(r"(?:math|numpy|np)\.(\w+)\(", running_text())
        if function is not None:
            raise error_here(
                ControlFlowError,
                f"{function[0]}...) needs a number while the kernel is traced, but {self} is known "
                f"only when it runs{_instead(function[1])}",
            )
        raise error_here(
            ControlFlowError,
            f"{use} needs a number while the kernel is traced, but {self} is known only when it "
            f"runs; {constant_advice(self)} (a range over it must stand in the for itself)",
        )

    def __bool__(self) -> bool:
        if self.shape:
            raise error_here(
                ControlFlowError,
                f"a condition is a scalar, but this is {self}; use iris.where to choose element "
                "by element, or iris.any or iris.all for one answer",
            )
        raise error_here(
            ControlFlowError,
            f"{self} cannot be a condition here: only if, while, assert, and, or, not and the like "
            "in the text of a kernel and of the functions that it calls take one; for min, max, "
            "x in (a, b) there are iris.minimum, iris.maximum, (x == a) | (x == b)",
        )

    def __index__(self) -> int:
        self._no_number("this")

    def __complex__(self) -> complex:
        self._no_number("complex()")

    def __int__(self) -> int:
        self._no_number("int()")

    def __float__(self) -> float:
        self._no_number("float()")

    def __round__(self, digits: int | None = None) -> NoReturn:
        raise error_here(LanguageError, "round() gives a number; for tiles write iris.round(x)")

    def __floor__(self) -> NoReturn:
        raise error_here(LanguageError, "math.floor gives a number; for tiles write iris.floor(x)")

    def __ceil__(self) -> NoReturn:
        raise error_here(LanguageError, "math.ceil gives a number; for tiles write iris.ceil(x)")

    def __trunc__(self) -> NoReturn:
        raise error_here(LanguageError, "math.trunc gives a number; write x.to(iris.i32)")

    def __format__(self, spec: str) -> str:
        if spec:
            raise error_here(
                LanguageError,
                f"{self} is known only when the kernel runs; print it with iris.device_print",
            )
        return repr(self)

    def __iter__(self) -> NoReturn:
        raise error_here(LanguageError, f"{self} cannot be iterated over or unpacked")

    def __len__(self) -> int:
        raise error_here(LanguageError, f"{self} has no len(); its shape is {self.shape}")

    def __copy__(self, seen: object = None) -> Traced:
        return self

    __deepcopy__ = __copy__

    def __hash__(self) -> int:
        raise error_here(
            LanguageError,
            f"{self} is no key of a dict or set: its value is known only when the kernel runs",
        )

    def __reduce__(self) -> NoReturn:
        raise error_here(
            LanguageError,
            f"{self} cannot be written or sent away: its value is known only when the kernel runs",
        )

    def __matmul__(self, other: object) -> NoReturn:
        raise error_here(LanguageError, "for the product of matrices write iris.dot(a, b)")

    __rmatmul__ = __matmul__

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        raise error_here(
            LanguageError,
            f"NumPy makes no array of {self}, which is known only when the kernel runs; compute "
            "with operators and iris's words",
        )

    def __array_ufunc__(self, function: Any, method: str, *operands: Any, **options: Any) -> Any:
        return _call_ufunc(self, function, method, operands, options)

    # Operators, added below.

    if TYPE_CHECKING:

        def __add__(self, other: object) -> Traced: ...
        def __sub__(self, other: object) -> Traced: ...
        def __mul__(self, other: object) -> Traced: ...
        def __floordiv__(self, other: object) -> Traced: ...
        def __mod__(self, other: object) -> Traced: ...
        def __and__(self, other: object) -> Traced: ...
        def __or__(self, other: object) -> Traced: ...
        def __rshift__(self, other: object) -> Traced: ...
        def __lt__(self, other: object) -> Traced: ...
        def __ge__(self, other: object) -> Traced: ...
        def __eq__(self, other: object) -> Traced: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Traced: ...  # type: ignore[override]

    def __neg__(self) -> Traced:
        return unary(math.Neg, self)

    def __pos__(self) -> Traced:
        return self

    def __abs__(self) -> Traced:
        return unary(math.Abs, self)

    def __invert__(self) -> Traced:
        if self.dtype.is_float:
            raise error_here(DTypeError, f"~ is for integers and bools, not {self.dtype}")
        return emit(math.Not(self.value))


def _call_ufunc(
    x: Traced | Address, function: Any, method: str, operands: Sequence[Any], options: Any
) -> Any:
    """NumPy's functions: those that are operators work, so that `np.float32(2) * x` does."""
    name = function.__name__
    apply = getattr(operator, _NUMPY_OPERATORS.get(name, name), None)
    if apply is None or method != "__call__" or options or len(operands) != 2:
        raise error_here(LanguageError, f"np.{name} does not work on {x}{_instead(name)}")
    return apply(*map(_for_operator, operands))


def _for_operator(x: object) -> object:
    """An operand of NumPy's for Python's operator, which an array would take to NumPy again."""
    x = python_number(x)
    return x if is_number(x) or isinstance(x, Address) else as_traced(x)


_NUMPY_OPERATORS = {
    "subtract": "sub",
    "multiply": "mul",
    "true_divide": "truediv",
    "divide": "truediv",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "power": "pow",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "equal": "eq",
    "not_equal": "ne",
    "bitwise_and": "and_",
    "bitwise_or": "or_",
    "bitwise_xor": "xor",
    "left_shift": "lshift",
    "right_shift": "rshift",
}


def _instead(name: str, *others: str) -> str:
    """What to write for a name that does not exist."""
    advice: str = import_module("iris.frontend.suggestions").instead(name, *others)
    return advice


def no_attribute(x: Traced | Address, name: str) -> AttributeError:
    """The error for an attribute that a tile or pointer does not have."""
    is_pointer = isinstance(x, Address)
    what = "a pointer" if is_pointer else "a tile or scalar"
    others = ("dtype",) if is_pointer else ("shape", "dtype", "T", "to")
    advice = _instead(name, *[f"x.{other}" for other in others])
    return AttributeError(f"{what} has no .{name}{advice}", name=name, obj=x)


def constant_advice(x: object) -> str:
    """What to do where a number must be known while tracing."""
    arguments = _arguments(x.value) if isinstance(x, Traced) else set()
    if len(arguments) != 1 or isinstance(next(iter(arguments)).type, Ptr):
        return "declare the parameter it comes from as iris.constexpr"
    return f"declare the parameter as {arguments.pop().name}: iris.constexpr, if it is constant"


def _arguments(value: Value) -> set[Value]:
    """The arguments of the kernel, and of its loops, that a value is made of."""
    if value.op is None:
        return {value}
    return {argument for operand in value.op.operands for argument in _arguments(operand)}


def emit(op: Op) -> Traced:
    """Put an op in place and stand for its result."""
    return Traced(current().insert(op).results[0])


def _attribute_of_number(x: VariableNumber, name: str) -> Any:
    """A number in a variable may be asked for what it is asked for where a loop carries it."""
    if name.startswith("__") or not is_tracing():
        raise AttributeError(name)
    return current().vocabulary.attribute(x, name)


VariableNumber.__getattr__ = _attribute_of_number  # type: ignore[attr-defined]


def emit_assert(condition: object, message: str) -> None:
    """Check a scalar or every lane when the kernel runs."""
    current().insert(tile.Assert(as_message(message, "device_assert"), truth(condition).value))


def as_message(message: object, use: str) -> str:
    """What a kernel is to say, if anybody can read it."""
    if not isinstance(message, str):
        raise error_here(ArgumentError, f"{use} takes a string, not {describe(message)}")
    if not is_text(message):
        raise error_here(
            ArgumentError,
            f"{use} is to print {message!a}, which has half of a pair of surrogates: no text has",
        )
    return str(message)


# Dtypes.


def as_dtype(dtype: object) -> DType:
    """A dtype given as `iris.f32` or `"f32"`."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype]
    if dtype in ("f64", "float64") or getattr(dtype, "__name__", "") == "float64":
        raise error_here(DTypeError, "Apple GPUs have no f64; use f32")
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    advice = import_module("iris.frontend.suggestions").dtype_instead(name)
    raise error_here(
        DTypeError, f"no dtype is called {name!r}{advice or '; there are ' + ', '.join(DTYPES)}"
    )


def promote(a: DType, b: DType) -> DType:
    """The dtype in which two meet."""
    if a is b or b is bool_:
        return a
    if a is bool_:
        return b
    if a.is_float is not b.is_float:
        return a if a.is_float else b
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    if a.is_float:
        return f32
    return a if a.kind is Kind.UNSIGNED else b


def weak_dtype(number: Number, meets: DType) -> DType:
    """The dtype of a Python number that meets a value of some dtype.

    One that a loop changes is at least f32 among floats, as where the loop is traced.
    """
    if isinstance(number, VariableNumber) and number.carried and meets.is_float:
        return promote(meets, f32)
    if isinstance(number, float):
        return meets if meets.is_float else f32
    return strong_dtype(number) if meets is bool_ else meets


def strong_dtype(number: Number) -> DType:
    """The dtype of a Python number on its own."""
    if isinstance(number, bool):
        return bool_
    if isinstance(number, float):
        return f32
    for dtype in (i32, i64, u64):
        if dtype.low <= number <= dtype.high:
            return dtype
    raise error_here(DTypeError, f"{number} is over 64 bits")


def is_number(x: object) -> TypeGuard[Number]:
    """Whether this is a Python number."""
    return isinstance(x, (bool, int, float))


def constant(number: Number, dtype: DType, shape: tuple[int, ...] = ()) -> Traced:
    tracer = current()
    type_ = array_type(shape, dtype) if shape else dtype
    bits = _bits(number, dtype)
    if isinstance(number, VariableNumber | bool):
        made = emit(Constant.of_bits(bits, type_))
        tracer.numbers[made.value] = number
        return made
    if tracer.level is Level.METAL:
        return tracer.once((bits, type_), lambda: emit(Constant.of_bits(bits, type_)))
    return emit(Constant.of_bits(bits, type_))


def _bits(number: Number, dtype: DType) -> int:
    """How a number is encoded in a dtype."""
    if isinstance(number, float) and dtype.is_integer and not number.is_integer():
        raise error_here(
            DTypeError, f"{number} is no {dtype}: write an integer, or round it by iris.cast"
        )
    try:
        return literal.encode(float(number) if dtype.is_float else number, dtype)
    except OverflowError as error:
        if not dtype.is_float:
            raise error_here(DTypeError, f"constant: {error}") from None
    # As arithmetic of that dtype would have it.
    return literal.encode(float("inf") if number > 0 else float("-inf"), dtype)


def natural(x: Traced) -> Traced:
    """Note that a value is never negative: an index, or how many there are of something."""
    current().naturals.add(x.value)
    return x


def is_natural(x: Traced) -> bool:
    """Whether a scalar integer is known not to be negative."""
    bits = math.constant_bits(x.value)
    if bits is not None:
        return literal.decode(bits, x.dtype) >= 0
    return not x.dtype.is_signed or x.value in current().naturals


def as_traced(x: object, meets: DType | None = None) -> Traced:
    """A value to compute with; a Python number gets the dtype of the other operand."""
    if isinstance(x, Traced):
        return x
    if type(x) not in _NUMBERS:
        reject = getattr(x, "reject_use", None)  # a pointer, or a variable without a value
        if reject is not None:
            reject()
        x = python_number(x)
    if is_number(x):
        return constant(x, strong_dtype(x) if meets is None else weak_dtype(x, meets))
    raise error_here(LanguageError, f"{kind_of(x)} cannot be computed with in a kernel")


_NUMBERS = {bool, int, float, VariableInt, VariableFloat}


def python_number(x: object) -> object:
    """The Python number in a NumPy scalar or an array without axes; another value as it is."""
    if isinstance(x, (Traced, Address)) or type(x) in _NUMBERS:
        return x
    item = getattr(x, "item", None)
    return item() if item is not None and getattr(x, "shape", None) == () else x


def cast(x: object, dtype: DType) -> Traced:
    traced = as_traced(x, dtype)
    type_ = traced.value.type
    if type_.element is dtype:
        return traced
    type_ = element_type(type_).with_element(dtype)
    return emit(math.Cast(traced.value, type_))


def as_element(x: object, dtype: DType) -> Traced:
    """A value as what memory of a dtype holds. A number that the program gives is not rounded to an
    integer: there it would be a mistake."""
    number = python_number(x)
    if isinstance(number, float) and dtype.is_integer:
        return constant(number, dtype)
    return cast(x, dtype)


# Shapes.


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that several spread to, as in NumPy."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        different = {s for s in sizes if s != 1}
        if len(different) > 1:
            shown = " and ".join(map(str, shapes))
            raise error_here(ShapeError, f"the shapes {shown} do not fit together")
        result.append(different.pop() if different else 1)
    return tuple(result)


def spread(x: Traced, shape: tuple[int, ...]) -> Traced:
    """A value over a shape, as in NumPy."""
    if x.shape == shape:
        return x
    if current().level is Level.METAL:
        if x.shape:
            wanted = f"a vector of {shape[0]}" if shape else "a scalar"
            raise error_here(ShapeError, f"{wanted} goes here, not {x}")
        return emit(metal.Splat(x.value, array_type(shape, x.dtype)))
    if x.shape:
        if broadcast_shapes(x.shape, shape) != shape:
            raise error_here(ShapeError, f"{x} cannot be broadcast to the shape {shape}")
        while len(x.shape) < len(shape):
            with rules_as(ShapeError):
                x = emit(tile.ExpandDims(0, x.value))
    if x.shape == shape:
        return x
    with rules_as(ShapeError):
        return emit(tile.Broadcast(x.value, Tile(shape, x.dtype)))


def array_type(shape: tuple[int, ...], dtype: DType) -> ElementType:
    """The type of several elements: a tile of a program, or a vector of a thread."""
    if current().level is Level.METAL:
        return Registers(shape[0], dtype)
    return Tile(shape, dtype)


# Vectors of a thread.

_COMPONENTS = {letter: i for word in ("xyzw", "rgba") for i, letter in enumerate(word)}


def taken(x: Traced, numbers: Sequence[int]) -> Traced:
    """Elements of a vector, by number."""
    for number in numbers:
        if number >= x.shape[0]:
            raise error_here(ShapeError, f"{x} has {x.shape[0]} elements: there is no {number}")
    return emit(metal.take(numbers, x.value))


def component(x: Traced, key: object) -> Traced:
    """An element of a vector, by a number that need not be known while tracing."""
    if isinstance(key, Traced):
        return emit(metal.Slice(x.value, as_index(key).value, x.dtype))
    if not isinstance(key, int) or isinstance(key, bool) or not 0 <= key < x.shape[0]:
        raise error_here(ShapeError, f"{x} has elements 0 to {x.shape[0] - 1}, not {shown(key)}")
    return taken(x, [key])


def as_shape(shape: object) -> tuple[int, ...]:
    """A shape made of Python ints that are powers of two."""
    current()
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int):
            raise error_here(
                ShapeError,
                f"a shape is made of ints that are known while tracing, not {size!r}; "
                + constant_advice(size),
            )
    result = tuple(int(size) for size in sizes)
    if result:
        with rules_as(ShapeError):
            Tile(result, f32)
    return result


def unify(*operands: object) -> list[Traced]:
    """Operands in one dtype and over one shape."""
    types = [x.value.type for x in operands if isinstance(x, Traced)]
    if types and types.count(types[0]) == len(operands):
        return [*operands]  # type: ignore[list-item]
    plain = [python_number(x) for x in operands]
    dtype = _common_dtype(plain, types)
    traced = [cast(x, dtype) for x in plain]
    shapes = [x.shape for x in traced]
    if shapes.count(shapes[0]) == len(shapes):
        return traced
    shape = broadcast_shapes(*shapes)
    return [spread(x, shape) for x in traced]


def _common_dtype(operands: Sequence[object], types: Sequence[Type]) -> DType:
    """The dtype in which operands meet, given the types of those that are no numbers."""
    types = types or [as_traced(x).value.type for x in operands]
    dtype = types[0].element
    for other in types[1:]:
        dtype = current().vocabulary.promote(dtype, other.element)
    for x in operands:
        if is_number(x):
            dtype = promote(dtype, weak_dtype(x, dtype))
    return dtype


def _index(x: Traced, key: tuple[object, ...]) -> Traced:
    """`x[:, None]`: only new axes and whole slices."""
    whole = [k for k in key if isinstance(k, slice) and k == slice(None)]
    dots = [at for at, k in enumerate(key) if k is Ellipsis]
    if len(whole) + len(dots) + sum(k is None for k in key) != len(key):
        raise error_here(
            ShapeError,
            "a tile is indexed by : and None only; load the elements that are wanted instead",
        )
    if len(whole) > len(x.shape) or len(dots) > 1:
        raise error_here(ShapeError, f"{x} has {len(x.shape)} dimensions: the index does not fit")
    if dots:
        rest = [slice(None)] * (len(x.shape) - len(whole))
        key = (*key[: dots[0]], *rest, *key[dots[0] + 1 :])
    for axis, k in enumerate(key):
        if k is None:
            with rules_as(ShapeError):
                x = emit(tile.ExpandDims(axis, x.value)) if x.shape else spread(x, (1,))
    return x


# Operators.


def unary(kind: type[math.Unary], x: object) -> Traced:
    """An op of one operand; floats are made of integers where it needs them."""
    traced = as_traced(x)
    if issubclass(kind, math.FloatUnary) and not traced.dtype.is_float:
        traced = cast(traced, f32)
    if traced.dtype is bool_:
        traced = cast(traced, i32)
    return emit(kind(traced.value))


def binary(kind: type[math.Binary], a: object, b: object) -> Traced:
    lhs, rhs = unify(a, b)
    if lhs.dtype is bool_ and kind in _ARITHMETIC:
        lhs, rhs = cast(lhs, i32), cast(rhs, i32)
    with _of_dtypes:
        op = kind(lhs.value, rhs.value)
        if lhs.value.type not in op.spec.fixed[0].constraint:
            what = op.spec.fixed[0].constraint.what
            raise error_here(DTypeError, f"{kind.name} is for {what}, not {lhs.dtype}")
        return emit(op)


_ARITHMETIC = (math.Add, math.Sub, math.Mul, math.FloorDiv, math.Mod, math.Maximum, math.Minimum)


def divide(a: object, b: object) -> Traced:
    """`/`: of integers, too, a float."""
    lhs, rhs = unify(a, b)
    dtype = lhs.dtype if lhs.dtype.is_float else f32
    return emit(math.Div(cast(lhs, dtype).value, cast(rhs, dtype).value))


def power(a: object, b: object) -> Traced:
    """`**`: a small constant exponent multiplies; another one is for floats."""
    b = python_number(b)
    if isinstance(b, int) and 0 <= b <= 16 and isinstance(a, Traced):
        result: Traced | None = None
        square, left = a, b
        while left:
            if left & 1:
                result = square if result is None else binary(math.Mul, result, square)
            left >>= 1
            if left:
                square = binary(math.Mul, square, square)
        return known(1, a.dtype, a) if result is None else result
    lhs, rhs = unify(a, b)
    if not lhs.dtype.is_float:
        raise error_here(
            DTypeError, f"{lhs.dtype} ** {rhs.dtype} needs an exponent known while tracing, 0 to 16"
        )
    return emit(math.Pow(lhs.value, rhs.value))


def compare(predicate: Predicate, a: object, b: object) -> Traced:
    lhs, rhs = unify(a, b)
    return emit(math.Compare(predicate, lhs.value, rhs.value))


def truth(x: object) -> Traced:
    """Where numbers are not 0; bools are as they are."""
    traced = as_traced(x)
    return traced if traced.dtype is bool_ else compare(Predicate.NE, traced, 0)


def select(condition: object, on_true: object, on_false: object) -> Traced:
    """Element by element, one or the other."""
    chosen = truth(condition)
    a, b = unify(on_true, on_false)
    shape = broadcast_shapes(chosen.shape, a.shape)
    if chosen.shape:
        chosen = spread(chosen, shape)
    return emit(math.Select(chosen.value, spread(a, shape).value, spread(b, shape).value))


def known(number: Number, dtype: DType, x: Traced) -> Traced:
    """A number, whatever the elements of a tile are, that counts where these do."""
    value = constant(number, dtype)
    return select(compare(Predicate.EQ, x, x), value, spread(value, x.shape))


def _define_operators() -> None:
    def define(name: str, make: Callable[[Any, Any], Any], *, reflected: bool = True) -> None:
        def forward(self: Traced, other: object, *modulus: object) -> Any:
            if modulus:
                raise error_here(LanguageError, "pow takes no modulus here; write x ** n % m")
            return NotImplemented if isinstance(other, Address) else make(self, other)

        def backward(self: Traced, other: object) -> Any:
            return NotImplemented if isinstance(other, Address) else make(other, self)

        setattr(Traced, f"__{name}__", forward)
        if reflected:
            setattr(Traced, f"__r{name}__", backward)

    kinds: dict[str, type[math.Binary]] = {
        "add": math.Add,
        "sub": math.Sub,
        "mul": math.Mul,
        "and": math.And,
        "or": math.Or,
        "xor": math.Xor,
        "lshift": math.Shl,
        "rshift": math.Shr,
    }
    for name, kind in kinds.items():
        define(name, functools.partial(binary, kind))
    for name in ("truediv", "floordiv", "mod"):
        define(name, lambda a, b, name=name: getattr(current().vocabulary, name)(a, b))  # type: ignore[misc]
    define("pow", power)
    define("divmod", lambda a, b: (a // b, a % b))
    for predicate in Predicate:
        define(predicate.value, functools.partial(compare, predicate), reflected=False)


_define_operators()


# Pointers.


class Address:
    """What an access goes through: a pointer, or one that is chosen among several."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The array's name, for messages."""
        raise NotImplementedError

    @property
    def element(self) -> DType:
        """The dtype of the array's elements."""
        raise NotImplementedError

    @property
    def encoding(self) -> str:
        """The dtype of NumPy whose codes the array holds; empty if it holds none."""
        raise NotImplementedError

    def each(self) -> list[tuple[Traced | None, Pointer]]:
        """The pointers that it may be, each with the condition for which it is that."""
        raise NotImplementedError

    def __add__(self, offset: object) -> Any:
        raise NotImplementedError

    def _reject_change(self, *change: object) -> NoReturn:
        raise error_here(PointerError, "a pointer is never changed; add offsets to get another")

    __setattr__ = __delattr__ = _reject_change

    @property
    def dtype(self) -> Any:
        return current().vocabulary.dtype_of_pointer(self)

    def reject_use(self) -> NoReturn:
        """Refuse to be computed with."""
        raise error_here(
            PointerError,
            f"the pointer {self.name} is no number; use iris.load({self.name} + offsets)",
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name, name=name, obj=self)
        return current().vocabulary.attribute(self, name)

    def __radd__(self, offset: object) -> Any:
        return self + offset

    def __sub__(self, offset: object) -> Any:
        if isinstance(offset, Address):
            raise error_here(PointerError, "pointers cannot be subtracted; subtract the offsets")
        return self + -as_offset(offset)

    def __setitem__(self, key: object, value: object) -> None:
        raise error_here(
            PointerError, f"a pointer is not indexed; use iris.store({self.name} + offsets, value)"
        )

    def __bool__(self) -> bool:
        return current().vocabulary.holds(self)

    def reject_arithmetic(self, *other: object, **options: object) -> NoReturn:
        """Refuse to be a number."""
        raise error_here(
            PointerError,
            f"the pointer {self.name} is no number: only offsets are added to it; its elements are "
            f"iris.load({self.name} + offsets)",
        )

    def __array_ufunc__(self, function: Any, method: str, *operands: Any, **options: Any) -> Any:
        return _call_ufunc(self, function, method, operands, options)

    def __copy__(self, seen: object = None) -> Any:
        return self

    __deepcopy__ = __copy__

    def __repr__(self) -> str:
        return f"the pointer {self.name or self.base.name}"  # shared memory has no other


class Pointer(Address):
    """An array argument, maybe with an offset: `X + offsets`.  There are no pointer tiles."""

    __slots__ = ("base", "name", "offset", "spec")
    base: Value
    name: str
    offset: Traced | None
    spec: ArraySpec  # of the array

    def __init__(self, base: Value, name: str, spec: ArraySpec, offset: Traced | None = None):
        for slot, value in zip(Pointer.__slots__, (base, name, offset, spec), strict=True):
            object.__setattr__(self, slot, value)

    def at(self, offset: Traced) -> Pointer:
        """Another element of the same array."""
        return Pointer(self.base, self.name, self.spec, offset)

    @property
    def element(self) -> DType:
        return self.base.type.element

    @property
    def encoding(self) -> str:
        return self.spec.encoding

    def each(self) -> list[tuple[Traced | None, Pointer]]:
        return [(None, self)]

    def __add__(self, offset: object) -> Pointer:
        if isinstance(offset, Address):
            raise error_here(
                PointerError,
                f"{self.name} and {offset.name} are different arrays: an address has one base and "
                "integer offsets",
            )
        added = as_offset(offset)
        if self.offset is not None:
            added = binary(math.Add, self.offset, added)
        return self.at(added)

    def __getitem__(self, key: object) -> Pointer:
        keys = key if isinstance(key, tuple) else (key,)
        if self.offset is not None and all(k is None or k == slice(None) for k in keys):
            return self.at(self.offset[keys])
        raise error_here(
            PointerError, f"a pointer is not indexed; use iris.load({self.name} + offsets)"
        )


#: Operators of two operands, `__mul__` and `__rmul__`, but for sums.
BINARY: tuple[str, ...] = (
    *("mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and", "or", "xor"),
    *("lshift", "rshift"),
)
_OTHERS: tuple[str, ...] = (
    *("lt", "le", "eq", "ne", "gt", "ge", "neg", "pos", "abs", "invert", "index", "float"),
    *("int", "complex", "round", "trunc", "floor", "ceil", "iter", "len", "hash", "array"),
    *("reduce", "delitem"),
)
for _word in (*BINARY, *[f"r{word}" for word in BINARY], "rsub", *_OTHERS):
    setattr(Address, f"__{_word}__", Address.reject_arithmetic)


def as_offset(x: object) -> Traced:
    """An offset: i32, or i64 where 32 bits may be too few."""
    traced = as_traced(x, i32) if isinstance(x, int) and abs(x) < 2**31 else as_traced(x)
    if not traced.dtype.is_integer:
        raise error_here(PointerError, f"an offset is an integer, not {traced.dtype}")
    if traced.dtype in (i32, i64):
        return traced
    return cast(traced, i64 if traced.dtype in (u32, u64) else i32)


def of_one_width(groups: Sequence[Sequence[Traced]]) -> list[list[Value]]:
    """Offsets, all in i64 if one of them is."""
    dtype = i64 if any(x.dtype is i64 for group in groups for x in group) else i32
    return [[cast(x, dtype).value for x in group] for group in groups]


def as_index(x: object) -> Traced:
    """A number that counts: an integer scalar."""
    if isinstance(x, Traced) and x.value.type is i32:
        return x
    index = as_offset(x)
    if index.shape:
        raise error_here(ShapeError, f"an index is one integer, not {index}")
    return index


def as_pointer(x: object, use: str) -> Pointer:
    if isinstance(x, Pointer):
        if x.encoding and x.encoding not in current().vocabulary.encodings:
            raise error_here(DTypeError, f"{x.name} is {x.encoding}, which iris.triton alone has")
        return x
    current()
    if isinstance(x, Address):
        raise error_here(PointerError, f"{use} takes a pointer to one array, not {x!r}")
    reject = getattr(x, "reject_use", None)  # a variable without a value
    if reject is not None:
        reject()
    raise error_here(
        ArgumentError, f"{use} takes an array argument, maybe plus offsets, not {describe(x)}"
    )


def describe(x: object) -> str:
    return repr(x) if isinstance(x, (Traced, Address)) else kind_of(x)


def kind_of(x: object) -> str:
    """What the user knows a value as: its class, unless that has other words for itself."""
    named: str = getattr(type(x), "described", f"a {type(x).__name__}")
    return named


def shown(x: object) -> str:
    """A value in a message: as it is written if it is short, else by what it is."""
    return describe(x) if len(repr(x)) > 40 else repr(x)
