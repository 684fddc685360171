"""Launches on tensors of torch, by a driver that notes what streams are given: no GPU is needed."""

from __future__ import annotations

import gc
import random
import sys
import weakref
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris.errors import ArgumentError
from iris.runtime import borrowing
from torch_stand_in import Parameter, Storage, Tensor, Torch

pytest.importorskip("cuda.bindings.driver")

from fake_driver import Driver, Work

SOURCE = str(Path(iris.__file__).parent)


@iris.kernel
def double(X, Out, n, B: iris.constexpr = 64):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(Out + at, 2 * iris.load(X + at, mask=at < n), mask=at < n)


@iris.kernel
def double_in_place(X, n, B: iris.constexpr = 64):
    at = iris.program_id(0) * B + iris.arange(0, B)
    iris.store(X + at, 2 * iris.load(X + at, mask=at < n), mask=at < n)


def launches(driver: Driver) -> list[Work]:
    return [work for work in driver.work if work.kind == "launch"]


@pytest.mark.parametrize("kind", [Tensor, Parameter])
def test_a_launch_goes_to_the_stream_of_torch_which_is_asked_for_once(
    kind: type[Tensor], torch: Torch, driver: Driver
) -> None:
    x, out = kind((1000,)), kind((1000,))
    for stream in (0, 256, 256, 0):
        torch.stream, torch.asked = stream, 0
        double[16](x, out, 1000)
        assert launches(driver)[-1] == ("launch", stream, (x.data_ptr(), out.data_ptr()))
    assert torch.asked == 1
    assert x.capsules == out.capsules == 0


def test_a_tensor_that_was_given_other_memory_is_read_anew(torch: Torch, driver: Driver) -> None:
    x, out = Tensor((1000,)), Tensor((1000,))
    double[16](x, out, 1000)
    x.storage = Storage(4000)
    double[16](x, out, 1000)
    assert launches(driver)[-1].what == (x.data_ptr(), out.data_ptr())
    x.facts["is_contiguous"] = False
    for _ in "12":
        with pytest.raises(ArgumentError, match="X does not share its memory"):
            double[16](x, out, 1000)
    assert len(launches(driver)) == 2


def test_a_tensor_that_is_negated_when_read_is_refused(torch: Torch, driver: Driver) -> None:
    """DLPack gives its memory, in which the elements have the other sign."""
    x, out = Tensor((1000,)), Tensor((1000,))
    for is_negated in (False, True, False, True):
        x.facts["is_neg"] = is_negated
        if not is_negated:
            double[16](x, out, 1000)
            continue
        with pytest.raises(ArgumentError, match=r"X is negated .* its \.resolve_neg\(\)"):
            double[16](x, out, 1000)
        with pytest.raises(ArgumentError, match=r"the array is negated"):
            iris.asarray(x)
    assert len(launches(driver)) == 2 and x.capsules == 0


def kinds_of(kernel: Any) -> int:
    return len(kernel._specialisations().compiled)


def test_what_a_kernel_may_know_is_of_the_tensors_of_each_launch(
    torch: Torch, driver: Driver
) -> None:
    """Where tensors start, and whether they overlap, in any order of launches."""
    storage = Storage(1 << 14)
    choose, seen = random.Random(0), {}
    for _ in range(300):
        at = [4 * choose.choice([0, 1, 4, 999, 1000, 2000]) for _ in "12"]
        x, out = (Tensor((1000,), storage=storage, offset=offset) for offset in at)
        before = kinds_of(double)
        double[16](x, out, 1000)
        assert launches(driver)[-1].what == (x.data_ptr(), out.data_ptr())
        apart = abs(at[0] - at[1]) >= 4000
        facts = apart, at[0] % 16 == 0, at[1] % 16 == 0
        assert (kinds_of(double) > before) == (facts not in seen)
        seen[facts] = True
    assert len(seen) > 4


def test_buffers_and_tensors_of_the_same_memory_are_not_apart(torch: Torch, driver: Driver) -> None:
    x = Tensor((1000,))
    lent, other = iris.asarray(x), iris.empty(1000, device="cuda")
    for out in (other, lent, lent, other):
        double[16](x, out, 1000)
    texts = [str(double.lower(x, out, 1000, grid=16).stages[0].text) for out in (other, lent)]
    assert ["noalias" in text for text in texts] == [True, False]
    assert kinds_of(double) >= 2


def test_each_gpu_has_tensors_of_its_own(torch: Torch, driver: Driver) -> None:
    first, second = Tensor((1000,)), Tensor((1000,), get_device=1)
    double_in_place[16](first, 1000)
    double_in_place[16](second, 1000)
    assert iris.asarray(second).device.name == "cuda:1"
    for _ in "12":
        with pytest.raises(ArgumentError, match="'cuda:1', but the launch is on 'cuda'"):
            double[16](first, second, 1000)


