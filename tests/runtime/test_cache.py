"""Compiled libraries kept on disk: right answers whatever is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iris.errors import SettingError
from iris.runtime import cache
from iris.runtime.cache import Cache


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("IRIS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_WARNED", set())
    yield tmp_path / "libraries"
    (tmp_path / "libraries").chmod(0o700) if (tmp_path / "libraries").exists() else None


def test_what_was_put_is_there() -> None:
    kept = Cache("tools 1")
    key = kept.key("text", "fast")
    assert kept.get(key) is None
    kept.put(key, b"library")
    assert kept.get(key) == Cache("tools 1").get(key) == b"library"
    kept.put(key, b"")
    assert kept.get(key) == b""


def test_a_key_tells_apart_what_differs() -> None:
    keys = {
        Cache(tools).key(*parts)
        for tools in ("tools 1", "tools 2")
        for parts in (("a", "b"), ("ab", ""), ("", "ab"), ("a\nb",), ("ab",), ("b", "a"))
    }
    assert len(keys) == 12


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:10],
        lambda content: b"",
        lambda content: content + b"x",
        lambda content: bytes([content[0] ^ 1]) + content[1:],
        lambda content: content[:-3] + bytes([content[-3] ^ 0x80]) + content[-2:],
        lambda content: bytes(len(content)),
    ],
)
def test_what_is_damaged_is_dropped(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    kept = Cache("tools")
    key = kept.key("text")
    kept.put(key, b"a library of some length")
    path = folder / key
    path.write_bytes(damage(path.read_bytes()))
    assert kept.get(key) is None
    assert not path.exists()


def test_swapped_entries_are_dropped(folder: Path) -> None:
    kept = Cache("tools")
    one, two = kept.key("one"), kept.key("two")
    kept.put(one, b"1")
    kept.put(two, b"2")
    (folder / one).rename(folder / "three")
    (folder / two).rename(folder / one)
    (folder / "three").rename(folder / two)
    assert kept.get(one) is None and kept.get(two) is None


def test_a_folder_that_cannot_be_written_to_warns_once(tmp_path: Path) -> None:
    (tmp_path / "libraries").write_text("a file where the folder should be")
    kept = Cache("tools")
    with pytest.warns(RuntimeWarning, match="IRIS_CACHE_DIR"):
        kept.put("key", b"library")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.put("key", b"library")
    assert kept.get("key") is None


def test_a_full_disk_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Cache("tools")

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        kept.put("key", b"library")
    assert files(folder) == []


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def test_files_of_others_stay(folder: Path) -> None:
    (folder / "partial").mkdir(parents=True)
    (folder / "partial" / "of-something").write_text("else")
    Cache("tools").put("key", b"library")
    assert (folder / "partial" / "of-something").exists()


def test_entries_are_not_listed_when_a_process_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be tens of thousands, so a list of them takes longer than all else."""
    Cache("tools").put("key", b"library")
    listed: list[str] = []
    known = os.listdir, os.scandir
    monkeypatch.setattr(os, "listdir", lambda path: (listed.append(str(path)), known[0](path))[1])
    monkeypatch.setattr(os, "scandir", lambda path: (listed.append(str(path)), known[1](path))[1])
    assert Cache("tools").get("key") == b"library"
    assert listed == [str(folder / "partial")]


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.mkdir()
    (path / "something").touch()


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def of_others(path: Path) -> None:
    path.touch()
    path.chmod(0o666)


@pytest.mark.parametrize(
    "entry", [a_fifo, a_folder, a_link_to_nothing, a_link_to_itself, a_device, of_others]
)
def test_what_is_no_file_of_ours_is_no_entry(folder: Path, entry: Callable[[Path], None]) -> None:
    kept = Cache("tools")
    folder.mkdir(mode=0o700)
    entry(folder / "key")
    assert kept.get("key") is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept.put("key", b"library")
    assert kept.get("key") == (None if entry is a_folder else b"library")


def test_an_entry_that_others_can_write_to_is_not_used(folder: Path) -> None:
    kept = Cache("tools")
    kept.put("key", b"library")
    for mode in (0o620, 0o602, 0o666):
        (folder / "key").chmod(mode)
        assert kept.get("key") is None
    (folder / "key").chmod(0o644)
    assert kept.get("key") == b"library"


def test_a_folder_that_others_can_write_to_is_refused(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(SettingError, match="others can write to"):
        Cache("tools")


_WRITER = """
import os, signal
from iris.errors import SettingError
from iris.runtime import cache
os.replace = lambda source, target: os.kill(os.getpid(), signal.SIGKILL)
cache.Cache("tools").put("key", b"library")
"""


def test_what_a_killed_process_left_is_removed(folder: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", _WRITER])
    assert killed.returncode == -signal.SIGKILL
    assert len(files(folder)) == 1
    kept = Cache("tools")
    assert files(folder) == []
    assert kept.get("key") is None
