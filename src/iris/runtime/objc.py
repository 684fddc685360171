"""Objective-C through ctypes: classes, messages, and who owns what.

    runtime = Runtime(ctypes.CDLL("/usr/lib/libobjc.A.dylib"))
    with_text = runtime.message("stringWithUTF8String:", Object, ctypes.c_char_p)
    length = runtime.message("length", UInteger)
    with runtime.pool():
        assert length(with_text(runtime.get_class("NSString"), b"four")) == 4

A message knows its whole signature: ctypes would pass arguments it was not told of as those of a
variadic function, which go elsewhere on arm64.  Every object that a message gives is owned by the
`Object` that stands for it, whether the method's name says that it is (`new...`, `copy...`) or it
is retained here; it is released when that goes, or before by `release`.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from iris.errors import IrisError
from iris.runtime.finalizers import until_shutdown

Pointer = ctypes.c_void_p
UInteger = ctypes.c_size_t  # NSUInteger
Integer = ctypes.c_ssize_t  # NSInteger, and what a BOOL is read as part of

# Methods of these families give what the caller owns; `newsletter` is in none.
_OWNING = re.compile(r"_*(alloc|new|copy|mutableCopy)(?![a-z])")
_INITIALISING = re.compile(r"_*init(?![a-z])")


class ObjectiveCError(IrisError):
    """What an NSError says."""

    def __init__(self, text: str, domain: str, code: int):
        super().__init__(text)
        self.domain = domain
        self.code = code


class Object:
    """An object that Python owns a reference to."""

    __slots__ = ("_as_parameter_", "_runtime", "pointer")
    _as_parameter_: int | None
    pointer: int | None  # None once it is released

    def __init__(self, runtime: Runtime, pointer: int):
        self._runtime = runtime
        self.pointer = self._as_parameter_ = pointer

    def release(self) -> None:
        """Give up the reference, now rather than later."""
        pointer, self.pointer, self._as_parameter_ = self.pointer, None, None
        if pointer is not None:
            self._runtime.release(pointer)

    @until_shutdown
    def __del__(self) -> None:
        self.release()


class Runtime:
    """An Objective-C runtime: its classes, and messages to its objects."""

    def __init__(self, library: ctypes.CDLL):
        self._library = library
        self._selectors: dict[str, int] = {}
        self._get_class = self._function("objc_getClass", Pointer, ctypes.c_char_p)
        self._register = self._function("sel_registerName", Pointer, ctypes.c_char_p)
        self._retain = self._function("objc_retain", Pointer, Pointer)
        self.release = self._function("objc_release", None, Pointer)
        self.push = self._function("objc_autoreleasePoolPush", Pointer)
        self.pop = self._function("objc_autoreleasePoolPop", None, Pointer)
        # A method in memory returns there by another way on x86-64.
        self._send = library["objc_msgSend"]
        self._send_large = getattr(library, "objc_msgSend_stret", self._send)
        self._utf8 = self.message("UTF8String", ctypes.c_char_p)
        self._new_string = self.message("initWithUTF8String:", Object, ctypes.c_char_p)
        self._alloc = self.message("alloc", Object)
        self._error_text = self.message("localizedDescription", Pointer)
        self._error_domain = self.message("domain", Pointer)
        self._error_code = self.message("code", Integer)

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        # A subscript gives a function object of its own, which is safe to tell the types.
        function = self._library[name]
        function.restype, function.argtypes = result, arguments
        return function

    def get_class(self, name: str) -> int:
        """A class; those live for ever."""
        found = self._get_class(name.encode())
        if found is None:
            raise LookupError(f"there is no Objective-C class {name}")
        return int(found)

    @contextmanager
    def pool(self) -> Iterator[None]:
        """What methods return without giving it away lives until the end of this; as `push`, and
        `pop` with what that gave, for those in a hurry."""
        pool = self.push()
        try:
            yield
        finally:
            self.pop(pool)

    def string(self, text: str) -> Object:
        """A new NSString."""
        made: Object = self._new_string(self._alloc(self.get_class("NSString")), text.encode())
        return made

    def text(self, string: Object | int | None) -> str:
        """What an NSString says; nothing for nil."""
        with self.pool():
            found = self._utf8(string)
            return "" if found is None else found.decode()

    def selector(self, name: str) -> int:
        """What stands for the name of a method."""
        return int(self._register(name.encode()))

    def message(
        self, selector: str, result: Any, *arguments: Any, error: bool = False, quick: bool = False
    ) -> Callable[..., Any]:
        """A function that sends a message to its first argument: of a selector, with arguments of
        these ctypes, and a result of one, of `Object`, or None.

        `error`: the last argument of the selector is where an NSError goes, which becomes an
        `ObjectiveCError` if the result is nil or NO.  `quick`: what takes less time
        than it takes to let other threads of Python run meanwhile, and never calls back to Python.
        """
        if len(arguments) + error != selector.count(":"):
            raise TypeError(f"{selector} takes {selector.count(':')} arguments")
        known = self.selector(selector)
        is_object = result is Object
        given = Pointer if is_object else result
        types = (*arguments, Pointer) if error else arguments
        function = self._typed(given, types, ctypes.PYFUNCTYPE if quick else ctypes.CFUNCTYPE)

        def send(receiver: Object | int | None, *values: Any) -> Any:
            return function(receiver, known, *values)

        if error:
            send = self._raising(send)
        return self._owning(selector, send) if is_object else send

    def _typed(self, result: Any, arguments: tuple[Any, ...], prototype: Any) -> Callable[..., Any]:
        large = isinstance(result, type(ctypes.Structure)) and ctypes.sizeof(result) > 16
        address = ctypes.cast(self._send_large if large else self._send, Pointer).value
        return prototype(result, Pointer, Pointer, *arguments)(address or 0)  # type: ignore[no-any-return]

    def _raising(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def checked(receiver: Object | int | None, *values: Any) -> Any:
            error = Pointer()
            with self.pool():
                found = send(receiver, *values, ctypes.byref(error))
                if not found:
                    raise ObjectiveCError(
                        self.error_text(error.value),
                        self.text(self._error_domain(error.value)),
                        self._error_code(error.value),
                    )
                return found

        return checked

    def error_code(self, error: int | None) -> int:
        """The number that an NSError has in its domain; 0: there is none."""
        return int(self._error_code(error)) if error else 0

    def error_text(self, error: int | None) -> str:
        """What an NSError says."""
        return self.text(self._error_text(error)) or "failed without an error"

    def _owning(self, selector: str, send: Callable[..., Any]) -> Callable[..., Any]:
        """What sends a message, and owns what that gives."""
        is_owned = _OWNING.match(selector) is not None

        def owned(receiver: Object | int | None, *values: Any) -> Object | None:
            pointer = send(receiver, *values)
            if pointer is None:
                return None
            return Object(self, pointer if is_owned else self._retain(pointer))

        def initialised(receiver: Object, *values: Any) -> Object | None:
            pointer = send(receiver, *values)
            # What is initialised takes the place of what was allocated.
            receiver.pointer = receiver._as_parameter_ = None
            return None if pointer is None else Object(self, pointer)

        return initialised if _INITIALISING.match(selector) else owned
