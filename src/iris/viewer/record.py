"""What a page shows of a compilation, as data: JSON, made of plain lists and dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import getdoc
from itertools import groupby, pairwise
from typing import Any, Protocol

from iris.codegen.source import Source
from iris.cost.estimate import Estimate
from iris.cost.sample import Sizes
from iris.ir.control import Func
from iris.ir.core import Level, Module, Value
from iris.passes.firings import Firing
from iris.passes.graph.tiling.fusion import Apart, Boundary
from iris.passes.pipeline import PASSES
from iris.targets import Target
from iris.viewer import machine
from iris.viewer.changes import Row, renamed, rows, size
from iris.viewer.explain import about_graph, about_kernel
from iris.viewer.listing import Listing, listing
from iris.viewer.picture import picture
from iris.viewer.sources import Sources

Data = dict[str, Any]


class Stage(Protocol):
    """The IR after a pass."""

    @property
    def name(self) -> str: ...
    @property
    def level(self) -> Level: ...
    @property
    def module(self) -> Module: ...
    @property
    def seconds(self) -> float: ...
    @property
    def changed(self) -> bool: ...
    @property
    def counts(self) -> Mapping[str, int]: ...
    @property
    def became(self) -> Mapping[Value, Value]: ...
    @property
    def firings(self) -> Sequence[Firing]: ...


def stages_data(stages: Sequence[Stage], listings: Sequence[Listing], sources: Sources) -> Data:
    """The stages, the different texts of them, and what leads from each text to the next."""
    texts: list[Data] = []
    steps: list[Data] = []
    items: list[Data] = []
    for number, (stage, text) in enumerate(zip(stages, listings, strict=True)):
        changed = 0
        if number == 0:
            texts.append(text_data(text, sources))
        elif stage.changed:
            texts.append(text_data(text, sources))
            before = listings[number - 1]
            paired = rows(before, text, stage.became)
            names = renamed(before, text, stage.became)
            changed = size(paired, before, text, names)
            steps.append({"rows": runs(paired), "names": names})
        items.append(
            {
                "name": stage.name,
                "level": stage.level.value,
                "ms": round(stage.seconds * 1e3, 3),
                "text": len(texts) - 1,
                "changed": stage.changed,
                "size": changed,
                "counts": {what: n for what, n in stage.counts.items() if n},
                "firings": stage.firings,
                "about": about(stage.name),
            }
        )
    return {"stages": items, "texts": texts, "steps": steps}


def text_data(text: Listing, sources: Sources) -> Data:
    """The lines of a text, and for each the number of the Python line that it comes from."""
    at = [sources.number(op.location) if op is not None else -1 for op in text.ops]
    return {"lines": text.lines, "at": at}


def runs(paired: Sequence[Row]) -> list[list[int]]:
    """Rows in short: first line before, first line after, and how many; -1 where there is none."""
    packed = []
    for _, group in groupby(enumerate(paired), key=_run_key):
        members = [row for _, row in group]
        i, j = members[0]
        packed.append([-1 if i is None else i, -1 if j is None else j, len(members)])
    return packed


def _run_key(item: tuple[int, Row]) -> tuple[int | None, int | None]:
    number, (i, j) = item
    return None if i is None else i - number, None if j is None else j - number


def about(name: str) -> str:
    """What a pass does, in the first line of its own words."""
    known = PASSES.get(name)
    return "" if known is None else (getdoc(known) or "").partition("\n\n")[0].replace("\n", " ")


def listings_of(stages: Sequence[Stage]) -> list[Listing]:
    """The text of each stage; one object for those that are equal."""
    made = [listing(stages[0].module)]
    for before, after in pairwise(stages):
        made.append(listing(after.module) if after.module is not before.module else made[-1])
    return made


def function_of(module: Module) -> Func:
    function = next(iter(module))
    assert isinstance(function, Func)
    return function


def kernel_data(
    name: str,
    stages: Sequence[Stage],
    text: Source,
    estimate: Estimate,
    sizes: Sizes,
    target: Target,
    sources: Sources,
) -> Data:
    """All that a page shows of a kernel."""
    listings = listings_of(stages)
    last, function = listings[-1], function_of(stages[-1].module)
    data = {"name": name, "kind": "kernel", **stages_data(stages, listings, sources)}
    laid_out = [n for n, stage in enumerate(stages) if stage.level is Level.TILE]
    number = laid_out[-1] if laid_out else -1
    tiles = listings[number]
    for item, stage in zip(data["stages"], stages, strict=True):
        if stage.level is Level.METAL and (stage.changed or stage is stages[-1]):
            item["counters"] = machine.counters(function_of(stage.module), sizes, target)
    data |= {
        "msl": msl_data(text, sources),
        "memory": machine.memory_map(function, last, target),
        "barriers": machine.barriers(function, last),
        "registers": machine.registers(function, last, target),
        "cost": machine.cost(estimate),
        "target": target.name,
        "layouts": machine.layouts(tiles),
        "staged": machine.staged(tiles, target),
    }
    data["sentences"] = about_kernel(data, stages[number].module, estimate, target)
    return data


def msl_data(source: Source, sources: Sources) -> Data:
    lines = source.text.splitlines()
    at = [sources.number(source.location(n)) for n in range(1, len(lines) + 1)]
    return {"lines": lines, "at": at}


def graph_data(
    name: str,
    stages: Sequence[Stage],
    why: Sequence[Boundary | Apart],
    sources: Sources,
) -> Data:
    """All that a page shows of a graph."""
    listings = listings_of(stages)
    function = function_of(stages[-1].module)
    return {
        "name": name,
        "kind": "graph",
        **stages_data(stages, listings, sources),
        "picture": picture(function, listings[-1]),
        "sentences": about_graph(function),
        "why": [str(reason) for reason in why if isinstance(reason, Boundary)],
        "apart": [str(reason) for reason in why if isinstance(reason, Apart)],
    }
