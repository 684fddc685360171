"""A Python function as a kernel: its parameters, its trace."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from iris.errors import ArgumentError, LanguageError, ScopeError, UserError
from iris.frontend import traced_control
from iris.frontend.assignment import drop_updates, unmark
from iris.frontend.chosen_pointers import ChosenPointer
from iris.frontend.language import constexpr
from iris.frontend.loop_variables import Missing
from iris.frontend.rewriting import rewritten
from iris.frontend.specs import ArraySpec, ScalarSpec, put_together
from iris.frontend.tracing import (
    Tracer,
    Vocabulary,
    current,
    error_at,
    error_from,
    error_here,
    refusal,
    trace_into,
)
from iris.frontend.values import Pointer, Traced, describe
from iris.frontend.vocabulary import IRIS
from iris.ir import math
from iris.ir.attributes import legal_name
from iris.ir.builder import Builder
from iris.ir.control import Func, Return
from iris.ir.core import Level, Location, Module, Region, Value


@dataclass(frozen=True)
class Parameter:
    name: str
    is_constexpr: bool
    default: Any

    @property
    def has_default(self) -> bool:
        return self.default is not inspect.Parameter.empty


class TileFunction:
    """A function of the tile language, parsed once."""

    def __init__(self, function: FunctionType, vocabulary: Vocabulary = IRIS):
        self.function = function
        self.vocabulary = vocabulary
        self.name = function.__name__
        code = function.__code__
        self.location = Location(code.co_filename, code.co_firstlineno)
        self.parameters = self._parameters()
        self.names = tuple([p.name for p in self.parameters])
        self.constants = tuple([p.name for p in self.parameters if p.is_constexpr])
        self.variables = tuple([p.name for p in self.parameters if not p.is_constexpr])
        self._body: FunctionType | None = None
        self._lock = threading.Lock()

    def _parameters(self) -> tuple[Parameter, ...]:
        found = []
        for parameter in inspect.signature(self.function).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise self.error(ArgumentError, f"a kernel takes no *{parameter.name}")
            kind = parameter.annotation
            marked = (isinstance(kind, type) and issubclass(kind, constexpr)) or (
                isinstance(kind, str) and kind.split(".")[-1] == constexpr.__name__
            )
            found.append(Parameter(parameter.name, marked, parameter.default))
        return tuple(found)

    def error(self, kind: type[UserError], message: str) -> UserError:
        """An error at the line of the function."""
        return error_at(kind, f"{self.name}: {message}", *self.location)

    # The function with its control flow rewritten.

    @property
    def body(self) -> FunctionType:
        with self._lock:
            if self._body is None:
                self._body = rewritten(self.function, traced_control)
            return self._body

    # Tracing.

    def trace(self, arguments: Mapping[str, Any], *, fast_math: bool = False) -> Module:
        """The IR for arguments: a spec of each, or the value of a constant."""
        types = [(name, arguments[name].type) for name in self.traced_variables(arguments)]
        func = Func(
            legal_name(self.name), Level.TILE, types, fast_math=fast_math, location=self.location
        )
        with trace_into(func.body, self.vocabulary) as tracer:
            self.trace_body(tracer, arguments, func.body.arguments)
            tracer.builder.insert(Return([], location=self.location))
        drop_updates(func)
        check_scopes(func.body, set())
        return Module([func])

    def traced_variables(self, arguments: Mapping[str, Any]) -> list[str]:
        """The arguments that the program has, too."""
        return [n for n, spec in arguments.items() if isinstance(spec, (ArraySpec, ScalarSpec))]

    def trace_body(
        self, tracer: Tracer, arguments: Mapping[str, Any], values: Sequence[Value]
    ) -> None:
        """Trace the text of the function, given facts about its arguments, and these."""
        passed = dict(arguments)
        start = Builder(tracer.builder.region, location=self.location)
        for name, value in zip(self.traced_variables(arguments), values, strict=True):
            passed[name] = self.wrap(value, name, arguments[name], start)
        tracer.active.append(self)
        tracer.entry = TileFunction._run.__code__
        tracer.package = (self.function.__module__ or "").split(".")[0]
        try:
            result = self._run(put_together(passed, arguments))
        finally:
            unmark(tracer)
        if isinstance(result, Missing):
            result.reject_use()
        if result is not None:
            raise self.error(
                LanguageError,
                f"a kernel returns nothing, but this gave {describe(result)}; store the result",
            )

    def wrap(
        self, value: Value, name: str, spec: ArraySpec | ScalarSpec, start: Builder
    ) -> Traced | Pointer:
        """An argument in the function, which starts with facts about it."""
        if isinstance(spec, ArraySpec):
            return Pointer(value, name, spec)
        if spec.is_one:
            return Traced(start(math.Constant(1, spec.type)))
        if spec.divisor > 1:
            return Traced(start(math.AssumeDivisible(spec.divisor, value), name))
        return Traced(value)

    def inline(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call the function from one that is being traced."""
        tracer = current()
        active, around = tracer.active, tracer.vocabulary
        if self in active:
            raise error_here(LanguageError, f"{self.name} calls itself; kernels cannot recurse")
        active.append(self)
        tracer.vocabulary = self.vocabulary
        try:
            return self.body(*arguments, **named)
        except UserError:
            raise
        except TypeError as error:
            raise _call_error(error, self) from error
        finally:
            active.pop()
            tracer.vocabulary = around

    def _run(self, passed: Mapping[str, Any]) -> Any:
        body = self.body
        try:
            return body(**passed)
        except NameError as error:
            raise error_from(LanguageError, error, str(error)) from error
        except (AttributeError, TypeError, ValueError) as error:
            ours = getattr(getattr(error, "obj", None), "__name__", None)
            if ours == __package__.split(".")[0]:
                raise error_from(LanguageError, error, str(error)) from error
            kinds = (Traced, Pointer, ChosenPointer)
            refused = refusal(error, kinds, "compute with operators and iris's words")
            if refused is None:
                raise
            raise refused from error
        except RecursionError as error:
            raise self.error(
                LanguageError,
                "a function that it calls recurses without end, or calls nest too deeply",
            ) from error


def check_scopes(region: Region, visible: set[Value]) -> None:
    """Find a value that left its loop or branch in a Python object."""
    here = [*region.arguments]
    visible |= {*here}
    for op in region:
        for value in op.operands:
            if value not in visible:
                message = (
                    f"{value.name or 'a value'} is used outside the loop or branch that it belongs "
                    "to; carry it in a variable that has a value before"
                )
                if op.location is None:
                    raise ScopeError(message)
                raise error_at(ScopeError, message, *op.location)
        for inner in op.regions:
            check_scopes(inner, visible)
        here += op.results
        visible |= {*op.results}
    visible -= {*here}


def _call_error(error: TypeError, function: TileFunction) -> Exception:
    """A wrong call of a kernel within a kernel; another TypeError is the user's own."""
    trace = error.__traceback__
    if trace is not None and trace.tb_next is None:
        return error_here(ArgumentError, f"{function.name}: {error}")
    return error
