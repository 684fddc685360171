"""`iris dump`: run a script, and write the IR after each pass of all that it compiles.

    iris dump train.py                  into a folder for each specialisation, in iris-dump
    iris dump -o stages train.py        into folders in another one
    iris dump --what all train.py       also after the passes that changed nothing
    iris dump --what tile,msl train.py  only these levels
    iris dump train.py --steps 3        what follows the script's name is the script's
    IRIS_DEVICE=interp:metal iris dump train.py     down to Metal text, where there is no GPU

The first line of each file is the command that goes on from it to the same text of kernels; edit
the file, and run the command.  `manifest.json` in a folder lists all passes, with their times.
The same without a command: IRIS_DUMP=changed IRIS_DUMP_DIR=stages python train.py
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from iris import knobs
from iris.compiler.dumps import MANIFEST
from iris.errors import SettingError
from iris.tools.script import environment, run_script


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--what",
        default="changed",
        metavar="WHAT",
        help=f"changed, all, or some of {', '.join(knobs.LEVELS)} (default: %(default)s)",
    )
    parser.add_argument("-o", "--output", metavar="FOLDER", help="write here (default: iris-dump)")
    parser.add_argument("script", help="Python that launches kernels")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")


def run_command(options: argparse.Namespace) -> int:
    root = Path(options.output) if options.output else knobs.dump_dir()
    with environment({"IRIS_DUMP": options.what, "IRIS_DUMP_DIR": str(root)}):
        try:
            knobs.dump()
        except SettingError as error:
            raise SettingError(str(error).replace("IRIS_DUMP", "--what")) from None
        before = _manifests(root)
        try:
            run_script(options.script, options.arguments)
        finally:
            written = {f: n for f, n in _manifests(root).items() if before.get(f) != n}
            for line in _table([manifest.parent for manifest in written]):
                print(line, file=sys.stderr)
    if not written:
        print(f"{options.script} compiles nothing", file=sys.stderr)
    return 0 if written else 1


def _manifests(root: Path) -> dict[Path, int]:
    """The manifests there are, and when each was written, in that order."""
    times = {file: file.stat().st_mtime_ns for file in root.glob(f"*/{MANIFEST}")}
    return dict(sorted(times.items(), key=lambda item: item[1]))


def _table(folders: list[Path]) -> Iterator[str]:
    """A line for each folder: how many passes changed something, and how long all took."""
    width = max((len(str(folder)) for folder in folders), default=0)
    for folder in folders:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        _, *passes = manifest["stages"]
        changed = sum(stage["changed"] for stage in passes)
        seconds = sum(stage["seconds"] for stage in passes)
        failure = manifest["failure"]
        end = "" if failure is None else f"; then {failure.splitlines()[0]}"
        text = f"{changed} of {len(passes)} passes changed it, {seconds * 1e3:.0f} ms{end}"
        yield f"{folder!s:{width}}  {text}"
