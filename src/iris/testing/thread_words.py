"""Random kernels by thread that are drawn line by line, of all words that they have.

    @given(thread_words.words())
    def test_words(kernel):
        kernel.check()

Each line assigns to a variable what some words make of others: of vectors, of memory of all kinds,
of what other threads have.  NumPy computes the same by the rules that the reference of the language
states.  In the end the kernel stores each variable, and all arrays must hold what NumPy says.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from iris import metal
from iris.errors import IrisError
from iris.testing import thread_lines
from iris.testing.choices import Choices
from iris.testing.plain_formulas import Near
from iris.testing.plain_tiles import HELD, same_numbers
from iris.testing.sources import defined
from iris.testing.thread_draft import UNTOUCHED, ThreadDraft, check

BYTES = 160


class ThreadWords(ThreadDraft):
    """A kernel, and what it is called with."""

    makers = thread_lines.MAKERS

    def __repr__(self) -> str:
        given = "".join(f"{p.name} = {p.given!r}\n" for p in self.parameters)
        return f"{given}{dict(self.launch.how)}\n\n{self.text}"

    def check(self) -> None:
        """Assert that the kernel stores what NumPy says."""
        device = self.choices.of(("interp:metal", "interp"))
        given = [p.given if p.expected is None else p.given.copy() for p in self.parameters]
        outs, results = {}, self.results
        for name, (type_, _) in self.outputs().items():
            rows = np.full((self.count, type_.width), UNTOUCHED, HELD[type_.dtype])
            outs[name] = type_, type_.laid_out(rows, UNTOUCHED)
        arrays = [out for _, out in outs.values()]
        drawn = defined(self.text, metal=metal, check=check)
        try:
            drawn(*given, *arrays, **self.launch.how, device=device)
        except (IrisError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise AssertionError(f"{error}\n\n{self!r}") from error
        for found, parameter in zip(given, self.parameters, strict=True):
            if parameter.expected is not None and not same_numbers(found, parameter.expected):
                self._fail(parameter.name, found, parameter.expected)
        for name, (type_, out) in outs.items():
            x = results[name]
            if isinstance(x, Near):
                found = out.reshape(self.count, type_.stride)[:, : type_.width]
                if not x.holds(found):
                    self._fail(name, found, x.data)
            elif not same_numbers(out, expected := type_.laid_out(x.data, UNTOUCHED)):
                self._fail(name, out, expected)

    def _fail(self, name: str, found: object, expected: object) -> None:
        raise AssertionError(f"{name} is\n{found}\nnot\n{expected}\n\n{self!r}")


def words() -> st.SearchStrategy[ThreadWords]:
    """Kernels of a few lines."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: ThreadWords(Choices(data)))
