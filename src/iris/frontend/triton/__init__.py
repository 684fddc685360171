"""Triton's language over the tracer of tiles: its words, and its meaning of operators."""
