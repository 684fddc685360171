"""Equal kernels of one function are compiled once, and different ones side by side."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import iris
from iris.codegen.languages.msl import MSL
from iris.codegen.source import Source
from iris.compiler import graph_kernels
from iris.compiler.compilation import optimize
from iris.compiler.graph_kernels import GraphKernel
from iris.compiler.graph_program import GraphProgram
from iris.errors import ProgramError
from iris.frontend.arrays import ArrayFunction
from iris.ir import to_text
from iris.ir.control import Func
from iris.ir.core import Module
from iris.passes import Pipeline
from iris.runtime.device import Device, Program
from iris.runtime.interpreters import MetalInterpreter
from iris.targets import DEFAULT, Target


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that are compiled."""
    names: list[str] = []
    emit_one = GraphKernel.emitted

    def noted(kernel: GraphKernel, device: Device) -> Any:
        names.append(kernel.name)
        return emit_one(kernel, device)

    monkeypatch.setattr(GraphKernel, "emitted", noted)
    return names


def layers(x: Any, weights: Any) -> Any:
    for w in weights:
        x = np.tanh(x @ w)
    return x


def test_layers_of_one_shape_are_compiled_once(compiled: list[str]) -> None:
    rng = np.random.default_rng(0)
    x = rng.random((32, 32), np.float32)
    weights = [rng.random((32, 32), np.float32) - 0.5 for _ in range(12)]
    function = iris.jit(layers)
    found = np.asarray(function(x, weights, device="interp:metal"))
    assert abs(found - layers(x, weights)).max() < 1e-5
    kernels = function.lower(x, weights).kernels
    assert len(kernels) == len(weights)
    assert len(compiled) < len(kernels) / 2


def test_what_registers_a_kernel_needs_and_its_launch_take_one_lowering(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipelines = []

    def noted(module: Module, pipeline: Pipeline, **named: Any) -> Module:
        pipelines.append(pipeline)
        return optimize(module, pipeline, **named)

    monkeypatch.setattr(graph_kernels, "optimize", noted)
    x = np.ones((16, 16), np.float32)
    function = iris.jit(lambda x: x @ x)
    assert np.asarray(function(x, device="interp:metal"))[3, 4] == 16
    assert len(pipelines) == 1
    lowered = function.lower(x, device="interp:metal").kernels[0]
    assert lowered.estimate.chips
    assert lowered.msl
    assert len(pipelines) == 2


def states(x: Any, w: Any, u: Any) -> Any:
    """All states that a cell goes through."""
    h, all_of_them = np.zeros((16, 64), np.float32, like=x), []
    for step in range(x.shape[1]):
        h = np.tanh(x[:, step] @ w + h @ u)
        all_of_them.append(h)
    return np.stack(all_of_them, 1)


def test_kernels_beside_one_that_is_cut_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[tuple[str, Pipeline]] = []
    cuts: list[bool] = []
    cut, spills = GraphKernel.cut, GraphKernel.spills

    def of_many_arrays(kernel: GraphKernel, target: Target) -> bool:
        """Pretend that threads have too few registers, as lowering would find out."""
        return spills(kernel, target) or len(kernel.inputs) > 10

    def noted(module: Module, pipeline: Pipeline, **named: Any) -> Module:
        lowered.append((to_text(module, locations=True), pipeline))
        return optimize(module, pipeline, **named)

    def noted_cut(kernel: GraphKernel, target: Target) -> bool:
        cuts.append(cut(kernel, target))
        return cuts[-1]

    monkeypatch.setattr(graph_kernels, "optimize", noted)
    monkeypatch.setattr(GraphKernel, "cut", noted_cut)
    monkeypatch.setattr(GraphKernel, "spills", of_many_arrays)
    arguments = [np.ones(shape, np.float32) for shape in ((16, 20, 32), (32, 64), (64, 64))]
    function = ArrayFunction(states)
    traced = function.trace(function.bind(arguments, {}))
    program = GraphProgram.of(traced.module, DEFAULT)
    assert len(program.kernels) > 20
    assert any(cuts)
    assert len({*lowered}) == len(lowered)


def test_kernels_with_other_numbers_are_others(compiled: list[str]) -> None:
    def function(x: Any, w: Any) -> Any:
        for number in (2, 3, 2):
            x = np.tanh(x @ w * number)
        return x

    rng = np.random.default_rng(0)
    x, w = rng.random((32, 32), np.float32), rng.random((32, 32), np.float32) - 0.5
    found = np.asarray(iris.jit(function)(x, w, device="interp:metal"))
    assert abs(found - function(x, w)).max() < 1e-5
    assert len(compiled) > 1


class Meeting(MetalInterpreter):
    """Takes texts; no kernel is compiled before another one is, too."""

    name = "meeting"
    accepts = MSL  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.meeting = threading.Barrier(2)

    def compile(self, entry: Func, source: Source | None = None) -> Program:
        assert source is not None
        self.meeting.wait(timeout=60)
        return super().compile(entry)


def test_a_device_compiles_kernels_side_by_side() -> None:
    def function(x: Any, w: Any) -> Any:
        return np.tanh(np.tanh(x @ w) @ w * 2)

    rng = np.random.default_rng(0)
    x, w = rng.random((32, 32), np.float32), rng.random((32, 32), np.float32) - 0.5
    jitted = iris.jit(function)
    assert len(jitted.lower(x, w).kernels) == 2
    found = np.asarray(jitted(x, w, device=Meeting()))
    assert abs(found - function(x, w)).max() < 1e-5


def test_an_index_that_is_outside_is_reported_at_its_own_line() -> None:
    def function(x: Any, i: Any, j: Any) -> Any:
        first = np.cumsum(x[i])
        second = np.cumsum(x[j])
        return first, second

    x = np.arange(8, dtype=np.float32)
    inside, outside = np.array([1, 2], np.int32), np.array([1, 9], np.int32)
    with pytest.raises(ProgramError, match=r"second = np.cumsum\(x\[j\]\)"):
        np.asarray(iris.jit(function)(x, inside, outside, device="interp:metal")[1])
