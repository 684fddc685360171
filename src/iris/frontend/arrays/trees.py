"""Trees of tuples, lists and dicts, taken apart into their leaves and put together again."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Leaf(NamedTuple):
    """What is in a tree where it goes no further, and a name for the way there."""

    name: str
    value: Any


@dataclass(frozen=True)
class Tree:
    """The shape of a tree, which compares and hashes.

    `kind` is None for a leaf; None itself is a tree without leaves.
    """

    kind: type | None
    keys: tuple[Hashable, ...] = ()
    children: tuple[Tree, ...] = ()

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return 1 if self.kind is None else sum([child.leaves for child in self.children])

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The tree of this shape with these leaves, in order."""
        return self._take(iter(leaves))

    def _take(self, leaves: Iterator[Any]) -> Any:
        if self.kind is None:
            return next(leaves)
        parts = [child._take(leaves) for child in self.children]
        if self.kind is dict:
            return dict(zip(self.keys, parts, strict=True))
        if self.kind is type(None):
            return None
        return self.kind(*parts) if hasattr(self.kind, "_fields") else self.kind(parts)


LEAF = Tree(None)


def flatten(tree: Any, name: str) -> tuple[list[Leaf], Tree]:
    """The leaves of a tree, in order, and its shape."""
    leaves: list[Leaf] = []
    shape = _flatten(tree, name, leaves.append)
    return leaves, shape


def _flatten(tree: Any, name: str, add: Callable[[Leaf], None]) -> Tree:
    if tree is None:
        return Tree(type(None))
    if isinstance(tree, dict):
        keys = tuple(tree)
        children = [_flatten(v, _joined(name, k), add) for k, v in tree.items()]
        return Tree(dict, keys, tuple(children))
    if isinstance(tree, (tuple, list)):
        fields = getattr(type(tree), "_fields", None)
        kind = type(tree) if fields else list if isinstance(tree, list) else tuple
        labels = fields or range(len(tree))
        children = [_flatten(v, _joined(name, k), add) for k, v in zip(labels, tree, strict=True)]
        return Tree(kind, (), tuple(children))
    add(Leaf(name, tree))
    return LEAF


def _joined(name: str, key: object) -> str:
    """`layers_0_w`: a name that the text of the IR takes."""
    part = re.sub(r"\W", "_", str(key), flags=re.ASCII)
    return f"{name}_{part}" if name else part
