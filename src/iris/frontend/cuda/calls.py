"""Calls: of CUDA's functions, of cooperative groups, and of the file's own."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from iris.frontend.cuda.clang import Node, inner
from iris.frontend.cuda.prelude import LOADS, STORES, UNARY, VECTORS
from iris.frontend.cuda.translation import Translation, call, name, unknown
from iris.frontend.cuda.types import is_group, metal_vector, type_of
from iris.frontend.cuda.words import ATOMICS, REDUCTIONS

Call = Callable[[Translation, Node, list[Node]], ast.expr]
WARP = "32"


def _values(self: Translation, arguments: list[Node]) -> list[ast.expr]:
    """Arguments that are given: a default is not."""
    return [self.expression(x) for x in arguments if x["kind"] != "CXXDefaultArgExpr"]


def _word(word: str, *first: str) -> Call:
    """A call that becomes one of a word."""
    return lambda self, node, arguments: call(word, *first, *_values(self, arguments))


def _atomic(how: str) -> Call:
    def build(self: Translation, node: Node, arguments: list[Node]) -> ast.expr:
        where, *rest = arguments
        made = call("atomic", how, self.pointer(where).whole, *_values(self, rest))
        return self.hold(made, "old")

    return build


def _compare_exchange(self: Translation, node: Node, arguments: list[Node]) -> ast.expr:
    where, *rest = arguments
    made = call("compare_exchange", self.pointer(where).whole, *_values(self, rest))
    return self.hold(made, "old")


def _read(self: Translation, node: Node, arguments: list[Node]) -> ast.expr:
    return self.element(self.pointer(arguments[0])).load()


def _write(self: Translation, node: Node, arguments: list[Node]) -> ast.expr:
    value = self.hold(self.expression(arguments[1]))
    self.emit(*self.element(self.pointer(arguments[0])).store(value))
    return value


def _sync(self: Translation, node: Node, arguments: list[Node]) -> ast.expr:
    return _method(self, node, arguments[0], "sync", [], None)


def _reduce(self: Translation, node: Node, arguments: list[Node]) -> ast.expr:
    group, x, operation = arguments
    how = re.search(r"(\w+)<", operation["type"]["qualType"])
    if _size(group) != WARP or how is None or how[1] not in REDUCTIONS:
        raise unknown(node, "reduce is of a tile of 32 threads, by plus, less or greater")
    return self.hold(call("reduced", how[1], self.expression(x)))


#: By name.
CALLS: dict[str, Call] = {
    "__syncthreads": _word("barrier"),
    "__syncwarp": _word("warp_barrier"),
    "__ballot_sync": _word("ballot"),
    "__any_sync": _word("any_lane"),
    "__all_sync": _word("every_lane"),
    "__popc": _word("ones_of"),
    "__fdividef": _word("divided"),
    "__int_as_float": _word("bits_as", "float"),
    "__uint_as_float": _word("bits_as", "float"),
    "__float_as_int": _word("bits_as", "int"),
    "__float_as_uint": _word("bits_as", "uint"),
    "__float2half": _word("convert", "half"),
    "__half2float": _word("convert", "float"),
    "__float2bfloat16": _word("convert", "bfloat"),
    "__bfloat162float": _word("convert", "float"),
    "__builtin_huge_valf": lambda self, node, arguments: call("number", "float", float("inf")),
    "atomicCAS": _compare_exchange,
    "sync": _sync,
    "reduce": _reduce,
    "abs": _word("unary", "abs"),
    "__threadfence": _word("fence"),
    **dict.fromkeys(LOADS, _read),
    **dict.fromkeys(STORES, _write),
    **{name: _word("fused") for name in ("fma", "fmaf")},
    **{name: _word("power") for name in ("pow", "powf")},
    **{name: _word("greatest") for name in ("max", "fmax", "fmaxf")},
    **{name: _word("least") for name in ("min", "fmin", "fminf")},
    **{f"atomic{how}": _atomic(how) for how in (*ATOMICS, "Sub")},
    **{text: _word("unary", one) for one in UNARY for text in (one, f"{one}f", f"__{one}f")},
    **{f"make_{name}": _word("vector", metal_vector(name)) for name in VECTORS},
    "__shfl_sync": _word("shuffle", "idx"),
    **{f"__shfl_{how}_sync": _word("shuffle", how) for how in ("up", "down", "xor")},
}


def called(self: Translation, node: Node) -> ast.expr:
    """A call of a function."""
    callee, *arguments = inner(node)
    while callee["kind"] in ("ImplicitCastExpr", "ParenExpr"):
        callee = inner(callee)[0]
    declaration = callee.get("referencedDecl")
    if declaration is None:
        raise unknown(node, "only functions that are named are called")
    there = self.globals.get(declaration["id"])
    if there is not None and any(n["kind"] == "CompoundStmt" for n in inner(there)):
        return _of_file(self, node, there, arguments)
    builder = CALLS.get(declaration["name"])
    if builder is None:
        raise unknown(node, f"{declaration['name']} is not translated")
    made = builder(self, node, arguments)
    # What threads do together is done where it stands.
    is_together = isinstance(made, ast.Call) and declaration["name"].startswith("__shfl")
    return self.hold(made, "shuffled") if is_together else made


def _of_file(self: Translation, node: Node, function: Node, arguments: list[Node]) -> ast.expr:
    """A call of a device function, which gives its result and what it leaves in references."""
    parameters = [one for one in inner(function) if one["kind"] == "ParmVarDecl"]
    given: list[ast.expr] = []
    changed: list[Node] = []
    for parameter, argument in zip(parameters, arguments, strict=True):
        type_ = type_of(parameter)
        if argument["kind"] == "CXXDefaultArgExpr":
            raise unknown(node, "give every argument: defaults are not translated")
        if is_group(parameter):
            given.append(ast.Constant(None))
            continue
        if type_.is_pointer or type_of(argument).shape is not None:
            given.append(self.pointer(argument).whole)
            continue
        given.append(self.expression(argument))
        if type_.is_reference and not type_.is_const:
            changed.append(argument)
    made = ast.Call(name(self.function_name(function)), given, [])
    if not changed:
        return made if type_of(node).word == "void" else self.hold(made, "result")
    results = [self.fresh("result") for _ in range(len(changed) + 1)]
    targets = ast.Tuple([ast.Name(text, ast.Store()) for text in results], ast.Store())
    self.emit(ast.Assign([targets], made))
    for argument, text in zip(changed, results[1:], strict=True):
        self.store(argument, name(text))
    return name(results[0])


# Cooperative groups.


def _size(group: Node) -> str | None:
    """How many threads a group has: all of the block, if the type does not say."""
    text = group["type"].get("desugaredQualType", "") + group["type"]["qualType"]
    found = re.search(r"thread_block_tile<(\d+)", text)
    if found:
        return found[1]
    return None if "thread_block" in text else ""


def member_called(self: Translation, node: Node, axis: int | None) -> ast.expr:
    """A call of a group's method; with an axis, that coordinate of the result."""
    member, *arguments = inner(node)
    return _method(self, node, inner(member)[0], member["name"], arguments, axis)


