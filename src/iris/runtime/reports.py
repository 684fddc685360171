"""What kernels assert and print, read from the records that they leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iris.codegen.source import RECORD_WORDS, REPORT_HEADER_WORDS, Site, Source
from iris.errors import ProgramError
from iris.ir.literal import text
from iris.ir.math import element_type
from iris.ir.types import DType
from iris.runtime.device import Grid

Words = npt.NDArray[np.uint32]

#: How many records there is room for.
RECORDS = 1 << 16
ROOM = RECORDS * RECORD_WORDS  # in words
BYTES = 4 * (REPORT_HEADER_WORDS + ROOM)


class Outcome(NamedTuple):
    """What a launch has to say: lines, and the first assertion that did not hold."""

    lines: list[str]
    failure: ProgramError | None


def clear(words: Words) -> None:
    """Make a report buffer ready for a launch."""
    words[0], words[1] = 0, ROOM


def read(source: Source, grid: Grid, words: Words) -> Outcome:
    """What the records of a launch say, in the order of the programs."""
    asked = int(words[0]) // RECORD_WORDS
    held = min(asked, RECORDS)
    body = words[REPORT_HEADER_WORDS : REPORT_HEADER_WORDS + held * RECORD_WORDS]
    records = body.reshape(-1, RECORD_WORDS)
    sites = source.sites
    is_assert = np.array([site.is_assert for site in sites], bool)[records[:, 0]]
    lines = _lines(sites, grid, records[~is_assert])
    if asked > held:
        lines.append(f"{asked - held} more records were lost: there is room for {RECORDS}")
    return Outcome(lines, _failure(sites, grid, records[is_assert]))


def _failure(sites: Sequence[Site], grid: Grid, records: Words) -> ProgramError | None:
    if not len(records):
        return None
    first = records[np.lexsort((records[:, 2], records[:, 1]))[0]]
    site, program = sites[first[0]], _place(grid, int(first[1]))
    return ProgramError(
        f"assertion failed: {site.text}, in program {program}, thread {first[2]}",
        program=program,
        thread=int(first[2]),
        locations=[] if site.location is None else [site.location],
    )


def _lines(sites: Sequence[Site], grid: Grid, records: Words) -> list[str]:
    """The lines that programs print.  The threads of one give parts of a line, each its own, so the
    n-th record for an element is of the n-th line."""
    rounds: Counter[tuple[int, int, int, int]] = Counter()
    lines: dict[tuple[int, int, int], list[npt.NDArray[np.uint64]]] = {}
    for site, program, _, part, place, low, high, _ in records.tolist():
        element = (site, program, part, place)
        key = (program, rounds[element], site)
        rounds[element] += 1
        types = sites[site].types or ()
        parts = lines.get(key)
        if parts is None:
            shapes = [element_type(t).shape for t in types]
            parts = lines[key] = [np.zeros(prod(shape), np.uint64) for shape in shapes]
        if parts:
            parts[part][place] = low | high << 32
    return [
        " ".join(
            [
                f"{sites[site].text}[program ({','.join(map(str, _place(grid, program)))})]",
                *[
                    _tile(bits, t.element, element_type(t).shape)
                    for bits, t in zip(parts, sites[site].types or (), strict=True)
                ],
            ]
        )
        for (program, _, site), parts in sorted(lines.items(), key=lambda item: item[0][0])
    ]


def _tile(bits: npt.NDArray[np.uint64], dtype: DType, shape: tuple[int, ...]) -> str:
    """Numbers in as few digits as tell them from others of their dtype."""
    return np.array2string(
        bits.reshape(shape),
        separator=", ",
        formatter={"int": lambda b: text(int(b) & (1 << max(dtype.bits, 8)) - 1, dtype)},
        threshold=1000,
    )


def _place(grid: Grid, number: int) -> tuple[int, int, int]:
    x, y, _ = grid
    return number % x, number // x % y, number // (x * y)
