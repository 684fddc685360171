"""Names of the source that the text cannot have: each compiles, whatever it is the name of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import iris
from iris.codegen import emit
from iris.codegen.languages.msl import MSL
from iris.codegen.source import Source
from iris.ir import parse
from iris.ir.control import Func
from iris.passes import run
from iris.runtime.devices import select
from iris.tools.emit import lowering
from metal_check import complaints
from support import ROOT

HEADERS = ROOT / "src/iris/softmetal/include"
# Of softmetal, which runs the text, and of C++, which keeps what starts so to itself.
OTHERS = [
    "softmetal",
    "softmetal_run_0",
    "softmetal_kernels",
    "softmetal_body",
    "_X",
    "__x",
    "a__b",
]
NAMES = sorted([*MSL.keywords, *MSL.functions, *OTHERS])


def macros() -> Iterator[str]:
    """What softmetal's metal_stdlib defines, of which all but its own Metal's does, too."""
    for path in (*HEADERS.glob("metal*"), HEADERS / "softmetal_numbers"):
        yield from re.findall(r"^#define (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_macro_of_the_standard_library_is_known() -> None:
    found = {name for name in macros() if not name.startswith(("SOFTMETAL", "softmetal"))}
    assert {"M_PI_F", "FLT_MAX", "UINT_MAX", "MAXFLOAT", "M_SQRT1_2_H", "METAL_FUNC"} <= found
    assert found - MSL.keywords == set()
    assert {"NULL", "assert", "offsetof", "M_PI_BF", "BFLT_MAX", "LLONG_MIN"} <= MSL.keywords


def lowered(text: str) -> tuple[Func, Source]:
    (function,) = parse(text)
    assert isinstance(function, Func)
    (entry,) = run(parse(text), lowering(function))
    assert isinstance(entry, Func)
    return entry, emit(entry)


def scalars(names: Sequence[str]) -> str:
    given = ", ".join(f"%{name}: i32" for name in names)
    lines = [
        f"%{n}: i32 = {'add' if n % 2 else 'sub'} %{a}, %{b}"
        for n, (a, b) in enumerate(zip([names[0], *range(len(names) - 1)], names, strict=True))
    ]
    body = "\n".join([*lines, f"tile.store %Out, %{names[0]}, %{len(names) - 1}"])
    return f"func tile @scalars(%Out: ptr<i32>, {given}) {{\n{body}\nreturn\n}}\n"


def variables(names: Sequence[str]) -> str:
    """Each is used twice, for it to be a variable."""
    lines, last = [], "s"
    for name in names:
        lines.append(f"%{name}: i32 = mul %{last}, %{last}")
        last = name
    body = "\n".join([*lines, f"tile.store %Out, %s, %{last}"])
    return f"func tile @variables(%Out: ptr<i32>, %s: i32) {{\n{body}\nreturn\n}}\n"


def arrays(names: Sequence[str], number: int) -> str:
    given = ", ".join(f"%{name}: ptr<i32>" for name in names)
    lines = [
        f"%{n}: i32 = tile.load %{name}, %s\ntile.store %{name}, %s, %{n}"
        for n, name in enumerate(names)
    ]
    body = "\n".join(lines)
    return f"func tile @arrays_of_{number}(%s: i32, {given}) {{\n{body}\nreturn\n}}\n"


def function(name: str) -> str:
    return (
        f"func tile @{name}(%Out: ptr<i32>) {{\n%s: i32 = tile.program_id 0\n"
        "tile.store %Out, %s, %s\nreturn\n}\n"
    )


def uses(names: Sequence[str]) -> Iterator[tuple[Func, Source]]:
    yield lowered(scalars(names))
    yield lowered(variables(names))
    for start in range(0, len(names), 25):
        yield lowered(arrays(names[start : start + 25], start))


def test_values_may_have_any_name() -> None:
    head, bodies = "", []
    for n, (_, source) in enumerate(uses(NAMES)):
        head, body = source.text.split("\n\n", 1)
        bodies.append(f"namespace text{n} {{\n{body}\n}}")
    assert complaints("\n\n".join([head, *bodies])) == []


def test_kernels_may_have_any_name() -> None:
    texts = {}
    for _, source in [lowered(function(name)) for name in NAMES]:
        texts[source.entry] = source.text.split("\n\n", 1)
    (head, _), *_ = texts.values()
    assert complaints("\n\n".join([head, *[body for _, body in texts.values()]])) == []


@pytest.mark.softmetal
def test_macros_are_no_names_in_texts_that_run() -> None:
    device = select("softmetal")
    names = sorted({*macros(), *OTHERS} - {"is_function_constant_defined", "coherent"})
    for entry, source in uses(names):
        device.compile(entry, source)


@iris.kernel
def softmetal(X, Out, softmetal_kernels):
    softmetal = iris.load(X) + softmetal_kernels
    for _ in range(softmetal_kernels):
        softmetal = softmetal * 2
    iris.store(Out, softmetal)


@iris.kernel
def café(Größe, Out, naïve):
    ñ = iris.load(Größe) + naïve
    iris.store(Out, ñ)


@iris.kernel
def M_PI_F(FLT_MAX, NULL, UINT_MAX):
    MAXFLOAT = iris.load(FLT_MAX) + UINT_MAX
    iris.store(NULL, MAXFLOAT)


@pytest.mark.softmetal
def test_names_that_run() -> None:
    x, out = np.ones(1, np.float32), np.zeros(1, np.float32)
    for kernel, expected in ((softmetal, 12), (café, 3), (M_PI_F, 3)):
        kernel[1](x, out, 2, device="softmetal")
        assert out[0] == expected
        compilation = kernel.lower(x, out, 2, grid=1)
        for stage in compilation.stages:
            parse(stage.text)
