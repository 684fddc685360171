"""The `iris` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from iris import __version__
from iris.errors import IrisError, SettingError
from iris.tools import (
    bisect,
    cache,
    check,
    completion,
    devices,
    diff,
    doctor,
    dump,
    emit,
    explain,
    fuzz,
    layout,
    ops,
    opt,
    passes,
    run,
    softmetal,
    step,
    test,
    top,
    tune,
    view,
)
from iris.tools.verb import Verbs

DESCRIPTION = """\
Read, check, transform and run Iris IR.

    iris COMMAND --help             what a command does, with examples
    iris opt kernel.iris            a file of IR, parsed, verified and printed
    iris dump train.py              the IR of a script's kernels after each pass

Files may be - for standard input.  The exit status is 0, 1 for an error or what a command finds
wrong, and 2 for wrong usage.
"""
# In the order in which --help lists them.
COMMANDS = (
    opt, emit, run, step, check, diff, dump, view, explain, top, tune, bisect, fuzz, test, passes,
    ops, layout, devices, softmetal, doctor, cache, completion,
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 0, 1 for an error of Iris or what a command finds wrong, 2
    for wrong usage."""
    parser, _ = parsers()
    options = parser.parse_args(arguments)
    try:
        import_all(options.modules)
        found: int | None = options.run(options)
        return found or 0
    except IrisError as error:
        print(f"iris: error: {error}", file=sys.stderr)
        return 1
    except MemoryError as error:  # such as of a tensor that fits no memory
        print(f"iris: error: not enough memory: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        sys.stderr.close()
        return 1


def parsers() -> tuple[argparse.ArgumentParser, Verbs]:
    """The parser of the command line, and the parsers of the commands."""
    parser = argparse.ArgumentParser(
        prog="iris",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
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
    parser.set_defaults(main=main)  # for a command that runs others
    commands = parser.add_subparsers(metavar="command", required=True)
    for command in COMMANDS:
        command.add_command(commands)
    return parser, commands


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
