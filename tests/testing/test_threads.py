"""Random kernels by thread: devices store what a plain evaluation says."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from iris.codegen.emitter import emit
from iris.codegen.languages.cuda import CUDA
from iris.codegen.languages.msl import MSL
from iris.compiler.compilation import entry_of
from iris.frontend.cuda.clang import CLANG
from iris.passes import Pipeline
from iris.testing import programs, threads
from iris.testing.choices import Choices
from iris.testing.properties import of_text
from support import counts


def _drawn(seed: int) -> threads.Kernel:
    return threads.Kernel(Choices(np.random.default_rng(seed).bytes(threads.BYTES)))


@settings(max_examples=counts(40, 5000))
@given(programs.threads())
def test_the_interpreter_stores_what_the_evaluation_says(kernel: threads.Kernel) -> None:
    kernel.check()


@pytest.mark.softmetal
@settings(max_examples=counts(2, 1000))
@given(programs.threads())
def test_softmetal_stores_what_the_evaluation_says(kernel: threads.Kernel) -> None:
    kernel.check(("softmetal",))


@pytest.mark.softmetal
def test_interpreters_and_a_device_agree_on_several_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (agree,) = [one for one in of_text("softmetal", MSL) if one.name == "threads"]
    several = [_drawn(seed) for seed in range(3)]
    agree.holds(several, 0.0)

    def without_the_last(self: threads.Kernel) -> tuple[threads.Array, threads.Array]:
        out, bins = expected(self)
        return np.where(out == out[-1], 0, out), bins

    expected = threads.Kernel.expected
    monkeypatch.setattr(threads.Kernel, "expected", without_the_last)
    with pytest.raises(AssertionError, match="interp: Out"):
        agree.holds(several, 0.0)


@pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")
def test_kernels_as_cuda_c_store_what_the_evaluation_says() -> None:
    for start in range(counts(1, 20)):
        threads.check_translations([_drawn(10 * start + i) for i in range(10)])


def test_the_same_kernel_as_ir_stores_what_the_evaluation_says() -> None:
    for kernel in map(_drawn, range(counts(5, 500))):
        program = kernel.program(Pipeline())
        arguments = program.make_arguments()
        program.run(arguments)
        out, bins = kernel.expected()
        np.testing.assert_array_equal(arguments[1], out)
        np.testing.assert_array_equal(arguments[2], bins)


@settings(max_examples=counts(1, 100), phases=[Phase.generate], deadline=None)
@given(programs.threads())
def test_the_compiler_for_cuda_takes_the_text(kernel: threads.Kernel) -> None:
    from iris.runtime.cuda import nvrtc

    source = emit(entry_of(kernel.lower().stages[-1].module), CUDA)
    assert nvrtc.compiled(source.text, source.entry, "sm_90", fast=False)[1].startswith(b"\x7fELF")


def test_a_barrier_that_is_left_out_is_reported_or_was_not_needed() -> None:
    assert sum(_drawn(seed).check_barriers() for seed in range(counts(8, 500))) > 5


def test_the_simplest_kernel_stores_where_its_threads_are() -> None:
    kernel = threads.Kernel(Choices(b""))
    assert "Out[at * 6 + 0] = a" in kernel.text
    kernel.check()


def test_programs_are_of_all_that_threads_do() -> None:
    texts = "\n".join(_drawn(seed).text for seed in range(250))
    for word in (
        *("while", "for", "return", "else:", " and ", " if ", "pick(", "metal.int3", "p[", "X["),
        *("barrier", "simd_shuffle(", "simd_shuffle_xor", "simd_shuffle_up", "simd_broadcast"),
        *("simd_sum", "simd_max", "simd_ballot", "simd_any", "prefix", "atomic_"),
        *("simd_shuffle_down", "simd_all", "exclusive", "w[t //", "V[", "low_bit(metal"),
        *("Y[at]", "u += X[ku]"),
    ):
        assert word in texts, word
