"""Fetch the packages whose kernels softmetal must compile, and read their texts."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

MLX_VERSION = "0.32.4"
LLAMA = "llama-cpp-python==0.3.36"
_PLATFORM = ["--platform", "macosx_14_0_arm64", "--only-binary=:all:"]


def fetch(folder: Path) -> None:
    """Download both packages into a folder, unpack what there is of Metal, and install MLX."""
    _download(folder, f"mlx-metal=={MLX_VERSION}", _PLATFORM)
    _download(folder, LLAMA, ["--no-binary=llama-cpp-python"])
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target"]
    subprocess.run([*command, str(python_site(folder)), f"mlx[cpu]=={MLX_VERSION}"], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        headers = [name for name in archive.namelist() if name.endswith(".h")]
        archive.extractall(folder / "mlx", headers)
    (source,) = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        wanted = [m for m in archive.getmembers() if "/ggml/src/" in m.name and _is_text(m.name)]
        archive.extractall(folder / "llama", wanted, filter="data")


def _is_text(name: str) -> bool:
    return name.endswith((".h", ".metal"))


def _download(folder: Path, package: str, options: Sequence[str]) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    subprocess.run([*command, str(folder), *options, package], check=True)


def python_site(folder: Path) -> Path:
    """Where MLX itself is, for this machine."""
    return folder / "site"


def mlx_roots(folder: Path) -> list[Path]:
    """What MLX's headers are included from: the folder of its kernels, and the one of all."""
    root = folder / "mlx/mlx/include"
    return [root / "mlx/backend/metal/kernels", root]


def llama_kernels(folder: Path) -> Path:
    """The folder of llama.cpp's kernels."""
    (found,) = folder.glob("llama/*/vendor/llama.cpp/ggml/src/ggml-metal/kernels")
    return found


def flat(names: Sequence[str], roots: Sequence[Path]) -> str:
    """Some files as one text: each that they include in quotes stands in it once."""
    seen: set[Path] = set()

    def read(name: str, beside: Path) -> str:
        for root in (beside, *roots):
            path = (root / name).resolve()
            if path.is_file():
                break
        else:
            raise FileNotFoundError(name)
        if path in seen:
            return ""
        seen.add(path)
        text = path.read_text().replace("#pragma once", "")
        include = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)
        return include.sub(lambda found: read(found[1], path.parent), text) + "\n"

    return "".join(read(name, roots[0]) for name in names)
