"""Renews the tables of docs/triton.md: the names of `triton.language`, and the zoo.

python docs/make_triton.py
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import iris.triton.language as tl
from iris.frontend.triton.missing import MISSING, MISSING_DTYPES
from marked import renewed

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docs/triton.md"
ZOO = ROOT / "benchmarks/zoo.json"

#: `triton.language.__all__` of Triton 3.9.
NAMES = re.findall(
    r"\w+",
    """
    PropagateNan TRITON_MAX_TENSOR_NUMEL abs add arange argmax argmin associative_scan assume
    atomic_add atomic_and atomic_cas atomic_load atomic_max atomic_min atomic_or atomic_poll
    atomic_store atomic_xchg atomic_xor bfloat16 bitonic_merge block_type broadcast broadcast_to
    cast cat cdiv ceil clamp condition const constexpr constexpr_type cos cumprod cumsum
    debug_barrier device_assert device_print div_rn dot dot_scaled dtype erf exp exp2
    expand_dims expect_zero extra fdiv flip float16 float32 float64 float8e4b15 float8e4b8
    float8e4nv float8e5 float8e5b16 floor fma full gather histogram inline_asm_elementwise int1
    int16 int32 int64 int8 interleave join load load_tensor_descriptor log log2 make_block_ptr
    make_tensor_descriptor map_elementwise math max max_constancy max_contiguous maximum min
    minimum mul multiple_of num_programs pair_uniform_to_normal permute philox philox_impl
    pi32_t pointer_type program_id rand rand4x randint randint4x randn randn4x range ravel
    reduce reduce_or reshape rsqrt sigmoid sin slice softmax sort split sqrt sqrt_rn squeeze
    static_assert static_print static_range store store_tensor_descriptor sub sum swizzle2d
    target_info tensor tensor_descriptor to_tensor topk trans tuple uint16 uint32 uint64 uint8
    uint_to_uniform_float umulhi unsqueeze view void where xor_sum zeros zeros_like
    """,
)


def page() -> str:
    """The whole page, with its tables renewed."""
    return renewed(FILE.read_text(encoding="utf-8"), {"names": _names(), "zoo": _zoo()})


def _names() -> str:
    """What becomes of each name: those that work, and a reason for each other one."""
    refused = {n: MISSING[n] for n in NAMES if n in MISSING}
    refused |= dict.fromkeys([n for n in NAMES if n in MISSING_DTYPES], "Apple GPUs lack the dtype")
    refused |= dict.fromkeys([n for n in NAMES if not hasattr(tl, n)], "Iris lacks the name")
    works = [n for n in NAMES if n not in refused]
    reasons = dict.fromkeys(refused.values())
    rows = [
        f"| {', '.join([f'`{n}`' for n in refused if refused[n] == why])} | {why} |"
        for why in reasons
    ]
    listed = ", ".join([f"`{n}`" for n in works])
    head = f"{len(works)} of the {len(NAMES)} names work:\n\n{listed}.\n\n"
    return head + "\n".join(["| refused | why |", "|---|---|", *rows]) + "\n"


def _zoo() -> str:
    """What became of the kernels of packages."""
    found: dict[str, dict[str, str]] = json.loads(ZOO.read_text(encoding="utf-8"))
    rows = ["| package | functions | lower to Metal | launched | equal |", "|---|---|---|---|---|"]
    refused: Counter[str] = Counter()
    for package, outcomes in found.items():
        launched = [k for k in outcomes.values() if k.startswith("lowers: ")]
        called = list(outcomes.values()).count("called: lowers")
        equal, lowered = launched.count("lowers: equal"), len(launched) + called
        rows.append(f"| {package} | {len(outcomes)} | {lowered} | {len(launched)} | {equal} |")
        reasons = [k[len("refused: ") :] for k in outcomes.values() if k.startswith("refused: ")]
        refused.update([re.sub(r"\d+", "N", why).replace("|", "\\|") for why in reasons])
    rows += ["", "| refused | why |", "|---|---|"]
    return "\n".join(rows + [f"| {n} | {why} |" for why, n in refused.most_common()]) + "\n"


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
