"""A command of `iris`, whose module is imported only when it is used."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any


class Command(argparse.ArgumentParser):
    """The parser of a command.

    Its module has its manual, which is the docstring; `add_arguments`, and `run_command`, which is
    given what was parsed and may return an exit status.
    """

    def __init__(self, *, module: str, **options: Any):
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )
        self._module = module
        self._is_filled = False

    def filled(self) -> Command:
        """With what its module says that it is given and does."""
        if not self._is_filled:
            self._is_filled = True
            module = import_module(self._module)
            self.description = module.__doc__
            module.add_arguments(self)
            self.set_defaults(run=module.run_command)
        return self

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.filled()
        return super().parse_known_args(args, namespace)
