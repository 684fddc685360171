"""Serving the page of `iris view`: a browser that shows it loads it anew when a file is saved."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

POLL = 0.3  # seconds between two looks at the file
#: In the page: ask for the next version, and load the page when there is one.
RELOAD = """<script>
(async function () {
  for (;;) {
    try { if ((await fetch("/next?VERSION")).ok) return location.reload(); }
    catch { await new Promise((again) => setTimeout(again, 1000)); }
  }
})();
</script>"""


class Page:
    """The latest page of a file, and the number of its version."""

    def __init__(self, file: Path, compile: Callable[[], str]):
        self.file = file
        self.html = ""
        self.version = 0
        self._compile = compile
        self._changed = threading.Condition()

    def update(self) -> None:
        """Compile the file as it is now, and tell those who wait."""
        html = self._compile()
        with self._changed:
            self.version += 1
            self.html = html + RELOAD.replace("VERSION", str(self.version))
            self._changed.notify_all()

    def watch(self, stop: threading.Event) -> None:
        """Compile again each time that the file is saved."""
        seen = _stamp(self.file)
        while not stop.wait(POLL):
            now = _stamp(self.file)
            if now != seen:
                seen = now
                self.update()

    def wait_for_more_than(self, version: int, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.version > version, seconds)


def compiled(name: str, arguments: Sequence[str]) -> str:
    """The page that `iris view` writes, or what it says is wrong.

    It runs in a process of its own, so that nothing imported is stale.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "page.html"
        command = [sys.executable, "-m", "iris.tools.cli", "view", "-o", str(output), *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return output.read_text(encoding="utf-8")
    return f"<!doctype html><title>{escape(name)}</title><pre>{escape(done.stderr)}</pre>"


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        stat = file.stat()
    except FileNotFoundError:  # while an editor puts the new file in its place
        return None
    return stat.st_mtime_ns, stat.st_size


def server_of(page: Page, port: int = 0) -> ThreadingHTTPServer:
    """A server of a page, on this machine only."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, version = self.path.partition("?")
            if path == "/next":
                newer = page.wait_for_more_than(int(version or 0), 20)
                self._answer(200 if newer else 408, "")
            elif path == "/":
                self._answer(200, page.html)
            else:
                self._answer(404, "")

        def _answer(self, status: int, html: str) -> None:
            body = html.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    return server


def serve(file: Path, arguments: Sequence[str]) -> None:
    """Serve the page of a file until the user interrupts."""
    page, stop = Page(file, partial(compiled, file.name, arguments)), threading.Event()
    page.update()
    threading.Thread(target=page.watch, args=(stop,), daemon=True).start()
    with server_of(page) as server:
        print(f"http://127.0.0.1:{server.server_port}/  (Ctrl-C stops)", file=sys.stderr)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            stop.set()
