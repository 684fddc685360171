"""The folder for what was compiled: where it is, and that nobody else can put anything there."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from iris import cache_folder as folders
from iris.cache_folder import cache_folder, not_ours
from iris.errors import SettingError
from support import ROOT


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(folders, "_WARNED", set())
    (tmp_path / "tmp").mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"IRIS_CACHE_DIR": "{0}/own", "XDG_CACHE_HOME": "{0}/xdg"}, "own"),
        ({"XDG_CACHE_HOME": "{0}/xdg"}, "xdg/iris"),
        ({"XDG_CACHE_HOME": "not/absolute"}, ".cache/iris"),
        ({}, ".cache/iris"),
    ],
)
def test_where_it_is(
    variables: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    found = cache_folder()
    assert found == tmp_path / expected
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


def test_a_relative_folder_of_the_users_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IRIS_CACHE_DIR", "here")
    assert cache_folder() == tmp_path / "here"


def nobody_at_home(uid: int) -> pwd.struct_passwd:
    raise KeyError(uid)


@pytest.mark.parametrize("home", [None, "", "relative", "/dev/null"])
def test_no_home(home: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", nobody_at_home)
    if home is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", home)
    with pytest.warns(RuntimeWarning, match="set IRIS_CACHE_DIR to a folder of your own"):
        found = cache_folder()
    assert found == tmp_path / "tmp" / f"iris-{os.getuid()}"
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    with warnings.catch_warnings():  # once
        warnings.simplefilter("error")
        assert cache_folder() == found


UNSAFE = [0o777, 0o775, 0o720, 0o702]


@pytest.mark.parametrize("mode", UNSAFE)
def test_a_folder_that_others_can_write_to(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".cache" / "iris"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    assert "chmod go-w" in (not_ours(folder) or "")
    with pytest.warns(RuntimeWarning, match=r"others can write to .*\.cache/iris: chmod go-w"):
        assert cache_folder() == tmp_path / "tmp" / f"iris-{os.getuid()}"
    monkeypatch.setenv("IRIS_CACHE_DIR", str(folder))
    with pytest.raises(SettingError, match=r"IRIS_CACHE_DIR is not safe to use: others can"):
        cache_folder()
    folder.chmod(mode & ~0o022)
    assert cache_folder() == folder


def test_a_folder_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "own"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("IRIS_CACHE_DIR", str(folder))
    owner = folder.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    if owner == 0:  # what is root's, everybody may use
        assert cache_folder() == folder
        os.chown(folder, 4321, -1)
    with pytest.raises(SettingError, match=r"belongs to another user"):
        cache_folder()


def test_no_folder_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/dev/null")
    (tmp_path / "tmp" / f"iris-{os.getuid()}").mkdir(mode=0o777)
    (tmp_path / "tmp" / f"iris-{os.getuid()}").chmod(0o777)
    with pytest.raises(SettingError, match=r"kept nowhere: .*null.*and others can write.*set IRIS"):
        cache_folder()


def test_a_link_among_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/dev/null")
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "tmp" / f"iris-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingError, match=r"kept nowhere: .* is a link; set IRIS_CACHE_DIR"):
        cache_folder()


def test_the_devices_are_listed_all_the_same(tmp_path: Path) -> None:
    """Without a home, and with a folder that is refused."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    script = "import iris\nfor one in iris.devices(): print(one)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    environment["IRIS_CACHE_DIR"] = str(tmp_path / "open")
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert "interp: here" in done.stdout and "softmetal: IRIS_CACHE_DIR is not safe" in done.stdout
