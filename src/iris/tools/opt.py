"""`iris opt`: run passes on IR text.

    iris opt --passes "fold,cse,dce" softmax.iris
    iris opt --passes "..." --target apple-m4 gemm.iris
    iris opt softmax.iris                   parse, verify and print in canonical form
    iris opt --passes cse < softmax.iris | iris emit        from and to standard streams

With IRIS_DUMP=changed the IR after each pass is written to numbered files in IRIS_DUMP_DIR.
"""

from __future__ import annotations

import argparse
import linecache
import sys
from pathlib import Path

from iris import knobs
from iris.compiler.dumps import dumps
from iris.errors import FileError
from iris.ir import parse, to_text, verify
from iris.passes import Instrument, Pipeline, run
from iris.passes.instruments import Check, Timing
from iris.targets import TARGETS, Target, find
from iris.tools.colours import show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", default="-", help="IR text (default: standard input)")
    parser.add_argument(
        "--passes", default="", metavar="PIPELINE", help='such as "fold,cse,dce" (see iris passes)'
    )
    add_target(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write here, not to standard output")
    parser.add_argument(
        "--verify-each", action="store_true", help="verify after every pass, not only at the end"
    )
    parser.add_argument("--locations", action="store_true", help="print the source line of each op")
    parser.add_argument("--timing", action="store_true", help="print what each pass took and did")


def run_command(options: argparse.Namespace) -> None:
    pipeline, target = Pipeline.parse(options.passes), asked_for(options)
    if target is not None:
        pipeline = pipeline.on(target)
    module = parse(read(options.file), options.file)
    verify(module)
    timing = Timing()
    instruments: list[Instrument] = [timing, *dumps()]
    if options.verify_each:
        instruments.append(Check(verify))
    result = run(module, pipeline, instruments)
    verify(result)
    text = to_text(result, locations=options.locations)
    if options.output is None:
        show(text, "iris")
    else:
        write(options.output, text)
    if options.timing:
        print(timing, file=sys.stderr)


def add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target", metavar="NAME", help=f"the GPU to compile for: {', '.join(TARGETS)}"
    )


def asked_for(options: argparse.Namespace) -> Target | None:
    """The target that the command line or the environment names."""
    name = options.target or knobs.target()
    return None if name is None else find(name)


def read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        text = data.decode("utf-8")
        # Errors of passes point at its lines, which are not to be read again: nor could they be.
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        return text
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise FileError(
            f"{file} is no UTF-8 text: byte {error.start} is {data[error.start]:#x}"
        ) from None


def write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"cannot write {file}: {error.strerror}") from None
