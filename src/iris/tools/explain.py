"""`iris explain`: say in sentences what became of kernels, and what limits their speed.

    iris explain kernel.iris            what the kernel needs of a GPU, and what limits it
    iris explain graph.iris             what became one kernel, what did not and why
    iris explain train.py               each kernel and function of arrays that a script launches
    iris explain train.py --steps 3     what follows the script's name is the script's
    iris explain --target apple-m4 kernel.iris      on another GPU
    iris opt --passes fold kernel.iris | iris explain

A kernel from IR text is lowered for sizes of about 1000; what a script launches, for the sizes that
it is launched with.  `compilation.explain()` says the same in Python.
"""

from __future__ import annotations

import argparse

from iris.tools.opt import add_target, asked_for
from iris.tools.view import parts_of
from iris.viewer.explain import explained
from iris.viewer.sources import Sources


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        help="IR text (default: standard input), or a Python script that launches kernels",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")


def run_command(options: argparse.Namespace) -> None:
    parts = parts_of(options.file, options.arguments, asked_for(options), Sources())
    print("\n\n".join([f"@{part['name']}:\n{explained(part)}" for part in parts]))
