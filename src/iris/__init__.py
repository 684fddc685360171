"""Iris: a tile-level compiler for Apple GPUs."""
