"""`iris devices`: the devices that kernels run on, and why some are not here.

iris devices
IRIS_DEVICE=interp:metal python train.py        runs a script on one of them
"""

from __future__ import annotations

import argparse

from iris.runtime.devices import devices


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run_command(options: argparse.Namespace) -> None:
    for presence in devices():
        print(presence)
