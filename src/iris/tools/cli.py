"""The `iris` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from iris import __version__
from iris.errors import IrisError, SettingError
from iris.tools import bisect, doctor, emit, fuzz, ops, opt, run, softmetal, tune, view


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 0, 1 for an error of Iris or what a command finds wrong, 2
    for wrong usage."""
    parser = argparse.ArgumentParser(
        prog="iris", description="Read, check, transform and run Iris IR.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"iris {__version__}")
    parser.add_argument(
        "--import",
        dest="modules",
        action="append",
        default=[],
        metavar="MODULE",
        help="import this first, as it has passes of your own; may be given again",
    )
    commands = parser.add_subparsers(metavar="command", required=True)
    opt.add_command(commands)
    ops.add_command(commands)
    run.add_command(commands)
    bisect.add_command(commands)
    fuzz.add_command(commands)
    emit.add_command(commands)
    tune.add_command(commands)
    view.add_command(commands)
    softmetal.add_command(commands)
    doctor.add_command(commands)
    options = parser.parse_args(arguments)
    try:
        import_all(options.modules)
        found: int | None = options.run(options)
        return found or 0
    except IrisError as error:
        print(f"iris: error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        sys.stderr.close()
        return 1


def import_all(modules: Sequence[str]) -> None:
    """Import modules, also from the current folder."""
    if modules and "" not in sys.path:
        sys.path.insert(0, "")
    for module in modules:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            raise SettingError(f"--import {module}: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
