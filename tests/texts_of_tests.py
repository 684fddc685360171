"""What tests emit for Metal, to be held to the rules of Apple's compiler: `pytest --apple`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apple_texts import against_rules
from iris.codegen.languages.msl import MSL
from iris.codegen.source import Source

_known: set[str] = set()  # texts that were checked with an earlier module


class Texts:
    """The texts of kernels, as they are emitted."""

    def __init__(self, emit: Callable[[Any], Source]):
        self._emit = emit
        self._made: dict[str, Source] = {}

    def of(self, kernel: Any) -> Source:
        source = self._emit(kernel)
        # MLX puts the body of a kernel into a text of its own.
        if kernel.language.name == MSL.name and source.text not in _known:
            self._made[source.text] = source
        return source

    def refused(self) -> list[str]:
        """What is said of the texts that Apple's compiler would refuse, with these."""
        _known.update(self._made)
        return against_rules(list(self._made.values()))
