"""Switches of the environment: what each may be, and that all else is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import iris
from iris import knobs
from iris.errors import DeviceError, SettingError
from iris.runtime import devices
from support import ROOT

NUMBERS = ("IRIS_SOFTMETAL_SEED", "IRIS_SOFTMETAL_TIMEOUT")
READ: dict[str, Callable[[], object]] = {
    "IRIS_DUMP": knobs.dump,
    "IRIS_CHECK": knobs.check,
    "IRIS_SOFTMETAL_SEED": knobs.seed,
    "IRIS_SOFTMETAL_TIMEOUT": knobs.timeout,
    "IRIS_SOFTMETAL_SANITIZE": knobs.sanitize,
    "IRIS_SOFTMETAL_STRICT": knobs.strict,
    "IRIS_SOFTMETAL_FLUSH": knobs.flush,
}
SWITCHES = [name for name in READ if name not in ("IRIS_DUMP", *NUMBERS)]
RIGHT = [
    *[(name, word, word == "1") for word in ("0", "1", "") for name in SWITCHES],
    ("IRIS_DUMP", "", ()),
    ("IRIS_DUMP", "tile, msl", ("tile", "msl")),
    ("IRIS_SOFTMETAL_SEED", "", 0),
    ("IRIS_SOFTMETAL_SEED", "007", 7),
    ("IRIS_SOFTMETAL_SEED", str(2**64 - 1), 2**64 - 1),
    ("IRIS_SOFTMETAL_TIMEOUT", "", None),
    *[("IRIS_SOFTMETAL_TIMEOUT", word, float(word)) for word in ("30", ".5", "2.", "1e-3", "1e6")],
]
WRONG = [
    *[(name, word) for name in SWITCHES for word in ("true", "yes", "2", " 1", "on")],
    *[("IRIS_SOFTMETAL_SEED", word) for word in ("abc", "-1", "1.5", "0x10", " 7", str(2**64))],
    *[
        ("IRIS_SOFTMETAL_TIMEOUT", word)
        for word in ("abc", "0", "-1", "nan", "inf", "0x10", "1s", " 1", "1e7", "1e999", "")
        if word
    ],
    ("IRIS_DUMP", "everything"),
]


@pytest.mark.parametrize(("name", "word", "value"), RIGHT)
def test_what_means_something(
    name: str, word: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, word)
    assert READ[name]() == value


@pytest.mark.parametrize(("name", "word"), WRONG)
def test_what_means_nothing_is_refused(
    name: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, word)
    with pytest.raises(SettingError) as caught:
        READ[name]()
    assert str(caught.value).startswith(f"{name} is ") and repr(word) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("IRIS_SOFTMETAL_SANITIZE", "true"),
        ("IRIS_SOFTMETAL_STRICT", "true"),
        ("IRIS_SOFTMETAL_FLUSH", "true"),
        ("IRIS_SOFTMETAL_SEED", "abc"),
        ("IRIS_SOFTMETAL_TIMEOUT", "abc"),
    ],
)
def test_a_launch_with_a_switch_that_means_nothing(name: str, word: str) -> None:
    launch = "import iris, numpy; iris.asarray(numpy.ones(3, numpy.float32), device='softmetal')"
    done = subprocess.run(
        [sys.executable, "-c", launch],
        env={**os.environ, name: word, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert f"SettingError: {name} is " in done.stderr


@iris.kernel
def one(X):
    iris.store(X + iris.arange(0, 32), 1.0)


@pytest.mark.softmetal
@pytest.mark.parametrize(("name", "word"), [p for p in WRONG if "SOFTMETAL" in p[0]])
def test_softmetal_reads_them_by_the_same_rules(
    name: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As other clients of Metal do, which have no part of ours in Python."""
    x = iris.empty(32, device="softmetal")
    one[1](x)
    x.numpy()
    monkeypatch.setenv(name, word)
    one[1](x)
    with pytest.raises(DeviceError, match=f"{name} is "):
        x.numpy()


@pytest.mark.softmetal
@pytest.mark.parametrize(("name", "word", "value"), [p for p in RIGHT if "SOFTMETAL" in p[0]])
def test_softmetal_takes_what_means_something(
    name: str, word: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = iris.empty(32, device="softmetal")
    monkeypatch.setenv(name, word)
    one[1](x)
    assert (x.numpy() == 1).all()


def test_what_is_nearly_a_switch_gets_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_opened", {})
    for name in ("IRIS_HOME", "IRIS_TEST_ALL", "IRIS_CAMPAIGN", "IRIS_DATA", *knobs.NAMES[:1]):
        monkeypatch.setenv(name, "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        knobs.warn_of_unknown()
    for name, meant in (
        ("IRIS_SOFTMETAL_SANITISE", "IRIS_SOFTMETAL_SANITIZE"),
        ("IRIS_SOFTMETAL_SEEDS", "IRIS_SOFTMETAL_SEED"),
        ("IRIS_CACHEDIR", "IRIS_CACHE_DIR"),
    ):
        monkeypatch.setenv(name, "1")
        with pytest.warns(RuntimeWarning, match=f"{name} does nothing; did you mean {meant}"):
            knobs.warn_of_unknown()
        monkeypatch.delenv(name)
    monkeypatch.setenv("IRIS_DEVCE", "interp")
    with pytest.warns(RuntimeWarning, match="did you mean IRIS_DEVICE"):
        iris.asarray(np.ones(3, np.float32), device="interp")
