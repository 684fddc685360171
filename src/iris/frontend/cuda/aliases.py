"""Names of types: clang spells out those behind pointers and in templates as the file does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from iris.frontend.cuda.clang import Node, inner, walk
from iris.frontend.cuda.enums import integers_of

_ALIASES = ("TypedefDecl", "TypeAliasDecl")
_RECORDS = ("CXXRecordDecl", "ClassTemplateSpecializationDecl")
_SCOPES = ("NamespaceDecl", "LinkageSpecDecl", "ClassTemplateDecl")
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


def desugar(declarations: Sequence[Node]) -> None:
    """Say of each type in the tree what its aliases stand for."""
    known: dict[str, str] = {}
    for name, text in _aliases(declarations, ""):
        if known.setdefault(name, text) != text:
            known[name] = name  # which of them is meant, its name does not tell
    known = {name: text for name, text in known.items() if name != text}
    longest = sorted(known, key=len, reverse=True)
    pattern = re.compile(
        rf"(?<![\w:])(?:typename |enum )?({'|'.join(map(re.escape, longest))})(?![\w:<])"
    )

    def resolved(text: str) -> str:
        for _ in range(_MOST):
            text, changed = pattern.subn(lambda found: known[found[1]], text)
            if not changed:
                break
        return text

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


def _aliases(nodes: Sequence[Node], scope: str) -> Iterator[tuple[str, str]]:
    """The aliases and enums that a file, a namespace or a struct declares, and their types."""
    for node in nodes:
        kind = node.get("kind")
        if kind in _ALIASES:
            said = node["type"]
            yield scope + node["name"], said.get("desugaredQualType", said["qualType"])
        elif kind == "EnumDecl" and "name" in node:
            integers = integers_of(node)
            if integers is not None:
                yield scope + node["name"], integers
        elif kind in _SCOPES:
            yield from _aliases(inner(node), scope)
        elif kind in _RECORDS and node.get("completeDefinition"):
            yield from _aliases(inner(node), f"{scope}{full_name(node)}::")
