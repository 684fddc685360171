"""The `iris` command itself."""

from __future__ import annotations

import pytest

import iris
from iris.tools.cli import main


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["--version"])
    assert done.value.code == 0
    assert capsys.readouterr().out == f"iris {iris.__version__}\n"
