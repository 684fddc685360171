"""Dumps: the IR after each pass in files, a folder for each thing that is compiled.

A folder is named after the function and a digest of all that decides the result: the IR before the
first pass, with its source lines, and the pipeline.  So two specialisations of a kernel have two
folders, and whoever compiles the same again writes the same again.  A folder is written when the
passes are done or something stopped them, under a name of its own, and then takes its place in one
step, so that threads and processes mix nothing; a folder called `unfinished` is of a process that
was killed.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from importlib.util import source_hash
from pathlib import Path
from typing import TypeGuard

from iris import knobs
from iris.errors import FileError
from iris.ir.control import Func
from iris.ir.core import Level, Module
from iris.ir.text.printer import to_text
from iris.ir.text.reprinter import Reprinter
from iris.passes.manager import Instrument, replay_command
from iris.passes.pipeline import Pass, Pipeline, TargetPass
from iris.version import __version__

MANIFEST = "manifest.json"

# The folders that this process has written, and with which stages.
_WRITTEN: set[tuple[Path, tuple[str, ...]]] = set()


def dumps(emit: Callable[[Func], str] | None = None) -> list[Instrument]:
    """The dump that the environment asks for; `emit` is that of `Dump`."""
    what = knobs.dump()
    if not what:
        return []
    levels = knobs.LEVELS if {"changed", "all"} & {*what} else what
    return [Dump(knobs.dump_dir(), everything="all" in what, levels=levels, emit=emit)]


def is_dumped(module: Module, pipeline: Pipeline) -> bool:
    """Whether this process has written the dump already, or no dump is wanted."""
    what = knobs.dump()
    if not what:
        return True
    folder = _folder(knobs.dump_dir(), module, pipeline, to_text(module, locations=True))
    return (folder, what) in _WRITTEN and (folder / MANIFEST).exists()


class Dump(Instrument):
    """Writes numbered files, `00-input.iris`, `01-cse.iris`, ..., and a manifest of all passes.

    The first line of each file is the command that goes on from it.  `everything` writes after
    passes that changed nothing, too; `levels` keeps the input and what is at these levels, or
    `msl`.  `emit` is given for a pipeline that leads to the text of kernels: it gives that of one.
    """

    def __init__(
        self,
        root: Path,
        *,
        everything: bool = False,
        levels: Collection[str] = knobs.LEVELS,
        emit: Callable[[Func], str] | None = None,
    ):
        self.root = root
        self.everything = everything
        self.levels = levels
        self.emit = emit

    def start(self, module: Module, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.passes = [str(done) for done in pipeline]
        self.verb = self._verb(pipeline)
        self.printer = Reprinter()
        self.text = self.printer.text(module)
        self.folder = _folder(self.root, module, pipeline, self.text)
        self.files: dict[str, str] = {}  # written together: that takes the system half as long
        self.stages: list[dict[str, object]] = []
        self._add("input", module, True, 0.0, {})

    def after(
        self, position: int, done: Pass, module: Module, seconds: float, counts: Mapping[str, int]
    ) -> None:
        before, self.text = self.text, self.printer.text(module)
        self._add(done.name, module, self.text != before, seconds, counts)

    def end(self, module: Module, failure: str | None) -> None:
        function = _function(module)
        try:
            if failure is None and self.emit and "msl" in self.levels and _is_kernel(function):
                self.files[f"{len(self.stages):02}-msl.metal"] = self.emit(function)
        finally:
            manifest = {
                "iris": __version__,
                "function": None if function is None else function.symbol,
                "pipeline": str(self.pipeline),
                "failure": failure,
            }
            head = json.dumps(manifest, indent=1).removesuffix("\n}")
            # A line each: with an indent, the encoder is ten times as slow.
            stages = ",\n  ".join(map(json.dumps, self.stages))
            self.files[MANIFEST] = f'{head},\n "stages": [\n  {stages}\n ]\n}}\n'
            try:
                self._publish()
            except OSError as error:
                why = f"cannot write the dump {self.folder}: {error.strerror}"
                raise FileError(why) from None

    def _add(
        self, name: str, module: Module, changed: bool, seconds: float, counts: Mapping[str, int]
    ) -> None:
        number, function = len(self.stages), _function(module)
        level = None if function is None else function.function_level.value
        kept = number == 0 or ((changed or self.everything) and level in self.levels)
        file = f"{number:02}-{name}{'' if changed else '-unchanged'}.iris" if kept else None
        self.stages.append(
            {
                "pass": name,
                "level": level,
                "changed": changed,
                "seconds": seconds,
                "counts": dict(counts),
                "file": file,
            }
        )
        if file is not None:
            rest = ",".join(self.passes[number:])
            command = replay_command(rest, f"{self.folder}/{file}", self.verb)
            after = f"after pass {number} of {len(self.passes)}, {name}"
            where = after if number else "the input"
            how = "" if changed else ", which changed nothing"
            head = f"# {command}\n# {where}{how}; Iris {__version__}\n"
            self.files[file] = head + self.text

    def _verb(self, pipeline: Pipeline) -> str:
        """What goes on from a file: to the text of kernels, if the pipeline leads to one."""
        verb = "opt --verify-each" if self.emit is None else "emit"
        target = next((p.target for p in pipeline if isinstance(p, TargetPass)), None)
        return verb if target is None else f"{verb} --target {target.name}"

    def _publish(self) -> None:
        """Write the folder and put it in its place; one that is there is of an earlier time."""
        own = f"unfinished-{os.urandom(4).hex()}"
        unfinished = self.folder.with_name(f"{self.folder.name}-{own}")
        unfinished.mkdir(parents=True)
        for file, text in self.files.items():
            with open(f"{unfinished}/{file}", "wb", buffering=0) as written:
                written.write(text.encode())
        old = unfinished.with_name(f"{unfinished.name}-old")
        while True:
            try:
                unfinished.rename(self.folder)
                break
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
            with suppress(FileNotFoundError):  # another thread or process has moved it away
                self.folder.rename(old)
                shutil.rmtree(old)
        _WRITTEN.add((self.folder, knobs.dump()))


def _folder(root: Path, module: Module, pipeline: Pipeline, text: str) -> Path:
    """Where the dump of a module goes, which has this text with the lines it is from."""
    decides = f"{pipeline}\n{text}"
    # The hash of hashlib would first load a library of ciphers.
    digest = source_hash(decides.encode()).hex()
    function = _function(module)
    return root / f"{'nothing' if function is None else function.symbol}-{digest}"


def _function(module: Module) -> Func | None:
    return next((op for op in module if isinstance(op, Func)), None)


def _is_kernel(function: Func | None) -> TypeGuard[Func]:
    return function is not None and function.function_level is Level.METAL
