"""Metal libraries that are compiled ahead of time, by Xcode's compiler.

    iris.build([softmax.lower(x, out, 300, BLOCK=512, grid=8)], "kernels.metallib")

They are for programs without Python: `makeLibrary(URL:)` opens one, and the functions in it have
the names of the kernels. The text of each says which buffers it takes.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from iris.errors import ArgumentError, DeviceError, FileError

if TYPE_CHECKING:
    from iris.codegen.source import Source
    from iris.compiler.compilation import Compilation

METAL = ("xcrun", "-sdk", "macosx", "metal")


def build(kernels: Sequence[Compilation], file: str | PathLike[str]) -> None:
    """Compile kernels to a Metal library, which other programs can open.

    iris.build([add.lower(x, y, out, 300, B=64, grid=5)], "kernels.metallib")

    Needs a Mac with Xcode.
    """
    from iris.codegen.emitter import emit  # opened when first used
    from iris.compiler.compilation import Compilation, entry_of

    is_list = isinstance(kernels, Sequence) and len(kernels) > 0
    if not is_list or not all(isinstance(one, Compilation) for one in kernels):
        raise ArgumentError(
            "iris.build takes a list of compiled kernels, as [add.lower(x, out, 300, grid=5)], or "
            "the kernels of a function of arrays, as f.lower(x).kernels"
        )
    link([emit(entry_of(kernel.stages[-1].module)) for kernel in kernels], file)


def link(sources: Sequence[Source], file: str | PathLike[str]) -> None:
    """Compile texts, and put them in one library."""
    names = [source.entry for source in sources]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ArgumentError(f"a library has one function of each name, and {twice} is there twice")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = [Path(folder) / f"{name}.air" for name in names]
        list(pool.map(compile_text, sources, paths))
        made = Path(folder) / "made.metallib"
        _run([*METAL, *map(str, paths), "-o", str(made)], "the library")
        try:
            Path(file).write_bytes(made.read_bytes())
        except OSError as error:
            raise FileError(f"cannot write {file}: {error.strerror}") from None


def compile_text(source: Source, air: Path, compiler: Sequence[str] = METAL) -> None:
    """Compile a text to what libraries are linked from."""
    text = air.with_suffix(".metal")
    text.write_text(source.text, encoding="utf-8")
    language = "metal" + ".".join(map(str, source.version))
    # Fast math lets a compiler drop nan and infinity, which masks need.  What may be fast is
    # `fast::` in the text.
    flags = [f"-std={language}", "-fno-fast-math", "-c", str(text), "-o", str(air)]
    _run([*compiler, *flags], f"the kernel {source.entry}")


def _run(command: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        raise DeviceError(
            f"{what} cannot be compiled ahead of time: that needs a Mac with Xcode, and "
            f"{command[0]} is not here"
        ) from None
    if done.returncode != 0:
        raise DeviceError(f"{what} does not compile: {(done.stderr or done.stdout).rstrip()}")
