"""Programs that wait for each other, on the interpreter of Tile IR."""

from __future__ import annotations

import numpy as np
import pytest

import iris
from iris.errors import DeadlockError, RaceError
from waiting_programs import RACY, RIGHT, STUCK, lock


@pytest.mark.parametrize("name", RIGHT)
def test_programs_that_wait_end(name: str) -> None:
    case = RIGHT[name]
    assert np.array_equal(case.run("interp"), case.expected)


@pytest.mark.parametrize("name", RACY)
def test_what_nothing_orders_is_a_race(name: str) -> None:
    with pytest.raises(RaceError, match="race: program"):
        RACY[name].run("interp")


@pytest.mark.parametrize("name", STUCK)
def test_who_waits_for_ever_is_named(name: str) -> None:
    case, array, index = STUCK[name]
    with pytest.raises(DeadlockError, match=f"waits for element {index} of {array}") as caught:
        case.run("interp")
    assert (caught.value.array, caught.value.index) == (array, index)
    assert caught.value.locations


def test_a_wait_that_gives_up_is_no_deadlock() -> None:
    @iris.kernel
    def tries(Flag, Out):  # type: ignore[no-untyped-def]
        left = 5
        while (iris.load(Flag, volatile=True) == 0) & (left > 0):
            left -= 1
        iris.store(Out + iris.program_id(0), left - 1)

    out = np.zeros(2, np.int32)
    tries[2](np.zeros(1, np.int32), out, device="interp")
    assert out.tolist() == [-1, -1]


def test_what_programs_print_comes_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    @iris.kernel
    def prints(Turn):  # type: ignore[no-untyped-def]
        program = iris.program_id(0)
        while iris.load(Turn, volatile=True) != 2 - program:
            pass
        iris.device_print("at", program)
        iris.atomic_add(Turn, 1)

    prints[3](np.zeros(1, np.int32), device="interp")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["0", "1", "2"]


def test_many_programs_of_a_whole_grid_wait() -> None:
    total = np.zeros(1, np.int32)
    lock[5, 4, 3](np.zeros(1, np.int32), total, device="interp")
    assert total.tolist() == [60]
