"""`iris completion`: print what makes a shell complete the words of this command.

iris completion bash >> ~/.bashrc
iris completion zsh >> ~/.zshrc
iris completion fish > ~/.config/fish/completions/iris.fish
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from shlex import quote

from iris.tools.cli import parsers

# A word of the command line, and what may follow it there.
Words = dict[str, list[tuple[str, str]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS)


def run_command(options: argparse.Namespace) -> None:
    print(SHELLS[options.shell](words()))


def words() -> Words:
    """The options and choices of each command, with what they are for."""
    _, commands = parsers()
    return {name: list(_of(command.filled())) for name, command in sorted(commands.items())}


def _of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        what = (action.help or "").partition(" (")[0].replace("%%", "%")
        for option in action.option_strings:
            if option.startswith("--"):
                yield option, what
        if not action.option_strings and action.choices:
            yield from ((str(choice), what) for choice in action.choices)


def bash(known: Words) -> str:
    cases = "\n".join(
        f"    {name}) words={quote(' '.join(word for word, _ in found))} ;;"
        for name, found in known.items()
    )
    return f"""\
_iris() {{
  local words word=${{COMP_WORDS[COMP_CWORD]}}
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  [ "$COMP_CWORD" = 1 ] && words={quote(" ".join(known))}
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [ "$COMP_CWORD" = 1 ] || COMPREPLY+=($(compgen -f -- "$word"))
}}
complete -o filenames -F _iris iris"""


def zsh(known: Words) -> str:
    return f"autoload -Uz compinit bashcompinit && compinit && bashcompinit\n{bash(known)}"


def fish(known: Words) -> str:
    lines = ["complete -c iris -n __fish_use_subcommand -f"]
    for name, found in known.items():
        lines.append(f"complete -c iris -n __fish_use_subcommand -f -a {name}")
        for word, what in found:
            given = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            seen = quote(f"__fish_seen_subcommand_from {name}")
            lines.append(f"complete -c iris -n {seen} {given} -d {quote(what)}")
    return "\n".join(lines)


SHELLS: dict[str, Callable[[Words], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
