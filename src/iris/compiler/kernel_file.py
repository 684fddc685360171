"""The file of a compiled kernel: Metal IR, under a comment that says what it was compiled for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from iris.errors import FileError
from iris.frontend.specs import ArraySpec, ScalarSpec, Spec
from iris.ir import Module, parse, to_text, verify
from iris.ir.types import DTYPES

_HEAD = "# saved kernel: "


def write(file: Path, module: Module, specs: Mapping[str, Spec]) -> None:
    """Write a kernel, with the facts about its parameters in their order."""
    facts = {name: asdict(spec) | _dtype_in(spec) for name, spec in specs.items()}
    text = f"{_HEAD}{json.dumps(facts)}\n\n{to_text(module)}"
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"cannot write {file}: {error.strerror}") from None


def read(file: Path) -> tuple[Module, dict[str, Spec]]:
    """What `write` wrote."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"cannot read {file}: {error}") from None
    try:
        facts = json.loads(text.partition("\n")[0].removeprefix(_HEAD))
        specs = {name: _spec(fields) for name, fields in facts.items()}
    except (AttributeError, LookupError, TypeError, ValueError):
        raise FileError(f"{file} is no kernel that compilation.save() wrote") from None
    module = parse(text, str(file))
    verify(module)
    return module, specs


def _dtype_in(spec: Spec) -> dict[str, str]:
    return {"dtype": str(spec.dtype)} if isinstance(spec, ArraySpec) else {"type": str(spec.type)}


def _spec(fields: dict[str, Any]) -> Spec:
    if "type" in fields:
        return ScalarSpec(**fields | {"type": DTYPES[fields["type"]]})
    dtype, divisors = DTYPES[fields["dtype"]], tuple(fields["divisors"])
    return ArraySpec(**fields | {"dtype": dtype, "divisors": divisors})
