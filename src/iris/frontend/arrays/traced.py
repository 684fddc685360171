"""The traced array: what a function of arrays computes with, in NumPy's own words."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np

from iris.errors import ArgumentError, ControlFlowError, LanguageError
from iris.frontend.arrays.advice import advice
from iris.frontend.arrays.caller_source import running_call, uses_item
from iris.frontend.arrays.dtypes import numpy_dtype
from iris.frontend.arrays.protocol import FUNCTIONS, UFUNCS, call_function, call_ufunc, find
from iris.frontend.arrays.trace import Trace
from iris.frontend.tracing import error_here, location, user_frame
from iris.ir.core import Location, Value
from iris.ir.math import element_type
from iris.ir.types import DType


class ArrayVersion:
    """The version of an array that its views share.

    In NumPy `x += y` changes the array under all its names; while tracing only `x` changes, so
    the other names must not be used any more.
    """

    __slots__ = ("is_number", "last", "line", "version")

    def __init__(self, is_number: bool) -> None:
        self.is_number = is_number  # not an array, though a view of one may have no axes either
        self.version = 0
        self.line: Location | None = None  # what changed it last
        self.last: Value | None = None  # what it holds since


class TracedArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of the function being traced.

    NumPy's functions and operators on it put ops into the graph.  Its shape and dtype are known,
    its elements are not.
    """

    __slots__ = ("_value", "memory", "owner", "version", "weak")
    __array_priority__ = 1000

    def __init__(self, value: Value, owner: Trace, weak: bool = False):
        self._value = value
        self.owner = owner  # the trace that it is part of
        self.memory = ArrayVersion(not element_type(value.type).shape)
        self.version = 0  # of the memory
        self.weak = weak  # like a Python number, it takes the dtype of what it meets

    @property
    def value(self) -> Value:
        """The value of the graph that it stands for."""
        if self.version != self.memory.version:
            line = self.memory.line
            where = "before" if line is None else f"at line {line.line}"
            raise error_here(
                LanguageError,
                f"{self} was changed in place {where}, by another name or through a view: NumPy "
                "would show the change here, but a traced array never changes; write x = x + y "
                "there instead of x += y, or x = x.at[index].add(y)",
            )
        return self._value

    def copied(self) -> TracedArray:
        """The same elements, in memory of their own."""
        return TracedArray(self.value, self.owner, self.weak)

    def seen(self, value: Value) -> TracedArray:
        """An array of some of the same memory."""
        made = TracedArray(value, self.owner)
        made.memory, made.version = self.memory, self.version
        return made

    def changed(self, value: Value) -> TracedArray:
        """What has the name after `x += y`; no other name has it."""
        self.memory.version += 1
        self.memory.line, self.memory.last = location(), value
        made = self.seen(value)
        made.version = self.memory.version
        return made

    # What is known of it.

    @property
    def element(self) -> DType:
        """The dtype, as Iris has it."""
        return self._value.type.element

    @property
    def dtype(self) -> np.dtype[Any]:
        return numpy_dtype(self.element)

    @property
    def shape(self) -> tuple[int, ...]:
        return element_type(self._value.type).shape

    @shape.setter
    def shape(self, shape: object) -> NoReturn:
        raise error_here(LanguageError, f"{self} does not change; write x = x.reshape(shape)")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.element.bytes

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise error_here(ArgumentError, f"{self} has no axes, and so no len()")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"a traced {self._value.type}"

    # NumPy's protocols.

    def __array_ufunc__(self, function: np.ufunc, method: str, *operands: Any, **named: Any) -> Any:
        return call_ufunc(function, method, operands, named)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any],
        named: Mapping[str, Any],
    ) -> Any:
        return call_function(function, arguments, named)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        raise error_here(
            LanguageError,
            f"{self} has no elements while the function is traced, and NumPy asks for them: "
            + (_of_items() or _of_conversion() or _FOR_ELEMENTS),
        )

    # What Python would need the elements for.

    def __bool__(self) -> bool:
        if self.shape:
            raise error_here(
                ControlFlowError,
                f"a condition is one bool, but this is {self}; use np.where to choose element by "
                "element, or np.any or np.all for one answer",
            )
        raise error_here(
            ControlFlowError,
            f"if, while, and, or, not and the like need a bool while the function is traced, but "
            f"{self} is known only when it runs; choose with np.where(condition, x, y), combine "
            "with & | ~, take np.minimum(x, y) for min(x, y), or name an argument in "
            "static_argnames if it is constant",
        )

    def _no_number(self, use: str, instead: str = "") -> NoReturn:
        raise error_here(
            ControlFlowError,
            f"{use} needs a number while the function is traced, but {self} is known only when it "
            f"runs; {_of_items() or instead + _IF_CONSTANT}",
        )

    def __index__(self) -> int:
        self._no_number("an index, a size or a range")

    def __int__(self) -> int:
        self._no_number("int()")

    def __float__(self) -> float:
        self._no_number("float()", "math's functions are NumPy's here, as np.sqrt(x); ")

    def __round__(self, digits: int | None = None) -> NoReturn:
        self._no_number("round()", "arrays are rounded with np.round(x); ")

    def __trunc__(self) -> int:
        self._no_number("math.trunc()", "of arrays there is np.trunc(x); ")

    def __format__(self, spec: str) -> str:
        return str(self) if not spec else self._no_number(f"the format {spec!r}")

    def __hash__(self) -> int:
        raise error_here(
            LanguageError,
            f"{self} is no key of a dict or set: its elements are known only when it runs",
        )

    def __reduce__(self) -> NoReturn:
        raise error_here(
            LanguageError,
            f"{self} cannot be written to a file or sent away: it " + _NEEDS_ELEMENTS,
        )

    def __complex__(self) -> complex:
        self._no_number("complex()")

    def __pow__(self, exponent: object, *modulus: object) -> Any:
        if modulus:
            raise error_here(LanguageError, "pow takes no modulus here; write x ** n % m")
        return super().__pow__(exponent)

    def reject_use(self) -> NoReturn:
        raise error_here(
            LanguageError,
            f"the tile language computes with tiles, in a kernel, and not with {self}: with that "
            "NumPy's functions compute, np.exp and so on",
        )

    def __contains__(self, item: object) -> NoReturn:
        raise error_here(
            ControlFlowError, f"`in` needs the elements of {self}; write np.any(x == item)"
        )

    def __setitem__(self, key: object, value: object) -> None:
        raise error_here(
            LanguageError,
            "no array changes while a function is traced; x = x.at[index].set(values) makes "
            "another, and .add adds",
        )

    def __delitem__(self, key: object) -> None:
        raise error_here(
            LanguageError, "no array changes while a function is traced; np.delete makes another"
        )

    # Indexing and the methods of NumPy's arrays are in methods.py.

    def __getattr__(self, name: str) -> NoReturn:
        """What NumPy's arrays have and this has not."""
        if name.startswith("__") or not (hasattr(np.ndarray, name) or name in _NO_METHOD):
            message = f"{self} has no attribute {name!r}{_instead_of(name)}"
            raise AttributeError(message, name=name, obj=self)
        raise error_here(LanguageError, f".{name} {_NO_METHOD.get(name) or advice(name)}")


