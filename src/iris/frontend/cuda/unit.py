"""The kernels of a CUDA file, each as a function of Python that is traced as a kernel by thread."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from iris.errors import LanguageError, SourceSpot
from iris.frontend.cuda import expressions as _expressions  # noqa: F401  (registers builders)
from iris.frontend.cuda import prelude, records, words
from iris.frontend.cuda.aliases import desugar, full_name
from iris.frontend.cuda.clang import (
    PRELUDE,
    Diagnostic,
    Node,
    Tree,
    inner,
    last_line,
    parse,
    place_of,
)
from iris.frontend.cuda.enums import constants_of
from iris.frontend.cuda.statements import start
from iris.frontend.cuda.translation import (
    DYNAMIC_BYTES,
    WORDS,
    Pointer,
    Translation,
    assign,
    call,
    located,
    name,
    unknown,
    unshared,
    word_of,
)
from iris.frontend.cuda.types import PARTS, CType, is_group, type_of
from iris.frontend.cuda.words import DYNAMIC
from iris.frontend.language import constexpr
from iris.frontend.rewriting import TRANSLATED

_MODULE = "cuda_file"  # of translated functions
_METHODS = ("CXXMethodDecl", "CXXConstructorDecl", "CXXConversionDecl")
_FUNCTIONS = ("FunctionDecl", *_METHODS)
_DECLARATIONS = ("VarDecl", *_FUNCTIONS)
_RECORDS = ("CXXRecordDecl", "ClassTemplateSpecializationDecl")


@dataclass(frozen=True)
class TranslatedKernel:
    """A kernel as a function of Python, and what its parameters are declared as."""

    function: FunctionType
    types: Mapping[str, str]
    symbols: tuple[str, ...]  # variables of the file, which are parameters after the others
    is_dynamic: bool  # has extern __shared__ memory


@dataclass(frozen=True)
class Translated:
    """A function, and what it needs of the kernel that calls it."""

    function: FunctionType
    parameters: list[str]
    shared: dict[str, CType]  # memory of the block, by its key
    symbols: dict[str, CType]  # variables of the file, by their key


class Unit:
    """What a file defines."""

    def __init__(self, path: Path, instances: tuple[str, ...] = ()):
        self.tree: Tree = parse(path, instances)
        for error in self.tree.errors:
            if error.message.endswith("file not found"):
                raise self._said(error)
        self._definitions: dict[str, Node] = {}  # functions, by the names that linkers use
        self._declarations: dict[str, Node] = {}  # by id
        self.kernels: dict[str, Node] = {}
        self.records: dict[str, Node] = {}  # structs, by the names of their types
        self.templates: dict[str, Node] = {}  # of kernels
        self._open: list[str] = []  # functions that are being translated
        desugar(self.tree.declarations)
        for one in self.tree.declarations:
            self._enter(one)
        for known, node in list(self._declarations.items()):
            definition = self._definitions.get(node.get("mangledName", ""))
            if definition is not None:
                self._declarations[known] = definition
        self._functions: dict[str, Translated] = {}

    def _enter(self, node: Node) -> None:
        """Note what a declaration declares, and those within it."""
        kind, place = node.get("kind", ""), place_of(node)
        is_ours = place is not None and place.file.endswith(PRELUDE)
        if is_ours and kind != "VarDecl" and not (kind == "FunctionDecl" and _has_body(node)):
            return
        if kind in ("NamespaceDecl", "LinkageSpecDecl"):
            for one in inner(node):
                self._enter(one)
        elif kind == "EnumDecl":
            self._declarations.update(constants_of(node))
        elif kind == "FunctionTemplateDecl":
            made = [n for n in inner(node) if n["kind"] in _FUNCTIONS]
            if any(map(_is_kernel, made[:1])):
                self.templates[node["name"]] = node
            for one in made[1:]:  # instances, after what they are made of
                _name_truths(node, one)
                self._enter(one)
        elif kind == "ClassTemplateDecl":
            for one in inner(node):
                if one["kind"] == "ClassTemplateSpecializationDecl":
                    self._enter(one)
        elif kind in _RECORDS and node.get("completeDefinition"):
            self.records[node["type_name"]] = node
            for one in inner(node):
                self._enter(one)
        elif kind in _DECLARATIONS:
            self._declarations[node["id"]] = node
            if kind != "VarDecl" and _has_body(node):
                self._definitions[node.get("mangledName", "")] = node
                if kind == "FunctionDecl" and _is_kernel(node):
                    self.kernels[_WRITTEN.sub(_as_written, full_name(node))] = node

    def kernel(self, full_name: str) -> TranslatedKernel:
        """A kernel, translated; an error says at which line it cannot be."""
        node = self.kernels[full_name]
        made = self._function(node)
        named = [n for n in inner(node) if n["kind"] == "ParmVarDecl" and not is_group(n)]
        given = zip(made.parameters, named, strict=True)
        translation = Translation(node, self._declarations, self.records, str)
        types = {text: self._declared(translation, one, type_of(one)) for text, one in given}
        for key, type_ in made.symbols.items():
            types[_name_of(key)] = f"device {'const ' * type_.is_const}{type_.word}*"
        symbols = tuple(map(_name_of, made.symbols))
        return TranslatedKernel(made.function, types, symbols, DYNAMIC in made.shared)

    def _declared(self, translation: Translation, node: Node, type_: CType) -> str:
        """What a kernel by thread says of a parameter: structs are arrays of words, and a vector is
        one of an array."""
        is_struct = not type_.is_known and type_.word in self.records
        if not is_struct and not type_.is_known:
            said = node["type"]["qualType"]
            raise unknown(node, f"a parameter of type {said} is not translated")
        if is_struct:
            is_const = type_.is_const or not type_.is_pointer
            word = word_of(translation, self.records[type_.word])
            return f"device {'const ' * is_const}{word}*"
        if type_.is_pointer:
            return f"device {'const ' * type_.is_const}{type_.word}*"
        return f"device const {type_.word}*" if type_.word in PARTS else type_.word

    def _function(self, node: Node) -> Translated:
        key = node["id"]
        if key in self._open:
            raise unknown(node, f"{node['name']} calls itself; kernels cannot recurse")
        if key not in self._functions:
            self._refuse_errors(node)
            self._open.append(key)
            try:
                self._functions[key] = self._translated(node)
            finally:
                self._open.pop()
        return self._functions[key]

    def _refuse_errors(self, node: Node) -> None:
        """Raise what clang says of the lines of a function."""
        place, end = place_of(node), last_line(node)
        for error in self.tree.errors:
            is_of_file = place is not None and place.file == self.tree.path
            if place is not None and is_of_file and place.line <= error.line <= end:
                raise self._said(error)

    def _said(self, error: Diagnostic) -> LanguageError:
        spot = SourceSpot.of_line(self.tree.path, error.line, error.column)
        return LanguageError(error.message, spot)

    def _translated(self, node: Node) -> Translated:
        place = place_of(node)
        assert place is not None
        called: dict[str, FunctionType] = {}
        shared: dict[str, CType] = {}
        symbols: dict[str, CType] = {}

        def function_name(declaration: Node) -> str:
            there = self._function(declaration)
            shared.update(there.shared)
            symbols.update(there.symbols)
            # Operators have names that are none of Python's.
            text = f"{re.sub(r'[^A-Za-z0-9_]', '_', declaration['name'])}_{declaration['id']}"
            called[text] = there.function
            return text

        made = Translation(node, self._declarations, self.records, function_name)
        parameters = _parameters(made, node)
        records.initialised(made, node)
        (body,) = [n for n in inner(node) if n["kind"] == "CompoundStmt"]
        made.statement(body)
        shared.update(made.shared)
        symbols.update(made.symbols)
        given = list(parameters)
        if _is_kernel(node):
            given += [_name_of(key) for key in symbols]
            made.body[:0] = [*_allocations(shared), *_bindings(symbols)]
        head = _head(node, given, DYNAMIC in shared and _is_kernel(node), made.body)
        located(head, node)
        return Translated(_compiled(head, place.file, called), parameters, shared, symbols)


def _is_kernel(node: Node) -> bool:
    return any(n.get("kind") == "CUDAGlobalAttr" for n in node.get("inner", ()))


def _has_body(node: Node) -> bool:
    return any(n["kind"] == "CompoundStmt" for n in inner(node))


def _name_truths(template: Node, instance: Node) -> None:
    """Say `true` and `false` of an instance's arguments: clang numbers them."""
    parameters = [n for n in inner(template) if n["kind"].endswith("ParmDecl")]
    given = [n for n in inner(instance) if n["kind"] == "TemplateArgument"]
    for parameter, argument in zip(parameters, given, strict=False):
        if type_of(parameter).word == "bool" and "value" in argument:
            argument["value"] = "true" if argument["value"] else "false"


