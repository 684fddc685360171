"""A graph and its kernels as a picture: which box stands in which row, and what leads to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from iris.ir.control import Func
from iris.ir.core import Op, Value
from iris.ir.graph import Broadcast, Reshape, Slice, Transpose, launches_in, storage_root
from iris.ir.math import Constant
from iris.viewer.listing import Listing

Data = dict[str, Any]

MOST_OPS = 6  # kinds of op that a box names


def picture(function: Func, text: Listing) -> Data:
    """A box for each launch, in rows, and the tensors that one launch hands on to another.

    A box stands below all that it reads from.  It lists the arguments that it reads.
    """
    boxes: list[Data] = []
    made_by: dict[Value, int] = {}
    edges: list[Data] = []

    def reads(values: Sequence[Value]) -> Data:
        """What a new box reads, and the row that it stands in."""
        arguments, row = [], 0
        for value in dict.fromkeys(map(storage_root, values)):
            label = f"{text.names[value]}: {value.type}"
            if value in made_by:
                edges.append({"from": made_by[value], "to": len(boxes), "label": label})
                row = max(row, boxes[made_by[value]]["row"] + 1)
            else:
                arguments.append(label)
        return {"reads": arguments, "row": row}

    for launch in launches_in(function.body):
        box = reads(launch.inputs)
        for result in launch.results:
            made_by[result] = len(boxes)
        boxes.append(
            {"name": launch.symbol, "ops": _ops(launch), "line": text.line_of[launch]} | box
        )
    boxes.append({"name": "returns", "ops": [], "line": None} | reads(function.body.end.operands))
    return {"boxes": boxes, "edges": edges}


def _ops(launch: Op) -> list[str]:
    """What a launch computes: its kinds of op, the most frequent first."""
    kinds = Counter([op.name.removeprefix("graph.") for op in launch.walk() if _computes(op)])
    named = [f"{n} {name}" if n > 1 else name for name, n in kinds.most_common(MOST_OPS)]
    more = len(kinds) - MOST_OPS
    return [*named, f"{more} more"] if more > 0 else named


_VIEWS = (Broadcast, Reshape, Slice, Transpose)


def _computes(op: Op) -> bool:
    return not (op.regions or op.terminator or isinstance(op, (*_VIEWS, Constant)))
