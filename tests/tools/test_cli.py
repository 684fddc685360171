"""The `iris` command itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import iris
from iris.tools.cli import main


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["--version"])
    assert done.value.code == 0
    assert capsys.readouterr().out == f"iris {iris.__version__}\n"


def test_a_tensor_that_fits_no_memory_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "large.iris"
    shape = "2147483647x131072"
    file.write_text(
        f"# entry: @f\nfunc graph @f returns=[tensor<{shape}xf32>]() {{\n"
        f"  %c: tensor<{shape}xf32> = constant 1.0\n  return %c\n}}\n"
    )
    assert main(["run", str(file)]) == 1
    assert capsys.readouterr().err.startswith("iris: error: not enough memory: ")
