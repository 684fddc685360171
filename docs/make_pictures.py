"""Writes docs/pictures/*.svg from the pipelines, the ops, the table of rooms and measurements.

python docs/make_pictures.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from html import escape
from importlib import import_module
from itertools import chain
from pathlib import Path
from statistics import mean
from textwrap import wrap

from iris.compiler.pipelines import GRAPH_PIPELINE, METAL_PIPELINE
from iris.ir.core import OPS, Level
from make_devices import AS_FAST, PEERS, SLOW, kept, rates

FOLDER = Path(__file__).parent / "pictures"
TESTS = Path(__file__).parent.parent / "tests"
ACROSS, DOWN = 7.3, 16  # the advance of a character and of a line, in pixels
INTO_TILE, INTO_METAL = "graph-to-tile", "lower-to-metal"


class Picture:
    """An SVG of boxes, text and arrows."""

    def __init__(self, width: int, height: int):
        self.width, self.height = width, height
        self.parts: list[str] = []

    def text(self, x: float, y: float, lines: Iterable[str], style: str = "") -> None:
        """Write lines, the first one at (x, y)."""
        for i, line in enumerate(lines):
            place = f'x="{x:g}" y="{y + i * DOWN:g}"'
            self.parts.append(f'<text {place} class="{style}">{escape(line)}</text>')

    def box(self, x: float, y: float, width: float, lines: list[str], style: str) -> float:
        """Draw a box with a title and lines of text; return its height."""
        height = DOWN * len(lines) + 14
        self.rectangle(x, y, width, height, style, rounded=6)
        self.text(x + width / 2, y + 19, lines[:1], "title")
        self.text(x + width / 2, y + 19 + DOWN, lines[1:], "middle")
        return height

    def rectangle(
        self, x: float, y: float, width: float, height: float, style: str, *, rounded: float = 0
    ) -> None:
        """Draw a rectangle."""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{rounded:g}"'
        self.parts.append(f'<rect {place} class="{style}"/>')

    def line(self, x: float, y: float, to_x: float) -> None:
        """Draw a level arrow."""
        self.parts.append(f'<path d="M{x:g} {y:g}H{to_x:g}" marker-end="url(#head)"/>')

    def arrow(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """Draw an arrow that leaves and arrives vertically."""
        bend = (to_y - y) / 2
        curve = f"M{x:g} {y:g}C{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}"
        self.parts.append(f'<path d="{curve}" marker-end="url(#head)"/>')

    def upright(self, x: float, y: float, to_y: float) -> None:
        """Draw an upright line."""
        self.parts.append(f'<path d="M{x:g} {y:g}V{to_y:g}"/>')

    def __str__(self) -> str:
        size = f'width="{self.width}" height="{self.height}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
                "<style>",
                "text { font: 12px monospace; fill: #222 }",
                ".title { font-weight: bold; text-anchor: middle }",
                ".middle { text-anchor: middle }",
                "rect { stroke: #667; fill: #fff } .level { fill: #dde9fb }",
                ".source { fill: #fdf1d6 } .checked { fill: #e3f4e1 }",
                "path { stroke: #889; fill: none } marker path { fill: #889 }",
                "</style>",
                '<marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4"'
                ' orient="auto"><path d="M0 1L7 4L0 7Z"/></marker>',
                f'<rect {size} style="stroke: none"/>',
                *self.parts,
                "</svg>\n",
            ]
        )


def passes_by_level() -> dict[Level, list[str]]:
    """The passes that run at each level, the lowering to the next one last."""
    names = [p.name for p in METAL_PIPELINE]
    cut = names.index(INTO_METAL) + 1
    return {
        Level.GRAPH: [*[p.name for p in GRAPH_PIPELINE], INTO_TILE],
        Level.TILE: names[:cut],
        Level.METAL: names[cut:],
    }


def levels() -> str:
    """The levels of IR, the passes between them, and what runs each level."""
    picture = Picture(800, 0)
    left, width, right = 230, 150, 640
    passes = passes_by_level()
    sources = {
        Level.GRAPH: "@iris.jit",
        Level.TILE: "@iris.kernel",
        Level.METAL: "@metal.kernel",
    }
    held = {
        Level.GRAPH: "whole arrays",
        Level.TILE: "one program",
        Level.METAL: "one thread",
    }
    y = 20.0
    for level in Level:
        ops = [op for op in OPS.values() if op.__module__.startswith("iris.")]
        count = sum(op.level is level for op in ops)
        title = [f"{level.value.capitalize()} IR", held[level], f"{count} ops"]
        if level in sources:
            picture.box(20, y + 8, 130, [sources[level], "Python"], "source")
            picture.line(150, y + 31, left)
        height = picture.box(left, y, width, title, "level")
        picture.box(right, y + 8, 140, ["interpreter", "iris.interp"], "checked")
        picture.line(left + width, y + 31, right)
        lines = wrap(" ".join(passes[level]), 44, break_on_hyphens=False)
        bottom = y + height + DOWN * len(lines) + 22
        picture.arrow(left + width / 2, y + height, left + width / 2, bottom)
        picture.text(left + width / 2 + 16, y + height + 22, lines)
        y = bottom
    picture.box(left, y, width, ["Metal or CUDA text", "iris.codegen"], "level")
    picture.box(right, y, 140, ["devices", "metal, softmetal,", "cuda"], "checked")
    picture.line(left + width, y + 23, right)
    picture.height = round(y) + 82
    return str(picture)


def rooms() -> str:
    """The rooms of src/iris, each above those that it imports."""
    table = rooms_table()
    direct = {
        room: sorted(others - set(chain.from_iterable(table[other] for other in others)))
        for room, others in table.items()
    }
    ranks = ranked(table)
    width, step = 760, 78
    picture = Picture(width, step * (max(ranks.values()) + 1) + 10)
    places: dict[str, tuple[float, float]] = {}
    for rank in range(max(ranks.values()) + 1):
        row = [room for room in table if ranks[room] == rank]
        if rank:
            row.sort(key=lambda room: mean(places[other][0] for other in direct[room]))
        for i, room in enumerate(row):
            places[room] = (width * (i + 0.5) / len(row), picture.height - step * (rank + 1) + 10)
    for room, others in direct.items():
        for other in others:
            (x, y), (to_x, to_y) = places[room], places[other]
            picture.arrow(x, y + 30, to_x, to_y)
    for room, (x, y) in places.items():
        size = ACROSS * len(room) + 24
        picture.box(x - size / 2, y, size, [room], "level")
    return str(picture)


def rooms_table() -> dict[str, set[str]]:
    """What each room may import, from the test that holds the rooms to it.

    `testing` and `tools` may import each other and are one box.
    """
    sys.path.append(str(TESTS))
    allowed: dict[str, set[str]] = import_module("test_imports").MAY_IMPORT
    sys.path.remove(str(TESTS))
    both = {"testing", "tools"}
    table = {room: others - {room} for room, others in allowed.items() if room not in both}
    return {**table, "testing, tools": allowed["tools"] - both}


def ranked(table: Mapping[str, set[str]]) -> dict[str, int]:
    """Count the rooms on the longest chain of imports below each room."""
    ranks: dict[str, int] = {}

    def rank(room: str) -> int:
        if room not in ranks:
            ranks[room] = 1 + max(map(rank, table[room]), default=-1)
        return ranks[room]

    for room in table:
        rank(room)
    return ranks


def of_best() -> str:
    """How fast each function of arrays is on a GPU: a bar for each size, of the best peer."""
    picture = Picture(760, 0)
    left, right = 310, 690  # of the bars
    most = max(rate.of_best for sizes in rates().values() for rate in sizes)
    whole = (right - left) / max(1, most)
    *others, last = PEERS.values()
    title = (
        f"Iris on one {kept('gpu')[0]['gpu']}: speed, of the best of {', '.join(others)} and {last}"
    )
    picture.text(picture.width / 2, 24, [title], "title")
    kinds = {
        "checked": f"{AS_FAST} or more",
        "level": f"{SLOW} or more",
        "source": f"under {SLOW}",
    }
    for i, (style, what) in enumerate(kinds.items()):
        picture.rectangle(left + 130 * i, 38, 12, 12, style)
        picture.text(left + 130 * i + 18, 48, [what])
    top = y = 66
    for function, sizes in rates().items():
        picture.text(20, y + 11, [function])
        for rate in sizes:
            style = "checked" if rate.of_best >= AS_FAST else "level"
            style = "source" if rate.of_best < SLOW else style
            picture.text(left - ACROSS * len(rate.size) - 8, y + 11, [rate.size])
            picture.rectangle(left, y + 1, whole * rate.of_best, 12, style)
            picture.text(right + 12, y + 11, [f"{rate.of_best:.3f}"])
            y += DOWN
        y += 8
    picture.upright(left + whole, top - 6, y - 4)
    picture.height = y + 8
    return str(picture)


def pictures() -> dict[str, str]:
    """The text of each picture, by the name of its file."""
    return {"levels.svg": levels(), "rooms.svg": rooms(), "of-best.svg": of_best()}


if __name__ == "__main__":
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
