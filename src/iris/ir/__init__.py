"""The IR: types, values, ops and regions, their text, their verifier, their layouts."""

from iris.ir import control, graph, math, metal, tile
from iris.ir.core import Facet, Level, Location, Module, Op, Region, Value
from iris.ir.text.parser import parse
from iris.ir.text.printer import to_text
from iris.ir.verify import verify

__all__ = [
    "Facet",
    "Level",
    "Location",
    "Module",
    "Op",
    "Region",
    "Value",
    "control",
    "graph",
    "math",
    "metal",
    "parse",
    "tile",
    "to_text",
    "verify",
]
