"""`iris test`: run file tests of passes: IR before and after a command, in one file.

    iris test cse.iris                          each case of a file
    iris test tests                             of all files below a folder
    iris test --bless tests                     write what comes out below each `# becomes`
    iris --import my_passes test tests          with passes of your own

A file says what runs, then has IR, a line `# becomes`, and what comes out: IR, or a message.  A
line `# ---` starts another case.  A difference is printed, and the exit status is then 1.

    # run: iris opt --passes cse

    # Two equal ops become one.
    func tile @twice(%Y: ptr<i32>) {
      ...
    }

    # becomes
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from iris.errors import FileError
from iris.tools.cli import main
from iris.tools.ir_cases import cases, text_of
from iris.tools.opt import read, write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bless", action="store_true", help="write into the files what comes out")
    parser.add_argument("paths", nargs="+", metavar="path", help="a file, or a folder of files")


def run_command(options: argparse.Namespace) -> int:
    if options.bless and "-" in options.paths:
        raise FileError("--bless writes into files, and standard input is none")
    differs = count = 0
    for file in [file for path in options.paths for file in _files(path)]:
        text = read(file)
        try:
            found = cases(text)
        except FileError as error:
            raise FileError(f"{file}: {error}") from None
        made = [replace(case, after=case.made(main)) for case in found]
        count += len(found)
        different = [(old, new) for old, new in zip(found, made, strict=True) if old != new]
        differs += len(different)
        if not options.bless:
            for old, new in different:
                print(f"{file}: {old.title}", *_diff(old.after, new.after), "", sep="\n")
        elif text_of(made) != text:
            write(file, text_of(made))
    what = "written" if options.bless else "different"
    print(f"{differs} of {count} cases are {what}", file=sys.stderr)
    return 1 if differs and not options.bless else 0


def _files(path: str) -> list[str]:
    """A file, or the files of IR below a folder."""
    if not Path(path).is_dir():
        return [path]
    found = sorted(map(str, Path(path).rglob("*.iris")))
    if not found:
        raise FileError(f"{path} has no files that end in .iris")
    return found


def _diff(expected: str, found: str) -> Iterator[str]:
    lines = expected.splitlines(), found.splitlines()
    return difflib.unified_diff(*lines, "expected", "found", lineterm="")
