"""The `iris` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from iris import __version__
from iris.errors import IrisError, SettingError
from iris.tools.command import Command

DESCRIPTION = """\
Read, check, transform and run Iris IR.

    iris COMMAND --help             what a command does, with examples
    iris opt kernel.iris            a file of IR, parsed, verified and printed
    iris dump train.py              the IR of a script's kernels after each pass

Files may be - for standard input.  The exit status is 0, 1 for an error or what a command finds
wrong, and 2 for wrong usage.
"""
#: What each does, in the order in which --help lists them; the rest is in `iris.tools.NAME`.
COMMANDS = {
    "opt": "run passes on IR text",
    "emit": "print the kernel text of IR text",
    "run": "launch IR text in an interpreter",
    "step": "run IR text op by op, as a debugger does",
    "check": "parse and verify IR text",
    "diff": "compare two texts of IR",
    "dump": "run a script, and write the IR after each pass",
    "view": "show in a browser what kernels are compiled to",
    "explain": "say in sentences what became of kernels",
    "top": "watch what a script launches, while it runs",
    "tune": "compare the configurations of the tuned kernels of a script",
    "bisect": "find the pass that changes what a program does",
    "fuzz": "look for random programs that something is wrong with",
    "test": "run file tests of passes",
    "passes": "list the passes",
    "ops": "list the ops and the rules for each",
    "layout": "draw a layout",
    "devices": "list the devices",
    "softmetal": "build the software Metal device",
    "doctor": "say what there is on this machine, and whether it works",
    "cache": "say what compiled kernels are kept, or remove them",
    "completion": "print what completes it in a shell",
}


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


def parsers() -> tuple[argparse.ArgumentParser, dict[str, Command]]:
    """The parser of the command line, and the parsers of the commands by name."""
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
    verbs = parser.add_subparsers(metavar="command", required=True, parser_class=Command)
    commands = {
        name: verbs.add_parser(name, help=what, module=f"iris.tools.{name}")
        for name, what in COMMANDS.items()
    }
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
