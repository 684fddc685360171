"""Rules that rewrite graphs, case by case: what a body becomes, and that it does the same."""

from __future__ import annotations

import re
from textwrap import dedent, indent
from types import ModuleType

from iris.ir import Module, parse, verify
from iris.ir.control import Func
from iris.ir.core import OPS
from iris.ir.literal import encode
from iris.ir.math import element_type
from iris.ir.rewriter import Rules
from iris.passes import Pass
from iris.passes.generic.dce import DeadCodeElimination
from iris.testing import preserves
from iris.testing.draft import odd_numbers
from iris.tools.replay import ONE_PROGRAM, Array, Program


def graph(arguments: str, body: str) -> Module:
    """A function that returns what the last line of its body names, `%r` or `%r, %s`; or if that
    is an op, what it makes."""
    lines = dedent(body).strip().splitlines()
    if " = " in lines[-1]:
        lines.append(lines[-1].partition(":")[0])
    types = dict(re.findall(r"(%\w+): (tensor<[^>]*>)", f"{arguments}\n{body}"))
    returned = ", ".join(types[name] for name in lines[-1].split(", "))
    inner = indent("\n".join([*lines[:-1], f"return {lines[-1]}"]), "  ")
    module = parse(f"func graph @f returns=[{returned}]({arguments}) {{\n{inner}\n}}\n")
    verify(module)
    return module


def becomes(passes: Pass, rule: str, arguments: str, before: str, after: str | None) -> None:
    """Asserts that a rule makes one body of another, besides what nothing uses then, or with None
    leaves it alone; and that both come to the same."""
    module = graph(arguments, before)
    found = module.clone()
    counts = passes.run(found)
    assert counts is not None
    if after is None:
        assert rule not in counts, found
    else:
        DeadCodeElimination().run(found)
        expected = graph(arguments, after)
        assert rule in counts, f"{dict(counts)}\n{found}"
        assert found == expected, f"found\n{found}\nexpected\n{expected}"
    if found != module:
        for odd in (False, True):
            preserves(passes, program(module, odd=odd))


def program(module: Module, *, odd: bool) -> Program:
    """A function on small whole numbers, or on numbers at which things go wrong, of which no two
    arguments have the same."""
    (function,) = module
    assert isinstance(function, Func)
    recipes = []
    for seed, parameter in enumerate(function.body.arguments):
        type_ = element_type(parameter.type)
        numbers = [encode(n, type_.element) for n in odd_numbers(type_.element)]
        first = seed % len(numbers)
        data = (*numbers[first:], *numbers[:first])
        made = Array(type_.element, type_.shape, seed)
        recipes.append(Array(type_.element, type_.shape, data=data) if odd else made)
    return Program(module, function.symbol, ONE_PROGRAM, tuple(recipes))


def names(rules: Rules, module: ModuleType) -> set[str]:
    """Those of the rules that a module adds to others."""
    found = [rule for cls in OPS.values() for rule in rules.of(cls)]
    return {rule.__name__ for rule in found if rule.__module__ == module.__name__}
