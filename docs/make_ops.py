"""Writes docs/ops.md, the list of all ops, from their declarations.

python docs/make_ops.py
"""

from __future__ import annotations

import inspect
from pathlib import Path

from iris.ir.core import OPS, Level, Op
from iris.ir.declare import REQUIRED, Access, Spec

FILE = Path(__file__).parent / "ops.md"
HEAD = """\
# All ops

Made from the declarations by `python docs/make_ops.py`. What stands in `[...]` may be left out;
`...` may stand any number of times. [The IR](ir.md) explains the form.
"""


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


def traits(op: type[Op]) -> str:
    named = {
        "commutative": op.commutative,
        "convergent": op.convergent,
        "terminator": op.terminator,
    }
    return ", ".join(name for name, holds in named.items() if holds)


def accesses(spec: Spec) -> str:
    touched = [(spec.fixed[i].name, access) for i, access in spec.touched]
    made = [(spec.results[i].name, access) for i, access in spec.made]
    return ", ".join(
        f"{' and '.join(f'{a.name}s'.lower() for a in Access if a in access)} {name}"
        for name, access in [*touched, *made]
    )


def entry(op: type[Op]) -> str:
    spec = op.spec
    types = [f"`{f.name}` is {f.constraint.what}" for f in spec.operands]
    types += [f"`{f.name}` is {f.kind.what}" for f in spec.attributes]
    facts = "; ".join(filter(None, [*types, traits(op), accesses(spec)]))
    text, _, example = inspect.cleandoc(op.__doc__ or "").partition("\n\n%")
    shown = f"\n```\n%{example}\n```\n" if example else ""
    return f"### `{form(spec)}`\n\n{text}\n{shown}\n{facts}.\n"


def reference() -> str:
    """The whole page."""
    parts = [HEAD]
    for level in (None, *Level):
        ops = [op for op in OPS.values() if op.level is level and op.__module__.startswith("iris.")]
        if ops:
            title = "Shared by all levels" if level is None else f"The {level.value} level"
            parts += [f"## {title}\n", *map(entry, ops)]
    return "\n".join(parts)


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
