"""Order the products of fragments so that neighbours share an operand."""

from __future__ import annotations

from dataclasses import dataclass

from iris.ir import metal
from iris.ir.core import Module
from iris.passes.pipeline import Pass


@dataclass(frozen=True)
class SerpentineFragments(Pass):
    """Compute the products of fragments row by row, every other row backwards.

        %c: regs<32xf32> = metal.mma %a, %b, %acc

    of 2 and 8 fragments, say, becomes

        %c: regs<32xf32> = metal.mma %a, %b, %acc, serpentine=true

    Each product has a fragment in common with the one before it: within a row that of `%a`, and
    from one row to the next that of `%b`.  Every fragment of the result is added to once, so no bit
    changes.

    The cost model sees nothing of this: it takes products in any order as equally fast, and no
    figures are published.  So it is for a launch to ask for, `serpentine=True`, and for the clock
    of a device to judge.
    """

    name = "serpentine-fragments"
    level = metal.MetalOp.level

    def run(self, module: Module) -> dict[str, int]:
        products = [op for op in module.walk() if isinstance(op, metal.Mma) and _turns(op)]
        for op in products:
            op.set_attribute("serpentine", True)
        return {"products": len(products)}


def _turns(op: metal.Mma) -> bool:
    """Whether a product has several rows, of a number of columns that can be counted backwards."""
    return op.rows > 1 and op.columns > 1 and op.columns.bit_count() == 1 and not op.tensors
