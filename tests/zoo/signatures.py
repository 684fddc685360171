"""Arguments with which a kernel can be lowered, inferred from its text.

A parameter is a pointer if an access goes through it, here or in a function that it is passed to.
A constexpr has the value that the kernel's own configurations and heuristics give it, or else one
that its name suggests.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from iris.compiler.autotune import Autotuned, Chooser, Heuristics
from iris.compiler.triton_kernel import TritonKernel

_ACCESSES = re.compile(r"load|store|atomic_\w+|make_block_ptr|\w*make_tensor_descriptor")
_FLOATS = re.compile(
    r"eps|scale|alpha|beta|gamma|lr|temperature|softcap|smoothing|dropout|^p$|_p$|weight|bound|"
    r"limit|offset_f|theta|factor|coef|inv|norm_const|delta|cap$|lse_square|loss_",
    re.IGNORECASE,
)
_INTEGERS = re.compile(r"stride|size|^n_|^N|num|count|idx|_n$|dim|len|ignore|row|col|seed")
_INDICES = re.compile(
    r"cu_seq|ind(ices|ex)|idx|ids|offset|seqlens|target|label|^Y_ptr|token|expert|count|tables?|"
    r"lens|llut|_map|perm|row_start|partial_sum|s_rev",
    re.IGNORECASE,
)
#: Pointers that are left out: what they lead to is a variant of the kernel.
_LEFT_OUT = re.compile(r"cu_seqlens|(chunk|split)_(indices|offsets)|^(indices|offsets)$")
_BLOCKS = re.compile(r"BLOCK|^B[A-Z]{0,2}\d?$|SIZE|TILE|^(NC|NK|NV|BC|CHUNK)")
_FLAGS = re.compile(
    r"^(USE|IS|HAS|STORE|OUTPUT|RETURN|SAVE|WITH|ADD|APPLY|DO|REVERSE|TRANS|HEAD_FIRST|NORM|"
    r"COMPUTE|INPLACE|ENABLE|RECOMPUTE|ALLOW|FUSE|ACC|SAFE|INCLUDE|elementwise|first|last|causal)|"
    r"_(mode|only|first)$|CAUSAL|BIAS",
    re.IGNORECASE,
)

_OF_FOUR = (np.float32,) * 4  # arrays in a tuple
_SPACED = 1000 * np.arange(1 << 19, dtype=np.int32)  # starts that leave each part its room

#: What a name does not say, by the name of the kernel, or its module and its name: the value of an
#: argument, or the dtype of an array that is filled at random.
_SIGNATURES: dict[str, dict[str, Any]] = {
    "_grpo_loss_bwd_kernel": {"LOSS_TYPE": 0},
    "_grpo_loss_fwd_kernel": {"LOSS_TYPE": 0},
    "_jsd_kernel": {"Y_ptr": np.float32},
    "_mhc_sinkhorn_bwd_kernel": {"HC": 4},
    "_moe_router_scatter_kernel": {"expert_offs_ptr": _SPACED, "expert_tile_offset_ptr": _SPACED},
    "_token_gather_weighted_sum_kernel": {"Y_ptr": np.float32},
    "attnres_bwd_kernel_dv": {"res": _OF_FOUR, "dres": _OF_FOUR, "L": 3, "L2": 4},
    "attnres_fwd_kernel": {"res": _OF_FOUR, "L": 3, "L2": 4},
    "chunk_gla_fwd_A_kernel_intra_sub_inter": {"NC": 2},
    "chunk_hgrn_bwd_kernel_o": {"s_b": 4096, "s_t": 32, "s_d": 1},
    "chunk_hgrn_fwd_kernel_o": {"s_b": 4096, "s_t": 32, "s_d": 1},
    "chunk_rwkv6_fwd_A_kernel_intra_sub_inter": {"NC": 2},
    "chunk_scaled_dot_kkt_fwd_kernel_intra_sub_inter": {"NC": 2},
    "chunk_transform_qk_bwd_kernel_prepare": {"BK": 32, "BV": 32},
    "chunkwise_bwd_kernel_dhg": {"ell": 1},
    "chunkwise_bwd_kernel_hdqgl": {"ell": 1},
    "chunkwise_fwd_kernel": {
        "offsets": np.int32,
        "K": 64,
        "MIN_LEVEL": 0,
        "MAX_LEVEL": 3,
        "L_IN": 8,
        "L_OUT": 8,
    },
    "copy_input_kernel": {"offsets": np.int32},
    "fused_chunk_based_bwd_kernel": {"num_warps": 8},
    "fused_recurrent_gated_delta_rule_fwd_kernel": {"T": 8},  # its state grows fast
    "fused_recurrent_gdn2_fwd_kernel": {"T": 8},
    "gate_output_correction_bwd_kernel": {"o_t_stride": 64, "r_h_stride": 32},
    "gate_output_correction_fwd_kernel": {"o_t_stride": 64, "r_h_stride": 32, "v_h_stride": 32},
    "kl_div_kernel": {"target_logits": np.float32},
    "mm_int8int2.matmul_kernel": {"K": 1024, "a_ptr": np.int8, "b_ptr": np.int8, "c_ptr": np.int32},
    "packunpack_sequence_kernel": {"PADDING_SIDE": "right", "cu_seqlens": _SPACED // 200},
    "parallel_nsa_kernel_topk": {"S": 8, "BK": 32},
    "parallel_path_bwd_dq_kernel": {"BK": 32, "BV": 32},
    "prepare_block_csr_kernel": {"block_counts": 4, "cursor": np.int32},
    "rotary_embedding_kernel": {"seq_offsets": 0},
}


def arguments_of(kernel: TritonKernel | Chooser) -> Iterator[dict[str, Any]]:
    """An argument for each parameter, for each configuration that the kernel has."""
    function = kernel.base.function
    pointers = pointers_of(kernel.base)
    passed: dict[str, Any] = {}
    strides, texts = _strides(function.names), _texts(kernel.base)
    for parameter in function.parameters:
        name = parameter.name
        if name in pointers:
            left_out = _LEFT_OUT.search(name) and "IS_VARLEN" in function.constants
            passed[name] = None if left_out else array_for(name)
        elif name in strides:
            passed[name] = strides[name]
        elif parameter.is_constexpr:
            if parameter.has_default:
                passed[name] = parameter.default
            else:
                passed[name] = texts.get(name, constant_for(name))
        elif _is_float(name):
            passed[name] = 0.5
        else:
            passed[name] = 64
    short = kernel.base.fn.__name__
    long = f"{kernel.base.fn.__module__.rpartition('.')[2]}.{short}"
    for name, value in _SIGNATURES.get(long, _SIGNATURES.get(short, {})).items():
        passed[name] = _with_arrays(value)
    configurations = [passed]
    chooser = kernel if isinstance(kernel, Chooser) else None
    while chooser is not None:
        if isinstance(chooser, Autotuned):
            configurations = [p | c.constants for p in configurations for c in chooser.configs]
        if isinstance(chooser, Heuristics):
            for one in configurations:
                for name, rule in chooser._rules.items():
                    one[name] = rule(one)
        chooser = chooser._inner
    yield from configurations


def _strides(names: Sequence[str]) -> dict[str, int]:
    """Strides of arrays in row-major order, each axis of 64 elements; those of an array follow each
    other, and their names differ in what comes last."""
    found: dict[str, int] = {}
    groups: dict[str, list[str]] = {}
    for name in names:
        if "stride" in name.lower():
            rest = re.sub(r"stride", "", name, flags=re.IGNORECASE).strip("_")
            key = rest.partition("_")[0] if name.endswith("stride") else _without_axis(rest)
            groups.setdefault(key, []).append(name)
    for group in groups.values():
        first = 1 if len(group) > 1 else 64
        found |= {name: min(first * 64**k, 4096) for k, name in enumerate(reversed(group))}
    return found


def _without_axis(name: str) -> str:
    """The array in the name of a stride, as `x` in `x_row` and `xm`."""
    return name.rpartition("_")[0] if "_" in name else name[:-1]


def _texts(kernel: TritonKernel) -> dict[str, str]:
    """The names that a kernel compares with a text, each with the first such text."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(kernel.base.fn)))):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name):
            (other, *_) = node.comparators
            if isinstance(other, ast.Constant) and isinstance(other.value, str):
                found.setdefault(node.left.id, other.value)
    return found


