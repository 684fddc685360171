"""The page in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

#: Gives elements with text that stands out too little from its background.
CONTRAST = Path(__file__).with_name("contrast.js").read_text()
TABS = ["overview", "changes", "ir", "metal", "layouts", "memory"]


class Reader:
    """A page that is open, and what it complained of."""

    def __init__(self, page: Any, file: Path):
        self.page = page
        self.url = f"file://{file}"
        self.complaints: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, where: str = "") -> None:
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}{where}")

    def at(self, name: str) -> str | None:
        """A part of the address."""
        script = "name => new URLSearchParams(location.hash.slice(1)).get(name)"
        found: str | None = self.page.evaluate(script, name)
        return found

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.page.locator(selector).all_inner_texts()
        return found


@pytest.fixture(scope="module")
def window(browser: Any) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 1440, "height": 900})
    yield opened
    opened.close()


@pytest.fixture
def reader(window: Any, attention_page: Path) -> Iterator[Reader]:
    read = Reader(window, attention_page)
    read.open()
    yield read
    assert read.complaints == []


def test_every_view_of_every_stage_is_drawn(reader: Reader, attention: Any) -> None:
    drawn = reader.page.evaluate(
        """() => DATA.parts[0].stages.map((_, stage) => {
          go({ stage, tab: "changes" });
          const view = $("view");
          return [view.querySelector("h2").textContent, view.querySelectorAll(".pair").length];
        })"""
    )
    for (heading, pairs), (number, stage) in zip(drawn, enumerate(attention.stages), strict=True):
        assert heading.startswith(stage.name)
        assert (pairs > 0) == (stage.changed and number > 0)
    for key, tab in enumerate(TABS, start=1):
        reader.page.keyboard.press(str(key))
        assert reader.at("show") == tab
        assert reader.page.locator("#view").inner_text()


def test_a_value_is_followed(reader: Reader) -> None:
    reader.open("#in=attention&pass=0&show=ir")
    reader.page.locator("#view [data-value='%scores']").first.click()
    assert reader.at("value") == "%scores"
    assert reader.page.locator("#view .chosen").count() == 2
    assert reader.texts("#value h3")[:2] == ["Defined", "Used once"]
    passes = reader.texts("#value .trace li > a")
    assert passes[:3] == ["traced", "assign-layouts", "lower-to-metal"]
    # The line of Python is marked, too.
    assert "scores = iris.dot(q, k.T) * scale" in reader.texts("#source .linked-now")[0]
    reader.page.locator("#value .trace a", has_text="lower-to-metal").click()
    assert reader.at("value") == "%scores" and reader.at("show") == "changes"
    # What it was called before is marked on the left.
    assert reader.page.locator("[data-side=old] .chosen").first.inner_text() == "%scores"
    reader.page.keyboard.press("Escape")
    assert reader.at("value") is None and reader.page.locator(".chosen").count() == 0


def test_the_source_leads_to_the_text_and_back(reader: Reader) -> None:
    reader.open("#in=attention&pass=0&show=metal")
    reader.page.locator("#source a.line", has_text="rescale = iris.exp").click()
    assert any("exp(" in line for line in reader.texts("#view .linked-now"))
    reader.page.locator("#view .line", has_text="kernel void").click()  # from no line
    reader.page.locator("#view .line", has_text="simdgroup_multiply_accumulate").first.click()
    assert "iris.dot" in reader.texts("#source .linked-now")[0]


def test_search(reader: Reader) -> None:
    reader.open("#in=attention&pass=0&show=ir")
    reader.page.keyboard.press("/")
    reader.page.keyboard.type("tile.dot")
    assert reader.texts("#found") == ["2 lines here, 19 of 44 stages"]
    assert reader.page.locator("#view .hit").count() == 2
    reader.page.keyboard.press("Enter")
    assert "tile.dot" in reader.texts("#view .here")[0]
    reader.page.keyboard.press("Escape")
    assert reader.page.locator("#view .hit").count() == 0
    reader.page.keyboard.press("/")
    reader.page.keyboard.type("%rescale")
    reader.page.keyboard.press("Enter")
    assert reader.at("value") == "%rescale"


def test_keys_links_and_history(reader: Reader) -> None:
    reader.open("#in=attention&pass=0&show=changes")
    reader.page.keyboard.press("j")
    assert reader.texts("#view h2")[0].startswith("fold")  # the first that changed something
    reader.page.keyboard.press("j")
    reader.page.keyboard.press("k")
    assert reader.texts("#passes [aria-current] .name") == ["fold"]
    reader.page.go_back()
    assert reader.texts("#passes [aria-current] .name") == ["cse"]
    reader.page.keyboard.press("?")
    assert reader.page.locator("#keys").is_visible()
    reader.page.keyboard.press("Escape")
    # A link that was kept leads to the line.
    reader.open("#in=attention&pass=18&show=ir&line=35")
    assert reader.page.locator("#view .here .n").inner_text() == "36"
    assert reader.page.locator("#view .here").is_visible()


def test_a_layout_is_drawn(reader: Reader) -> None:
    reader.open("#in=attention&pass=18&show=layouts")
    assert reader.page.locator("#view .grid").first.locator("b.lane").count() == 16 * 32
    reader.page.locator("#register").fill("0")
    # A register of each lane of one of two simdgroups.
    assert reader.page.locator("#view .grid").first.locator("b.lane:not(.off)").count() == 32


def test_the_chart_leads_to_the_program(reader: Reader) -> None:
    reader.open("#in=attention&pass=0&show=memory")
    assert reader.page.locator(".chart .barrier").count() == 2
    reader.page.locator(".chart .live").click()  # in its middle
    assert reader.at("show") == "ir"
    assert 80 < int(reader.page.locator("#view .here .n").inner_text()) < 100
    reader.page.go_back()
    reader.page.locator(".barriers a").first.click()
    assert "metal.barrier" in reader.texts("#view .here")[0]


def test_a_graph_leads_to_its_kernels(window: Any, block_page: Path, block: Any) -> None:
    reader = Reader(window, block_page)
    reader.open()
    assert reader.page.locator(".picture a.kernel").count() == len(block.kernels)
    reader.page.locator(".picture a.kernel").nth(1).click()
    assert reader.at("in") == block.kernels[1].name
    assert "of 128 registers a thread" in reader.texts(".facts dt")[2]
    reader.page.keyboard.press("[")
    reader.page.keyboard.press("[")
    assert reader.at("in") == "gated_block"
    # Of more kernels than there is room for, the one that is shown is seen.
    reader.open(f"#in={block.kernels[-1].name}")
    ends = "e => e.getBoundingClientRect().right"
    parts = reader.page.locator("#parts")
    assert parts.evaluate("e => e.scrollWidth > e.clientWidth")
    ends_at = parts.locator("[aria-current]").evaluate(ends)
    assert ends_at <= parts.evaluate(ends) + 1
    assert reader.complaints == []


def test_a_recorded_run_is_gone_through(window: Any, run_page: Path) -> None:
    reader = Reader(window, run_page)
    reader.open()

    def values() -> dict[str, str]:
        pairs = [each for text in reader.texts(".values") for each in text.split("   ") if each]
        return dict(pair.split(" = ", 1) for pair in pairs)

    def next_op() -> list[str]:
        return [text.split("\n")[-1].strip() for text in reader.texts("#view .next code")]

    assert reader.texts("#tabs [aria-selected=true]") == ["Run"]
    assert next_op() == ["%zero: f32 = constant 0.0"]
    assert values() == {"%X": "[1.0, 2.0, 3.0, 4.0]"}
    # By key, by button, and by the slider.
    reader.page.keyboard.press("ArrowRight")
    assert values()["%zero"] == "0.0"
    reader.page.locator("[data-by='1']").click()
    assert reader.at("step") == "2" and reader.texts("#at-step") == ["2 of 14"]
    reader.page.locator("#step").fill("6")
    assert next_op() == ["%next: f32 = add %acc, %x"] and values()["%x"] == "1.0"
    assert reader.texts(".values.just") == ["%x = 1.0"]
    assert "total = total" in reader.texts("#source .linked-now")[0]
    # To the changes of a value, and to a line.
    reader.page.locator("#view [data-value='%acc']").first.click()
    for total in ("1.0", "3.0", "6.0"):
        reader.page.keyboard.press("c")
        assert values()["%acc"] == total and reader.texts("#value .now") == [total]
    reader.page.locator("#view .line", has_text="tile.store").locator(".n").click()
    reader.page.keyboard.press("b")
    assert "tile.store" in next_op()[0]
    reader.page.keyboard.press("ArrowRight")
    assert values()["%X"] == "[10.0, 2.0, 3.0, 4.0]"
    reader.page.keyboard.press("ArrowRight")
    assert reader.texts("#step-says") == ["The program has ended."] and next_op() == []
    reader.page.keyboard.press("ArrowRight")  # there is no more
    reader.page.keyboard.press("ArrowLeft")
    assert reader.at("step") == "13"
    assert reader.complaints == []


def test_a_recorded_race_ends_at_the_line_with_both_threads(window: Any, race_page: Path) -> None:
    reader = Reader(window, race_page)
    reader.open()
    reader.page.locator("#step").fill("99")
    assert "metal.load %s, %other" in reader.texts("#view .failed code")[0]
    said = reader.texts("#step-says")[0]
    assert "thread 0 (simdgroup 0, lane 0) reads element 63 of s, which thread 63" in said
    assert "at race.py:4" in said and "at race.py:3" in said
    assert reader.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_reader_of_a_phone_sees_it_all(
    browser: Any, attention_page: Path, attention_run_page: Path, scheme: str
) -> None:
    phone = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    for page, tabs in ((attention_page, TABS), (attention_run_page, ["run"])):
        reader = Reader(phone, page)
        for tab in tabs:
            reader.open(f"#in=attention&pass=18&show={tab}&step=60")
            assert phone.evaluate("document.documentElement.scrollWidth") <= 390, tab
            assert phone.evaluate(CONTRAST) == [], tab
        assert reader.complaints == []
    phone.close()


def test_every_control_has_a_name(reader: Reader) -> None:
    for tab in TABS:
        reader.open(f"#in=attention&pass=18&show={tab}&value=%25scores")
        nameless = reader.page.evaluate(
            "() => [...document.querySelectorAll('button, a, input, summary, [role=img]')]"
            ".filter(e => !(e.textContent.trim() || e.ariaLabel || e.labels?.length))"
            ".map(e => e.outerHTML)"
        )
        assert nameless == []


def test_it_works_in_the_frame_of_a_notebook(window: Any, tmp_path: Path, attention: Any) -> None:
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html>{attention._repr_html_()}", encoding="utf-8")
    reader = Reader(window, notebook)
    reader.open()
    frame = window.frames[1]
    frame.locator("#tab-ir").click()
    frame.locator("#view [data-value='%scores']").first.click()
    frame.locator(".stage", has_text="assign-layouts").click()
    assert "assign-layouts" in frame.locator("#passes [aria-current]").inner_text()
    assert frame.locator("#value h2 span").inner_text() == "%scores"
    assert reader.complaints == []


@pytest.mark.parametrize(
    ("name", "seconds"), [("attention", 1.0), ("attention_run", 1.0), ("block", 2.0)]
)
def test_it_opens_at_once(
    request: pytest.FixtureRequest, browser: Any, name: str, seconds: float
) -> None:
    file: Path = request.getfixturevalue(f"{name}_page")
    opened = browser.new_page()
    session = opened.context.new_cdp_session(opened)
    session.send("Performance.enable")
    spent = []
    for _ in range(5):
        opened.goto(f"file://{file}")
        metrics = session.send("Performance.getMetrics")["metrics"]
        found = {metric["name"]: metric["value"] for metric in metrics}
        parts = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
        spent.append(sum(found[part] for part in parts))
    opened.close()
    assert 0 < median(spent) <= seconds