_OF_BLOCK = {
    "sync": "barrier",
    "thread_rank": "rank",
    "size": "threads",
    "num_threads": "threads",
}
_OF_WARP = {
    "sync": "warp_barrier",
    "thread_rank": "lane",
    "size": "width",
    "num_threads": "width",
    "meta_group_rank": "warp",
    "meta_group_size": "warps",
}
_POSITIONS = {"group_index": "blockIdx", "thread_index": "threadIdx"}
_LANES = {"shfl": "idx", "shfl_up": "up", "shfl_down": "down", "shfl_xor": "xor"}
_VOTES = {"ballot": "ballot", "any": "any_lane", "all": "every_lane"}


def _method(
    self: Translation, node: Node, group: Node, method: str, given: list[Node], axis: int | None
) -> ast.expr:
    size = _size(group)
    if axis is not None and size is None and method in _POSITIONS:
        return call("position", _POSITIONS[method], axis)
    words = {None: _OF_BLOCK, WARP: _OF_WARP}.get(size, {})
    if method in words:
        return call(words[method])
    if size == WARP and method in _LANES:
        made = call("shuffle", _LANES[method], None, *_values(self, given))
        return self.hold(made, "shuffled")
    if size == WARP and method in _VOTES:
        return self.hold(call(_VOTES[method], None, *_values(self, given)), "vote")
    what = group["type"]["qualType"]
    raise unknown(node, f"{method} of {what} is not translated; blocks and tiles of 32 are known")
