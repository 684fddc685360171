"""`iris check`: parse and verify IR text, and report its mistakes.

    iris check kernel.iris                  says nothing if all is well
    iris check *.iris                       each file by itself
    iris check --json kernel.iris           its mistakes as JSON, for an editor

With --json a list is printed, with an object for each mistake: its file, line and column, the
column after its last character, and message.  Lines and columns count from 1.  The exit status is 1
if there is a mistake.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any

from iris.errors import ParseError, VerifyError
from iris.ir import parse, verify
from iris.ir.text.cursor import token_at
from iris.tools.opt import read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="*", default=["-"], metavar="file", help="IR text (default: standard input)"
    )
    parser.add_argument("--json", action="store_true", help="print the mistakes as JSON")


def run_command(options: argparse.Namespace) -> int:
    mistakes: list[dict[str, Any]] = []
    for file in options.files:
        text = read(file)
        try:
            verify(parse(text, file))
        except (ParseError, VerifyError) as error:
            mistakes.append(_mistake(file, text, error))
            if not options.json:
                print(f"{file}: {error}", file=sys.stderr)
    if options.json:
        print(json.dumps(mistakes, indent=1))
    return 1 if mistakes else 0


def _mistake(file: str, text: str, error: ParseError | VerifyError) -> dict[str, Any]:
    if isinstance(error, ParseError):
        line, start = error.spot.line, error.spot.column - 1
        end = start + len(token_at(error.spot.source, start))
    else:
        line = _line_at_fault(file, text)
        shown = text.splitlines()[line - 1]
        start, end = len(shown) - len(shown.lstrip()), len(shown.rstrip())
    where = {"file": file, "line": line, "column": start + 1, "end_column": end + 1}
    return {**where, "message": error.message}


def _line_at_fault(file: str, text: str) -> int:
    """The line of the text with the op that the verifier refuses; 1 if it refuses the whole."""
    # Without what the text says of other files, ops are from its own lines.
    try:
        verify(parse(_PLACE.sub("", text), file))
    except VerifyError as error:
        if error.location is not None:
            return error.location[1]
    return 1


_PLACE = re.compile(r' at "(?:[^"\\\n]|\\.)*":\d+[ \t]*(?=#|$)', re.MULTILINE)
