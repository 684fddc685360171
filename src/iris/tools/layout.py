"""`iris layout`: draw a layout as a table: the lane and register of each element.

    iris layout "linear<2x4, register=[(0,1)], lane=[(1,0), (0,2)], simdgroup=[]>"
    iris opt --passes assign-layouts kernel.iris | iris layout --value %acc
    iris layout --value %acc lowered.iris

A cell `T5:1` is register 1 of lane 5, `S2T5:1` that of simdgroup 2.
"""

from __future__ import annotations

import argparse

from iris.errors import SettingError
from iris.ir import parse
from iris.ir.layout.draw import draw
from iris.ir.layout.linear import LinearLayout
from iris.ir.text.cursor import Cursor
from iris.ir.text.types import read_linear
from iris.ir.types import Tile
from iris.tools.emit import functions
from iris.tools.opt import read
from iris.tools.stepper import Listing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "layout", nargs="?", default="-", help="its text; with --value, a file (default: stdin)"
    )
    parser.add_argument("--value", metavar="VALUE", help="draw the layout of a value in IR text")


def run_command(options: argparse.Namespace) -> None:
    if options.value is not None:
        print(draw(_of_value(options.layout, options.value.lstrip("%"))))
        return
    cursor = Cursor(read("-") if options.layout == "-" else options.layout, "<layout>")
    layout = read_linear(cursor)
    if cursor.kind != "end":
        cursor.fail("the end of the layout")
    print(draw(layout))


def _of_value(file: str, name: str) -> LinearLayout:
    laid_out: dict[str, LinearLayout] = {}
    for function in functions(parse(read(file), file)):
        for known, value in Listing(function).values.items():
            if isinstance(value.type, Tile) and value.type.layout is not None:
                laid_out.setdefault(known, value.type.layout)
    if name not in laid_out:
        there = ", ".join(f"%{known}" for known in laid_out)
        why = f"those that have are {there}" if there else "none has: run assign-layouts first"
        raise SettingError(f"no value %{name} has a layout; {why}")
    return laid_out[name]
