"""How large the tiles of a kernel may be."""

from __future__ import annotations

MAX_TILE_BYTES = 16 << 10
MAX_TILE_DIMENSIONS = 3
