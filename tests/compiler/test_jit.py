"""Functions of arrays: what they are given and return, on every device, and what goes wrong."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iris
from array_graphs import fused
from iris.compiler.graph_kernels import with_smaller_tiles
from iris.errors import ArgumentError, DTypeError, OutOfResources, PipelineError, ProgramError
from iris.ir import Module, parse
from iris.ir.graph import storage_root
from iris.passes import Pipeline
from iris.runtime.buffer import Buffer
from iris.runtime.device import Array
from iris.runtime.interpreters import Interpreter
from iris.targets import DEFAULT
from on_metal import METAL

DEVICES = ["interp", "interp:metal", pytest.param(METAL, marks=pytest.mark.metal)]
X = np.arange(12, dtype=np.float32).reshape(3, 4)


@iris.jit
def scaled(x: Array, factor: float = 2.0) -> Array:
    return x * factor


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_in_arrays_out(device: str) -> None:
    found = scaled(X, 3.0, device=device)
    assert type(found) is np.ndarray
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, X * 3)


@pytest.mark.parametrize("device", DEVICES)
def test_buffers_in_buffers_out(device: str) -> None:
    x = iris.asarray(X, device=device)
    found = scaled(scaled(x))
    assert isinstance(found, Buffer)
    assert found.device is x.device
    np.testing.assert_array_equal(found.numpy(), X * 4)


def test_the_text_is_the_same_each_time() -> None:
    """A text that changed would find nothing of itself in the cache of compiled kernels."""

    def smooth(x: Array) -> Array:
        for _ in range(4):
            around = np.pad(x, 1)
            x = around[:-2] + x + around[2:]
        return x

    # Each on its own objects: what depends on their addresses differs.
    texts = {compilation.msl for compilation in [iris.jit(smooth).lower(X[0]) for _ in range(3)]}
    assert len(texts) == 1


def test_trees() -> None:
    @iris.jit
    def function(pair: tuple[Array, dict[str, Array]], n: int) -> dict[str, Any]:
        x, named = pair
        return {"sum": x + named["y"], "list": [x, n, None, (named["y"],)]}

    found = function((X, {"y": X + 1}), 3)
    np.testing.assert_array_equal(found["sum"], 2 * X + 1)
    assert found["list"][1] == 3
    assert found["list"][2] is None
    np.testing.assert_array_equal(found["list"][3][0], X + 1)


def test_results_are_apart() -> None:
    """What is returned twice, or is an argument, is a copy."""

    @iris.jit
    def function(x: Array) -> tuple[Array, ...]:
        y = x + 1
        return x, y, y, y.reshape(-1)

    given = X.copy()
    found = function(given)
    for array in found:
        array[...] = -1
    np.testing.assert_array_equal(given, X)
    first, *others = function(iris.asarray(X))
    memories = {id(b.argument.memory) for b in (first, *others)}
    assert len(memories) == 4


def test_it_is_traced_once_for_shapes_and_dtypes() -> None:
    traced = []

    @iris.jit(static_argnames="power")
    def function(x: Array, n: float, power: int) -> Array:
        traced.append((x.shape, power))
        return x**power * n

    for n in (1.0, 2.0):
        for _ in range(2):
            np.testing.assert_allclose(function(X, n, 2), X**2 * n)
    assert len(traced) == 1
    function(X, 1, 2)  # an int is of another dtype
    function(X[:2], 1.0, 2)
    function(X, 1.0, power=3)
    assert len(traced) == 4


@pytest.mark.parametrize(
    "array",
    [X[:, ::2], X.T, X[::-1], np.broadcast_to(X[0], (5, 4)), X[None, 1], X[:0], np.float32(3)],
)
def test_arrays_that_lie_in_memory_in_any_way(array: Array) -> None:
    np.testing.assert_array_equal(scaled(array), array * np.float32(2))


class ByDLPack:
    def __init__(self, array: Array):
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class ByInterface:
    def __init__(self, array: Array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


class Elsewhere(ByDLPack):
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("it is on a GPU")


@pytest.mark.parametrize("kind", [ByDLPack, ByInterface])
def test_arrays_of_other_libraries(kind: Any) -> None:
    found = scaled({"x": kind(X[:, ::2])}["x"], 2.0)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, X[:, ::2] * 2)
    assert len(scaled.kernels(kind(X))) == 1
    with pytest.raises(ArgumentError, match="x does not share its memory with NumPy: it is on a"):
        scaled(Elsewhere(X))


def test_overlapping_arguments() -> None:
    function = iris.jit(lambda x, y: x - y)
    np.testing.assert_array_equal(function(X[1:], X[:-1]), X[1:] - X[:-1])
    buffer = iris.asarray(X)
    np.testing.assert_array_equal(function(buffer, buffer).numpy(), X - X)


def test_within_another() -> None:
    @iris.jit
    def function(x: Array) -> Array:
        return scaled(x, 4) + 1

    np.testing.assert_array_equal(function(X), 4 * X + 1)
    assert len(function.kernels(X)) == 1


def test_captured_arrays_are_copied_when_it_is_traced() -> None:
    table = np.array([3, 1, 4], np.float32)

    @iris.jit
    def function(at: Array) -> Array:
        return iris.asarray(table)[at]

    at = np.array([2, 0, -1], np.int32)
    np.testing.assert_array_equal(function(at), [4, 3, 4])
    table[:] = 0
    np.testing.assert_array_equal(function(at), [4, 3, 4])


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_an_index_that_is_outside(device: str) -> None:
    function = iris.jit(lambda x, at: x[at])
    with pytest.raises(ProgramError, match="an index is outside of its axis"):
        function(X, np.array([0, 3], np.int32), device=device)


def test_scattering() -> None:
    @iris.jit
    def function(x: Array, at: Array, values: Array) -> tuple[Array, ...]:
        return x.at[at].add(values), x.at[at[:1]].set(7), x + 1  # type: ignore[attr-defined]

    at, values = np.array([1, 1, 0], np.int32), np.ones((3, 4), np.float32)
    added, replaced, other = function(X, at, values)
    expected = X.copy()
    np.add.at(expected, at, values)
    np.testing.assert_array_equal(added, expected)
    np.testing.assert_array_equal(replaced[1], [7] * 4)
    np.testing.assert_array_equal(other, X + 1)


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_places_that_are_set_twice(device: str) -> None:
    """The error names the array and the line, though it is a copy that is written to."""

    def function(x: Array, at: Array, values: Array) -> Array:
        x = x.at[at].set(values)  # type: ignore[attr-defined]
        return x.at[at[::-1]].set(values)  # type: ignore[attr-defined, no-any-return]

    made, values = iris.jit(function), X[:2]
    made(X, np.array([2, 1]), values, device=device)
    with pytest.raises(ProgramError, match=r"element \d+ of x") as caught:
        made(X, np.array([2, 2]), values, device=device)
    assert caught.value.array == "x"
    assert f"{__file__}:{function.__code__.co_firstlineno + 1}" in str(caught.value)


@pytest.mark.parametrize("dtype", ["f2", "i1", "u2"])
@pytest.mark.parametrize("device", DEVICES)
def test_scattered_sums_of_narrow_elements(dtype: str, device: str) -> None:
    function = iris.jit(lambda x, at, values: x.at[at].add(values))
    x, values = np.arange(5).astype(dtype), np.arange(6).astype(dtype)
    at = np.array([0, 4, 0, 2, 4, 4], np.int32)
    expected = x.copy()
    np.add.at(expected, at, values)
    np.testing.assert_array_equal(function(x, at, values, device=device), expected)


def test_mistakes() -> None:
    with pytest.raises(DTypeError, match="x is float64"):
        scaled(X.astype(np.float64))
    with pytest.raises(ArgumentError, match="scaled"):
        scaled(X, 1, 2)
    with pytest.raises(ArgumentError, match="is on the device"):
        iris.jit(lambda x, y: x + y)(iris.asarray(X), iris.asarray(X, device="interp:metal"))


def test_where_what_is_lowered_runs() -> None:
    asked = []

    class Asked(Interpreter):
        def launch(self, *arguments: Any, **named: Any) -> None:
            asked.append(self)
            super().launch(*arguments, **named)

    on = Asked()
    lowered = scaled.lower(X, 2.0, device=on)
    np.testing.assert_array_equal(lowered.run(X, 2.0), X * 2)
    (kernel,) = lowered.kernels
    np.testing.assert_array_equal(kernel.run(np.float32(2), X)[0], X * 2)
    with pytest.raises(
        ArgumentError, match=r"reads \[factor: tensor<f32>, x: tensor<3x4xf32>\], not"
    ):
        kernel.run(X, np.float32(2))
    assert len(scaled.kernels(X, 2.0, device=on)) == 1
    assert len(asked) == 2


def test_kernels_and_what_is_between_them_as_text() -> None:
    def function(x: Array) -> Array:
        return (x @ x) @ x

    lowered = iris.jit(function).lower(X[:, :3])
    first, _ = lowered.kernels
    assert str(first) == repr(first) == "function_matmul: 72 bytes, 54 flops, 1x1x1 programs"
    (between,) = map(str, lowered.why)
    line = function.__code__.co_firstlineno + 1
    assert between.startswith(f"graph.matmul at {__file__}:{line}: tensor<3x3xf32> is written to")


def test_the_option_of_a_call() -> None:
    with pytest.raises(ArgumentError, match="give the parameter another name") as caught:
        iris.jit(lambda x, device: x)
    assert caught.value.spot is not None
    with pytest.raises(ArgumentError, match="to the outer compiled function"):
        iris.jit(lambda x: scaled(x, device="interp"))(X)


class Layer:
    def __init__(self) -> None:
        self.w = X

    @iris.jit
    def scaled(self, x: Array) -> Array:
        return self.w * x

    @staticmethod
    @iris.jit
    def doubled(x: Array) -> Array:
        return x * 2

    by_itself = iris.jit(lambda x: x * 2)


def test_no_method_is_compiled() -> None:
    with pytest.raises(ArgumentError, match="scaled is compiled and cannot be a method of Layer"):
        Layer().scaled(X)
    np.testing.assert_array_equal(Layer().doubled(X), X * 2)
    np.testing.assert_array_equal(Layer.by_itself(X), X * 2)


def test_what_is_no_function() -> None:
    with pytest.raises(ArgumentError, match="not for 3"):
        iris.jit(3)  # type: ignore[arg-type]


def test_it_is_copied_and_pickled_as_functions_are() -> None:
    assert copy.deepcopy([scaled])[0] is scaled
    assert pickle.loads(pickle.dumps(scaled)) is scaled


def test_many_arrays_are_more_kernels() -> None:
    arrays = [X + n for n in range(70)]
    for function in (lambda xs: np.concatenate(xs) * 2, lambda xs: sum(xs[1:], xs[0])):
        found = iris.jit(function)(arrays)
        np.testing.assert_array_equal(found, function(arrays))


def test_threads() -> None:
    function = iris.jit(lambda x, n: (x * n).sum(0))
    wrong = []

    def work(n: int) -> None:
        for _ in range(20):
            if not np.array_equal(function(X, float(n)), (X * n).sum(0)):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_is_used_again() -> None:
    """A row of kernels takes two pieces of memory by turns, and one for the result."""
    text = "func graph @chain returns=[tensor<64x64xf32>](%x: tensor<64x64xf32>) {\n"
    value = "%x"
    for n in range(6):
        text += f"  %y{n}: tensor<64x64xf32> = graph.matmul {value}, %x\n"
        value = f"%y{n}"
    program = fused(parse(f"{text}  return {value}\n}}\n"))
    assert len(program.kernels) == 6
    assert len(program.buffers.sizes) == 3
    for kernel in program.kernels:
        read = {program.buffers.of.get(storage_root(v)) for v in kernel.inputs}
        assert not read & {program.buffers.of[v] for v in kernel.outputs}
    x = np.eye(64, k=1, dtype=np.float32)
    (found,) = program.run(Interpreter(), [x])
    np.testing.assert_array_equal(found.numpy(), np.eye(64, k=7, dtype=np.float32))


def test_a_lowered_function_can_be_read_and_run() -> None:
    lowered = scaled.lower(X)
    assert "mul" in lowered.graph
    assert lowered.stages[-1].name == "schedule"
    (kernel,) = lowered.kernels
    assert kernel.bytes == 2 * X.nbytes
    assert kernel.flops == X.size
    assert "kernel void scaled" in lowered.msl
    np.testing.assert_array_equal(lowered.run(X), X * 2)
    (found,) = kernel.run(X)
    np.testing.assert_array_equal(found, X * 2)


SQUARE = np.arange(45, dtype=np.float32).reshape(5, 9) % 7


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.pad(np.cumsum(x), (2, 3)),
        lambda x: np.pad(np.cumsum(x, 1)[:, 1:5], ((0, 1), (2, 3))),
        lambda x: np.concatenate([np.cumsum(x, 0)[:3], np.cumsum(x, 0)[3:] * 2]),
        lambda x: np.concatenate([x @ x.T, np.cumsum(x, 1)[:, ::2]], 1),
        lambda x: np.pad(x - x.max(1, keepdims=True), ((1, 2), (2, 1))),
        lambda x: np.pad(np.cumsum(x, 0) + x.sum(1, keepdims=True), ((1, 2), (2, 1))),
        lambda x: np.roll(np.cumsum(x, 1), 3, 1),
        lambda x: np.flip(np.cumsum(x, 1), 1),
        lambda x: np.cumsum(np.pad(x, ((0, 0), (2, 3))), 1),
        lambda x: np.where(np.arange(9) > 3, np.cumsum(x, 1), 0),
        lambda x: np.cumsum(np.cumsum(x, 1), 0),
        lambda x: np.pad(x.argmax(1), (2, 3)),
        lambda x: np.pad((x @ x.T)[np.array([1])], ((2, 3), (1, 1)))[:, ::2],
    ],
)
@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_part_of_what_is_combined_is_made_of_all_of_it(function: Any, device: str) -> None:
    found = iris.jit(function)(SQUARE, device=device)
    np.testing.assert_array_equal(found, function(SQUARE))


def correlation(x: Array) -> Array:
    h = x - x.mean(axis=0)
    y = h @ h.T
    return y / np.sqrt((y * y).sum(axis=0) + 1)


def greatest_product(x: Array) -> Array:
    """A sum within the loop of a product within a reduction."""
    h = x + x.sum(axis=1, keepdims=True)
    return (h.T @ x).max()


def looked_up_by_what_it_is(x: Array) -> Array:
    y = x / x.sum(axis=1, keepdims=True)
    y = y / np.sqrt(np.square(y - 1).sum(keepdims=True) + 1)
    return np.take_along_axis(y, y.argmax(axis=1)[:, None], 1)


def looked_up_again(x: Array) -> Array:
    t = np.take_along_axis(x, x.argmax(axis=0)[None], 0)
    t = np.concatenate([t, t * 2, t[::-1]], axis=0)
    t = np.take_along_axis(t, t.argmax(axis=1)[..., None], 1)
    t = np.roll(t, 1, 0) + t
    return t[1:]


def periodic(x: Array) -> Array:
    y = np.roll(x, 1, 1) + x
    return np.roll(y, 1, 1) - 2 * y


@pytest.mark.parametrize("shape", [(3, 3), (17, 129), (2, 1100)])
@pytest.mark.parametrize(
    "function",
    [correlation, greatest_product, looked_up_by_what_it_is, looked_up_again, periodic],
)
def test_reductions_within_others(function: Any, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).random(shape, np.float32)
    expected = function(x.astype(np.float64))
    for device in ("interp", "interp:metal"):
        found = iris.jit(function)(x, device=device)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


SQUARES = """\
func graph @squares returns=[tensor<64x1000xf32>](%x: tensor<64x1000xf32>) {
  %y: tensor<64x1000xf32> = graph.kernel @squares schedule=[i0i1: programs 1024 of 64000] {
    %y_1: tensor<64x1000xf32> = mul %x, %x
    yield %y_1
  }
  return %y
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_scattered_in_place_goes_into_a_buffer(device: str) -> None:
    def changed(x: Any, y: Any) -> Any:
        longer = np.cumsum(np.concatenate([y, y, y]))  # its memory is free for others then
        total = np.cumsum(np.cumsum(longer[::-1]) * longer)
        return (np.cumsum(total)[:12].reshape(3, 4) + x).at[[1, 2]].set(x[0])

    compiled, y = iris.jit(changed), np.arange(12, dtype=np.float32)
    expected = compiled(X, y, device="interp")
    into = iris.empty(X.shape, np.float32, device=device)
    compiled.into(into, X, y)
    np.testing.assert_allclose(into.numpy(), expected, rtol=1e-5)
    np.testing.assert_array_equal(expected[1:], [X[0], X[0]])


@pytest.mark.parametrize("device", DEVICES)
def test_a_result_does_not_go_into_an_argument(device: str) -> None:
    x = iris.asarray(np.eye(8, dtype=np.float32), device=device)
    compiled = iris.jit(lambda a: a.T + a)
    with pytest.raises(ArgumentError, match="into memory of an argument"):
        compiled.into(x, x)
    np.testing.assert_array_equal(x.numpy(), np.eye(8))


def test_smaller_tiles_are_tried_and_the_first_error_is_told() -> None:
    first = parse(SQUARES)
    tried: list[str] = []

    def lower(module: Module, _: Pipeline) -> str:
        tried.append(str(module))
        if len(tried) == 1:
            raise OutOfResources("too much for the GPU")
        if fails or "programs 256 " not in tried[-1]:
            raise PipelineError("rows do not fit a program")
        return tried[-1]

    fails = False
    assert "i0i1: programs 256 of 64000" in with_smaller_tiles(first, Pipeline(), DEFAULT, lower)
    assert tried[0] == str(first) == SQUARES
    fails = True
    tried.clear()
    with pytest.raises(OutOfResources, match="too much for the GPU"):
        with_smaller_tiles(first, Pipeline(), DEFAULT, lower)
    assert len(tried) == len(set(tried)) > 1, "no schedule is tried twice"


@pytest.mark.parametrize("kind", [float, np.float32, np.float64])
def test_zeros_of_two_signs_are_two_static_arguments(kind: Callable[[float], Any]) -> None:
    plus = iris.jit(lambda x, s: x + np.float32(s), static_argnames="s")
    x = np.array([-0.0], np.float32)
    assert not np.signbit(plus(x, kind(0.0)))
    assert np.signbit(plus(x, kind(-0.0)))
