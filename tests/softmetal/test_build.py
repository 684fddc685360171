"""The library is built once, by one process, and says what it needs."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from iris.errors import SoftmetalError
from iris.softmetal import build

SOURCE = Path(build.__file__).parents[2]


def in_process(code: str, **environment: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(SOURCE), **environment}
    return subprocess.Popen(
        [sys.executable, "-c", f"from iris.softmetal import build\n{code}"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# Two sources are enough where it is about files and locks.
SMALL = """
from pathlib import Path
import os
def compiled(folder, counts=Path(os.environ["COUNTS"])):
    with counts.open("a") as file:
        file.write("x")
    (folder / "0.c").write_text("int answer(void) { return 42; }")
    build._run(["gcc", "-fPIC", "-c", str(folder / "0.c"), "-o", str(folder / "0.o")])
    return [str(folder / "0.o")]
build._compiled = compiled
build._LIBRARIES = []
"""


def test_the_library_has_metals_functions() -> None:
    library = ctypes.CDLL(str(build.library()))
    for name in (
        "MTLCreateSystemDefaultDevice",
        "MTLCopyAllDevices",
        "MTLCodeGenServiceCreate",
        "MTLCodeGenServiceBuildRequest",
        "CGMainDisplayID",
        "dispatch_data_create",
        "dispatch_release",
        "objc_msgSend",
        "objc_retain",
        "objc_release",
        "objc_autorelease",
        "objc_autoreleasePoolPush",
        "objc_autoreleasePoolPop",
        "objc_getClass",
        "class_getName",
        "sel_registerName",
        "sel_getName",
        "softmetal_reports",
    ):
        assert hasattr(library, name), name


def test_nothing_is_missing_here() -> None:
    assert build.missing() == []


def test_processes_that_build_at_once_share_one_library(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    environment = {"IRIS_CACHE_DIR": str(tmp_path / "cache"), "COUNTS": str(counts)}
    code = f"{SMALL}\nprint(build.library())"
    running = [in_process(code, **environment) for _ in range(4)]
    results = [process.communicate(timeout=60) for process in running]
    assert {errors for _, errors in results} == {""}
    (path,) = {Path(output.strip()) for output, _ in results}
    assert counts.read_text() == "x"
    assert ctypes.CDLL(str(path)).answer() == 42
    assert (path.parent / "include/metal_stdlib").exists()
    left = sorted(file.name for file in path.parents[1].iterdir())
    assert left == [path.parent.name, f"{path.parent.name}.lock"]


def test_a_library_of_sources_that_changed_meanwhile_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / build._key()
    monkeypatch.setattr(build, "_compiled", lambda partial: [])
    monkeypatch.setattr(build, "_run", lambda command: None)
    monkeypatch.setattr(build, "_state", lambda: "another")
    with pytest.raises(SoftmetalError, match="changed while it was built; run it again"):
        build._build(folder)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"IRIS_CACHE_DIR": "{0}/own"}, "own/softmetal"),
        ({"IRIS_CACHE_DIR": "", "XDG_CACHE_HOME": "{0}/xdg"}, "xdg/iris/softmetal"),
        ({"IRIS_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": "{0}"}, ".cache/iris/softmetal"),
    ],
)
def test_where_the_cache_is(
    variables: dict[str, str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    assert build._cache() == tmp_path / expected


def test_a_cache_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("IRIS_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(SoftmetalError, match="set IRIS_CACHE_DIR to a folder"):
        build.library()


@pytest.mark.parametrize("place", ["", "libsoftmetal.so"])
def test_a_library_that_others_can_write_to_is_refused(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRIS_CACHE_DIR", str(tmp_path))
    made = build._cache() / build._key()
    made.mkdir(parents=True, mode=0o700)
    (made / "libsoftmetal.so").touch()
    (made / place).chmod(0o777)
    with pytest.raises(SoftmetalError, match="not safe to use: others can write to"):
        build.library()


def test_a_library_that_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRIS_CACHE_DIR", str(tmp_path))
    made = build._cache() / build._key()
    made.mkdir(parents=True, mode=0o700)
    os.mkfifo(made / "libsoftmetal.so", 0o600)
    with pytest.raises(SoftmetalError, match="is no file; remove it"):
        build.library()


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("IRIS_CACHE_DIR", str(tmp_path / "cache"))
    assert build.missing() == ["g++", "gobjc", "libgnustep-base-dev", "clang-19"]
    with pytest.raises(
        SoftmetalError, match=r"apt-get install g\+\+ gobjc libgnustep-base-dev clang-19"
    ):
        build._build(tmp_path / "made")


def test_one_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tool in ("gcc", "g++", "as"):
        found = subprocess.run(["which", tool], capture_output=True, text=True).stdout.strip()
        (tmp_path / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.missing() == ["clang-19"]


def test_a_source_that_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong.c").write_text("int x = y;\n")
    monkeypatch.setattr(build, "_SOURCES", tmp_path)
    (tmp_path / "cache").mkdir()
    with pytest.raises(SoftmetalError, match=r"(?s)cannot be built: gcc.*wrong\.c:1"):
        build._build(tmp_path / "cache/made")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("failing", ["shutil.copytree", "tempfile.mkdtemp", "pathlib.Path.rename"])
def test_a_full_disk_is_told(failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("IRIS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(build, "_compiled", lambda folder: [])
    monkeypatch.setattr(build, "_run", lambda command: None)
    monkeypatch.setattr(failing, full)
    with pytest.raises(SoftmetalError, match=r"cannot be built into .*: No space left on device; "):
        build.library()
    left = [path.name for path in (tmp_path / "softmetal").iterdir()]
    assert all(name.endswith(".lock") for name in left)
