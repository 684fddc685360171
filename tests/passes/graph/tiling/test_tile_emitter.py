"""Kernels write what their graphs say, also along axes on which nothing depends."""

from __future__ import annotations

import pytest

from array_graphs import arguments_for, check_kernels, function_of, fused
from iris.ir import parse
from iris.runtime.interpreters import Interpreter

ONE_UPDATE = """
func graph @f returns=[tensor<4xf32>](%x: tensor<4xf32>) {
  %p: tensor<3xi32> = constant 1
  %u: tensor<3xf32> = constant 1.5
  %y: tensor<4xf32> = graph.scatter add [0] %x, %u, %p
  return %y
}
"""
AN_ARGUMENT = """
func graph @f returns=[tensor<4xf32>](%x: tensor<4xf32>, %e: tensor<1x1xf32>) {
  %p: tensor<3x5xi32> = constant 1
  %u: tensor<3x5xf32> = graph.broadcast %e
  %y: tensor<4xf32> = graph.scatter add [0] %x, %u, %p
  return %y
}
"""
ALONG_ONE_AXIS = """
func graph @f returns=[tensor<9x5xf32>](%x: tensor<9x5xf32>) {
  %n: tensor<1x7xi32> = graph.iota 1
  %p: tensor<3x7xi32> = graph.broadcast %n
  %u: tensor<3x7x5xf32> = graph.iota 2
  %y: tensor<9x5xf32> = graph.scatter add [0] %x, %u, %p
  return %y
}
"""


@pytest.mark.parametrize("text", [ONE_UPDATE, AN_ARGUMENT, ALONG_ONE_AXIS])
def test_every_update_is_added(text: str) -> None:
    """Where neither it nor its place depends on an axis, it is added for each index of that."""
    check_kernels(fused(parse(text)), Interpreter(), arguments_for(function_of(text)))
