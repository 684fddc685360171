"""The other language: NVIDIA's compiler takes the same kernels as CUDA C++."""

from __future__ import annotations

import random
import re
import struct
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import iris
from iris.codegen import emit
from iris.codegen.languages.cuda import CUDA
from iris.codegen.source import Source
from iris.compiler.compilation import entry_of
from iris.compiler.pipelines import METAL_PIPELINE
from iris.cost.resources import needs_of
from iris.errors import OutOfResources
from iris.ir import parse
from iris.ir.control import Func
from iris.passes import run
from iris.targets.nvidia import H100
from iris.testing import programs
from iris.testing.levels import with_simdgroups
from iris.testing.texts import shaped, together
from iris.tools.replay import Program
from support import counts

Floats = npt.NDArray[np.float32]
PROGRAMS = Path(__file__).parents[1] / "programs"
GOLDEN_OF_PASSES = Path(__file__).parents[1] / "passes" / "metal"
KERNELS = sorted((Path(__file__).parent / "golden").glob("*.iris"))
MSL_WORDS = ("threadgroup", "device ", "thread ", "simdgroup_", "metal", "[[", "uchar", "float4")
LOWER = with_simdgroups(METAL_PIPELINE, 4)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NVIDIA's compiler is not for it")


def compile_it(source: Source) -> bytes:
    from iris.runtime.cuda import nvrtc

    return nvrtc.compiled(source.text, source.entry, "sm_90", fast=False)[1]


def ptx_of(source: Source) -> str:
    """What NVIDIA's assembler is given."""
    from cuda.bindings import nvrtc

    from iris.runtime.cuda.nvrtc import compiler_options

    options = compiler_options("compute_90", fast=False)
    _, program = nvrtc.nvrtcCreateProgram(source.text.encode(), b"kernel", 0, None, None)
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert not status
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = b" " * size
    nvrtc.nvrtcGetPTX(program, ptx)
    nvrtc.nvrtcDestroyProgram(program)
    return ptx.decode()


def source_of(text: str) -> Source:
    (function,) = parse(text)
    assert isinstance(function, Func)
    return emit(shaped(function), CUDA)


@pytest.mark.parametrize("name", ["splat-beside-its-exchange", "wrapped-then-widened"])
def test_the_compiler_takes_a_program(name: str) -> None:
    module = parse((PROGRAMS / f"{name}.iris").read_text())
    assert compile_it(emit(entry_of(run(module, LOWER)), CUDA)).startswith(b"\x7fELF")


def test_what_may_have_wrapped_is_made_64_bits_by_a_function() -> None:
    text = """
    func metal @f simdgroups=1(%Y: ptr<i64>, %a: i32, %b: i32) {
      %c0: i32 = constant 0
      %c1: i32 = constant 1
      %may_wrap: i32 = sub %a, %b
      %surely: i32 = and %a, %b
      %x: i64 = cast %may_wrap
      %y: i64 = cast %surely
      metal.store %Y, %c0, %x
      metal.store %Y, %c1, %y
      return
    }
    """
    source = source_of(text)
    assert source.text.count("= widened(") == 1
    assert compile_it(source).startswith(b"\x7fELF")


@pytest.mark.parametrize("dtype", ["i16", "i32", "i64"])
def test_no_magnitude_is_left_to_the_assembler(dtype: str) -> None:
    """Before version 13.5 it takes the magnitude of the least number for not negative."""
    text = """
    func metal @f simdgroups=1(%X: ptr<i32>, %Y: ptr<i32>) {
      %at: i32 = metal.lane
      %x: i32 = metal.load %X, %at
      %y: i32 = metal.load %Y, %at
      %magnitude: i32 = abs %x
      %rest: i32 = mod %magnitude, %y
      metal.store %Y, %at, %rest
      return
    }
    """
    ptx = ptx_of(source_of(text.replace("i32", dtype).replace(f"%at: {dtype}", "%at: i32")))
    assert "rem.s" in ptx
    assert "abs.s" not in ptx


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_the_compiler_takes_a_kernel(path: Path) -> None:
    assert compile_it(source_of(path.read_text())).startswith(b"\x7fELF")


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_no_word_of_metal_is_left(path: Path) -> None:
    text = source_of(path.read_text()).text
    kernel = re.sub(r"//.*", "", text[text.index("\n__global__") :])
    assert [word for word in MSL_WORDS if word in kernel] == []


