"""Passes over any IR."""

from iris.passes.generic import canonicalize, cse, dce, expand_math, fold, licm

__all__ = ["canonicalize", "cse", "dce", "expand_math", "fold", "licm"]
