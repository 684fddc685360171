"""Recording what a script compiles: each kernel and function of arrays, as it is first launched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from iris.compiler.array_compilation import ArrayCompilation
    from iris.compiler.compilation import Compilation

    Lowered: TypeAlias = Compilation | ArrayCompilation

#: What is told of each launch: an object that is the same for each launch of one specialisation,
#: and how to lower it again.
RECORDERS: list[Callable[[object, Callable[[], Any]], None]] = []


def record(compiled: object, lower: Callable[[], Any]) -> None:
    for recorder in RECORDERS:
        recorder(compiled, lower)


@contextmanager
def recorded() -> Iterator[list[Lowered]]:
    """The specialisations that are launched within the `with`, in order."""
    found: dict[int, tuple[object, Lowered]] = {}  # the object kept, so that its id stays its own
    compilations: list[Lowered] = []

    def recorder(compiled: object, lower: Callable[[], Any]) -> None:
        if id(compiled) not in found:
            found[id(compiled)] = compiled, lower()
            compilations.append(found[id(compiled)][1])

    RECORDERS.append(recorder)
    try:
        yield compilations
    finally:
        RECORDERS.remove(recorder)
