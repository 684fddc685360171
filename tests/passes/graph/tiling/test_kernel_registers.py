"""The registers that a schedule needs, before it is lowered."""

from __future__ import annotations

import re

from iris.compiler.compilation import entry_of
from iris.ir import graph
from iris.ir.text.parser import parse
from iris.passes.graph.tiling.emission_order import emission_order
from iris.passes.graph.tiling.kernel_registers import words_alive
from iris.passes.graph.tiling.kernel_schedule import KernelSchedule
from iris.passes.graph.tiling.tile_program import schedule_of
from iris.targets import DEFAULT

# The second reduction needs the first; only the first needs `%w`.  Each `view` is another name of
# elements.
KERNEL = """
func graph @f returns=[tensor<64x64xf32>](%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) {
  %y: tensor<64x64xf32> = graph.kernel @f schedule=[SCHEDULE] {
    %v: tensor<64x64xf32> = view %w
    %b: tensor<64x64xf32> = view %v
    %a: tensor<64x64xf32> = mul %x, %b
    %sum: tensor<64xf32> = graph.reduce sum [1] %a
    %column: tensor<64x1xf32> = graph.reshape %sum
    %sums: tensor<64x64xf32> = graph.broadcast %column
    %c: tensor<64x64xf32> = mul %x, %sums
    %most: tensor<64xf32> = graph.reduce maximum [1] %c
    %other: tensor<64x1xf32> = graph.reshape %most
    %others: tensor<64x64xf32> = graph.broadcast %other
    %d: tensor<64x64xf32> = sub %x, %others
    yield %d
  }
  return %y
}
"""


SCHEDULE = "i0: programs 64 of 64, i1: programs 64 of 64, r0: loop 64 of 64"


def schedule(view: str) -> KernelSchedule:
    """With views, or without any if there is none."""
    text = KERNEL.replace("SCHEDULE", SCHEDULE).replace("view", view)
    if not view:
        text = re.sub(r" +%[vb]: .*\n", "", text).replace("mul %x, %b", "mul %x, %w")
    (kernel,) = graph.launches_in(entry_of(parse(text)).body)
    return schedule_of(kernel.kernels[0])


def test_other_names_of_elements_are_not_held() -> None:
    """As many registers are alive where a view stands between an element and its users."""
    turned, plain = schedule("graph.transpose [0, 1]"), schedule("")
    assert words_alive(turned, DEFAULT) == words_alive(plain, DEFAULT)


def test_views_do_not_change_the_order() -> None:
    """What is loaded is loaded as late, whether its user has another name for it or not."""
    kinds = []
    for made in (schedule("graph.transpose [0, 1]"), schedule("")):
        elements = made.elements
        lanes = [made.lanes_along(axes) for axes in elements.dependencies.values()]
        exprs = list(elements.exprs.values())
        order = [exprs[n] for n in emission_order(elements, lanes) if n < len(exprs)]
        names = [getattr(getattr(e, "op", None), "name", type(e).__name__) for e in order]
        kinds.append([name for name in names if name != "Alias"])
    assert kinds[0] == kinds[1]