# What people write of types that clang calls otherwise.
_SHOWN = {"_Float16": "half", "__bf16": "__nv_bfloat16"}
_WRITTEN = re.compile("|".join(_SHOWN))


def _as_written(found: re.Match[str]) -> str:
    return _SHOWN[found[0]]


def _parameters(made: Translation, node: Node) -> list[str]:
    """Declare the parameters of a function."""
    names = []
    if records.is_method(node):
        names.append(records.THIS)
        made.names.add(records.THIS)
    for one in inner(node):
        if one["kind"] != "ParmVarDecl" or (is_group(one) and _is_kernel(node)):
            continue
        type_ = type_of(one)
        record = None if type_.shape is not None else made.record(type_)
        if not type_.is_known and not is_group(one) and record is None:
            said = one["type"]["qualType"]
            why = "Apple's GPUs have no double" if type_.word == "double" else ""
            raise unknown(one, why or f"a parameter of type {said} is not translated")
        if type_.is_reference and type_.is_pointer and one["id"] in made.assigned:
            raise unknown(one, "a pointer that changes is no parameter by reference")
        is_place = type_.is_reference and type_.is_value
        variable = made.declare(one, type_, **{"is_cell": True} if is_place else {})
        names.append(variable.name)
        if record is not None and _is_kernel(node):
            whole = made.as_records(name(variable.name), record)
            if not type_.is_pointer:
                whole = call("copied", call("record", whole, call("number", "int", 0)))
            made.emit(assign(variable.name, whole))
        if _is_kernel(node) and type_.is_value and type_.word in PARTS:
            whole = made.element(Pointer(name(variable.name), None, type_)).load()
            made.emit(assign(variable.name, whole))
        if variable.is_cell and not is_place:
            made.emit(assign(variable.name, call("cell", name(variable.name))))
        if type_.is_pointer and one["id"] in made.assigned:
            start(made, variable, None)
    return names


