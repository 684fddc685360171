"""Passes over any IR."""

from iris.passes.generic import canonicalize, cse, dce, fold, licm

__all__ = ["canonicalize", "cse", "dce", "fold", "licm"]
