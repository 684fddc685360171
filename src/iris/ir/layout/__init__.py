"""Layouts: linear maps over F2 for who holds what, shape:stride for where in memory it lies."""
