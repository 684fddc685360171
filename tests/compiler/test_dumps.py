"""Dumps: a folder for each specialisation, which holds what replays it, whoever else writes."""

from __future__ import annotations

import inspect
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris.compiler import dumps
from iris.compiler.dumps import Dump
from iris.errors import FileError, PassError
from iris.frontend.cuda.clang import CLANG
from iris.ir import parse, to_text
from iris.ir.core import Location
from iris.passes import Pass, run
from iris.tools.cli import main
from support import ROOT, counts

TEXT = """\
func graph @f returns=[f32](%x: f32) {
  %a: f32 = mul %x, %x
  %b: f32 = mul %x, %x
  %c: f32 = add %a, %b
  return %c
}
"""


def folder_of(root: Path) -> Path:
    (folder,) = root.iterdir()
    return folder


def files_of(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name != "manifest.json")


def manifest_of(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return manifest


def test_dumps_are_numbered_and_replay_the_rest(tmp_path: Path) -> None:
    module = parse(TEXT, "model.iris")
    result = run(module, "licm,cse,dce", [Dump(tmp_path)])
    folder = folder_of(tmp_path)
    assert files_of(folder) == ["00-input.iris", "02-cse.iris"]
    command, what, first = (folder / "00-input.iris").read_text().split("\n", 2)
    assert command == f'# iris opt --verify-each --passes "licm,cse,dce" {folder}/00-input.iris'
    assert what == f"# the input; Iris {iris.__version__}"
    assert first == to_text(module, locations=True)
    last = (folder / "02-cse.iris").read_text()
    assert last.splitlines()[1] == f"# after pass 2 of 3, cse; Iris {iris.__version__}"
    assert run(parse(last), "dce") == result


def test_the_manifest_lists_every_pass(tmp_path: Path) -> None:
    run(parse(TEXT), "licm,cse,dce", [Dump(tmp_path)])
    manifest = manifest_of(folder_of(tmp_path))
    assert (manifest["iris"], manifest["function"]) == (iris.__version__, "f")
    assert (manifest["pipeline"], manifest["failure"]) == ("licm,cse,dce", None)
    stages = [(s["pass"], s["level"], s["changed"], s["file"]) for s in manifest["stages"]]
    assert stages == [
        ("input", "graph", True, "00-input.iris"),
        ("licm", "graph", False, None),
        ("cse", "graph", True, "02-cse.iris"),
        ("dce", "graph", False, None),
    ]
    assert manifest["stages"][2]["counts"] == {"merged": 1}


def test_dumps_of_everything_and_of_some_levels(tmp_path: Path) -> None:
    run(parse(TEXT), "licm,cse", [Dump(tmp_path, everything=True)])
    folder = folder_of(tmp_path)
    assert files_of(folder) == ["00-input.iris", "01-licm-unchanged.iris", "02-cse.iris"]
    assert "licm, which changed nothing;" in (folder / "01-licm-unchanged.iris").read_text()
    run(parse(TEXT), "licm,cse", [Dump(tmp_path)])
    assert files_of(folder) == ["00-input.iris", "02-cse.iris"], "older files would mislead"
    run(parse(TEXT), "cse", [Dump(tmp_path / "other", levels=["metal"])])
    assert files_of(folder_of(tmp_path / "other")) == ["00-input.iris"], "the input is always kept"


def test_nothing_is_kept_if_nothing_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("IRIS_DUMP", raising=False)
    monkeypatch.setenv("IRIS_DUMP_DIR", str(tmp_path))
    assert dumps.dumps() == []
    scale[1](np.ones(16, np.float32), 16, BLOCK=16, device="interp:metal")
    assert not [*tmp_path.iterdir()]


def test_a_name_or_a_line_alone_is_a_change(tmp_path: Path) -> None:
    class Renames(Pass):
        name = "renames-for-a-dump"

        def run(self, module: Any) -> None:
            op = next(op for op in module.walk() if op.results)
            op.result.name = "z"

    class Moves(Pass):
        name = "moves-for-a-dump"

        def run(self, module: Any) -> None:
            op = next(op for op in module.walk() if op.results)
            op.location = Location("other.py", 7)

    passes = "renames-for-a-dump,renames-for-a-dump,moves-for-a-dump"
    run(parse(TEXT), passes, [Dump(tmp_path)])
    folder = folder_of(tmp_path)
    assert files_of(folder) == ["00-input.iris", f"01-{Renames.name}.iris", f"03-{Moves.name}.iris"]
    assert "%z: f32 = mul" in (folder / f"01-{Renames.name}.iris").read_text()
    assert 'at "other.py":7' in (folder / f"03-{Moves.name}.iris").read_text()


def test_a_failed_pass_leaves_what_there_was(tmp_path: Path) -> None:
    class Fails(Pass):
        name = "fails-for-a-dump"

        def run(self, module: Any) -> None:
            raise ValueError("wrong")

    with pytest.raises(PassError):
        run(parse(TEXT), "cse,fails-for-a-dump", [Dump(tmp_path)])
    folder = folder_of(tmp_path)
    assert files_of(folder) == ["00-input.iris", "01-cse.iris"]
    assert "ValueError: wrong" in manifest_of(folder)["failure"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot write the dump .*/file/f-\w+: Not a directory"):
        run(parse(TEXT), "cse", [Dump(tmp_path / "file")])


def test_a_name_with_a_space_is_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(parse(TEXT), "licm,cse,dce", [Dump(tmp_path / "a b")])
    first = folder_of(tmp_path / "a b") / "00-input.iris"
    assert main(command_in(first)) == 0
    assert parse(capsys.readouterr().out) == result


@iris.kernel
def scale(X, n, BLOCK: iris.constexpr):
    i = iris.program_id(0) * BLOCK + iris.arange(0, BLOCK)
    iris.store(X + i, iris.load(X + i, mask=i < n) * 2, mask=i < n)


@iris.jit
def normal(x):
    return x / np.sum(x, axis=1, keepdims=True) + np.sum(x)


BLOCKS = (32, 64, 128, 256)


def specialise(block: int) -> None:
    scale[2](np.ones(64, np.float32), 64, BLOCK=block, device="interp:metal")


def command_in(file: Path) -> list[str]:
    """The arguments in the first line of a dump's file."""
    return shlex.split(file.read_text().split("\n", 1)[0].removeprefix("# iris "))


def check_folders(root: Path) -> None:
    """Each folder holds the input of its block, and the text of the same program."""
    found = set()
    for folder in root.iterdir():
        manifest = manifest_of(folder)
        assert files_of(folder) == [s["file"] for s in manifest["stages"] if s["file"]] + [
            f"{len(manifest['stages'])}-msl.metal"
        ]
        text = (folder / "00-input.iris").read_text()
        (block,) = {b for b in BLOCKS if f"tile<{b}xf32>" in text}
        expected = scale.lower(np.ones(64, np.float32), 64, BLOCK=block, grid=2).msl
        assert (folder / files_of(folder)[-1]).read_text() == expected
        found.add(block)
    assert found == {*BLOCKS}


def test_threads_and_specialisations_mix_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRIS_DUMP", "changed")
    monkeypatch.setenv("IRIS_DUMP_DIR", str(tmp_path))

    def specialise_all(first: int) -> None:
        for block in (*BLOCKS[first:], *BLOCKS[:first]):
            specialise(block)

    threads = [threading.Thread(target=specialise_all, args=[i]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(tmp_path.iterdir())) == len(BLOCKS)
    check_folders(tmp_path)


PROCESS = "import iris, numpy as np\n\n"
EACH = f"""
print("here", flush=True)
input()
for block in {BLOCKS}:
    scale[2](np.ones(64, np.float32), 64, BLOCK=block, device="interp:metal")
"""


def test_processes_mix_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROCESS + inspect.getsource(scale.__wrapped__) + EACH)
    folder = tmp_path / "dumps"
    environment = {**os.environ, "IRIS_DUMP": "changed", "IRIS_DUMP_DIR": str(folder)}
    started = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        process.communicate()
        assert process.returncode == 0
    check_folders(folder)


def test_dumps_of_what_was_compiled_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def launch() -> None:
        specialise(32)
        normal(np.ones((4, 8), np.float32), device="interp:metal")

    launch()
    kernels = [kernel.name for kernel in normal.kernels(np.ones((4, 8), np.float32))]
    monkeypatch.setenv("IRIS_DUMP", "changed")
    monkeypatch.setenv("IRIS_DUMP_DIR", str(tmp_path))
    launch()
    written = {f: f.stat().st_mtime_ns for f in tmp_path.glob("*/*")}
    names = {folder.name.rpartition("-")[0] for folder in tmp_path.iterdir()}
    assert names == {"scale", "normal", *kernels}
    launch()
    assert {f: f.stat().st_mtime_ns for f in tmp_path.glob("*/*")} == written, "once is enough"


@pytest.mark.parametrize(("what", "kinds"), [("msl", {"metal"}), ("metal,msl", {"iris", "metal"})])
def test_the_text_of_a_kernel_is_dumped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, kinds: set[str]
) -> None:
    @iris.kernel
    def dumped(X, n):
        iris.store(X, iris.load(X + n * 0))

    monkeypatch.setenv("IRIS_DUMP", what)
    monkeypatch.setenv("IRIS_DUMP_DIR", str(tmp_path))
    x = np.zeros(4, np.float32)
    dumped[1](x, 1, device="interp:metal")
    (folder,) = tmp_path.glob("dumped-*")
    files = files_of(folder)
    assert {file.rpartition(".")[2] for file in files[1:]} == kinds, "the input is always kept"
    assert (folder / files[-1]).read_text() == dumped.lower(x, 1, grid=1).msl


# All examples that compile something, and all files of each, only where time is no matter.
FEW = ["gather_scatter", "mlp", "softmax", "tour"]
ALL = [p.stem for p in sorted((ROOT / "examples").glob("*.py")) if p.stem != "first_ir"]


@pytest.mark.parametrize("example", counts(FEW, ALL))
def test_files_replay_to_the_same_text(
    example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The input of each compilation, and two later files, which differ from one to the next."""
    script = str(ROOT / f"examples/{example}.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IRIS_DEVICE", "interp:metal")
        assert main(["dump", "-o", str(tmp_path), script]) == 0
    capsys.readouterr()
    for number, folder in enumerate(sorted(tmp_path.iterdir())):
        texts = {metal.read_text() for metal in folder.glob("*.metal")}
        first, *rest = sorted(folder.glob("*.iris"))
        for file in (first, *counts(rest[number % 7 :: 7][:2], rest)):
            assert main(command_in(file)) == 0
            texts.add(capsys.readouterr().out)
        assert len(texts) == 1


def test_a_file_replays_in_a_process_of_its_own(tmp_path: Path) -> None:
    """By a shell, as its first line says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IRIS_DUMP", "changed")
        patch.setenv("IRIS_DUMP_DIR", str(tmp_path / "a b"))
        specialise(32)
    folder = folder_of(tmp_path / "a b")
    (text,) = folder.glob("*.metal")
    for file in (folder / "00-input.iris", sorted(folder.glob("*.iris"))[-1]):
        command = file.read_text().split("\n", 1)[0].removeprefix("# iris ")
        done = subprocess.run(
            f"{shlex.quote(sys.executable)} -m iris.tools.cli {command}",
            shell=True,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == text.read_text()


THREADS = """
import numpy as np
import iris
from iris import metal

@iris.metal.kernel
def reverse(X: "device float*"):
    shared = metal.shared(64, metal.float)
    i = metal.thread_in_threadgroup()
    shared[i] = X[i]
    metal.barrier()
    X[i] = shared[63 - i]

reverse(np.ones(64, np.float32), grid=1, threadgroup=64)
"""
TRITON = """
import numpy as np
import iris.triton as triton
import iris.triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

double[(1,)](np.ones(64, np.float32), 64, BLOCK=64)
"""
CUDA_FILE = '''
from pathlib import Path
import numpy as np
import iris

file = Path(__file__).with_name("reverse.cu")
file.write_text("""__global__ void reverse(float *x) {
  __shared__ float all[64];
  all[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = all[63 - threadIdx.x];
}""")
iris.cuda.load(file).reverse[1, 64](np.ones(64, np.float32))
'''


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(THREADS, id="threads"),
        pytest.param(TRITON, id="triton"),
        pytest.param(
            CUDA_FILE,
            id="cuda",
            marks=pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is missing"),
        ),
    ],
)
def test_kernels_of_other_languages_are_seen(
    script: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By `iris dump`, whose files go on to the text, `view`, `explain` and `step`."""
    monkeypatch.setenv("IRIS_DEVICE", "interp:metal")
    file, dumped, page = tmp_path / "script.py", tmp_path / "dumps", tmp_path / "page.html"
    file.write_text(script)
    assert main(["dump", "-o", str(dumped), str(file)]) == 0
    folder = folder_of(dumped)
    capsys.readouterr()
    texts = {next(folder.glob("*.metal")).read_text()}
    for dump in folder.glob("*.iris"):
        assert main(command_in(dump)) == 0
        texts.add(capsys.readouterr().out)
    assert len(texts) == 1
    assert main(["view", "-o", str(page), str(file)]) == 0
    (part,) = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])["parts"]
    assert "\n".join(part["msl"]["lines"]) + "\n" in texts
    assert main(["explain", str(file)]) == 0
    assert "By the cost model a launch takes" in capsys.readouterr().out
    # A file of the dump says how it may be launched, and is then stepped through.
    first = folder / "00-input.iris"
    assert main(["step", str(first)]) == 1
    _, _, shown = capsys.readouterr().err.partition("this would:\n")
    comments = [line for line in shown.splitlines() if line.startswith("# ")]
    comments = [line.replace("%n: 1", "%n: 64") for line in comments]
    first.write_text("\n".join([*comments, first.read_text()]))
    monkeypatch.setattr("sys.stdin", io.StringIO("step 3"))
    assert main(["step", str(first)]) == 0
    assert "  %" in capsys.readouterr().out
