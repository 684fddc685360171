"""Writes docs/commands.md, the manual of the `iris` command, from what it says of itself.

python docs/make_commands.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from iris.tools.cli import DESCRIPTION, parsers

FILE = Path(__file__).parent / "commands.md"
HEAD = """\
# The `iris` command

Made from the commands by `python docs/make_commands.py`; `iris COMMAND --help` says the same.
"""


def manual() -> str:
    """The whole page."""
    parser, commands = parsers()
    parts = [HEAD, _body(DESCRIPTION), *_options(parser)]
    for name, command in commands.items():
        command.filled()
        title, _, body = (command.description or "").partition("\n")
        what = title.partition(": ")[2]
        parts += [f"## `iris {name}`\n", what[:1].upper() + what[1:] + "\n"]
        parts += [_body(body), *_options(command)]
    return "\n".join(part for part in parts if part)


def _body(text: str) -> str:
    """Markdown of paragraphs; indented ones become code."""
    return text.replace("%%", "%").strip("\n") + "\n" if text.strip() else ""


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    rows = [
        f"| `{_form(action)}` | {_what(action)} |"
        for action in parser._actions
        if action.dest != "help" and not isinstance(action, argparse._SubParsersAction)
    ]
    if rows:
        yield "\n".join(["| | |", "|---|---|", *rows, ""])


def _form(action: argparse.Action) -> str:
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
    value = action.metavar or choices or action.dest.upper()
    if not action.option_strings:
        return str(action.metavar or choices or action.dest)
    options = ", ".join(action.option_strings)
    return options if action.nargs == 0 else f"{options} {value}"


def _what(action: argparse.Action) -> str:
    """The help of an option, with its default."""
    return ((action.help or "") % vars(action)).replace("|", "\\|")


if __name__ == "__main__":
    FILE.write_text(manual(), encoding="utf-8")
