"""Names of types: clang spells out those behind pointers and in templates as the file does."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from iris.frontend.cuda.clang import Node, inner, walk
from iris.frontend.cuda.enums import integers_of

_ALIASES = ("TypedefDecl", "TypeAliasDecl")
_RECORDS = ("CXXRecordDecl", "ClassTemplateSpecializationDecl")
_FUNCTIONS = (
    *("FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXConversionDecl"),
    "FunctionTemplateDecl",
)
_ANY = "?"  # a type of no file
_MOST = 8  # aliases of aliases


def full_name(node: Node) -> str:
    """`reduce`, or `reduce<float, 256>` of a template."""
    given = []
    for one in inner(node):
        if one["kind"] == "TemplateArgument":
            said = one.get("type", {}).get("qualType", one.get("value"))
            given.append(str(one.get("decl", {}).get("name") if said is None else said))
    text: str = node.get("name", "")
    return f"{text}<{', '.join(given)}>" if given else text


class _Scope(NamedTuple):
    """Where names are declared."""

    path: str = ""  # as clang writes it before a name: `ns::Record::`
    prefixes: tuple[str, ...] = ("",)  # what a file may write instead

    def namespace(self, node: Node) -> _Scope:
        """Within a namespace, where a file need not write its name; nor around an open one."""
        name = node.get("name", "(anonymous namespace)")
        path = self.path if node.get("isInline") else f"{self.path}{name}::"
        named = tuple(f"{one}{name}::" for one in self.prefixes)
        is_open = "name" not in node or node.get("isInline")
        return _Scope(path, named + (self.prefixes if is_open else ("",)))

    def record(self, name: str) -> _Scope:
        """Within a struct."""
        return _Scope(f"{self.path}{name}::", tuple(f"{one}{name}::" for one in self.prefixes))


def desugar(declarations: Sequence[Node]) -> None:
    """Say of each type in the tree what its aliases stand for, and what holds its enums."""
    known: dict[str, str] = {}
    enums: dict[str, str | None] = {}
    for scope, name, meaning, node in _named(declarations, _Scope(), {}):
        for prefix in scope.prefixes if name else ():
            written = prefix + name
            if known.setdefault(written, meaning) != meaning:
                known[written] = _ANY  # which of them is meant, its name does not tell
        if node["kind"] == "EnumDecl":
            integers = integers_of(node)
            enums[meaning] = integers if enums.get(meaning, integers) == integers else None
    names = _pattern({name for name, meaning in known.items() if name != meaning})
    alias = re.compile(rf"(?<![\w:])(?:typename |enum )?{names}(?![\w:])")
    held = {name: integers for name, integers in enums.items() if integers is not None}
    # Not in the arguments of templates, where an enum is another type than its integers.
    enum = re.compile(rf"((?:const |volatile )*)(?:enum )?{_pattern(held)}(?=$|[ *&\[])")

    def resolved(text: str) -> str:
        # Of a type that is behind no pointer or reference, clang gives the whole name.
        if re.search(r"[*&[]", text):
            for _ in range(_MOST):
                text, changed = alias.subn(lambda found: known[found[1]], text)
                if not changed:
                    break
        found = enum.match(text)
        return text if found is None else f"{found[1]}{held[found[2]]}{text[found.end() :]}"

    texts: dict[str, str] = {}
    for declaration in declarations:
        for node in walk(declaration):
            for field in ("type", "argType", "computeLHSType"):
                said = node.get(field)
                if said is not None and "qualType" in said:
                    text = said.get("desugaredQualType", said["qualType"])
                    if text not in texts:
                        texts[text] = resolved(text)
                    said["desugaredQualType"] = texts[text]


def _pattern(names: Collection[str]) -> str:
    """One of some names, as a group."""
    longest = sorted(names, key=len, reverse=True)
    return f"({'|'.join(map(re.escape, longest)) or '(?!)'})"


_Named = tuple[_Scope, str, str, Node]  # where, the name, what clang calls it, the declaration


def _named(nodes: Sequence[Node], scope: _Scope, scopes: dict[str, _Scope]) -> Iterator[_Named]:
    """The types that a file declares; notes of each struct what clang calls it."""
    names = _names_by_typedef(nodes)
    for node in nodes:
        kind = node.get("kind")
        # Of `struct ns::S { };` the scope is another than where it stands.
        there = scopes.get(node.get("parentDeclContextId", ""), scope)
        if kind in _ALIASES:
            said = node["type"]
            yield scope, node["name"], said.get("desugaredQualType", said["qualType"]), node
        elif kind == "EnumDecl":
            name = node.get("name", names.get(node["id"], ""))
            constants = [one["type"]["qualType"] for one in inner(node)]
            yield there, name, constants[0] if constants else there.path + name, node
        elif kind == "NamespaceDecl":
            within = scopes[node["id"]] = scope.namespace(node)
            yield from _named(inner(node), within, scopes)
        elif kind in ("LinkageSpecDecl", "ClassTemplateDecl"):
            yield from _named(inner(node), scope, scopes)
        elif kind in _RECORDS:
            name = node.get("name", names.get(node["id"], ""))
            yield there, name, there.path + name, node
            whole = full_name(node) or name
            node["type_name"] = there.path + whole
            within = scopes[node["id"]] = there.record(whole)
            if node.get("completeDefinition"):
                yield from _named(inner(node), within, scopes)
        elif kind in _FUNCTIONS:
            # Clang writes names that a function declares without their scopes.
            for one in walk(node):
                if one.get("kind") == "DeclStmt":
                    yield from _named(inner(one), _Scope(), scopes)


def _names_by_typedef(nodes: Sequence[Node]) -> dict[str, str]:
    """Of structs and enums without names, by their ids, those that `typedef` gives."""
    names = {}
    for node in nodes:
        if node.get("kind") == "TypedefDecl":
            for one in inner(node):
                owned = one.get("ownedTagDecl", {"name": "none"})
                if not owned["name"]:
                    names[owned["id"]] = node["name"]
    return names
