"""CUDA files as clang's syntax trees, with the line and column of every node."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from iris.errors import DeviceError
from iris.frontend.cuda.prelude import HEADERS, TEXT

CLANG = "clang++-19"
#: A node of the tree: its kind, its type, `inner` nodes and so on.
Node = dict[str, Any]


class Place(NamedTuple):
    """Where a node is in its file."""

    file: str
    line: int
    column: int


class Diagnostic(NamedTuple):
    """An error that clang reports."""

    line: int
    message: str


@dataclass(frozen=True)
class Tree:
    """What clang knows of a file."""

    path: str
    declarations: list[Node]
    errors: list[Diagnostic]  # of the file itself


def parse(path: Path, instances: Sequence[str] = ()) -> Tree:
    """Parse a file, with instances of its templates, such as `reduce<256>`."""
    with tempfile.TemporaryDirectory() as folder:
        stubs = Path(folder)
        for header in HEADERS:
            (stubs / header).parent.mkdir(exist_ok=True)
            (stubs / header).touch()
        prelude, main = stubs / "iris_prelude.cuh", stubs / "iris_main.cu"
        prelude.write_text(TEXT)
        used = "".join([f"auto* iris_{i} = &{name};\n" for i, name in enumerate(instances)])
        main.write_text(f'#include "{path.absolute()}"\n{used}')
        command = [CLANG, "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib"]
        command += [
            "-nostdinc",
            "-nostdinc++",
            "-std=c++20",
            "--cuda-gpu-arch=sm_70",
            "-ferror-limit=0",
        ]
        command += [
            "-Wno-everything",
            "-fno-caret-diagnostics",
            "-I",
            folder,
            "-I",
            str(path.parent),
        ]
        command += [
            "-include",
            str(prelude),
            "-fsyntax-only",
            "-Xclang",
            "-ast-dump=json",
            str(main),
        ]
        try:
            run = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            raise DeviceError(
                f"CUDA files are parsed by clang: apt-get install {CLANG[:5]}-19"
            ) from None
    if not run.stdout:
        raise DeviceError(f"clang does not parse {path}: {run.stderr}")
    tree = json.loads(run.stdout, object_hook=_Places())
    found = re.findall(r"^(.*?):(\d+):\d+: error: (.*)$", run.stderr, re.M)
    absolute = str(path.absolute())
    errors = [Diagnostic(int(line), text) for file, line, text in found if file == absolute]
    return Tree(absolute, tree["inner"], errors)


class _Places:
    """Gives each node its place: clang names a file or a line only where it changes."""

    def __init__(self) -> None:
        self.file, self.line = "", 0

    def __call__(self, node: Node) -> Node:
        # Bare locations are leaves, so they come in the order of the text that clang writes.
        if "offset" in node and "col" in node:
            self.file = node.get("file", self.file)
            self.line = node.get("line", self.line)
            node["place"] = Place(self.file, self.line, node["col"])
        return node


def place_of(node: Node) -> Place | None:
    """Where a node begins: where a macro is used, if one made it."""
    for where in (node.get("range", {}).get("begin", {}), node.get("loc", {})):
        where = where.get("expansionLoc", where)
        if "place" in where:
            return where["place"]  # type: ignore[no-any-return]
    return None


def last_line(node: Node) -> int:
    """Where a node ends."""
    end = node.get("range", {}).get("end", {})
    place = end.get("expansionLoc", end).get("place")
    return 0 if place is None else int(place.line)


def inner(node: Node) -> list[Node]:
    """The nodes within, without attributes and comments."""
    return [
        n
        for n in node.get("inner", ())
        if n and not n.get("kind", "").endswith(("Attr", "Comment"))
    ]


def walk(node: Node) -> Iterator[Node]:
    """A node and all within it."""
    yield node
    for one in node.get("inner", ()):
        if one:
            yield from walk(one)
