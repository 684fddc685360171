"""A scatter writes in place: a graph that needs the overwritten tensor is an error, never wrong."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest

from array_graphs import meaning
from iris.compiler.compilation import entry_of
from iris.compiler.graph_program import GraphProgram
from iris.errors import PipelineError
from iris.ir import parse, to_text, verify
from iris.ir.core import Module
from iris.passes import run
from iris.runtime.devices import select

HEAD = (
    "func graph @f returns=[{}](%x: tensor<8xi32>, %y: tensor<8xi32>, %u: tensor<4xi32>, "
    "%i: tensor<4xi32>, %j: tensor<8xi32>) {{\n"
)
INDICES = [np.array([6, 1, 7, 2], np.int32), np.array([3, 1, 0, 2, 7, 6, 5, 4], np.int32)]
ARRAYS = [np.arange(10, 18, dtype=np.int32), np.arange(8, dtype=np.int32) ** 2]
ARGUMENTS = [*ARRAYS, np.arange(100, 104, dtype=np.int32), *INDICES]


def kernel(name: str, op: str, programs: str) -> str:
    """A kernel of one op."""
    schedule = f"[i0: programs {programs}, simdgroups: 1]"
    return f"""\
    %{name}: tensor<8xi32> = graph.kernel @k_{name} schedule={schedule} {{
      %own_{name}: tensor<8xi32> = {op}
      yield %own_{name}
    }}
