"""Choose the number of simdgroups, and the layout of every tile."""

from iris.passes.tile.layouts.assign import AssignLayouts
from iris.passes.tile.layouts.choose_simdgroups import ChooseSimdgroups

__all__ = ["AssignLayouts", "ChooseSimdgroups"]
