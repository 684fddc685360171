"""Tests each `.iris` file under this folder: see `iris/tools/ir_cases.py`.

`pytest --bless tests/passes` writes what comes out below each `# becomes`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from iris.tools.cli import main
from iris.tools.ir_cases import cases, text_of


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.File | None:
    if file_path.suffix != ".iris":
        return None
    return IRFile.from_parent(parent, path=file_path)


class IRFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        for number, case in enumerate(cases(self.path.read_text(encoding="utf-8"))):
            yield CaseItem.from_parent(self, name=case.title or str(number), number=number)


class CaseItem(pytest.Item):
    def __init__(self, *, number: int, **others: object):
        super().__init__(**others)  # type: ignore[arg-type]
        self.number = number

    def runtest(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        all_cases = cases(text)
        case = all_cases[self.number]
        found = case.made(main)
        if self.config.getoption("--bless"):
            all_cases[self.number] = replace(case, after=found)
            if text_of(all_cases) != text:
                self.path.write_text(text_of(all_cases), encoding="utf-8")
        elif found != case.after:
            made = case.after.splitlines(), found.splitlines()
            lines = difflib.unified_diff(*made, "expected", "found", lineterm="")
            raise Differs("\n".join([*lines, "", "`--bless` accepts it."]))

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> str:
        is_difference = isinstance(excinfo.value, Differs)
        return str(excinfo.value if is_difference else super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


class Differs(AssertionError):
    pass
