"""The inspector of `iris top`, in a terminal.  Nothing else needs Textual."""

from __future__ import annotations

import signal
import time
from collections import deque
from itertools import islice
from pathlib import PurePath

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Footer, Log, Sparkline, Static

from iris.compiler.profile import FIGURES, Totals
from iris.tools.launch_log import LaunchLog
from iris.tools.script_process import ScriptProcess

PERIOD = 0.25  # seconds between two looks
HISTORY = 60  # looks that the small charts show
MOST_LINES = 5000  # of output


class Card(Vertical):
    """A title, some lines of text, and a chart of a number lately."""

    def __init__(self, title: str, name: str, *, has_chart: bool = False):
        super().__init__(id=name, classes="card")
        self.border_title = title
        self._history: deque[float] = deque([0.0] * HISTORY, maxlen=HISTORY)
        self._has_chart = has_chart

    def compose(self) -> ComposeResult:
        yield Static(classes="figures")
        if self._has_chart:
            yield Sparkline(list(self._history))

    def tell(self, text: str, latest: float = 0.0) -> None:
        self.query_one(".figures", Static).update(text)
        if self._has_chart:
            self._history.append(latest)
            self.query_one(Sparkline).data = list(self._history)


class Inspector(App[None]):
    """Shows what a script launches, until `q` is pressed."""

    CSS = """
    #head { height: 1; padding: 0 1; background: $primary; color: $text; }
    #cards { height: 6; }
    .card { border: round $primary; width: 1fr; padding: 0 1; }
    .figures { height: auto; }
    Sparkline { height: 1; }
    #kernels { height: 1fr; border: round $primary; }
    #output { height: 1fr; border: round $primary; overflow: auto; }
    """
    BINDINGS = [  # noqa: RUF012 - as the base declares it
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "interrupt", "Interrupt the script", priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, run: ScriptProcess):
        super().__init__()
        self._script = run
        self._start = self._looked = time.perf_counter()
        self._ended: float | None = None
        self._before = Totals()
        self._shown = 0  # lines of output

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        with Horizontal(id="cards"):
            yield Card("Launches", "launches", has_chart=True)
            yield Card("Device", "device", has_chart=True)
            yield Card("Memory", "memory")
            yield Card("Queues", "queues")
            yield Card("Compile cache", "cache")
        kernels: DataTable[Text] = DataTable(id="kernels", cursor_type="none", zebra_stripes=True)
        kernels.border_title = "Kernels"
        yield kernels
        output = Log(id="output", max_lines=MOST_LINES)
        output.border_title = "Output"
        yield output
        yield Footer()

    def on_mount(self) -> None:
        kernels = self.query_one("#kernels", DataTable)
        for name in ("kernel", "device"):
            kernels.add_column(name, key=name)
        for name in FIGURES:
            kernels.add_column(Text(name, justify="right"), key=name)
        self.set_interval(PERIOD, self.look)
        self.look()

    def action_interrupt(self) -> None:
        """As Ctrl-C does where the script runs by itself."""
        self._script.process.send_signal(signal.SIGINT)

    def look(self) -> None:
        """Show how things are now."""
        now = time.perf_counter()
        status = self._script.status
        if status is not None and self._ended is None:
            self._ended = now
        log = self._script.log
        with log.lock:
            self._show_head(status, (self._ended or now) - self._start, log)
            self._show_cards(log, now)
            self._show_kernels(log)
        self._show_output()
        self._looked = now

    def _show_head(self, status: int | None, seconds: float, log: LaunchLog) -> None:
        state = "runs" if status is None else f"ended with status {status}"
        on = f"  on {', '.join(log.totals)}" if log.totals else ""
        name = PurePath(self._script.script).name
        self.query_one("#head", Static).update(f"iris top  {name}  {state}  {seconds:.1f} s{on}")

    def _show_cards(self, log: LaunchLog, now: float) -> None:
        totals = Totals()
        for total in [total for by_kernel in log.totals.values() for total in by_kernel.values()]:
            totals.launches += total.launches
            totals.seconds += total.seconds
            totals.bytes += total.bytes
        passed = max(now - self._looked, 1e-3)
        rate = (totals.launches - self._before.launches) / passed
        busy = totals.seconds - self._before.seconds
        bandwidth = (totals.bytes - self._before.bytes) / busy if busy else 0.0
        self._before = totals
        self._card("launches").tell(f"{totals.launches}\n{rate:.0f} per second", rate)
        self._card("device").tell(
            f"busy {min(busy / passed, 1):.0%}\n{bandwidth / 1e9:.2f} GB/s", bandwidth
        )
        used = list(log.usage.values())
        size, kept = sum(u.bytes for u in used), sum(u.kept_bytes for u in used)
        buffers, launches = sum(u.buffers for u in used), sum(u.launches for u in used)
        hits, asked = sum(u.cache_hits for u in used), sum(u.cache_misses for u in used)
        compiled = f"hits {log.hits}\nmisses {log.misses}\n{log.compile_seconds:.2f} s"
        if used:
            self._card("memory").tell(
                f"{size / 1e6:.2f} MB\nbuffers {buffers}\nkept {kept / 1e6:.2f} MB"
            )
            self._card("queues").tell(f"{sum(u.streams for u in used)} busy\n{launches} in flight")
            compiled += f"\ndisk {hits} of {hits + asked}"
        elif log.totals:
            self._card("memory").tell("no pool")
            self._card("queues").tell("no queue")
        self._card("cache").tell(compiled)

    def _card(self, name: str) -> Card:
        card: Card = self.query_one(f"#{name}", Card)
        return card

    def _show_kernels(self, log: LaunchLog) -> None:
        kernels = self.query_one("#kernels", DataTable)
        for device, by_kernel in log.totals.items():
            for name, total in by_kernel.items():
                row = f"{device} {name}"
                figures = [Text(figure, justify="right") for figure in total.figures()]
                if row not in kernels.rows:
                    kernels.add_row(Text(name), Text(device), *figures, key=row)
                    continue
                for column, figure in zip(FIGURES, figures, strict=True):
                    kernels.update_cell(row, column, figure, update_width=True)
        kernels.sort(FIGURES[1], key=lambda figure: float(figure.plain), reverse=True)

    def _show_output(self) -> None:
        output = self._script.output or []
        lines = list(islice(output, self._shown, None))
        self._shown += len(lines)
        if lines:
            self.query_one("#output", Log).write("".join(lines))
