"""Random launches of kernels that are Metal text, and what they do in NumPy.

    @given(metal_calls.scripts())
    def test_launches(script):
        script.check("softmetal")

Each line launches a kernel on Buffers and arrays, with numbers, vectors, threadgroup memory and
function constants.  Of some lines one thing is wrong: they must be an error, and change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import iris
from iris.compiler.metal_library import Library, library
from iris.errors import IrisError
from iris.runtime.devices import select
from iris.testing.choices import Choices

Array = npt.NDArray[Any]
BYTES = 160
COUNT = 24  # elements of an array
LINES = 6
_TYPES = {
    "float": ("float32", 2),
    "int": ("int32", 3),
    "uchar": ("uint8", 4),
    "half": ("float16", 3),
    "short": ("int16", 2),
}
_ARRAYS = ("a", "b", "c")  # Buffers; each of the host's is x, to be read, or y
_WRONG = (
    *("dtype", "strided", "read-only", "number", "lanes", "bytes", "missing", "unknown", "twice"),
    *("room", "written", "part"),
)
_HEAD = """\
#include <metal_stdlib>
using namespace metal;

constant int more [[function_constant(0)]];
constant bool turns [[function_constant(1)]];

template <typename T, typename V>
kernel void changed(device const T *x [[buffer(0)]],
                    device T *out [[buffer(1)]],
                    constant T &factor [[buffer(2)]],
                    constant V &terms [[buffer(4)]],
                    threadgroup T *room [[threadgroup(0)]],
                    uint i [[thread_position_in_grid]],
                    uint t [[thread_index_in_threadgroup]],
                    uint n [[threads_per_threadgroup]]) {
    room[t] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[i] = T(room[turns ? n - 1 - t : t] * factor + terms.x - 2 * terms.y + more);
}