_IF_CONSTANT = "name an argument in static_argnames if it is constant"
_FOR_ELEMENTS = (
    "traced arrays are put together with np.stack([a, b]), spread with np.broadcast_to(a, shape), "
    "and go with a table that is not traced into functions, not methods: np.dot(table, a); "
    "a table is looked up with iris.asarray(table)[index]"
)
_FOR_ITEMS = {
    "load": "a table that is not traced is looked up with iris.asarray(table)[index], and instead "
    "of np.r_ and np.c_ there is np.concatenate",
    "store": "no array changes while a function is traced; "
    "table = iris.asarray(table).at[index].set(values) makes another",
}


def _of_items() -> str | None:
    """What to write instead of `table[x]` and `table[0] = x`, if that is what the user does."""
    frame = user_frame()
    use = None if frame is None else uses_item(frame)
    return None if use is None else _FOR_ITEMS[use]


_CONVERSIONS = ("asarray", "array", "asanyarray", "ascontiguousarray", "asfortranarray")


def _of_conversion() -> str | None:
    """What to write instead of `np.asarray(x)` and `np.float32(x)`, if that is what the user does:
    they make an array of what is one already."""
    frame = user_frame()
    call = None if frame is None else running_call(frame)
    if frame is None or call is None or len(call.args) != 1:
        return None
    (given,), name = call.args, call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if not isinstance(given, ast.Name) or not isinstance(
        {**frame.f_globals, **frame.f_locals}.get(given.id), TracedArray
    ):
        return None  # it may be a list of arrays
    x = given.id
    dtypes = [ast.unparse(option.value) for option in call.keywords if option.arg == "dtype"]
    scalar = getattr(np, name, None)
    if isinstance(scalar, type) and issubclass(scalar, np.generic):
        dtypes = [f"np.{name}"]
    elif name not in _CONVERSIONS:
        return None
    if dtypes:
        return f"{x} is an array already; write {x}.astype({dtypes[0]})"
    return f"{x} is an array already; leave np.{name} out, or write np.asarray({x}, like={x})"


def _instead_of(name: str) -> str:
    """What may have been meant by a name that is no attribute."""
    if name in _OTHER_NAMES:
        return f"; write {_OTHER_NAMES[name]}"
    function = find(name)
    if callable(function) and (function in FUNCTIONS or function in UFUNCS["__call__"]):
        return f"; write np.{name}(x)"
    known = [known for known in dir(TracedArray) if not known.startswith("_")]
    close = difflib.get_close_matches(name, known, 1)
    return f"; did you mean .{close[0]}?" if close else ""


# What arrays of other libraries have.
_OTHER_NAMES = {
    **dict.fromkeys(("to", "type", "cast"), "x.astype(dtype)"),
    **{
        name: f"x.astype(np.{dtype})" for name, dtype in (("float", "float32"), ("half", "float16"))
    },
    **dict.fromkeys(("unsqueeze", "expand_dims"), "np.expand_dims(x, axis)"),
    "permute": "x.transpose(axes)",
    "detach": "x: there are no gradients",
}
_OF_ELEMENTS = ("item", "tolist", "tobytes", "tofile", "dump", "dumps", "numpy", "peek")
_NEEDS_ELEMENTS = (
    "needs the elements, which are not known while tracing; return the array from the function"
)
_CHANGES = (
    "changes an array, and no array changes while a function is traced; x.at[index].set(values) "
    "makes another"
)
_OF_MEMORY = "is about memory, which a traced array has not; x.ravel() gives the elements in order"
_NO_METHOD = {
    **dict.fromkeys(_OF_ELEMENTS, _NEEDS_ELEMENTS),
    **dict.fromkeys(("fill", "put", "sort", "partition", "resize", "setfield"), _CHANGES),
    **dict.fromkeys(("flat", "strides", "data", "base", "ctypes", "flags", "view"), _OF_MEMORY),
}
