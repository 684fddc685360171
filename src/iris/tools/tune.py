"""`iris tune`: compare the configurations of every tuned kernel that a script launches.

    iris tune train.py                  as the script launches them, on its device
    iris tune train.py --steps 3        what follows the script's name is the script's
    IRIS_DEVICE=metal iris tune train.py

Choices that were kept are made anew, and kept for later runs of the script.  A table for each
kernel and size says what every configuration costs, and why those that are faster than the chosen
one were not taken.
"""

from __future__ import annotations

import argparse

from iris.compiler.candidates import watched
from iris.tools.script import run_script


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script", help="Python that launches kernels")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")


def run_command(options: argparse.Namespace) -> int:
    """Run the script, and print how the candidates of its launches compare."""
    with watched() as reports:
        run_script(options.script, options.arguments)
    for report in reports:
        print(report)
    if not reports:
        print(f"{options.script} launches no kernel with iris.autotune")
    return 0 if reports else 1
