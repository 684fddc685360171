"""Calls: of CUDA's functions, of cooperative groups, and of the file's own."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from iris.frontend.cuda import records
from iris.frontend.cuda.clang import Node, inner
from iris.frontend.cuda.prelude import (
    BINARY,
    LOADS,
    SCOPES,
    STORES,
    TEXTURES,
    UNARY,
    VECTORS,
)
from iris.frontend.cuda.references import reference
from iris.frontend.cuda.translation import (
    PLACES,
    Expression,
    Pointer,
    Translation,
    call,
    name,
    unknown,
)
from iris.frontend.cuda.types import is_group, metal_vector, type_of
from iris.frontend.cuda.words import ATOMICS, REDUCTIONS

Call = Callable[[Translation, Node, list[Node]], ast.expr]


def _gives_place(kind: str) -> Callable[[Expression], Expression]:
    """Registers what calls a function: a call may give a reference."""

    def register(builder: Expression) -> Expression:
        PLACES[kind] = builder
        return builder

    return register


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
    said = operation["type"]
    how = _OF_GROUPS.fullmatch(said.get("desugaredQualType", said["qualType"]))
    size, function = _tile(group), _operation(self, operation)
    if size is not None and function is not None:
        this = self.object(operation) if records.is_method(function) else None
        return _combined(self, size, function, this, x)
    if size is None or how is None or how[1] not in REDUCTIONS:
        known = ", ".join(REDUCTIONS)
        raise unknown(
            node, f"reduce is of a tile of up to 32 threads, by one of {known} or a function"
        )
    return self.hold(call("reduced", size, how[1], self.expression(x)))


_OF_GROUPS = re.compile(r"(?:const )?cooperative_groups::(\w+)<[^<>]*>")


def _operation(self: Translation, node: Node) -> Node | None:
    """The function of the file that an argument is, or the operator of its struct."""
    while node["kind"] in _SAME_FUNCTION or node.get("opcode") == "&":
        node = inner(node)[-1]
    record = self.record(type_of(node))
    named = self.globals.get(node.get("referencedDecl", {}).get("id", ""))
    found = [named] if named is not None else []
    if record is not None:
        found = [one for one in inner(record) if one.get("name") == "operator()"]
    return found[0] if len(found) == 1 and has_body(found[0]) else None


def _combined(
    self: Translation, size: int, function: Node, this: ast.expr | None, x: Node
) -> ast.expr:
    """What a function of the file makes of the values of a tile's threads, two by two."""
    parameters = [one for one in inner(function) if one["kind"] == "ParmVarDecl"]
    for parameter in parameters:
        if type_of(parameter).is_reference and not type_of(parameter).is_const:
            raise unknown(parameter, "reduce takes a function that changes no argument")
    value = self.keep(self.expression(x), "combined")
    before = [] if this is None else [this]
    while size > 1:
        size //= 2
        other = self.keep(call("from_lane", value, size), "other")
        pair = zip(parameters, (value, other), strict=True)
        given = [*before, *[_passed(self, parameter, one) for parameter, one in pair]]
        value = self.keep(ast.Call(name(self.function_name(function)), given, []), "combined")
    return value


def _passed(self: Translation, parameter: Node, value: ast.expr) -> ast.expr:
    """A value of its own as an argument."""
    type_ = type_of(parameter)
    return call("cell" if type_.is_reference and type_.is_value else "copied", value)


def _copy_bytes(self: Translation, node: Node, arguments: list[Node]) -> ast.expr:
    to, source, count = arguments
    places = [self.pointer(_without_casts(x)).whole for x in (to, source)]
    return call("copy_bytes", *places, self.expression(count))


def _without_casts(node: Node) -> Node:
    """A pointer before it became one of void."""
    while node["kind"] in ("ParenExpr", "ImplicitCastExpr", "CStyleCastExpr"):
        if node.get("castKind", "BitCast") not in ("BitCast", "NoOp"):
            break
        node = inner(node)[0]
    return node


def _texture(self: Translation, node: Node, arguments: list[Node]) -> ast.expr:
    raise unknown(node, "textures are not translated: pass an array")


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
    "memcpy": _copy_bytes,
    "sync": _sync,
    "reduce": _reduce,
    "abs": _word("unary", "abs"),
    "__threadfence": _word("fence"),
    **dict.fromkeys(TEXTURES, _texture),
    **dict.fromkeys(LOADS, _read),
    **dict.fromkeys(STORES, _write),
    **{name: _word("fused") for name in ("fma", "fmaf", "__hfma")},
    **{name: _word("power") for name in ("pow", "powf")},
    **{name: _word("greatest") for name in ("max", "fmax", "fmaxf")},
    **{name: _word("least") for name in ("min", "fmin", "fminf")},
    **{f"atomicCAS{scope}": _compare_exchange for scope in SCOPES},
    **{f"atomic{how}{scope}": _atomic(how) for how in (*ATOMICS, "Sub") for scope in SCOPES},
    **{text: _word("binary_function", one) for one in BINARY for text in (one, f"{one}f")},
    **{text: _word("unary", one) for one in UNARY for text in (one, f"{one}f", f"__{one}f")},
    **{f"make_{name}": _word("vector", metal_vector(name)) for name in VECTORS},
    "__shfl_sync": _word("shuffle", "idx"),
    **{f"__shfl_{how}_sync": _word("shuffle", how) for how in ("up", "down", "xor")},
}


def called(self: Translation, node: Node) -> ast.expr:
    """A call of a function; if it gives a reference, the value there."""
    made = PLACES[node["kind"]](self, node)
    is_place = node.get("valueCategory") == "lvalue" and not self.is_object(node)
    if not is_place:
        return made
    return self.hold(self.element(Pointer(self.hold(made), None, type_of(node))).load())


