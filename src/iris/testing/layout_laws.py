"""What must hold of layouts, by the enumeration of all their locations.

    @given(layouts.linear())
    def test_my_layout(layout):
        check_linear(layout)

Nothing here computes with bits as `iris.ir.layout` does: a layout is a table, made of its
definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

from iris.errors import LayoutError
from iris.ir.layout.algebra import (
    coalesce,
    complement,
    composition,
    left_inverse,
    logical_divide,
    logical_product,
    right_inverse,
)
from iris.ir.layout.convert import Movement, convert
from iris.ir.layout.cute import Layout
from iris.ir.layout.linear import LinearLayout

Coordinate = tuple[int, ...]
Table = dict[Coordinate, Coordinate]  # the element at each location


def check_linear(layout: LinearLayout) -> None:
    """Asserts that what can be asked of a layout, and made of it, is what its definition says.

    check_linear(LinearLayout.of((4,), register=[1], lane=[2, 0], simdgroup=[]))
    """
    table = enumerated(layout)
    for location, element in table.items():
        given = dict(zip(layout.dims, location, strict=True))
        assert layout.apply(**given) == element, f"{layout} at {given}"
    held = set(table.values())
    every = set(product(*map(range, layout.shape)))
    _agree(layout, "is_surjective", layout.is_surjective, held == every)
    _agree(layout, "is_injective", layout.is_injective, len(held) == len(table))
    _check_kernel(layout, table)
    _check_inverses(layout, table)
    _check_views(layout, table)


def check_conversion(source: LinearLayout, target: LinearLayout) -> None:
    """Asserts that a conversion reads the right elements, from no farther than it must."""
    conversion = convert(source, target)
    held, pull = enumerated(source), enumerated(conversion.pull)
    here, threads, simdgroups = (
        {(*location[kept:], element) for location, element in held.items()} for kept in (0, 1, 2)
    )
    needed = Movement.NOTHING if source.sizes == target.sizes else Movement.REGISTERS
    for location, element in enumerated(target).items():
        assert held[pull[location]] == element, f"{source} to {target}: wrong at {location}"
        reached = [
            (*location[kept:], element) in some
            for kept, some in enumerate((here, threads, simdgroups))
        ]
        nearest = reached.index(True) if True in reached else len(reached)
        needed = max(needed, Movement(nearest))
    moves = conversion.movement
    assert moves is needed, f"{source} to {target}: by {moves.name}, not {needed.name}"


def enumerated(layout: LinearLayout) -> Table:
    """The element at each location: the images of the bits of a location that are 1, added up
    without carries."""
    table: Table = {}
    for location in product(*map(range, layout.sizes)):
        element = [0] * layout.rank
        for number, (_, images) in zip(location, layout.bases, strict=True):
            for bit, image in enumerate(images):
                if number >> bit & 1:
                    element = [a ^ b for a, b in zip(element, image, strict=True)]
        table[location] = tuple(element)
    return table


def _agree(layout: object, what: str, found: object, expected: object) -> None:
    assert found == expected, f"{what} of {layout} is {found}, not {expected}"


def _check_kernel(layout: LinearLayout, table: Table) -> None:
    """The locations of the first element, as many for each, are spanned by the kernel."""
    zero = (0,) * layout.rank
    found = {(0,) * len(layout.dims)}
    for vector in layout.kernel():
        found |= {tuple(a ^ b for a, b in zip(v, vector, strict=True)) for v in found}
    _agree(layout, "the kernel", found, {at for at, e in table.items() if e == zero})


def _check_inverses(layout: LinearLayout, table: Table) -> None:
    for invert, exists in (
        (LinearLayout.right_inverse, layout.is_surjective),
        (LinearLayout.invert, layout.is_surjective and layout.is_injective),
    ):
        if not exists:
            continue
        inverse = enumerated(invert(layout))
        for element in set(table.values()):
            _agree(layout, f"where {element} is", table.get(inverse.get(element, ())), element)


def _check_views(layout: LinearLayout, table: Table) -> None:
    """Whoever holds an element holds it in another shape, too."""
    shape = layout.shape
    turned = tuple(reversed(range(layout.rank)))
    views: list[tuple[str, LinearLayout, Callable[[Coordinate], Coordinate]]] = [
        ("flat", layout.reshape((layout.num_elements,)), lambda e: (_row_major(e, shape),)),
        ("transposed", layout.transpose(turned), lambda e: tuple([e[axis] for axis in turned])),
        ("expanded", layout.expand(0), lambda e: (0, *e)),
    ]
    if layout.rank > 1:
        views.append(("sliced", layout.slice(0), lambda e: e[1:]))
    for name, view, moved in views:
        found = {at: moved(element) for at, element in table.items()}
        _agree(layout, name, enumerated(view), found)


def _row_major(element: Coordinate, shape: Coordinate) -> int:
    flat = 0
    for coordinate, size in zip(element, shape, strict=True):
        flat = flat * size + coordinate
    return flat


# Layouts by shape and stride: lists of offsets.


def check_cute(a: Layout, b: Layout) -> None:
    """Asserts the equations of the layout algebra, for those operations that have an answer."""
    offsets, inner = _offsets(a), _offsets(b)
    for index, offset in enumerate(offsets):
        _agree(a, f"offset {index}", a(index), offset)
    for same in (coalesce(a), a.flatten()):
        _agree(a, f"{same}", _offsets(same), offsets)
    _agree(a, "the size", (a.size, a.cosize), (len(offsets), 1 + max(offsets)))
    made = answer(composition, a, b)
    if made is not None:
        _agree(a, f"the composition with {b}", _offsets(made), [offsets[i] for i in inner])
    for index, place in enumerate(_offsets(right_inverse(a))):
        _agree(a, f"the right inverse at {index}", offsets[place], index)
    left = answer(left_inverse, a)
    if left is not None and len(set(offsets)) == len(offsets):
        for index, offset in enumerate(offsets):
            _agree(a, f"the left inverse of {offset}", left(offset), index)
    _check_cover(a, a.cosize + b.size)
    _check_products(a, b)


def _check_cover(a: Layout, count: int) -> None:
    """A layout and its complement reach every number once."""
    rest = answer(complement, a, count)
    if rest is not None:
        found = sorted(i + j for i in set(_offsets(a)) for j in _offsets(rest))
        _agree(a, f"what {rest} covers", found, list(range(len(found))))
        assert len(found) >= count, f"{rest} and {a} cover {len(found)} numbers, not {count}"


def _check_products(a: Layout, b: Layout) -> None:
    divided = answer(logical_divide, a, b)
    if divided is not None:
        first, *_ = divided.modes
        _agree(a, f"the tile {b}", _offsets(first), [_offsets(a)[i] for i in _offsets(b)])
    repeated = answer(logical_product, a, b)
    if repeated is not None:
        _agree(a, f"the tile of {repeated}", _offsets(repeated.modes[0]), _offsets(a))
        tiles = [{i + j for i in _offsets(a)} for j in set(_offsets(repeated.modes[1]))]
        _agree(a, f"tiles of {repeated} that meet", sum(map(len, tiles)), len(_union(tiles)))


def _union(sets: Iterable[set[int]]) -> set[int]:
    return set[int]().union(*sets)


def _offsets(layout: Layout) -> list[int]:
    """The offsets of all coordinates, the leftmost running fastest."""
    offsets = [0]
    for size, stride in layout.flat:
        offsets = [offset + c * stride for c in range(size) for offset in offsets]
    return offsets


def answer(operation: Callable[..., Layout], *arguments: Any) -> Layout | None:
    """What an operation of the algebra gives, if it has an answer."""
    try:
        return operation(*arguments)
    except LayoutError:
        return None
