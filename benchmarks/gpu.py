"""Functions of arrays on an NVIDIA GPU beside torch, torch.compile and Triton: the bytes per second
that each moves, or the operations that it does.

All are run in turns, in one process, on the same arrays, by the events of CUDA, with the caches
flushed before each; results are held against each other first.  The GPU waits until all of a
function has been launched, so what the host takes for that is not timed.  What is printed is the
median of the medians of three runs.  What Iris compiles for, and how, it chooses alone; Triton's
kernels are tuned, for each size.  It needs a GPU, `iris-metal[cuda]` and torch; with `--short` it
needs neither: the functions run on an interpreter, on small arrays, beside NumPy.

`results/gpu.json` is kept, with the GPU and versions, when all rows have run.  With names, such as
`gpu.py softmax`, only these run, and nothing is kept.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import numpy as np

import iris
import report

Function = Callable[..., Any]
FLUSHED_BYTES = 256 << 20
RUNS = 3
REPEAT = 20  # times in a run
TRIED = 5  # times of each of Triton's kernels, to choose one
# Cycles that the GPU waits for the host to launch; first launches of a function may take longer.
WAITING_CYCLES = 1_000_000
MOST_WAITING_CYCLES = WAITING_CYCLES << 8


@dataclass(frozen=True)
class Row:
    """One function: its arguments for a size, and what is counted of it."""

    function: Function  # of NumPy's arrays, for iris.jit and NumPy itself
    torch: str  # the same in torch: an expression of its arguments, a, b, c, d
    make: Callable[..., Sequence[Any]]
    sizes: Sequence[tuple[int, ...]]
    small: tuple[int, ...]
    #: Bytes that have to be moved, or operations that have to be done.
    work: Callable[[Sequence[Any], Any], float]
    unit: str = "TB/s"
    tolerance: float = 2e-3


def moved(given: Sequence[Any], result: Any) -> float:
    """Each argument read once, and each result written once."""
    results = result if isinstance(result, tuple) else (result,)
    return float(sum(x.nbytes for x in (*given, *results)))


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return _rng().standard_normal(shape, np.float32).astype(dtype)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def layer_norm(x: Any, gain: Any, shift: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + shift


def rms_norm(x: Any, added: Any, gain: Any) -> Any:
    total = x.astype(np.float32) + added
    scale = 1 / np.sqrt((total * total).mean(-1, keepdims=True) + 1e-6)
    return total.astype(np.float16), (total * scale * gain).astype(np.float16)


def normalise_gelu(x: Any, gain: Any, shift: Any, residual: Any) -> Any:
    return gelu(layer_norm(x, gain, shift)) + residual


def cross_entropy(x: Any, labels: Any) -> Any:
    top = x.max(-1)
    total = np.log(np.exp(x - top[:, None]).sum(-1))
    return top + total - x[np.arange(x.shape[0]), labels]


def rope(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    a, b = x[..., :half].astype(np.float32), x[..., half:].astype(np.float32)
    parts = a * cos - b * sin, b * cos + a * sin
    return np.concatenate(parts, -1).astype(np.float16)


def batch_norm(x: Any, gain: Any, shift: Any) -> Any:
    mean = x.mean((0, 2, 3), keepdims=True)
    variance = ((x - mean) ** 2).mean((0, 2, 3), keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + shift


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5) @ v


def _with_rows(*shape: int) -> Sequence[Any]:
    return floats(*shape), floats(shape[-1]), floats(shape[-1])


def _labels(rows: int, classes: int) -> Any:
    return _rng().integers(0, classes, rows).astype(np.int32)


def _angles(rows: int, width: int) -> Any:
    return floats(rows, width)


BIG = (16384, 4096)
NORMS = [BIG, (8192, 8192), (30000, 1000)]
REDUCED = [BIG, (8192, 8192), (50000, 1000)]
ROWS: dict[str, Row] = {
    "add": Row(
        lambda x, y: x + y,
        "a + b",
        lambda n: (floats(n), floats(n)),
        [(1 << 26,), (20_000_000,), (100_000_000,)],
        (1000,),
        moved,
    ),
    "gelu": Row(
        gelu,
        "F.gelu(a, approximate='tanh')",
        lambda n: (floats(n),),
        [(1 << 26,), (20_000_000,), (100_000_000,)],
        (1000,),
        moved,
    ),
    "softmax": Row(
        softmax,
        "a.softmax(-1)",
        lambda *s: (floats(*s),),
        [BIG, (4096, 1003), (1024, 32768), (8192, 8192), (20000, 1500)],
        (5, 67),
        moved,
    ),
    "layernorm": Row(
        layer_norm, "F.layer_norm(a, a.shape[-1:], b, c)", _with_rows, NORMS, (5, 67), moved
    ),
    "rmsnorm f16": Row(
        rms_norm,
        "(t := a.float() + b, (t.half(), (t * (t * t).mean(-1, True).add(1e-6).rsqrt() * c)"
        ".half()))[1]",
        lambda *s: (
            floats(*s, dtype=np.float16),
            floats(*s, dtype=np.float16),
            floats(s[-1], dtype=np.float16),
        ),
        NORMS,
        (5, 67),
        moved,
        tolerance=1e-2,
    ),
    "row sum": Row(
        lambda x: x.sum(1), "a.sum(1)", lambda *s: (floats(*s),), REDUCED, (5, 67), moved
    ),
    "column sum": Row(
        lambda x: x.sum(0), "a.sum(0)", lambda *s: (floats(*s),), REDUCED, (5, 67), moved
    ),
    "argmax": Row(
        lambda x: x.argmax(1).astype(np.int32),
        "a.argmax(1).int()",
        lambda *s: (floats(*s),),
        REDUCED,
        (5, 67),
        moved,
    ),
    "cumsum": Row(
        lambda x: x.cumsum(1), "a.cumsum(1)", lambda *s: (floats(*s),), REDUCED, (5, 67), moved
    ),
    "transpose": Row(
        lambda x: x.T + 0,
        "a.T.contiguous()",
        lambda *s: (floats(*s),),
        [(8192, 8192), (4096, 16384), (10000, 6000)],
        (5, 67),
        moved,
    ),
    "cross-entropy": Row(
        cross_entropy,
        "F.cross_entropy(a, b.long(), reduction='none')",
        lambda *s: (floats(*s), _labels(*s)),
        [(8192, 32768), (4096, 50257), (16384, 8000)],
        (5, 67),
        moved,
    ),
    "rope f16": Row(
        rope,
        "(h := a.shape[-1] // 2, x := a[..., :h].float(), y := a[..., h:].float(), "
        "torch.cat((x * b - y * c, y * b + x * c), -1).half())[3]",
        lambda *s: (
            floats(*s, dtype=np.float16),
            _angles(s[-2], s[-1] // 2),
            _angles(s[-2], s[-1] // 2),
        ),
        [(64, 4096, 128), (32, 8192, 128), (128, 2048, 64)],
        (2, 5, 16),
        moved,
        tolerance=1e-2,
    ),
    "batch norm": Row(
        batch_norm,
        "F.batch_norm(a, None, None, b.flatten(), c.flatten(), True)",
        lambda *s: (floats(*s), floats(1, s[1], 1, 1), floats(1, s[1], 1, 1)),
        [(64, 128, 56, 56), (128, 64, 112, 112), (64, 256, 28, 28)],
        (2, 3, 4, 5),
        moved,
    ),
    "normalise, gelu, residual": Row(
        normalise_gelu,
        "F.gelu(F.layer_norm(a, a.shape[-1:], b, c), approximate='tanh') + d",
        lambda *s: (*_with_rows(*s), floats(*s)),
        NORMS,
        (5, 67),
        moved,
    ),
    "matmul f16": Row(
        lambda x, y: x @ y,
        "a @ b",
        lambda n: (floats(n, n, dtype=np.float16), floats(n, n, dtype=np.float16)),
        [(4096,), (2048,), (8192,)],
        (16,),
        lambda given, _: 2.0 * given[0].shape[0] ** 3,
        "TFLOP/s",
        tolerance=2e-2,
    ),
    "matmul f32": Row(
        lambda x, y: x @ y,
        "a @ b",
        lambda n: (floats(n, n), floats(n, n)),
        [(4096,), (3072,), (8192,)],
        (16,),
        lambda given, _: 2.0 * given[0].shape[0] ** 3,
        "TFLOP/s",
    ),
    "attention f16": Row(
        attention,
        "F.scaled_dot_product_attention(a[None], b[None], c[None])[0]",
        lambda *s: tuple(floats(*s, dtype=np.float16) for _ in range(3)),
        [(32, 4096, 64), (16, 8192, 64), (64, 2048, 128)],
        (2, 32, 16),
        lambda given, _: 4.0 * given[0].size * given[0].shape[-2],
        "TFLOP/s",
        tolerance=2e-2,
    ),
}


def close(found: Any, expected: Any, tolerance: float) -> bool:
    """Whether arrays, or tensors, are the same but for rounding: by the largest that there is."""
    both = zip(*[x if isinstance(x, tuple) else (x,) for x in (found, expected)], strict=True)
    return all(
        a.shape == b.shape and bool(abs(a - b).max() <= tolerance * max(1, abs(b).max()))
        for a, b in both
    )


def short() -> None:
    """That the functions are right: on an interpreter, beside NumPy."""
    rows = {}
    for name, row in ROWS.items():
        given = row.make(*row.small)
        found = iris.jit(row.function)(*given)
        rows[name] = {"right": float(close(found, row.function(*given), row.tolerance))}
    report.write("gpu", rows)
    wrong = [name for name, found in rows.items() if not found["right"]]
    if wrong:
        sys.exit(f"wrong: {', '.join(wrong)}")


def main() -> None:
    if report.SHORT:
        short()
        return
    try:
        import torch
    except ImportError:
        sys.exit("install torch to measure beside it; or run with --short")
    missing = dict(iris.devices())["cuda"]
    if missing is not None:
        sys.exit(f"the device cuda is not here: {missing}")
    device = versions(torch)
    only = [word for word in sys.argv[1:] if not word.startswith("-")]
    rows: dict[str, dict[str, float]] = {}
    for name, row in ROWS.items():
        if only and name not in only:
            continue
        for size in row.sizes:
            label = f"{name} {'x'.join(map(str, size))}, {row.unit}"
            rows[label] = measured(torch, name, row, row.make(*size))
            print(label, {k: round(v, 3) for k, v in rows[label].items()}, flush=True)
    print(device)
    if only:
        report.show(rows)  # what is kept is of a whole run
    else:
        report.write("gpu", rows, device)


def versions(torch: Any) -> dict[str, str]:
    """The GPU, and the software that the times depend on, as far as it says its version."""
    found = {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    if shutil.which("nvidia-smi") is not None:
        ask = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        told = subprocess.run(ask, capture_output=True, text=True).stdout.split()
        if told:
            found["driver"] = told[0]
    found["torch"] = torch.__version__
    if find_spec("triton") is not None:
        found["triton"] = metadata.version("triton")
    return found


def measured(torch: Any, name: str, row: Row, arrays: Sequence[Any]) -> dict[str, float]:
    """How much of the work each does in a second; what of the best that Iris does; and the least
    and the most of Iris's runs."""
    import torch.nn.functional as F

    given = [torch.from_numpy(array).cuda() for array in arrays]
    names = ", ".join("abcd"[: len(given)])
    plain = eval(f"lambda {names}: {row.torch}", {"torch": torch, "F": F})
    torch._dynamo.reset()  # each is compiled, however many were before it
    clock = Clock(torch)
    expected = plain(*given)

    def right(who: str, function: Function) -> bool:
        try:
            result = function()
            result = tuple(map(tensor, result)) if isinstance(result, tuple) else tensor(result)
        except Exception as error:  # noqa: BLE001 -- of a peer, or of a row that is not there yet
            print(f"{who}: {type(error).__name__}: {str(error)[:300]}")
            return False
        if close(result, expected, row.tolerance):
            return True
        print(f"{who} is WRONG")
        return False

    def tensor(array: Any) -> Any:
        return array if isinstance(array, torch.Tensor) else torch.from_dlpack(array)

    ours, compiled = iris.jit(row.function), torch.compile(plain, dynamic=False)
    ways: dict[str, Function] = {
        "iris": lambda: ours(*given),
        "torch": lambda: plain(*given),
        "compiled": lambda: compiled(*given),
    }
    ways = {who: function for who, function in ways.items() if right(who, function)}
    tuned = [call for call in triton_calls(name, given) if right("triton", call)]
    if tuned:
        ways["triton"] = min(tuned, key=lambda call: statistics.median(clock.seconds(call, TRIED)))
    work = row.work(arrays, expected)
    runs: dict[str, list[float]] = {who: [] for who in ways}
    for _ in range(RUNS):
        turns = [[clock.once(function) for function in ways.values()] for _ in range(REPEAT)]
        for who, seconds in zip(ways, zip(*turns, strict=True), strict=True):
            runs[who].append(work / statistics.median(seconds) / 1e12)
    rates = {who: statistics.median(of_runs) for who, of_runs in runs.items()}
    if "iris" in rates:
        rates["of best"] = rates["iris"] / max(rates[who] for who in ways if who != "iris")
        rates["least"], rates["most"] = min(runs["iris"]), max(runs["iris"])
    return rates


def triton_calls(name: str, given: Sequence[Any]) -> Iterator[Function]:
    """Calls of Triton's kernels for a row, if Triton is here."""
    try:
        import triton_rows
    except ImportError:
        return iter(())
    return triton_rows.ROWS[name](*given)


class Clock:
    """Times what runs on the GPU, with the caches flushed."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.flushed = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device="cuda")

    def seconds(self, function: Function, repeat: int) -> list[float]:
        return [self.once(function) for _ in range(repeat)]

    def once(self, function: Function) -> float:
        """The GPU is kept waiting until all has been launched; longer, if that took too long."""
        cuda, cycles = self.torch.cuda, WAITING_CYCLES
        while True:
            self.flushed.zero_()
            cuda._sleep(cycles)
            before, after = (cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            kept = function()
            after.record()
            has_waited = not before.query()
            after.synchronize()
            del kept
            if has_waited:
                return float(before.elapsed_time(after)) / 1000
            cycles *= 2
            if cycles > MOST_WAITING_CYCLES:
                raise RuntimeError("a function waits for the GPU: its launch would be timed")


if __name__ == "__main__":
    main()