def _allocations(shared: Mapping[str, CType]) -> Iterator[ast.stmt]:
    """What a kernel begins with: memory for all that it and its functions share."""
    for key, type_ in shared.items():
        count: Any = max(type_.size, 1)
        if key == DYNAMIC:
            size = ast.Constant(type_._replace(shape=None).bytes)
            count = ast.BinOp(name(DYNAMIC_BYTES), ast.FloorDiv(), size)
        yield ast.Expr(call("make_shared", key, _name_of(key) or DYNAMIC_BYTES, count, type_.word))


def _bindings(symbols: Mapping[str, CType]) -> Iterator[ast.stmt]:
    """After that: where the variables of the file are."""
    for key in symbols:
        yield ast.Expr(call("bind", key, name(_name_of(key))))


def _name_of(key: str) -> str:
    return key.partition(" ")[0]


def _head(
    node: Node, parameters: list[str], is_dynamic: bool, body: list[ast.stmt]
) -> ast.FunctionDef:
    """The definition in Python."""
    given = [*parameters, DYNAMIC_BYTES] if is_dynamic else parameters
    defaults: list[ast.expr] = [ast.Constant(0)] if is_dynamic else []
    arguments = ast.arguments([], [ast.arg(one) for one in given], None, [], [], None, defaults)
    text = re.sub(r"[^A-Za-z0-9_]", "_", node["name"])
    made: Any = ast.parse(f"def {text}(): pass").body[0]
    for field in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
        delattr(made, field)
    made.args, made.body = arguments, body or [ast.Pass()]
    return made  # type: ignore[no-any-return]


def _compiled(head: ast.FunctionDef, file: str, called: Mapping[str, Any]) -> FunctionType:
    head = unshared(head)  # type: ignore[assignment]
    module = ast.fix_missing_locations(ast.Module([head], []))
    # What is in the prelude is done where the file calls it.
    file = prelude.__file__ if file.endswith(PRELUDE) else file
    code = next(c for c in compile(module, file, "exec").co_consts if isinstance(c, CodeType))
    TRANSLATED[code] = head
    made = FunctionType(code, {"__name__": _MODULE, WORDS: words, **called}, head.name)
    defaults = [one.value for one in head.args.defaults if isinstance(one, ast.Constant)]
    if defaults:
        made.__defaults__ = tuple(defaults)
        made.__annotations__ = {DYNAMIC_BYTES: constexpr}
    return made
