"""`np.einsum` against NumPy's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracing_arrays import agrees, numbers

SIZES = dict(zip("abcdeijklm", (2, 3, 4, 1, 5, 3, 4, 2, 1, 3), strict=True))


def array(labels: str, seed: int) -> Any:
    return numbers(tuple([SIZES[label] for label in labels]), seed=seed)


TEXTS = [
    "i->i",
    "ij->ji",
    "ij->i",
    "ij->",
    "ij",
    "ba",
    "ii->i",
    "ii",
    "ii->",
    "iij->ij",
    "iji->j",
    "iiij->j",
    "i,i->",
    "i,i",
    "i,i->i",
    "i,j->ij",
    "i,j->ji",
    "ij,jk->ik",
    "ij,jk",
    "ij,jk->ki",
    "ij,kj->ik",
    "ji,jk->ik",
    "bij,bjk->bik",
    "bij,bkj->bki",
    "bij,jk->bik",
    "ij,bjk->bik",
    "bij,kj->kib",
    "bji,jk->bik",
    "abi,acj->bc",
    "aib,ci->abc",
    "ij,jk,kl->il",
    "ij,jk,kl->li",
    "i,i,i->i",
    "i,j,k->kji",
    "ij,ij,ij->",
    "abc,bcd,cda->b",
    "ij,ik,il,im->jklm",
    "ab,cd->",
    "ab,cd->ac",
    "ijk,jil->kl",
    "ii,ij->j",
    "ii,jj->ij",
    "d,dj->j",
    ",ij->ij",
    ",->",
    "ij,->j",
]


@pytest.mark.parametrize("text", TEXTS)
def test_texts(text: str) -> None:
    parts = text.partition("->")[0].split(",")
    arrays = [array(part, seed) for seed, part in enumerate(parts)]
    agrees(lambda *x: np.einsum(text, *x), *arrays, dtype=np.float32)
    spaced = text.replace(",", " , ").replace("->", " -> ")
    agrees(lambda *x: np.einsum(spaced, *x, optimize=True), *arrays)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("...", [(2, 3)]),
        ("...->...", [(2, 3)]),
        ("...i->...", [(2, 3)]),
        ("...ij->...ji", [(2, 1, 3, 4)]),
        ("i...->...i", [(2, 3, 4)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (5, 3, 4)]),
        ("...ij,...jk->...ik", [(5, 1, 2, 3), (4, 3, 2)]),
        ("...ij,jk->...ik", [(5, 2, 3), (3, 4)]),
        ("...i,...i", [(2, 3), (3,)]),
        ("...,...", [(2, 3), (3,)]),
        ("b...i,...ij->...jb", [(2, 4, 3), (4, 3, 5)]),
        ("ij...,jk...->ik...", [(2, 3, 7), (3, 4, 1)]),
        ("ij,jk->ik", [(2, 1), (3, 4)]),
        ("ij,jk->ik", [(2, 0), (0, 4)]),
        ("bij,bjk->bik", [(1, 2, 3), (4, 3, 2)]),
    ],
)
def test_dots_and_broadcasting(text: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [numbers(shape, seed=seed) for seed, shape in enumerate(shapes)]
    agrees(lambda *x: np.einsum(text, *x), *arrays, dtype=np.float32)


def test_numbers_for_axes() -> None:
    x, y = numbers((2, 3)), numbers((3, 4), seed=1)
    agrees(lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [0, 2]), x, y)
    agrees(lambda x, y: np.einsum(x, [0, 1], y, [1, 2]), x, y)
    agrees(lambda x, y: np.einsum(x, [Ellipsis, 1], [1, Ellipsis]), x, y)


def test_concrete_arrays_among_them() -> None:
    agrees(lambda x: np.einsum("ij,jk->ik", x, np.arange(12).reshape(3, 4)), numbers((2, 3)))
    agrees(lambda x: np.einsum("ij,j", x, [1.0, 2.0, 5.0]), numbers((2, 3)))


@st.composite
def contractions(draw: st.DrawFn) -> str:
    """Any text for arrays of `SIZES`."""
    letters = st.sampled_from("abcij")
    inputs = draw(st.lists(st.text(letters, max_size=4), min_size=1, max_size=3))
    known = sorted(set("".join(inputs)))
    result = draw(st.permutations(known)) if known else []
    count = draw(st.integers(0, len(result)))
    return f"{','.join(inputs)}->{''.join(result[:count])}"


@given(contractions())
def test_any_text(text: str) -> None:
    parts = text.partition("->")[0].split(",")
    arrays = [array(part, seed) for seed, part in enumerate(parts)]
    agrees(lambda *x: np.einsum(text, *x), *arrays, ulps=0, near=1e-6)


@pytest.mark.parametrize("text", ["ij,j,j->i", "ij,j,i->j", "ij,jk,j->ik", "ij,j,i->"])
def test_products_of_three_narrow_integers_do_not_wrap(text: str) -> None:
    given = [np.full([2] * len(part), 30, np.uint8) for part in text.partition("->")[0].split(",")]
    agrees(lambda *x: np.einsum(text, *x), *given, dtype=np.uint32)
