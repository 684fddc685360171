"""The data of a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iris
from iris.compiler.array_compilation import ArrayCompilation
from iris.compiler.compilation import Compilation, entry_of
from iris.cost.resources import needs_of
from iris.errors import FileError
from iris.ir import parse
from iris.ir.core import Location
from iris.ir.types import Tile
from iris.targets import find
from iris.viewer.listing import listing
from iris.viewer.machine import barriers
from iris.viewer.page import page, write_page
from iris.viewer.sources import Sources
from races import RACE


@pytest.fixture(scope="module")
def part(attention: Compilation) -> dict[str, Any]:
    (made,) = attention.page_parts(Sources())
    same: dict[str, Any] = json.loads(json.dumps(made))
    return same


def test_stages_and_texts(attention: Compilation, part: dict[str, Any]) -> None:
    for stage, item in zip(attention.stages, part["stages"], strict=True):
        assert "\n".join(part["texts"][item["text"]]["lines"]) + "\n" == stage.text
        assert item["name"] == stage.name and item["changed"] == stage.changed
    assert [s["name"] for s in part["stages"] if s["about"]][:2] == ["follow-masks", "fold"]
    assert part["stages"][2]["counts"] == {"reshape": 1}
    assert "\n".join(part["msl"]["lines"]) + "\n" == attention.msl


def test_registers_and_memory_are_those_that_the_compiler_checks(
    attention: Compilation, part: dict[str, Any]
) -> None:
    needs = needs_of(entry_of(attention.stages[-1].module), find("apple-m1"))
    assert part["registers"]["most"] == needs.registers == max(part["registers"]["live"])
    assert part["memory"]["bytes"] == needs.memory
    assert sum(array["bytes"] for array in part["memory"]["arrays"]) == needs.memory
    assert part["cost"]["threadgroup"] == needs.memory
    lines = part["texts"][-1]["lines"]
    for array in part["memory"]["arrays"]:
        used = [n for n, line in enumerate(lines) if f"metal.load {array['name']}," in line]
        assert used and array["first"] <= min(used) and max(used) <= array["last"]


def test_each_barrier_says_which_accesses_it_orders(
    attention: Compilation, part: dict[str, Any]
) -> None:
    lines = part["texts"][-1]["lines"]
    assert len(part["barriers"]) == sum("metal.barrier" in line for line in lines) == 2
    for barrier in part["barriers"]:
        assert "metal.barrier" in lines[barrier["line"]] and barrier["pairs"]
        for pair in barrier["pairs"]:
            ops = {("store" in lines[n], "load" in lines[n]) for n in pair}
            assert ops == {(True, False), (False, True)}
            assert any(all(f"{name}," in lines[n] for n in pair) for name in ("%44", "%v"))


def test_a_barrier_of_a_program_may_stand_anywhere_between_the_accesses() -> None:
    """One that a user wrote need not stand before an access."""
    store, c63 = '%one at "race.py":3\n', "  %c63"
    text = RACE.replace(store + c63, f"{store}  metal.barrier threadgroup\n{c63}")
    again = text.replace("  return", "  metal.barrier threadgroup\n  return")
    module = parse(again)
    lines = listing(module)
    needed, idle = barriers(entry_of(module), lines)
    ((first, second),) = needed["pairs"]
    assert first < needed["line"] < second
    assert "metal.store %s" in lines.lines[first] and "metal.load %s" in lines.lines[second]
    assert idle["pairs"] == []


def test_a_layout_says_who_holds_each_element(attention: Compilation, part: dict[str, Any]) -> None:
    (stage,) = [s for s in attention.stages if s.name == "assign-layouts"]
    known = {
        str(v.type.layout): v.type.layout
        for v in stage.module.values()
        if isinstance(v.type, Tile) and v.type.layout is not None
    }
    assert len(part["layouts"]) == len(known)
    for data in part["layouts"]:
        table = known[data["text"]].table()
        for location in np.ndindex(*table.shape):
            element = 0
            for n, dim in zip(location, ("register", "lane", "simdgroup"), strict=True):
                for bit, column in enumerate(data[dim]):
                    element ^= column if n >> bit & 1 else 0
            assert element == table[location]


def test_staged_tiles_say_the_bank_of_each_element(part: dict[str, Any]) -> None:
    k, v = part["staged"]
    # Of f32, so one a bank: rows of %v are 36 apart, columns of %k.
    assert v["rows"][2][5] == (2 * 36 + 5) % 32 and k["rows"][2][5] == (2 + 5 * 36) % 32


def test_a_graph_has_a_picture_and_its_kernels(block: ArrayCompilation, block_page: Path) -> None:
    graph, *kernels = data_of(block_page.read_text(encoding="utf-8"))["parts"]
    boxes, edges = graph["picture"]["boxes"], graph["picture"]["edges"]
    names = [kernel.name for kernel in block.kernels]
    assert [box["name"] for box in boxes] == [*names, "returns"]
    assert [kernel["name"] for kernel in kernels] == names
    assert all(boxes[edge["from"]]["row"] < boxes[edge["to"]]["row"] for edge in edges)
    assert sum("%x:" in read for read in boxes[0]["reads"]) == 1
    assert len(graph["why"] + graph["apart"]) == len(block.why)
    for kernel in kernels:
        (schedules,) = kernel["schedules"]
        (chosen,) = [s for s in schedules["considered"] if s["is_chosen"]]
        assert f"schedule=[{chosen['schedule']}]" in kernel["texts"][0]["lines"][1]


def data_of(html: str) -> dict[str, Any]:
    """What a page shows."""
    found: dict[str, Any] = json.loads(html.partition('id="data">')[2].partition("</script>")[0])
    return found


@iris.jit
def products(x, w):  # type: ignore[no-untyped-def]
    return x @ w @ w


def test_what_explain_says(attention: Compilation) -> None:
    text = attention.explain()
    assert text.startswith("The kernel runs as 8 programs (4 x 2), each by 2 simdgroups of 32, ")
    assert "take 9184 of 32768 bytes, and 2 barriers order the accesses." in text
    x = np.zeros((8, 8), np.float32)
    lines = products.lower(x, x).explain().splitlines()
    one, other = "products_matmul", "products_matmul_2"
    assert lines[0].endswith(f"run as 2 kernels, in this order: `@{one}`, `@{other}`.")
    assert "is written to memory: a matrix product would be recomputed" in lines[1]
    assert [line for line in lines if line.startswith("@")] == [f"@{one}:", f"@{other}:"]


@pytest.mark.parametrize("shape", [(8, 8), (64, 1000), (1024, 1024)])
@pytest.mark.parametrize(
    "function", [lambda x: x + 1, lambda x: np.exp(x).sum(0), lambda x: x @ x.T]
)
def test_what_limits_a_kernel_is_what_takes_most(
    function: Callable[[Any], Any], shape: tuple[int, int]
) -> None:
    compilation = iris.jit(function).lower(np.zeros(shape, np.float32))
    for kernel in compilation.kernels:
        chip = next(on for on in kernel.estimate.chips if on.chip.name == "apple-m1")
        line = next(line for line in kernel.explain().splitlines() if "cost model" in line)
        found = re.search(r": (.*) limits? it.*\. (.*) alone takes? (\d+)% .*, (\d+)%; a", line)
        assert found is not None, line
        limit, part, most, second = found.groups()
        assert part.lower() in limit
        most_of_all, next_most, *_ = sorted(chip.busy.values(), reverse=True)
        assert (int(most), int(second)) == (round(100 * most_of_all), round(100 * next_most))


def test_sources_are_functions(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text("import os\n\n\n@f\ndef g(x):\n    return x\n\n\ny = 1\n")
    sources = Sources()
    places = [Location(str(file), n) for n in (6, 9, 6)] + [Location("<nowhere>", 3)]
    assert [sources.number(place) for place in places] == [0, 1, 0, 2]
    assert sources.number(None) == -1
    data = sources.data()
    assert data["places"] == [[0, 6], [0, 9], [1, 3]]
    script, nowhere = data["files"]
    assert script["spans"] == [{"first": 4, "lines": file.read_text().splitlines()[3:]}]
    assert nowhere["spans"] == []


def test_text_does_not_end_the_script_that_holds_it(tmp_path: Path) -> None:
    words = "</script><!-- {{STYLE}} & \u2028"
    html = page(words, [{"name": words}], Sources())
    assert data_of(html)["title"] == words
    assert "<title>&lt;/script&gt;" in html
    with pytest.raises(FileError, match="cannot write the page"):
        write_page(tmp_path / "no" / "page.html", html)


def test_sizes(attention_page: Path, attention_run_page: Path, block_page: Path) -> None:
    assert attention_page.stat().st_size < 1e6
    assert attention_run_page.stat().st_size < 1e6
    assert block_page.stat().st_size < 3e6
    for each in (attention_page, block_page):
        assert "http" not in each.read_text(encoding="utf-8")


def test_in_a_notebook_it_is_a_frame(attention: Compilation) -> None:
    html = attention._repr_html_()
    assert html.startswith('<iframe srcdoc="&lt;!doctype html&gt;') and html.count("<") == 2
