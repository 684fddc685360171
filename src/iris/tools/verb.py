"""What the commands of `iris` share: how one is declared."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeAlias

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_verb(
    verbs: Verbs, name: str, what: str, doc: str | None, run: Callable[[argparse.Namespace], object]
) -> argparse.ArgumentParser:
    """The parser of a command, whose help is what its module says."""
    parser = verbs.add_parser(
        name,
        help=what,
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser
