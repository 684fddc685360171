"""Run kernels with Triton's own interpreter, on what Iris ran them on, and compare.

This is a process of its own, for here `triton` is Triton. It needs no torch and no GPU: the
interpreter is given arrays of NumPy, dressed as tensors.
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
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

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array[key] = value


def compare(path: str, case: dict[str, Any]) -> str:
    """What Triton says of a result: that it is equal, or why not."""
    arguments = {n: copied(v) for n, v in case["arguments"].items()}
    try:
        with np.errstate(all="ignore"):
            run(path, case, arguments)
    except BaseException as error:  # noqa: BLE001 - the verdict names it
        return f"Triton refuses it: {str(error).partition(chr(10))[0][:100]}"
    arrays, before = dict(arrays_of(arguments)), dict(arrays_of(case["arguments"]))
    wrong = [n for n, got in case["results"].items() if not are_equal(got, arrays[n])]
    changed = [n for n, v in arrays.items() if not np.array_equal(v, before[n], True)]
    if wrong:
        return f"differs: {', '.join(wrong)}"
    return "equal" if changed else "its first program writes nothing"


def arrays_of(arguments: dict[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays among the arguments, those in tuples, too, each with a name."""
    for name, value in arguments.items():
        if isinstance(value, tuple):
            yield from arrays_of({f"{name}.{i}": item for i, item in enumerate(value)})
        elif isinstance(value, np.ndarray):
            yield name, value


def copied(value: Any) -> Any:
    """An argument, with copies of its arrays."""
    if isinstance(value, tuple):
        return tuple([copied(item) for item in value])
    return value.copy() if isinstance(value, np.ndarray) else value


def are_equal(got: np.ndarray, expected: np.ndarray) -> bool:
    """Whether results are equal, or within what another order of sums makes of floats; they may be
    rounded to neighbours then."""
    if got.dtype.kind != "f":
        return np.array_equal(got, expected)
    size = np.abs(expected[np.isfinite(expected)], dtype=np.float64).max(initial=1e-6)
    rtol = max(2e-4, float(np.finfo(got.dtype).eps))
    return np.allclose(got, expected, rtol=rtol, atol=2e-5 * size, equal_nan=True)


def run(path: str, case: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Run a kernel on Triton's interpreter, in place."""
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction

    at, _, name = path.rpartition(".")
    module = stand_in.imported(at)
    adapt(module)
    kernel = getattr(module, name)
    while not isinstance(kernel, InterpretedFunction):
        kernel = kernel.fn
    passed = {}
    for argument, value in arguments.items():
        if type(value) in (int, float) and argument not in case["constants"]:
            value = _scalar(value)
        elif isinstance(value, str) and value.startswith("tl."):
            value = getattr(tl, value.removeprefix("tl."))
        passed[argument] = dressed(value)
    kernel[case.get("grid", (1, 1, 1))](**passed)


def adapt(module: ModuleType) -> None:
    """Let the interpreter run the kernels of a module as Triton's compiler takes them."""
    import triton.language as tl

    module.range = _counted  # type: ignore[attr-defined]
    for word, value in vars(module).items():
        # The interpreter replaces the words of `tl`, and not what a module calls one of them.
        if tl.core.is_builtin(value) and hasattr(tl, value.__name__):
            setattr(module, word, _word(value.__name__))


def dressed(value: Any) -> Any:
    """An argument of a launch, in which arrays are tensors."""
    if isinstance(value, tuple):
        return tuple([dressed(item) for item in value])
    return Tensor(value) if isinstance(value, np.ndarray) else value


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


#: What functions of libdevice compute, which the interpreter has no code for.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(np, name)
        for name in ("exp", "exp2", "log", "log2", "log10", "log1p", "expm1")
    },
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt")},
    **{name: getattr(np, name) for name in ("floor", "ceil", "trunc", "rint", "cbrt", "hypot")},
    **{name: getattr(np, name) for name in ("fmod", "copysign", "isnan", "isinf", "signbit")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "tan2")},
    "abs": np.abs,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "finitef": np.isfinite,
    "nearbyint": np.rint,
    "pow": np.power,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
}


def give_functions() -> None:
    """Let the interpreter compute functions of libdevice, and numbers that dtypes are called on."""
    import triton.language as tl
    from triton.language.extra import libdevice
    from triton.language.extra.cuda import libdevice as of_cuda

    tl.dtype.__call__ = lambda dtype, x: tl.full((), x, dtype)
    for module in (libdevice, of_cuda):
        for name, function in _FUNCTIONS.items():
            setattr(module, name, _elementwise(function))


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's for values of the interpreter; of predicates, integers."""

    def call(*operands: Any) -> Any:
        import triton.language as tl
        from triton.runtime.interpreter import TensorHandle

        given = [x.handle.data if hasattr(x, "handle") else x for x in operands]
        made = np.asarray(function(*[np.asarray(x, np.float64) for x in given]))
        kind, dtype = (np.int32, tl.int32) if made.dtype == bool else (np.float32, tl.float32)
        shape = next(x.type for x in operands if hasattr(x, "handle"))
        shape = tl.block_type(dtype, list(made.shape)) if shape.is_block() else dtype
        return tl.tensor(TensorHandle(made.astype(kind), dtype), shape)

    return call


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--at", required=True, help="the folder where the packages are")
    parser.add_argument("cases", help="the folder of what Iris ran")
    given = parser.parse_args()
    sys.path.insert(0, given.at)
    stand_in.install()
    give_functions()
    verdicts = {}
    for file in sorted(Path(given.cases).glob("*.pickle")):
        verdicts[file.stem] = compare(file.stem, pickle.loads(file.read_bytes()))
        print(file.stem, verdicts[file.stem], flush=True)
    (Path(given.cases) / "verdicts.json").write_text(json.dumps(verdicts, indent=1))


if __name__ == "__main__":
    main()