template <typename V>
kernel void swapped(device const V *x [[buffer(0)]],
                    device V *out [[buffer(1)]],
                    uint i [[thread_position_in_grid]]) {
    out[i] = x[i].yx;
}
"""


@lru_cache
def _library(device: str) -> Library:
    lines = [_HEAD]
    for name, (_, lanes) in _TYPES.items():
        for kernel, types in (
            ("changed", f"{name}, {name}{lanes}"),
            ("swapped", f"{name}2"),
        ):
            made = f"{kernel}<{types}>"
            lines.append(f"typedef decltype({made}) of_{kernel}_{name};")
            lines.append(
                f'template [[host_name("{kernel}_{name}")]] kernel of_{kernel}_{name} {made};'
            )
    return library("\n".join(lines), device=device)


@dataclass(frozen=True)
class Line:
    """A launch, as Python and as what it means."""

    type: str
    swaps: bool
    constants: tuple[tuple[str, int], ...]
    groups: tuple[int, int] | None  # threadgroups, and threads in each; or else
    threads: tuple[int, int]  # threads, and how many of them in one
    x: str
    out: str
    factor: int
    terms: tuple[int, ...]
    as_bytes: bool
    by_name: int  # how many of the last arguments
    wrong: str = ""

    @property
    def dtype(self) -> str:
        return _TYPES[self.type][0]

    @property
    def text(self) -> str:
        constants = ", ".join(f"{k}={bool(v) if k == 'turns' else v}" for k, v in self.constants)
        chosen = f"library.specialize({constants})" if constants else "library"
        launched = f"{chosen}.{'swapped' if self.swaps else 'changed'}_{self.type}"
        given = self._given()
        cut = len(given) - self.by_name
        parts = [v for _, v in given[:cut]] + [f"{k}={v}" for k, v in given[cut:]]
        if self.wrong == "missing":
            parts = parts[:1]
        if self.wrong == "twice":
            parts = [v for _, v in given] + [f"out={given[1][1]}"]
        if self.wrong == "unknown":
            parts.append("besides=1")
        if not self.swaps:
            size = self.groups[1] if self.groups else self.threads[1]
            room = size * np.dtype(self.dtype).itemsize
            parts.append(f"room={room if self.wrong != 'room' else (0, -16, 1 << 20)[size % 3]}")
        if self.groups:
            return f"{launched}[{self.groups[0]}, {self.groups[1]}]({', '.join(parts)})"
        count, size = self.threads
        return f"{launched}({', '.join(parts)}, threads={count}, threadgroup={size})"

    def _given(self) -> list[tuple[str, str]]:
        x, out = f"{self.x}[{self.dtype!r}]", f"{self.out}[{self.dtype!r}]"
        terms = str(self.terms)
        factor = str(self.factor)
        dtype = np.dtype(self.dtype)
        if self.as_bytes:
            packed = np.zeros(4 if len(self.terms) > 2 else 2, dtype)
            packed[: len(self.terms)] = self.terms
            terms = repr(packed.tobytes())
        match self.wrong:
            case "dtype":
                x = f"x[{'int32' if dtype.kind == 'f' else 'float32'!r}]"
            case "strided":
                x = f"np.repeat(x[{self.dtype!r}], 2)[::2]"
            case "read-only":
                out = f"x[{self.dtype!r}]"
            case "number":
                factor = "0.5" if dtype.kind != "f" else "(1, 2)"
            case "lanes":
                terms = f"{self.terms}[1:] + (1, 2)"
            case "bytes":
                terms = repr(bytes(len(self.terms) * dtype.itemsize - 1))
            case "written":
                out = "3"
            case "part":  # of a vector
                x = f"{self.x}[{self.dtype!r}][:5]" if self.x == "x" else f"x[{self.dtype!r}][:5]"
        given = [("x", x), ("out", out)]
        return given if self.swaps else [*given, ("factor", factor), ("terms", terms)]

    def mean(self, held: dict[str, dict[str, Array]]) -> None:
        """Do the same in NumPy."""
        x, out = held[self.x][self.dtype], held[self.out][self.dtype]
        count, size = (prod(self.groups), self.groups[1]) if self.groups else self.threads
        if self.swaps:
            out[: 2 * count] = x[: 2 * count].reshape(-1, 2)[:, ::-1].reshape(-1).copy()
            return
        constants = dict(self.constants)
        wide = x[:count].astype(np.int64)
        if constants.get("turns"):
            wide = np.concatenate([wide[i : i + size][::-1] for i in range(0, count, size)])
        made = wide * self.factor + self.terms[0] - 2 * self.terms[1] + constants.get("more", 0)
        out[:count] = made.astype(out.dtype)


@dataclass(frozen=True)
class Script:
    """Launches, and a number that chooses an order where the device has a choice."""

    lines: tuple[Line, ...]
    seed: int

    def __repr__(self) -> str:
        return "\n".join([line.text for line in self.lines])

    def check(self, device: str) -> None:
        """Assert that each line does what it means, or is an error if something is wrong."""
        on = select(device)
        held = {name: _first(n) for n, name in enumerate((*_ARRAYS, "x", "y"))}
        host = {name: {k: v.copy() for k, v in held[name].items()} for name in "xy"}
        for array in host["x"].values():
            array.flags.writeable = False
        made = {
            name: {k: iris.asarray(v.copy(), device=on) for k, v in held[name].items()}
            for name in _ARRAYS
        }
        names: dict[str, Any] = {"library": _library(device), "np": np, **host, **made}
        on.shuffle(self.seed)
        try:
            for line in self.lines:
                self._run(line, names)
                if not line.wrong:
                    line.mean(held)
            for name, arrays in held.items():
                for dtype, wanted in arrays.items():
                    array = names[name][dtype]
                    found = array.numpy() if isinstance(array, iris.Buffer) else array
                    assert found.tobytes() == wanted.tobytes(), (
                        f"{name}[{dtype!r}] is {found}, not {wanted}, after\n\n{self!r}"
                    )
        finally:
            on.synchronize()
            on.shuffle(None)

    def _run(self, line: Line, names: dict[str, Any]) -> None:
        try:
            eval(line.text, names)
        except IrisError as error:
            if not line.wrong:
                raise AssertionError(f"{line.text}: {error}\n\n{self!r}") from error
        else:
            assert not line.wrong, f"nothing is said against {line.wrong}: {line.text}"


def _first(number: int) -> dict[str, Array]:
    values = np.arange(COUNT) % 7 + number
    return {dtype: values.astype(dtype) for dtype, _ in _TYPES.values()}


def _line(choices: Choices) -> Line:
    type_ = choices.of([*_TYPES])
    swaps = choices.flag(4)
    size = choices.of((4, 8, 3))
    most = COUNT // 2 if swaps else COUNT
    groups = (1 + choices.below(most // size), size) if choices.flag() else None
    # Each combination of a kernel and its constants is a text to compile.
    chosen = [c for c in (("more", 3), ("turns", 1)) if type_ == "int" and choices.flag()]
    x, out = choices.of((*_ARRAYS, "x", "y")), choices.of((*_ARRAYS, "y"))
    if x == out == "y" and groups is None:
        x = "x"
    line = Line(
        type_,
        swaps,
        tuple(chosen),
        groups,
        (1 + choices.below(most), size),
        x,
        out,
        choices.of((2, 1, 3)),
        tuple([choices.below(5) for _ in range(_TYPES[type_][1])]),
        choices.flag(3),
        choices.below(3),
    )
    wrong = choices.of(_WRONG) if choices.flag(3) else ""
    if swaps:
        of_both = (
            "dtype",
            "strided",
            "read-only",
            "missing",
            "unknown",
            "twice",
            "written",
            "part",
        )
        return replace(line, constants=(), wrong=wrong if wrong in of_both else "")
    return replace(line, wrong="" if wrong == "part" else wrong)


def _made(data: bytes) -> Script:
    choices = Choices(data)
    lines = tuple([_line(choices) for _ in range(1 + choices.below(LINES))])
    return Script(lines, choices.below(256))


def scripts() -> st.SearchStrategy[Script]:
    """Launches of a few lines."""
    return st.binary(min_size=BYTES, max_size=BYTES).map(_made)
