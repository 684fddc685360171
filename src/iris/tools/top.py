"""`iris top`: watch what a script launches, while it runs.

    iris top train.py                   an inspector in the terminal, until q is pressed
    iris top train.py --steps 3         what follows the script's name is the script's
    iris top --record run.json train.py     also a trace for https://ui.perfetto.dev, and run.txt
    iris top train.py > log.txt         no terminal: the script's output, then the table
    IRIS_DEVICE=softmetal iris top train.py

Shows kernels with their times, bytes and bandwidth, memory and the pool, the queues, and what was
compiled.  Each launch is sent off alone, so that its time is its own; the cost model counts bytes
and operations.  Launches on a device object that the script makes itself are not seen.

The script is a process of its own.  In the inspector its output has a panel, which is printed again
at the end, and its standard input is empty; Ctrl-C interrupts the script.  The inspector needs
Textual: pip install 'iris-metal[top]'.  The exit status is the script's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from iris.errors import SettingError
from iris.tools.launch_log import LaunchLog
from iris.tools.script_process import ScriptProcess


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--record", metavar="FILE", help="write a trace here, and a table beside it"
    )
    parser.add_argument("script", help="Python that launches kernels")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")


def run_command(options: argparse.Namespace) -> int:
    if not Path(options.script).is_file():
        raise SettingError(f"there is no script {options.script}")
    log = LaunchLog(keeps_all=options.record is not None)
    if all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        status = _inspect(options.script, options.arguments, log)
    else:
        status = ScriptProcess(options.script, options.arguments, log).wait()
    table = log.table()
    print(table, end="", file=sys.stderr)
    if options.record is not None:
        trace = Path(options.record)
        log.save_trace(trace)
        trace.with_suffix(".txt").write_text(table, encoding="utf-8")
    return status


def _inspect(script: str, arguments: Sequence[str], log: LaunchLog) -> int:
    try:
        from iris.tools.top_app import Inspector  # needs the extra
    except ModuleNotFoundError as error:
        raise SettingError(
            f"the inspector needs {error.name}: pip install 'iris-metal[top]'; without it, send "
            f"the output elsewhere, as in iris top {script} | cat"
        ) from None
    output: list[str] = []
    run = ScriptProcess(script, arguments, log, output)
    Inspector(run).run()
    status = run.stop()
    sys.stdout.writelines(output)
    return status
