"""How large the tiles of a kernel may be."""

from __future__ import annotations

MAX_TILE_BYTES = 16 << 10
# How many times as much the tile of a whole row may have, if rows are read again otherwise: 32
# elements of each of 1024 threads.
LONG_ROW = 8
MAX_TILE_DIMENSIONS = 3