@_gives_place("CXXOperatorCallExpr")
def _of_operator(self: Translation, node: Node) -> ast.expr:
    callee, first, *rest = inner(node)
    method = self.globals.get(inner(callee)[0].get("referencedDecl", {}).get("id", ""))
    if method is None or method["kind"] != "CXXMethodDecl" or not has_body(method):
        return _of_function(self, node)
    return of_file(self, node, method, rest, self.object(first))


@_gives_place("CXXMemberCallExpr")
def _of_member(self: Translation, node: Node) -> ast.expr:
    member, *arguments = inner(node)
    method = self.globals.get(member.get("referencedMemberDecl", ""))
    if method is None or not has_body(method):
        return member_called(self, node, None)
    return of_file(self, node, method, arguments, self.object(inner(member)[0]))


@_gives_place("CallExpr")
def _of_function(self: Translation, node: Node) -> ast.expr:
    callee, *arguments = inner(node)
    while callee["kind"] in _SAME_FUNCTION or callee.get("opcode") in ("&", "*"):
        callee = inner(callee)[-1]
    declaration = callee.get("referencedDecl")
    if declaration is None:
        raise unknown(node, "only functions that are named are called")
    there = self.globals.get(declaration["id"])
    if there is not None and has_body(there):
        return of_file(self, node, there, arguments, None)
    builder = CALLS.get(declaration["name"])
    if builder is None:
        raise unknown(node, f"{declaration['name']} is not translated")
    made = builder(self, node, arguments)
    # What threads do together is done where it stands.
    is_together = isinstance(made, ast.Call) and declaration["name"].startswith("__shfl")
    return self.hold(made, "shuffled") if is_together else made


# What stands for a function: an argument of a template, too.
_SAME_FUNCTION = ("ImplicitCastExpr", "ParenExpr", "SubstNonTypeTemplateParmExpr")


def has_body(function: Node) -> bool:
    """Whether the file says what a function does; what clang makes of itself copies structs."""
    is_ours = not function.get("isImplicit") and "explicitlyDefaulted" not in function
    return is_ours and any(n["kind"] == "CompoundStmt" for n in inner(function))


def of_file(
    self: Translation, node: Node, function: Node, arguments: list[Node], this: ast.expr | None
) -> ast.expr:
    """A call of a device function, maybe of a struct."""
    parameters = [one for one in inner(function) if one["kind"] == "ParmVarDecl"]
    given: list[ast.expr] = [] if this is None else [this]
    for parameter, argument in zip(parameters, arguments, strict=True):
        type_ = type_of(parameter)
        if is_group(parameter):
            given.append(ast.Constant(None))
            continue
        if argument["kind"] == "CXXDefaultArgExpr":
            default = inner(parameter)
            if not default:
                raise unknown(node, "this default of a parameter is not translated")
            argument = default[-1]
        passed = records.argument(self, type_, argument)
        if passed is not None:
            given.append(passed)
            continue
        if type_.is_pointer or type_of(argument).shape is not None:
            given.append(self.pointer(argument).whole)
        elif type_.is_reference:
            given.append(reference(self, argument))
        else:
            given.append(self.expression(argument))
    made = ast.Call(name(self.function_name(function)), given, [])
    is_void = function["kind"] == "CXXConstructorDecl" or type_of(node).word == "void"
    is_void = is_void and not type_of(node).is_pointer
    return made if is_void else self.hold(made, "result")


# Cooperative groups.


def _size(group: Node) -> str | None:
    """How many threads a group has: all of the block, if the type does not say."""
    text = group["type"].get("desugaredQualType", "") + group["type"]["qualType"]
    found = re.search(r"thread_block_tile<(\d+)", text)
    if found:
        return found[1]
    return None if "thread_block" in text else ""


def _tile(group: Node) -> int | None:
    """How many threads a tile has, if it is one of a simdgroup's."""
    size = int(_size(group) or 0)
    return size if size in (1, 2, 4, 8, 16, 32) else None


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
_OF_TILE = {
    "sync": "tile_barrier",
    "thread_rank": "rank_in_tile",
    "size": "width",
    "num_threads": "width",
    "meta_group_rank": "tile",
    "meta_group_size": "tiles",
}
_POSITIONS = {"group_index": "blockIdx", "thread_index": "threadIdx"}
_LANES = {"shfl": "idx", "shfl_up": "up", "shfl_down": "down", "shfl_xor": "xor"}
_VOTES = {"ballot": "tile_ballot", "any": "tile_any", "all": "tile_all"}


def _method(
    self: Translation, node: Node, group: Node, method: str, given: list[Node], axis: int | None
) -> ast.expr:
    size = _size(group)
    if axis is not None and size is None and method in _POSITIONS:
        return call("position", _POSITIONS[method], axis)
    tile = _tile(group)
    if size is None and method in _OF_BLOCK:
        return call(_OF_BLOCK[method])
    if tile is not None and method in _OF_TILE:
        return call(_OF_TILE[method], tile)
    if tile is not None and method in _LANES:
        width = call("number", "int", tile)
        made = call("shuffle", _LANES[method], None, *_values(self, given), width)
        return self.hold(made, "shuffled")
    if tile is not None and method in _VOTES:
        return self.hold(call(_VOTES[method], tile, *_values(self, given)), "vote")
    what = group["type"]["qualType"]
    known = "; blocks and tiles of up to 32 threads are known" if is_group(group) else ""
    raise unknown(node, f"{method} of {what} is not translated here{known}")
