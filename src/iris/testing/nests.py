"""Names in tuples, lists and dicts, as users keep arrays together.

    tree = nest(["a0", "a1", "a2"], choices)    # {"w": "a1", "b": ["a0", ("a2",)]}

The kit puts trees together and takes them apart itself: the code of Iris that does so has no part
in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from iris.testing.choices import Choices


class Pair(NamedTuple):
    """A tree of two parts, as users name them."""

    low: Any
    high: Any


#: A name, None, or a tuple, list, dict or `Pair` of such.
Nest: TypeAlias = Any
# In no order, and so that their order as they come differs from that of any text.
_KEYS = (("w", "b", "a"), (2, 0, 1), ("layer 1", "layer 0", "_"), (1, "b", "a"))


def nest(names: Sequence[str], choices: Choices) -> Nest:
    """A tree that has each of some names once."""
    count = min(len(names), 2 + choices.below(2))
    parts = [names[start::count] for start in range(count)]
    is_leaf = [len(part) == 1 and (count == 1 or choices.flag()) for part in parts]
    made = [
        part[0] if leaf else nest(part, choices) for part, leaf in zip(parts, is_leaf, strict=True)
    ]
    if choices.flag(6):
        made.insert(choices.below(count + 1), None)
    style = choices.below(4)
    if style == 0:
        return made
    if style == 1:
        return Pair(*made) if len(made) == 2 else tuple(made)
    return dict(zip([*choices.of(_KEYS), "last"], made, strict=False))


def _children(tree: Nest) -> Sequence[tuple[Any, Nest]]:
    """The parts of a tree, and how each is got from it."""
    if isinstance(tree, dict):
        return [*tree.items()]
    return [*enumerate(tree)] if isinstance(tree, tuple | list) else []


def filled(tree: Nest, values: Mapping[str, Any], *, turned: bool = False) -> Any:
    """The tree with values in the places of their names; dicts may be filled from their end."""
    if isinstance(tree, str):
        return values[tree]
    if tree is None:
        return None
    parts = [(key, filled(part, values, turned=turned)) for key, part in _children(tree)]
    if isinstance(tree, dict):
        return dict(parts[::-1] if turned else parts)
    made = [part for _, part in parts]
    return Pair(*made) if isinstance(tree, Pair) else type(tree)(made)


def written(tree: Nest) -> str:
    """Python whose value is the tree, where the names are variables."""
    if isinstance(tree, str) or tree is None:
        return str(tree)
    parts = [(key, written(part)) for key, part in _children(tree)]
    if isinstance(tree, dict):
        return f"{{{', '.join([f'{key!r}: {part}' for key, part in parts])}}}"
    within = "".join([f"{part}, " for _, part in parts])
    if isinstance(tree, Pair):
        return f"Pair({within})"
    return f"[{within}]" if isinstance(tree, list) else f"({within})"


def places(tree: Nest, at: str) -> dict[str, str]:
    """For each name, what gets its value out of a variable that has the tree."""
    if isinstance(tree, str):
        return {tree: at}
    return {
        name: place
        for key, part in _children(tree)
        for name, place in places(part, f"{at}[{key!r}]").items()
    }


def leaves_of(tree: Nest, found: Any) -> Iterator[tuple[str, Any]]:
    """The names of a tree, and the values in their places in a tree that must be like it."""
    if isinstance(tree, str):
        yield tree, found
        return
    assert type(found) is type(tree), f"{found!r} is no {type(tree).__name__}"
    parts, others = _children(tree), _children(found)
    keys, other_keys = ([key for key, _ in some] for some in (parts, others))
    assert keys == other_keys, f"it has {other_keys}, not {keys}"
    for (_, part), (_, other) in zip(parts, others, strict=True):
        yield from leaves_of(part, other)