@settings(
    max_examples=counts(5, 40),
    phases=[Phase.generate],
    suppress_health_check=[*HealthCheck],
)
@given(drawn=st.lists(programs.tile(), min_size=12, max_size=12))
def test_the_compiler_takes_random_programs(drawn: list[Program]) -> None:
    sources = []
    for program in drawn:
        try:
            sources.append(emit(entry_of(run(program.module, LOWER)), CUDA))
        except OutOfResources:
            continue
    compile_it(together(sources, CUDA)[0])


def test_the_compiler_refuses_what_is_wrong() -> None:
    from dataclasses import replace

    from iris.runtime.cuda import nvrtc

    source = source_of(KERNELS[0].read_text())
    wrong = replace(source, text=source.text.replace("blockIdx", "blockIndex"))
    with pytest.raises(nvrtc.Refused, match="blockIndex"):
        compile_it(wrong)


def test_no_variable_hides_what_the_prologue_defines() -> None:
    head = r"INLINE (?:constexpr )?[\w:<>, ]+?|struct(?: alignas\(T\))?|using|#define"
    defined = {*re.findall(rf"(?:{head}) [&*]?(\w+)(?= ?[({{;=])", CUDA.prologue)}
    assert {"program_among", "multiply_all", "vec", "seen", "from_lane", "lane_of"} <= defined
    # Members of classes, and parameters of macros, hide nothing.
    assert defined - {"type", "U", "put", "OP", "NAME", "T"} <= CUDA.reserved


def test_only_what_is_read_is_said_to_be_alone() -> None:
    """Of what is written, the compiler would take other threads to change nothing, also where
    there is a barrier between."""
    source = source_of(
        """
        func metal @shift simdgroups=2(%x: ptr<i32, noalias>, %y: ptr<i32, noalias>) {
          %lane: i32 = metal.lane
          %read: i32 = metal.load %x, %lane
          metal.store %y, %lane, %read
          return
        }
        """
    )
    assert "const i32* __restrict__ x" in source.text
    assert "i32* y" in source.text


def test_a_barrier_waits_for_no_stores_to_be_seen_by_other_programs() -> None:
    source = source_of(
        """
        func metal @shift simdgroups=2(%x: ptr<i32>) {
          %lane: i32 = metal.lane
          %zero: i32 = constant 0
          metal.store %x, %lane, %lane
          metal.barrier device
          %read: i32 = metal.load %x, %zero
          metal.fence
          metal.store %x, %lane, %read
          return
        }
        """
    )
    kernel = source.text[source.text.index("__global__") :]
    assert kernel.count("__syncthreads()") == kernel.count("__threadfence()") == 1
    assert kernel.index("__syncthreads()") < kernel.index("__threadfence()")


def test_quotients_by_one_divisor_share_its_reciprocal() -> None:
    source = source_of((GOLDEN_OF_PASSES / "mark-divisors.iris").read_text().split("# becomes")[0])
    assert "quotient(" in source.text[source.text.index("__global__") :]


def quotients(x: Floats, y: Floats) -> Floats:
    """What `quotient` of the prologue computes, where 64 bits are fast."""
    assert "return float(double(x) * (1.0 / double(y)));" in CUDA.prologue
    return (x.astype(np.float64) * (1.0 / y.astype(np.float64))).astype(np.float32)


def near_the_middle(count: int) -> tuple[Floats, Floats]:
    """Numbers whose quotients are as near to the middle of two floats as there are any."""
    draw, found = random.Random(0), []
    while len(found) < count:
        divisor = draw.randrange(1 << 23, 1 << 24) | 1
        # Of an odd number of 25 bits, which is such a middle, times the divisor, `bits` bits are
        # all but those of the dividend: they are 1 too many, or too few.
        for bits, by in ((24, 1), (24, -1), (25, 1), (25, -1)):
            middle = by * pow(divisor, -1, 1 << bits) % (1 << bits) | 1 << 24
            dividend, rest = divmod(middle * divisor - by, 1 << bits)
            if rest == 0 and dividend < 1 << 24:
                found.append((dividend, divisor))
    x, y = np.array(found, np.float32).T
    return x, y


