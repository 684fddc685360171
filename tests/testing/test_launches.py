"""Scripts of launches: devices do what the lines do one after the other, and wrong ones do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import iris
from iris.compiler import candidates, kernel
from iris.errors import IrisError
from iris.runtime.device import ArrayArgument, Grid, Program
from iris.runtime.devices import select
from iris.runtime.interpreters import Interpreter
from iris.runtime.metal import Metal
from iris.runtime.queue import Stream
from iris.runtime.softmetal import Softmetal
from iris.testing import conforms, launched, launches, steps
from iris.testing.in_order import InOrder, Outcome, Unsettled
from iris.testing.scripts import Script, fault
from iris.testing.steps import Buffer, Launch, Number, Read, Slice, Step
from on_metal import METAL, library
from support import counts

a, b, c = (Buffer(name) for name in "abc")
BLOCK = (("B", 256),)


def shift(x: steps.Argument, out: steps.Argument, number: float = 5.0, **named: Any) -> Launch:
    return Launch("shift", (x, out, Number(20), Number(number)), 1, BLOCK, **named)


def refuse(out: Buffer, number: int) -> Launch:
    return Launch("refuse", (c, out, Number(number)), 64, number=number)


# Devices that do what they must.


@settings(max_examples=counts(40, 1000))
@given(launches.scripts())
def test_the_interpreter_conforms(script: Script) -> None:
    conforms("interp", script)


@settings(max_examples=counts(10, 300))
@given(launches.scripts())
def test_the_interpreter_of_metal_ir_conforms(script: Script) -> None:
    conforms("interp:metal", script)


@pytest.mark.metal
@settings(max_examples=counts(40, 10_000))
@given(launches.scripts())
def test_metal_conforms(script: Script) -> None:
    conforms(METAL, script)
    if METAL == "softmetal":
        reports = library().softmetal_reports()
        assert not reports, reports.decode()


@pytest.mark.parametrize("name", sorted({*launched.TRIED} - {"refuse", "stray", "tuned"}))
def test_a_kernel_means_what_it_does(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    named = {"X": "a", "Y": "b", "Out": "c", "n": 100, "number": 2.5, "B": 256, "C": -0.0}
    named |= {"ROWS": 2, "PLANES": 3, "a": -3.0, "b": True, "c": 2**63 + 5, "d": -7, "step": 1}
    tried = launched.TRIED[name]
    parameters = tried.kernel.function.names
    arrays = launched.arrays()
    if name in ("tally", "numbers", "show"):
        named["Out"] = "wide" if name == "numbers" else "counts"
        named |= {"X": "counts", "stream": -1, "number": 3}
    if name == "blocks":
        named["n"] = 10
        arrays = {name: x[:100].reshape(10, 10) for name, x in arrays.items() if name in "abc"}
    found = [arrays[named[p]].copy() if p in ("X", "Y", "Out") else named[p] for p in parameters]
    expected = [value.copy() if isinstance(value, np.ndarray) else value for value in found]
    grid = (4, 2, 3) if name == "corners" else 1
    tried.kernel[grid](*found, device="interp")
    lines = tried.meaning(*expected) or []
    assert capsys.readouterr().out.splitlines() == lines
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("tells", [True, False])
def test_the_first_configuration_says_what_is_right(tells: bool) -> None:
    x, out, counts = (launched.arrays()[name] for name in ("a", "b", "counts"))
    given, expected = (x, out, counts), (x, out.copy(), counts.copy())
    launched._tuned(*expected, 100, TELLS=tells)
    kernel = launched.fresh()["tuned"]
    with candidates.watched():
        grid = lambda named: iris.cdiv(launched.SIZE, named["B"])  # noqa: E731
        kernel[grid](*given, 100, TELLS=tells, device="interp")
    for one, other in zip(given, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("told", [1, 5])
@pytest.mark.parametrize("end", [Read(b), steps.Synchronize()], ids=["read", "wait"])
def test_a_launch_on_memory_that_has_failed_need_not_run(told: int, end: Step) -> None:
    order = InOrder()
    silent = Outcome([], None)
    for step in (refuse(a, 1), shift(a, b), refuse(b, 5)):
        step.expect(order, silent)
    end.expect(order, Outcome([], told))
    with pytest.raises(AssertionError, match="the failure of another launch, 2"):
        Read(b).expect(order, Outcome([], 2))


def test_what_a_launch_on_doubtful_memory_wrote_to_the_host_is_unknown() -> None:
    order = InOrder()
    silent = Outcome([], None)
    refuse(a, 1).expect(order, silent)
    steps.Prepare(shift(a, b)).expect(order, silent)
    steps.Again(45).expect(order, Outcome([], 1))  # maybe after some of them
    with pytest.raises(Unsettled):
        shift(b, steps.Slice(0, 20)).expect(order, silent)


# What is drawn.


def test_the_failure_of_an_earlier_run_is_not_the_last_one() -> None:
    """A launch that is repeated raises what its first run failed of, and has not run again."""
    order, silent = InOrder(), Outcome([], None)
    for step in (steps.Prepare(refuse(a, 1)), steps.Again(1), refuse(b, 3), shift(b, a)):
        step.expect(order, silent)
    steps.Again(45).expect(order, Outcome([], 1))
    Read(a).expect(order, Outcome([], 3))


def test_every_step_and_kernel_is_drawn() -> None:
    kinds: Counter[str] = Counter()

    @settings(max_examples=150)
    @given(launches.scripts())
    def draw(script: Script) -> None:
        for step in script.steps:
            kinds[type(step).__name__] += 1
            if isinstance(step, Launch):
                kinds.update([step.kernel, step.device, *[n for n, _ in step.options]])
                kinds.update([type(argument).__name__ for argument in step.arguments])

    draw()
    known = [one for one in vars(steps).values() if isinstance(one, type)]
    wanted = {one.__name__ for one in known if issubclass(one, (Step, steps.Argument))}
    wanted -= {"Step", "Argument", "Quiet"}
    wanted |= {*launched.TRIED} - {"stray"} | {"other", "num_simdgroups", "fast_math"}
    assert {name for name in wanted if kinds[name] < 5} == set()


def test_a_script_can_be_run_as_python(capsys: pytest.CaptureFixture[str]) -> None:
    device = select("interp")
    script = Script((shift(a, b, 0.25), steps.Peek(b, 0), steps.Spread(b), steps.Wait(1)))
    exec(script.text(device), {})
    assert capsys.readouterr().out == "-2.75\n"
    script.run(device)


# Devices that do not.


class Wrong(Interpreter):
    """The interpreter with something wrong: what it is given, or when it runs."""

    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        super().launch(program, grid, [self.changed(one) for one in arguments], stream)

    def changed(self, argument: Any) -> Any:
        return argument


class FromTheStart(Wrong):
    def changed(self, argument: Any) -> Any:
        return replace(argument, offset=0) if isinstance(argument, ArrayArgument) else argument


class WithoutErrors(Interpreter):
    def launch(
        self, program: Program, grid: Grid, arguments: Sequence[Any], stream: Any = None
    ) -> None:
        try:
            super().launch(program, grid, arguments, stream)
        except IrisError:
            for argument in arguments:
                if isinstance(argument, ArrayArgument):
                    argument.memory.failure = None


NOISE = (
    steps.CopyIn(c, 7),
    shift(c, c, options=(("num_simdgroups", 4),)),
    steps.WaitFor(c),
    Read(c),
)


@pytest.mark.parametrize(
    ("device", "script", "message", "lines"),
    [
        (
            FromTheStart(),
            (shift(Slice(0, 130), Slice(24, 20)), steps.ReadHost()),
            r"line 2, print\(h\): in order, elements 22 to 26 were 22.0, 23.0, 5.0, 6.0, 7.0 and",
            ["shift[1](h[0:130], h[24:44], 20, 5.0, B=256, device=device)", "print(h)"],
        ),
        (
            WithoutErrors(),
            (refuse(a, 5), shift(a, b), Read(b, "iris.to_numpy({})")),
            r"line 3, print\(b.numpy\(\)\): it raises no error",
            [
                "refuse[64](c, a, 5, device=device)",
                "shift[1](a, b, 20, 5.0, B=256, device=device)",
                "print(b.numpy())",
            ],
        ),
        (
            WithoutErrors(),
            (refuse(a, 5), steps.Synchronize()),
            r"line 2, device.synchronize\(\): it raises no error",
            ["refuse[64](c, a, 5, device=device)", "device.synchronize()"],
        ),
    ],
    ids=["offset", "error", "untold"],
)
def test_a_wrong_device_is_shown_by_few_lines(
    device: Interpreter, script: Sequence[Step], message: str, lines: list[str]
) -> None:
    with pytest.raises(AssertionError, match=message) as caught:
        conforms(device, Script((*NOISE, *script, *NOISE), 3))
    shown = str(caught.value).split("device.shuffle(0)\n")[1].splitlines()[1:]
    assert shown == lines


def test_what_another_constant_was_compiled_to_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "exact_key", lambda value: value)
    scales = [Launch("scale", (a, b, Number(20)), 1, (("C", zero), *BLOCK)) for zero in (0.0, -0.0)]
    with pytest.raises(AssertionError, match=r"line 2, scale.*it runs what others are compiled to"):
        conforms("interp", Script((*NOISE, *scales)))


@pytest.mark.softmetal
def test_a_missing_wait_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: Metal, source: ArrayArgument, array: Any) -> None:
        array[...] = self.view(source)

    monkeypatch.setattr(Metal, "copy_out", at_once)
    script = Script((*NOISE, shift(a, b), Read(b, "copied({})"), *NOISE))
    with pytest.raises(AssertionError, match=r"line 2, print\(copied\(b\)\): in order, "):
        conforms("softmetal", script)


@pytest.mark.softmetal
def test_who_is_given_what_failed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stray = steps.Stray(a, 0, 1)
    conforms("softmetal", Script((*NOISE, stray, shift(a, b, stream=2), Read(b), Read(a), *NOISE)))
    script = Script((*NOISE, stray, Read(a), *NOISE))
    conforms("interp", script)  # which leaves it out
    monkeypatch.setattr(Stream, "_conclude", lambda self, batch, launch: [])
    with pytest.raises(AssertionError, match=r"line 2, print\(a.numpy\(\)\): it raises no error"):
        conforms("softmetal", script)


@pytest.mark.softmetal
def test_launches_that_nothing_orders_are_shuffled(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Softmetal()
    monkeypatch.setattr(device.messages, "barrier", lambda encoder, scope: None)
    script = Script((shift(a, b), shift(b, c), Read(c)))
    found = (fault(replace(script, seed=seed), device) for seed in range(64))
    assert next(found) is None  # in the order of the lines
    assert any(found)
