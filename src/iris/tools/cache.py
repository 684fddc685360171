"""`iris cache`: compiled kernels and choices that are kept for the next process.

    iris cache              how many there are, their size, and where
    iris cache list         each of them, the latest last
    iris cache clear        remove them: what is needed is compiled again

Other processes may go on meanwhile. The library of softmetal, in the same folder, stays.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from iris.runtime.cache import ROOMS, entries, folder_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", choices=["size", "list", "clear"], default="size")


def run_command(options: argparse.Namespace) -> None:
    for room in ROOMS:
        folder = folder_of(room)
        known = [*_known(folder)]
        if options.what == "list":
            for changed, size, path in sorted(known):
                when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(changed))
                print(f"{when} {size:>10} {room}/{path.name}")
        elif options.what == "clear":
            for _, _, path in known:
                path.unlink(missing_ok=True)
        total = sum(size for _, size, _ in known)
        said = "removed" if options.what == "clear" else "kept"
        print(f"{room:10} {said}: {len(known)} with {total / 1e6:.3f} MB in {folder}")


def _known(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """When each entry was written, its size, and its file."""
    for path in entries(folder):
        try:
            found = path.stat()
        except FileNotFoundError:
            continue  # another process has removed it
        yield found.st_mtime, found.st_size, path
