"""`iris devices`: the devices that kernels run on, and why some are not here.

iris devices
IRIS_DEVICE=interp:metal python train.py        runs a script on one of them
"""

from __future__ import annotations

import argparse

from iris.runtime.devices import devices
from iris.tools.verb import Verbs, add_verb


def add_command(verbs: Verbs) -> None:
    add_verb(verbs, "devices", "list the devices", __doc__, run_command)


def run_command(options: argparse.Namespace) -> None:
    for presence in devices():
        print(presence)
