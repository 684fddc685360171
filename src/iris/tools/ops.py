"""`iris ops`: list the ops and the rules for each.

    iris ops                          each op, with its first sentence
    iris ops tile.reduce              its form, its fields, what it touches
    iris ops --facets tile.reduce     also the rules for it: how it is run, folded, lowered, emitted

A rule is shown with the file and the line where it stands, and the base class that it is of, if the
op inherits it.  Ops of your own are there, too: `iris --import my_ops ops --facets mine.op`.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import iris
from iris.errors import SettingError
from iris.ir.core import FACETS, OPS, Level, Op
from iris.ir.declare import REQUIRED, Spec

# What registers rules; the testing kit does so where hypothesis is installed.
ROOMS = ("iris.compiler", "iris.interp.metal", "iris.codegen", "iris.testing.properties")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("op", nargs="?", help="the name of an op, such as tile.reduce")
    parser.add_argument("--facets", action="store_true", help="show the rules for the op")


def run_command(options: argparse.Namespace) -> None:
    if options.op is None:
        if options.facets:
            raise SettingError("--facets wants the name of an op, such as tile.reduce")
        print("\n".join(_list()))
        return
    op = OPS.get(options.op)
    if op is None:
        raise SettingError(f"there is no op {options.op}; `iris ops` lists all")
    print(describe(op))
    if options.facets:
        print("", *facets(op), sep="\n")


def _list() -> Iterator[str]:
    width = max(map(len, OPS))
    for level in (None, *Level):
        yield "any level" if level is None else f"{level.value} level"
        for op in of_level(level):
            first = inspect.cleandoc(op.__doc__ or "").partition("\n")[0]
            yield f"  {op.name:{width}}  {first}"


def of_level(level: Level | None) -> list[type[Op]]:
    """The ops of a level, or of none."""
    return [op for op in OPS.values() if op.level is level]


# What an op's declaration says.


def describe(op: type[Op]) -> str:
    """The form of an op, what it does with an example, what its fields are and what it touches."""
    return "\n\n".join([form(op.spec), inspect.cleandoc(op.__doc__ or ""), *_facts(op)])


def entry(op: type[Op]) -> str:
    """An op in docs/ops.md."""
    parts = [f"### `{form(op.spec)}`"]
    for paragraph in inspect.cleandoc(op.__doc__ or "").split("\n\n"):
        is_text = paragraph.startswith(("%", f"{op.name} ", f"{op.name}\n")) or paragraph == op.name
        parts.append(f"```\n{paragraph}\n```" if is_text else paragraph)
    return "\n\n".join([*parts, *_facts(op)]) + "\n"


def _facts(op: type[Op]) -> list[str]:
    """A paragraph, if there is anything to say."""
    types = [f"`{f.name}` is {f.constraint.what}" for f in op.spec.operands]
    types += [f"`{f.name}` is {f.kind.what}" for f in op.spec.attributes]
    facts = "; ".join(filter(None, [*types, _traits(op), _accesses(op.spec)]))
    return [f"{facts}."] if facts else []


def form(spec: Spec) -> str:
    """The text form of an op, with the names of its fields."""
    head = [spec.op_name, *(f"<{f.name}>" for f in spec.positional_attributes)]
    items = [f"%{f.name}" for f in spec.fixed]
    items += [f"[{f.name}=%{f.name}]" for f in spec.optionals]
    if len(spec.variadics) > 1:
        items += [f"{f.name}=[%{f.name}...]" for f in spec.variadics]
    elif not spec.feeds:
        items += [f"%{f.name}..." for f in spec.variadics]
    items += [f"[{f.name}=<{f.name}>]" for f in spec.named_attributes if f.default is not REQUIRED]
    text = " ".join([*head, ", ".join(items)]).rstrip()
    feeding = "(%argument: type = %initial...) " if spec.feeds else ""
    for region in spec.regions:
        keyword = f"{region.keyword} " if region.keyword else ""
        text += f" {keyword}{feeding}{{ ... }}"
    results = [f"%{f.name}" for f in spec.results] or (["%results..."] if spec.results_vary else [])
    return f"{', '.join(results)} = {text}" if results else text


def _traits(op: type[Op]) -> str:
    named = {
        "commutative": op.commutative,
        "convergent": op.convergent,
        "terminator": op.terminator,
    }
    return ", ".join(name for name, holds in named.items() if holds)


def _accesses(spec: Spec) -> str:
    touched = [(spec.fixed[i].name, access) for i, access in spec.touched]
    made = [(spec.results[i].name, access) for i, access in spec.made]
    return ", ".join(f"{access.text} {name}" for name, access in [*touched, *made])


# What the rooms know of it.


def facets(op: type[Op]) -> list[str]:
    """A line for each rule that applies to an op: what it is for, its name, where it stands."""
    for room in ROOMS:
        with suppress(ModuleNotFoundError):
            import_module(room)
    rows = []
    for facet in FACETS:
        rule = facet.get(op)
        if rule is None:
            continue
        name, place = _place(rule)
        base = facet.owner(op) or op
        inherited = f"  of {base.__module__}.{base.__qualname__}" if base is not op else ""
        rows.append((facet.what, name, f"{place}{inherited}"))
    whats, names = (max(len(row[i]) for row in rows) for i in (0, 1))
    return [f"{a:{whats}}  {b:{names}}  {c}".rstrip() for a, b, c in sorted(rows)]


def _place(rule: Any) -> tuple[str, str]:
    """The name of a rule, and its file and line.  A rule that is no function is shown itself."""
    function = inspect.unwrap(rule.func if isinstance(rule, partial) else rule)
    code = getattr(function, "__code__", None)
    if code is None:
        return getattr(function, "__name__", str(function)), ""
    path = Path(code.co_filename)
    root = Path(iris.__file__).parents[1]
    shown = path.relative_to(root) if path.is_relative_to(root) else path
    return code.co_name, f"{shown.as_posix()}:{code.co_firstlineno}"