"""


def added(name: str, a: str, b: str) -> str:
    return kernel(name, f"add %{a}, %{b}", "4 of 8")


def scattered(name: str, into: str, updates: str, kind: str = "set") -> str:
    places, programs = ("i", "2 of 4") if updates == "u" else ("j", "4 of 8")
    return kernel(name, f"graph.scatter {kind} [0] %{into}, %{updates}, %{places}", programs)


def viewed(name: str, of: str) -> str:
    """The same memory by another name."""
    return (
        f"    %rows_{name}: tensor<2x4xi32> = graph.reshape %{of}\n"
        f"    %{name}: tensor<8xi32> = graph.reshape %rows_{name}\n"
    )


def launched(names: list[str], kernels: list[str]) -> str:
    """One launch of some kernels, whose results have their names."""
    typed = ", ".join(f"%{name}: tensor<8xi32>" for name in names)
    inner = "".join(re.sub(rf"%{n}\b", f"%in_{n}", k) for n, k in zip(names, kernels, strict=True))
    ends = ", ".join(f"%in_{name}" for name in names)
    return f"    {typed} = graph.launch @l_{names[0]} {{\n{inner}    yield {ends}\n    }}\n"


def function(returned: list[str], *lines: str) -> Module:
    head = HEAD.format(", ".join(["tensor<8xi32>"] * len(returned)))
    names = ", ".join(f"%{name}" for name in returned)
    module = parse(f"{head}{''.join(lines)}  return {names}\n}}\n")
    verify(module)
    return module


def check(module: Module, device: str) -> None:
    """The kernels return what the graph does."""
    found = GraphProgram(module, keep_schedules=True).run(select(device), ARGUMENTS)
    for was, now in zip(meaning(entry_of(module), ARGUMENTS), found, strict=True):
        np.testing.assert_array_equal(np.asarray(now), was, err_msg=to_text(module))


FIRST = added("a", "x", "y")


@pytest.mark.parametrize(
    ("returned", "lines", "needs"),
    [
        ("b", [scattered("b", "x", "u")], "%x: tensor<8xi32>, which @f needs"),
        ("bc", [FIRST, scattered("b", "a", "u"), added("c", "a", "y")], "which @k_c needs"),
        ("bc", [FIRST, scattered("b", "a", "u"), scattered("c", "a", "u")], "which @k_c needs"),
        ("ba", [FIRST, scattered("b", "a", "u")], "which @f needs"),
        ("b", [FIRST, scattered("b", "a", "a")], "which @k_b needs"),
        (
            "bc",
            [FIRST, viewed("v", "a"), scattered("b", "v", "u"), added("c", "a", "y")],
            "%a: tensor<8xi32>, which @k_c needs",
        ),
        (
            "bc",
            [FIRST, launched(["b", "c"], [scattered("b", "a", "u"), added("c", "a", "y")])],
            "@k_b overwrites %a: tensor<8xi32>, which @k_c needs",
        ),
        (
            "bc",
            [FIRST, launched(["b", "c"], [added("b", "a", "y"), scattered("c", "a", "u")])],
            "@k_c overwrites %a: tensor<8xi32>, which @k_b needs",
        ),
        (
            "bc",
            [FIRST, launched(["b", "c"], [scattered(n, "a", "u", "add") for n in "bc"])],
            "which @k_c needs",
        ),
    ],
)
def test_what_a_scatter_overwrites_is_not_needed(
    returned: str, lines: list[str], needs: str
) -> None:
    module = function([*returned], *lines)
    with pytest.raises(PipelineError, match=re.escape(needs)):
        GraphProgram(module)


def test_a_launch_alone_is_checked_when_it_is_lowered() -> None:
    kernels = [scattered("b", "x", "u"), added("c", "x", "y")]
    module = function(["b", "c"], launched(["b", "c"], kernels))
    with pytest.raises(PipelineError, match=r"@k_b overwrites %x.*, which @k_c needs"):
        run(module, "graph-to-tile")
    run(function(["b"], kernels[0]), "graph-to-tile")  # whoever launches it gives it the memory


def test_the_error_shows_the_line() -> None:
    text = to_text(function(["b", "c"], FIRST, scattered("b", "a", "u"), added("c", "a", "y")))
    text = re.sub(r"add %a, %y", rf'\g<0> at "{__file__}":1', text)
    with pytest.raises(PipelineError, match=r"test_overwritten.py:1:1\n1 \| ...A scatter"):
        GraphProgram(parse(text))


@pytest.mark.parametrize("device", ["interp", "interp:metal"])
def test_memory_is_overwritten_when_nothing_needs_it(device: str) -> None:
    check(
        function(
            ["d"],
            FIRST,
            added("e", "a", "y"),
            viewed("v", "a"),
            scattered("b", "v", "u"),
            scattered("c", "b", "e", "add"),
            added("d", "c", "c"),
        ),
        device,
    )


def drawn(seed: int) -> Module:
    """Launches of up to three kernels, which add tensors or scatter to one of them.

    A tensor that is overwritten is seldom used again.
    """
    choose = random.Random(seed)
    lines: list[str] = []
    tensors, written = ["x", "y"], []
    for launch in range(choose.randint(2, 5)):
        names = [f"t{launch}_{n}" for n in range(choose.choice((1, 1, 2, 3)))]
        kernels = []
        for name in names:
            if written and choose.random() < 0.5:
                into = choose.choice(written)
                updates = choose.choice(["u", *(t for t in tensors if t != into)])
                kernels.append(scattered(name, into, updates, choose.choice(("set", "add"))))
                if choose.random() < 0.9:
                    tensors.remove(into)
                    written.remove(into)
            else:
                kernels.append(added(name, *choose.choices(tensors, k=2)))
        lines.append(launched(names, kernels) if len(names) > 1 else kernels[0])
        tensors += names
        written += names
        if choose.random() < 0.2:
            lines.append(viewed(f"v{launch}", names[0]))
            tensors.append(f"v{launch}")
    return function(choose.sample(written, min(len(written), choose.randint(1, 2))), *lines)


def test_random_launches_are_right_or_errors() -> None:
    seen: Counter[str] = Counter()
    for seed in range(100):
        module = drawn(seed)
        outcome = "right, in place" if "graph.scatter" in to_text(module) else "right"
        try:
            check(module, ("interp", "interp:metal")[seed % 2])
        except PipelineError as error:
            assert "overwrites" in str(error)
            outcome = "error"
        seen[outcome] += 1
    assert min(seen["error"], seen["right, in place"]) > 20, seen
