"""Hypothesis settings for the whole suite, the same on every machine; and what there is to test
Metal with."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, is_hypothesis_test, settings
from hypothesis.statistics import collector

from iris.runtime.devices import devices
from support import OF_LINUX, ROOT, counts

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import WorkStealingScheduling

# On a Mac these are no tests that were skipped.
collect_ignore = OF_LINUX if sys.platform == "darwin" else []

settings.register_profile(
    "iris",
    max_examples=counts(100, 2000),
    derandomize=True,
    database=None,
    deadline=None,
    # To explain a failure, each run is traced line by line; and many tests fail, as they must.
    phases=[phase for phase in Phase if phase is not Phase.explain],
    # Measures the machine and its load, and so would fail by chance.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("iris")

# IR is cyclic, so the collector frees most of it, which at its own thresholds takes about 15 % of
# the time.  10,000 young objects are still in a processor's cache when they are visited; what
# outlives them is visited again only after 50 times as many.
gc.set_threshold(10_000, 50)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="write into files of IR what passes make of it"
    )
    parser.addoption(
        "--random",
        action="store_true",
        help="list the tests that draw random examples, with the processor time of each",
    )
    parser.addoption(
        "--apple",
        action="store_true",
        help="hold every text that tests make for Metal to the rules of Apple's compiler",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep what each run, and each process that tests start, would compute again: what Hypothesis
    reads from the sources, and bytecode, if it may not stand beside them.  In these processes a
    product of NumPy's takes one core, as the workers take all: the threads of OpenBLAS wait for
    each other in a loop, so that a product of 128x128 takes 30 times as long on busy cores.

    Workers have these settings from the process that starts them.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(ROOT / ".hypothesis"))
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        folder = ROOT / "build" / "bytecode"
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(folder)
        sys.dont_write_bytecode = False
        # That of modules that tests write is of no use to another run.
        temporary = Path(tempfile.gettempdir()).resolve()
        written = folder / temporary.relative_to(temporary.anchor)
        config.add_cleanup(partial(shutil.rmtree, written, ignore_errors=True))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Thousands of collected tests stay in memory, so none of them is ever garbage."""
    gc.freeze()


def processor_seconds() -> float:
    """What this process has taken, and those that it started and that have ended."""
    return sum(os.times()[:4])


_BEGAN = pytest.StashKey[float]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGAN] = processor_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Note the time of a test, setup included, and whether it draws random examples."""
    runs: list[object] = []  # of Hypothesis within the test, which counts its own one elsewhere
    try:
        with collector.with_value(runs.append):  # type: ignore[arg-type]
            return (yield)
    finally:
        seconds = processor_seconds() - item.stash[_BEGAN]
        is_random = bool(runs) or is_hypothesis_test(getattr(item, "obj", None))
        item.user_properties += ("seconds", seconds), ("random", is_random)


def list_random(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the tests that draw random examples, the dearest first, and the sum of their times."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    known = [(dict(r.user_properties), r.nodeid) for r in reports if r.when == "call"]
    drawing = sorted([(test["seconds"], name) for test, name in known if test["random"]])
    for seconds, name in reversed(drawing):
        terminalreporter.write_line(f"{seconds:7.1f} s  {name}")
    taken, total = sum(s for s, _ in drawing), sum(test["seconds"] for test, _ in known)
    terminalreporter.write_line(
        f"{len(drawing)} tests draw random examples: {taken:.0f} s of the {total:.0f} s of "
        f"processor time that {len(known)} tests took"
    )


@cache
def missing() -> dict[str, str]:
    """Why tests with a marker cannot run here."""
    whys = {device.name: device.missing for device in devices()}
    metal = "metal" if sys.platform == "darwin" else "softmetal"
    texts = os.environ.get("IRIS_TEST_TEXTS") or metal
    found = {"softmetal": whys["softmetal"], "metal": whys[texts]}
    return {marker: why for marker, why in found.items() if why is not None}


_WITHOUT_GPU: list[str] = []  # what would run with a GPU


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    on_gpu = [item for item in items if item.get_closest_marker("cuda")]
    if on_gpu and next(d for d in devices() if d.name == "cuda").missing is not None:
        items[:] = [item for item in items if item not in on_gpu]
        config.hook.pytest_deselected(items=on_gpu)
        _WITHOUT_GPU[:] = sorted({item.path.name for item in on_gpu})
    for item in items:
        for marker, why in missing().items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=why))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.getoption("--random"):
        list_random(terminalreporter)
    if _WITHOUT_GPU:
        terminalreporter.write_line(f"needs an NVIDIA GPU, and was left out: {_WITHOUT_GPU}")
    skipped = len(terminalreporter.stats.get("skipped", ()))
    if skipped:
        whys = "; ".join(dict.fromkeys(missing().values())) or "see -rs"
        terminalreporter.write_line(f"NOT TESTED: {skipped} tests: {whys}", red=True, bold=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With IRIS_TEST_ALL=1, a test that was skipped is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("IRIS_TEST_ALL") == "1" and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WorkStealingScheduling:
    """Tests of a file go to one worker, which keeps what they share."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.fixture(autouse=True, scope="module")
def held_to_apples_rules(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--apple`, softmetal's strict check takes what the tests of a module emit for Metal."""
    if not request.config.getoption("--apple"):
        yield
        return
    from iris.codegen import emitter
    from texts_of_tests import Texts

    texts = Texts(emitter._Kernel.source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emitter._Kernel, "source", lambda kernel: texts.of(kernel))
        yield
    refused = texts.refused()
    assert not refused, "\n".join(refused)
