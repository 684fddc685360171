"""A Python function of arrays as a graph: its parameters, and its trace."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from iris.errors import ArgumentError, DTypeError, LanguageError, UserError
from iris.frontend.arrays.array_values import traced
from iris.frontend.arrays.dtypes import exact_dtype
from iris.frontend.arrays.trace import trace_into
from iris.frontend.arrays.traced import TracedArray
from iris.frontend.arrays.trees import Leaf, Tree, flatten
from iris.frontend.arrays.weak_scalars import WeakScalarCheck
from iris.frontend.plain import check_plain
from iris.frontend.specs import exact_key
from iris.frontend.tracing import at_line, error_at, error_here, refusal, rules_as
from iris.frontend.values import strong_dtype
from iris.ir.control import Func, Return
from iris.ir.core import Level, Location, Module, Value
from iris.ir.types import DType, Tensor

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TensorSpec:
    """The facts that a trace knows of an array argument.

    `weak`: it is a Python number, whose dtype gives way to the dtypes of arrays."""

    shape: tuple[int, ...]
    dtype: DType
    weak: bool = False

    @property
    def type(self) -> Tensor:
        return Tensor(self.shape, self.dtype)


def spec_of(name: str, value: Any) -> TensorSpec:
    """What a trace knows of an argument: of an array its shape and dtype, of a number its dtype."""
    if isinstance(value, TensorSpec):
        return value
    if isinstance(value, (bool, int, float)):
        return TensorSpec((), strong_dtype(value), weak=True)
    if not isinstance(value, (np.ndarray, np.generic)):
        raise error_here(
            ArgumentError,
            f"{name} is a {type(value).__name__}; arguments are arrays, numbers, and tuples, lists "
            "and dicts of them; name another parameter in static_argnames",
        )
    dtype = exact_dtype(value.dtype)
    check_plain(name, value, ArgumentError)
    if dtype is not None:
        with rules_as(ArgumentError):
            return TensorSpec(Tensor(value.shape, dtype).shape, dtype)
    if value.dtype == np.float64:
        raise error_here(
            DTypeError,
            f"{name} is float64, which Apple GPUs do not have; pass {name}.astype(np.float32)",
        )
    raise error_here(DTypeError, f"{name} has the dtype {value.dtype}, which GPUs do not have")


class TracedFunction(NamedTuple):
    """What a trace gives: a module of one function of Graph IR; the arrays that its last arguments
    are, which the Python function did not get as arguments; the tree of its results; and the
    numbers that may not fit where they go."""

    module: Module
    captured: list[Array]
    results: Tree
    narrowed: list[WeakScalarCheck]


@dataclass(frozen=True)
class _Static:
    """An argument that is a plain Python value while the function is traced."""

    value: Any = field(compare=False)
    key: Hashable  # 1, 1.0 and True are equal, but not to a trace


class ArrayCall(NamedTuple):
    """The arguments of a call: the leaves that are arrays or numbers, and all else that a trace
    depends on."""

    leaves: list[Leaf]
    structure: tuple[tuple[str, _Static | Tree], ...]

    @property
    def static(self) -> list[Any]:
        """The values that are plain Python values while the function is traced."""
        return [x.value for _, x in self.structure if isinstance(x, _Static)]


class ArrayFunction:
    """A function of arrays."""

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnames: str | Sequence[str] = (),
        static_argnums: int | Sequence[int] = (),
    ):
        self.function = function
        name = getattr(function, "__name__", type(function).__name__)
        self.name = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "function"
        code = getattr(inspect.unwrap(function), "__code__", None)
        self.location = None if code is None else Location(code.co_filename, code.co_firstlineno)
        self.signature = _signature(function)
        self.static = self._static_names(static_argnames, static_argnums)

    def _static_names(self, names: str | Sequence[str], places: int | Sequence[int]) -> set[str]:
        parameters = list(self.signature.parameters)
        static = {names} if isinstance(names, str) else set(names)
        for place in (places,) if isinstance(places, int) else places:
            if not -len(parameters) <= place < len(parameters):
                raise self.error(ArgumentError, f"it has no parameter {place} to be static")
            static.add(parameters[place])
        for unknown in static.difference(parameters):
            raise self.error(
                ArgumentError,
                f"it has no parameter {unknown!r} to be static; it has {', '.join(parameters)}",
            )
        return static

    def error(self, kind: type[UserError], message: str) -> UserError:
        """An error at the line of the function."""
        if self.location is None:
            return kind(f"{self.name}: {message}")
        return error_at(kind, f"{self.name}: {message}", *self.location)

    def bind(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> ArrayCall:
        """Sort out the arguments of a call.  Defaults that are not given stay Python values."""
        try:
            bound = self.signature.bind(*arguments, **named)
        except TypeError as error:
            raise error_here(ArgumentError, f"{self.name}: {error}") from None
        leaves: list[Leaf] = []
        structure: list[tuple[str, _Static | Tree]] = []
        for name, value in bound.arguments.items():
            if name in self.static:
                structure.append((name, self._as_static(name, value)))
                continue
            together = self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            found, tree = flatten(value, "" if together else name)
            leaves += found
            structure.append((name, tree))
        return ArrayCall(leaves, tuple(structure))

    def _as_static(self, name: str, value: Any) -> _Static:
        try:
            hash(value)
        except TypeError:
            raise error_here(
                ArgumentError,
                f"{name} of {self.name} is static, and must be hashable; a "
                f"{type(value).__name__} is not",
            ) from None
        return _Static(value, exact_key(value))

    def trace(
        self, call: ArrayCall, specs: Sequence[TensorSpec] | None = None, *, fast_math: bool = False
    ) -> TracedFunction:
        """Trace the graph for a call; `specs` are those of its leaves unless given."""
        if specs is None:
            specs = [spec_of(*leaf) for leaf in call.leaves]
        types = [(leaf.name, spec.type) for leaf, spec in zip(call.leaves, specs, strict=True)]
        func = Func(self.name, Level.GRAPH, types, fast_math=fast_math, location=self.location)
        with trace_into(func) as trace:
            inputs = [
                TracedArray(value, trace, spec.weak)
                for value, spec in zip(func.body.arguments, specs, strict=True)
            ]
            results, tree = flatten(self._run(call, inputs), "")
            made = [self._result(leaf) for leaf in results]
            values = []
            for result in made:
                with at_line(result.memory.line):
                    values.append(result.value)
            _check_kept(inputs, values)
            func.set_returns(tuple([v.type for v in values]))
            func.body.append(Return(values, location=self.location))
        return TracedFunction(Module([func]), trace.captured, tree, list(trace.narrowed.values()))

    def _run(self, call: ArrayCall, inputs: Sequence[TracedArray]) -> Any:
        """What the function returns for some inputs."""
        left = list(inputs)
        bound = inspect.BoundArguments(self.signature, {})
        for name, part in call.structure:
            if isinstance(part, _Static):
                bound.arguments[name] = part.value
            else:
                count = part.leaves
                bound.arguments[name] = part.unflatten(left[:count])
                left = left[count:]
        try:
            return self.function(*bound.args, **bound.kwargs)
        except (AttributeError, TypeError, ValueError) as error:
            # Of what a traced array says, NumPy makes the cause of an error of its own.
            if isinstance(error.__cause__, UserError):
                raise error.__cause__ from None
            refused = refusal(error, (TracedArray,), "compute with operators and NumPy's functions")
            if refused is None:
                raise
            raise refused from error

    def _result(self, leaf: Leaf) -> TracedArray:
        """A result as a value of the graph, whatever it is in Python."""
        if not isinstance(leaf.value, (TracedArray, bool, int, float, np.ndarray, np.generic)):
            raise self.error(
                LanguageError,
                f"it returns a {type(leaf.value).__name__}, but a traced function returns arrays, "
                "numbers, and tuples, lists and dicts of them",
            )
        return traced(leaf.value)


def _check_kept(inputs: Sequence[TracedArray], results: Sequence[Value]) -> None:
    """Refuse to change an argument in place for the caller alone, whose array stays as it is."""
    needed: set[Value] = set()
    work = list(results)
    while work:
        value = work.pop()
        if value not in needed:
            needed.add(value)
            work += value.op.operands if value.op is not None else ()
    for argument in inputs:
        memory = argument.memory
        if memory.last is not None and memory.last not in needed:
            with at_line(memory.line):
                raise LanguageError(
                    "this changes an argument in place, and nothing that is returned needs it: the "
                    "caller's array stays as it is; return the new one"
                )


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """The parameters of a function; of one written in C, which may not tell them, any."""
    try:
        return inspect.signature(function)
    except ValueError:
        return inspect.signature(lambda *arguments, **named: None)
