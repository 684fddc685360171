"""`iris softmetal`: the software Metal device.

iris softmetal build     build its library now, rather than when it is first used; print its path
"""

from __future__ import annotations

import argparse

from iris.errors import SettingError
from iris.tools.verb import Verbs, add_verb


def add_command(verbs: Verbs) -> None:
    parser = add_verb(verbs, "softmetal", "build the software Metal device", __doc__, run_command)
    parser.add_argument("what", choices=["build"])


def run_command(options: argparse.Namespace) -> None:
    from iris.runtime.softmetal import Softmetal
    from iris.softmetal import build

    why = Softmetal.missing()
    if why is not None:
        raise SettingError(f"softmetal cannot be built here: {why}")
    print(build.library())
