"""Deciding who holds what: how many simdgroups, and which thread which element of every tile."""

from iris.passes.tile.layouts.assign import AssignLayouts
from iris.passes.tile.layouts.choose_simdgroups import ChooseSimdgroups

__all__ = ["AssignLayouts", "ChooseSimdgroups"]
