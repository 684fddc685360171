"""Renews the parts of a page that are made from data."""

from __future__ import annotations

from collections.abc import Mapping


def renewed(text: str, parts: Mapping[str, str]) -> str:
    """A page with each part written anew between its two marks, `<!-- NAME -->`."""
    for name, part in parts.items():
        mark = f"<!-- {name} -->\n"
        before, _, rest = text.partition(mark)
        text = before + mark + part + mark + rest.partition(mark)[2]
    return text
