"""Run kernels with Triton's own interpreter, on what Iris ran them on, and compare.

This is a process of its own, for here `triton` is Triton. It needs no torch and no GPU: the
interpreter is given arrays of NumPy, dressed as tensors.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from zoo import stand_in


class Tensor:
    """An array, as Triton's interpreter asks for it."""

    def __init__(self, array: np.ndarray | None = None):
        self.array = array

    @property
    def dtype(self) -> str:
        return str(self.array.dtype)

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def untyped_storage(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def new_empty(self, *arguments: Any, **named: Any) -> Tensor:
        return Tensor()

    def set_(self, storage: Tensor, *rest: Any) -> None:
        self.array = storage.array

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return tuple([n // self.array.itemsize for n in self.array.strides])

    def copy_(self, other: Tensor) -> None:
        """Nothing: the memory is the same."""


def compare(path: str, case: dict[str, Any]) -> str:
    """What Triton says of a result: that it is equal, or why not."""
    arrays = {n: v.copy() for n, v in case["arguments"].items() if isinstance(v, np.ndarray)}
    try:
        with np.errstate(all="ignore"):
            run(path, case, arrays)
    except BaseException as error:  # noqa: BLE001 - the verdict names it
        return f"Triton refuses it: {str(error).partition(chr(10))[0][:100]}"
    wrong = [n for n, got in case["results"].items() if not are_equal(got, arrays[n])]
    changed = [n for n, v in arrays.items() if not np.array_equal(v, case["arguments"][n], True)]
    if wrong:
        return f"differs: {', '.join(wrong)}"
    return "equal" if changed else "its first program writes nothing"


def are_equal(got: np.ndarray, expected: np.ndarray) -> bool:
    """Whether results are equal, or within what another order of sums makes of floats."""
    if got.dtype.kind != "f":
        return np.array_equal(got, expected)
    size = np.abs(expected[np.isfinite(expected)], dtype=np.float64).max(initial=1e-6)
    return np.allclose(got, expected, rtol=2e-4, atol=2e-5 * size, equal_nan=True)


def run(path: str, case: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Run a kernel on Triton's interpreter, in place."""
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction

    at, _, name = path.rpartition(".")
    module = importlib.import_module(at)
    module.range = _counted  # type: ignore[attr-defined]
    for word, value in vars(module).items():
        # The interpreter replaces the words of `tl`, and not what a module calls one of them.
        if tl.core.is_builtin(value) and hasattr(tl, value.__name__):
            setattr(module, word, _word(value.__name__))
    kernel = getattr(module, name)
    while not isinstance(kernel, InterpretedFunction):
        kernel = kernel.fn
    passed = {}
    for argument, value in case["arguments"].items():
        if argument in arrays:
            value = Tensor(arrays[argument])
        elif type(value) in (int, float) and argument not in case["constants"]:
            value = _scalar(value)
        elif isinstance(value, str) and value.startswith("tl."):
            value = getattr(tl, value.removeprefix("tl."))
        passed[argument] = value
    kernel[case.get("grid", (1, 1, 1))](**passed)


def _word(name: str) -> Callable[..., Any]:
    """A word of `triton.language`, as it is when it is called."""

    def call(*arguments: Any, **named: Any) -> Any:
        import triton.language as tl

        return getattr(tl, name)(*arguments, **named)

    return call


def _counted(*bounds: Any) -> Iterator[Any]:
    """Python's `range` for a kernel: its numbers are values that have methods, as in Triton."""
    given = [int(b.handle.data.item()) if hasattr(b, "handle") else int(b) for b in bounds]
    return map(_scalar, range(*given))


def _scalar(value: float) -> Any:
    """A number as a kernel gets one from a launch; the interpreter passes it as Python's."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    dtype, kind = (tl.float32, np.float32) if type(value) is float else (tl.int32, np.int32)
    return tl.tensor(TensorHandle(np.array([value], kind), dtype), dtype)


def _give_functions() -> None:
    """Let the interpreter compute functions of libdevice, which it has no code for."""
    import triton
    import triton.language
    from triton.language.extra import libdevice
    from triton.language.extra.cuda import libdevice as of_cuda

    globals()["tl"] = triton.language

    @triton.jit
    def tanh(x):  # type: ignore[no-untyped-def]
        return 1 - 2 / (tl.exp(2 * x) + 1)  # type: ignore[name-defined]  # noqa: F821

    @triton.jit
    def rsqrt(x):  # type: ignore[no-untyped-def]
        return tl.rsqrt(x)  # type: ignore[name-defined]  # noqa: F821

    @triton.jit
    def round(x):  # type: ignore[no-untyped-def]
        whole = tl.floor(tl.abs(x) + 0.5)  # type: ignore[name-defined]  # noqa: F821
        return tl.where(x < 0, -whole, whole)  # type: ignore[name-defined]  # noqa: F821

    for module in (libdevice, of_cuda):
        module.tanh, module.rsqrt, module.round = tanh, rsqrt, round


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--at", required=True, help="the folder where the packages are")
    parser.add_argument("cases", help="the folder of what Iris ran")
    given = parser.parse_args()
    sys.path.insert(0, given.at)
    stand_in.install()
    _give_functions()
    verdicts = {}
    for file in sorted(Path(given.cases).glob("*.pickle")):
        verdicts[file.stem] = compare(file.stem, pickle.loads(file.read_bytes()))
        print(file.stem, verdicts[file.stem], flush=True)
    (Path(given.cases) / "verdicts.json").write_text(json.dumps(verdicts, indent=1))


if __name__ == "__main__":
    main()
