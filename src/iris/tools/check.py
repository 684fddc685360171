"""`iris check`: parse and verify IR text, and report its mistakes.

    iris check kernel.iris                  says nothing if all is well
    iris check *.iris                       each file by itself
    iris check --json kernel.iris           its mistakes as JSON, for an editor

With --json a list is printed, with an object for each mistake: file, line and column, from 1 on,
and message.  The exit status is 1 if there is a mistake.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from iris.errors import FileError, IrisError, ParseError
from iris.ir import parse, verify
from iris.tools.opt import read
from iris.tools.verb import Verbs, add_verb


def add_command(verbs: Verbs) -> None:
    parser = add_verb(verbs, "check", "parse and verify IR text", __doc__, run_command)
    parser.add_argument(
        "files", nargs="*", default=["-"], metavar="file", help="IR text (default: standard input)"
    )
    parser.add_argument("--json", action="store_true", help="print the mistakes as JSON")


def run_command(options: argparse.Namespace) -> int:
    mistakes: list[dict[str, Any]] = []
    for file in options.files:
        try:
            verify(parse(read(file), file))
        except FileError:
            raise
        except IrisError as error:
            mistakes.append(_mistake(file, error))
            if not options.json:
                print(f"{file}: {error}", file=sys.stderr)
    if options.json:
        print(json.dumps(mistakes, indent=1))
    return 1 if mistakes else 0


def _mistake(file: str, error: IrisError) -> dict[str, Any]:
    spot = error.spot if isinstance(error, ParseError) else None
    message = error.message if isinstance(error, ParseError) else str(error)
    line, column = (spot.line, spot.column) if spot is not None else (1, 1)
    return {"file": file, "line": line, "column": column, "message": message}