def test_read_only_arrays_are_never_written(
    torch: Torch, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, out = iris.empty(1000, device="cuda"), Tensor((1000,))
    double[16](x, out, 1000)
    read: Any = borrowing.READERS[Tensor]
    monkeypatch.setitem(
        borrowing.READERS, Tensor, lambda value: read(value)._replace(is_read_only=True)
    )
    before = len(launches(driver))
    with pytest.raises(ArgumentError, match="Out is written to, but its array is read-only"):
        double[16](x, out, 1000)
    assert len(launches(driver)) == before
    double[16](out, x, 1000)


def test_a_tensors_memory_lives_as_long_as_a_buffer_of_it_and_no_launch_keeps_it(
    torch: Torch, driver: Driver
) -> None:
    x, out = Tensor((1000,)), Tensor((1000,))
    alive = [weakref.ref(tensor.storage) for tensor in (x, out)]
    for _ in "123":
        double[16](x, out, 1000)
    buffer = iris.asarray(x)
    x.storage = Storage(4000)  # as by x.set_()
    gc.collect()
    assert alive[0]() is not None
    del buffer, out
    gc.collect()
    assert [storage() for storage in alive] == [None, None]


def calls_of(launch: Callable[[], None]) -> int:
    """How many functions of Iris a launch calls."""
    count = 0

    def watch(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(SOURCE)

    sys.setprofile(watch)
    try:
        launch()
    finally:
        sys.setprofile(None)
    return count


def test_a_launch_on_tensors_calls_little_more_than_one_on_buffers(
    torch: Torch, driver: Driver
) -> None:
    tensors = [Tensor((1000,)), Tensor((1000,))]
    buffers = [iris.asarray(np.zeros(1000, np.float32), device="cuda") for _ in "12"]
    given: list[Any]
    for given in (buffers, tensors):
        double[16](*given, 1000)
    of_buffers = calls_of(lambda: double[16](*buffers, 1000))
    of_tensors = calls_of(lambda: double[16](*tensors, 1000))
    # Each is read, lent, and memory of a device; and the stream is asked for.
    assert of_tensors <= of_buffers + 2 * 7 + 8


def test_functions_of_arrays_ask_once_too(torch: Torch, driver: Driver) -> None:
    add = iris.jit(lambda x, y: x + y)
    x, y = Tensor((1000,)), Tensor((1000,))
    add(x, y)
    torch.asked = 0
    add(x, y)
    assert (torch.asked, x.capsules) == (1, 0)


# Which works are in order with which.


def before_each(work: list[Work]) -> list[set[int]]:
    """For each launch, the work that ends before it starts: by its stream and its events."""
    done: list[set[int]] = []
    of_stream: dict[int, set[int]] = {}
    of_event: dict[int, set[int]] = {}
    for number, (kind, stream, what) in enumerate(work):
        known = of_stream.setdefault(stream, set())
        done.append(set(known))
        if kind == "record":
            of_event[what] = set(known)
        elif kind == "wait":
            known |= of_event[what]
        else:
            known.add(number)
    return done


def test_launches_are_in_order_with_torch_on_all_streams(torch: Torch, driver: Driver) -> None:
    """Torch works on its tensors on a stream each, and launches use them on any stream."""
    choose = random.Random(7)
    tensors = {stream: [Tensor((1000,)), Tensor((1000,)), Tensor((1000,))] for stream in (256, 512)}
    own = [None, iris.stream("cuda"), iris.stream("cuda")]
    kept = [iris.empty(1000, device="cuda") for _ in "12"]
    for _ in range(400):
        torch.stream = choose.choice([256, 512])
        x, out = choose.sample(tensors[torch.stream], 2)
        if choose.random() < 0.3:
            driver.work.append(Work("torch", torch.stream, (x.data_ptr(), out.data_ptr())))
            continue
        pair = choose.choice([(x, out), (x, choose.choice(kept)), (choose.choice(kept), out)])
        double[16](*pair, 1000, stream=choose.choice(own))
    work = driver.work
    done = before_each(work)
    used = [(n, w) for n, w in enumerate(work) if w.kind in ("launch", "torch")]
    met = 0
    for (first, a), (then, b) in combinations(used, 2):
        if a.what[1] in b.what or b.what[1] in a.what:  # one of them writes what the other uses
            met += 1
            assert first in done[then], (a, b)
    assert met > 1000
    assert {w.kind for _, w in used} == {"launch", "torch"}
