"""`iris softmetal`: the software Metal device.

iris softmetal build     build its library now, rather than when it is first used; print its path
"""

from __future__ import annotations

import argparse

from iris.errors import SettingError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["build"])


def run_command(options: argparse.Namespace) -> None:
    from iris.runtime.softmetal import Softmetal
    from iris.softmetal import build

    why = Softmetal.missing()
    if why is not None:
        raise SettingError(f"softmetal cannot be built here: {why}")
    print(build.library())