def _is_float(name: str) -> bool:
    return bool(_FLOATS.search(name)) and not _INTEGERS.search(name)


def array_for(name: str) -> np.ndarray:
    """An array for a pointer."""
    return _array(np.int32 if _INDICES.search(name) else np.float32)


def _with_arrays(value: Any) -> Any:
    """A value of the table, with arrays in the place of dtypes."""
    if isinstance(value, tuple):
        return tuple([_with_arrays(item) for item in value])
    return _array(value) if isinstance(value, type) else value


def _array(dtype: type) -> np.ndarray:
    return np.zeros(1 << 19, dtype)


def constant_for(name: str) -> Any:
    """A value for a constexpr."""
    if "DTYPE" in name.upper():
        import iris

        return iris.f32
    if _FLAGS.search(name):
        return False
    if _is_float(name):
        return 0.5
    if name in ("num_warps", "num_stages") or re.search("step|iter", name, re.I):
        return 2  # as few iterations as show what one makes of another
    if name in ("H", "HQ", "HV", "G", "NG", "num_groups"):
        return 2
    if _BLOCKS.search(name):
        return 16
    return 32


def pointers_of(kernel: TritonKernel) -> set[str]:
    """The parameters that accesses go through."""
    return _pointers(kernel, ())


def _pointers(kernel: TritonKernel, active: tuple[Any, ...]) -> set[str]:
    function = kernel.function.function
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    names = set(kernel.function.names) - set(kernel.function.constants)
    made: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            made.setdefault(node.target.id, []).append(node.target)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else []
            for target, value in zip(node.targets[0].elts, values, strict=False):
                if isinstance(target, ast.Name):
                    made.setdefault(target.id, []).append(value)
    found: set[str] = set()
    seen: set[str] = set()

    def follow(node: ast.expr) -> bool:
        """Note the parameter that an address starts with."""
        if isinstance(node, ast.BinOp):
            if not isinstance(node.op, (ast.Add, ast.Sub)):
                return False
            return follow(node.left) or follow(node.right)
        if isinstance(node, ast.IfExp):
            return any([follow(node.body), follow(node.orelse)])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("make_block_ptr", "advance", "multiple_of", "max_contiguous"):
                return follow(node.args[0] if node.args else node.keywords[0].value)
            if node.func.attr == "to":
                return follow(node.func.value)
            return False
        if not isinstance(node, ast.Name):
            return False
        if node.id in names:
            found.add(node.id)
            return True
        if node.id in seen:
            return False
        seen.add(node.id)
        led = [follow(value) for value in made.get(node.id, [])]
        return any(led)

    scope = function.__globals__
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "element_ty":
            inner = node.value
            if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                seen.clear()
                follow(inner.value)
        if not isinstance(node, ast.Call):
            continue
        attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else attribute
        if _ACCESSES.fullmatch(name) and (node.args or node.keywords):
            seen.clear()
            first = next((k.value for k in node.keywords if k.arg in ("base", "pointer")), None)
            follow(node.args[0] if node.args else first or node.keywords[0].value)
        called = scope.get(name)
        if isinstance(called, (TritonKernel, Chooser)) and called not in active:
            inner_names = called.base.function.names
            inner = _pointers(called.base, (*active, called))
            given = dict(zip(inner_names, node.args, strict=False))
            given |= {k.arg: k.value for k in node.keywords if k.arg}
            for parameter in inner & given.keys():
                seen.clear()
                follow(given[parameter])
    return found
