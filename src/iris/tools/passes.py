"""`iris passes`: list the passes, or say what one does.

iris passes                     each pass, the level that it works on, and its first sentence
iris passes licm                all that is said of one, with its options
iris passes --pipelines         the passes that lead to each level
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator

from iris.compiler.pipelines import GRAPH_PIPELINE, METAL_PIPELINE, TILE_PIPELINE
from iris.errors import SettingError
from iris.passes import PASSES, Pass
from iris.passes.pipeline import kebab

LINE = 100  # characters
PIPELINES = {"graph": GRAPH_PIPELINE, "tile": TILE_PIPELINE, "metal": METAL_PIPELINE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="of a pass, such as licm")
    parser.add_argument("--pipelines", action="store_true", help="list the pipelines")


def run_command(options: argparse.Namespace) -> None:
    if options.pipelines:
        for level, pipeline in PIPELINES.items():
            print(f"{level:6}  {pipeline}")
    elif options.name is None:
        print("\n".join(_list()))
    elif options.name in PASSES:
        print(describe(PASSES[options.name]))
    else:
        raise SettingError(f"there is no pass {options.name}; `iris passes` lists all")


def _list() -> Iterator[str]:
    """What each pass is for, and the level that it works on."""
    width = max(map(len, PASSES))
    for name, cls in sorted(PASSES.items()):
        text = " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())
        head = f"{name:{width}}  {level_word(cls):5}  "
        yield from textwrap.wrap(
            text,
            LINE,
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_on_hyphens=False,
        )


def describe(cls: type[Pass]) -> str:
    """All that is said of a pass."""
    parts = [f"{cls.name}: {level_word(cls)} level", inspect.getdoc(cls) or ""]
    options = [f"  {kebab(f.name)}={default_text(f)}  ({f.type})" for f in dataclasses.fields(cls)]
    if options:
        parts.append("\n".join(["Options, as in " + _example(cls), *options]))
    return "\n\n".join(parts)


def level_word(cls: type[Pass]) -> str:
    return "any" if cls.level is None else cls.level.value


def default_text(field: dataclasses.Field[object]) -> str:
    default = field.default
    if default is dataclasses.MISSING:
        return "..."
    return str(getattr(default, "name", default)).lower()


def _example(cls: type[Pass]) -> str:
    first = dataclasses.fields(cls)[0]
    return f"{cls.name}{{{kebab(first.name)}={default_text(first)}}}:"
