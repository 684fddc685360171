"""`iris diff`: what differs between two texts of IR, whatever their values are called.

    iris diff before.iris after.iris
    iris diff iris-dump/softmax-1f2e3d4c5b/00-input.iris iris-dump/softmax-1f2e3d4c5b/01-fold.iris
    iris opt --passes cse a.iris | iris diff a.iris -

Both are parsed.  Comments, spaces, source lines and the names and numbers of values are no
difference.  The exit status is 0 if there is none, and 1 if there is one.  On a terminal the words
that differ stand out.
"""

from __future__ import annotations

import argparse

from iris.errors import SettingError
from iris.ir import parse, to_text
from iris.ir.text.diff import diff
from iris.tools.colours import are_wanted, reversed_colours, show
from iris.tools.opt import read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", help="IR text; - is standard input")
    parser.add_argument("after", help="IR text; - is standard input")


def run_command(options: argparse.Namespace) -> int:
    if options.before == options.after == "-":
        raise SettingError("only one of the two can be standard input")
    before, after = (parse(read(file), file) for file in (options.before, options.after))
    if before == after:
        return 0
    texts = to_text(before), to_text(after)
    names = options.before, options.after
    mark = reversed_colours if are_wanted() else None
    show(diff(*texts, *names, by_name=False, mark=mark), "diff")
    return 1
