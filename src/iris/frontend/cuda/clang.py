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
from iris.frontend.cuda.library import FUNCTIONS, helper_math
from iris.frontend.cuda.prelude import HEADERS, TEXT

CLANG = "clang++-19"
PRELUDE = "iris_prelude.cuh"
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
    column: int  # from 0
    message: str


@dataclass(frozen=True)
class Tree:
    """What clang knows of a file."""

    path: str
    declarations: list[Node]
    errors: list[Diagnostic]  # of the file itself


_OPTIONS = (
    *("-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_70", "-std=c++20", "-nocudainc"),
    *("-nocudalib", "-nostdinc", "-nostdinc++", "-ferror-limit=0", "-fno-caret-diagnostics"),
    *("-Wno-everything", "-fsyntax-only", "-Xclang", "-ast-dump=json"),
)
_ERROR = re.compile(r"^(.*?):(\d+):(\d+): (?:fatal )?error: (.*)$", re.M)
_UNDECLARED = re.compile(r"^use of undeclared identifier '\w+'$|^no matching function for call to ")
_UNKNOWN = re.compile(r"error: unknown type name '(\w+)'(?!; did you mean)")
_MISSING = re.compile(r"^(.*?):(\d+):\d+: fatal error: '([\w./-]+)' file not found$", re.M)


_LONGEST = 50  # characters of a file in a message


def parse(path: Path, instances: Sequence[str] = ()) -> Tree:
    """Parse a file, with instances of its templates, such as `reduce<256>`."""
    file = path.absolute()
    with tempfile.TemporaryDirectory() as folder:
        stubs = Path(folder)
        for header in HEADERS:
            _stub(stubs / header)
        (stubs / "helper_math.h").write_text(helper_math())
        prelude, main = stubs / PRELUDE, stubs / "iris_main.cu"
        known = TEXT + FUNCTIONS
        prelude.write_text(known)
        used = "".join([f"auto* iris_{i} = &{name};\n" for i, name in enumerate(instances)])
        main.write_text(f'#include "{file}"\n{used}')
        around = ["-I", folder, "-I", str(file.parent), "-include", str(prelude), str(main)]
        run = _run([CLANG, *_OPTIONS, *around])
        # Of libraries a kernel may need nothing: what it needs is not declared then.
        while (missing := _library_header(run.stderr)) is not None:
            _stub(stubs / missing)
            run = _run([CLANG, *_OPTIONS, *around])
        # Of types that these would declare hosts have variables: a template that takes one launches
        # instances of kernels all the same.
        while types := set(_UNKNOWN.findall(run.stderr)):
            known += "".join([f"struct {name} {{}};\n" for name in sorted(types)])
            prelude.write_text(known)
            run = _run([CLANG, *_OPTIONS, *around])
    if not run.stdout:
        raise DeviceError(f"clang does not parse {path}: {run.stderr}")
    tree = json.loads(run.stdout, object_hook=_Places())
    errors = [
        Diagnostic(int(line), int(column) - 1, _explained(text))
        for name, line, column, text in _ERROR.findall(run.stderr)
        if name == str(file)
    ]
    return Tree(str(file), tree["inner"], errors)


def _explained(message: str) -> str:
    """What clang reports; it takes a function of CUDA that is not translated for a mistake."""
    if _UNDECLARED.search(message) is None:
        return message
    return f"{message}; if it is CUDA's, it is not translated"


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise DeviceError(f"CUDA files are parsed by {CLANG}: apt-get install clang-19") from None


def _stub(header: Path) -> None:
    header.parent.mkdir(parents=True, exist_ok=True)
    header.touch()


def _library_header(said: str) -> str | None:
    """The header that clang misses, if it is one in angle brackets."""
    missing = _MISSING.search(said)
    if missing is None or ".." in missing[3]:
        return None
    line = Path(missing[1]).read_text(encoding="utf-8", errors="replace").splitlines()
    return missing[3] if "<" in line[int(missing[2]) - 1] else None


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


def written(node: Node) -> str:
    """A node as its file writes it, shortened; by clang's name for it if no file does."""
    ends = [node.get("range", {}).get(end, {}) for end in ("begin", "end")]
    first, last = (one.get("expansionLoc", one) for one in ends)
    if not ("place" in first and "offset" in last and Path(first["place"].file).is_file()):
        return str(node["kind"])
    text = Path(first["place"].file).read_bytes()[first["offset"] : last["offset"] + last["tokLen"]]
    words = " ".join(text.decode(errors="replace").split())
    return f"`{words if len(words) <= _LONGEST else f'{words[:_LONGEST].rstrip()} ...'}`"


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