def test_the_product_with_a_reciprocal_is_the_quotient() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, (2, 1_000_000), np.uint32)
    special = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1, 3, 3.4e38, 1e-45, -1e-39], np.float32
    )
    of_bits = bits.view(np.float32)
    pairs = [
        (of_bits[0], of_bits[1]),
        near_the_middle(20_000),
        (np.repeat(special, special.size), np.tile(special, special.size)),
    ]
    with np.errstate(all="ignore"):
        for x, y in pairs:
            exact, found = x / y, quotients(x, y)
            is_normal = ~(np.abs(exact) < np.finfo(np.float32).tiny)
            same = (found.view(np.uint32) == exact.view(np.uint32)) | np.isnan(exact) & np.isnan(
                found
            )
            assert same[is_normal].all()
            # Of two subnormal numbers that are equally near it may be the other one.
            assert np.abs(found - exact)[~is_normal].max(initial=0) <= 2.0**-149


NEGATIVES = """
func metal @negatives simdgroups=1(%x: ptr<i16>, %y: ptr<i32>, %z: ptr<i16>) {
  %lane: i32 = metal.lane
  %c32: i32 = constant 32
  %c4: i32 = constant 4
  %cm1: i16 = constant -1
  %x0: i16 = metal.load %x, %lane
  %at1: i32 = add %lane, %c32
  %x1: i16 = metal.load %x, %at1
  %at2: i32 = add %at1, %c32
  %x2: i16 = metal.load %x, %at2
  %at3: i32 = add %at2, %c32
  %x3: i16 = metal.load %x, %at3
  %a: i16 = neg %x0
  %a_wide: i32 = cast %a
  metal.store %y, %lane, %a_wide
  %b: i16 = abs %x1
  %b_wide: i32 = cast %b
  metal.store %y, %at1, %b_wide
  %c: i16 = floordiv %x2, %x1
  %c_wide: i32 = cast %c
  metal.store %y, %at2, %c_wide
  %bits: u16 = bitcast %x3
  %d: u16 = neg %bits
  %d_signed: i16 = bitcast %d
  %d_wide: i32 = cast %d_signed
  metal.store %y, %at3, %d_wide
  %at4: i32 = mul %lane, %c4
  %v: regs<4xi16> = metal.load %x, %at4
  %negated: regs<4xi16> = neg %v
  %shifts: regs<4xi16> = constant 3
  %e: regs<4xi16> = shr %negated, %shifts
  metal.store %z, %at4, %e
  return
}
"""


def test_no_negative_of_16_bits_is_signed_at_once() -> None:
    """The assembler computes it in 32 bits, so that of -32768 it would be 32768."""
    ptx = ptx_of(source_of(NEGATIVES))
    steps = [line.strip() for line in ptx.splitlines()]
    made = [re.match(r"(?:neg|abs)\.s16\s+(%\w+)", step) for step in steps]
    registers = [found[1] for found in made if found]
    assert registers
    for register in registers:
        used = [s for s in steps if re.search(rf",.*{register}\b", s)]
        assert [s for s in used if ".s16" in s] == [], used


FUNCTIONS = {
    "softmax": lambda x: np.exp(x - x.max(1, keepdims=True)) / np.exp(x).sum(1, keepdims=True),
    "sums of columns": lambda x: x.sum(0),
    "argmax": lambda x: x.argmax(1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_many_registers_are_counted_as_the_compiler_gives(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to a factor of two: it computes in an order of its own."""
    monkeypatch.setenv("IRIS_TARGET", "nvidia-h100")
    x = np.zeros((3000, 3000), np.float32)
    (kernel,) = iris.jit(FUNCTIONS[name]).lower(x, device="interp").kernels
    function = entry_of(parse(kernel.metal))
    given = registers_of(compile_it(emit(function, CUDA)))
    assert given / 2 <= needs_of(function, H100).registers <= given * 2


REGISTERS = 0x00082F04  # EIATTR_REGCOUNT in 8 bytes: the symbol of a function, and its registers


def registers_of(cubin: bytes) -> int:
    """The registers of a thread, which an ELF file for a GPU says."""
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<3H", cubin, 58)
    sections = [struct.unpack_from("<2I4Q", cubin, table + n * size) for n in range(count)]
    for name, _, _, _, start, length in sections:
        if cubin[sections[names][4] + name :].startswith(b".nv.info\0"):
            words = struct.unpack_from(f"<{length // 4}I", cubin, start)
            return int(words[words.index(REGISTERS) + 2])
    raise AssertionError("no section says it")
